"""Constants of growing trees that callers seldom change."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TreeSpec:
    """How trees are grown and when boosting stops."""

    # A leaf may hold so few rows in boosting; scikit-learn's default.
    boosting_min_leaf: int = 20
    # From so many rows on each fold sets some of its rows aside to stop early. Below,
    # all rounds are run, and folds agree on the number with least held-out error.
    rows_to_stop_early: int = 1000
    validation_share: float = 0.1
    patience: int = 20  # Rounds without gain before boosting stops
    rows_to_share: int = 100_000  # From here on threads share the work of a split


TREE_SPEC = TreeSpec()
