"""Distribution objects: n densities at once, in the user's units."""

from kexpfam.distributions.bridged import (
    BridgedDensity,
    BridgedRows,
    bridge_sample,
)
from kexpfam.distributions.interface import Coordinates, Density, UnnormalizedDensity
from kexpfam.distributions.multivariate import MultivariateDensity
from kexpfam.distributions.univariate import BLOCK_ROWS, UnivariateDensity

__all__ = [
    "BLOCK_ROWS",
    "BridgedDensity",
    "BridgedRows",
    "Coordinates",
    "Density",
    "MultivariateDensity",
    "UnivariateDensity",
    "UnnormalizedDensity",
    "bridge_sample",
]
