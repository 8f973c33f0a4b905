"""Calibration of an average: a map of PIT values, from few rows and from many.

From few rows a density that is fitted as if its location and scale were known is too
narrow: of n normal responses with their own mean and standard deviation, a new one is
not normal but has a t distribution with n − 1 degrees of freedom, √((n + 1)/(n − 1))
as wide. As a map of PIT values that is

    H(u) = T_{n−1}(Φ⁻¹(u) √((n − 1)/(n + 1))),

the same whatever the shape of the density. It is what an average starts from. Held-out
PIT values of the rows then move it: weights of the parts of a `UnitMap` maximise their
log density, shrunk to H as if that had been seen on some rows (`stacking`). That map is
kept if it gives rows that have not helped to fit it a log density that is higher in
total than that of H by a nat or more.
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.distributions import UnitMap, beta_log_densities
from kexpfam.selection.spec import CALIBRATION, CalibrationSpec
from kexpfam.selection.stacking import stacked_weights


def student_weights(n: float, parts: int) -> Array:
    """Weights of a `UnitMap` for an average that n rows were fitted to, (parts,).

    Example:
        >>> student_weights(12.0, 5).round(3)
        array([0.228, 0.182, 0.18 , 0.182, 0.228])
    """
    edges = special.ndtri(np.linspace(0.0, 1.0, parts + 1))
    df = max(n - 1.0, 1.0)
    below = special.stdtr(df, edges * np.sqrt(df / (df + 2.0)))
    return np.diff(below)


def pit_shares(masses: Array, row_weights: Array, bins: int = 20) -> Array:
    """Shares of the rows whose held-out PIT values are in each bin of [0, 1], (bins,).

    Example:
        >>> pit_shares(np.array([0.1, 0.2, 0.9, np.nan]), np.ones(4), 2).round(2)
        array([0.67, 0.33])
    """
    known = np.isfinite(masses)
    counts = np.histogram(masses[known], bins, (0.0, 1.0), weights=row_weights[known])
    total = counts[0].sum()
    return counts[0] / total if total > 0 else np.full(bins, 1.0 / bins)


def fit_calibration(
    masses: Array,
    row_weights: Array,
    folds: Sequence[slice],
    spec: CalibrationSpec = CALIBRATION,
) -> UnitMap | None:
    """The map of an average; None with many rows, if none is needed.

    Args:
        masses: Held-out PIT values, (n,).
        row_weights: Weights of the rows, (n,).
        folds: Rows that maps are fitted without, to see what they gain.
        spec: Its defaults.
    """
    # Weights that were divided by their sum do not make rows fewer.
    n, k = max(float(row_weights.sum()), float(len(masses))), spec.parts
    start = student_weights(n, k)
    log_b = beta_log_densities(np.clip(masses, spec.least, 1.0 - spec.least), k)
    known = np.isfinite(masses)
    omega = np.where(known, row_weights, 0.0)
    log_b[:, ~known] = 0.0

    def fitted(weights: Array) -> Array:
        return stacked_weights(log_b, weights, start, spec.pseudo_rows)

    gain = 0.0
    for fold in folds:
        rest = omega.copy()
        rest[fold] = 0.0
        own = np.exp(log_b[:, fold])
        gains = np.log(fitted(rest) @ own) - np.log(start @ own)
        gain += float(gains @ omega[fold])
    if gain > spec.enough_nats:
        return UnitMap(fitted(omega))
    return UnitMap(start) if n < spec.many_rows else None
