"""Regressions with held-out predictions: Gaussian processes, linear, and log scales."""

from kexpfam.regression.censored import fit_censored_linear, normal_log_masses
from kexpfam.regression.gaussian_process import (
    GaussianProcess,
    GaussianProcessFit,
    fit_gaussian_process,
    fit_heteroscedastic,
    process_given,
)
from kexpfam.regression.inducing_process import InducingProcess, InducingSpec
from kexpfam.regression.linear import LinearLocationScale, fit_linear
from kexpfam.regression.log_scale import LogScale, LogScaleSpec, fit_log_scale
from kexpfam.regression.logistic import (
    LogisticRegression,
    fit_logistic,
    power_features,
)
from kexpfam.regression.mixture import (
    MIXTURE_SPEC,
    MixtureSpec,
    MixtureSums,
    RegressionMixture,
    fit_regression_mixture,
    mixture_sums,
    refit_regression_mixture,
)
from kexpfam.regression.offsets import offsets_of
from kexpfam.regression.process import GaussianProcessSpec, Hyperparameters, Process
from kexpfam.regression.scaling import Scaling, scaling_of

__all__ = [
    "MIXTURE_SPEC",
    "GaussianProcess",
    "GaussianProcessFit",
    "GaussianProcessSpec",
    "Hyperparameters",
    "InducingProcess",
    "InducingSpec",
    "LinearLocationScale",
    "LogScale",
    "LogScaleSpec",
    "LogisticRegression",
    "MixtureSpec",
    "MixtureSums",
    "Process",
    "RegressionMixture",
    "Scaling",
    "fit_censored_linear",
    "fit_gaussian_process",
    "fit_heteroscedastic",
    "fit_linear",
    "fit_log_scale",
    "fit_logistic",
    "fit_regression_mixture",
    "mixture_sums",
    "normal_log_masses",
    "offsets_of",
    "power_features",
    "process_given",
    "refit_regression_mixture",
    "scaling_of",
]
