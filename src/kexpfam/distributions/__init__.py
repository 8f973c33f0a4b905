"""Distribution objects: n densities at once, in the user's units."""

from kexpfam.distributions.interface import Coordinates, Density, UnnormalizedDensity
from kexpfam.distributions.multivariate import MultivariateDensity
from kexpfam.distributions.univariate import UnivariateDensity

__all__ = [
    "Coordinates",
    "Density",
    "MultivariateDensity",
    "UnivariateDensity",
    "UnnormalizedDensity",
]
