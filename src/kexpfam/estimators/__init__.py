"""The estimators."""

from kexpfam.models.averaged import AutoKCEF
from kexpfam.models.conditional import KCEF
from kexpfam.models.density import KEF

__all__ = ["KCEF", "KEF", "AutoKCEF"]
