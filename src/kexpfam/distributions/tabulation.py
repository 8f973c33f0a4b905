"""Densities on cells in the user's units of y, each row on cells of its own.

The quadrature of a fitted family works in the coordinates of the kernel, where rows can
share cells. What is not affine in them, a mixture of several families or a transformed
variable, has its mode, its highest-density region and its entropy in y itself.

`tabulate` begins with few cells, cut wherever the density is not smooth, and halves
those on which sixteen nodes do not follow it. What hides between nodes shows in the
mass of the cell, which the distribution function tells exactly.

`quadrature_of` is for moments, to which heavy tails reach far. With c about the median,
u the width of the middle half and

    y = c + u sinh v,

a tail |y|^−a is one of exponentials, which cells of one length in v resolve from the
middle to the end of the mass.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from kexpfam._roots import bracketed_roots, golden_section
from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition import (
    CellDensity,
    cell_nodes,
    cell_rule,
    series_at,
    series_slopes,
)

# Functions of some rows at points of their own: (m, q) and the rows (m,) -> (m, q)
RowsFunction = Callable[[Array, Indices], Array]


# Edges of cells in v to begin with, on either side: of one length where there is mass,
# and longer beyond, where hardly any density reaches. Guesses.
STEPS = np.concatenate([1.5 * np.arange(11), 15.0 * 2.0 ** np.arange(1, 7)])

# How far polynomials may miss densities. Sixteen nodes integrate polynomials of twice
# the degree: moments were right to 1e-11 of the standard deviation.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Cells:
    """Cells of all rows in one list."""

    row: Indices  # Which row each belongs to, (m,)
    left: Array  # Left ends, (m,)
    right: Array  # Right ends, (m,)
    below: Array  # Mass below either end, (m, 2)

    def at(self, chosen: Mask) -> "_Cells":
        return _Cells(*(getattr(self, part.name)[chosen] for part in fields(self)))

    def halved(self, cdf: RowsFunction) -> "_Cells":
        middle = self.left + 0.5 * (self.right - self.left)
        inner = cdf(middle[:, None], self.row)[:, 0]
        first, last = self.below.T
        below = np.concatenate([[first, inner], [inner, last]], axis=1).T
        left = np.concatenate([self.left, middle])
        right = np.concatenate([middle, self.right])
        return _Cells(np.tile(self.row, 2), left, right, below)

    def values(self, pdf: RowsFunction) -> Array:
        """Densities at the nodes, (m, 16), in blocks that need little memory."""
        nodes = cell_nodes(self.left, self.right)
        values, size = np.empty(nodes.shape), 2**18 // nodes.shape[1]
        for start in range(0, len(nodes), size):
            block = slice(start, start + size)
            values[block] = pdf(nodes[block], self.row[block])
        return values


def tabulate(
    pdf: RowsFunction,  # Densities of some rows at points of their own
    cdf: RowsFunction,  # Their distribution functions
    # Cells to begin with, not decreasing, (n, k + 1): from the beginning to the end of
    # the mass, and cut wherever the density is not smooth
    edges: Array,
    *,
    # How far points of some rows are from the middle, in units of its width, where the
    # second moment is to be resolved, too
    distance: RowsFunction | None = None,
    # How far polynomials may miss the density, as a share of the mass, of the entropy
    # or of the second moment. Quadratures miss these by about the square.
    tolerance: float = 1e-10,
    rounds: int = 50,  # A jump is found to 2⁻⁵⁰ of its cell
    most_cells: int = 2048,  # Rows with more cells are noise, not features
) -> CellDensity:
    """Each row on its own cells that resolve it, filled up with empty ones."""
    n = len(edges)
    below = cdf(edges, np.arange(n))
    far = None if distance is None else _shares_of_moment(edges, below, distance)
    row, cell = np.nonzero(np.diff(edges, axis=1) > 0)
    ends = np.stack([below[row, cell], below[row, cell + 1]], axis=1)
    cells = _Cells(row, edges[row, cell], edges[row, cell + 1], ends)
    done: list[tuple[_Cells, Array]] = []
    count = np.zeros(n, dtype=np.intp)
    for step in range(rounds):
        values = cells.values(pdf)
        split = _unresolved(cells, values, far, tolerance)
        crowded = count + np.bincount(cells.row, minlength=n) > most_cells
        split &= ~crowded[cells.row] & (step < rounds - 1)
        done.append((cells.at(~split), values[~split]))
        count += np.bincount(cells.row[~split], minlength=n)
        if not split.any():
            break
        cells = cells.at(split).halved(cdf)
    return _assembled(n, done, edges[:, -1])


def _shares_of_moment(
    edges: Array, below: Array, distance: RowsFunction
) -> RowsFunction:
    """How much the mass at some points counts in the second moment of their rows.

    That is what the mass of cells at their nearer ends has at least; what is near the
    middle counts as much as elsewhere.
    """
    squares = np.square(distance(edges, np.arange(len(edges))))
    nearest = np.minimum(squares[:, :-1], squares[:, 1:])
    moment = np.maximum(1.0, np.sum(np.diff(below) * nearest, axis=1))
    return lambda v, rows: np.square(distance(v, rows)) / moment[rows, None]


def _unresolved(
    cells: _Cells, values: Array, far: RowsFunction | None, tolerance: float
) -> Mask:
    """Which cells are to be halved."""
    # A spike between the nodes has more mass than this; quadratures of the components
    # agree with their distribution functions to far less.
    hidden_mass = 2e-10
    rule = cell_rule()
    half = 0.5 * (cells.right - cells.left)
    surprise = values * np.log(np.maximum(values, np.finfo(float).tiny))
    hidden = half * (values @ rule.weights) - np.diff(cells.below, axis=1)[:, 0]
    error = 2.0 * half * rule.error(values)
    if far is not None:
        middle = 0.5 * (cells.left + cells.right)
        error = error * np.maximum(1.0, far(middle[:, None], cells.row)[:, 0])
    split = error > tolerance
    # Logarithms vary with the units of y, and their errors are ten times as large.
    split |= 2.0 * half * rule.error(surprise) > 10.0 * tolerance
    split |= np.abs(hidden) > hidden_mass
    # No double lies between the ends of a cell that is narrower.
    size = np.maximum(np.abs(cells.left), np.abs(cells.right))
    return split & (half > 2e-16 * size)


def _assembled(n: int, done: list[tuple[_Cells, Array]], end: Array) -> CellDensity:
    """Cells in order, row by row."""
    row, left, right = (
        np.concatenate([getattr(cells, name) for cells, _ in done])
        for name in ("row", "left", "right")
    )
    values = np.concatenate([part for _, part in done])
    order = np.lexsort([left, row])
    row, left, right, values = row[order], left[order], right[order], values[order]
    count = np.bincount(row, minlength=n)
    position = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    most = int(count.max(initial=1))
    edges = np.repeat(end[:, None], most + 1, axis=1)
    edges[row, position] = left
    edges[row, position + 1] = right
    density = np.zeros((n, most, values.shape[-1]))
    density[row, position] = values
    return CellDensity(edges, density)


def merged_edges(parts: list[Array]) -> Array:
    """All edges of each row in order, (n, k_i) for each part -> (n, k)."""
    edges = np.sort(np.concatenate(parts, axis=1), axis=1)
    # Repeated edges go to the end, where they are cut off as far as all rows have them.
    repeated = np.diff(edges, axis=1, prepend=-np.inf) <= 0
    edges = np.sort(np.where(repeated, edges[:, -1:], edges), axis=1)
    count = int((~repeated).sum(axis=1).max(initial=1))
    return edges[:, : max(count, 2)]


def graded_points(outline: Array) -> Array:
    """Points of each row whose distances from its middle grow fourfold, up to its ends.

    Far out, where the outline of a heavy tail leaves wide cells, halving these would
    need as many rounds as there are points. A polynomial on such a cell misses a
    thousandth of a tail |y|^−4 at its end; where there is mass, the cell is halved.

    Args:
        outline: Edges of each row, not decreasing, (n, k).

    Returns:
        Points, (n, j); the end of the row where there are fewer than in others.
    """
    first, last = outline[:, :1], outline[:, -1:]
    low, middle, high = (outline[:, [outline.shape[1] * i // 4]] for i in (1, 2, 3))
    unit = np.maximum(high - low, np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        most = np.max(np.maximum(last - middle, middle - first) / unit, initial=1.0)
    steps = unit * 4.0 ** np.arange(1.0, np.clip(0.5 * np.log2(most), 0.0, 30.0))
    return np.concatenate(
        [np.maximum(middle - steps, first), np.minimum(middle + steps, last)], axis=1
    )


@dataclass(frozen=True)
class Quadrature:
    """Nodes of n densities, in order."""

    nodes: Array  # (n, q)
    masses: Array  # What each stands for, (n, q), with sum one
    below: Array  # Mass below each node, (n, q)

    def integral(self, values: Array) -> Array:
        """Expectations of values at the nodes, (n, q) -> (n,)."""
        return np.einsum("nq,nq->n", self.masses, values)


def quadrature_of(
    pdf: RowsFunction,  # Densities of some rows at points of their own
    cdf: RowsFunction,  # Their distribution functions
    quartiles: Array,  # About the quartiles, (n, 3)
    ends: Array,  # Of the mass, (n, 2)
    breaks: Array,  # Where something is not smooth, the same for all rows, (j,)
) -> Quadrature:
    """Nodes that resolve the mass and the second moment of each row."""
    center = quartiles[:, 1:2]
    # Not so small that v is infinite at the ends
    least = np.maximum(1e-300 * np.ptp(ends, axis=1), np.finfo(float).tiny)[:, None]
    unit = np.maximum(quartiles[:, 2:] - quartiles[:, :1], least)

    def stretched(y: Array) -> Array:
        return np.arcsinh((y - center) / unit)

    def at(v: Array, rows: Indices) -> Array:
        return center[rows] + unit[rows] * np.sinh(v)

    low, high = np.split(stretched(ends), 2, axis=1)
    steps = np.concatenate([-STEPS, STEPS])
    inner = [np.broadcast_to(steps, (len(low), len(steps))), stretched(breaks)]
    edges = merged_edges([low, *(np.clip(part, low, high) for part in inner), high])
    cells = tabulate(
        lambda v, rows: pdf(at(v, rows), rows) * unit[rows] * np.cosh(v),
        lambda v, rows: cdf(at(v, rows), rows),
        edges,
        distance=lambda v, _: np.sinh(np.clip(v, -300.0, 300.0)),
        tolerance=TOLERANCE,
    )
    rule, n = cell_rule(), len(edges)
    half = cells.half[..., None]
    # Mass between the left end of a cell and each of its nodes
    each = np.arange(len(rule.nodes))[:, None]
    before = series_at(rule.integrals, *np.broadcast_arrays(each, rule.nodes))
    below = cells.below[..., None] + half * (cells.density @ before)
    nodes = center[:, :, None] + unit[:, :, None] * np.sinh(cells.nodes)
    masses = half * cells.density * rule.weights
    flat = (n, nodes[0].size if n else 0)
    return Quadrature(
        nodes.reshape(flat),
        masses.reshape(flat),
        np.clip(below, 0.0, 1.0).reshape(flat),
    )


def peaks(
    cells: CellDensity,  # The densities, each row on its own cells
    log_density: Callable[[Array], Array],  # At each row's own points, (n, q)
    slope: Callable[[Array], Array],  # Derivatives at one point each, (n,)
) -> Array:
    """Where each density is largest, (n,)."""
    n, k, size = cells.density.shape
    row, edges, half = np.arange(n), cells.edges, cells.half
    heights = np.where((half > 0)[..., None], cells.density, -np.inf)
    cell, node = np.divmod(heights.reshape(n, -1).argmax(axis=1), size)
    t = np.concatenate([[-1.0], cell_rule().nodes, [1.0]])
    points = [cells.nodes[row, cell, node], edges[row, cell], edges[row, cell + 1]]
    # If the highest node is the outermost, the peak may be in the next cell.
    for other, low, high in (
        (cell - 1, np.full(n, t[-2]), np.ones(n)),
        (cell, t[node], t[node + 2]),
        (cell + 1, -np.ones(n), np.full(n, t[1])),
    ):
        near = np.clip(other, 0, k - 1)
        top = _top(cells.density_table[row * k + near], low, high)
        points.append(edges[row, near] + half[row, near] * (1.0 + top))
    candidates = np.sort(np.stack(points, axis=1), axis=1)
    best = candidates[row, log_density(candidates).argmax(axis=1)]
    # The polynomials tell a flat top only roughly, the slope does exactly, and is
    # looked at this share of a cell around.
    room = 0.01 * half[row, cell]
    low, high = best - room, best + room
    inner = (low > edges[:, 0]) & (high < edges[:, -1])
    smooth = inner & (slope(low) > 0) & (slope(high) < 0)
    low, high = (np.where(smooth, end, best) for end in (low, high))
    found = bracketed_roots(slope, low, high, tolerance=1e-10)
    # At a bound slopes change their sign, too, and left of it the density is lower.
    log_p = log_density(np.stack([best, found], axis=1))
    return np.where(log_p[:, 1] >= log_p[:, 0], found, best)


def slivers(cells: CellDensity, bounds: Array) -> Mask:
    """Cells with high densities of next to no mass at a bound, (n, k).

    Behind a map that takes a bound far out, tails of what is there are crowded into a
    height, where the density of y is large, and has less mass than any rows tell.
    A sliver is within a thousandth of the mass from a bound, falls to less than half,
    and there the density is less than half of what it is elsewhere. It ends where the
    density is lowest.

    Args:
        cells: The densities, each row on its own cells.
        bounds: Lower and upper ends of supports, (j, 2).
    """
    most, half = 1e-3, 0.5
    mass = cells.mass
    top, bottom = cells.density.max(axis=2), cells.density.min(axis=2)
    found = np.zeros(mass.shape, dtype=bool)
    row, place = np.arange(len(mass)), np.arange(mass.shape[1])
    sides = [(lower, 1, 0) for lower in np.unique(bounds[:, 0])]
    sides += [(upper, -1, -1) for upper in np.unique(bounds[:, 1])]
    for bound, turn, node in sides:
        touching = (cells.edges == bound).any(axis=1) & np.isfinite(bound)
        if not touching.any():
            continue
        beyond = cells.edges[:, :-1] - bound if turn > 0 else bound - cells.edges[:, 1:]
        own, height = (beyond >= 0)[:, ::turn], top[:, ::turn]
        near = own & (np.cumsum(own * mass[:, ::turn], axis=1) <= most)
        next_one = np.argmax(own & ~near, axis=1)
        level = cells.density[:, ::turn, node][row, next_one]
        heights = np.where(near, height, 0.0)
        high = heights.max(axis=1)
        rest = np.where(near, 0.0, height).max(axis=1)
        sliver = (level < half * high) & (level < half * rest)
        sliver &= touching & (own & ~near).any(axis=1)
        falling = near & (place >= heights.argmax(axis=1)[:, None])
        valley = np.where(falling, bottom[:, ::turn], np.inf).argmin(axis=1)
        near &= sliver[:, None] & (place <= valley[:, None])
        found |= near[:, ::turn]
    return found


def _top(series: Array, low: Array, high: Array) -> Array:
    """The highest point of each series (n, 16) between two, t from −1 to 1, (n,)."""
    every = np.arange(len(series))
    low, high = golden_section(
        lambda t: series_at(series, every, t), low, high, np.ones(low.shape)
    )
    t = 0.5 * (low + high)
    first = series_slopes(series)
    second = series_slopes(first)
    # The value is flat, the slope is not: Newton's method gives the other digits.
    for _ in range(8):
        slope, bend = series_at(first, every, t), series_at(second, every, t)
        step = np.where(bend < 0, slope / np.where(bend < 0, bend, 1.0), 0.0)
        t = np.clip(t - step, low, high)
    return t
