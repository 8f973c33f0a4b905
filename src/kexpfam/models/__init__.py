"""The estimators."""

from kexpfam.models.conditional import KCEF
from kexpfam.models.density import KEF

__all__ = ["KCEF", "KEF"]
