"""Base densities q0(y) and q0(y|x): log density, gradient, sampling, support."""

from kexpfam.base_densities.bounded import (
    TruncatedBase,
    UniformBase,
    boundary_weights,
)
from kexpfam.base_densities.fixed import (
    GaussianBase,
    GeneralizedGaussianBase,
    LocationScaleDensity,
    StudentBase,
)
from kexpfam.base_densities.interface import BaseDensity, TrainingResponses
from kexpfam.base_densities.location_scale import (
    ConditionalBase,
    CrossFit,
    Frame,
    LocationScaleBase,
    RegressionFrame,
)
from kexpfam.base_densities.marginal import MarginalBase

__all__ = [
    "BaseDensity",
    "ConditionalBase",
    "CrossFit",
    "Frame",
    "GaussianBase",
    "GeneralizedGaussianBase",
    "LocationScaleBase",
    "LocationScaleDensity",
    "MarginalBase",
    "RegressionFrame",
    "StudentBase",
    "TrainingResponses",
    "TruncatedBase",
    "UniformBase",
    "boundary_weights",
]
