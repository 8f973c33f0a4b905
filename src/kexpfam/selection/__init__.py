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
from kexpfam.selection.held_out import Normalizer, Rows, judged_log_densities
from kexpfam.selection.methods import (
    CoarseSearch,
    GradientSearch,
    PaperGrid,
    SearchMethod,
    resolve_search,
)
from kexpfam.selection.objectives import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
)
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.problem import HeldOutProblem
from kexpfam.selection.result import SearchResult, Trial
from kexpfam.selection.search import paper_grid, refine

__all__ = [
    "BASES_ALONE",
    "Bounds",
    "Candidate",
    "CoarseSearch",
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
    "Rows",
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
