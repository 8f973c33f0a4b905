"""Other estimators of p(y|x) and p(y) under the same interface, to compare with."""

from kexpfam.baselines.adapters import (
    GaussianProcessDensity,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.baselines.kernel_density import ConditionalKDE
from kexpfam.baselines.least_squares import LSCDE
from kexpfam.baselines.rnade import RNADE, ConditionalRNADE

__all__ = [
    "LSCDE",
    "RNADE",
    "ConditionalKDE",
    "ConditionalRNADE",
    "GaussianProcessDensity",
    "NGBoostDensity",
    "QuantileForestDensity",
]
