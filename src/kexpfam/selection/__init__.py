"""How hyperparameters are chosen: candidates, held-out objectives, searches, averages.

What users see is here; estimators also use `spec`, `validation` and `choosing`.
"""

from kexpfam.family import HeldOutProblem
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.discrete import find_atoms, looks_counted, rounding_width
from kexpfam.selection.objectives import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
)
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.results import Member, Members, Selection
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
    "Bounds",
    "Candidate",
    "CoarseSearch",
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
    "Selection",
    "Trial",
    "find_atoms",
    "looks_counted",
    "paper_grid",
    "refine",
    "resolve_search",
    "rounding_width",
]
