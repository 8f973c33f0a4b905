"""Which columns matter, what each does to p(y|x), and why a density is where it is.

Models have methods of these names: `model.importance(X, y)`, `model.effect(column, X)`
and `model.explain(x)`.
"""

from kexpfam.explanation.columns import ModelColumns
from kexpfam.explanation.effects import Effect
from kexpfam.explanation.extrapolation import ExtrapolationTest
from kexpfam.explanation.importance import Importance
from kexpfam.explanation.methods import Explained
from kexpfam.explanation.shapley import ShapleyValues

__all__ = [
    "Effect",
    "Explained",
    "ExtrapolationTest",
    "Importance",
    "ModelColumns",
    "ShapleyValues",
]
