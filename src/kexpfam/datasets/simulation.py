"""Rows together with the density they were drawn from.

An estimator sees the rows; who evaluates it sees `logpdf`, `cdf` and all else, exact.
"""

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_count,
    check_levels,
)
from kexpfam.datasets.laws import Conditional, KnownLaw


class Simulation(abc.ABC):
    """Rows of a known density: `ConditionalSimulation` or `JointSimulation`."""

    @property
    @abc.abstractmethod
    def log_density(self) -> Array:
        """Log density of each row under the truth, (n,).

        Its mean is what a perfect fit would score on these rows.
        """


@dataclass(frozen=True, eq=False)
class ConditionalSimulation(Simulation):
    """Rows (x, y) and p(y|x); unpacks as `X, y = simulation`.

    Args:
        name: Which density it is.
        X: Conditions, (n, p).
        y: Responses, (n,).
        law: p(·|x) at conditions.

    Example:
        >>> from kexpfam.datasets import make_bimodal
        >>> simulation = make_bimodal(500, random_state=0)
        >>> X, y = simulation
        >>> X.shape, y.shape
        ((500, 1), (500,))
        >>> simulation.mean([[0.0], [1.0]])
        array([-0.12, -0.22])
        >>> simulation.quantile([[0.0]], [0.1, 0.5, 0.9]).round(2)
        array([[-1.08, -0.19,  0.94]])
    """

    name: str
    X: Array = field(repr=False)
    y: Array = field(repr=False)
    law: Conditional = field(repr=False)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.X, self.y))

    @property
    def log_density(self) -> Array:
        return self.logpdf(self.X, self.y)

    def logpdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log p(y|x) of each row, (n,); for y of shape (n, q) at q points, (n, q)."""
        return self._at_points("logpdf", X, y)

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(Y ≤ y|x) of each row, (n,), or (n, q) as in `logpdf`."""
        return self._at_points("cdf", X, y)

    def quantile(self, X: ArrayLike, levels: ArrayLike) -> Array:
        """Conditional quantiles: (n,) for one level, (n, k) for k of them."""
        law, wanted = self._law(X), check_levels("levels", levels)
        found = law.ppf(np.broadcast_to(wanted, (len(law.mean()), wanted.size)))
        return found if wanted.ndim else found[:, 0]

    def mean(self, X: ArrayLike) -> Array:
        """Conditional mean, (n,)."""
        return self._law(X).mean()[:, 0]

    def sample(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Array:
        """Independent draws from p(·|x) at each row, (n, n_samples)."""
        size, law = check_count("n_samples", n_samples), self._law(X)
        return law.rvs((len(law.mean()), size), as_generator(random_state))

    def _at_points(self, method: str, X: ArrayLike, y: ArrayLike) -> Array:
        law, points = self._law(X), as_numbers("y", y)
        n = len(law.mean())
        if points.ndim > 2 or (points.ndim and len(points) != n):
            raise ValueError(
                f"y must be one number, or have shape ({n},) or ({n}, points), as "
                f"there are {n} rows of X; got {points.shape}."
            )
        if points.ndim < 2:
            points = np.broadcast_to(points, n)[:, None]
        found: Array = getattr(law, method)(points)
        return found if np.ndim(y) == 2 else found[:, 0]

    def _law(self, X: ArrayLike) -> KnownLaw:
        return self.law(_table("X", X, self.X.shape[1]))


class JointLaw(abc.ABC):
    """A density of d columns, as a product of conditionals of one column each."""

    @property
    @abc.abstractmethod
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The columns that each column depends on, all of them before it."""

    @abc.abstractmethod
    def conditional_logpdf(self, data: Array) -> Array:
        """Log p(x_i | columns before) of each row and column, (n, d)."""

    @abc.abstractmethod
    def conditional_cdf(self, data: Array) -> Array:
        """P(X_i ≤ x_i | columns before) of each row and column, (n, d)."""

    @abc.abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Independent rows, (n, d)."""


@dataclass(frozen=True, eq=False)
class JointSimulation(Simulation):
    """Rows of several columns and their joint density.

    Args:
        name: Which density it is.
        data: The rows, (n, d).
        law: What they were drawn from.

    Example:
        >>> from kexpfam.datasets import make_grid
        >>> simulation = make_grid(1000, 3, random_state=0)
        >>> simulation.data.shape
        (1000, 3)
        >>> simulation.graph  # as FactorizedDensity takes it
        {0: (), 1: (0,), 2: (1,)}
        >>> bool(simulation.log_density.mean() > 0.0)  # the uniform density has 0
        True
    """

    name: str
    data: Array = field(repr=False)
    law: JointLaw = field(repr=False)

    @property
    def log_density(self) -> Array:
        return self.logpdf(self.data)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """The rows, so that a simulation can be passed where a table is wanted."""
        return np.array(self.data, dtype=dtype, copy=copy)

    @property
    def graph(self) -> dict[int, tuple[int, ...]]:
        """The columns that each column depends on."""
        return dict(enumerate(self.law.parents))

    def logpdf(self, data: ArrayLike) -> Array:
        """Log density of each row, (n,)."""
        return self.conditional_logpdf(data).sum(axis=1)

    def conditional_logpdf(self, data: ArrayLike) -> Array:
        """Log density of each column given those before it, (n, d)."""
        return self.law.conditional_logpdf(self._rows(data))

    def conditional_cdf(self, data: ArrayLike) -> Array:
        """P(X_i ≤ x_i | columns before), (n, d): independent uniforms for true rows."""
        return self.law.conditional_cdf(self._rows(data))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Independent rows, (n_samples, d)."""
        n = check_count("n_samples", n_samples)
        return self.law.draw(n, as_generator(random_state))

    def _rows(self, data: ArrayLike) -> Array:
        return _table("data", data, self.data.shape[1])


def _table(name: str, value: ArrayLike, columns: int) -> Array:
    table = as_numbers(name, value)
    if table.ndim != 2 or table.shape[1] != columns:
        raise ValueError(
            f"{name} must have shape (rows, {columns}), got {table.shape}."
        )
    if np.isnan(table).any():
        raise ValueError(f"{name} contains NaN; leave such rows out.")
    return table
