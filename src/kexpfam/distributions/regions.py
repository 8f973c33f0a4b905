"""Highest-density regions: the smallest sets that hold a given probability.

It is {y: p(y) > c} for the level c at which it has that probability: several intervals
if the density has several modes. All rows are done together. Every cell is sampled
finely enough to bracket all crossings of a level; between two samples the polynomial of
the cell tells where it crosses. The mass above a level falls as the level rises, with
a known slope, so that Newton's method finds the level.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from kexpfam._parallel import cached_property
from kexpfam._roots import golden_section, increasing_roots
from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition import CellDensity, cell_rule, series_at, series_slopes

# Samples of a cell, both ends among them.
_SAMPLES = np.linspace(-1.0, 1.0, 17)


def highest_density_regions(
    cells: CellDensity,  # The densities
    confidence: float,  # The probability, between 0 and 1
) -> list[Array]:
    """The smallest set with this probability for each row, as intervals (k, 2)."""
    n, k = cells.half.shape
    size = max(1, 2**16 // k)  # so many cells are sampled together
    regions: list[Array] = []
    for start in range(0, n, size):
        rows = slice(start, start + size)
        block = CellDensity(cells.edges[rows], cells.density[rows])
        regions += _regions(_LevelSets.of(block), confidence)
    return regions


@dataclass(frozen=True)
class _Segments:
    """Stretches of cells between two neighbouring samples, in one list."""

    place: Indices  # which cell, counted over all rows
    t: Array  # (m, 2): either end
    p: Array  # (m, 2): the densities there


@dataclass(frozen=True)
class _LevelSets:
    """Where densities are above levels."""

    cells: CellDensity  # The densities
    samples: Array  # Their values at the samples of each cell, (n, k, 17)
    plain: Mask  # Which stretches between samples hold no extreme inside, (n, k, 16)
    bent: _Segments  # The others, cut at their extremes

    @classmethod
    def of(cls, cells: CellDensity) -> "_LevelSets":
        n, k = cells.half.shape
        table = cells.density_table
        vandermonde = chebyshev.chebvander(_SAMPLES, table.shape[1] - 1)
        samples = (table @ vandermonde.T).reshape(n, k, len(_SAMPLES))
        samples = _without_empty(cells, samples)
        # Smaller shares of the peak are none.
        least = 1e-14 * samples.max(axis=(1, 2), keepdims=True)
        samples = np.where(samples > least, _rounded(samples), 0.0)
        plain, bent = _cut_at_extremes(cells, samples)
        return cls(cells, samples, plain, bent)

    @cached_property
    def peak(self) -> Array:
        """The highest value of each row, (n,)."""
        top = self.samples.max(axis=(1, 2))
        np.maximum.at(top, self.bent.place // self._k, self.bent.p.max(axis=1))
        return top

    def above(self, level: Array, tolerance: float) -> "_Crossings":
        """The ends of {p > level}, for one level per row, (n,).

        Densities there differ from the level by no more than this share of it.
        """
        limit = level[:, None, None]
        high = self.samples > limit
        row, cell, s = np.nonzero((high[..., 1:] != high[..., :-1]) & self.plain)
        bent = self.bent
        cut = bent.p > level[bent.place // self._k][:, None]
        cut_here = cut[:, 0] != cut[:, 1]
        place = np.concatenate([row * self._k + cell, bent.place[cut_here]])
        ends = np.concatenate(
            [np.stack([_SAMPLES[s], _SAMPLES[s + 1]], axis=1), bent.t[cut_here]]
        )
        falling = np.concatenate([high[row, cell, s], cut[cut_here, 0]])
        wanted, sign = level[place // self._k], np.where(falling, -1.0, 1.0)
        table, slopes = self.cells.density_table, self._slopes

        def excess(t: Array, some: Indices) -> tuple[Array, Array]:
            value, slope = (series_at(one, place[some], t) for one in (table, slopes))
            return sign[some] * (value - wanted[some]), sign[some] * slope

        t = increasing_roots(
            excess,
            ends[:, 0],
            ends[:, 1],
            tolerance * wanted,
            slope_error=1e-7,  # but for rounding they are those of the polynomials
        )
        # Between cells the density may jump, and at either end it begins or ends.
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
        cells = self.cells
        below = cells.below.ravel()[found.place]
        below += series_at(cells.integral_table, found.place, found.t)
        return self._sums(found.place, found.sign * below)

    def rate(self, found: "_Crossings", level: Array) -> Array:
        """How fast the mass falls as the level rises, Σ p/|p'|, (n,)."""
        inner = slice(found.inner)
        place, t = found.place[inner], found.t[inner]
        slope = series_at(self._slopes, place, t) / self.cells.half.ravel()[place]
        with np.errstate(divide="ignore"):
            terms = level[place // self._k] / np.abs(slope)
        return self._sums(place, terms)

    def intervals(self, found: "_Crossings") -> list[Array]:
        """The regions of all rows, (k, 2) each."""
        cells, row = self.cells, found.place // self._k
        left = cells.edges[:, :-1].ravel()[found.place]
        right = cells.edges[:, 1:].ravel()[found.place]
        y = left + 0.5 * (right - left) * (1.0 + found.t)
        y = np.where(found.t >= 1.0, right, y)
        order = np.lexsort([found.sign, y, row])
        cuts = np.searchsorted(row[order], np.arange(1, len(cells.edges)))
        return [part.reshape(-1, 2) for part in np.split(y[order], cuts)]

    @property
    def _k(self) -> int:
        return self.samples.shape[1]

    @cached_property
    def _slopes(self) -> Array:
        return series_slopes(self.cells.density_table)

    def _sums(self, place: Indices, terms: Array) -> Array:
        sums = np.bincount(place // self._k, terms, minlength=len(self.samples))
        return sums.astype(float, copy=False)


@dataclass(frozen=True)
class _Crossings:
    """Ends of regions."""

    place: Indices  # Which cell, counted over all rows
    t: Array  # Where in it
    sign: Array  # 1 for a right end and −1 for a left
    inner: int  # So many are inside cells, and the others, after them, at jumps


def _without_empty(cells: CellDensity, samples: Array) -> Array:
    """Samples where an empty cell repeats the value beside it."""
    k = cells.half.shape[1]
    # The last cell that is not empty, at each place.
    number = np.where(cells.half > 0, np.arange(k), 0)
    source = np.maximum.accumulate(number, axis=1)
    last = np.take_along_axis(samples[..., -1], source, axis=1)
    return np.where((cells.half > 0)[..., None], samples, last[..., None])


def _rounded(p: Array) -> Array:
    """Densities without the digits that quadrature cannot tell apart: a plateau."""
    mantissa, exponent = np.frexp(p)
    return np.ldexp(np.round(mantissa * 2.0**30) * 2.0**-30, exponent)


def _cut_at_extremes(cells: CellDensity, samples: Array) -> tuple[Mask, _Segments]:
    """Tops and bottoms between samples, which a level just beside them would miss."""
    n, k, size = samples.shape
    before = np.concatenate([samples[..., :1], samples[..., :-1]], axis=-1)
    after = np.concatenate([samples[..., 1:], samples[..., -1:]], axis=-1)
    # The neighbour of an end is in the next cell.
    before[:, 1:, 0], after[:, :-1, -1] = samples[:, :-1, -2], samples[:, 1:, 1]
    top = (samples >= before) & (samples >= after)
    bottom = (samples <= before) & (samples <= after)
    row, cell, s = np.nonzero((top != bottom) & (cells.half > 0)[..., None])
    sign = np.where(top[row, cell, s], 1.0, -1.0)
    place = row * k + cell
    low, high = golden_section(
        lambda t: series_at(cells.density_table, place, t),
        _SAMPLES[np.maximum(s - 1, 0)],
        _SAMPLES[np.minimum(s + 1, size - 1)],
        sign,
    )
    t = 0.5 * (low + high)
    height = series_at(cells.density_table, place, t)
    # The stretch of the cell that the extreme is in, cut in two there.
    s = np.clip(np.searchsorted(_SAMPLES, t, side="right") - 1, 0, size - 2)
    plain = np.ones((n, k, size - 1), dtype=bool)
    # Two extremes in one stretch: the first is kept.
    _, first = np.unique(place * size + s, return_index=True)
    row, cell, s = row[first], cell[first], s[first]
    t, height = t[first], height[first]
    plain[row, cell, s] = False
    ends = samples[row, cell, s], samples[row, cell, s + 1]
    place = np.tile(row * k + cell, 2)
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
    level = _first_levels(sets.cells, confidence)
    before = peak.copy()
    for _ in range(100):
        level = np.clip(level, low, high)
        found = sets.above(level, 1e-12)
        excess = sets.mass(found) - confidence
        low = np.where(excess > 0, level, low)
        high = np.where(excess < 0, level, high)
        settled = (np.abs(excess) < 1e-11) | (high - low < 1e-12 * high)
        if np.all(settled):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = level + excess / sets.rate(found, level)
        usable = (newton > low) & (newton < high) & (np.abs(newton - level) < before)
        step = np.where(usable, newton, 0.5 * (low + high))
        before = np.where(usable, 0.5 * np.abs(step - level), high - low)
        level = np.where(settled, level, step)
    regions = sets.intervals(sets.above(level, 1e-14))
    # A level that misses its probability by so much is that of a plateau.
    # Where nothing is above a level it is the peak's, of which a point is the region.
    empty = np.array([len(region) == 0 for region in regions], dtype=bool)
    plateau = np.flatnonzero((np.abs(excess) >= 1e-8) | empty)
    if len(plateau):
        low = np.where(empty, np.maximum(low, (1.0 - 1e-8) * peak), low)
        inner = sets.intervals(sets.above(high, 1e-14))
        outer = sets.intervals(sets.above(low, 1e-14))
        for row in plateau.tolist():
            one = CellDensity(sets.cells.edges[[row]], sets.cells.density[[row]])
            regions[row] = _trimmed(one, inner[row], outer[row], confidence)
    return regions


def _first_levels(cells: CellDensity, confidence: float) -> Array:
    """About the density that so much of the mass is above, (n,)."""
    n = len(cells.density)
    p = cells.density.reshape(n, -1)
    order = np.argsort(-p, axis=1)
    weights = (cells.half[..., None] * cell_rule().weights).reshape(n, -1)
    share = np.cumsum(np.take_along_axis(p * weights, order, axis=1), axis=1)
    place = np.minimum((share < confidence).sum(axis=1), p.shape[1] - 1)
    return p[np.arange(n), order[np.arange(n), place]]


def _trimmed(one: CellDensity, high: Array, low: Array, confidence: float) -> Array:
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
    # With next to no probability each is a point, and one of them is enough.
    # Where all mass is between two doubles, no density is seen; quantiles are.
    kept = kept or [one.ppf(0.5 + 0.5 * confidence * np.array([[-1.0, 1.0]]))[0]]
    longer = [(a, b) for a, b in kept if b > a] or kept[:1]
    ends = np.array(sorted((a, b) for a, b in longer))
    # Pieces that touch are one interval.
    apart = np.append(True, ends[1:, 0] > ends[:-1, 1] + 1e-9 * np.ptp(ends))
    return np.stack([ends[apart, 0], ends[np.append(apart[1:], True), 1]], axis=1)


def _masses(one: CellDensity, region: Array) -> Array:
    ends = one.cdf(region.reshape(1, -1)).reshape(-1, 2)
    return ends[:, 1] - ends[:, 0]
