"""The numbers behind the pictures, all of them the model's own.

A density is asked for once per answer: values on a grid that resolves both the axis and
the density, moments, and what `refinement` makes of the grid: quantiles, a region and a
list of modes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array, Mask
from kexpfam.display import few_near
from kexpfam.explorer.refinement import Mode, modes, quantiles_near, region_near
from kexpfam.explorer.subject import Control, Subject

# Levels of the quantiles that are always shown.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

# Points of a density: evenly along the axis, and where most of the mass is.
_EVEN, _DENSE = 200, 241

# Least distance of points, as a share of that of the dense ones.
_APART = 0.05

# A density with more than this beyond an end of the axis gets a longer axis, which ends
# where so little is left.
_CUT_OFF, _LEFT_OVER = 0.01, 0.002

_CURVE_POINTS = 41


@dataclass(frozen=True, eq=False)
class DensityNumbers:
    """p(y|x) at one x.

    Attributes:
        grid: Values of y, (g,), increasing.
        pdf: Density there, (g,).
        cdf: Distribution function there, (g,).
        axis: Ends of the axis of y.
        mean: Expectation.
        deviation: Standard deviation; NaN if it was not asked for.
        quantiles: At `LEVELS`, (5,).
        interval: Ends of the central interval, (2,).
        region: Intervals that are shaded, (k, 2).
        modes: The highest one first.
    """

    grid: Array
    pdf: Array
    cdf: Array
    axis: tuple[float, float]
    mean: float
    deviation: float
    quantiles: Array
    interval: Array
    region: Array
    modes: tuple[Mode, ...]


def density_numbers(
    model: Any,
    row: Array,
    axis: tuple[float, float],
    *,
    level: float = 0.9,
    highest: bool = False,
    zoom: bool = False,
    deviation: bool = True,
) -> DensityNumbers:
    """Everything about p(y|x) at one x.

    Args:
        model: Anything with `given(X)`, of one column of y.
        row: The condition, (1, p).
        axis: Values of y that should be seen.
        level: Probability of the interval and of the region.
        highest: Whether the region is that of highest density, and not the interval.
        zoom: Whether the axis is that of this density alone.
        deviation: Whether the standard deviation is wanted, a third of the time.
    """
    # Held once: one x is small work, and each step would ask for it again.
    with single_threaded_blas():
        p = model.given(row)[0]
        spread = float(p.std()) if deviation else np.nan
        return _density_numbers(p, axis, level, highest, zoom, spread)


def _density_numbers(
    p: Any,
    axis: tuple[float, float],
    level: float,
    highest: bool,
    zoom: bool,
    deviation: float,
) -> DensityNumbers:
    wanted = np.array([*LEVELS, 0.5 - 0.5 * level, 0.5 + 0.5 * level])
    axis, grid, pdf, cdf = _curves(p, axis, zoom)
    quantiles = quantiles_near(p, wanted, grid, pdf, cdf)
    region = region_near(p, level, grid, pdf, cdf) if highest else None
    interval = quantiles[-2:]
    return DensityNumbers(
        grid,
        pdf,
        cdf,
        axis,
        float(p.mean()),
        deviation,
        quantiles[: len(LEVELS)],
        interval,
        interval[None, :] if region is None else region,
        modes(grid, pdf, cdf),
    )


def _curves(
    p: Any, axis: tuple[float, float], zoom: bool
) -> tuple[tuple[float, float], Array, Array, Array]:
    """Ends of the axis, a grid that resolves the density, its pdf and its cdf."""
    grid = np.linspace(*axis, _EVEN)
    cdf = p.cdf(grid)
    if zoom or max(cdf[0], 1.0 - cdf[-1]) > _CUT_OFF:
        axis = _longer(p, axis, zoom)
        grid = np.linspace(*axis, _EVEN)
        cdf = p.cdf(grid)
    low, high = np.interp([LEVELS[0], LEVELS[-1]], cdf, grid)
    wide = 0.75 * (high - low)
    start, end = np.clip([low - wide, high + wide], *axis).tolist()
    dense = np.linspace(start, end, _DENSE)
    both, first = np.unique(np.concatenate([grid, dense]), return_index=True)
    cdf = np.concatenate([cdf, p.cdf(dense)])[first]
    # Points that nearly coincide would make slopes between them inaccurate.
    apart = np.diff(both, prepend=-np.inf) > _APART * (dense[1] - dense[0])
    return axis, both[apart], p.pdf(both[apart]), cdf[apart]


def _longer(p: Any, axis: tuple[float, float], zoom: bool) -> tuple[float, float]:
    """An axis on which nearly all of the density is seen."""
    ends = p.ppf(np.array([_LEFT_OVER, 1.0 - _LEFT_OVER]))
    pad = 0.04 * float(ends[1] - ends[0])
    own = float(ends[0]) - pad, float(ends[1]) + pad
    return own if zoom else (min(axis[0], own[0]), max(axis[1], own[1]))


@dataclass(frozen=True, eq=False)
class CurveNumbers:
    """p(y|x) along one feature.

    Attributes:
        places: Values of the feature, (g,), or numbers of categories.
        mean: Conditional means, (g,).
        quantiles: At `LEVELS`, (g, 5).
        few: Where hardly any training rows are near, (g,).
    """

    places: Array
    mean: Array
    quantiles: Array
    few: Mask


def curve_numbers(model: Any, row: Array, control: Control) -> CurveNumbers:
    """Means and quantiles along a feature, the others staying at a row, (1, p)."""
    if control.categories:
        places = np.arange(len(control.categories), dtype=float)
        cells = np.eye(len(control.categories))
    else:
        places = np.linspace(control.low, control.high, _CURVE_POINTS)
        cells = places[:, None]
    X = np.repeat(row, len(places), axis=0)
    X[:, list(control.columns)] = cells
    p = model.given(X)
    return CurveNumbers(places, p.mean(), p.ppf(np.array([LEVELS])), few_near(model, X))


def axis_of(subject: Subject) -> tuple[float, float]:
    """Values of y that pictures show: those of the data, or of draws without any."""
    seen = subject.y[np.isfinite(subject.y)]
    if not len(seen):
        X = subject.X if len(subject.X) else subject.row({})
        seen = np.ravel(subject.model.sample(X[:200], 50, random_state=0))
    low, high = (float(v) for v in np.percentile(seen, [0.5, 99.5]))
    pad = 0.08 * (high - low) or max(1e-6, 0.05 * abs(low))
    return low - pad, high + pad


def trained_share(subject: Subject) -> float:
    """How many of the model's training rows have the features of a row of the data.

    About one, if the data are those of the fit. Coincidences count too, so this is a
    reason to warn and no proof.
    """
    near = getattr(subject.model, "neighbourhood_", None)
    if near is None or not len(subject.X):
        return 0.0
    Z = (subject.X - near.center) / near.scale
    known = {row.tobytes() for row in np.round(Z, 6) + 0.0}
    found = [row.tobytes() in known for row in np.round(near.rows, 6) + 0.0]
    return float(np.mean(found))
