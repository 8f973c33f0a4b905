"""LSCDE: least-squares conditional density estimation (Sugiyama et al. 2010).

The ratio p(x, y)/p(x) is modelled as α·φ(x, y) with Gaussian functions φ_l around some
of the rows, and fitted by least squares,

    J(α) = ½ αᵀHα − hᵀα + λ/2 ‖α‖²,
    H = (1/n) Σ_a ∫ φ(x_a, y) φ(x_a, y)ᵀ dy,   h = (1/n) Σ_a φ(x_a, y_a),

so that α = (H + λI)⁻¹ h, of which the non-negative part is kept. The integral over y is
that of a product of two Gaussians, and so is that of the normaliser: at every x the
estimate is a mixture of normals.

References:
    Sugiyama, Takeuchi, Suzuki, Kanamori, Hachiya and Okanohara, Least-Squares
    Conditional Density Estimation, IEICE Transactions 2010.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import special

from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, check_choice, check_count, check_positive
from kexpfam.baselines.standardized import MixtureEstimator
from kexpfam.data import Rows


class Chosen(NamedTuple):
    """Held-out losses of the grid.

    Attributes:
        widths: (s,).
        regularizations: (l,).
        losses: Mean over folds, lower is better, (s, l).
    """

    widths: Array
    regularizations: Array
    losses: Array


class LSCDE(MixtureEstimator):
    """Least-squares conditional density estimation, a mixture of normals at each x.

    Args:
        width: Width of the Gaussian functions, of x and y alike, in standard deviations
            of the columns; None to choose it by cross-validation.
        regularization: λ; None to choose it.
        n_centers: How many Gaussian functions, at most; they are put on random rows.
        select: What is held out decides by "likelihood", the default of the authors'
            published code, or by "squared_loss", the criterion of the paper, which can
            choose densities that vanish on new rows.
        cv: Folds.
        widths: Widths to choose from; None for 20 from 0.03 to 32.
        regularizations: λ to choose from; None for 20 from 0.001 to 10.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed of centres and folds.

    Attributes:
        width_: The width used.
        regularization_: The λ used.
        coefficients_: α of each centre, not negative, (k,).
        selection_: Losses on the grid, `Chosen`; None if nothing was chosen.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=200)
        >>> model = LSCDE(random_state=0).fit(x, y)
        >>> model.predict([[0.5]]).round(1)
        array([1.])
    """

    def __init__(
        self,
        *,
        width: float | None = None,
        regularization: float | None = None,
        n_centers: int = 100,
        select: str = "likelihood",
        cv: int = 5,
        widths: Sequence[float] | None = None,
        regularizations: Sequence[float] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.width = width
        self.regularization = regularization
        self.n_centers = n_centers
        self.select = select
        self.cv = cv
        self.widths = widths
        self.regularizations = regularizations
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows) -> Self:
        k = check_count("n_centers", self.n_centers, least=1)
        cv = check_count("cv", self.cv, least=2)
        check_choice("select", self.select, ("likelihood", "squared_loss"))
        # The grid on which the paper on conditional exponential families tuned this
        # method has twenty values of each; it does not print them. These span the
        # ranges of the authors' own code, in standard deviations of the columns.
        widths = _candidates(
            "width", self.width, self.widths, np.logspace(-1.5, 1.5, 20)
        )
        lams = _candidates(
            "regularization",
            self.regularization,
            self.regularizations,
            np.logspace(-3.0, 1.0, 20),
        )
        rng = as_generator(self.random_state)
        rows = self._standardized(rows)
        rows = rows[rows.weights > 0]
        functions = GaussianFunctions.on(rows[rng.permutation(len(rows))[:k]])
        self.selection_ = None
        if len(widths) * len(lams) > 1:
            losses = held_out_losses(
                splits(rows, k, cv, rng), widths, lams, self.select
            )
            self.selection_ = Chosen(widths, lams, losses)
            best = np.unravel_index(np.argmin(losses), losses.shape)
            widths, lams = widths[[best[0]]], lams[[best[1]]]
        self.width_, self.regularization_ = float(widths[0]), float(lams[0])
        (self.coefficients_,) = solutions(*functions.sums(self.width_, rows), lams)
        self.centers_x_, self.centers_y_ = functions
        self.width_y_ = np.full(rows.Y.shape[1], self.width_)
        return self

    def _log_weights(self, Z: Array) -> Array:
        with np.errstate(divide="ignore"):
            log_alpha = np.log(self.coefficients_)
        return log_alpha - 0.5 * _squares(Z, self.centers_x_) / self.width_**2


class GaussianFunctions(NamedTuple):
    """Gaussian functions φ around standardised centres, (k, p) and (k, d)."""

    centers_x: Array
    centers_y: Array

    @classmethod
    def on(cls, rows: Rows) -> "GaussianFunctions":
        """One function on each row."""
        return cls(rows.X, rows.Y)

    def sums(self, width: float, rows: Rows) -> tuple[Array, Array]:
        """H and h over some rows."""
        in_x = np.exp(-0.5 * _squares(rows.X, self.centers_x) / width**2)
        in_y = np.exp(-0.5 * _squares(rows.Y, self.centers_y) / width**2)
        share = rows.weights / rows.weights.sum()
        # ∫ φ_l φ_m dy without the factors in x, (k, k).
        products = (np.sqrt(np.pi) * width) ** self.centers_y.shape[1] * np.exp(
            -0.25 * _squares(self.centers_y, self.centers_y) / width**2
        )
        return in_x.T @ (share[:, None] * in_x) * products, share @ (in_x * in_y)

    def log_densities(self, width: float, alphas: Array, rows: Rows) -> Array:
        """Log p of some rows under each α, (l, m).

        Where all functions of x vanish, that of the nearest centre decides: exponents
        are relative to the largest of the row.
        """
        # Log ∫ φ_l dy without the factor in x.
        log_volume = rows.Y.shape[1] * float(np.log(np.sqrt(2.0 * np.pi) * width))
        squares = 0.5 * _squares(rows.X, self.centers_x) / width**2
        in_x = np.exp(squares.min(axis=1, keepdims=True) - squares)
        in_y = 0.5 * _squares(rows.Y, self.centers_y) / width**2
        nearest = in_y.min(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            top = np.log(alphas @ (in_x * np.exp(nearest - in_y)).T) - nearest[:, 0]
            bottom = np.log(alphas @ in_x.T) + log_volume
        exact = np.isfinite(top) & np.isfinite(bottom)
        log_p = np.where(exact, top - np.where(exact, bottom, 0.0), 0.0)
        for line in np.flatnonzero(~exact.all(axis=1)):
            log_alpha = np.log(np.maximum(alphas[line], np.finfo(float).tiny))
            full = special.logsumexp(log_alpha - squares - in_y, axis=1)
            full -= special.logsumexp(log_alpha - squares, axis=1)
            log_p[line] = np.where(exact[line], log_p[line], full - log_volume)
        return log_p


def solutions(H: Array, h: Array, lams: Array) -> Array:
    """The non-negative part of (H + λI)⁻¹h for every λ, (l, k).

    If nothing is positive, h itself, the limit of a large λ.
    """
    # Not SciPy's: its usual routine gives up on some matrices whose entries underflow.
    values, vectors = np.linalg.eigh(H)
    inner = vectors.T @ h
    alphas = (inner / (np.maximum(values, 0.0) + lams[:, None])) @ vectors.T
    alphas = np.maximum(alphas, 0.0)
    return np.where(alphas.any(axis=1, keepdims=True), alphas, h)


class Split(NamedTuple):
    """Rows that are fitted, with functions on some of them, and rows held out.

    A centre on a row that is held out would flatter narrow widths.
    """

    functions: GaussianFunctions
    kept: Rows
    held_out: Rows


def splits(rows: Rows, k: int, cv: int, rng: np.random.Generator) -> list[Split]:
    """Each fold held out in turn, with at most k functions on the others."""
    folds = np.array_split(rng.permutation(len(rows)), min(cv, len(rows)))
    found = []
    for i, fold in enumerate(folds):
        kept = rows[np.concatenate([*folds[:i], *folds[i + 1 :]])]
        functions = GaussianFunctions.on(kept[rng.permutation(len(kept))[:k]])
        found.append(Split(functions, kept, rows[fold]))
    return found


def held_out_losses(
    splits: list[Split], widths: Array, lams: Array, select: str
) -> Array:
    """Losses of held-out rows for all widths and λ, (s, l)."""
    losses = np.zeros((len(widths), len(lams)))
    for i, width in enumerate(widths):
        for functions, kept, held_out in splits:
            alphas = solutions(*functions.sums(width, kept), lams)
            if select == "squared_loss":
                H, h = functions.sums(width, held_out)
                loss = 0.5 * np.einsum("lk,km,lm->l", alphas, H, alphas) - alphas @ h
            else:
                share = held_out.weights / held_out.weights.sum()
                loss = -functions.log_densities(width, alphas, held_out) @ share
            losses[i] += loss * len(held_out)
    return losses / sum(len(split.held_out) for split in splits)


def _squares(A: Array, B: Array) -> Array:
    """Squared distances of all pairs, (m, k)."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.maximum(squares, 0.0)


def _candidates(
    name: str,
    given: float | None,
    listed: Sequence[float] | None,
    usual: Array,
) -> Array:
    values: Any = usual if listed is None else listed
    values = values if given is None else [given]
    if np.ndim(values) != 1 or not len(values):
        raise ValueError(
            f"{name}s must be a list of one or more numbers, got {listed!r}; use "
            f"{name}= for a single one."
        )
    return np.array([check_positive(name, value) for value in values])
