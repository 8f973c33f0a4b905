"""Other estimators of p(y|x) and p(y) under the same interface, to compare with."""

from kexpfam.baselines.adapters import (
    GaussianProcessDensity,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.baselines.kernel_density import ConditionalKDE
from kexpfam.baselines.least_squares import LSCDE
from kexpfam.baselines.mean_embedding import ConditionalMeanEmbedding
from kexpfam.baselines.quantile_regression import KernelQuantileRegression
from kexpfam.baselines.rnade import RNADE, ConditionalRNADE

__all__ = [
    "LSCDE",
    "RNADE",
    "ConditionalKDE",
    "ConditionalMeanEmbedding",
    "ConditionalRNADE",
    "GaussianProcessDensity",
    "KernelQuantileRegression",
    "NGBoostDensity",
    "QuantileForestDensity",
]
