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
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from kexpfam._typing import Array, Indices, Mask

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
    """n normalised densities as polynomials on shared panels.

    Attributes:
        edges: Ends of the panels, increasing, (k + 1,).
        log_density: Log densities at the nodes, (n, k, 16).
        log_partition: log Z of each row, (n,).
        error: Estimated error of log Z, (n,).
    """

    edges: Array
    log_density: Array
    log_partition: Array
    error: Array

    def rows(self, index: Indices) -> "PanelDensity":
        """Only these rows."""
        return PanelDensity(
            self.edges,
            self.log_density[index],
            self.log_partition[index],
            self.error[index],
        )

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

    def cdf(self, u: Array) -> Array:
        """Mass below u, (n, q) -> (n, q)."""
        panel, t = self._locate(u)
        row = np.arange(len(u))[:, None]
        below = self._below[row, panel] + _series(self._integrals[row, panel], t)
        below = np.where(u >= self.edges[-1], 1.0, np.clip(below, 0.0, 1.0))
        return np.where(u <= self.edges[0], 0.0, below)

    def sf(self, u: Array) -> Array:
        """Mass above u, with small masses as accurate as small masses of `cdf`."""
        panel, t = self._locate(u)
        row = np.arange(len(u))[:, None]
        inside = self._mass[row, panel] - _series(self._integrals[row, panel], t)
        above = np.clip(self._above[row, panel] + inside, 0.0, 1.0)
        above = np.where(u <= self.edges[0], 1.0, above)
        return np.where(u >= self.edges[-1], 0.0, above)

    def ppf(self, level: Array) -> Array:
        """The point with mass `level` below it, (n, q) -> (n, q)."""
        out = np.empty(level.shape)
        # Blocks keep the gathered coefficients, 17 per level, within a few MiB.
        block = max(1, 30_000 // max(1, level.shape[1]))
        for start in range(0, len(level), block):
            rows = slice(start, start + block)
            out[rows] = self._ppf_rows(level[rows], rows)
        return out

    def logpdf(self, u: Array) -> tuple[Array, Mask]:
        """Log densities by interpolation at u, (n, q), and where that is accurate.

        The polynomial through the logarithms at a panel's nodes; its last coefficients
        tell its error, as they do for the density.
        """
        panel, t = self._locate(u)
        row = np.arange(len(u))[:, None]
        series = self.log_density[row, panel] @ panel_rule().coefficients
        log_p = _series(series, t)
        error = np.abs(series[..., -2:]).sum(axis=-1)
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        return log_p, inside & (error <= LOG_TOLERANCE)

    def pdf(self, u: Array) -> Array:
        """The polynomials themselves at u, (n, q); zero outside the panels."""
        panel, t = self._locate(u)
        row = np.arange(len(u))[:, None]
        inside = (u >= self.edges[0]) & (u <= self.edges[-1])
        return np.where(inside, _series(self._coefficients[row, panel], t), 0.0)

    def _ppf_rows(self, level: Array, rows: slice) -> Array:
        below = self._below[rows]
        panel = np.stack(
            [
                np.searchsorted(cumulated, wanted, side="right") - 1
                for cumulated, wanted in zip(below, level, strict=True)
            ]
        )
        panel = np.clip(panel, 0, len(self.edges) - 2)
        row = np.arange(len(level))[:, None]
        series = self._integrals[rows][row, panel]
        target = level - below[row, panel]
        t = _invert(series, target, self._mass[rows][row, panel])
        u = self.edges[panel] + self._half[panel] * (1.0 + t)
        u = np.where(level <= 0, self.edges[0], u)
        return np.where(level >= 1, self.edges[-1], u)

    def _locate(self, u: Array) -> tuple[Indices, Array]:
        u = np.clip(u, self.edges[0], self.edges[-1])
        panel = np.searchsorted(self.edges, u, side="right") - 1
        panel = np.clip(panel, 0, len(self.edges) - 2)
        t = (u - self.edges[panel]) / self._half[panel] - 1.0
        return panel, np.clip(t, -1.0, 1.0)

    @functools.cached_property
    def _half(self) -> Array:
        return 0.5 * np.diff(self.edges)

    @functools.cached_property
    def _coefficients(self) -> Array:
        return self.density @ panel_rule().coefficients

    @functools.cached_property
    def _integrals(self) -> Array:
        return (self.density @ panel_rule().integrals) * self._half[:, None]

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


def _series(coefficients: Array, t: Array) -> Array:
    """Σ_k c_k P_k(t) for coefficients (..., k) and t (...)."""
    return np.einsum(
        "...k,...k->...",
        coefficients,
        legendre.legvander(t, coefficients.shape[-1] - 1),
    )


def _invert(series: Array, target: Array, total: Array) -> Array:
    """T in [−1, 1] where the increasing series equals the target.

    Newton's method, replaced by bisection wherever it leaves the bracket.
    """
    low, high = -np.ones(target.shape), np.ones(target.shape)
    share = np.clip(target / np.where(total > 0, total, 1.0), 0.0, 1.0)
    t = 2.0 * share - 1.0
    derivative = np.asarray(legendre.legder(series, axis=-1), dtype=float)
    for _ in range(60):
        gap = _series(series, t) - target
        low, high = np.where(gap < 0, t, low), np.where(gap > 0, t, high)
        slope = _series(derivative, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = t - gap / slope
        usable = (newton > low) & (newton < high)
        step = np.where(usable, newton, 0.5 * (low + high))
        step = np.where(gap == 0, t, step)
        moved = np.max(np.abs(step - t), initial=0.0)
        t = step
        if moved < 1e-15:
            break
    return t


def panel_nodes(left: Array, right: Array) -> Array:
    """Nodes of the panels [left, right], (k,) -> (k, 16)."""
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    return middle[:, None] + half[:, None] * panel_rule().nodes


@dataclass
class _Panels:
    """The state of a refinement; the panels are in no particular order."""

    left: Array  # (k,)
    right: Array  # (k,)
    log_values: Array  # (n, k, 16)
    reference: Array  # (n,): near the largest log value of each row
    values: Array  # (n, k, 16): exp(log_values − reference)

    @classmethod
    def of(cls, left: Array, right: Array, log_values: Array) -> "_Panels":
        reference = log_values.max(axis=(1, 2))
        values = np.exp(log_values - reference[:, None, None])
        return cls(left, right, log_values, reference, values)

    @property
    def mass(self) -> Array:
        return (self.values @ panel_rule().weights) * (0.5 * (self.right - self.left))

    @property
    def error(self) -> Array:
        tail = np.abs(self.values @ panel_rule().coefficients[:, -2:]).sum(axis=-1)
        return tail * (self.right - self.left)

    def replaced(self, keep: Mask, left: Array, right: Array, new: Array) -> "_Panels":
        """Keep some panels, add new ones with their log densities (n, k', 16)."""
        left = np.concatenate([self.left[keep], left])
        right = np.concatenate([self.right[keep], right])
        log_values = np.concatenate([self.log_values[:, keep], new], axis=1)
        # A split panel may have held the peak, and a new one may hold a higher one.
        drift = log_values.max(axis=(1, 2)) - self.reference
        if np.any(np.abs(drift) > _HEADROOM):
            return _Panels.of(left, right, log_values)
        fresh = np.exp(new - self.reference[:, None, None])
        values = np.concatenate([self.values[:, keep], fresh], axis=1)
        return _Panels(left, right, log_values, self.reference, values)


def integrate_panels(
    log_density: LogDensity,
    edges: Array,
    *,
    extend: tuple[bool, bool],
    tail_index: float = np.inf,
    rounding: float = 0.0,
) -> PanelDensity:
    """Normalise n densities on the line.

    Args:
        log_density: Log unnormalised densities at shared nodes, (g,) -> (n, g).
        edges: Panels to begin with, fine enough that no peak hides between nodes.
        extend: Whether mass may lie left and right of the first panels.
        tail_index: Moments below this order are finite.
        rounding: Absolute rounding error of the log densities.
    """

    def evaluate(left: Array, right: Array) -> Array:
        values = log_density(panel_nodes(left, right).ravel())
        return values.reshape(len(values), len(left), NODES)

    left, right = edges[:-1].copy(), edges[1:].copy()
    panels = _Panels.of(left, right, evaluate(left, right))
    most = max(FEWEST_PANELS, MOST_NUMBERS // (NODES * max(1, len(panels.values))))
    while True:
        mass, error = panels.mass, panels.error
        total = mass.sum(axis=1)
        # There is no use in splitting below the rounding error of the exponents.
        rounded = rounding + 1e-15 * (1.0 + np.abs(panels.reference))
        tolerance = total * np.maximum(PANEL_TOLERANCE, rounded)
        split = np.any(error > tolerance[:, None], axis=0)
        beyond = mass_beyond(panels.left, panels.right, panels.values, mass, tail_index)
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
    order = np.argsort(panels.left)
    log_partition = panels.reference + np.log(total)
    share = error.sum(axis=1) / total + beyond @ np.asarray(extend, float)
    # A relative error of one or more says nothing about the logarithm.
    with np.errstate(divide="ignore"):
        in_log = -np.log1p(-np.minimum(share, 1.0))
    return PanelDensity(
        edges=np.append(panels.left[order], panels.right.max()),
        log_density=panels.log_values[:, order] - log_partition[:, None, None],
        log_partition=log_partition,
        error=in_log + rounded,
    )


def mass_beyond(
    left: Array, right: Array, values: Array, mass: Array, tail_index: float
) -> Array:
    """Share of each row's mass, or second moment if larger, beyond either end, (n, 2).

    A bound for light tails, and right within a factor of about two for a tail like
    |u|^(−1−a): density at the end times its distance from the middle.

    Args:
        left: Left ends of the panels, (k,), in any order.
        right: Right ends, (k,).
        values: Densities at the nodes, up to a factor per row, (n, k, 16).
        mass: Mass of each panel, with the same factor, (n, k).
        tail_index: Moments below this order are finite.
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


def starting_edges(low: float, high: float, points: Array, resolution: float) -> Array:
    """Panels to begin with: fine near the data, coarser the farther away.

    T can only have features near training responses, and none narrower than the
    resolution, so that no peak of exp(T) is missed, wherever the data are.

    Args:
        low: Where the base density's mass, or its support, begins.
        high: Where it ends.
        points: Training responses, (m,).
        resolution: Length below which T is smooth.
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
