"""Score matching: the objective, the exact fit, and the fitted function."""

from kexpfam.score_matching.centers import CENTER_METHODS, choose_centers
from kexpfam.score_matching.exact import fit_exact
from kexpfam.score_matching.expansion import (
    KernelExpansion,
    ScoreSample,
    score_matching_loss,
)
from kexpfam.score_matching.iterative import (
    IterativeFit,
    RowReduction,
    RowsInMemory,
    fit_iterative,
)
from kexpfam.score_matching.low_rank import (
    Basis,
    Statistics,
    Summation,
    fit_low_rank,
    statistics,
)
from kexpfam.score_matching.tilted import TiltedDensity, TiltedFormula

__all__ = [
    "CENTER_METHODS",
    "Basis",
    "IterativeFit",
    "KernelExpansion",
    "RowReduction",
    "RowsInMemory",
    "ScoreSample",
    "Statistics",
    "Summation",
    "TiltedDensity",
    "TiltedFormula",
    "choose_centers",
    "fit_exact",
    "fit_iterative",
    "fit_low_rank",
    "score_matching_loss",
    "statistics",
]
