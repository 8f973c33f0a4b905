"""Noise around a fitted course: q0(y|x) = noise((y − μ(x))/σ(x))/σ(x).

The course is a straight line, whose log width is a straight line, too, or a Gaussian
process. Its leave-one-out predictions come in closed form, so the training residuals
are honest at the price of a single fit. Columns of y are independent regressions. The
functions below take fitted processes, so that bases with constant and with varying
noise can share the first fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities.fixed import GaussianBase
from kexpfam.base_densities.interface import BaseDensity
from kexpfam.base_densities.location_scale import (
    ConditionalBase,
    CrossFit,
    Frame,
    require_unbounded,
    standard_residuals,
)
from kexpfam.persistence import saved_fit, saved_value
from kexpfam.regression import (
    GaussianProcessFit,
    LinearLocationScale,
    LogScale,
    Process,
    fit_gaussian_process,
    fit_heteroscedastic,
    fit_linear,
)

# Fewer rows leave folds with nothing to fit, and say nothing about noise and course
# separately.
FEWEST_ROWS = 4


@saved_value
@dataclass(frozen=True)
class LinearBase(ConditionalBase):
    """Noise around a linear mean, with a log scale that is linear as well.

    Attributes:
        noise: Density of the residual u, in units of the residuals' deviation.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = 3 * x[:, 0] + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> KCEF(base=LinearBase()).fit(x, y).predict([[0.5]]).round(1)
        array([1.5])
    """

    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))

    def __post_init__(self) -> None:
        require_unbounded(self.noise)

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        if len(Y) < FEWEST_ROWS:
            raise ValueError(
                f"LinearBase needs at least {FEWEST_ROWS} rows, got {len(Y)}; use an "
                f"unconditional base such as GaussianBase(scale=2.0)."
            )
        fits = [fit_linear(X, column, weights, rng) for column in Y.T]
        location = np.column_stack([fit.held_out_location for fit in fits])
        log_scale = np.column_stack([fit.held_out_log_scale for fit in fits])
        residuals = standard_residuals(Y, location, log_scale, weights)
        frame = LinearFrame(
            tuple(fit.model for fit in fits), residuals.center, residuals.unit
        )
        return CrossFit(frame, residuals.values, residuals.log_scale)


@saved_fit({"models": "d p", "center": "d", "unit": "d positive"})
@dataclass(frozen=True, eq=False)
class LinearFrame(Frame):
    """Linear location and log scale, one pair per column of y.

    Attributes:
        models: One per column, (d,).
        center: Mean of the residuals before they were centred, (d,).
        unit: Their deviation, (d,).
    """

    models: tuple[LinearLocationScale, ...]
    center: Array
    unit: Array

    def at(self, X: Array) -> tuple[Array, Array]:
        parts = [model.at(X) for model in self.models]
        location = np.column_stack([location for location, _ in parts])
        scale = np.exp(np.column_stack([log_scale for _, log_scale in parts]))
        return location + self.center * scale, self.unit * scale


@saved_value
@dataclass(frozen=True)
class GaussianProcessBase(ConditionalBase):
    """Noise around a Gaussian process with a lengthscale for each column of x.

    Attributes:
        noise: Density of the residual u, in units of the residuals' deviation.
        heteroscedastic: Let the width of the noise depend on x.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> KCEF(base=GaussianProcessBase()).fit(x, y).predict([[1.5]]).round(1)
        array([1.])
    """

    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))
    heteroscedastic: bool = False

    def __post_init__(self) -> None:
        require_unbounded(self.noise)

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        processes = fit_processes(X, Y, weights)
        if self.heteroscedastic:
            return heteroscedastic_cross_fit(processes, X, Y, weights, rng)
        return homoscedastic_cross_fit(processes, Y, weights)


@saved_fit(
    {"processes": "d p", "log_scales": "d p", "center": "d", "unit": "d positive"}
)
@dataclass(frozen=True, eq=False)
class GaussianProcessFrame(Frame):
    """Location and scale predicted by Gaussian processes, one per column of y.

    Attributes:
        processes: One per column, (d,).
        log_scales: Log scale of each column's noise, None where it is constant, (d,).
        center: Mean of the residuals before they were centred, (d,).
        unit: Their deviation, (d,).
    """

    processes: tuple[Process, ...]
    log_scales: tuple[LogScale | None, ...]
    center: Array
    unit: Array

    def at(self, X: Array) -> tuple[Array, Array]:
        columns = zip(self.processes, self.log_scales, strict=True)
        parts = [_predict(process, log_scale, X) for process, log_scale in columns]
        location = np.column_stack([mean for mean, _ in parts])
        deviation = np.column_stack([deviation for _, deviation in parts])
        return location + self.center * deviation, self.unit * deviation


def fit_processes(
    X: Array,
    Y: Array,
    weights: Array,
    *,
    start: Sequence[GaussianProcessFit] | None = None,
    max_iterations: int = 40,
) -> tuple[GaussianProcessFit, ...]:
    """A Gaussian process with constant noise for each column of Y.

    Args:
        X: Conditions, (n, p).
        Y: Responses, (n, d).
        weights: Row weights, (n,).
        start: Fits of similar data, one per column, where the search begins.
        max_iterations: Iterations of each search at most.

    Raises:
        ValueError: There are too few rows.
    """
    if len(Y) < FEWEST_ROWS:
        raise ValueError(
            f"A Gaussian process base needs at least {FEWEST_ROWS} rows, got {len(Y)}; "
            f"use an unconditional base such as GaussianBase(scale=2.0)."
        )
    return tuple(
        fit_gaussian_process(
            X,
            Y[:, i],
            weights=weights,
            start=None if start is None else start[i].process.hyperparameters,
            max_iterations=max_iterations,
        )
        for i in range(Y.shape[1])
    )


def homoscedastic_cross_fit(
    processes: Sequence[GaussianProcessFit], Y: Array, weights: Array
) -> CrossFit:
    """Residuals and frame of processes with constant noise.

    Args:
        processes: One per column of Y, fitted on these rows.
        Y: Responses, (n, d).
        weights: Row weights, (n,).
    """
    noise = np.array([fit.process.noise_variance for fit in processes])
    mean = np.column_stack([fit.held_out_mean for fit in processes])
    variance = np.column_stack([fit.held_out_variance for fit in processes]) + noise
    residuals = standard_residuals(Y, mean, 0.5 * np.log(variance), weights)
    frame = GaussianProcessFrame(
        tuple(fit.process for fit in processes),
        (None,) * len(processes),
        residuals.center,
        residuals.unit,
    )
    return CrossFit(frame, residuals.values, residuals.log_scale)


def heteroscedastic_cross_fit(
    processes: Sequence[GaussianProcessFit],
    X: Array,
    Y: Array,
    weights: Array,
    rng: np.random.Generator,
) -> CrossFit:
    """Residuals and frame of processes whose noise gets a width that depends on x.

    Args:
        processes: One per column of Y, fitted on these rows with constant noise.
        X: Conditions, (n, p).
        Y: Responses, (n, d).
        weights: Row weights, (n,).
        rng: Deals the folds of the log scales.
    """
    fits = [
        fit_heteroscedastic(first, X, Y[:, i], weights, rng)
        for i, first in enumerate(processes)
    ]
    noise = np.column_stack(
        [
            part.fit.process.noise_variance * np.exp(2.0 * part.held_out_log_scale)
            for part in fits
        ]
    )
    mean = np.column_stack([part.fit.held_out_mean for part in fits])
    variance = np.column_stack([part.fit.held_out_variance for part in fits]) + noise
    residuals = standard_residuals(Y, mean, 0.5 * np.log(variance), weights)
    frame = GaussianProcessFrame(
        tuple(part.fit.process for part in fits),
        tuple(part.log_scale for part in fits),
        residuals.center,
        residuals.unit,
    )
    return CrossFit(frame, residuals.values, residuals.log_scale)


def _predict(
    process: Process, log_scale: LogScale | None, X: Array
) -> tuple[Array, Array]:
    """Mean and deviation of a new response, (n,) each."""
    mean, variance = process.predict(X)
    noise = np.full(len(X), process.noise_variance)
    if log_scale is not None:
        noise *= np.exp(2.0 * log_scale.at(X, mean))
    return mean, np.sqrt(variance + noise)
