"""Densities as polynomials on quadrature cells, each with sixteen Gauss-Legendre nodes.

The line is cut into cells, which all rows share or each row has its own. A density is
known at the nodes of its cells; the polynomials through these give the distribution
function, quantiles and moments. The last two Legendre coefficients of a cell tell how
well its polynomial follows the density, and with that the error of all of these.
Polynomials are evaluated as Chebyshev series, which takes fewest operations.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev, legendre

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.series import chebyshev_values, invert_series, series_at

# Nodes of a cell: exact for polynomials of degree 31.
NODES = 16


@dataclass(frozen=True)
class CellRule:
    """Sixteen-point Gauss-Legendre quadrature and its polynomials."""

    nodes: Array  # (16,) on [-1, 1]
    weights: Array  # (16,)
    coefficients: Array  # (16, 16): values at nodes -> Chebyshev coefficients
    integrals: Array  # (16, 17): values at nodes -> coefficients of ∫ from -1
    last: Array  # (16, 2): values at nodes -> the last two Legendre coefficients

    def error(self, values: Array) -> Array:
        """How far polynomials miss values at the nodes, (..., 16) -> (...)."""
        return np.abs(values @ self.last).sum(axis=-1)


@functools.cache
def cell_rule() -> CellRule:
    """The rule that every cell uses."""
    nodes, weights = legendre.leggauss(NODES)
    order = np.arange(NODES - 2, NODES)
    # c_k = (2k+1)/2 Σ_j w_j P_k(t_j) f_j, exact for polynomials of degree 15
    values = legendre.legvander(nodes, NODES - 1)[:, order]
    last = np.asarray(values * weights[:, None] * (order + 0.5), dtype=float)
    # The nodes are nearly those of Chebyshev, so that little is lost by rounding.
    change = np.linalg.inv(chebyshev.chebvander(nodes, NODES - 1)).T
    coefficients = np.asarray(change, dtype=float)
    integrate = np.stack([chebyshev.chebint(row, lbnd=-1) for row in np.eye(NODES)])
    return CellRule(nodes, weights, coefficients, coefficients @ integrate, last)


def cell_nodes(left: Array, right: Array) -> Array:
    """Nodes of the cells [left, right], (..., k) -> (..., k, 16)."""
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    return middle[..., None] + half[..., None] * cell_rule().nodes


def cells_holding(below: Array, level: Array) -> Indices:
    """The cell that holds each level, from what is left of each cell, (n, k)."""
    n, k = below.shape
    start = k * np.arange(n)[:, None]
    flat, first = below.ravel(), np.zeros(level.shape, dtype=np.intp)
    # Bisection of all rows at once: the last of the cells with no more below it.
    step = 1 << max(k - 1, 0).bit_length()
    while step := step >> 1:
        trial = np.minimum(first + step, k - 1)
        first = np.where(flat[start + trial] <= level, trial, first)
    return first


@dataclass(frozen=True)
class CellDensity:
    """n normalised densities at the nodes of cells.

    Points and levels are (m, q), for some rows (m,), or for all in order if that is
    None. Of cells, k are counted through row by row: (n k, ...) is a table of them.
    """

    edges: Array  # Ends of the cells, (k + 1,), or of each row's, not decreasing
    density: Array  # Densities at the nodes, (n, k, 16)

    @cached_property
    def nodes(self) -> Array:
        """All nodes, (k, 16) or (n, k, 16)."""
        return cell_nodes(self.edges[..., :-1], self.edges[..., 1:])

    @cached_property
    def half(self) -> Array:
        """Half the width of each cell, (k,) or (n, k)."""
        return 0.5 * np.diff(self.edges)

    @cached_property
    def density_table(self) -> Array:
        """Chebyshev coefficients of the density on each cell, (n k, 16)."""
        return self.density.reshape(-1, NODES) @ cell_rule().coefficients

    @cached_property
    def integral_table(self) -> Array:
        """Those of the mass between the left end and a point, (n k, 17)."""
        table = self.density @ cell_rule().integrals
        return (table * self.half[..., None]).reshape(-1, NODES + 1)

    @cached_property
    def mass(self) -> Array:
        """Mass of each cell, (n, k)."""
        return (self.density @ cell_rule().weights) * self.half

    @cached_property
    def below(self) -> Array:
        """Mass left of each cell, (n, k)."""
        return np.cumsum(self.mass, axis=1) - self.mass

    @cached_property
    def _above(self) -> Array:
        return np.cumsum(self.mass[:, ::-1], axis=1)[:, ::-1] - self.mass

    def integral(self, values: Array) -> Array:
        """∫ values · density for each row; values broadcast to (n, k, 16)."""
        weights = self.half[..., None] * cell_rule().weights
        sums = "nkj,nkj,kj->n" if weights.ndim == 2 else "nkj,nkj,nkj->n"
        return np.einsum(sums, *np.broadcast_arrays(self.density, values), weights)

    def entropy(self) -> Array:
        """−∫ p log p, (n,)."""
        # 0 log 0 = 0
        return -self.integral(np.log(np.maximum(self.density, np.finfo(float).tiny)))

    def pdf(self, y: Array, rows: Indices | None = None) -> Array:
        """The polynomials themselves; zero outside the cells."""
        low, high = self._ends(rows)
        inside = (y >= low) & (y <= high)
        if self.edges.ndim > 1 or inside.all():
            place, t = self._locate(y, rows)
            return np.where(inside, self._density_at(place, t), 0.0)
        # Of an average, most points far out are beyond the cells of most components.
        pdf = np.zeros(y.shape)
        row, column = np.nonzero(inside)
        place, t = self._locate(
            y[row, column, None], row if rows is None else rows[row]
        )
        pdf[row, column] = self._density_at(place, t)[:, 0]
        return pdf

    def logpdf(self, y: Array) -> Array:
        """Their logarithms; densities below 1e-11 of the highest count as that."""
        # Polynomials do not tell what is smaller.
        floor = 1e-11 * self.density.max(axis=(1, 2))[:, None]
        return np.log(np.maximum(self.pdf(y), floor))

    def cdf(self, y: Array, rows: Indices | None = None) -> Array:
        """Mass below y."""
        place, t = self._locate(y, rows)
        below = self.below.ravel()[place] + self._integral_at(place, t)
        return self._with_ends(np.clip(below, 0.0, 1.0), y, (0.0, 1.0))

    def sf(self, y: Array, rows: Indices | None = None) -> Array:
        """Mass above y, with small masses as accurate as small masses of `cdf`."""
        place, t = self._locate(y, rows)
        inside = self.mass.ravel()[place] - self._integral_at(place, t)
        above = np.clip(self._above.ravel()[place] + inside, 0.0, 1.0)
        return self._with_ends(above, y, (1.0, 0.0))

    def tail_and_pdf(self, y: Array, rows: Indices, upper: Mask) -> tuple[Array, Array]:
        """Masses beyond points of some rows, (m,), and densities there, in one go.

        Above the point where `upper`, and below it elsewhere.
        """
        place, t = self._locate(y[:, None], rows)
        place, t = place[:, 0], t[:, 0]
        values = self.density.reshape(-1, NODES).take(place, axis=0)
        T = chebyshev_values(t, NODES + 1)
        pdf = np.einsum("mj,jm->m", values, cell_rule().coefficients @ T[:NODES])
        mass = np.einsum("mj,jm->m", values, cell_rule().integrals @ T)
        half = self.half.ravel()
        mass *= half[place % len(half)] if self.edges.ndim == 1 else half[place]
        above = self._above.ravel()[place] + (self.mass.ravel()[place] - mass)
        mass = np.where(upper, above, self.below.ravel()[place] + mass)
        mass = np.clip(mass, 0.0, 1.0)
        low, high = (end[..., 0] for end in self._ends(rows))
        if self.edges.ndim == 1:
            mass = np.where(y <= low, np.where(upper, 1.0, 0.0), mass)
            mass = np.where(y >= high, np.where(upper, 0.0, 1.0), mass)
        return mass, np.where((y >= low) & (y <= high), pdf, 0.0)

    def ppf(self, level: Array) -> Array:
        """The points with these masses below them."""
        low, high = self._ends(None)
        y = np.where(level <= 0, low, self.quantiles(level)[0])
        return np.where(level >= 1, high, y)

    def quantiles(self, level: Array) -> tuple[Array, Array, Array]:
        """The same for levels inside (0, 1), with the ends of the cells that hold them.

        They are found in the cell, whose polynomial increases but for its error.
        """
        cell = cells_holding(self.below, level)
        place = cell + self.below.shape[1] * np.arange(len(level))[:, None]
        target = level - self.below.ravel()[place]
        if self._few(place, "integral_table"):
            table, own = self._integrals_of(place), np.arange(place.size)
            t = invert_series(table, own.reshape(place.shape), target)
        else:
            t = invert_series(self.integral_table, place, target)
        left, right = self._at_cells(cell, None)
        return left + 0.5 * (right - left) * (1.0 + t), left, right

    def around(self, level: Array, rows: Indices | None = None) -> tuple[Array, Array]:
        """Ends of the cells that hold the quantiles."""
        below = self.below if rows is None else self.below[rows]
        return self._at_cells(cells_holding(below, level), rows)

    def about(self, level: Array, rows: Indices | None = None) -> Array:
        """About the quantiles: as if the mass of a cell were evenly spread in it."""
        below, mass = self.below, self.mass
        if rows is not None:
            below, mass = below[rows], mass[rows]
        cell = cells_holding(below, level)
        left, right = self._at_cells(cell, rows)
        inside = level - np.take_along_axis(below, cell, axis=1)
        total = np.take_along_axis(mass, cell, axis=1)
        share = np.clip(inside / np.where(total > 0, total, 1.0), 0.0, 1.0)
        return left + share * (right - left)

    # A table of all cells is worth its time if points are many. The coefficients of few
    # points are found for these only.

    def _few(self, place: Indices, table: str) -> bool:
        return table not in vars(self) and 8 * place.size < self.half.size * (
            len(self.density) if self.edges.ndim == 1 else 1
        )

    def _density_at(self, place: Indices, t: Array) -> Array:
        """Densities at points t of cells."""
        if not self._few(place, "density_table"):
            return series_at(self.density_table, place, t)
        values = self.density.reshape(-1, NODES).take(place.ravel(), axis=0)
        own = np.arange(place.size).reshape(place.shape)
        return series_at(values @ cell_rule().coefficients, own, t)

    def _integral_at(self, place: Indices, t: Array) -> Array:
        """Masses of cells left of their points t."""
        if not self._few(place, "integral_table"):
            return series_at(self.integral_table, place, t)
        own = np.arange(place.size).reshape(place.shape)
        return series_at(self._integrals_of(place), own, t)

    def _integrals_of(self, place: Indices) -> Array:
        """Rows of `integral_table`, (q, 17)."""
        flat = place.ravel()
        values = self.density.reshape(-1, NODES).take(flat, axis=0)
        cell = flat % len(self.half) if self.edges.ndim == 1 else flat
        return (values @ cell_rule().integrals) * self.half.ravel()[cell, None]

    def _at_cells(self, cell: Indices, rows: Indices | None) -> tuple[Array, Array]:
        """Left and right ends of cells (m, q) of some rows."""
        if self.edges.ndim == 1:
            return self.edges[cell], self.edges[cell + 1]
        row = (np.arange(len(cell)) if rows is None else rows)[:, None]
        return self.edges[row, cell], self.edges[row, cell + 1]

    def _ends(self, rows: Indices | None) -> tuple[Array, Array]:
        """Where the first cell begins and the last ends, (1,) or (m, 1)."""
        edges = self.edges if rows is None or self.edges.ndim == 1 else self.edges[rows]
        return edges[..., :1], edges[..., -1:]

    def _with_ends(self, mass: Array, u: Array, outside: tuple[float, float]) -> Array:
        """Masses, with the right ones beyond the ends of cells that rows share.

        What is left beyond cells of their own is below the error of a table.
        """
        if self.edges.ndim > 1:
            return mass
        mass = np.where(u <= self.edges[0], outside[0], mass)
        return np.where(u >= self.edges[-1], outside[1], mass)

    def _locate(self, y: Array, rows: Indices | None) -> tuple[Indices, Array]:
        """Which cell of which row each point is in, counted through, and where.

        Points outside are at the end of the nearest cell, and t = 1 in an empty one.
        """
        k = self.density.shape[1]
        row = (np.arange(len(y)) if rows is None else rows)[:, None]
        if self.edges.ndim == 1:
            cell, t = locate(self.edges, y)
            return cell + k * row, t
        edges = self.edges if rows is None else self.edges[rows]
        cell = cells_holding(edges[:, :-1], y)
        place = cell + k * row
        half = self.half.ravel()[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (y - np.take_along_axis(edges, cell, axis=1)) / half - 1.0
        return place, np.clip(np.where(half > 0, t, 1.0), -1.0, 1.0)


def locate(edges: Array, u: Array) -> tuple[Indices, Array]:
    """Cells between edges (k + 1,) that hold points, and where in them, −1 to 1."""
    u = np.clip(u, edges[0], edges[-1])
    cell = np.clip(np.searchsorted(edges, u, side="right") - 1, 0, len(edges) - 2)
    half = 0.5 * np.diff(edges)
    return cell, np.clip((u - edges[cell]) / half[cell] - 1.0, -1.0, 1.0)
