"""Regressions with held-out predictions: Gaussian processes, linear, and log scales."""

from kexpfam.regression.gaussian_process import (
    GaussianProcess,
    GaussianProcessFit,
    fit_gaussian_process,
    fit_heteroscedastic,
)
from kexpfam.regression.inducing_process import InducingProcess
from kexpfam.regression.linear import LinearLocationScale, fit_linear
from kexpfam.regression.log_scale import LogScale, LogScaleFeatures, fit_log_scale
from kexpfam.regression.process import Hyperparameters, LogPosterior, Process
from kexpfam.regression.scaling import Scaling

__all__ = [
    "GaussianProcess",
    "GaussianProcessFit",
    "Hyperparameters",
    "InducingProcess",
    "LinearLocationScale",
    "LogPosterior",
    "LogScale",
    "LogScaleFeatures",
    "Process",
    "Scaling",
    "fit_gaussian_process",
    "fit_heteroscedastic",
    "fit_linear",
    "fit_log_scale",
]
