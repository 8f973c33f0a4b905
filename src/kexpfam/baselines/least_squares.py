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
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from kexpfam._typing import Array, ArrayLike, Indices, RandomState
from kexpfam._validation import as_generator, check_count, check_positive
from kexpfam.baselines.standardized import MixtureEstimator
from kexpfam.data import training_rows

# The grid on which the paper on conditional exponential families tuned this method has
# twenty values of each; it does not print them. These span the ranges of the authors'
# own code, in standard deviations of the columns.
WIDTHS = tuple(np.logspace(-1.5, 1.5, 20).tolist())
REGULARIZATIONS = tuple(np.logspace(-3.0, 1.0, 20).tolist())

SELECTIONS = ("likelihood", "squared_loss")


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

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows (x, y).

        Args:
            X: Conditions, (n, p).
            y: Responses, (n,) or (n, d).
            sample_weight: Weight of each row.
        """
        rows = training_rows(self, X, y, sample_weight)
        k = check_count("n_centers", self.n_centers, least=1)
        cv = check_count("cv", self.cv, least=2)
        if self.select not in SELECTIONS:
            raise ValueError(
                f"select must be one of {', '.join(map(repr, SELECTIONS))}, got "
                f"{self.select!r}."
            )
        widths = _candidates("width", self.width, self.widths, WIDTHS)
        lams = _candidates(
            "regularization",
            self.regularization,
            self.regularizations,
            REGULARIZATIONS,
        )
        rng = as_generator(self.random_state)
        rows = self._standardized(rows)
        Z, U, weights = rows.X, rows.Y, rows.weights
        used = np.flatnonzero(weights > 0)
        centers = rng.permutation(used)[:k]
        features = Features(Z, U, Z[centers], U[centers], weights)
        self.selection_ = None
        if len(widths) * len(lams) > 1:
            folds = np.array_split(rng.permutation(used), min(cv, len(used)))
            splits = []
            for i, fold in enumerate(folds):
                kept = np.concatenate([*folds[:i], *folds[i + 1 :]])
                centers = rng.permutation(kept)[:k]
                splits.append(Split.of(features, kept, fold, centers))
            losses = held_out_losses(splits, widths, lams, self.select)
            self.selection_ = Chosen(widths, lams, losses)
            best = np.unravel_index(np.argmin(losses), losses.shape)
            widths, lams = widths[[best[0]]], lams[[best[1]]]
        self.width_, self.regularization_ = float(widths[0]), float(lams[0])
        H, h = features.sums(self.width_, used)
        (self.coefficients_,) = solutions(H, h, lams)
        self.centers_x_, self.centers_y_ = features.centers_x, features.centers_y
        self.width_y_ = np.full(U.shape[1], self.width_)
        return self

    def _log_weights(self, Z: Array) -> Array:
        with np.errstate(divide="ignore"):
            log_alpha = np.log(self.coefficients_)
        return log_alpha - 0.5 * _squares(Z, self.centers_x_) / self.width_**2


class Features(NamedTuple):
    """Rows and centres, standardised, and their weights."""

    Z: Array  # conditions, (n, p)
    U: Array  # responses, (n, d)
    centers_x: Array  # (k, p)
    centers_y: Array  # (k, d)
    weights: Array  # (n,)

    def matrices(self, width: float, rows: Indices) -> tuple[Array, Array]:
        """Factors of φ in x and in y at some rows, (m, k) each."""
        in_x = np.exp(-0.5 * _squares(self.Z[rows], self.centers_x) / width**2)
        in_y = np.exp(-0.5 * _squares(self.U[rows], self.centers_y) / width**2)
        return in_x, in_y

    def sums(self, width: float, rows: Indices) -> tuple[Array, Array]:
        """H and h over some rows."""
        in_x, in_y = self.matrices(width, rows)
        share = self.weights[rows] / self.weights[rows].sum()
        H = in_x.T @ (share[:, None] * in_x) * self.products(width)
        return H, share @ (in_x * in_y)

    def products(self, width: float) -> Array:
        """∫ φ_l φ_m dy without the factors in x, (k, k)."""
        d = self.centers_y.shape[1]
        volume = (np.sqrt(np.pi) * width) ** d
        return volume * np.exp(
            -0.25 * _squares(self.centers_y, self.centers_y) / width**2
        )

    def log_volume(self, width: float) -> float:
        """Log ∫ φ_l dy without the factor in x."""
        return self.centers_y.shape[1] * float(np.log(np.sqrt(2.0 * np.pi) * width))


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
    """Rows that are fitted, rows that judge, and features centred on the former.

    A centre on a row that judges would flatter narrow widths.
    """

    features: Features
    kept: Indices
    fold: Indices

    @classmethod
    def of(
        cls, features: Features, kept: Indices, fold: Indices, centers: Indices
    ) -> "Split":
        """With centres on some of the rows that are kept."""
        moved = features._replace(
            centers_x=features.Z[centers], centers_y=features.U[centers]
        )
        return cls(moved, kept, fold)


def held_out_losses(
    splits: list[Split], widths: Array, lams: Array, select: str
) -> Array:
    """Losses of held-out rows for all widths and λ, (s, l)."""
    losses = np.zeros((len(widths), len(lams)))
    for i, width in enumerate(widths):
        for features, kept, fold in splits:
            alphas = solutions(*features.sums(width, kept), lams)
            if select == "squared_loss":
                H, h = features.sums(width, fold)
                loss = 0.5 * np.einsum("lk,km,lm->l", alphas, H, alphas) - alphas @ h
            else:
                share = features.weights[fold] / features.weights[fold].sum()
                loss = -_log_densities(features, width, alphas, fold) @ share
            losses[i] += loss * len(fold)
    return losses / sum(len(split.fold) for split in splits)


def _log_densities(
    features: Features, width: float, alphas: Array, rows: Indices
) -> Array:
    """Log p of some rows under each α, (l, m).

    Where all functions of x vanish, that of the nearest centre decides: exponents are
    relative to the largest of the row.
    """
    squares = 0.5 * _squares(features.Z[rows], features.centers_x) / width**2
    in_x = np.exp(squares.min(axis=1, keepdims=True) - squares)
    in_y = 0.5 * _squares(features.U[rows], features.centers_y) / width**2
    nearest = in_y.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        top = np.log(alphas @ (in_x * np.exp(nearest - in_y)).T) - nearest[:, 0]
        bottom = np.log(alphas @ in_x.T) + features.log_volume(width)
    exact = np.isfinite(top) & np.isfinite(bottom)
    log_p = np.where(exact, top - np.where(exact, bottom, 0.0), 0.0)
    for line in np.flatnonzero(~exact.all(axis=1)):
        log_alpha = np.log(np.maximum(alphas[line], np.finfo(float).tiny))
        full = special.logsumexp(log_alpha - squares - in_y, axis=1)
        full -= special.logsumexp(log_alpha - squares, axis=1)
        full -= features.log_volume(width)
        log_p[line] = np.where(exact[line], log_p[line], full)
    return log_p


def _squares(A: Array, B: Array) -> Array:
    """Squared distances of all pairs, (m, k)."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.maximum(squares, 0.0)


def _candidates(
    name: str,
    given: float | None,
    listed: Sequence[float] | None,
    usual: Sequence[float],
) -> Array:
    values = usual if listed is None else listed
    values = values if given is None else [given]
    if np.ndim(values) != 1 or not len(values):
        raise ValueError(
            f"{name}s must be a list of one or more numbers, got {listed!r}; use "
            f"{name}= for a single one."
        )
    return np.array([check_positive(name, value) for value in values])
