"""Adaptive quadrature in one dimension, for many densities at once.

All rows share the cells, so that evaluating every density at every node is a matrix
product; a cell is halved while any row needs it, and cells are added outwards while any
row has mass there.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.cells import NODES, CellDensity, cell_nodes, cell_rule, locate
from kexpfam.partition.series import series_at
from kexpfam.partition.unnormalized import UnnormalizedDensity, rows_of

# Log unnormalised densities of n rows at shared nodes: (g,) -> (n, g)
LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class LineDensity:
    """n densities on shared cells with their log Z."""

    edges: Array  # Ends of the cells, increasing, (k + 1,)
    log_density: Array  # Normalised, at the nodes, (n, k, 16)
    log_partition: Array  # log Z of each row, (n,)
    error: Array  # Estimated error of log Z, (n,)

    def rows(self, index: Indices) -> "LineDensity":
        """Only these rows."""
        return rows_of(self, index, "edges")

    @cached_property
    def cells(self) -> CellDensity:
        """The densities themselves, and what follows from them."""
        return CellDensity(self.edges, np.exp(self.log_density))

    def logpdf(self, u: Array) -> tuple[Array, Mask]:
        """Log densities by interpolation at u, (n, q), and where that is accurate.

        The polynomial through the logarithms at a cell's nodes; its last coefficients
        tell its error, as they do for the density.
        """
        cell, t = locate(self.edges, u)
        place = cell + self.log_density.shape[1] * np.arange(len(u))[:, None]
        # Points are mostly few, so that only their cells are worth a table.
        needed, where = np.unique(place, return_inverse=True)
        values = self.log_density.reshape(-1, NODES)[needed]
        table = values @ cell_rule().coefficients
        where = where.reshape(u.shape)
        error = cell_rule().error(values)[where]
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        # What is less accurate than this is not interpolated.
        return series_at(table, where, t), inside & (error <= 1e-11)


class _Summary(NamedTuple):
    """What decides about cells: numbers of each row and cell, from all nodes."""

    mass: Array  # (n, k), in units of exp(reference)
    error: Array  # (n, k)
    ends: Array  # (n, k, 2): densities at the first and last node

    @classmethod
    def of(
        cls, left: Array, right: Array, log_values: Array, reference: Array
    ) -> "_Summary":
        # In place: the arrays are large, and new memory costs as much as the numbers.
        values = log_values - reference[:, None, None]
        np.exp(values, out=values)
        width = right - left
        # One pass for all three sums over the nodes of a cell.
        sums = values.reshape(-1, NODES) @ _mass_and_error()
        mass, *last = (sums[:, i].reshape(values.shape[:2]) for i in range(3))
        error = np.abs(last[0]) + np.abs(last[1])
        return cls(mass * (0.5 * width), error * width, values[..., [0, -1]])

    def joined(self, keep: Mask, other: "_Summary") -> "_Summary":
        pairs = zip(self, other, strict=True)
        return _Summary(*(np.concatenate([a[:, keep], b], axis=1) for a, b in pairs))


@functools.cache
def _mass_and_error() -> Array:
    """Weights of a cell, and what gives its last two coefficients, (16, 3)."""
    rule = cell_rule()
    return np.column_stack([rule.weights, rule.last])


@dataclass(frozen=True)
class _Refinement:
    """The state of a refinement; the cells are in no particular order.

    Log densities stay in the blocks in which they were computed until the end.
    """

    left: Array  # (k,)
    right: Array  # (k,)
    blocks: tuple[Array, ...]  # (n, k_i, 16) each: log densities of all cells so far
    column: Indices  # (k,): where in these blocks, counted through
    reference: Array  # (n,): near the largest log value of each row
    summary: _Summary

    @classmethod
    def of(cls, left: Array, right: Array, log_values: Array) -> "_Refinement":
        reference = _largest(log_values)
        summary = _Summary.of(left, right, log_values, reference)
        column = np.arange(len(left))
        return cls(left, right, (log_values,), column, reference, summary)

    def replaced(
        self, keep: Mask, left: Array, right: Array, new: Array
    ) -> "_Refinement":
        """Keep some cells, add new ones with their log densities (n, k', 16)."""
        all_left = np.concatenate([self.left[keep], left])
        all_right = np.concatenate([self.right[keep], right])
        # exp() overflows at 709; long before, the reference follows the peak.
        if np.any(_largest(new) - self.reference > 300.0):
            return self._anew(keep, all_left, all_right, new)
        fresh = _Summary.of(left, right, new, self.reference)
        summary = self.summary.joined(keep, fresh)
        # A split cell may have held a peak that its halves do not see.
        if np.any(summary.mass.sum(axis=1) < 1e-130):
            return self._anew(keep, all_left, all_right, new)
        first = sum(block.shape[1] for block in self.blocks)
        column = np.concatenate([self.column[keep], first + np.arange(new.shape[1])])
        blocks = (*self.blocks, new)
        return _Refinement(all_left, all_right, blocks, column, self.reference, summary)

    def _anew(self, keep: Mask, left: Array, right: Array, new: Array) -> "_Refinement":
        """The same with a reference of its own."""
        old = self.log_values()[:, keep]
        return _Refinement.of(left, right, np.concatenate([old, new], axis=1))

    def log_values(self) -> Array:
        """Log densities of the cells that are left, (n, k, 16)."""
        if np.array_equal(self.column, np.arange(self.blocks[0].shape[1])):
            return self.blocks[0]
        out = np.empty((len(self.reference), len(self.left), NODES))
        first = 0
        for block in self.blocks:
            size = block.shape[1]
            mine = np.flatnonzero((self.column >= first) & (self.column < first + size))
            out[:, mine] = block[:, self.column[mine] - first]
            first += size
        return out


def integrate_line(
    log_density: LogDensity,  # Not normalised, at shared nodes, (g,) -> (n, g)
    edges: Array,  # Cells to begin with, fine enough that no peak hides between nodes
    *,
    extend: tuple[bool, bool],  # Whether mass may lie left and right of them
    tail_index: float = np.inf,  # Moments below this order are finite
    rounding: float = 0.0,  # Absolute rounding error of the log densities
    tolerance: float = 1e-10,  # Cells are halved above this share of a row's mass
    # Cells are added outwards while more than this share of the mass, or of the second
    # moment (where that exists), may lie beyond
    tail_tolerance: float = 1e-12,
    # Where refinement stops whatever the error: this many numbers for all rows together
    # (128 MiB), or this many cells where the rows are many, and where they are few
    most_numbers: int = 2**24,
    fewest_cells: int = 512,
    most_cells: int = 2**14,
    # First cells are halved anyway where log densities of a row differ by more: a peak
    # of T in the thousands may hide between nodes
    steep: float = 500.0,
) -> LineDensity:
    """Normalise n densities on the line.

    What `log_density` returns is written to.
    """

    def evaluate(left: Array, right: Array) -> Array:
        values = log_density(cell_nodes(left, right).ravel())
        return values.reshape(len(values), len(left), NODES)

    left, right = edges[:-1].copy(), edges[1:].copy()
    cells = _Refinement.of(left, right, evaluate(left, right))
    is_steep = _largest_difference(cells.blocks[0]) > steep
    most = max(fewest_cells, most_numbers // (NODES * max(1, len(cells.reference))))
    most = min(most, most_cells)
    while True:
        mass, error = cells.summary.mass, cells.summary.error
        total = mass.sum(axis=1)
        # There is no use in splitting below the rounding error of the exponents.
        rounded = rounding + 1e-15 * (1.0 + np.abs(cells.reference))
        allowed = total * np.maximum(tolerance, rounded)
        split = np.any(error > allowed[:, None], axis=0) | is_steep
        is_steep = False
        beyond = mass_beyond(
            cells.left, cells.right, cells.summary.ends, mass, tail_index
        )
        far = beyond.max(axis=0) / tail_tolerance
        grow = _cells_to_add(cells, extend & (far > 1.0), far.max(), tail_index)
        count = len(cells.left) + int(split.sum()) + len(grow[0])
        if not (split.any() or grow[0].size) or count > most:
            break
        middle = 0.5 * (cells.left + cells.right)[split]
        new_left = np.concatenate([cells.left[split], middle, grow[0]])
        new_right = np.concatenate([middle, cells.right[split], grow[1]])
        cells = cells.replaced(
            ~split, new_left, new_right, evaluate(new_left, new_right)
        )
    cells = replace(cells, column=cells.column[np.argsort(cells.left)])
    log_partition = cells.reference + np.log(total)
    share = error.sum(axis=1) / total + beyond @ np.asarray(extend, float)
    log_values = cells.log_values()
    log_values -= log_partition[:, None, None]
    # A relative error of one or more says nothing about the logarithm.
    with np.errstate(divide="ignore"):
        in_log = -np.log1p(-np.minimum(share, 1.0))
    return LineDensity(
        edges=np.append(np.sort(cells.left), cells.right.max()),
        log_density=log_values,
        log_partition=log_partition,
        error=in_log + rounded,
    )


def mass_beyond(
    left: Array,  # Left ends of the cells, (k,), in any order
    right: Array,  # Right ends, (k,)
    # Densities at some nodes, the outermost among them, up to a factor per row, (n, k,
    # ...)
    values: Array,
    mass: Array,  # Mass of each cell, with the same factor, (n, k)
    tail_index: float,  # Moments below this order are finite
) -> Array:
    """Share of each row's mass, or second moment if larger, beyond either end, (n, 2).

    A bound for light tails, and right within a factor of about two for a tail like
    |u|^(−1−a): density at the end times its distance from the middle.
    """
    first, last = left.argmin(), right.argmax()
    reach = 0.5 * (right[last] - left[first])
    center = 0.5 * (right[last] + left[first])
    ends = np.stack([values[:, first, 0], values[:, last, -1]], axis=1)
    share = ends * reach / mass.sum(axis=1, keepdims=True)
    if tail_index > 2:  # follow the tails until the second moment is settled too
        second = (mass @ (0.5 * (left + right) - center) ** 2)[:, None]
        share = np.maximum(share, ends * reach**3 / np.maximum(second, 1e-300))
    return share


def _cells_to_add(
    cells: _Refinement,
    extend: Mask,  # Which sides need them, (2,)
    far: float,  # How many times as much as is allowed may lie beyond
    tail_index: float,  # Moments below this order are finite
    *,
    most: int = 8,  # Cells on one side that are added together
) -> tuple[Array, Array]:
    """Left and right ends of cells to add outside, on the sides that need them."""
    low, high = cells.left.min(), cells.right.max()
    # Only tails without a mean get so far, and no further.
    extend = extend & (np.abs([low, high]) < 1e30)
    # Doubling the distance halves the rest of any tail that has a mean, and divides the
    # second moment of a tail |u|^(−1−a) by 2^(a−2): so many doublings will be needed.
    # Of lighter tails one may be enough.
    rate = tail_index - 2.0 if tail_index > 2 else tail_index
    count = np.log2(max(far, 1.0)) / rate if np.isfinite(far) and rate > 0 else 1.0
    added = []
    for _ in range(int(np.clip(count, 1, most))):
        step = 0.5 * (high - low)
        sides = np.array([[low - step, low], [high, high + step]])
        added.append(sides[extend])
        low, high = np.where(extend, [low - step, high + step], [low, high])
    wanted = np.concatenate(added)
    return wanted[:, 0], wanted[:, 1]


def _largest(values: Array) -> Array:
    """Largest value of each row, (n, k, 16) -> (n,)."""
    return values.reshape(len(values), -1).max(axis=1, initial=-np.inf)


def _largest_difference(values: Array) -> float:
    """How far finite values of a row are apart at most."""
    flat, high = values.reshape(len(values), -1), _largest(values)
    low = flat.min(axis=1, initial=np.inf)
    if not np.isfinite(low).all():
        low = np.where(np.isfinite(flat), flat, high[:, None]).min(axis=1)
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(high - low).max(initial=0.0))


def first_cells(
    tilted: UnnormalizedDensity, column: int, resolution: float
) -> tuple[Array, tuple[bool, bool]]:
    """Cells of one column to begin with, and whether mass may lie left and right.

    Nothing is added beyond a finite end of the support, so the cells reach it.
    """
    support, data = tilted.base.column_support(column), tilted.responses[:, column]
    low, high = tilted.base.column_range(column)
    extend = (not np.isfinite(support[0]), not np.isfinite(support[1]))
    low = min(low, float(data.min())) if extend[0] else support[0]
    high = max(high, float(data.max())) if extend[1] else support[1]
    return starting_edges(low, high, data, resolution), extend


def starting_edges(
    low: float,  # Where the base density's mass, or its support, begins
    high: float,  # Where it ends
    points: Array,  # Training responses, (m,)
    resolution: float,  # Length below which T is smooth
    *,
    most_even: int = 256,  # With more cells than these, only near data
) -> Array:
    """Cells to begin with: fine near the data, coarser the farther away.

    T can only have features near training responses, and none narrower than the
    resolution, so that no peak of exp(T) is missed, wherever the data are.
    """
    first, last = max(low, float(points.min())), min(high, float(points.max()))
    span = max(last - first, 1e-3 * (high - low))
    # Half a lengthscale with sixteen nodes follows exp(T) even where T is in the
    # thousands, and is rarely split.
    width = min(0.5 * resolution, 0.25 * span)
    count = int(np.ceil(span / width))
    if count > most_even:
        # Only cells with data, and their neighbours.
        occupied = np.unique(np.floor((points - first) / width))
        cells = np.unique(occupied[:, None] + np.arange(-3.0, 4.0))
        fine = first + width * np.unique(np.append(cells, cells + 1.0))
    else:
        fine = np.linspace(first, first + span, count + 1)
    fine = np.clip(fine, low, high)
    ends = np.concatenate([[low], fine, [high]])
    gaps = np.flatnonzero(np.diff(ends) > 1.5 * width)
    graded = [_graded(ends[k], ends[k + 1], width) for k in gaps]
    edges = np.unique(np.concatenate([ends, *graded]))
    # Rounding may leave slivers between cells that should meet.
    edges = edges[np.append(True, np.diff(edges) > 1e-6 * width)]
    edges[-1] = high
    return edges


def _graded(a: float, b: float, width: float) -> Array:
    """Edges between a and b whose distances grow from either end to the middle."""
    growth = 1.5
    count = int(np.ceil(np.log1p((b - a) / width) / np.log(growth)))
    steps = width * (growth ** np.arange(1, count + 1) - 1.0) / (growth - 1.0)
    steps = steps[steps < 0.5 * (b - a)]
    return np.concatenate([a + steps, b - steps])
