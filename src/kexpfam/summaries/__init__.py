"""Learned summaries of x, as features of the kernel."""

from kexpfam.summaries.category_means import (
    FOLDS,
    differ,
    fold_of_rows,
    held_out_codes,
    log_deviations,
    shrunk_means,
)
from kexpfam.summaries.learned import (
    PROCESS,
    LearnedSummary,
    LocationFits,
    SummaryModel,
)
from kexpfam.summaries.learners import process_location
from kexpfam.summaries.views import ColumnKinds

__all__ = [
    "FOLDS",
    "PROCESS",
    "ColumnKinds",
    "LearnedSummary",
    "LocationFits",
    "SummaryModel",
    "differ",
    "fold_of_rows",
    "held_out_codes",
    "log_deviations",
    "process_location",
    "shrunk_means",
]
