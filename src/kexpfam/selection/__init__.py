"""How hyperparameters are chosen: held-out objectives, searches, averages."""

from kexpfam.family import HeldOutProblem
from kexpfam.selection.averaging import (
    average_weights,
    prior_weights,
    representatives,
    tempered_weights,
    without_negligible,
)
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.choosing import best_of, choose
from kexpfam.selection.objectives import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
)
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.results import Member, Members, Selected, Selection
from kexpfam.selection.search import (
    CoarseSearch,
    GradientSearch,
    PaperGrid,
    SearchMethod,
    paper_grid,
    refine,
    resolve_search,
)
from kexpfam.selection.spec import (
    AVERAGED_LIKELIHOOD_GRID,
    PLAIN,
    PLAIN_GRID,
    REGRESSION_GRID,
    RESIDUAL_BASES,
    TUNING,
    CoordinateSpec,
    default_coordinates,
)
from kexpfam.selection.tracker import SearchResult, Trial
from kexpfam.selection.validation import Validation

__all__ = [
    "AVERAGED_LIKELIHOOD_GRID",
    "PLAIN",
    "PLAIN_GRID",
    "REGRESSION_GRID",
    "RESIDUAL_BASES",
    "TUNING",
    "Bounds",
    "Candidate",
    "CoarseSearch",
    "CoordinateSpec",
    "GradientSearch",
    "HeldOutLikelihood",
    "HeldOutObjective",
    "HeldOutProblem",
    "HeldOutScore",
    "Member",
    "Members",
    "PaperGrid",
    "Parameters",
    "Penalty",
    "SearchMethod",
    "SearchResult",
    "Selected",
    "Selection",
    "Trial",
    "Validation",
    "average_weights",
    "best_of",
    "choose",
    "default_coordinates",
    "paper_grid",
    "prior_weights",
    "refine",
    "representatives",
    "resolve_search",
    "tempered_weights",
    "without_negligible",
]
