"""What a page may ask for, read with care: it comes from outside."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kexpfam.explorer.subject import ExplorerError

# Pictures narrower or wider than this are not asked for by any screen.
_NARROWEST, _WIDEST = 160.0, 4000.0


@dataclass(frozen=True)
class Question:
    """The fields of one request.

    Attributes:
        fields: What was sent.

    Example:
        >>> Question({"level": 0.5}).number("level", 0.9, 0.0, 1.0)
        0.5
        >>> Question({}).number("level", 0.9, 0.0, 1.0)
        0.9
    """

    fields: Mapping[str, Any]

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A finite number between two others.

        Raises:
            ExplorerError: It is something else.
        """
        value = self.fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ExplorerError(f"{name} must be a number, got {value!r:.60}.")
        if not math.isfinite(value) or not low <= value <= high:
            raise ExplorerError(
                f"{name} must be between {low:g} and {high:g}, got {value:g}."
            )
        return float(value)

    def flag(self, name: str) -> bool:
        """Whether something is wanted; no, if nothing was said."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise ExplorerError(f"{name} must be true or false, got {value!r:.60}.")
        return value

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of some texts, the first if nothing was said."""
        value = self.fields.get(name, options[0])
        if value not in options:
            raise ExplorerError(f"{name} must be one of {list(options)}.")
        return str(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Values by name; none if nothing was said."""
        value = self.fields.get(name, {})
        if not isinstance(value, dict):
            raise ExplorerError(f"{name} must be values by name, got {value!r:.60}.")
        return value

    def size(self, height: float) -> tuple[float, float]:
        """Width and height of a picture."""
        width = self.number("width", 640.0, _NARROWEST, _WIDEST)
        return width, self.number("height", height, 80.0, _WIDEST)
