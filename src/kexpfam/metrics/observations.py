"""Densities beside what was observed: the form in which every metric takes its input.

A metric knows densities only by their methods (`logpdf`, `pdf`, `cdf`, `ppf`,
`support`), so that any model can be scored. Here the input is checked once, and the
methods are brought to one shape: n rows with q points each. Integrals need thousands of
points; densities that are slow at these may have a method `tabulated`, which returns
something faster with the methods `logpdf`, `pdf` and `cdf`.

Integrals are of many functions at once. As in `partition.cells` a cell has sixteen
Gauss-Legendre nodes and is halved while its last two Legendre coefficients are too
large. There all rows share their cells; here the functions live at different places
and scales, so every row has its own, and rows with fewer cells are filled up with
empty ones.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, ArrayLike, Mask
from kexpfam._validation import as_numbers, check_weights
from kexpfam.display import short_number
from kexpfam.errors import AccuracyWarning
from kexpfam.partition import cell_nodes, cell_rule

# Functions of n rows at each row's own points, (n, q) -> (n, q)
RowFunction = Callable[[Array], Array]

# Error that the coefficients do not show: left and right ends (n, k), values at the
# nodes (n, k, 16) and the integrals so far (n, 1) -> (n, k)
Doubt = Callable[[Array, Array, Array, Array], Array]


@dataclass(frozen=True)
class Estimate:
    """A mean over rows.

    Attributes:
        value: The mean.
        standard_error: Its standard error; NaN for one row or an infinite mean.
    """

    value: float
    standard_error: float

    def __str__(self) -> str:
        if math.isnan(self.standard_error):
            return short_number(self.value)
        return f"{short_number(self.value)} ± {short_number(self.standard_error, 2)}"


@dataclass(frozen=True, eq=False)
class Observations:
    """One observation of each of n densities of one variable, or n of a single one."""

    density: Any  # as `given` returns them, or a table of these
    y: Array  # (n,)
    single: bool
    is_table: bool = False

    @classmethod
    def of(cls, p: Any, y: ArrayLike, metric: str) -> "Observations":
        """Check and join, unless that is done; `metric` is named in errors."""
        if isinstance(p, cls):
            return p
        if not hasattr(p, "cdf"):
            raise ValueError(
                f"{metric} is for one column of y, and these densities have several; "
                f"use log_loss, or score one column at a time."
            )
        values = finite_numbers(y)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        single = np.ndim(p.support) == 1
        n = values.size if single else len(p.support)
        if values.shape != (n,):
            raise ValueError(
                f"y must have one value per density, shape ({n},), got shape "
                f"{np.shape(y)}."
            )
        return cls(p, values, single)

    def logpdf(self, points: Array) -> Array:
        """Log densities, (n, q) -> (n, q)."""
        return self._at(self.density.logpdf, points)

    def pdf(self, points: Array) -> Array:
        """Densities, (n, q) -> (n, q)."""
        return self._at(self.density.pdf, points)

    def cdf(self, points: Array) -> Array:
        """Distribution functions, (n, q) -> (n, q)."""
        return self._at(self.density.cdf, points)

    def pmf(self, points: Array) -> Array:
        """Probabilities of the points themselves, zero but at atoms, (n, q)."""
        if not len(self.atoms):
            return np.zeros(points.shape)
        return self._at(self.density.pmf, points)

    @cached_property
    def atoms(self) -> Array:
        """Values with a probability of their own, (k,); none of a density."""
        known = getattr(self.density, "atoms", None)
        return np.empty(0) if known is None else np.asarray(known.values)

    def quantiles(self, levels: Array) -> Array:
        """Quantiles at the same levels for all rows, (q,) -> (n, q)."""
        found = self.density.ppf(levels if self.single else levels[None])
        return np.broadcast_to(found, (len(self.y), len(levels)))

    @cached_property
    def dense(self) -> "Observations":
        """The same for many points: from a table, if the densities can make one."""
        if not hasattr(self.density, "tabulated"):
            return self
        table = Observations(self.density.tabulated(), self.y, self.single, True)
        table.__dict__["atoms"] = self.atoms
        return table

    @cached_property
    def edges(self) -> Array:
        """Quantiles between which the mass lies, increasing, (n, k).

        Every 32nd of the mass, and decades of the tails. What is outside, 1e-12 on
        either side, is left out of integrals.
        """
        tails = np.array([1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2])
        inner = np.arange(1, 32) / 32
        found = self.quantiles(np.concatenate([tails, inner, 1.0 - tails[::-1]]))
        # A tail too heavy for its quantile to be a number ends at the last that is.
        low = np.where(np.isfinite(found), found, np.inf).min(axis=1, keepdims=True)
        high = np.where(np.isfinite(found), found, -np.inf).max(axis=1, keepdims=True)
        found = np.clip(found, low, high)
        if len(self.atoms):  # where distribution functions jump
            at = np.broadcast_to(self.atoms, (len(found), len(self.atoms)))
            found = np.sort(np.hstack([found, np.clip(at, low, high)]), axis=1)
        return np.maximum.accumulate(found, axis=1)

    def _at(self, method: Any, points: Array) -> Array:
        if not self.single:
            return method(points)
        # A table has rows, if only one; a single density has none.
        flat = points.reshape(1, -1) if self.is_table else points.ravel()
        return np.reshape(method(flat), points.shape)


def finite_numbers(y: ArrayLike) -> Array:
    """The observations as floats; ValueError if some are NaN or infinite, or none."""
    values = as_numbers("y", y)
    if values.ndim == 0 or len(values) == 0:
        raise ValueError(f"y must have at least one row, got shape {values.shape}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("y contains NaN or infinity; remove these rows.")
    return values


def check_open(name: str, values: ArrayLike) -> Array:
    """Levels as a flat array; ValueError unless strictly between 0 and 1."""
    levels = np.atleast_1d(as_numbers(name, values))
    if levels.ndim > 1 or levels.size == 0:
        raise ValueError(
            f"{name} must be a number or a flat list, got shape {levels.shape}."
        )
    wrong = ~((levels > 0) & (levels < 1))
    if np.any(wrong):
        raise ValueError(
            f"{name} must lie strictly between 0 and 1, got "
            f"{float(levels[wrong][0])!r}."
        )
    return levels


def weighted_mean(values: Array, sample_weight: ArrayLike | None) -> float:
    """Mean over rows; rows of weight zero do not count, whatever they hold."""
    weights = check_weights(sample_weight, len(values))
    counted = weights > 0
    return float(np.average(values[counted], weights=weights[counted]))


def estimate(values: Array, sample_weight: ArrayLike | None) -> Estimate:
    """Mean over rows with its standard error; only ratios of weights matter."""
    mean = weighted_mean(values, sample_weight)
    weights = check_weights(sample_weight, len(values))
    counted = weights > 0
    n = int(counted.sum())
    if n < 2 or not np.isfinite(mean):
        return Estimate(mean, float("nan"))
    # var(Σ w v) = Σ w² var(v), and n/(n−1) for the mean that was fitted
    share = weights[counted] / weights.sum()
    variance = np.sum((share * (values[counted] - mean)) ** 2) * n / (n - 1)
    return Estimate(mean, float(np.sqrt(variance)))


def integrate_rows(
    function: RowFunction,
    edges: Array,
    doubt: Doubt | None = None,
    *,
    # Cells are halved above this share of the integral. The estimate is that of the
    # polynomial, whose integral is far more accurate.
    tolerance: float = 1e-9,
    # A jump is found to 2⁻⁴⁵ of its cell, better than the tolerance; smooth functions
    # need two or three rounds.
    rounds: int = 45,
    most_halved: int = 128,  # In a row and round; more means noise, not features
) -> Array:
    """Integrals of a non-negative function over the cells of each row, (n,).

    They begin between edges (n, k + 1), not decreasing, and have a relative error of
    about 1e-9 if the function is smooth between a finite number of jumps. `doubt` has
    further reasons to halve a cell.

    Example:
        >>> edges = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]])
        >>> integrate_rows(lambda t: t**2, edges).round(6)
        array([2.666667, 9.      ])
    """
    rule = cell_rule()
    left, right = edges[:, :-1], edges[:, 1:]
    found, remaining = np.zeros(len(edges)), np.zeros(len(edges))
    for step in range(rounds):
        half, nodes = 0.5 * (right - left), cell_nodes(left, right)
        values = function(nodes.reshape(len(edges), -1)).reshape(nodes.shape)
        part = half * (values @ rule.weights)
        error = 2 * half * rule.error(values)
        total = found + part.sum(axis=1)
        if doubt is not None:
            error = np.maximum(error, doubt(left, right, values, total[:, None]))
        split = error > tolerance * total[:, None]
        # No double lies between the ends of a cell that is narrower.
        split &= half > 1e-15 * np.maximum(np.abs(left), np.abs(right))
        split &= split.sum(axis=1, keepdims=True) <= most_halved
        split &= step < rounds - 1
        found += np.where(split, 0.0, part).sum(axis=1)
        remaining += np.where(split, 0.0, error).sum(axis=1)
        if not split.any():
            break
        left, right = _halved(left, right, split)
    _warn_if_rough(remaining, found)
    return found


def _halved(left: Array, right: Array, split: Mask) -> tuple[Array, Array]:
    """Both halves of the cells to split, filled up with empty ones, (n, 2m)."""
    most = int(split.sum(axis=1).max())
    chosen = np.argsort(~split, axis=1, kind="stable")[:, :most]
    left = np.take_along_axis(left, chosen, axis=1)
    right = np.take_along_axis(right, chosen, axis=1)
    empty = ~np.take_along_axis(split, chosen, axis=1)
    right = np.where(empty, left, right)
    middle = left + 0.5 * (right - left)
    return np.hstack([left, middle]), np.hstack([middle, right])


def _warn_if_rough(error: Array, total: Array) -> None:
    rough = error > 1e-6 * total
    if np.any(rough):
        worst = np.max(error[rough] / total[rough])
        warnings.warn(
            f"A score is known to a relative error of {worst:.0e} only for "
            f"{int(rough.sum())} of {len(total)} rows: the densities there are too "
            f"rough, or pdf and cdf do not agree.",
            AccuracyWarning,
            stacklevel=4,
        )
