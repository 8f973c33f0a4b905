"""Highest-density regions: the smallest sets that hold a given probability.

It is {y: p(y) > c} for the level c at which it has that probability: several intervals
if the density has several modes. All rows are done together. Every panel is sampled
finely enough to bracket all crossings of a level; between two samples the polynomial of
the panel tells where it crosses. The mass above a level falls as the level rises, with
a known slope, so that Newton's method finds the level.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from kexpfam._roots import bracketed_roots
from kexpfam._typing import Array, Indices, Mask
from kexpfam.distributions.row_panels import RowPanels, golden_section
from kexpfam.partition import PanelDensity, panel_rule, series_at, series_slopes

# Samples of a panel, both ends among them.
_SAMPLES = np.linspace(-1.0, 1.0, 17)

# Densities that differ by less than this share are a plateau: quadrature cannot tell
# them apart. Those below the second share of the peak are none.
_PLATEAU = 2.0**-30
_NOTHING = 1e-14

# A region has its probability up to this; or else there is a plateau at its level.
_MASS_TOLERANCE = 1e-11
_ON_PLATEAU = 1e-8
_MOST_LEVELS = 100

# Panels that are sampled together.
_BLOCK_PANELS = 2**16


def highest_density_regions(
    panels: RowPanels,  # The densities
    confidence: float,  # The probability, between 0 and 1
) -> list[Array]:
    """The smallest set with this probability for each row, as intervals (k, 2)."""
    n, k = panels.half.shape
    size = max(1, _BLOCK_PANELS // k)
    regions: list[Array] = []
    for start in range(0, n, size):
        rows = slice(start, start + size)
        block = RowPanels(panels.edges[rows], panels.density[rows])
        regions += _regions(_LevelSets.of(block), confidence)
    return regions


@dataclass(frozen=True)
class _Segments:
    """Stretches of panels between two neighbouring samples, in one list."""

    place: Indices  # which panel, counted over all rows
    t: Array  # (m, 2): either end
    p: Array  # (m, 2): the densities there


@dataclass(frozen=True)
class _LevelSets:
    """Where densities are above levels."""

    panels: RowPanels  # The densities
    samples: Array  # Their values at the samples of each panel, (n, k, 17)
    plain: Mask  # Which stretches between samples hold no extreme inside, (n, k, 16)
    bent: _Segments  # The others, cut at their extremes

    @classmethod
    def of(cls, panels: RowPanels) -> "_LevelSets":
        n, k = panels.half.shape
        table = panels.density_table
        vandermonde = legendre.legvander(_SAMPLES, table.shape[1] - 1)
        samples = (table @ vandermonde.T).reshape(n, k, len(_SAMPLES))
        samples = _without_empty(panels, samples)
        least = _NOTHING * samples.max(axis=(1, 2), keepdims=True)
        samples = np.where(samples > least, _rounded(samples), 0.0)
        plain, bent = _cut_at_extremes(panels, samples)
        return cls(panels, samples, plain, bent)

    @functools.cached_property
    def peak(self) -> Array:
        """The highest value of each row, (n,)."""
        top = self.samples.max(axis=(1, 2))
        np.maximum.at(top, self.bent.place // self._k, self.bent.p.max(axis=1))
        return top

    def above(self, level: Array, tolerance: float) -> "_Crossings":
        """The ends of {p > level}, for one level per row, (n,)."""
        limit = level[:, None, None]
        high = self.samples > limit
        row, panel, s = np.nonzero((high[..., 1:] != high[..., :-1]) & self.plain)
        bent = self.bent
        cut = bent.p > level[bent.place // self._k][:, None]
        cut_here = cut[:, 0] != cut[:, 1]
        place = np.concatenate([row * self._k + panel, bent.place[cut_here]])
        ends = np.concatenate(
            [np.stack([_SAMPLES[s], _SAMPLES[s + 1]], axis=1), bent.t[cut_here]]
        )
        falling = np.concatenate([high[row, panel, s], cut[cut_here, 0]])
        wanted = level[place // self._k]
        table = self.panels.density_table
        t = bracketed_roots(
            lambda t: series_at(table, place, t) - wanted,
            ends[:, 0],
            ends[:, 1],
            tolerance=tolerance,
        )
        # Between panels the density may jump, and at either end it begins or ends.
        first = np.pad(high[..., 0], ((0, 0), (0, 1)))
        last = np.pad(high[..., -1], ((0, 0), (1, 0)))
        jump_row, edge = np.nonzero(first != last)
        starts = first[jump_row, edge]
        at_edge = np.minimum(edge, self._k - 1)
        jump_t = np.where(edge == self._k, 1.0, -1.0)
        return _Crossings(
            np.concatenate([place, jump_row * self._k + at_edge]),
            np.concatenate([t, jump_t]),
            np.concatenate([np.where(falling, 1.0, -1.0), np.where(starts, -1.0, 1.0)]),
            len(t),
        )

    def mass(self, found: "_Crossings") -> Array:
        """Probability of regions, (n,)."""
        panels = self.panels
        below = panels.below.ravel()[found.place]
        below += series_at(panels.integral_table, found.place, found.t)
        return self._sums(found.place, found.sign * below)

    def rate(self, found: "_Crossings", level: Array) -> Array:
        """How fast the mass falls as the level rises, Σ p/|p'|, (n,)."""
        inner = slice(found.inner)
        place, t = found.place[inner], found.t[inner]
        slope = series_at(self._slopes, place, t) / self.panels.half.ravel()[place]
        with np.errstate(divide="ignore"):
            terms = level[place // self._k] / np.abs(slope)
        return self._sums(place, terms)

    def intervals(self, found: "_Crossings") -> list[Array]:
        """The regions of all rows, (k, 2) each."""
        panels, row = self.panels, found.place // self._k
        left = panels.edges[:, :-1].ravel()[found.place]
        right = panels.edges[:, 1:].ravel()[found.place]
        y = left + 0.5 * (right - left) * (1.0 + found.t)
        y = np.where(found.t >= 1.0, right, y)
        order = np.lexsort([found.sign, y, row])
        cuts = np.searchsorted(row[order], np.arange(1, len(panels.edges)))
        return [part.reshape(-1, 2) for part in np.split(y[order], cuts)]

    @property
    def _k(self) -> int:
        return self.samples.shape[1]

    @functools.cached_property
    def _slopes(self) -> Array:
        return series_slopes(self.panels.density_table)

    def _sums(self, place: Indices, terms: Array) -> Array:
        sums = np.zeros(len(self.samples))
        np.add.at(sums, place // self._k, terms)
        return sums


@dataclass(frozen=True)
class _Crossings:
    """Ends of regions: panel, position in it, 1 for a right end and −1 for a left.

    The first `inner` of them are inside panels, the others at jumps.
    """

    place: Indices
    t: Array
    sign: Array
    inner: int


def _without_empty(panels: RowPanels, samples: Array) -> Array:
    """Samples where an empty panel repeats the value beside it."""
    k = panels.half.shape[1]
    # The last panel that is not empty, at each place.
    number = np.where(panels.half > 0, np.arange(k), 0)
    source = np.maximum.accumulate(number, axis=1)
    last = np.take_along_axis(samples[..., -1], source, axis=1)
    return np.where((panels.half > 0)[..., None], samples, last[..., None])


def _rounded(p: Array) -> Array:
    """Densities without the digits that are not known."""
    mantissa, exponent = np.frexp(p)
    return np.ldexp(np.round(mantissa / _PLATEAU) * _PLATEAU, exponent)


def _cut_at_extremes(panels: RowPanels, samples: Array) -> tuple[Mask, _Segments]:
    """Tops and bottoms between samples, which a level just beside them would miss."""
    n, k, size = samples.shape
    before = np.concatenate([samples[..., :1], samples[..., :-1]], axis=-1)
    after = np.concatenate([samples[..., 1:], samples[..., -1:]], axis=-1)
    # The neighbour of an end is in the next panel.
    before[:, 1:, 0], after[:, :-1, -1] = samples[:, :-1, -2], samples[:, 1:, 1]
    top = (samples >= before) & (samples >= after)
    bottom = (samples <= before) & (samples <= after)
    row, panel, s = np.nonzero((top != bottom) & (panels.half > 0)[..., None])
    sign = np.where(top[row, panel, s], 1.0, -1.0)
    place = row * k + panel
    low, high = golden_section(
        lambda t: series_at(panels.density_table, place, t),
        _SAMPLES[np.maximum(s - 1, 0)],
        _SAMPLES[np.minimum(s + 1, size - 1)],
        sign,
    )
    t = 0.5 * (low + high)
    height = series_at(panels.density_table, place, t)
    # The stretch of the panel that the extreme is in, cut in two there.
    s = np.clip(np.searchsorted(_SAMPLES, t, side="right") - 1, 0, size - 2)
    plain = np.ones((n, k, size - 1), dtype=bool)
    # Two extremes in one stretch: the first is kept.
    _, first = np.unique(place * size + s, return_index=True)
    row, panel, s = row[first], panel[first], s[first]
    t, height = t[first], height[first]
    plain[row, panel, s] = False
    ends = samples[row, panel, s], samples[row, panel, s + 1]
    place = np.tile(row * k + panel, 2)
    positions = np.concatenate(
        [np.stack([_SAMPLES[s], t], axis=1), np.stack([t, _SAMPLES[s + 1]], axis=1)]
    )
    height = _rounded(height)
    values = np.concatenate(
        [np.stack([ends[0], height], axis=1), np.stack([height, ends[1]], axis=1)]
    )
    return plain, _Segments(place, positions, values)


def _regions(sets: _LevelSets, confidence: float) -> list[Array]:
    """Find the level of each row by Newton's method, safeguarded by bisection."""
    peak = sets.peak
    low, high = np.zeros_like(peak), peak.copy()
    level = _first_levels(sets.panels, confidence)
    before = peak.copy()
    for _ in range(_MOST_LEVELS):
        level = np.clip(level, low, high)
        found = sets.above(level, 1e-11)
        excess = sets.mass(found) - confidence
        low = np.where(excess > 0, level, low)
        high = np.where(excess < 0, level, high)
        settled = (np.abs(excess) < _MASS_TOLERANCE) | (high - low < 1e-12 * high)
        if np.all(settled):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = level + excess / sets.rate(found, level)
        usable = (newton > low) & (newton < high) & (np.abs(newton - level) < before)
        step = np.where(usable, newton, 0.5 * (low + high))
        before = np.where(usable, 0.5 * np.abs(step - level), high - low)
        level = np.where(settled, level, step)
    regions = sets.intervals(sets.above(level, 1e-13))
    plateau = np.flatnonzero(np.abs(excess) >= _ON_PLATEAU)
    if len(plateau):
        inner = sets.intervals(sets.above(high, 1e-13))
        outer = sets.intervals(sets.above(low, 1e-13))
        for row in plateau.tolist():
            one = _as_panel_density(sets.panels, row)
            regions[row] = _trimmed(one, inner[row], outer[row], confidence)
    return regions


def _first_levels(panels: RowPanels, confidence: float) -> Array:
    """About the density that so much of the mass is above, (n,)."""
    n = len(panels.density)
    p = panels.density.reshape(n, -1)
    order = np.argsort(-p, axis=1)
    weights = (panels.half[..., None] * panel_rule().weights).reshape(n, -1)
    share = np.cumsum(np.take_along_axis(p * weights, order, axis=1), axis=1)
    place = np.minimum((share < confidence).sum(axis=1), p.shape[1] - 1)
    return p[np.arange(n), order[np.arange(n), place]]


def _as_panel_density(panels: RowPanels, row: int) -> PanelDensity:
    wide = np.append(True, np.diff(panels.edges[row]) > 0)
    p = np.maximum(panels.density[row][wide[1:]], np.finfo(float).tiny)
    return PanelDensity(
        panels.edges[row][wide], np.log(p)[None], np.zeros(1), np.zeros(1)
    )


def _trimmed(one: PanelDensity, high: Array, low: Array, confidence: float) -> Array:
    """A region between two that differ by a plateau, with the right probability.

    All points of the plateau have the same density; each of its intervals keeps the
    same share of its mass, next to the higher region if it touches it.
    """
    inner, outer = _masses(one, high), _masses(one, low)
    share = (confidence - inner.sum()) / max(outer.sum() - inner.sum(), 1e-300)
    kept = list(high)
    for a, b in low:
        inside = [r for r in high if r[0] >= a and r[1] <= b]
        corners = np.concatenate([[a], *inside, [b]]).reshape(-1, 2)
        for c, d in corners[corners[:, 1] > corners[:, 0]]:
            below, above = one.cdf(np.array([[c, d]]))[0]
            spare = (1.0 - share) * (above - below)
            cut_left = spare if d < b else 0.0 if c > a else 0.5 * spare
            levels = np.array([[below + cut_left, above - (spare - cut_left)]])
            kept.append(one.ppf(levels)[0])
    ends = np.array(sorted((a, b) for a, b in kept if b > a))
    # Pieces that touch are one interval.
    apart = np.append(True, ends[1:, 0] > ends[:-1, 1] + 1e-9 * np.ptp(ends))
    return np.stack([ends[apart, 0], ends[np.append(apart[1:], True), 1]], axis=1)


def _masses(one: PanelDensity, region: Array) -> Array:
    ends = one.cdf(region.reshape(1, -1)).reshape(-1, 2)
    return ends[:, 1] - ends[:, 0]
