"""Columns of numbers whose values come back: what rows with the same value share.

A number may stand for more than its size. Readings of a day, a machine, a batch or a
place have one value of some column in common, and their responses are off in the same
direction. Trees and kernels see a value's neighbours, which know nothing of that; a
mixed model would have a random effect for each value. Here that effect is the mean of
what a regression has left, r = y − h(x), among the rows with a value, shrunk as far as
these rows are few (`category_means`), and taken without a row's own part of the rows:
theory (31).

A column has effects only if rows that have not helped to find them are predicted
clearly better by them.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.summaries.category_means import (
    FOLDS,
    differ,
    fold_of_rows,
    held_out_codes,
    shrunk_means,
)

# Values nearer than this share of a column's range are the same: units and transforms
# may round them differently.
_SAME = 1e-9


@dataclass(frozen=True)
class RepeatSpec:
    """When values of a column have effects of their own."""

    rows_of_a_value: float = 3.0  # On average: an effect of fewer rows is mostly chance
    # Of the mean square of what is left effects take away so much, at least: half of
    # it are the nats that they gain, and regressions are fitted a second time for them.
    # A guess
    least_share: float = 0.05
    least_errors: float = 4.0  # And so many standard errors of that


REPEATS = RepeatSpec()


@saved_fit(
    {
        "column": "nonnegative whole",
        "values": "k",
        "effects": "k",
        "rows": "k nonnegative",
    }
)
@dataclass(frozen=True, eq=False)
class ValueEffects:
    """Effects of the values of one column."""

    column: int
    values: Array  # In increasing order, (k,)
    effects: Array  # Of each, (k,)
    rows: Array  # Sum of the weights of its rows, (k,)
    other: float  # Effect of a value that was not there

    def at(self, X: Array) -> Array:
        """Effect, and log(1 + rows), of the values in new rows, (n, 2)."""
        place, known = _places(self.values, X[:, self.column])
        effects = np.where(known, self.effects[place], self.other)
        return np.column_stack([effects, np.log1p(known * self.rows[place])])

    def check_saved(self) -> None:
        """Refuse values that cannot be looked up."""
        if len(self.values) < 2 or np.any(np.diff(self.values) <= 0):
            raise ValueError("values of a column are not in increasing order")


@saved_fit({"columns": "k", "n_features": "positive"})
@dataclass(frozen=True, eq=False)
class Repeats:
    """Effects of the values of some columns, which are added up."""

    columns: tuple[ValueEffects, ...]
    n_features: int  # Columns of X

    @property
    def columns_seen(self) -> int:
        """Columns of X and those that come beside it."""
        return self.n_features + 2 * len(self.columns)

    def check_saved(self) -> None:
        """Refuse columns that are not there."""
        if max(own.column for own in self.columns) >= self.n_features:
            raise ValueError("effects are of a column that is not there")

    def at(self, X: Array) -> Array:
        """What `ValueEffects.at` finds, column after column, (n, 2k)."""
        return np.hstack([own.at(X) for own in self.columns])

    def beside(self, X: Array) -> Array:
        """X, and that as further columns."""
        return np.hstack([X, self.at(X)])


def fit_repeats(
    X: Array,
    left: Array,
    weights: Array,
    columns: Indices,
    spec: RepeatSpec = REPEATS,
) -> tuple[Repeats, Array] | None:
    """Effects of repeated values on what a regression has left; None if there are none.

    One column after another, each on what those before have left.

    Args:
        X: Conditions, (n, p).
        left: Responses less predictions that have not seen a row's part, (n,).
        weights: Of the rows, (n,).
        columns: Columns of X that may have effects.
        spec: When they have.

    Returns:
        The effects, and what `Repeats.at` says of each row by the rows of other parts.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> day = np.arange(300) % 30
        >>> off = rng.normal(size=30)[day] + 0.1 * rng.normal(size=300)
        >>> X = np.column_stack([day, rng.normal(size=300)])
        >>> repeats, held_out = fit_repeats(X, off, np.ones(300), np.arange(2))
        >>> [own.column for own in repeats.columns]
        [0]
        >>> float(np.std(off).round(1)), float(np.std(off - held_out[:, 0]).round(1))
        (0.8, 0.1)
    """
    found: list[ValueEffects] = []
    held_out: list[Array] = []
    for column in columns.tolist():
        values, groups = _repeated(X[:, column])
        k = len(values)
        if k < 2 or k * spec.rows_of_a_value > len(X):
            continue
        if not differ(groups, k, left[:, None], weights):
            continue
        effects = held_out_codes(groups, k, left[:, None], weights)[:, 0]
        gain = left**2 - (left - effects) ** 2
        mean = np.average(gain, weights=weights)
        error = np.sqrt(np.average((gain - mean) ** 2, weights=weights) / len(X))
        share = spec.least_share * np.average(left**2, weights=weights)
        if mean < max(share, spec.least_errors * error):
            continue
        found.append(
            ValueEffects(
                column,
                values,
                shrunk_means(groups, k, left[:, None], weights)[:, 0],
                np.bincount(groups, weights, minlength=k).astype(float),
                float(np.average(left, weights=weights)),
            )
        )
        rows = np.log1p(_rows_of_other_parts(groups, k, weights))
        held_out.append(np.column_stack([effects, rows]))
        left = left - effects
    return (Repeats(tuple(found), X.shape[1]), np.hstack(held_out)) if found else None


def _rows_of_other_parts(groups: Indices, k: int, weights: Array) -> Array:
    """Weight of the rows with the value of each row that are not in its part, (n,)."""
    fold, rows = fold_of_rows(len(groups)), np.empty(len(groups))
    for part in range(FOLDS):
        out = fold == part
        rows[out] = np.bincount(groups[~out], weights[~out], minlength=k)[groups[out]]
    return rows


def _repeated(x: Array) -> tuple[Array, Indices]:
    """The values of a column in increasing order, and which one each row has."""
    values, groups = np.unique(x, return_inverse=True)
    apart = np.diff(values, prepend=-np.inf) > _SAME * (values[-1] - values[0])
    return values[apart], (np.cumsum(apart) - 1)[groups]


def _places(values: Array, x: Array) -> tuple[Indices, Array]:
    """The nearest of some values, and whether it is the same."""
    after = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    place = after - (x - values[after - 1] < values[after] - x)
    return place, np.abs(x - values[place]) <= _SAME * (values[-1] - values[0])
