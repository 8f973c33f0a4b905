"""Base densities q0(y) and q0(y|x): log density, gradient, sampling, support."""

from kexpfam.base_densities.bounded import TruncatedBase, UniformBase, boundary_weights
from kexpfam.base_densities.fixed import (
    GaussianBase,
    GeneralizedGaussianBase,
    LocationScaleDensity,
    StudentBase,
)
from kexpfam.base_densities.interface import Base, BaseDensity, TrainingResponses
from kexpfam.base_densities.location_scale import (
    ConditionalBase,
    CrossFit,
    Frame,
    LocationScaleBase,
    RegressionFrame,
)
from kexpfam.base_densities.marginal import MarginalBase
from kexpfam.base_densities.names import resolve_base
from kexpfam.base_densities.regressed import (
    GaussianProcessBase,
    GaussianProcessFrame,
    LinearBase,
    LinearFrame,
    fit_processes,
    heteroscedastic_cross_fit,
    homoscedastic_cross_fit,
)
from kexpfam.base_densities.transformed import TransformedBase
from kexpfam.base_densities.transforms import (
    Gaussianize,
    MonotoneTransform,
    Rescaled,
    YeoJohnson,
    fit_gaussianize,
    fit_yeo_johnson,
)
from kexpfam.regression import GaussianProcessFit

__all__ = [
    "Base",
    "BaseDensity",
    "ConditionalBase",
    "CrossFit",
    "Frame",
    "GaussianBase",
    "GaussianProcessBase",
    "GaussianProcessFit",
    "GaussianProcessFrame",
    "Gaussianize",
    "GeneralizedGaussianBase",
    "LinearBase",
    "LinearFrame",
    "LocationScaleBase",
    "LocationScaleDensity",
    "MarginalBase",
    "MonotoneTransform",
    "RegressionFrame",
    "Rescaled",
    "StudentBase",
    "TrainingResponses",
    "TransformedBase",
    "TruncatedBase",
    "UniformBase",
    "YeoJohnson",
    "boundary_weights",
    "fit_gaussianize",
    "fit_processes",
    "fit_yeo_johnson",
    "heteroscedastic_cross_fit",
    "homoscedastic_cross_fit",
    "resolve_base",
]
