"""Densities given by a fitted RNADE, in the user's units.

One column is a mixture of normals at each condition, and has all that those have.
Several columns are drawn one after another: each draw in one of the orders, at random.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.baselines.rnade_network import (
    Mixture,
    Network,
    average_log_density,
    column_mixture,
    last_hidden,
)
from kexpfam.distributions import (
    Density,
    ExactDensity,
    NormalMixtureDensity,
    SeveralColumns,
)

# Rows times columns that go through the network at once.
_AT_ONCE = 2**17

# Draws behind means, deviations and entropies of several columns. Conditional means are
# averaged, not the draws, so a mean is known to a few hundredths of a deviation.
_MOMENT_DRAWS = 1024


@dataclass(frozen=True, eq=False)
class FittedRNADE:
    """A network with its orders and units.

    Attributes:
        network: Parameters in double precision.
        orders: Orders of the columns over which densities are averaged, (r, d).
        least: Smallest scale of each column's mixtures, standardised, (d,).
        center: Of y, (d,).
        scale: Of y, (d,).
    """

    network: Network
    orders: Indices
    least: Array
    center: Array
    scale: Array

    def density(self, Z: Array, *, single: bool = False) -> Density:
        """Densities of y at standardised conditions (n, p)."""
        if len(self.center) > 1:
            return AutoregressiveDensity(self, Z, single=single)
        nothing = np.zeros((len(Z), 1))
        values = last_hidden(self.network, nothing, nothing, Z, np)
        log_weights, means, log_scales = column_mixture(
            self.network, values, 0, self.least, np
        )
        return NormalMixtureDensity(
            log_weights,
            self.center + self.scale * means,
            self.scale * np.exp(log_scales),
            single=single,
        )

    def log_density(self, Y: Array, Z: Array) -> Array:
        """Log p(y|z) of rows (m, d), (m,)."""
        log_p = np.full(len(Y), -np.inf)
        with np.errstate(over="ignore", divide="ignore"):
            U = (Y - self.center) / self.scale
            finite = np.flatnonzero(np.isfinite(U).all(axis=1))
            step = max(1, _AT_ONCE // U.shape[1])
            for start in range(0, len(finite), step):
                rows = finite[start : start + step]
                log_p[rows] = average_log_density(
                    self.network, U[rows], Z[rows], self.orders, self.least
                )
        return np.where(np.isnan(Y).any(axis=1), np.nan, log_p) - self._log_volume

    def draw(self, Z: Array, which: Indices, uniform: Array, normal: Array) -> "Drawn":
        """Draws at conditions (m, p), each in the order `which` (m,) names.

        Args:
            Z: Conditions.
            which: Rows of `orders`.
            uniform: Choose the components, (m, d).
            normal: Choose the points, (m, d).
        """
        U, first, second = (np.zeros(uniform.shape) for _ in range(3))
        for i, order in enumerate(self.orders):
            rows = np.flatnonzero(which == i)
            seen = np.zeros((len(rows), len(order)))
            for column in order:
                values = last_hidden(self.network, U[rows], seen, Z[rows], np)
                mixture = column_mixture(self.network, values, column, self.least, np)
                u = _drawn(mixture, uniform[rows, column], normal[rows, column])
                U[rows, column] = u
                seen[:, column] = 1.0
                weights, means = np.exp(mixture.log_weights), mixture.means
                squares = means**2 + np.exp(2.0 * mixture.log_scales)
                first[rows, column] = (weights * means).sum(axis=1)
                second[rows, column] = (weights * squares).sum(axis=1)
        return Drawn(self.center + self.scale * U, first, second)

    @property
    def _log_volume(self) -> float:
        return float(np.log(self.scale).sum())


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws, and what is known of each column from those before it.

    Attributes:
        Y: In the user's units, (m, d).
        first: Conditional means, standardised, (m, d).
        second: Conditional second moments, standardised, (m, d).
    """

    Y: Array
    first: Array
    second: Array


class AutoregressiveDensity(ExactDensity, SeveralColumns):
    """n densities of d ≥ 2 columns from one RNADE; see `RNADE`.

    Mean, standard deviation and entropy come from draws, the same at every condition.
    """

    def __init__(
        self, fitted: FittedRNADE, conditions: Array, *, single: bool = False
    ) -> None:
        """Densities at standardised conditions, (n, p)."""
        self._fitted = fitted
        self._conditions = conditions
        self._single = single

    @property
    def _n(self) -> int:
        return len(self._conditions)

    @property
    def _d(self) -> int:
        return len(self._fitted.center)

    def mean(self) -> Array:
        """Expectation, from draws: good to a few hundredths of a deviation."""
        first, _ = self._moments()
        return self._out(self._fitted.center + self._fitted.scale * first)

    def std(self) -> Array:
        """Standard deviation of each column, from draws."""
        first, second = self._moments()
        return self._out(self._fitted.scale * np.sqrt(second - first**2))

    def entropy(self) -> Array:
        """Differential entropy in nats, from draws."""
        entropies = np.empty(self._n)
        for rows, drawn in self._shared_draws():
            part = self._rows(rows, single=False)
            entropies[rows] = -part._log_pdf(drawn.Y).mean(axis=1)
        return self._out(entropies)

    def mode(self) -> NoReturn:
        """Not available for several columns of y."""
        raise NotImplementedError(
            f"mode is not available for an RNADE of {self._d} columns; draw with rvs() "
            f"and take the draw with the largest logpdf."
        )

    def _log_pdf(self, Y: Array) -> Array:
        n, q, d = Y.shape
        Z = np.repeat(self._conditions, q, axis=0)
        return self._fitted.log_density(Y.reshape(n * q, d), Z).reshape(n, q)

    def _gradient(self, Y: Array) -> NoReturn:
        raise NotImplementedError(
            f"grad_logpdf is not available for an RNADE of {self._d} columns."
        )

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        shape = (self._n, size, self._d)
        which = rng.integers(len(self._fitted.orders), size=shape[:2])
        uniform, normal = rng.random(shape), rng.standard_normal(shape)
        out = np.empty(shape)
        for rows in self._chunks(size):
            out[rows] = self._drawn(rows, which[rows], uniform[rows], normal[rows]).Y
        return out

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(self._fitted, self._conditions[index], single=single)

    def _chunks(self, size: int) -> Iterator[slice]:
        step = max(1, _AT_ONCE // max(1, size * self._d))
        for start in range(0, self._n, step):
            yield slice(start, min(start + step, self._n))

    def _drawn(
        self, rows: slice, which: Indices, uniform: Array, normal: Array
    ) -> Drawn:
        """Draws at some conditions, with axes (m, size, d), as is what chooses them."""
        shape = uniform.shape
        flat = self._fitted.draw(
            np.repeat(self._conditions[rows], shape[1], axis=0),
            which.ravel(),
            uniform.reshape(-1, self._d),
            normal.reshape(-1, self._d),
        )
        parts = (flat.Y, flat.first, flat.second)
        return Drawn(*(part.reshape(shape) for part in parts))

    def _moments(self) -> tuple[Array, Array]:
        """First and second moments of each column, standardised, (n, d) each."""
        first, second = np.empty((2, self._n, self._d))
        for rows, drawn in self._shared_draws():
            first[rows] = drawn.first.mean(axis=1)
            second[rows] = drawn.second.mean(axis=1)
        return first, second

    def _shared_draws(self) -> Iterator[tuple[slice, Drawn]]:
        """Draws with the same random numbers at every condition.

        So no row's moments depend on the other rows. Orders have equal shares.
        """
        rng, shape = np.random.default_rng(0), (_MOMENT_DRAWS, self._d)
        which = np.arange(_MOMENT_DRAWS) % len(self._fitted.orders)
        uniform, normal = rng.random(shape), rng.standard_normal(shape)
        for rows in self._chunks(_MOMENT_DRAWS):
            m = rows.stop - rows.start
            numbers = (np.broadcast_to(a, (m, *a.shape)) for a in (uniform, normal))
            yield rows, self._drawn(rows, np.tile(which, m), *numbers)


def _drawn(mixture: Mixture, uniform: Array, normal: Array) -> Array:
    """A draw of each mixture (m, k), (m,)."""
    reached = np.exp(mixture.log_weights).cumsum(axis=1)
    last = reached.shape[1] - 1
    chosen = (uniform[:, None] * reached[:, -1:] >= reached[:, :last]).sum(axis=1)
    row = np.arange(len(uniform))
    scales = np.exp(mixture.log_scales[row, chosen])
    return mixture.means[row, chosen] + scales * normal
