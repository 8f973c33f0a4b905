"""Score matching: the objective, the exact fit, and the fitted function."""

from kexpfam.score_matching.exact import ExactFit, fit_exact
from kexpfam.score_matching.expansion import KernelExpansion
from kexpfam.score_matching.objective import ScoreSample, score_matching_loss
from kexpfam.score_matching.tilted import TiltedDensity

__all__ = [
    "ExactFit",
    "KernelExpansion",
    "ScoreSample",
    "TiltedDensity",
    "fit_exact",
    "score_matching_loss",
]
