"""A Gaussian process whose noise has a width that depends on x.

Three steps: a process with constant noise; a log scale of its leave-one-out residuals;
the process again with noise variances σ_n² exp(2 l_i). A row's held-out width uses the
log scale that other rows give it, not the one it took part in.
"""

from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array
from kexpfam.regression.gaussian_process import (
    GaussianProcessFit,
    fit_gaussian_process,
)
from kexpfam.regression.log_scale import LogScale, fit_log_scale

# The unit of the mean, as a feature of the log scale, in deviations of the response at
# least: a mean that hardly varies says nothing, and the second process has another.
_LEAST_MEAN_UNIT = 0.2


# The second search starts at the first one's result and has little left to do.
_REFIT_ITERATIONS = 10

# Noise deviations of different rows differ by at most e^(2·4): the covariance must
# remain one that can be factorised.
_LARGEST_LOG_SCALE = 4.0


@dataclass(frozen=True, eq=False)
class HeteroscedasticFit:
    """A Gaussian process with noise σ_n exp(l(x))."""

    fit: GaussianProcessFit  # The process and its leave-one-out predictions
    log_scale: LogScale  # l at any x
    held_out_log_scale: Array  # l of each row by models that have not seen it, (n,)


def fit_heteroscedastic(
    first: GaussianProcessFit,  # Fit of the same rows with constant noise
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,  # Deals the folds of the log scale
) -> HeteroscedasticFit:
    """Continue from a process with constant noise.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = x[:, 0] + 0.3 * np.exp(x[:, 0]) * rng.normal(size=200)
        >>> first = fit_gaussian_process(x, y)
        >>> fit = fit_heteroscedastic(first, x, y, np.ones(200), rng)
        >>> points = np.array([[-0.5], [0.5]])
        >>> np.diff(fit.log_scale.at(points, points[:, 0])).round(0)
        array([1.])
    """
    variance = first.held_out_variance + first.process.noise_variance
    residuals = (y - first.held_out_mean) / np.sqrt(variance)
    # The mean as a function of x, not the one held out: that moves against the row's
    # own response, and a scale that follows it would know the residual in advance.
    mean = first.process.mean(X)
    unit = _LEAST_MEAN_UNIT * float(first.process.y_scaling.scale[0])
    scale = fit_log_scale(X, mean, residuals, weights, rng, least_mean_unit=unit)
    middle = float(np.average(scale.values, weights=weights))
    low, high = middle - _LARGEST_LOG_SCALE, middle + _LARGEST_LOG_SCALE
    model = replace(
        scale.model,
        lower=max(scale.model.lower, low),
        upper=min(scale.model.upper, high),
    )
    second = fit_gaussian_process(
        X,
        y,
        weights=weights,
        log_scale=np.clip(scale.values, low, high),
        start=first.process.hyperparameters,
        max_iterations=_REFIT_ITERATIONS,
    )
    return HeteroscedasticFit(second, model, np.clip(scale.held_out, low, high))
