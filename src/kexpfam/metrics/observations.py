"""Densities beside what was observed: the form in which every metric takes its input.

A metric knows densities only by their methods (`logpdf`, `pdf`, `cdf`, `ppf`,
`support`), so that any model can be judged. Here the input is checked once, and the
methods are brought to one shape: n rows with q points each. Integrals need thousands of
points; densities that are slow at these may have a method `tabulated`, which returns
something faster with the methods `logpdf`, `pdf` and `cdf`.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import as_numbers, check_weights

# Levels whose quantiles cut the line into cells: every 32nd of the mass, and decades
# of the tails. What is outside, 1e-12 on either side, is left out of integrals.
_TAILS = np.array([1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2])
LEVELS = np.concatenate([_TAILS, np.arange(1, 32) / 32, 1.0 - _TAILS[::-1]])


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
            return f"{self.value:.4g}"
        return f"{self.value:.4g} ± {self.standard_error:.2g}"


@dataclass(frozen=True, eq=False)
class Observations:
    """One observation of each of n densities of one variable, or n of a single one.

    Attributes:
        density: The densities, as `given` returns them.
        y: The observations, (n,).
        single: Whether there is only one density.
    """

    density: Any
    y: Array
    single: bool

    @classmethod
    def of(cls, p: Any, y: ArrayLike, metric: str) -> "Observations":
        """Check and join; `metric` is named in errors.

        Raises:
            ValueError: Several columns, another number of rows, NaN or infinity.
        """
        if not hasattr(p, "cdf"):
            raise ValueError(
                f"{metric} is for one column of y, and these densities have several; "
                f"use log_loss, or judge one column at a time."
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

    def quantiles(self, levels: Array) -> Array:
        """Quantiles at the same levels for all rows, (q,) -> (n, q)."""
        found = self.density.ppf(levels if self.single else levels[None])
        return np.broadcast_to(found, (len(self.y), len(levels)))

    @functools.cached_property
    def dense(self) -> "Observations":
        """The same for many points: from a table, if the densities can make one."""
        if not hasattr(self.density, "tabulated"):
            return self
        return Observations(_Table(self.density.tabulated()), self.y, self.single)

    @functools.cached_property
    def cells(self) -> Array:
        """Quantiles between which the mass lies, increasing, (n, k)."""
        found = self.quantiles(LEVELS)
        # A tail too heavy for its quantile to be a number ends at the last that is.
        low = np.where(np.isfinite(found), found, np.inf).min(axis=1, keepdims=True)
        high = np.where(np.isfinite(found), found, -np.inf).max(axis=1, keepdims=True)
        return np.maximum.accumulate(np.clip(found, low, high), axis=1)

    def _at(self, method: Any, points: Array) -> Array:
        if self.single:
            return np.reshape(method(points.ravel()), points.shape)
        return method(points)


@dataclass(frozen=True, eq=False)
class _Table:
    """Tabulated densities, with the shapes of the methods that they stand for."""

    rows: Any

    def logpdf(self, points: Array) -> Array:
        return np.reshape(self.rows.logpdf(np.atleast_2d(points)), points.shape)

    def pdf(self, points: Array) -> Array:
        return np.reshape(self.rows.pdf(np.atleast_2d(points)), points.shape)

    def cdf(self, points: Array) -> Array:
        return np.reshape(self.rows.cdf(np.atleast_2d(points)), points.shape)


def finite_numbers(y: ArrayLike) -> Array:
    """The observations as floats.

    Raises:
        ValueError: There are none, or some are NaN or infinite.
    """
    values = as_numbers("y", y)
    if values.ndim == 0 or len(values) == 0:
        raise ValueError(f"y must have at least one row, got shape {values.shape}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("y contains NaN or infinity; remove these rows.")
    return values


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
