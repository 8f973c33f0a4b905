"""Bounds of y in estimators: rows go to the line, and densities come back from it."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.data import ChangedSource, Rows, Source
from kexpfam.distributions import (
    BoundedDensity,
    MixtureDensity,
    OneColumnDensity,
    SupportMap,
)
from kexpfam.errors import DegenerateDataError
from kexpfam.estimators.fitting import FamilyFit
from kexpfam.family import SampledRows, Spec
from kexpfam.selection import Selection
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.discrete import rounding_width
from kexpfam.selection.spec import SUPPORT
from kexpfam.selection.supports import (
    ResponseBounds,
    choose_support,
    given_bounds,
    mapped_rows,
    noticed_bounds,
    require_within,
)


def bounds_of(
    rows: Rows,
    lower: Any,
    upper: Any,
    *,
    notice: bool,
    ends: ResponseBounds | None = None,
) -> ResponseBounds:
    """Bounds of one column of y: those given, or those that are noticed.

    `ends` are bounds that are likely for another reason.
    """
    bounds = given_bounds(lower, upper)
    if bounds is None:
        found = ResponseBounds()
        if notice:
            found = noticed_bounds(rows.Y[rows.weights > 0, 0])
        if not ends:
            return found
        low, high = max(found.lower, ends.lower), min(found.upper, ends.upper)
        return ResponseBounds(low, high, likely=True)
    if bounds and rows.Y.shape[1] > 1:
        raise ValueError(
            f"lower and upper are for one column of y, got {rows.Y.shape[1]}; give a "
            f"base such as TruncatedBase, or fit the columns one after another."
        )
    return bounds


def on_the_line(
    rows: Rows, bounds: ResponseBounds, spec: Spec
) -> tuple[Rows, SupportMap | None]:
    """Rows with responses that have no bounds, and the map; None if there is none."""
    if bounds:
        require_within(rows.Y[:, 0], bounds)
    support = choose_support(rows, bounds, spec) if bounds else None
    return (rows if support is None else mapped_rows(rows, support)), support


def blocks_on_the_line(
    source: Source, sampled: SampledRows, bounds: ResponseBounds, spec: Spec
) -> tuple[Source, SupportMap | None]:
    """The same for rows that are read block by block, by a sample of them.

    Bounds that the sample seems to have, and other rows do not keep, are none.

    Raises:
        DegenerateDataError: Rows are outside bounds that were given.
    """
    low, high = float(sampled.low[0]), float(sampled.high[0])
    outside = low < bounds.lower or high > bounds.upper
    if not bounds or (outside and bounds.likely):
        return source, None
    if outside:
        raise DegenerateDataError(
            f"y goes from {low:g} to {high:g}, beyond [{bounds.lower:g}, "
            f"{bounds.upper:g}], the bounds lower and upper; widen the bounds or "
            f"remove the rows."
        )
    support = choose_support(sampled.rows, bounds, spec)
    if support is None:
        return source, None
    return ChangedSource(source, partial(mapped_rows, support=support)), support


def in_units_of_y(fit: FamilyFit, rows: Rows, support: SupportMap | None) -> FamilyFit:
    """A fit on the line, whose held-out log densities are on average those of y.

    Rows are those on the line, or a sample of them.
    """
    if support is None or not isinstance(fit.selection, Selection):
        return fit
    y = support.inverse(rows.Y[:, 0])
    offset = np.average(support.log_abs_det_jacobian(y), weights=rows.weights)
    return replace(fit, selection=fit.selection.shifted(float(offset)))


def with_rounding(spec: Spec, rows: Rows, support: SupportMap | None) -> Spec:
    """A spec that knows what the rounding of y is on the line, by the median slope.

    Without a map it is seen in the rows.
    """
    if support is None:
        return spec
    y = support.inverse(rows.Y[:, 0])
    slope = float(np.exp(np.median(support.log_abs_det_jacobian(y))))
    return replace(spec, rounding=slope * rounding_width(y))


def component_beyond(y: Array, weights: Array, p: int) -> DefensiveComponent:
    """A wide component beside a bound that is only likely, the same at all x."""
    order = np.argsort(y)
    below = np.cumsum(weights[order]) / weights.sum()
    middle = float(y[order[int(np.searchsorted(below, 0.5))]])
    std = float(np.sqrt(np.average((y - middle) ** 2, weights=weights)))
    return DefensiveComponent.everywhere(p, middle, std)


def weight_beyond(
    component: DefensiveComponent | None, moments: Array, weights: Array
) -> float:
    """The mass of a component beside a likely bound.

    It is as wide as all of y, so where x tells much of y little of it is a large part
    of a variance. Its mass is one that adds a hundredth to the mean variance at most.

    Args:
        component: The component, the same at all x; None, of no mass, for none.
        moments: Held-out means and variances of rows, (n, 2).
        weights: Weights of these rows, (n,).
    """
    if component is None:
        return 0.0
    wide = component.density(np.zeros((1, component.coordinates.p)))
    mean, variance = moments.T
    added = wide.var() + np.square(wide.mean() - mean)
    share = np.average(variance, weights=weights) / np.average(added, weights=weights)
    if not np.isfinite(share):
        return SUPPORT.beyond
    least, most = SUPPORT.least_beyond, SUPPORT.beyond
    return float(np.clip(SUPPORT.most_added * share, least, most))


def bounded(
    density: Any,
    support: SupportMap | None,
    beyond: DefensiveComponent | None = None,
    X: Array | None = None,
    weight: float = SUPPORT.beyond,
) -> Any:
    """Densities of y behind a map; beside a component where it is only likely."""
    if support is None:
        return density
    assert isinstance(density, OneColumnDensity)
    inside = BoundedDensity(density, support)
    if beyond is None or X is None:
        return inside
    parts: list[OneColumnDensity] = [inside, beyond.density(X)]
    return MixtureDensity(parts, [1.0 - weight, weight])
