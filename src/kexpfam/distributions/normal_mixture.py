"""Mixtures of normal densities, with weights of their own at each condition.

LSCDE, kernel density estimates and mixture density networks are such densities at every
x. Density, distribution function, moments and draws are closed forms; quantiles are
roots between those of the components; mode, highest-density region and entropy come
from cells in y.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices
from kexpfam.distributions.interface import ExactDensity, SeveralColumns
from kexpfam.distributions.one_column import TabulatedDensity
from kexpfam.partition import cells_holding


class _NormalMixture(ExactDensity):
    """What mixtures of one column and of several share."""

    _at_once = 2**22  # points times components that are held in memory

    def __init__(
        self, log_weights: Array, means: Array, scales: Array, *, single: bool = False
    ) -> None:
        total = special.logsumexp(log_weights, axis=1, keepdims=True)
        if not np.all(np.isfinite(total)):
            raise ValueError("every density needs a component with a positive weight.")
        if not np.all(scales > 0):
            raise ValueError("scales must be positive everywhere.")
        self._log_weights = log_weights - total
        self._means = np.atleast_3d(means) if means.ndim < 3 else means
        self._scales = np.atleast_3d(scales) if scales.ndim < 3 else scales
        self._single = single

    @property
    def weights(self) -> Array:
        """Weights of the components, (n, k)."""
        return self._out(np.exp(self._log_weights))

    def mean(self) -> Array:
        return self._out(self._mean[:, 0] if self._d == 1 else self._mean)

    def std(self) -> Array:
        return self._out(self._std[:, 0] if self._d == 1 else self._std)

    @property
    def _n(self) -> int:
        return len(self._log_weights)

    @cached_property
    def _mean(self) -> Array:
        """(n, d)."""
        return self._expected(np.broadcast_to(self._means, self._shape))

    @property
    def _shape(self) -> tuple[int, int, int]:
        return (*self._log_weights.shape, self._d)

    def _expected(self, values: Array) -> Array:
        """Weighted means of a number of each component, (n, k, d) -> (n, d)."""
        return np.einsum("nk,nkd->nd", np.exp(self._log_weights), values)

    @cached_property
    def _std(self) -> Array:
        """(n, d)."""
        offsets = self._means - self._mean[:, None]
        return np.sqrt(self._expected(offsets**2 + self._scales**2))

    def _in_blocks(
        self,
        work: Callable[[Array, Indices], Array],
        Y: Array,
        rows: Indices | None = None,
    ) -> Array:
        """What `work` makes of points (m, q, ...) of some rows, a few at a time."""
        rows = np.arange(len(Y)) if rows is None else rows
        step = max(1, self._at_once // max(1, Y.shape[1] * self._log_weights.shape[1]))
        blocks = [slice(i, i + step) for i in range(0, max(len(Y), 1), step)]
        return np.concatenate([work(Y[block], rows[block]) for block in blocks])

    def _parts(self, rows: Indices) -> tuple[Array, Array, Array]:
        """Log weights (m, 1, k), means and scales (m or 1, 1, k, d) of some rows."""
        means = self._means if len(self._means) == 1 else self._means[rows]
        scales = self._scales if len(self._scales) == 1 else self._scales[rows]
        return self._log_weights[rows, None], means[:, None], scales[:, None]

    def _log_pdf(self, Y: Array) -> Array:
        return self._in_blocks(
            lambda y, some: special.logsumexp(self._log_terms(y, some)[0], axis=2), Y
        )

    def _log_terms(self, Y: Array, rows: Indices) -> tuple[Array, Array, Array]:
        """Log w_c p_c (m, q, k), standardised points (m, q, k, d), and scales."""
        log_weights, means, scales = self._parts(rows)
        z = (Y[:, :, None] - means) / scales
        terms = (
            log_weights
            - np.log(scales).sum(axis=-1)
            - 0.5 * self._d * np.log(2.0 * np.pi)
        )
        return terms - 0.5 * (z**2).sum(axis=-1), z, scales

    def _gradient(self, Y: Array) -> Array:
        def work(y: Array, some: Indices) -> Array:
            terms, z, scales = self._log_terms(y, some)
            shares = special.softmax(terms, axis=2)
            return -np.einsum("mqk,mqkd->mqd", shares, z / scales)

        return self._in_blocks(work, Y)

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        reached = np.cumsum(np.exp(self._log_weights), axis=1)
        reached /= reached[:, -1:]
        level = rng.random((self._n, size))
        below = np.column_stack([np.zeros(self._n), reached[:, :-1]])
        chosen = cells_holding(below, level)
        row = np.arange(self._n)[:, None]
        means = np.broadcast_to(self._means, self._shape)[row, chosen]
        scales = np.broadcast_to(self._scales, self._shape)[row, chosen]
        return means + scales * rng.standard_normal(means.shape)

    def _rows(self, index: Any, *, single: bool) -> Self:
        means = self._means if len(self._means) == 1 else self._means[index]
        scales = self._scales if len(self._scales) == 1 else self._scales[index]
        return type(self)(self._log_weights[index], means, scales, single=single)


class NormalMixtureDensity(_NormalMixture, TabulatedDensity):
    """n mixtures of k normal densities of one variable.

    Args:
        log_weights: (n, k); they need not be normalised.
        means: (n, k), or (1, k) if all densities share them.
        scales: Standard deviations, in the same way.
        single: Whether the leading axis is dropped.

    Example:
        >>> import numpy as np
        >>> p = NormalMixtureDensity(
        ...     log_weights=np.log([[0.5, 0.5], [0.9, 0.1]]),
        ...     means=np.array([[-1.0, 1.0]]),
        ...     scales=np.ones((1, 1)),
        ... )
        >>> p.mean()
        array([ 0. , -0.8])
        >>> p.cdf(0.0).round(3)
        array([0.5  , 0.773])
    """

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._summed(y, rows, special.ndtr)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._summed(y, rows, lambda z: special.ndtr(-z))

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._in_blocks(
            lambda y, some: np.exp(self._log_terms(y[..., None], some)[0]).sum(axis=2),
            y,
            rows,
        )

    def _summed(self, y: Array, rows: Indices | None, function: Any) -> Array:
        """Weighted sums of a function of standardised points, (m, q)."""

        def work(y: Array, some: Indices) -> Array:
            log_weights, means, scales = self._parts(some)
            values = function((y[..., None] - means[..., 0]) / scales[..., 0])
            shares = np.exp(log_weights[:, 0])
            return np.einsum("mqk,mk->mq", values, shares, optimize=True)

        return np.clip(self._in_blocks(work, y, rows), 0.0, 1.0)

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        # Some component has less than the level below the quantile, and some has more.
        def work(z: Array, some: Indices) -> Array:
            log_weights, means, scales = self._parts(some)
            # Components with a smaller share of the weight change no digit.
            there = log_weights > np.log(1e-18)
            y = means[..., 0] + z[..., None] * scales[..., 0]
            low = np.where(there, y, np.inf).min(axis=2)
            return np.stack([low, np.where(there, y, -np.inf).max(axis=2)], axis=-1)

        ends = self._in_blocks(work, special.ndtri(levels), rows)
        return ends[..., 0], ends[..., 1]

    def _breaks(self) -> Array:
        return np.empty(0)


class NormalMixtureColumns(_NormalMixture, SeveralColumns):
    """n mixtures of k normal densities of d ≥ 2 independent columns each.

    Args:
        log_weights: (n, k); they need not be normalised.
        means: (n, k, d), or (1, k, d) if all densities share them.
        scales: Standard deviations of each column, in the same way.
        single: Whether the leading axis is dropped.

    Example:
        >>> import numpy as np
        >>> means = np.array([[[0.0, 0.0], [2.0, 4.0]]])
        >>> p = NormalMixtureColumns(np.zeros((1, 2)), means, np.ones((1, 1, 1)))
        >>> p.mean(), p.cov()
        (array([[1., 2.]]), array([[[2., 2.],
                [2., 5.]]]))
    """

    @property
    def _d(self) -> int:
        return int(self._means.shape[2])

    def cov(self) -> Array:
        """Covariance matrix, (n, d, d)."""
        weights = np.exp(self._log_weights)
        offsets = np.broadcast_to(self._means - self._mean[:, None], self._shape)
        cov = np.einsum("nk,nki,nkj->nij", weights, offsets, offsets)
        diagonal = np.arange(self._d)
        cov[:, diagonal, diagonal] = self._std**2
        return self._out(cov)

    def mode(self) -> Array:
        """Where the density is largest, climbing from the highest component."""
        y = np.empty((self._n, self._d))
        means = np.broadcast_to(self._means, self._shape)
        for r in range(self._n):
            one = self._rows(np.array([r]), single=False)
            y[r] = means[r, one._log_pdf(means[r][None])[0].argmax()]
            y[r] = one._climbed(y[r])
        return self._out(y)

    def _climbed(self, y: Array) -> Array:
        """The fixed point of one density: the mean of means, by responsibility."""
        for _ in range(1000):
            terms, _, scales = self._log_terms(y[None, None], np.zeros(1, dtype=int))
            precision = special.softmax(terms, axis=2)[..., None] / scales**2
            weighted = (precision * self._means[:, None]).sum(axis=2)
            new = (weighted / precision.sum(axis=2))[0, 0]
            if np.all(np.abs(new - y) <= 1e-12 * self._scales.max(axis=(0, 1))):
                break
            y = new
        return new

    def entropy(self) -> Array:
        """Differential entropy in nats, from draws; it has no closed form."""
        # So many have a standard error of about a hundredth.
        draws = self._draws(10_000, np.random.default_rng(0))
        return self._out(-self._log_pdf(draws).mean(axis=1))
