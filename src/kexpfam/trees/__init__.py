"""Forests and boosted trees: grown by scikit-learn, kept and evaluated as arrays."""

from kexpfam.trees.boosting import fit_boosting
from kexpfam.trees.forest import Forest
from kexpfam.trees.growing import fit_forest
from kexpfam.trees.spec import TreeSpec

__all__ = ["Forest", "ForestFit", "TreeSpec", "fit_boosting", "fit_forest"]
