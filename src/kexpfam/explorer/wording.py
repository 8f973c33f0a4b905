"""Sentences of the page."""

from typing import Any

# Above this share of training rows found in the data, these are probably the same.
_SAME = 0.5


def described(model: Any) -> str:
    """What kind of model it is, in a few words."""
    members = getattr(model, "members_", None)
    kind = type(model).__name__
    if members is not None:
        return f"{kind}, an average of {len(members)} densities"
    return kind


def trained_note(share: float) -> str:
    """What to think of calibration on these rows.

    Args:
        share: How many of the training rows have the features of a row of these.
    """
    if share > _SAME:
        return (
            "The model was fitted to these rows, it seems, so this looks better than "
            "it would on new ones: judge it with a table that it has not seen, or with "
            "kexpfam evaluate --cv."
        )
    if share > 0.0:
        return (
            f"{share:.0%} of the training rows have the features of a row in this "
            f"file; if these are the same rows, this looks better than it is."
        )
    return "None of the rows that the model remembers from its fit is in this file."
