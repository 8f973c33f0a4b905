"""Adaptive quadrature in one dimension, for many densities at once.

The line is cut into panels, each with sixteen Gauss-Legendre nodes. All rows share the
panels, so that evaluating every density at every node is a matrix product; a panel is
halved while any row needs it, and panels are added outwards while any row has mass
there. The Legendre coefficients of a panel tell how well its polynomial follows the
density: their last two are the error estimate, which also covers the distribution
function, quantiles and moments, since all of them use the same polynomials.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import legendre

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.series import invert_series, series_at
from kexpfam.partition.unnormalized import rows_of

# Nodes of a panel: exact for polynomials of degree 31.
NODES = 16

# A panel is halved while its error exceeds this share of some row's total mass.
PANEL_TOLERANCE = 1e-10

# Log densities are interpolated between nodes where the error is below this.
LOG_TOLERANCE = 1e-11

# Panels are added outwards while more than this share of the mass, or of the second
# moment (where that exists), may lie beyond.
TAIL_TOLERANCE = 1e-12

# Where refinement stops whatever the error: this many numbers for all rows together
# (128 MiB), or this many panels where the rows are many.
MOST_NUMBERS = 2**24
FEWEST_PANELS = 512

# The peak may move away from the reference that exponentials are measured from by this
# much before the reference follows; exp() overflows at 709.
_HEADROOM = 300.0

# Up to so many panels the range of the data is covered evenly; beyond, only near data.
_MOST_EVEN_PANELS = 256

# Panels are not extended past this; only tails without a mean get here.
_FAR_AWAY = 1e30

# Log unnormalised densities of n rows at shared nodes: (g,) -> (n, g)
LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class PanelRule:
    """Sixteen-point Gauss-Legendre quadrature and its polynomials."""

    nodes: Array  # (16,) on [-1, 1]
    weights: Array  # (16,)
    coefficients: Array  # (16, 16): values at nodes -> Legendre coefficients
    integrals: Array  # (16, 17): values at nodes -> coefficients of ∫ from -1


@functools.cache
def panel_rule() -> PanelRule:
    """The rule that every panel uses."""
    nodes, weights = legendre.leggauss(NODES)
    order = np.arange(NODES)
    # c_k = (2k+1)/2 Σ_j w_j P_k(t_j) f_j, exact for polynomials of degree 15
    coefficients = (legendre.legvander(nodes, NODES - 1) * weights[:, None]) * (
        order + 0.5
    )
    integrate = np.stack([legendre.legint(row, lbnd=-1) for row in np.eye(NODES)])
    return PanelRule(nodes, weights, coefficients, coefficients @ integrate)


@dataclass(frozen=True)
class PanelDensity:
    """n normalised densities as polynomials on shared panels."""

    edges: Array  # Ends of the panels, increasing, (k + 1,)
    log_density: Array  # Log densities at the nodes, (n, k, 16)
    log_partition: Array  # log Z of each row, (n,)
    error: Array  # Estimated error of log Z, (n,)

    def rows(self, index: Indices) -> "PanelDensity":
        """Only these rows."""
        return rows_of(self, index, "edges")

    @functools.cached_property
    def nodes(self) -> Array:
        """All nodes, (k, 16)."""
        return panel_nodes(self.edges[:-1], self.edges[1:])

    @functools.cached_property
    def density(self) -> Array:
        """Densities at the nodes, (n, k, 16)."""
        return np.exp(self.log_density)

    def integral(self, values: Array) -> Array:
        """∫ values · density for each row; values broadcast to (n, k, 16)."""
        weights = self._half[:, None] * panel_rule().weights
        return np.einsum(
            "nkj,nkj,kj->n", *np.broadcast_arrays(self.density, values), weights
        )

    def cdf(self, u: Array, rows: Indices | None = None) -> Array:
        """Mass below u, (m, q) -> (m, q), of these rows; None for all, in order."""
        place, t = self._locate(u, rows)
        below = self._below.ravel()[place] + series_at(self._integral_table, place, t)
        below = np.where(u >= self.edges[-1], 1.0, np.clip(below, 0.0, 1.0))
        return np.where(u <= self.edges[0], 0.0, below)

    def sf(self, u: Array, rows: Indices | None = None) -> Array:
        """Mass above u, with small masses as accurate as small masses of `cdf`."""
        place, t = self._locate(u, rows)
        inside = self._mass.ravel()[place] - series_at(self._integral_table, place, t)
        above = np.clip(self._above.ravel()[place] + inside, 0.0, 1.0)
        above = np.where(u <= self.edges[0], 1.0, above)
        return np.where(u >= self.edges[-1], 0.0, above)

    def ppf(self, level: Array) -> Array:
        """The point with mass `level` below it, (n, q) -> (n, q)."""
        k = len(self.edges) - 1
        panel = panels_holding(self._below, level)
        place = k * np.arange(len(level))[:, None] + panel
        target = level - self._below.ravel()[place]
        t = invert_series(self._integral_table, place, target)
        u = self.edges[panel] + self._half[panel] * (1.0 + t)
        u = np.where(level <= 0, self.edges[0], u)
        return np.where(level >= 1, self.edges[-1], u)

    def around(self, level: Array, rows: Indices | None = None) -> tuple[Array, Array]:
        """Ends of the panels that hold the quantiles, (m, q) each."""
        panel = panels_holding(
            self._below if rows is None else self._below[rows], level
        )
        return self.edges[panel], self.edges[panel + 1]

    def logpdf(self, u: Array) -> tuple[Array, Mask]:
        """Log densities by interpolation at u, (n, q), and where that is accurate.

        The polynomial through the logarithms at a panel's nodes; its last coefficients
        tell its error, as they do for the density.
        """
        place, t = self._locate(u, None)
        # Points are mostly few, so that only their panels are worth a table.
        needed, where = np.unique(place, return_inverse=True)
        values = self.log_density.reshape(-1, NODES)[needed]
        table = values @ panel_rule().coefficients
        where = where.reshape(u.shape)
        error = np.abs(table[:, -2:]).sum(axis=-1)[where]
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        return series_at(table, where, t), inside & (error <= LOG_TOLERANCE)

    def pdf(self, u: Array, rows: Indices | None = None) -> Array:
        """The polynomials themselves at u, (m, q); zero outside the panels."""
        place, t = self._locate(u, rows)
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        return np.where(inside, series_at(self._density_table, place, t), 0.0)

    def _locate(self, u: Array, rows: Indices | None) -> tuple[Indices, Array]:
        """Which panel of which row each point is in, counted together, and where."""
        k = len(self.edges) - 1
        u = np.clip(u, self.edges[0], self.edges[-1])
        panel = np.clip(np.searchsorted(self.edges, u, side="right") - 1, 0, k - 1)
        t = np.clip((u - self.edges[panel]) / self._half[panel] - 1.0, -1.0, 1.0)
        row = np.arange(len(u)) if rows is None else rows
        return panel + k * row[:, None], t

    @functools.cached_property
    def _half(self) -> Array:
        return 0.5 * np.diff(self.edges)

    @functools.cached_property
    def _density_table(self) -> Array:
        """Legendre coefficients of the density on each panel, (n k, 16)."""
        return self.density.reshape(-1, NODES) @ panel_rule().coefficients

    @functools.cached_property
    def _integral_table(self) -> Array:
        """Those of the mass between the left end and a point, (n k, 17)."""
        table = self.density @ panel_rule().integrals
        return (table * self._half[:, None]).reshape(-1, NODES + 1)

    @functools.cached_property
    def _mass(self) -> Array:
        return (self.density @ panel_rule().weights) * self._half

    @functools.cached_property
    def _below(self) -> Array:
        """Mass left of each panel, (n, k)."""
        return np.cumsum(self._mass, axis=1) - self._mass

    @functools.cached_property
    def _above(self) -> Array:
        """Mass right of each panel, (n, k)."""
        return np.cumsum(self._mass[:, ::-1], axis=1)[:, ::-1] - self._mass


def panels_holding(below: Array, level: Array) -> Indices:
    """The panel that holds each quantile, from the mass left of each, (n, k)."""
    panel = np.empty(level.shape, dtype=np.intp)
    for row, (cumulated, wanted) in enumerate(zip(below, level, strict=True)):
        panel[row] = cumulated.searchsorted(wanted, side="right") - 1
    return np.clip(panel, 0, below.shape[1] - 1)


def panel_nodes(left: Array, right: Array) -> Array:
    """Nodes of the panels [left, right], (k,) -> (k, 16)."""
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    return middle[:, None] + half[:, None] * panel_rule().nodes


@dataclass(frozen=True)
class _Summary:
    """What decides about panels: numbers of each row and panel, from all nodes."""

    mass: Array  # (n, k), in units of exp(reference)
    error: Array  # (n, k)
    ends: Array  # (n, k, 2): densities at the first and last node
    peak: Array  # (n, k): largest log density

    @classmethod
    def of(
        cls, left: Array, right: Array, log_values: Array, reference: Array
    ) -> "_Summary":
        values = np.exp(log_values - reference[:, None, None])
        rule, width = panel_rule(), right - left
        tail = np.abs(values @ rule.coefficients[:, -2:]).sum(axis=-1)
        return cls(
            (values @ rule.weights) * (0.5 * width),
            tail * width,
            values[..., [0, -1]],
            log_values.max(axis=2),
        )

    def joined(self, keep: Mask, other: "_Summary") -> "_Summary":
        return _Summary(
            *(
                np.concatenate([getattr(self, name)[:, keep], getattr(other, name)], 1)
                for name in ("mass", "error", "ends", "peak")
            )
        )


@dataclass(frozen=True)
class _Panels:
    """The state of a refinement; the panels are in no particular order.

    Log densities stay in the blocks in which they were computed until the end.
    """

    left: Array  # (k,)
    right: Array  # (k,)
    blocks: tuple[Array, ...]  # (n, k_i, 16) each: log densities of all panels so far
    column: Indices  # (k,): where in these blocks, counted through
    reference: Array  # (n,): near the largest log value of each row
    summary: _Summary

    @classmethod
    def of(cls, left: Array, right: Array, log_values: Array) -> "_Panels":
        reference = log_values.max(axis=(1, 2))
        summary = _Summary.of(left, right, log_values, reference)
        column = np.arange(len(left))
        return cls(left, right, (log_values,), column, reference, summary)

    def replaced(self, keep: Mask, left: Array, right: Array, new: Array) -> "_Panels":
        """Keep some panels, add new ones with their log densities (n, k', 16)."""
        # A split panel may have held the peak, and a new one may hold a higher one.
        kept_peak = self.summary.peak[:, keep].max(axis=1, initial=-np.inf)
        drift = np.maximum(kept_peak, new.max(axis=(1, 2))) - self.reference
        all_left = np.concatenate([self.left[keep], left])
        all_right = np.concatenate([self.right[keep], right])
        if np.any(np.abs(drift) > _HEADROOM):
            old = self.log_values()[:, keep]
            return _Panels.of(all_left, all_right, np.concatenate([old, new], axis=1))
        fresh = _Summary.of(left, right, new, self.reference)
        summary = self.summary.joined(keep, fresh)
        first = sum(block.shape[1] for block in self.blocks)
        column = np.concatenate([self.column[keep], first + np.arange(new.shape[1])])
        blocks = (*self.blocks, new)
        return _Panels(all_left, all_right, blocks, column, self.reference, summary)

    def log_values(self) -> Array:
        """Log densities of the panels that are left, (n, k, 16)."""
        out = np.empty((len(self.reference), len(self.left), NODES))
        first = 0
        for block in self.blocks:
            size = block.shape[1]
            mine = np.flatnonzero((self.column >= first) & (self.column < first + size))
            out[:, mine] = block[:, self.column[mine] - first]
            first += size
        return out


def integrate_panels(
    log_density: LogDensity,  # Not normalised, at shared nodes, (g,) -> (n, g)
    edges: Array,  # Panels to begin with, fine enough that no peak hides between nodes
    *,
    extend: tuple[bool, bool],  # Whether mass may lie left and right of them
    tail_index: float = np.inf,  # Moments below this order are finite
    rounding: float = 0.0,  # Absolute rounding error of the log densities
    fewest_panels: int = FEWEST_PANELS,
    most_numbers: int = MOST_NUMBERS,
) -> PanelDensity:
    """Normalise n densities on the line."""

    def evaluate(left: Array, right: Array) -> Array:
        values = log_density(panel_nodes(left, right).ravel())
        return values.reshape(len(values), len(left), NODES)

    left, right = edges[:-1].copy(), edges[1:].copy()
    panels = _Panels.of(left, right, evaluate(left, right))
    most = max(fewest_panels, most_numbers // (NODES * max(1, len(panels.reference))))
    while True:
        mass, error = panels.summary.mass, panels.summary.error
        total = mass.sum(axis=1)
        # There is no use in splitting below the rounding error of the exponents.
        rounded = rounding + 1e-15 * (1.0 + np.abs(panels.reference))
        tolerance = total * np.maximum(PANEL_TOLERANCE, rounded)
        split = np.any(error > tolerance[:, None], axis=0)
        beyond = mass_beyond(
            panels.left, panels.right, panels.summary.ends, mass, tail_index
        )
        grow = _panels_to_add(panels, extend & (beyond.max(axis=0) > TAIL_TOLERANCE))
        count = len(panels.left) + int(split.sum()) + len(grow[0])
        if not (split.any() or grow[0].size) or count > most:
            break
        middle = 0.5 * (panels.left + panels.right)[split]
        new_left = np.concatenate([panels.left[split], middle, grow[0]])
        new_right = np.concatenate([middle, panels.right[split], grow[1]])
        panels = panels.replaced(
            ~split, new_left, new_right, evaluate(new_left, new_right)
        )
    panels = replace(panels, column=panels.column[np.argsort(panels.left)])
    log_partition = panels.reference + np.log(total)
    share = error.sum(axis=1) / total + beyond @ np.asarray(extend, float)
    log_values = panels.log_values()
    log_values -= log_partition[:, None, None]
    # A relative error of one or more says nothing about the logarithm.
    with np.errstate(divide="ignore"):
        in_log = -np.log1p(-np.minimum(share, 1.0))
    return PanelDensity(
        edges=np.append(np.sort(panels.left), panels.right.max()),
        log_density=log_values,
        log_partition=log_partition,
        error=in_log + rounded,
    )


def mass_beyond(
    left: Array,  # Left ends of the panels, (k,), in any order
    right: Array,  # Right ends, (k,)
    # Densities at some nodes, the outermost among them, up to a factor per row, (n, k,
    # ...)
    values: Array,
    mass: Array,  # Mass of each panel, with the same factor, (n, k)
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


def _panels_to_add(panels: _Panels, extend: Mask) -> tuple[Array, Array]:
    """Left and right ends of panels to add outside, on the sides that need them."""
    low, high = panels.left.min(), panels.right.max()
    # Doubling the distance halves the rest of any tail that has a mean.
    step = 0.5 * (high - low)
    sides = np.array([[low - step, low], [high, high + step]])
    wanted = sides[extend & (np.abs([low, high]) < _FAR_AWAY)]
    return wanted[:, 0], wanted[:, 1]


def starting_edges(
    low: float,  # Where the base density's mass, or its support, begins
    high: float,  # Where it ends
    points: Array,  # Training responses, (m,)
    resolution: float,  # Length below which T is smooth
) -> Array:
    """Panels to begin with: fine near the data, coarser the farther away.

    T can only have features near training responses, and none narrower than the
    resolution, so that no peak of exp(T) is missed, wherever the data are.
    """
    first, last = max(low, float(points.min())), min(high, float(points.max()))
    span = max(last - first, 1e-3 * (high - low))
    # Half a lengthscale with sixteen nodes follows exp(T) even where T is in the
    # thousands, and is rarely split.
    width = min(0.5 * resolution, 0.25 * span)
    count = int(np.ceil(span / width))
    if count > _MOST_EVEN_PANELS:
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
