"""Densities on panels in the user's units of y, each row on panels of its own.

The quadrature of a fitted family works in the coordinates of the kernel, where rows can
share panels. What is not affine in them, a mixture of several families or a transformed
variable, has its mode, its highest-density region and its entropy in y itself. Panels
on which the parts are resolved also resolve the whole, so nothing is refined here.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.distributions.regions import highest_density_region
from kexpfam.partition import PanelDensity, panel_rule
from kexpfam.roots import bracketed_roots

# Points evaluated at once: some of them need 16 coefficients each, which is 32 MiB.
_BLOCK_POINTS = 2**18


@dataclass(frozen=True)
class RowPanels:
    """n densities at the nodes of their panels.

    Attributes:
        edges: Ends of each row's panels, not decreasing, (n, k + 1).
        density: Densities at the nodes, (n, k, 16).
    """

    edges: Array
    density: Array

    @functools.cached_property
    def nodes(self) -> Array:
        """All nodes, (n, k, 16)."""
        middle = 0.5 * (self.edges[:, 1:] + self.edges[:, :-1])
        return middle[..., None] + self._half[..., None] * panel_rule().nodes

    def integral(self, values: Array) -> Array:
        """∫ values · density for each row; values broadcast to (n, k, 16)."""
        mass = self.density * self._half[..., None] * panel_rule().weights
        return np.einsum("nkj,nkj->n", *np.broadcast_arrays(values, mass))

    def entropy(self) -> Array:
        """−∫ p log p, (n,)."""
        return -self.integral(self._log_density)  # 0 log 0 = 0

    def region(self, row: int, confidence: float) -> Array:
        """The highest-density region of one row, (k, 2)."""
        wide = np.append(True, np.diff(self.edges[row]) > 0)
        edges = self.edges[row][wide]
        log_p = self._log_density[row][wide[1:]]
        one = PanelDensity(edges, log_p[None], np.zeros(1), np.zeros(1))
        return highest_density_region(one, confidence)

    def peaks(
        self,
        log_density: Callable[[Array], Array],
        slope: Callable[[Array], Array],
    ) -> Array:
        """Where each density is largest, (n,).

        Args:
            log_density: Log densities at each row's own points, (n, q) -> (n, q).
            slope: Their derivatives.
        """
        n, _, size = self.density.shape
        row = np.arange(n)
        width = np.repeat(self.edges[:, 1:] > self.edges[:, :-1], size, axis=1)
        heights = np.where(width, self.density.reshape(n, -1), -np.inf)
        highest = heights.argmax(axis=1)
        nodes = np.hstack(
            [self.edges[:, :1], self.nodes.reshape(n, -1), self.edges[:, -1:]]
        )
        best = nodes[row, highest + 1]
        inside = stationary_points(
            lambda y: slope(y[:, None])[:, 0],
            nodes[row, highest],
            nodes[row, highest + 2],
        )
        # Where the density jumps, it may be largest at the edge itself.
        panel = highest // size
        sides = self.edges[row, panel], self.edges[row, panel + 1]
        candidates = np.stack([inside, best, *sides], axis=1)
        choice = log_density(candidates).argmax(axis=1)
        return candidates[row, choice]

    @property
    def _log_density(self) -> Array:
        return np.log(np.maximum(self.density, np.finfo(float).tiny))

    @property
    def _half(self) -> Array:
        return 0.5 * np.diff(self.edges, axis=1)


def evaluate_on_panels(
    density: Callable[[slice, Array], Array], edges: Array
) -> RowPanels:
    """Densities on panels, block by block.

    Args:
        density: Densities of some rows at their own points, (rows, (r, q)) -> (r, q).
        edges: Ends of each row's panels, (n, k + 1).
    """
    n, k = edges.shape[0], edges.shape[1] - 1
    size = len(panel_rule().nodes)
    panels = RowPanels(edges, np.empty((n, k, size)))
    points = panels.nodes.reshape(n, k * size)
    block = max(1, _BLOCK_POINTS // (k * size))
    for start in range(0, n, block):
        rows = slice(start, start + block)
        panels.density[rows] = density(rows, points[rows]).reshape(-1, k, size)
    return panels


def stationary_points(
    slope: Callable[[Array], Array], low: Array, high: Array
) -> Array:
    """The zero of d log p between two points around a peak, one per row.

    If the slope does not change sign the peak is at an end, which happens at the edge
    of a bounded support.

    Args:
        slope: One point per row, (n,) -> (n,).
        low: Left ends, (n,).
        high: Right ends, (n,).
    """
    f_low, f_high = slope(low), slope(high)
    bracketed = (f_low > 0) & (f_high < 0)
    end = np.where(f_low <= 0, low, high)
    # Rows without a sign change get an empty bracket, which leaves them where they are.
    return bracketed_roots(
        slope, np.where(bracketed, low, end), np.where(bracketed, high, end)
    )


def merged_edges(parts: list[Array]) -> Array:
    """All edges of each row in order, (n, k_i) for each part -> (n, k)."""
    edges = np.sort(np.concatenate(parts, axis=1), axis=1)
    # Repeated edges go to the end, where they are cut off as far as all rows have them.
    repeated = np.diff(edges, axis=1, prepend=-np.inf) <= 0
    edges = np.sort(np.where(repeated, edges[:, -1:], edges), axis=1)
    count = int((~repeated).sum(axis=1).max(initial=1))
    return edges[:, : max(count, 2)]
