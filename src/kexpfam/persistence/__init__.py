"""Model files: one container, and the classes whose objects it may hold.

Classes register themselves where they are defined, so that this room knows none of
them: `saved_value`, `saved_fit` and `saved_estimator` say how.
"""

from kexpfam.persistence.container import replacing
from kexpfam.persistence.estimators import (
    load_estimator,
    save_estimator,
    save_factors,
    saved_estimator,
    saved_joint,
)
from kexpfam.persistence.registry import columns_of_x, made, saved_fit, saved_value

__all__ = [
    "columns_of_x",
    "load_estimator",
    "made",
    "replacing",
    "save_estimator",
    "save_factors",
    "saved_estimator",
    "saved_fit",
    "saved_joint",
    "saved_value",
]
