"""The estimators."""

from kexpfam.estimators.auto import AutoKCEF
from kexpfam.estimators.kcef import KCEF
from kexpfam.estimators.kef import KEF

__all__ = ["KCEF", "KEF", "AutoKCEF"]
