"""Base densities q0(y) and q0(y|x): log density, gradient, sampling, support."""

from kexpfam.base_densities.bounded import (
    TruncatedBase,
    UniformBase,
    boundary_weights,
    require_inside,
)
from kexpfam.base_densities.conditional import (
    GaussianProcessBase,
    LinearBase,
    LinearModel,
    LocationScaleBase,
    RegressorModel,
    WithinComponentsBase,
    fit_processes,
    standard_residuals,
)
from kexpfam.base_densities.fixed import (
    GaussianBase,
    GeneralizedGaussianBase,
    LocationScaleDensity,
    StudentBase,
)
from kexpfam.base_densities.interface import (
    Base,
    BaseDensity,
    ConditionalBase,
    CrossFit,
    LocationScaleModel,
    MonotoneTransform,
    Summary,
)
from kexpfam.base_densities.marginal import MarginalBase
from kexpfam.base_densities.names import resolve_base
from kexpfam.base_densities.tails import (
    Arcsinh,
    Composed,
    DoubleLogTails,
    fit_arcsinh,
    pulled_in,
)
from kexpfam.base_densities.transformed import TransformedBase
from kexpfam.base_densities.transforms import (
    Gaussianize,
    GaussianizeSpec,
    Rescaled,
    YeoJohnson,
    fit_gaussianize,
    fit_yeo_johnson,
)
from kexpfam.regression import GaussianProcessFit

__all__ = [
    "Arcsinh",
    "Base",
    "BaseDensity",
    "Composed",
    "ConditionalBase",
    "CrossFit",
    "DoubleLogTails",
    "GaussianBase",
    "GaussianProcessBase",
    "GaussianProcessFit",
    "Gaussianize",
    "GaussianizeSpec",
    "GeneralizedGaussianBase",
    "LinearBase",
    "LinearModel",
    "LocationScaleBase",
    "LocationScaleDensity",
    "LocationScaleModel",
    "MarginalBase",
    "MonotoneTransform",
    "RegressorModel",
    "Rescaled",
    "StudentBase",
    "Summary",
    "TransformedBase",
    "TruncatedBase",
    "UniformBase",
    "WithinComponentsBase",
    "YeoJohnson",
    "boundary_weights",
    "fit_arcsinh",
    "fit_gaussianize",
    "fit_processes",
    "fit_yeo_johnson",
    "pulled_in",
    "require_inside",
    "resolve_base",
    "standard_residuals",
]
