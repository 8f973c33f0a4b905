"""The way of a fit to rows of which some are censored."""

from typing import Any

import numpy as np

from kexpfam.data import (
    Rows,
    Source,
    in_row_order,
    response_limits,
    taken_out,
    training_data,
)
from kexpfam.distributions import SupportMap
from kexpfam.estimators.fitting import FamilyFit
from kexpfam.family import Spec
from kexpfam.selection.bootstrap import refuse_bootstrap
from kexpfam.selection.censored import choose_censored, worth_behind
from kexpfam.selection.censored_rows import CensoredData
from kexpfam.selection.spec import SUPPORT
from kexpfam.selection.supports import (
    ResponseBounds,
    given_bounds,
    require_within,
    support_maps,
)
from kexpfam.tables import response_name


def censored_columns(
    X: Any, y: Any, sample_weight: Any, censoring: Any
) -> tuple[Any, Any, Any, Any]:
    """What a user passes to `fit`, with columns of a frame X in place of their names.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [0.0], "days": [9.0], "alive": [True]})
        >>> X, y, _, censoring = censored_columns(frame, "days", None, "alive")
        >>> list(X), y.tolist(), censoring.tolist()
        (['x'], [9.0], [True])
    """
    if isinstance(censoring, str):
        X, censoring, _ = taken_out(X, censoring, None)
    X, y, sample_weight = taken_out(X, y, sample_weight)
    return X, y, sample_weight, censoring


def censored_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, censoring: Any
) -> tuple[CensoredData, Rows] | None:
    """What a user passes to `fit`, checked; None if no row is censored."""
    lower, upper = response_limits(y, censoring)
    if np.array_equal(lower, upper):
        return None
    # Rows come in as any others, with ends that are numbers and what they stand for.
    known = np.where(np.isfinite(lower), lower, upper)
    hidden = np.isinf(lower), np.isinf(upper)
    ends = np.where(hidden[0], known, lower), np.where(hidden[1], known, upper)
    coded = np.column_stack([*ends, *hidden]).astype(float)
    rows = training_data(estimator, X, coded, sample_weight)
    if (name := response_name(y)) is not None:
        estimator._response_name = name
    if isinstance(rows, Source):
        raise ValueError(
            "censoring is for rows in memory, and X is read block by block; pass an "
            "array or a frame."
        )
    rows = in_row_order(rows)
    kept = rows.weights > 0
    Y = rows.Y[kept]
    data = CensoredData(
        rows.X[kept],
        np.where(Y[:, 2] > 0, -np.inf, Y[:, 0]),
        np.where(Y[:, 3] > 0, np.inf, Y[:, 1]),
        rows.weights[kept],
    )
    return data, rows


def censored_support(
    data: CensoredData, lower: Any, upper: Any, spec: Spec, *, notice: bool
) -> tuple[SupportMap | None, ResponseBounds]:
    """The map that takes bounds away, None if there is none, and the bounds.

    Bounds are those given. One at 0 is likely where all ends are positive, and the
    least is nearer than they differ: of durations few are near 0, but none is below.
    """
    bounds = given_bounds(lower, upper)
    if bounds is None:
        bounds, ends = ResponseBounds(), data.ends
        known = bool(np.isfinite(data.lower).all())
        if notice and known and 0.0 < ends.min() < ends.std():
            bounds = ResponseBounds(0.0, likely=True)
    if not bounds:
        return None, bounds
    for end, other in ((data.lower, data.upper), (data.upper, data.lower)):
        require_within(np.where(np.isfinite(end), end, other), bounds)
    maps = support_maps(data.ends, bounds)
    worth = [worth_behind(data, one, spec) for one in maps] if len(maps) > 1 else [0.0]
    best = int(np.argmax(worth))
    if bounds.likely and worth[best] < worth_behind(data, None, spec) - SUPPORT.worse:
        return None, ResponseBounds()
    return maps[best], bounds


def fit_censored(
    data: CensoredData, spec: Spec, rng: np.random.Generator, support: SupportMap | None
) -> FamilyFit:
    """A fit by likelihood, behind a map if there is one."""
    refuse_bootstrap(spec.bootstrap, "censored rows")
    line = data if support is None else data.behind(support)
    family, selection = choose_censored(line, spec, rng)
    if selection is not None and support is not None:
        selection = selection.shifted(data.log_jacobian(support))
    weight = float(data.weights.sum())
    # Not complete: no rows can be added to it.
    return FamilyFit(
        family, selection, weight=weight, complete=False, method="likelihood"
    )
