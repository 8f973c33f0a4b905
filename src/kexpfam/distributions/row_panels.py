"""Densities on panels in the user's units of y, each row on panels of its own.

The quadrature of a fitted family works in the coordinates of the kernel, where rows can
share panels. What is not affine in them, a mixture of several families or a transformed
variable, has its mode, its highest-density region and its entropy in y itself.

`tabulate` begins with few panels, cut wherever the density is not smooth, and halves
those on which sixteen nodes do not follow it. What hides between nodes shows in the
mass of the panel, which the distribution function tells exactly.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._roots import bracketed_roots
from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition import (
    invert_series,
    panel_rule,
    panels_holding,
    series_at,
    series_slopes,
)

# A panel is halved while its error exceeds this share of the mass, of the entropy, or
# of the second moment about the middle of the row.
_TOLERANCE = 1e-10

# A spike between the nodes has more mass than this; quadratures of the components agree
# with their distribution functions to far less.
_HIDDEN_MASS = 2e-10

# A jump is found to 2⁻⁵⁰ of its panel. Rows with more panels are noise, not features.
_ROUNDS = 50
_MOST_PANELS = 2048

# Points evaluated at once, so that what they need stays small.
_BLOCK_POINTS = 2**18

# Where a peak is flat, its place need not be known better than this share of a panel.
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_GOLDEN_STEPS = 25
_NEWTON_STEPS = 8

# The share of a panel in which a peak is looked for again.
_ROOM = 0.01
_ROOM_TOLERANCE = 1e-10

# Where the density is below this share of the highest, polynomials do not tell it.
_FLOOR = 1e-11

# Functions of some rows at points of their own: (m, q) and the rows (m,) -> (m, q)
RowsFunction = Callable[[Array, Indices], Array]


@dataclass(frozen=True)
class RowPanels:
    """n densities at the nodes of their panels."""

    edges: Array  # Ends of each row's panels, not decreasing, (n, k + 1)
    density: Array  # Densities at the nodes, (n, k, 16)

    @functools.cached_property
    def nodes(self) -> Array:
        """All nodes, (n, k, 16)."""
        middle = 0.5 * (self.edges[:, 1:] + self.edges[:, :-1])
        return middle[..., None] + self.half[..., None] * panel_rule().nodes

    @functools.cached_property
    def half(self) -> Array:
        """Half the width of each panel, (n, k)."""
        return 0.5 * np.diff(self.edges, axis=1)

    @functools.cached_property
    def density_table(self) -> Array:
        """Legendre coefficients of the density on each panel, (n k, 16)."""
        rule = panel_rule()
        return self.density.reshape(-1, len(rule.nodes)) @ rule.coefficients

    @functools.cached_property
    def integral_table(self) -> Array:
        """Those of the mass between the left end and a point, (n k, 17)."""
        table = (self.density @ panel_rule().integrals) * self.half[..., None]
        return table.reshape(-1, table.shape[-1])

    @functools.cached_property
    def below(self) -> Array:
        """Mass left of each panel, (n, k)."""
        mass = (self.density @ panel_rule().weights) * self.half
        return np.cumsum(mass, axis=1) - mass

    def integral(self, values: Array) -> Array:
        """∫ values · density for each row; values broadcast to (n, k, 16)."""
        mass = self.density * self.half[..., None] * panel_rule().weights
        return np.einsum("nkj,nkj->n", *np.broadcast_arrays(values, mass))

    def entropy(self) -> Array:
        """−∫ p log p, (n,)."""
        # 0 log 0 = 0
        return -self.integral(np.log(np.maximum(self.density, np.finfo(float).tiny)))

    def pdf(self, y: Array) -> Array:
        """Densities at each row's own points, (n, q) -> (n, q)."""
        place, t, inside = self._locate(y)
        return np.where(inside, series_at(self.density_table, place, t), 0.0)

    def logpdf(self, y: Array) -> Array:
        """Their logarithms; densities below 1e-11 of the highest count as that."""
        floor = _FLOOR * self.density.max(axis=(1, 2))[:, None]
        return np.log(np.maximum(self.pdf(y), floor))

    def cdf(self, y: Array) -> Array:
        """Mass below y, (n, q) -> (n, q)."""
        place, t, _ = self._locate(y)
        mass = self.below.ravel()[place] + series_at(self.integral_table, place, t)
        return np.clip(mass, 0.0, 1.0)

    def ppf(self, levels: Array) -> tuple[Array, Array, Array]:
        """Quantiles, (n, q) -> (n, q), and the ends of the panels that hold them."""
        panel = panels_holding(self.below, levels)
        row = np.arange(len(levels))[:, None]
        place = row * self.half.shape[1] + panel
        target = levels - self.below.ravel()[place]
        t = invert_series(self.integral_table, place, target)
        left, right = self.edges[row, panel], self.edges[row, panel + 1]
        return left + 0.5 * (right - left) * (1.0 + t), left, right

    def peaks(
        self,
        log_density: Callable[[Array], Array],  # At each row's own points, (n, q)
        slope: Callable[[Array], Array],  # Derivatives at one point each, (n,)
    ) -> Array:
        """Where each density is largest, (n,)."""
        n, k, size = self.density.shape
        row = np.arange(n)
        heights = np.where((self.half > 0)[..., None], self.density, -np.inf)
        panel, node = np.divmod(heights.reshape(n, -1).argmax(axis=1), size)
        t = np.concatenate([[-1.0], panel_rule().nodes, [1.0]])
        candidates = [self.nodes[row, panel, node], self.edges[row, panel]]
        candidates.append(self.edges[row, panel + 1])
        # If the highest node is the outermost, the peak may be in the next panel.
        for other in (panel - 1, panel, panel + 1):
            near = np.clip(other, 0, k - 1)
            low = np.where(other < panel, t[-2], np.where(other > panel, -1.0, t[node]))
            high = np.where(
                other < panel, 1.0, np.where(other > panel, t[1], t[node + 2])
            )
            top = self._top(row * k + near, low, high)
            candidates.append(
                self.edges[row, near] + self.half[row, near] * (1.0 + top)
            )
        points = np.sort(np.stack(candidates, axis=1), axis=1)
        room = _ROOM * self.half[row, panel]
        best = points[row, log_density(points).argmax(axis=1)]
        # The polynomials tell a flat top only roughly, the slope does exactly.
        low, high = best - room, best + room
        inner = (low > self.edges[:, 0]) & (high < self.edges[:, -1])
        smooth = inner & (slope(low) > 0) & (slope(high) < 0)
        low, high = (np.where(smooth, end, best) for end in (low, high))
        return bracketed_roots(slope, low, high, tolerance=_ROOM_TOLERANCE)

    def _top(self, place: Indices, low: Array, high: Array) -> Array:
        """The highest point of a panel's polynomial between two, t from −1 to 1."""
        table = self.density_table
        low, high = golden_section(
            lambda t: series_at(table, place, t), low, high, np.ones(low.shape)
        )
        t = 0.5 * (low + high)
        first = series_slopes(table[place])
        second = series_slopes(first)
        every = np.arange(len(place))
        # The value is flat, the slope is not: Newton's method gives the other digits.
        for _ in range(_NEWTON_STEPS):
            slope, bend = series_at(first, every, t), series_at(second, every, t)
            step = np.where(bend < 0, slope / np.where(bend < 0, bend, 1.0), 0.0)
            t = np.clip(t - step, low, high)
        return t

    def _locate(self, y: Array) -> tuple[Indices, Array, Mask]:
        """Panels counted together, positions in them, and whether y is in any."""
        n, k = self.half.shape
        inside = (y >= self.edges[:, :1]) & (y <= self.edges[:, -1:])
        panel = panels_holding(self.edges[:, :-1], y)
        place = np.arange(n)[:, None] * k + panel
        half = self.half.ravel()[place]
        offset = y - np.take_along_axis(self.edges, panel, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(half > 0, offset / half - 1.0, 1.0)
        return place, np.clip(t, -1.0, 1.0), inside


def golden_section(
    height: Callable[[Array], Array], low: Array, high: Array, sign: Array
) -> tuple[Array, Array]:
    """Brackets around the largest, or with sign −1 the smallest, values."""
    for _ in range(_GOLDEN_STEPS):
        step = _GOLDEN * (high - low)
        a, b = high - step, low + step
        left = sign * height(a) > sign * height(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    return low, high


@dataclass(frozen=True)
class _Pieces:
    """Panels of all rows in one list."""

    row: Indices  # Which row each belongs to, (m,)
    left: Array  # Left ends, (m,)
    right: Array  # Right ends, (m,)
    below: Array  # Mass below either end, (m, 2)

    def at(self, chosen: Mask) -> "_Pieces":
        return _Pieces(
            self.row[chosen], self.left[chosen], self.right[chosen], self.below[chosen]
        )

    def halved(self, cdf: RowsFunction) -> "_Pieces":
        middle = self.left + 0.5 * (self.right - self.left)
        inner = cdf(middle[:, None], self.row)[:, 0]
        first, last = self.below.T
        return _Pieces(
            np.tile(self.row, 2),
            np.concatenate([self.left, middle]),
            np.concatenate([middle, self.right]),
            np.concatenate(
                [np.stack([first, inner], axis=1), np.stack([inner, last], axis=1)]
            ),
        )


def tabulate(
    pdf: RowsFunction,  # Densities of some rows at points of their own
    cdf: RowsFunction,  # Their distribution functions
    # Panels to begin with, not decreasing, (n, k + 1): from the beginning to the end of
    # the mass, and cut wherever the density is not smooth
    edges: Array,
    *,
    second_moment: bool = False,  # Whether its second moment is to be resolved too
) -> RowPanels:
    """Densities on panels that resolve them.

    Returns:
        Each row on its own panels, filled up with empty ones at the end.
    """
    n = len(edges)
    everyone = np.arange(n)
    below = cdf(edges, everyone)
    wide = np.diff(edges, axis=1) > 0
    row, panel = np.nonzero(wide)
    pieces = _Pieces(
        row,
        edges[row, panel],
        edges[row, panel + 1],
        np.stack([below[row, panel], below[row, panel + 1]], axis=1),
    )
    center, spread = _middle(edges, below)
    if not second_moment:
        spread = np.full(n, np.inf)
    kept: list[tuple[_Pieces, Array]] = []
    count = np.zeros(n, dtype=np.intp)
    for step in range(_ROUNDS):
        values = _values(pdf, pieces)
        split = _unresolved(pieces, values, center, spread)
        crowded = count + np.bincount(pieces.row, minlength=n) > _MOST_PANELS
        split &= ~crowded[pieces.row] & (step < _ROUNDS - 1)
        kept.append((pieces.at(~split), values[~split]))
        count += np.bincount(pieces.row[~split], minlength=n)
        if not split.any():
            break
        pieces = pieces.at(split).halved(cdf)
    return _assembled(n, kept, edges[:, -1])


def _middle(edges: Array, below: Array) -> tuple[Array, Array]:
    """About the median of each row, and how wide its middle is, (n,) each."""
    row = np.arange(len(edges))
    last = edges.shape[1] - 1
    lower = np.maximum((below <= 0.25).sum(axis=1) - 1, 0)
    upper = np.minimum((below < 0.75).sum(axis=1), last)
    low, high = edges[row, lower], edges[row, upper]
    return 0.5 * (low + high), np.maximum(high - low, np.finfo(float).tiny)


def _values(pdf: RowsFunction, pieces: _Pieces) -> Array:
    """Densities at the nodes of the panels, (m, 16)."""
    rule = panel_rule()
    half = 0.5 * (pieces.right - pieces.left)
    nodes = (pieces.left + half)[:, None] + half[:, None] * rule.nodes
    values = np.empty(nodes.shape)
    size = max(1, _BLOCK_POINTS // len(rule.nodes))
    for start in range(0, len(nodes), size):
        block = slice(start, start + size)
        values[block] = pdf(nodes[block], pieces.row[block])
    return values


def _unresolved(pieces: _Pieces, values: Array, center: Array, spread: Array) -> Mask:
    """Which panels are to be halved."""
    rule = panel_rule()
    half = 0.5 * (pieces.right - pieces.left)
    last = rule.coefficients[:, -2:]
    error = 2.0 * half * np.abs(values @ last).sum(axis=-1)
    surprise = values * np.log(np.maximum(values, np.finfo(float).tiny))
    doubt = 2.0 * half * np.abs(surprise @ last).sum(axis=-1)
    hidden = half * (values @ rule.weights) - np.diff(pieces.below, axis=1)[:, 0]
    middle = 0.5 * (pieces.left + pieces.right)
    distance = (middle - center[pieces.row]) / spread[pieces.row]
    split = error * np.maximum(1.0, np.square(distance)) > _TOLERANCE
    # Logarithms vary with the units of y, and their errors are ten times as large.
    split |= (doubt > 10.0 * _TOLERANCE) | (np.abs(hidden) > _HIDDEN_MASS)
    # No double lies between the ends of a panel that is narrower.
    size = np.maximum(np.abs(pieces.left), np.abs(pieces.right))
    return split & (half > 2e-16 * size)


def _assembled(n: int, kept: list[tuple[_Pieces, Array]], end: Array) -> RowPanels:
    """Panels in order, row by row."""
    row, left, right = (
        np.concatenate([getattr(pieces, name) for pieces, _ in kept])
        for name in ("row", "left", "right")
    )
    values = np.concatenate([part for _, part in kept])
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
    return RowPanels(edges, density)


def merged_edges(parts: list[Array]) -> Array:
    """All edges of each row in order, (n, k_i) for each part -> (n, k)."""
    edges = np.sort(np.concatenate(parts, axis=1), axis=1)
    # Repeated edges go to the end, where they are cut off as far as all rows have them.
    repeated = np.diff(edges, axis=1, prepend=-np.inf) <= 0
    edges = np.sort(np.where(repeated, edges[:, -1:], edges), axis=1)
    count = int((~repeated).sum(axis=1).max(initial=1))
    return edges[:, : max(count, 2)]
