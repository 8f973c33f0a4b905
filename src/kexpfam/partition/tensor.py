"""Tensor quadrature in two dimensions, for many densities at once.

Each coordinate has cells as in one dimension, and the nodes are all pairs. A cell is
halved, or one is added outside, where the last Legendre coefficients along that
coordinate, summed without cancellation over the other, say so.

Densities have narrower features than their logarithms, which are smooth at the length
of the kernel. So logarithms are computed on coarser cells, and between the nodes of
these they are the polynomials through them, as long as the last coefficients of those
polynomials are so small that no density changes by more than is allowed. Cells are
refined for some rows first, and only then for all.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from kexpfam._parallel import on_threads
from kexpfam._typing import Array, Indices
from kexpfam.partition.cells import NODES, CellDensity, cell_nodes, cell_rule, locate
from kexpfam.partition.line import mass_beyond
from kexpfam.partition.unnormalized import rows_of

# log_density(rows, nodes): log unnormalised densities of some rows, (g, 2) -> (r, g)
RowLogDensity = Callable[[slice, Array], Array]

# Ends of the cells of either coordinate, (k + 1,) each.
Edges = tuple[Array, Array]

# Log densities of rows at all nodes are computed so many at a time (64 MiB), and summed
# so many at a time, which stay in the cache.
_COMPUTED, _SUMMED = 2**23, 2**18


@dataclass(frozen=True)
class TensorDensity:
    """n normalised densities in the plane."""

    method: ClassVar[str] = "quadrature"
    effective_draws: ClassVar[None] = None  # There are no draws,
    tail_index: ClassVar[None] = None  # and no weights.

    known: Edges  # Cells on which log densities are computed
    edges: Edges  # Cells that are integrated over, parts of these
    log_partition: Array  # log Z of each row, (n,)
    error: Array  # Estimated error of log Z, (n,)
    mean: Array  # (n, 2)
    covariance: Array  # (n, 2, 2)
    log_mean: Array  # E log of the unnormalised density, (n,), for the entropy

    def rows(self, index: Indices) -> "TensorDensity":
        """Only these rows."""
        return rows_of(self, index, "edges", "known")

    def sample(
        self, log_density: RowLogDensity, size: int, rng: np.random.Generator
    ) -> Array:
        """Draws, (n, size, 2): first coordinate, then the second given the first."""
        out = np.empty((len(self.log_partition), size, 2))
        first, second = (cell_nodes(e[:-1], e[1:]) for e in self.edges)
        weights = _weights(self.edges[1])
        grid = _Grid(self.known, self.edges)
        for rows in _row_blocks(len(out), self.edges, _COMPUTED):
            coarse = _KnownRows(log_density, rows).at(self.known)
            log_values = _expanded(coarse, grid)
            values = np.exp(log_values - log_values.max(axis=(1, 2), keepdims=True))
            for row, plane in zip(range(len(out))[rows], values, strict=True):
                marginal = (plane @ weights).reshape(1, *first.shape)
                u = _normalized(self.edges[0], marginal).ppf(rng.random((1, size)))[0]
                # The density between nodes of the first coordinate is the polynomial
                # through its cell's sixteen nodes, for every node of the second.
                lines = _interpolate(self.edges[0], plane, u).clip(0.0)
                conditional = lines.reshape(size, *second.shape)
                v = _normalized(self.edges[1], conditional).ppf(rng.random((size, 1)))
                out[row] = np.stack([u, v[:, 0]], axis=1)
        return out


def integrate_tensor(
    log_density: RowLogDensity,  # Not normalised, of some rows at shared nodes
    n_rows: int,  # How many rows there are
    edges: Edges,  # Cells to begin with, per coordinate
    *,
    extend: tuple[tuple[bool, bool], tuple[bool, bool]],  # Where cells may be added
    tail_index: float = np.inf,  # Moments below this order are finite
    # Two dimensions are printed with fewer digits than one; each further digit costs
    # about a tenth more nodes per coordinate
    tolerance: float = 1e-8,
    tail_tolerance: float = 1e-9,
    # Log densities are polynomials on a cell if no more than this share of the mass may
    # be wrong for it
    polynomial_tolerance: float = 1e-11,
    most_cells: int = 64,  # Where refinement stops: 1024 nodes per coordinate
    first_rows: int = 16,  # So many rows are looked at before all others
) -> TensorDensity:
    """Normalise n densities in the plane."""
    limits = _Limits(tolerance, tail_tolerance, polynomial_tolerance)
    grid, parts = _Grid(edges, edges), _parts(log_density, n_rows, edges)

    def integrated(rows: Array) -> list[_Block]:
        blocks = _row_blocks(len(rows), grid.edges, _SUMMED)
        return on_threads(
            lambda some: _integrated(rows[some], grid, extend, tail_index), blocks
        )

    # The first part is kept, so that some of its rows cost little.
    some_only = n_rows > first_rows
    while True:
        if some_only:
            values = parts[0].at(grid.known)
            blocks = integrated(values[:: max(1, len(values) // first_rows)])
        else:
            blocks = [x for part in parts for x in integrated(part.at(grid.known))]
        refined = grid.refined(blocks, limits)
        if not refined.same_as(grid) and refined.most_cells <= most_cells:
            grid = refined
        elif some_only:
            some_only = False
        else:
            break
    columns = zip(*(block.figures for block in blocks), strict=True)
    return TensorDensity(*grid, *map(np.concatenate, columns))


class _Limits(NamedTuple):
    """Shares of the mass that may be missed."""

    cell: float
    tail: float
    polynomial: float


class _Grid(NamedTuple):
    """Cells of both coordinates."""

    known: Edges  # On these log densities are computed,
    edges: Edges  # and over these, parts of them, densities are integrated.

    @property
    def most_cells(self) -> int:
        return max(len(e) for e in self.edges) - 1

    def same_as(self, other: "_Grid") -> bool:
        """Whether one that was refined has the same cells."""
        return all(
            len(mine) == len(theirs)
            for ours, others in zip(self, other, strict=True)
            for mine, theirs in zip(ours, others, strict=True)
        )

    def refined(self, blocks: "list[_Block]", limits: _Limits) -> "_Grid":
        """Cells that resolve the rows of some blocks better."""

        def worst(name: str, k: int) -> Array:
            return np.max([getattr(block, name)[k] for block in blocks], axis=0)

        # What is no number is no polynomial either.
        rough = [~(worst("unlike_polynomials", k) <= limits.polynomial) for k in (0, 1)]
        known = tuple(
            np.union1d(k, e[r[_parents(k, e)]])
            for k, e, r in zip(self.known, self.edges, rough, strict=True)
        )
        computed = _Grid((known[0], known[1]), self.edges)
        if not computed.same_as(self):  # others' errors are those of polynomials
            return computed
        found = []
        for k in (0, 1):
            edges, outside = self.edges[k], worst("outside", k)
            reach = 0.5 * (edges[-1] - edges[0])
            outer = np.array([edges[0] - reach, edges[-1] + reach])
            outer = outer[outside > limits.tail]
            middle = 0.5 * (edges[:-1] + edges[1:])[worst("indicator", k) > limits.cell]
            inner = middle[rough[k][_parents(known[k], middle)]]
            found.append(
                (
                    np.union1d(known[k], np.append(inner, outer)),
                    np.union1d(edges, np.append(middle, outer)),
                )
            )
        (known_a, a), (known_b, b) = found
        return _Grid((known_a, known_b), (a, b))


def _parents(known: Array, points: Array) -> Indices:
    """Cells that points are in; the last one for its right end."""
    return np.minimum(np.searchsorted(known, points, side="right"), len(known) - 1) - 1


class _KnownRows:
    """Log densities of some rows, with what is known of them already."""

    def __init__(self, log_density: RowLogDensity, rows: slice, *, keep: bool = False):
        """Keep the last values, if so told."""
        self._log_density, self._rows, self._keep = log_density, rows, keep
        self._last: tuple[Edges, Array] | None = None

    def at(self, edges: Edges) -> Array:
        """Log densities at all nodes of cells, (r, a, b)."""
        a, b = (cell_nodes(e[:-1], e[1:]) for e in edges)
        if self._last is None:
            values = self._evaluated(a, b)
        else:
            old, before = self._last
            (i, from_i), (j, from_j) = (
                _unchanged(*both) for both in zip(old, edges, strict=True)
            )
            if len(i) == len(a) and len(j) == len(b):
                return before
            values = np.empty((len(before), len(a), NODES, len(b), NODES))
            cells = before.reshape(len(before), len(old[0]) - 1, NODES, -1, NODES)
            here, there = (i[:, None], j), (from_i[:, None], from_j)
            values[:, here[0], :, here[1]] = cells[:, there[0], :, there[1]]
            other_i, other_j = (
                np.delete(np.arange(len(nodes)), same)
                for nodes, same in ((a, i), (b, j))
            )
            for rows, columns in ((other_i, np.arange(len(b))), (i, other_j)):
                if not (len(rows) and len(columns)):
                    continue
                new = self._evaluated(a[rows], b[columns])
                new = new.reshape(len(before), len(rows), NODES, len(columns), NODES)
                values[:, rows[:, None], :, columns] = new.transpose(1, 3, 0, 2, 4)
            values = values.reshape(len(before), a.size, b.size)
        if self._keep:
            self._last = edges, values
        return values

    def _evaluated(self, a: Array, b: Array) -> Array:
        nodes = np.stack(np.meshgrid(a.ravel(), b.ravel(), indexing="ij"), axis=-1)
        found = self._log_density(self._rows, nodes.reshape(-1, 2))
        return found.reshape(len(found), a.size, b.size)


def _unchanged(old: Array, new: Array) -> tuple[Indices, Indices]:
    """Cells that are the same as before, and which they were."""
    place = np.minimum(np.searchsorted(old, new[:-1]), len(old) - 2)
    same = (old[place] == new[:-1]) & (old[place + 1] == new[1:])
    return np.flatnonzero(same), place[same]


def _parts(log_density: RowLogDensity, n_rows: int, edges: Edges) -> list[_KnownRows]:
    """All rows, as many at a time as there is memory for; the first are kept."""
    return [
        _KnownRows(log_density, rows, keep=rows.start == 0)
        for rows in _row_blocks(n_rows, edges, _COMPUTED)
    ]


class _Block(NamedTuple):
    """What some rows at all nodes tell."""

    figures: tuple[Array, ...]  # Those of `TensorDensity`, of each row
    # Of either coordinate the largest share over rows,
    indicator: list[Array]  # of the error of each cell, (k,)
    outside: list[Array]  # of the mass beyond either end, (2,)
    # and of what polynomials of the log densities miss in each of their cells
    unlike_polynomials: list[Array]


def _integrated(
    coarse: Array,
    grid: _Grid,
    extend: tuple[tuple[bool, bool], tuple[bool, bool]],
    tail_index: float,
) -> _Block:
    """Log densities at the nodes of known cells, (r, a, b), integrated over all."""
    edges = grid.edges
    wa, wb = (_weights(e) for e in edges)
    a, b = (cell_nodes(e[:-1], e[1:]).ravel() for e in edges)
    log_values = _expanded(coarse, grid)
    peak = log_values.max(axis=(1, 2), keepdims=True)
    values = np.exp(log_values - peak)
    # Sums over the second coordinate are one product, and so are those of the first.
    sums = values @ np.stack([wb, wb * b], axis=1)
    along_a, along_b = sums[..., 0], wa @ values
    total = along_a @ wa
    pa, pb = along_a * wa / total[:, None], along_b * wb / total[:, None]
    mean = np.stack([pa @ a, pb @ b], axis=1)
    cross = sums[..., 1] @ (wa * a) / total - mean[:, 0] * mean[:, 1]
    variance_a, variance_b = pa @ a**2 - mean[:, 0] ** 2, pb @ b**2 - mean[:, 1] ** 2
    covariance = np.stack([variance_a, cross, cross, variance_b], axis=1)
    log_values[values == 0] = 0.0  # 0 log 0 = 0
    log_values *= values
    log_mean = (log_values @ wb) @ wa / total

    error = np.full(len(total), 1e-15)
    indicator, outside, unlike = [], [], []
    for k, (weights, marginal) in enumerate(((wb, pa), (wa, pb))):
        left, right = edges[k][:-1], edges[k][1:]
        last = _last_coefficients(values, k)
        share = (last @ weights) * (right - left) / total[:, None]
        shares = marginal.reshape(len(total), len(left), NODES)
        width = 0.5 * (right - left)[:, None] * cell_rule().weights
        beyond = np.asarray(extend[k]) * mass_beyond(
            left, right, shares / width, shares.sum(axis=2), tail_index
        )
        indicator.append(share.max(axis=0, initial=0.0))
        outside.append(beyond.max(axis=0, initial=0.0))
        error += share.sum(axis=1) + beyond.sum(axis=1)
        wrong = _polynomial_errors(coarse, grid.known, peak, total, k)
        unlike.append(wrong.max(axis=0, initial=0.0))
        cut = np.delete(wrong, _unchanged(grid.known[k], edges[k])[1], axis=1)
        error += cut.sum(axis=1)
    log_partition = peak[:, 0, 0] + np.log(total)
    figures = (log_partition, error, mean, covariance.reshape(-1, 2, 2), log_mean)
    return _Block(figures, indicator, outside, unlike)


def _last_coefficients(values: Array, k: int) -> Array:
    """Size of the last two along a coordinate, of all lines, (r, cells, others)."""
    tail, n = cell_rule().last, len(values)
    if k == 0:
        cells = values.reshape(n, -1, NODES, values.shape[2])
        first, second = np.moveaxis(tail.T @ cells, 2, 0)
        return np.asarray(np.abs(first) + np.abs(second))
    # All lines of all cells in one product
    first, second = (values.reshape(-1, NODES) @ tail).T
    found = np.abs(first) + np.abs(second)
    return found.reshape(n, values.shape[1], -1).transpose(0, 2, 1)


def _polynomial_errors(
    coarse: Array, known: Edges, peak: Array, total: Array, k: int
) -> Array:
    """Share of the mass that polynomials of log densities may miss, (r, cells)."""
    with np.errstate(invalid="ignore"):  # where a density is zero, they miss it wholly
        last = _last_coefficients(coarse, k)
    if k == 0:
        tops = coarse.reshape(*last.shape[:2], NODES, -1).max(axis=2)
    else:
        cells = coarse.reshape(*coarse.shape[:2], -1, NODES)
        # Sixteen passes are faster than a maximum of each sixteen neighbours.
        tops = functools.reduce(np.maximum, np.moveaxis(cells, 3, 0))
        tops = tops.transpose(0, 2, 1)
    tops = tops - peak
    # An error of one or more of the logarithm is no error but a guess.
    missed = np.where(last < 1.0, last, np.inf)
    missed *= np.where(np.isneginf(tops), 1.0, np.exp(np.minimum(tops, 0.0)))
    missed[np.isneginf(tops)] = 0.0
    weights, width = _weights(known[1 - k]), np.diff(known[k])
    return (missed @ weights) * width / total[:, None]


def _expanded(coarse: Array, grid: _Grid) -> Array:
    """Log densities at the nodes of all cells from known ones, (r, a, b)."""
    known, edges = grid
    if all(len(k) == len(e) for k, e in zip(known, edges, strict=True)):
        return coarse.copy()
    n, _, columns = coarse.shape
    cells = coarse.reshape(n, len(known[0]) - 1, NODES, columns)
    rows = np.empty((n, len(edges[0]) - 1, NODES, columns))
    for new, (old, matrix) in enumerate(_polynomials(known[0], edges[0])):
        if matrix is None:
            rows[:, new] = cells[:, old]
        else:
            np.matmul(matrix, cells[:, old], out=rows[:, new])
    flat = rows.reshape(n * rows.shape[1] * NODES, columns)
    out = np.empty((len(flat), (len(edges[1]) - 1) * NODES))
    for new, (old, matrix) in enumerate(_polynomials(known[1], edges[1])):
        here = flat[:, old * NODES : (old + 1) * NODES]
        place = slice(new * NODES, (new + 1) * NODES)
        out[:, place] = here if matrix is None else here @ matrix.T
    return out.reshape(n, rows.shape[1] * NODES, out.shape[1])


def _polynomials(known: Array, edges: Array) -> Iterator[tuple[int, Array | None]]:
    """Of each cell the larger one that it is in, and what takes values there to it.

    Values at sixteen nodes become values at sixteen others; None if both are the same.
    """
    parents = np.searchsorted(known, edges[:-1], side="right") - 1
    nodes = cell_nodes(edges[:-1], edges[1:])
    for cell, parent in enumerate(parents.tolist()):
        left, right = known[parent], known[parent + 1]
        if (left, right) == (edges[cell], edges[cell + 1]):
            yield parent, None
            continue
        t = (2.0 * nodes[cell] - (left + right)) / (right - left)
        yield parent, chebyshev.chebvander(t, NODES - 1) @ cell_rule().coefficients.T


def _number_of_nodes(edges: Edges) -> int:
    return (len(edges[0]) - 1) * (len(edges[1]) - 1) * NODES**2


def _row_blocks(n_rows: int, edges: Edges, numbers: int) -> list[slice]:
    """Slices of rows, whose values at all nodes are so many numbers at most."""
    size = max(1, numbers // _number_of_nodes(edges))
    starts = range(0, max(n_rows, 1), size)  # no rows are a block, too
    return [slice(start, min(start + size, n_rows)) for start in starts]


def _weights(edges: Array) -> Array:
    return (0.5 * np.diff(edges)[:, None] * cell_rule().weights).ravel()


def _normalized(edges: Array, values: Array) -> CellDensity:
    """Densities (n, k, 16) that need not integrate to one yet."""
    mass = np.einsum("nkj,k,j->n", values, 0.5 * np.diff(edges), cell_rule().weights)
    return CellDensity(edges, values / mass[:, None, None])


def _interpolate(edges: Array, plane: Array, u: Array) -> Array:
    """Rows of a plane (k·16, b) interpolated at points u (q,), giving (q, b)."""
    cell, t = locate(edges, u)
    series = chebyshev.chebvander(t, NODES - 1) @ cell_rule().coefficients.T
    values = plane.reshape(-1, NODES, plane.shape[1])[cell]
    return np.einsum("qj,qjb->qb", series, values)
