"""Other estimators of p(y|x) under the same interface, to compare with."""

from kexpfam.baselines.adapters import (
    GaussianProcessDensity,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.baselines.kernel_density import ConditionalKDE
from kexpfam.baselines.least_squares import LSCDE

__all__ = [
    "LSCDE",
    "ConditionalKDE",
    "GaussianProcessDensity",
    "NGBoostDensity",
    "QuantileForestDensity",
]
