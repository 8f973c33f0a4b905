"""Scores of averages of laws: log loss, CRPS, and width of 90 % intervals.

The average of R laws of a row has the mean of their densities and of their distribution
functions. These are taken on a grid of each row: quantiles of its own law, of the laws
of all rows together, and both sides of every atom. Between two points of it
distribution functions are monotone cubics, so that few points do.

References:
    Fritsch and Butland, A method for constructing local monotone piecewise cubic
    interpolants, SIAM Journal on Scientific and Statistical Computing 1984.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from kexpfam._typing import Array, Indices
from kexpfam.explanation.columns import ModelColumns
from kexpfam.explanation.functionals import WIDTH_OF

# Points of a grid that all rows share, and levels of a row's own. With them CRPS and
# widths of averages of Gaussians are right to about a thousandth.
SHARED_POINTS = 64
_TAILS = np.array([1e-3, 5e-3, 0.02, 0.05])
OWN_LEVELS = np.concatenate([_TAILS, np.arange(2, 15) / 16, 1.0 - _TAILS[::-1]])


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
        # Nearer to each other in the tails, where laws have less of their own.
        angles = np.pi * (np.arange(SHARED_POINTS) + 0.5) / SHARED_POINTS
        levels = 0.5 * (1.0 - np.cos(angles))
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
        found = self.columns.evaluate_once(
            Z.reshape(R * n, -1), self._numbers, which
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
        # Four nodes are exact for the square of a cubic.
        nodes, weights = np.polynomial.legendre.leggauss(4)
        pieces = MonotoneCubics.of(self.grid, F)
        squares = [
            weight * (pieces.at(0.5 * (node + 1.0)) - above) ** 2
            for node, weight in zip(nodes, 0.5 * weights, strict=True)
        ]
        return np.sum((right - left) * np.sum(squares, axis=0), axis=1)

    def _width(self, F: Array) -> Array:
        """Widths of central intervals, (n,)."""
        assert self.grid is not None
        tail = 0.5 * (1.0 - WIDTH_OF)
        pieces = MonotoneCubics.of(self.grid, np.maximum.accumulate(F, axis=1))
        return pieces.inverse(1.0 - tail) - pieces.inverse(tail)


class MonotoneCubics(NamedTuple):
    """Functions that do not decrease, of n rows, by cubics between points.

    Attributes:
        x: Points, not decreasing, (n, g).
        f: Values there, (n, g).
        slopes: At the left and the right end of each stretch, times its length,
            (2, n, g − 1).

    Example:
        >>> x = np.linspace(0.0, 1.0, 9)[None]
        >>> found = MonotoneCubics.of(x, x**2)
        >>> found.inverse(0.25).round(3)
        array([0.5])
    """

    x: Array
    f: Array
    slopes: Array

    @classmethod
    def of(cls, x: Array, f: Array) -> "MonotoneCubics":
        """Cubics with slopes that keep them monotone."""
        h, rise = np.diff(x, axis=1), np.diff(f, axis=1)
        # Where an atom makes a step, both sides of it are flat.
        smooth = h > 1e-9 * np.ptp(x, axis=1, keepdims=True)
        steep = np.divide(rise, h, out=np.zeros_like(h), where=smooth)
        before, after = steep[:, :-1], steep[:, 1:]
        # Harmonic means, weighted by the lengths of the stretches beside a point
        a, b = h[:, :-1] + 2.0 * h[:, 1:], 2.0 * h[:, :-1] + h[:, 1:]
        total = a * after + b * before
        up = total > 0
        inner = np.where(up, (a + b) * before * after / np.where(up, total, 1.0), 0.0)
        d = np.hstack([steep[:, :1], inner, steep[:, -1:]])
        return cls(x, f, np.stack([d[:, :-1] * h, d[:, 1:] * h]))

    def at(self, share: Array | float, piece: Any = np.s_[:]) -> Array:
        """Values so far along each stretch, (n, g − 1), or along some of them."""
        t = share
        low, high = self.f[:, :-1][piece], self.f[:, 1:][piece]
        first, last = self.slopes[0][piece], self.slopes[1][piece]
        # The four cubics of Hermite
        rise = t * t * (3.0 - 2.0 * t)
        bend = t * (1.0 - t)
        found: Array = low + rise * (high - low) + bend * ((1 - t) * first - t * last)
        return found

    def inverse(self, value: float, steps: int = 40) -> Array:
        """Where the functions reach a value, or the end that is nearest to it, (n,)."""
        n, g = self.f.shape
        rows = np.arange(n)
        place = np.clip((self.f < value).sum(axis=1) - 1, 0, g - 2)
        low, high = np.zeros(n), np.ones(n)
        for _ in range(steps):
            middle = 0.5 * (low + high)
            below = self.at(middle, (rows, place)) < value
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        left, right = self.x[rows, place], self.x[rows, place + 1]
        return left + 0.5 * (low + high) * (right - left)
