"""Sentences of the page."""

from typing import Any

# Fewer training rows near x than this, and it is said.
FEW_ROWS = 3.0

# What says so in a legend, and along a curve.
FEW_NEAR = "few rows near"

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


def near_note(count: float | None) -> str:
    """That a density is mostly extrapolation; nothing where it is not.

    Args:
        count: About how many training rows are near; None if nobody knows.

    Example:
        >>> near_note(1.2)
        'about 1 training row is near this x: the density is mostly extrapolation'
        >>> near_note(20.0)
        ''
    """
    if count is None or count >= FEW_ROWS:
        return ""
    whole = round(count)
    rows = "1 training row is" if whole == 1 else f"{whole} training rows are"
    return f"about {rows} near this x: the density is mostly extrapolation"


def outside_note(draws: float, data: float) -> str:
    """How much of what was drawn is not to be seen; nothing if all is.

    Args:
        draws: Share of draws outside the axes.
        data: Share of the data outside the axes.

    Example:
        >>> outside_note(0.05, 0.0)
        'Outside the ranges shown: 5.0 % of the draws.'
    """
    parts = [
        f"{100 * share:.1f} % of the {name}"
        for share, name in ((draws, "draws"), (data, "data"))
        if share > 0.0
    ]
    return f"Outside the ranges shown: {', '.join(parts)}." if parts else ""
