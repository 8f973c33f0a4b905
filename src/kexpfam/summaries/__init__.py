"""Learned summaries of x, as features of the kernel."""

from kexpfam.summaries.learned import (
    PROCESS,
    LearnedSummary,
    LocationFits,
    SummaryModel,
)
from kexpfam.summaries.learners import FOLDS, fold_of_rows, process_location

__all__ = [
    "FOLDS",
    "PROCESS",
    "LearnedSummary",
    "LocationFits",
    "SummaryModel",
    "fold_of_rows",
    "process_location",
]
