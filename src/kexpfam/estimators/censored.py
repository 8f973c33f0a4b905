"""The way of a fit to rows of which some are censored."""

from typing import Any

import numpy as np

from kexpfam.data import Rows, Source, response_limits, training_data
from kexpfam.estimators.fitting import FamilyFit
from kexpfam.family import Spec
from kexpfam.selection.censored import CensoredData, choose_censored


def fit_censored(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    censoring: Any,
    spec: Spec,
    rng: np.random.Generator,
) -> tuple[FamilyFit, Rows] | None:
    """A fit by likelihood, and its rows; None if no row is censored."""
    lower, upper = response_limits(y, censoring)
    if np.array_equal(lower, upper):
        return None
    # Rows come in as any others, with ends that are numbers and what they stand for.
    known = np.where(np.isfinite(lower), lower, upper)
    open_ends = np.isinf(lower), np.isinf(upper)
    ends = [
        np.where(o, known, e) for o, e in zip(open_ends, (lower, upper), strict=True)
    ]
    coded = np.column_stack([*ends, *open_ends]).astype(float)
    rows = training_data(estimator, X, coded, sample_weight, n_jobs=spec.n_jobs)
    if isinstance(rows, Source):
        raise ValueError(
            "censoring is for rows in memory, and X is read block by block; pass an "
            "array or a frame."
        )
    kept = rows.weights > 0
    Y = rows.Y[kept]
    data = CensoredData(
        rows.X[kept],
        np.where(Y[:, 2] > 0, -np.inf, Y[:, 0]),
        np.where(Y[:, 3] > 0, np.inf, Y[:, 1]),
        rows.weights[kept],
    )
    family, selection = choose_censored(data, spec, rng)
    fit = FamilyFit(
        family,
        selection,
        weight=float(data.weights.sum()),
        complete=False,  # no rows can be added to it
        method="likelihood",
    )
    return fit, rows
