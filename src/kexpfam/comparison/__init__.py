"""Samples beside samples: do they differ, and which is closer to a reference?

`relative_mmd_test` compares two samples with a third, `mmd_test` and
`classifier_score` tell two samples apart. A model takes part through what it draws, so
that models of any kind can be compared, with each other and with the data.
"""

from kexpfam.comparison.classifier import ClassifierResult, classifier_score
from kexpfam.comparison.permutation import MMDTestResult, mmd_test
from kexpfam.comparison.relative import RelativeTestResult, relative_mmd_test

__all__ = [
    "ClassifierResult",
    "MMDTestResult",
    "RelativeTestResult",
    "classifier_score",
    "mmd_test",
    "relative_mmd_test",
]
