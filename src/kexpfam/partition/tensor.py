"""Tensor quadrature in two dimensions, for many densities at once.

Each coordinate has panels as in one dimension, and the nodes are all pairs. A panel is
halved, or one is added outside, where the last Legendre coefficients along that
coordinate, summed without cancellation over the other, say so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.panels import (
    NODES,
    PanelDensity,
    mass_beyond,
    panel_nodes,
    panel_rule,
)
from kexpfam.partition.unnormalized import rows_of

# Two dimensions are printed with fewer digits than one; each further digit costs about
# a tenth more nodes per coordinate.
TOLERANCE = 1e-8
TAIL_TOLERANCE = 1e-9

# Where refinement stops: 1024 nodes per coordinate.
MAX_PANELS = 64

# Rows are taken in blocks whose values at all nodes stay below this many numbers.
_BLOCK_NUMBERS = 4_000_000

# log_density(rows, nodes): log unnormalised densities of some rows, (g, 2) -> (r, g)
RowLogDensity = Callable[[slice, Array], Array]


@dataclass(frozen=True)
class TensorDensity:
    """n normalised densities in the plane."""

    edges: tuple[Array, Array]  # Ends of the panels of either coordinate
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
        first, second = (panel_nodes(e[:-1], e[1:]) for e in self.edges)
        weights = _weights(self.edges[1])
        for rows, log_values in _blocks(log_density, self.edges, len(out)):
            values = np.exp(log_values - log_values.max(axis=(1, 2), keepdims=True))
            for row, plane in zip(range(len(out))[rows], values, strict=True):
                marginal = (plane @ weights).reshape(1, *first.shape)
                u = _normalized(self.edges[0], marginal).ppf(rng.random((1, size)))[0]
                # The density between nodes of the first coordinate is the polynomial
                # through its panel's sixteen nodes, for every node of the second.
                lines = _interpolate(self.edges[0], plane, u).clip(0.0)
                conditional = lines.reshape(size, *second.shape)
                v = _normalized(self.edges[1], conditional).ppf(rng.random((size, 1)))
                out[row] = np.stack([u, v[:, 0]], axis=1)
        return out


def integrate_tensor(
    log_density: RowLogDensity,  # Not normalised, of some rows at shared nodes
    n_rows: int,  # How many rows there are
    edges: tuple[Array, Array],  # Panels to begin with, per coordinate
    *,
    extend: tuple[tuple[bool, bool], tuple[bool, bool]],  # Where panels may be added
    tail_index: float = np.inf,  # Moments below this order are finite
) -> TensorDensity:
    """Normalise n densities in the plane."""
    while True:
        summary = _Summary(n_rows, edges, np.array(extend), tail_index)
        for rows, log_values in _blocks(log_density, edges, n_rows):
            summary.add(rows, log_values)
        refined = tuple(
            _refine(edges[k], summary.indicator[k], summary.outside[k]) for k in (0, 1)
        )
        done = all(
            len(new) == len(old) for new, old in zip(refined, edges, strict=True)
        )
        if done or max(map(len, refined)) > MAX_PANELS + 1:
            break
        edges = (refined[0], refined[1])
    return TensorDensity(
        edges=edges,
        log_partition=summary.log_partition,
        error=summary.error,
        mean=summary.mean,
        covariance=summary.covariance,
        log_mean=summary.log_mean,
    )


class _Summary:
    """What one pass over all rows and nodes finds out."""

    def __init__(
        self, n_rows: int, edges: tuple[Array, Array], extend: Mask, tail_index: float
    ) -> None:
        self._extend = extend
        self._tail_index = tail_index
        self._edges = edges
        self._weights = tuple(_weights(e) for e in edges)
        self._nodes = tuple(panel_nodes(e[:-1], e[1:]).ravel() for e in edges)
        self.log_partition = np.empty(n_rows)
        self.error = np.empty(n_rows)
        self.mean = np.empty((n_rows, 2))
        self.covariance = np.empty((n_rows, 2, 2))
        self.log_mean = np.empty(n_rows)
        # Largest share over rows: error of each panel, mass beyond either end
        self.indicator = [np.zeros(len(e) - 1) for e in edges]
        self.outside = [np.zeros(2), np.zeros(2)]

    def add(self, rows: slice, log_values: Array) -> None:
        (wa, wb), (a, b) = self._weights, self._nodes
        peak = log_values.max(axis=(1, 2), keepdims=True)
        values = np.exp(log_values - peak)
        along_a, along_b = values @ wb, np.einsum("nab,a->nb", values, wa)
        total = along_a @ wa
        self.log_partition[rows] = peak[:, 0, 0] + np.log(total)
        pa, pb = along_a * wa / total[:, None], along_b * wb / total[:, None]
        mean = np.stack([pa @ a, pb @ b], axis=1)
        cross = np.einsum("nab,a,b->n", values, wa * a, wb * b) / total
        cross -= mean[:, 0] * mean[:, 1]
        variance_a, variance_b = (
            pa @ a**2 - mean[:, 0] ** 2,
            pb @ b**2 - mean[:, 1] ** 2,
        )
        self.mean[rows] = mean
        self.covariance[rows] = np.stack(
            [variance_a, cross, cross, variance_b], axis=1
        ).reshape(-1, 2, 2)
        shifted = np.where(values > 0, log_values, 0.0)
        self.log_mean[rows] = (
            np.einsum("nab,nab,a,b->n", values, shifted, wa, wb) / total
        )

        error = np.full(len(total), 1e-15)
        tail = panel_rule().coefficients[:, -2:]
        for k, (oriented, weights, marginal) in enumerate(
            ((values, wb, pa), (values.transpose(0, 2, 1), wa, pb))
        ):
            panels = oriented.reshape(len(total), -1, NODES, oriented.shape[2])
            last = (
                np.abs(np.einsum("npjb,jc->npcb", panels, tail)).sum(axis=2) @ weights
            )
            share = last * np.diff(self._edges[k]) / total[:, None]
            self.indicator[k] = np.maximum(self.indicator[k], share.max(axis=0))
            left, right = self._edges[k][:-1], self._edges[k][1:]
            shares = marginal.reshape(len(total), -1, NODES)
            width = 0.5 * (right - left)[:, None] * panel_rule().weights
            beyond = self._extend[k] * mass_beyond(
                left, right, shares / width, shares.sum(axis=2), self._tail_index
            )
            self.outside[k] = np.maximum(self.outside[k], beyond.max(axis=0))
            error += share.sum(axis=1) + beyond.sum(axis=1)
        self.error[rows] = error


def _refine(edges: Array, indicator: Array, outside: Array) -> Array:
    split = indicator > TOLERANCE
    reach = 0.5 * (edges[-1] - edges[0])
    outer = np.array([edges[0] - reach, edges[-1] + reach])[outside > TAIL_TOLERANCE]
    middle = 0.5 * (edges[:-1] + edges[1:])[split]
    return np.sort(np.concatenate([edges, middle, outer]))


def _blocks(
    log_density: RowLogDensity, edges: tuple[Array, Array], n_rows: int
) -> Iterator[tuple[slice, Array]]:
    """Slices of rows with their log densities at all nodes, (r, a, b)."""
    a, b = (panel_nodes(e[:-1], e[1:]).ravel() for e in edges)
    nodes = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    block = max(1, _BLOCK_NUMBERS // len(nodes))
    for start in range(0, n_rows, block):
        rows = slice(start, min(start + block, n_rows))
        yield rows, log_density(rows, nodes).reshape(-1, len(a), len(b))


def _weights(edges: Array) -> Array:
    return (0.5 * np.diff(edges)[:, None] * panel_rule().weights).ravel()


def _normalized(edges: Array, values: Array) -> PanelDensity:
    """Densities (n, k, 16) that need not integrate to one yet."""
    mass = np.einsum("nkj,k,j->n", values, 0.5 * np.diff(edges), panel_rule().weights)
    zeros = np.zeros(len(values))
    with np.errstate(divide="ignore"):
        log_density = np.log(values / mass[:, None, None])
    return PanelDensity(edges, log_density, zeros, zeros)


def _interpolate(edges: Array, plane: Array, u: Array) -> Array:
    """Rows of a plane (k·16, b) interpolated at points u (q,), giving (q, b)."""
    panel = np.clip(np.searchsorted(edges, u, side="right") - 1, 0, len(edges) - 2)
    t = 2.0 * (u - edges[panel]) / (edges[panel + 1] - edges[panel]) - 1.0
    series = (
        np.polynomial.legendre.legvander(t, NODES - 1) @ panel_rule().coefficients.T
    )
    return np.einsum(
        "qj,qjb->qb", series, plane.reshape(-1, NODES, plane.shape[1])[panel]
    )
