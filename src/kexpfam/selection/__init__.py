"""How hyperparameters are chosen: held-out objectives, searches, averages."""

from kexpfam._progress import ProgressBar
from kexpfam.selection.averaging import (
    prior_weights,
    representatives,
    tempered_weights,
    without_negligible,
)
from kexpfam.selection.candidates import (
    BASES_ALONE,
    Candidate,
    Line,
    bases_alone,
    tilted,
)
from kexpfam.selection.criteria import HeldOutLikelihood, HeldOutScore
from kexpfam.selection.held_out import FoldedRows, Normalizer, judged_log_densities
from kexpfam.selection.objectives import HeldOutObjective
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.problem import HeldOutProblem
from kexpfam.selection.search import (
    CoarseSearch,
    GradientSearch,
    PaperGrid,
    SearchMethod,
    paper_grid,
    refine,
    resolve_search,
)
from kexpfam.selection.tracker import SearchResult, Trial

__all__ = [
    "BASES_ALONE",
    "Bounds",
    "Candidate",
    "CoarseSearch",
    "FoldedRows",
    "GradientSearch",
    "HeldOutLikelihood",
    "HeldOutObjective",
    "HeldOutProblem",
    "HeldOutScore",
    "Line",
    "Normalizer",
    "PaperGrid",
    "Parameters",
    "Penalty",
    "ProgressBar",
    "SearchMethod",
    "SearchResult",
    "Trial",
    "bases_alone",
    "judged_log_densities",
    "paper_grid",
    "prior_weights",
    "refine",
    "representatives",
    "resolve_search",
    "tempered_weights",
    "tilted",
    "without_negligible",
]
