"""Conditional mean embeddings (Song et al. 2009; Grünewälder et al. 2012).

The law of y at x is represented by its mean in a reproducing kernel Hilbert space,

    μ(x) = Σ_i β_i(x) k_Y(y_i, ·),    β(x) = (K_X + nλI)⁻¹ k_X(x),

so that E[f(Y)|x] is Σ_i β_i(x) f(y_i) for any f of that space. Weights may be negative,
and need not sum to one: as a law they are cut off at zero and normalised. Normals of
one width around the responses with these weights are a density.

Leaving a row out has a closed form: with H = K_X (K_X + nλI)⁻¹ the weights at x_a
without row a are H_ai / (1 − H_aa), nλ being held fixed.
"""

from collections.abc import Callable
from typing import Self

import numpy as np
from scipy import linalg

from kexpfam._heuristics import median_distance
from kexpfam._typing import Array, ArrayLike, Indices, RandomState
from kexpfam._validation import as_generator, check_choice, check_count, check_positive
from kexpfam.baselines.features import (
    KernelFeatures,
    KernelTrials,
    given_or,
    usual_lengthscales,
)
from kexpfam.baselines.standardized import MixtureEstimator, rounding_scales
from kexpfam.data import Rows, distinct_rows
from kexpfam.kernels import Gaussian

_LAMBDAS = tuple(np.logspace(-6.0, 0.0, 7).tolist())
_WIDTHS = tuple(np.logspace(-1.7, 0.3, 13).tolist())


class ConditionalMeanEmbedding(MixtureEstimator):
    """The embedding of p(y|x), with expectations, herding, and a smoothed density.

    Args:
        lengthscale: Of the Gaussian kernel of x, in standard deviations of the columns;
            None to choose it, from 0.2 to 5 median distances.
        regularization: λ; None to choose it, from 10⁻⁶ to 1.
        width: Of the normals that make a density of it, in standard deviations of y;
            None to choose it by leave-one-out likelihood.
        lengthscale_y: Of the Gaussian kernel of y, for herding and for the distance of
            embeddings; None for the median distance.
        select: What is left out decides on lengthscale and λ by the "likelihood" of the
            density, or by the "embedding": the squared distance of μ(x) from the
            embedding of what was observed.
        n_centers: The kernel of x is that of so many random rows at most.
        judged_rows: Rows that are left out one by one, at most.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed of centres and of rows left out, if these are not all.

    Attributes:
        lengthscale_: The lengthscale used.
        regularization_: The λ used.
        width_y_: Widths of the normals, (d,).
        lengthscale_y_: The lengthscale of y.
        selection_: Losses on the grid, `KernelTrials`; None if nothing was chosen.

    References:
        Song, Huang, Smola and Fukumizu, Hilbert Space Embeddings of Conditional
        Distributions, ICML 2009. Grünewälder et al., Conditional Mean Embeddings as
        Regressors, ICML 2012. Chen, Welling and Smola, Super-Samples from Kernel
        Herding, UAI 2010.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=200)
        >>> model = ConditionalMeanEmbedding(random_state=0).fit(x, y)
        >>> model.expectation([[0.5]], np.cos).round(1)
        array([0.5])
        >>> model.herd([[0.5]], 50).mean().round(1)
        np.float64(1.0)
    """

    selection_: KernelTrials | None

    def __init__(
        self,
        *,
        lengthscale: float | None = None,
        regularization: float | None = None,
        width: float | None = None,
        lengthscale_y: float | None = None,
        select: str = "likelihood",
        n_centers: int = 500,
        judged_rows: int = 500,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.regularization = regularization
        self.width = width
        self.lengthscale_y = lengthscale_y
        self.select = select
        self.n_centers = n_centers
        self.judged_rows = judged_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows) -> Self:
        m = check_count("n_centers", self.n_centers, least=1)
        most = check_count("judged_rows", self.judged_rows, least=2)
        check_choice("select", self.select, ("likelihood", "embedding"))
        rows = self._standardized(rows)
        # A row that has a twin is not left out by leaving out one of them.
        used, weights = distinct_rows(rows.X, rows.Y, rows.weights)
        rows = Rows(rows.X[used], rows.Y[used], weights / weights.sum())
        ells, lams, widths = self._candidates(rows)
        rng = as_generator(self.random_state)
        centers = rows.X[rng.permutation(len(rows))[:m]]
        left_out = np.sort(rng.permutation(len(rows))[:most])
        self.selection_ = None
        if max(len(ells), len(lams), len(widths)) > 1:
            trials = Trials(rows, left_out, self.lengthscale_y_, widths)
            losses, best = trials.losses(centers, ells, lams, self.select)
            self.selection_ = KernelTrials(ells, lams, losses)
            i, j = np.unravel_index(np.argmin(losses), losses.shape)
            ells, lams, widths = ells[[i]], lams[[j]], widths[[best[i, j]]]
        self.lengthscale_, self.regularization_ = float(ells[0]), float(lams[0])
        self.width_y_ = np.full(rows.Y.shape[1], float(widths[0]))
        self.features_ = KernelFeatures.on(centers, self.lengthscale_)
        ridge = EmbeddingRidge(self.features_.of(rows.X), rows.weights)
        self.coefficients_ = ridge.coefficients(self.regularization_)
        self.centers_y_, self.shares_ = rows.Y, rows.weights
        return self

    def _candidates(self, rows: Rows) -> tuple[Array, Array, Array]:
        self.lengthscale_y_ = (
            median_distance(rows.Y, rows.weights)
            if self.lengthscale_y is None
            else check_positive("lengthscale_y", self.lengthscale_y)
        )
        # Narrower ones would only find the grid of rounded responses.
        widths = np.maximum(_WIDTHS, rounding_scales(rows.Y).max())
        return (
            given_or(self, "lengthscale", usual_lengthscales(rows)),
            given_or(self, "regularization", np.array(_LAMBDAS)),
            given_or(self, "width", widths),
        )

    def weights(self, X: ArrayLike) -> Array:
        """β(x) of the distinct training rows at each row of X, (n, k).

        They may be negative, and sum to about one only where there are rows nearby.
        """
        return self._embedding(self._scaled(self._conditions(X, least=0)))

    def expectation(
        self, X: ArrayLike, function: Callable[[Array], ArrayLike]
    ) -> Array:
        """E[f(Y)|x] as the embedding has it, Σ_i β_i(x) f(y_i).

        Args:
            X: The conditions.
            function: Takes the training responses, (k,) or (k, d), in the user's units,
                and gives (k,) or (k, q) values.

        Returns:
            (n,) or (n, q).
        """
        values = np.asarray(function(self._responses), dtype=float)
        if values.shape[:1] != (len(self.centers_y_),):
            raise ValueError(
                f"function must give a value for each of the {len(self.centers_y_)} "
                f"responses, got shape {values.shape}."
            )
        return self.weights(X) @ values

    def herd(self, X: ArrayLike, n_samples: int = 1) -> Array:
        """Draws by kernel herding, (n, n_samples) or (n, n_samples, d).

        Each is the training response that brings the mean embedding of all so far
        closest to that of the law at x. There is nothing random about them; the first k
        are a good sample for every k, with a smaller error than k independent draws.
        """
        count = check_count("n_samples", n_samples, least=1)
        shares = self._shares(self._scaled(self._conditions(X, least=0)))
        gram = Gaussian(self.lengthscale_y_)(self.centers_y_, self.centers_y_)
        wanted, taken = shares @ gram, np.zeros(shares.shape)
        chosen = np.empty((len(shares), count), dtype=np.intp)
        for step in range(count):
            chosen[:, step] = np.argmax(wanted - taken / (step + 1), axis=1)
            taken += gram[chosen[:, step]]
        return self._responses[chosen]

    @property
    def _responses(self) -> Array:
        """In the user's units, (k,) or (k, d)."""
        values = self.centers_y_ * self.y_scale_ + self.y_center_
        return values[:, 0] if values.shape[1] == 1 else values

    def _embedding(self, Z: Array) -> Array:
        return self.features_.of(Z) @ self.coefficients_

    def _shares(self, Z: Array) -> Array:
        return as_shares(self._embedding(Z), self.shares_)

    def _log_weights(self, Z: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self._shares(Z))


class EmbeddingRidge:
    """Regression of embeddings on features of x, decomposed once for all λ."""

    def __init__(self, features: Array, shares: Array) -> None:
        self._root = np.sqrt(shares)
        self._U, self._s, self._Vt = linalg.svd(
            self._root[:, None] * features, full_matrices=False
        )

    def coefficients(self, lam: float) -> Array:
        """What gives weights of all rows from features, (r, n)."""
        gain = self._s / (self._s**2 + lam)
        return (self._Vt.T * gain) @ (self._U.T * self._root)

    def without(self, rows: Indices, lam: float) -> Array:
        """Weights at some rows, each of which is left out, (m, n)."""
        gain = self._s**2 / (self._s**2 + lam)
        hat = (self._U[rows] * gain) @ self._U.T
        hat *= self._root / self._root[rows, None]
        place = np.arange(len(rows)), rows
        own = hat[place]
        hat[place] = 0.0
        return hat / np.maximum(1.0 - own, np.finfo(float).eps)[:, None]


class Trials:
    """Rows left out one by one, under each lengthscale and λ."""

    def __init__(
        self, rows: Rows, left_out: Indices, lengthscale_y: float, widths: Array
    ) -> None:
        self._rows, self._left_out = rows, left_out
        self._share = rows.weights[left_out] / rows.weights[left_out].sum()
        Y, d = rows.Y, rows.Y.shape[1]
        self._gram = Gaussian(lengthscale_y)(Y, Y)
        # Normals around all responses at each response left out, (w, m, n).
        self._normals = np.stack(
            [
                Gaussian(float(h))(Y[left_out], Y) / (np.sqrt(2.0 * np.pi) * h) ** d
                for h in widths
            ]
        )

    def losses(
        self, centers: Array, ells: Array, lams: Array, select: str
    ) -> tuple[Array, Indices]:
        """Losses, and which width is best for each, (k, l)."""
        losses = np.empty((len(ells), len(lams)))
        best = np.empty(losses.shape, dtype=np.intp)
        for i, ell in enumerate(ells):
            phi = KernelFeatures.on(centers, float(ell)).of(self._rows.X)
            ridge = EmbeddingRidge(phi, self._rows.weights)
            for j, lam in enumerate(lams):
                weights = ridge.without(self._left_out, float(lam))
                per_width = self._log_losses(weights)
                best[i, j] = int(np.argmin(per_width))
                losses[i, j] = (
                    per_width.min()
                    if select == "likelihood"
                    else self._distance(weights)
                )
        return losses, best

    def _log_losses(self, weights: Array) -> Array:
        shares = as_shares(weights, self._rows.weights)
        p = np.einsum("mn,wmn->wm", shares, self._normals, optimize=True)
        # A row that nothing reaches must not decide everything.
        return -np.maximum(np.log(np.maximum(p, 1e-300)), -20.0) @ self._share

    def _distance(self, weights: Array) -> float:
        """‖k(y_a, ·) − μ(x_a)‖² on average."""
        inner = weights @ self._gram
        own = np.einsum("mn,mn->m", weights, self._gram[self._left_out])
        squares = 1.0 - 2.0 * own + np.einsum("mn,mn->m", inner, weights)
        return float(squares @ self._share)


def as_shares(weights: Array, usual: Array) -> Array:
    """The positive part of weights (n, k), normalised; the usual where there is none.

    Example:
        >>> as_shares(np.array([[0.3, -0.1, 0.1], [0.0, 0.0, 0.0]]), np.ones(3) / 3)
        array([[0.75      , 0.        , 0.25      ],
               [0.33333333, 0.33333333, 0.33333333]])
    """
    positive = np.maximum(weights, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    some = total > 1e-200  # smaller ones are rounding far from all rows
    return np.where(some, positive / np.where(some, total, 1.0), usual)
