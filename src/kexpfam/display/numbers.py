"""The numbers behind the pictures, all of them the model's own.

A density is asked for once per answer: values on a grid that resolves both the axis and
the density, and moments. It finds its quantiles and regions by searches that assume
nothing; here the grid gives a start so near that a few steps of Newton's method, with
slopes from the grid, reach rounding error: a fraction of the time, and a slider should
not wait. Where steps do not become small, the density is asked after all.
"""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array, Mask

# Levels of the quantiles that are always shown.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

# Between these a normal density is within one standard deviation of its mean.
MIDDLE = (0.158655, 0.841345)


@dataclass(frozen=True)
class GridSpec:
    """How a density is put on a grid, and read off it."""

    even: int = 200  # points evenly along the axis
    dense: int = 241  # and where most of the mass is
    apart: float = 0.05  # least distance of points, as a share of that of dense ones
    # A density with more than this beyond an end of the axis gets a longer axis, which
    # ends where so little is left.
    cut_off: float = 0.01
    left_over: float = 0.002
    # Of the peak: lower tails are left out of an axis that a density has to itself, and
    # such an axis stays while the density fills this share of it.
    lowest: float = 0.006
    filled: float = 0.45
    # Each step reduces the error by the relative error of a slope of the grid, a
    # thousandth or less: after a last step that is smaller than this share of the
    # middle half of the density, about ten digits are right.
    small_step: float = 1e-7
    steps: int = 5
    least_atom: float = 1e-3  # of less probability an atom is not shown
    bisections: int = 40  # for the height at which a region is cut, on the grid alone
    prominence: float = 0.02  # a dip of less of the highest peak makes no two modes


GRID = GridSpec()


class Mode(NamedTuple):
    """A local maximum of a density."""

    place: float
    height: float
    mass: float  # probability between the dips at its sides


class DensityGrid(NamedTuple):
    """A density on a grid."""

    y: Array  # increasing, (g,)
    pdf: Array  # density there, (g,)
    cdf: Array  # distribution function there, (g,)

    def middle_half(self) -> float:
        """How wide the middle half of the density is."""
        low, high = np.interp([0.25, 0.75], self.cdf, self.y)
        return float(high - low)


@dataclass(frozen=True, eq=False)
class DensityNumbers:
    """p(y|x) at one x."""

    grid: Array  # values of y, (g,), increasing
    pdf: Array  # density there, (g,)
    cdf: Array  # distribution function there, (g,)
    axis: tuple[float, float]  # ends of the axis of y
    mean: float
    std: float  # standard deviation; NaN if it was not asked for
    quantiles: Array  # at `LEVELS`, (5,)
    interval: Array  # ends of the central interval, (2,)
    middle: Array  # ends of what a normal density has within one std, (2,)
    region: Array  # intervals that are shaded, (k, 2)
    modes: tuple[Mode, ...]  # the highest one first
    atoms: Array  # values with a probability of their own, and these, (k, 2)

    @property
    def likeliest_atom(self) -> float:
        """The largest probability of a value on the axis; zero without any."""
        values, masses = self.atoms.T
        shown = (values >= self.axis[0]) & (values <= self.axis[1])
        return float(masses[shown].max(initial=0.0))


@dataclass(frozen=True, eq=False)
class CurveNumbers:
    """p(y|x) along one feature."""

    places: Array  # values of the feature, (g,), or numbers of categories
    mean: Array  # conditional means, (g,)
    quantiles: Array  # at `LEVELS`, (g, 5)
    few: Mask  # where hardly any training rows are near, (g,)


def density_numbers(
    model: Any,
    row: Array,
    axis: tuple[float, float],
    *,
    level: float = 0.9,
    highest: bool = False,
    zoom: bool = False,
    kept: tuple[float, float] | None = None,
    with_std: bool = True,
    spec: GridSpec = GRID,
) -> DensityNumbers:
    """Everything about p(y|x) at one x.

    Args:
        model: Anything with `given(X)`, of one column of y.
        row: The condition, (1, p).
        axis: Values of y that should be seen.
        level: Probability of the interval and of the region.
        highest: Whether the region is that of highest density, and not the interval.
        zoom: Whether the axis is that of this density alone.
        kept: An axis that stays if the density is inside and fills much of it.
        with_std: Whether the standard deviation is wanted, a third of the time.
        spec: How the grid is laid.
    """
    ends = 0.5 - 0.5 * level, 0.5 + 0.5 * level
    wanted = np.array([*LEVELS, *MIDDLE, *ends])
    # Held once: one x is small work, and each step would ask for it again.
    with single_threaded_blas():
        p = model.given(row)[0]
        std = float(p.std()) if with_std else np.nan
        axis, curves = _on_grid(p, axis, zoom, kept, spec)
        atoms = np.empty((0, 2))
        if getattr(p, "measure", "lebesgue") == "lebesgue":
            quantiles = quantiles_near(p, wanted, curves, spec)
            densest = region_near(p, level, curves, spec) if highest else None
        else:  # atoms, which a grid does not see
            quantiles, densest = p.ppf(wanted), p.hpd(level) if highest else None
            atoms = np.column_stack(p.atoms)
            atoms = atoms[atoms[:, 1] >= spec.least_atom]
        interval = quantiles[-2:]
        region = interval[None, :] if densest is None else densest
        return DensityNumbers(
            *curves,
            axis,
            float(p.mean()),
            std,
            quantiles[: len(LEVELS)],
            interval,
            quantiles[len(LEVELS) : -2],
            region,
            modes(curves, spec),
            atoms,
        )


def _on_grid(
    p: Any,
    axis: tuple[float, float],
    zoom: bool,
    kept: tuple[float, float] | None,
    spec: GridSpec,
) -> tuple[tuple[float, float], DensityGrid]:
    """Ends of the axis, and the density on a grid that resolves it."""
    grid = np.linspace(*axis, spec.even)
    cdf = p.cdf(grid)
    if zoom or max(cdf[0], 1.0 - cdf[-1]) > spec.cut_off:
        # An axis on which nearly all of the density is seen.
        low, high = p.ppf(np.array([spec.left_over, 1.0 - spec.left_over])).tolist()
        low, high = _where_high(p, low, high, spec) if zoom else (low, high)
        if low == high:  # an atom
            low, high = low - 0.5, high + 0.5
        if zoom and kept is not None and _fits(low, high, kept, spec):
            axis = kept
        else:
            low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
            axis = (low, high) if zoom else (min(axis[0], low), max(axis[1], high))
        grid = np.linspace(*axis, spec.even)
        cdf = p.cdf(grid)
    low, high = np.interp([LEVELS[0], LEVELS[-1]], cdf, grid)
    wide = 0.75 * (high - low)
    start, end = np.clip([low - wide, high + wide], *axis).tolist()
    dense = np.linspace(start, end, spec.dense)
    both, first = np.unique(np.concatenate([grid, dense]), return_index=True)
    cdf = np.concatenate([cdf, p.cdf(dense)])[first]
    # Points that nearly coincide would make slopes between them inaccurate.
    apart = np.diff(both, prepend=-np.inf) > spec.apart * (dense[1] - dense[0])
    return axis, DensityGrid(both[apart], _smooth_pdf(p, both[apart]), cdf[apart])


def _smooth_pdf(p: Any, y: Array) -> Array:
    """The density at points, (g,), without what an atom has that is one of them."""
    if not hasattr(p, "atoms"):
        return np.asarray(p.pdf(y))
    if p.density is None:
        return np.zeros(len(y))
    return np.asarray(p.continuous_share * p.density.pdf(y))


def _where_high(p: Any, low: float, high: float, spec: GridSpec) -> tuple[float, float]:
    """The part of a range without long tails in which a line would lie on the axis."""
    if getattr(p, "measure", "lebesgue") != "lebesgue":
        return low, high
    y = np.linspace(low, high, spec.even)
    pdf = p.pdf(y)
    seen = y[pdf >= spec.lowest * pdf.max()]
    return float(seen[0]), float(seen[-1])


def _fits(low: float, high: float, kept: tuple[float, float], spec: GridSpec) -> bool:
    """Whether a range is inside of an axis, and fills much of it."""
    inside = kept[0] <= low and high <= kept[1]
    return inside and high - low >= spec.filled * (kept[1] - kept[0])


def quantiles_near(
    p: Any, levels: Array, on: DensityGrid, spec: GridSpec = GRID
) -> Array:
    """Quantiles of a single density that is known on a grid, (q,)."""
    y = np.interp(levels, on.cdf, on.y)
    small = spec.small_step * on.middle_half()
    done = np.zeros(len(y), dtype=bool)
    inside = (levels > on.cdf[0]) & (levels < on.cdf[-1])
    for _ in range(spec.steps):
        slope = np.interp(y, on.y, on.pdf)
        slope = np.where(slope > 0, slope, np.inf)
        step = (p.cdf(y) - levels) / slope
        y = np.clip(y - step, on.y[0], on.y[-1])
        done = inside & (np.abs(step) <= small) & np.isfinite(slope)
        if done.all():
            return y
    y[~done] = p.ppf(levels[~done])
    return y


def region_near(p: Any, level: float, on: DensityGrid, spec: GridSpec = GRID) -> Array:
    """Region of highest density, its intervals in order, (k, 2).

    The ends e of the region and its height c satisfy p(e) = c and a sum of masses,
    Σ ±F(e) = level; both are made linear in steps of e and c.
    """
    height, ends = cut_at_height(level, on, spec.bisections)
    gradient = np.gradient(on.pdf, on.y)
    sign = np.where(np.arange(len(ends)) % 2, 1.0, -1.0)
    small = spec.small_step * on.middle_half()
    if on.pdf[0] < height > on.pdf[-1] and len(ends):
        for _ in range(spec.steps):
            f, mass = p.pdf(ends), float(sign @ p.cdf(ends))
            slopes = np.interp(ends, on.y, gradient)
            if not np.all(sign * slopes < 0):
                break
            along = sign * f / slopes
            height += (level - mass - along @ (height - f)) / along.sum()
            step = (height - f) / slopes
            ends = ends + step
            if not np.all(np.diff(ends) > 0):
                break
            if np.abs(step).max() <= small:
                return ends.reshape(-1, 2)
    return np.reshape(p.hpd(level), (-1, 2))


def cut_at_height(
    level: float, on: DensityGrid, bisections: int = GRID.bisections
) -> tuple[float, Array]:
    """Height above which the grid has a mass, and where it is crossed."""
    low, high = 0.0, float(on.pdf.max())
    for _ in range(bisections):
        height = 0.5 * (low + high)
        ends = _crossings(height, on)
        mass = np.diff(np.interp(ends, on.y, on.cdf))[::2].sum()
        low, high = (height, high) if mass > level else (low, height)
    return height, _crossings(height, on)


def _crossings(height: float, on: DensityGrid) -> Array:
    """Where lines between points cross a height, up and down in turn."""
    above = on.pdf > height
    cell = np.flatnonzero(above[1:] != above[:-1])
    slopes = (on.pdf[cell + 1] - on.pdf[cell]) / (on.y[cell + 1] - on.y[cell])
    return on.y[cell] + (height - on.pdf[cell]) / slopes


def modes(on: DensityGrid, spec: GridSpec = GRID) -> tuple[Mode, ...]:
    """Local maxima, by parabolas through the logarithms of three points; highest first.

    Example:
        >>> from scipy.stats import norm
        >>> y = np.linspace(-4.0, 4.0, 100)
        >>> grid = DensityGrid(y, norm.pdf(y, 0.3), norm.cdf(y, 0.3))
        >>> modes(grid)[0].place
        0.3...
    """
    from scipy.signal import find_peaks  # here, since it takes 70 ms to import

    if not on.pdf.any():  # a mass function
        return ()
    padded = np.concatenate([[0.0], on.pdf, [0.0]])
    peaks = find_peaks(padded, prominence=spec.prominence * on.pdf.max())[0] - 1
    dips = [a + int(on.pdf[a : b + 1].argmin()) for a, b in itertools.pairwise(peaks)]
    masses = np.diff([0.0, *on.cdf[dips], 1.0])
    found = [
        Mode(*_summit(on, int(peak)), float(mass))
        for peak, mass in zip(peaks, masses, strict=True)
    ]
    return tuple(sorted(found, key=lambda mode: -mode.height))


def _summit(on: DensityGrid, peak: int) -> tuple[float, float]:
    """Place and height of a maximum near a point of the grid."""
    three, place = slice(peak - 1, peak + 2), float(on.y[peak])
    if not 0 < peak < len(on.y) - 1 or not np.all(on.pdf[three] > 0):
        return place, float(on.pdf[peak])
    left, middle, right = np.log(on.pdf[three])
    before, after = on.y[peak - 1] - place, on.y[peak + 1] - place
    # log p = middle + slope·u + bend·u² through the other two points.
    first, second = (left - middle) / before, (right - middle) / after
    bend = (second - first) / (after - before)
    slope = first - bend * before
    if not bend < 0:
        return place, float(on.pdf[peak])
    u = np.clip(-0.5 * slope / bend, before, after)
    return float(place + u), float(np.exp(middle + slope * u + bend * u**2))
