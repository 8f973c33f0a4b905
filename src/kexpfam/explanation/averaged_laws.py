"""Scores of averages of laws: log loss, CRPS, and width of 90 % intervals.

The average of R laws of a row has the mean of their densities and of their distribution
functions. These are taken on a grid of each row: quantiles of its own law, of the laws
of all rows together, and both sides of every atom. Between two points of it
distribution functions are taken as straight.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from kexpfam._typing import Array, Indices
from kexpfam.explanation.columns import ModelColumns
from kexpfam.explanation.functionals import WIDTH_OF

# Points of a grid that all rows share, and levels of a row's own. With them CRPS and
# widths of a Gaussian are right to about a thousandth.
SHARED_POINTS = 256
OWN_LEVELS = np.concatenate([[1e-3, 5e-3], np.arange(1, 32) / 32, [0.995, 0.999]])


@dataclass(frozen=True, eq=False)
class AveragedLaws:
    """Observations of n rows, and grids on which averages of their laws are scored."""

    columns: ModelColumns
    Y: Array  # (n,), or (n, d) for several columns, which have no grid
    grid: Array | None  # not decreasing, with y in it, (n, g)

    @classmethod
    def of(cls, columns: ModelColumns, Z: Array, Y: Array) -> "AveragedLaws":
        """Grids for the laws at coded rows (n, p) and observations there."""
        if Y.ndim > 1:
            return cls(columns, Y, None)
        own = columns.evaluate(Z, lambda p, _: p.quantile(OWN_LEVELS))
        atoms = getattr(columns.densities(Z[:1]), "atoms", None)
        steps = np.empty(0) if atoms is None else np.asarray(atoms.values, dtype=float)
        levels = (np.arange(SHARED_POINTS) + 0.5) / SHARED_POINTS
        ends = np.array([own.min(), own.max()])
        parts = [np.quantile(own, levels), ends, steps, np.nextafter(steps, -np.inf)]
        shared = np.tile(np.concatenate(parts), (len(Z), 1))
        return cls(columns, Y, np.sort(np.hstack([shared, own, Y[:, None]]), axis=1))

    def losses(self, Z: Array) -> dict[str, Array]:
        """Scores of each row, lower is better, of averages over R sets of rows.

        Args:
            Z: R coded rows for each of the n, (R, n, p).

        Returns:
            By name, (n,): "log_density", minus the log of the average density, and for
            one column of y "crps" and "width".
        """
        R, n, _ = Z.shape
        which = np.tile(np.arange(n), R)
        found = self.columns.evaluate(
            Z.reshape(R * n, -1), lambda p, rows: self._numbers(p, which[rows])
        ).reshape(R, n, -1)
        losses = {"log_density": np.log(R) - logsumexp(found[..., 0], axis=0)}
        if self.grid is not None:
            F = found[..., 1:].mean(axis=0)
            losses |= {"crps": self._crps(F), "width": self._width(F)}
        return losses

    def _numbers(self, p: Any, rows: Indices) -> Array:
        """Log density of what was observed, and distribution function on the grid."""
        log_p = p.logpdf(self.Y[rows])[:, None]
        return (
            log_p if self.grid is None else np.hstack([log_p, p.cdf(self.grid[rows])])
        )

    def _crps(self, F: Array) -> Array:
        """∫ (F(t) − 1{t ≥ y})² dt, (n,)."""
        assert self.grid is not None
        left, right = self.grid[:, :-1], self.grid[:, 1:]
        above = (left >= self.Y[:, None]).astype(float)
        low, high = F[:, :-1] - above, F[:, 1:] - above
        # ∫ of the square of what is straight from low to high
        squares = (low * low + low * high + high * high) / 3.0
        return np.sum((right - left) * squares, axis=1)

    def _width(self, F: Array) -> Array:
        """Widths of central intervals, (n,)."""
        assert self.grid is not None
        tail = 0.5 * (1.0 - WIDTH_OF)
        F = np.maximum.accumulate(F, axis=1)
        ends = [
            np.interp([tail, 1.0 - tail], own, at)
            for own, at in zip(F, self.grid, strict=True)
        ]
        return np.diff(ends, axis=1)[:, 0]
