"""Several columns of y by the chain rule: each given x and the columns before it.

p(y|x) = Π_j p(y_j | x, y_1, ..., y_{j−1}). Every factor is an ordinary estimator of one
column, whose conditions are the columns of x and the earlier columns of y.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from kexpfam._typing import Array
from kexpfam.data import Rows
from kexpfam.distributions import ChainRuleDensity
from kexpfam.estimators.laws import Law
from kexpfam.estimators.saved import FittedColumns
from kexpfam.family.neighbourhood import Neighbourhood

E = TypeVar("E")


@dataclass(frozen=True, eq=False)
class ChainFactor:
    """The estimator of one column of y, as a function of whole rows (x, y).

    Attributes:
        estimator: Of p(y_j | x, earlier y).
        column: Position of y_j in a row; all columns before it are conditions.
    """

    estimator: Any
    column: int

    def log_density(self, rows: Array) -> Array:
        """Log p(y_j | x, earlier y) of each row, (m,)."""
        return self.estimator.score_samples(*self._split(rows))

    def sample(self, rows: Array, rng: np.random.Generator) -> Array:
        """A draw of y_j for each row, (m, 1)."""
        return self.estimator.sample(self._split(rows)[0], random_state=rng)

    def given(self, rows: Array) -> Any:
        """The densities of y_j at each row."""
        return self.estimator.given(self._split(rows)[0])

    def _split(self, rows: Array) -> tuple[Array, Array]:
        return rows[:, : self.column], rows[:, self.column]


class ByColumn(tuple[E, ...]):
    """Something for each column of y, printed under the column's name.

    Example:
        >>> ByColumn(["some members", "other members"], ["a", "b"])
        y 'a', given x
        some members
        y 'b', given x and 'a'
        other members
    """

    names: tuple[str | int, ...]

    def __new__(cls, values: Sequence[E], names: Sequence[str | int]) -> "ByColumn[E]":
        made = super().__new__(cls, tuple(values))
        made.names = tuple(names)
        return made

    def __repr__(self) -> str:
        lines = []
        for j, (name, value) in enumerate(zip(self.names, self, strict=True)):
            before = "".join(f" and {other!r}" for other in self.names[:j])
            lines += [f"y {name!r}, given x{before}", str(value)]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ChainLaw(Law):
    """Several columns of y, of which each has an estimator given those before it."""

    columns: ByColumn[Any]
    rounding: float = 0.0  # Columns have their own

    @property
    def neighbourhood(self) -> Neighbourhood:  # type: ignore[override]  # read-only
        """That of the first column, whose conditions are x."""
        return self.columns[0].neighbourhood_

    @property
    def average(self) -> None:
        return None

    def density(self, X: Array) -> ChainRuleDensity:
        return chain_density(X, self.columns, self.columns.names)

    def saved(self) -> FittedColumns:
        parts = tuple(own._learned() for own in self.columns)
        return FittedColumns(parts, self.columns.names)


def response_names(y: Any, columns: int) -> tuple[str | int, ...]:
    """Names of the columns of y as they were passed to `fit`, or their positions."""
    found = list(getattr(y, "columns", y if isinstance(y, list | tuple) else ()))
    named = len(found) == columns and all(isinstance(name, str) for name in found)
    return tuple(found) if named else tuple(range(columns))


def fit_columns(
    estimator: E, rows: Rows, names: Sequence[str | int], rng: np.random.Generator
) -> list[E]:
    """Clones of an estimator, each fitted to a column of y given x and those before.

    Their warnings and errors name the column. Each has as much of a time budget as is
    left for every one that is still to be fitted.
    """
    X, Y, start = rows.X, rows.Y, time.monotonic()
    budget = getattr(estimator, "time_budget", None)
    weights = None if np.all(rows.weights == 1.0) else rows.weights
    fitted = []
    for j, name in enumerate(names):
        own: Any = clone(estimator)
        # Tables were coded before they came here.
        own.set_params(random_state=int(rng.integers(2**31)), ordered=None)
        own._told_kinds = getattr(estimator, "_column_kinds", None)
        if budget is not None:
            left = max(start + budget - time.monotonic(), 1e-9)
            own.set_params(time_budget=left / (len(names) - j))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                own.fit(np.hstack([X, Y[:, :j]]), Y[:, j], sample_weight=weights)
            except Exception as error:
                error.add_note(f"This happened in column {name!r} of y.")
                raise
        for warning in caught:
            message = f"Column {name!r} of y: {warning.message}"
            warnings.warn(message, warning.category, stacklevel=4)
        fitted.append(own)
    return fitted


def chain_density(
    X: Array, columns: Sequence[Any], names: Sequence[str | int]
) -> ChainRuleDensity:
    """Densities of all columns of y, of which each has an estimator."""
    p, d = X.shape[1], len(columns)
    rows = np.hstack([X, np.full((len(X), d), np.nan)])
    places = range(p, p + d)
    order = [
        ChainFactor(own, place) for own, place in zip(columns, places, strict=True)
    ]
    found = ChainRuleDensity(rows, places, [order], [1.0], names)
    if any(getattr(own, "discrete_", None) is not None for own in columns):
        found.measure = "mixed"
    return found
