"""Tensor quadrature in two dimensions, for many densities at once.

Each coordinate has cells as in one dimension, and the nodes are all pairs. A cell is
halved, or one is added outside, where the last Legendre coefficients along that
coordinate, summed without cancellation over the other, say so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import legendre

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.cells import NODES, CellDensity, cell_nodes, cell_rule, locate
from kexpfam.partition.line import mass_beyond
from kexpfam.partition.unnormalized import rows_of

# log_density(rows, nodes): log unnormalised densities of some rows, (g, 2) -> (r, g)
RowLogDensity = Callable[[slice, Array], Array]


@dataclass(frozen=True)
class TensorDensity:
    """n normalised densities in the plane."""

    method: ClassVar[str] = "quadrature"
    effective_draws: ClassVar[None] = None  # There are no draws,
    tail_index: ClassVar[None] = None  # and no weights.

    edges: tuple[Array, Array]  # Ends of the cells of either coordinate
    log_partition: Array  # log Z of each row, (n,)
    error: Array  # Estimated error of log Z, (n,)
    mean: Array  # (n, 2)
    covariance: Array  # (n, 2, 2)
    log_mean: Array  # E log of the unnormalised density, (n,), for the entropy

    def rows(self, index: Indices) -> "TensorDensity":
        """Only these rows."""
        return rows_of(self, index, "edges")

    def sample(
        self, log_density: RowLogDensity, size: int, rng: np.random.Generator
    ) -> Array:
        """Draws, (n, size, 2): first coordinate, then the second given the first."""
        out = np.empty((len(self.log_partition), size, 2))
        first, second = (cell_nodes(e[:-1], e[1:]) for e in self.edges)
        weights = _weights(self.edges[1])
        for rows, log_values in _blocks(log_density, self.edges, len(out)):
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
    edges: tuple[Array, Array],  # Cells to begin with, per coordinate
    *,
    extend: tuple[tuple[bool, bool], tuple[bool, bool]],  # Where cells may be added
    tail_index: float = np.inf,  # Moments below this order are finite
    # Two dimensions are printed with fewer digits than one; each further digit costs
    # about a tenth more nodes per coordinate
    tolerance: float = 1e-8,
    tail_tolerance: float = 1e-9,
    most_cells: int = 64,  # Where refinement stops: 1024 nodes per coordinate
) -> TensorDensity:
    """Normalise n densities in the plane."""
    limits = (tolerance, tail_tolerance)
    while True:
        blocks = [
            _integrated(log_values, edges, np.array(extend), tail_index)
            for _, log_values in _blocks(log_density, edges, n_rows)
        ]
        first, second = (
            _refine(
                edges[k],
                np.max([block.indicator[k] for block in blocks], axis=0),
                np.max([block.outside[k] for block in blocks], axis=0),
                limits,
            )
            for k in (0, 1)
        )
        done = (len(first), len(second)) == (len(edges[0]), len(edges[1]))
        if done or max(len(first), len(second)) > most_cells + 1:
            break
        edges = (first, second)
    columns = zip(*(block.figures for block in blocks), strict=True)
    return TensorDensity(edges, *map(np.concatenate, columns))


class _Block(NamedTuple):
    """What some rows at all nodes tell."""

    figures: tuple[Array, ...]  # Those of `TensorDensity`, of each row
    # Of either coordinate the largest share over rows,
    indicator: list[Array]  # of the error of each cell, (k,)
    outside: list[Array]  # and of the mass beyond either end, (2,)


def _integrated(
    log_values: Array, edges: tuple[Array, Array], extend: Mask, tail_index: float
) -> _Block:
    """Log densities at all nodes, (r, a, b), integrated."""
    wa, wb = (_weights(e) for e in edges)
    a, b = (cell_nodes(e[:-1], e[1:]).ravel() for e in edges)
    peak = log_values.max(axis=(1, 2), keepdims=True)
    values = np.exp(log_values - peak)
    along_a, along_b = values @ wb, np.einsum("nab,a->nb", values, wa)
    total = along_a @ wa
    pa, pb = along_a * wa / total[:, None], along_b * wb / total[:, None]
    mean = np.stack([pa @ a, pb @ b], axis=1)
    cross = np.einsum("nab,a,b->n", values, wa * a, wb * b) / total
    cross -= mean[:, 0] * mean[:, 1]
    variance_a, variance_b = pa @ a**2 - mean[:, 0] ** 2, pb @ b**2 - mean[:, 1] ** 2
    covariance = np.stack([variance_a, cross, cross, variance_b], axis=1)
    shifted = np.where(values > 0, log_values, 0.0)
    log_mean = np.einsum("nab,nab,a,b->n", values, shifted, wa, wb) / total

    error, tail = np.full(len(total), 1e-15), cell_rule().coefficients[:, -2:]
    indicator, outside = [], []
    for k, (oriented, weights, marginal) in enumerate(
        ((values, wb, pa), (values.transpose(0, 2, 1), wa, pb))
    ):
        left, right = edges[k][:-1], edges[k][1:]
        cells = oriented.reshape(len(total), len(left), NODES, oriented.shape[2])
        last = np.abs(np.einsum("npjb,jc->npcb", cells, tail)).sum(axis=2) @ weights
        share = last * (right - left) / total[:, None]
        shares = marginal.reshape(len(total), len(left), NODES)
        width = 0.5 * (right - left)[:, None] * cell_rule().weights
        beyond = extend[k] * mass_beyond(
            left, right, shares / width, shares.sum(axis=2), tail_index
        )
        indicator.append(share.max(axis=0, initial=0.0))
        outside.append(beyond.max(axis=0, initial=0.0))
        error += share.sum(axis=1) + beyond.sum(axis=1)
    log_partition = peak[:, 0, 0] + np.log(total)
    figures = (log_partition, error, mean, covariance.reshape(-1, 2, 2), log_mean)
    return _Block(figures, indicator, outside)


def _refine(
    edges: Array, indicator: Array, outside: Array, limits: tuple[float, float]
) -> Array:
    split = indicator > limits[0]
    reach = 0.5 * (edges[-1] - edges[0])
    outer = np.array([edges[0] - reach, edges[-1] + reach])[outside > limits[1]]
    middle = 0.5 * (edges[:-1] + edges[1:])[split]
    return np.sort(np.concatenate([edges, middle, outer]))


def _blocks(
    log_density: RowLogDensity, edges: tuple[Array, Array], n_rows: int
) -> Iterator[tuple[slice, Array]]:
    """Slices of rows with their log densities at all nodes, (r, a, b)."""
    a, b = (cell_nodes(e[:-1], e[1:]).ravel() for e in edges)
    nodes = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    # The values of a block at all nodes stay below this many numbers.
    block = max(1, 4_000_000 // len(nodes))
    for start in range(0, max(n_rows, 1), block):  # no rows are a block, too
        rows = slice(start, min(start + block, n_rows))
        yield rows, log_density(rows, nodes).reshape(-1, len(a), len(b))


def _weights(edges: Array) -> Array:
    return (0.5 * np.diff(edges)[:, None] * cell_rule().weights).ravel()


def _normalized(edges: Array, values: Array) -> CellDensity:
    """Densities (n, k, 16) that need not integrate to one yet."""
    mass = np.einsum("nkj,k,j->n", values, 0.5 * np.diff(edges), cell_rule().weights)
    return CellDensity(edges, values / mass[:, None, None])


def _interpolate(edges: Array, plane: Array, u: Array) -> Array:
    """Rows of a plane (k·16, b) interpolated at points u (q,), giving (q, b)."""
    cell, t = locate(edges, u)
    series = legendre.legvander(t, NODES - 1) @ cell_rule().coefficients.T
    values = plane.reshape(-1, NODES, plane.shape[1])[cell]
    return np.einsum("qj,qjb->qb", series, values)
