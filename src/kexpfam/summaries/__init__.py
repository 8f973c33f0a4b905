"""Learned summaries of x, as features of the kernel."""

from kexpfam.summaries.learned import (
    PROCESS,
    LearnedSummary,
    LocationFits,
    SummaryModel,
)
from kexpfam.summaries.learners import process_location

__all__ = [
    "PROCESS",
    "LearnedSummary",
    "LocationFits",
    "SummaryModel",
    "process_location",
]
