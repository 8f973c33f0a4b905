"""Densities for scipy.stats, and for qp, the library of catalogues of p(z).

An ensemble of qp, in which astronomers keep photometric redshifts, holds values on a
grid that all densities share, and is linear between them. Unless a grid is given, one
is found: cells are halved until, in each of them and for every density, straight lines
follow the density and the distribution function, and the mass below the line is that of
the density, which shows spikes that points miss. All cells have the same width, because
the moments that qp computes are wrong otherwise.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, ArrayLike, Mask
from kexpfam._validation import as_numbers, check_positive
from kexpfam.errors import AccuracyWarning


def to_scipy(density: Any, row: int | None = None) -> Any:
    """One density of one variable as a frozen distribution of `scipy.stats`.

    The same as the method `density.to_scipy(row)`.

    Args:
        density: What `model.given(X)` or `KEF().fit(Y).distribution()` returns.
        row: Which of its densities; None if there is only one.

    Example:
        >>> from kexpfam import KEF
        >>> data = np.random.default_rng(0).normal(size=(100, 1))
        >>> q = to_scipy(KEF(select=None).fit(data).distribution())
        >>> bool(abs(q.expect(lambda y: y) - q.mean()) < 1e-6)
        True
    """
    return density.to_scipy(row)


def to_qp(
    density: Any,
    grid: ArrayLike | None = None,
    *,
    tolerance: float = 1e-3,
    ancil: Mapping[str, Any] | None = None,
) -> Any:
    """Densities of one variable as a `qp.Ensemble` of the kind `interp`.

    Args:
        density: What `model.given(X)` returns; a single density is an ensemble of one.
        grid: Increasing points, (q,), as catalogues of redshifts have them, at even
            distances if qp's moments matter; None for as many as it takes.
        tolerance: Error of the densities, as a share of the peak of each, and of the
            distribution functions.
        ancil: Further columns of the ensemble, one value per density.

    Raises:
        MissingDependencyError: qp is not installed.

    Warns:
        AccuracyWarning: The grid is too coarse or too short for the tolerance.
    """
    qp = needed("qp", "to build an ensemble", "bridges")
    if not hasattr(density, "cdf"):
        raise ValueError("to_qp is for one column of y, and these densities have more.")
    rows = _Rows(density, check_positive("tolerance", tolerance))
    points = rows.grid() if grid is None else _checked(grid)
    values = rows.pdf(points)
    bad = rows.outside(points) | rows.rough(points, values).any(axis=1)
    if np.any(bad):
        advice = "use grid=None" if grid is not None else "take them apart"
        warnings.warn(
            f"{int(bad.sum())} of {len(bad)} densities are not followed to "
            f"{tolerance:g} by a grid of {len(points)} points from {points[0]:.4g} to "
            f"{points[-1]:.4g}; {advice}, or raise tolerance.",
            AccuracyWarning,
            stacklevel=2,
        )
    extra = None if ancil is None else dict(ancil)
    return qp.interp.create_ensemble(points, values, ancil=extra)


class _Rows:
    """Densities at points that they share, and whether lines between these will do."""

    def __init__(self, density: Any, tolerance: float) -> None:
        self._density = density
        self._single = np.ndim(density.support) == 1
        self._tolerance = tolerance

    def pdf(self, points: Array) -> Array:
        """(q,) -> (n, q)."""
        return self._at("pdf", points)

    def grid(self) -> Array:
        """Points that will do, or as many as there may be, (q,)."""
        tail = 0.1 * self._tolerance  # that may lie beyond either end
        ends = self._at("ppf", np.array([tail, 1.0 - tail]))
        cells, most = 128, 16384  # a catalogue of 10⁴ densities then takes 1.3 GB
        while True:
            points = np.linspace(ends.min(), ends.max(), cells + 1)
            if cells >= most or not self.rough(points, self.pdf(points)).any():
                return points
            cells *= 2

    def outside(self, points: Array) -> Mask:
        """Which densities have too much mass beyond the ends, (n,)."""
        beyond = self._at("cdf", points[:1]) + self._at("sf", points[-1:])
        return beyond[:, 0] > self._tolerance

    def rough(self, points: Array, values: Array) -> Mask:
        """Cells between points (q,) in which lines do not follow, (n, q − 1)."""
        middle = 0.5 * (points[:-1] + points[1:])
        p_middle = self.pdf(middle)
        peak = np.maximum(values.max(axis=1), p_middle.max(axis=1))[:, None]
        below, between = self._at("cdf", points), self._at("cdf", middle)
        mass = np.diff(below, axis=1)
        mean = 0.5 * (values[:, :-1] + values[:, 1:])
        bent = np.abs(p_middle - mean) > self._tolerance * peak
        bent |= np.abs(between - below[:, :-1] - 0.5 * mass) > self._tolerance
        missed = np.abs(mean * np.diff(points) - mass)
        # In cells with less mass, errors are compared with this much.
        return bent | (missed > self._tolerance * np.maximum(mass, 0.01))

    def _at(self, method: str, points: Array) -> Array:
        """A method at the same points of all densities, (q,) -> (n, q)."""
        found = getattr(self._density, method)(points if self._single else points[None])
        return found[None] if self._single else found


def _checked(grid: ArrayLike) -> Array:
    points = as_numbers("grid", grid)
    increasing = points.ndim == 1 and len(points) > 1 and np.all(np.diff(points) > 0)
    if not increasing or not np.all(np.isfinite(points)):
        raise ValueError(
            f"grid must be a flat list of increasing numbers, got {grid!r:.80}."
        )
    return points
