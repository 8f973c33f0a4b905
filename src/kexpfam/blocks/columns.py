"""Which columns of a table are X, y and weights."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Columns:
    """Names of columns.

    Attributes:
        features: Columns of X.
        responses: Columns of y; empty if y is not in the table.
        weight: Column of weights, or None.
    """

    features: tuple[Any, ...]
    responses: tuple[Any, ...]
    weight: Any

    @property
    def all(self) -> tuple[Any, ...]:
        """All of them, each once."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((*self.features, *self.responses, *weight)))

    def inside(self, argument: str, column: int) -> str:
        """What a message says about a column of "X", "y" or "sample_weight"."""
        if argument == "sample_weight":
            return f", column {self.weight!r}"
        names = self.features if argument == "X" else self.responses
        return f", column {names[column]!r}"


def choose_columns(
    present: Sequence[Any],
    numeric: Collection[Any],
    *,
    y: Any,
    sample_weight: Any,
    features: Iterable[Any] | None,
) -> Columns:
    """The columns that are meant.

    Args:
        present: All names, in order.
        numeric: Names of columns of numbers.
        y: A name, or several.
        sample_weight: A name, or None.
        features: Names; None for all columns of numbers that are left.

    Raises:
        ValueError: A name does not exist, is that of a column without numbers, or is
            used twice; or no feature is left.

    Example:
        >>> names = ["a", "b", "text"]
        >>> choose_columns(
        ...     names, {"a", "b"}, y="b", sample_weight=None, features=None
        ... ).features
        ('a',)
    """
    responses = _names("y", y)
    weights = () if sample_weight is None else (sample_weight,)
    taken = {*responses, *weights}
    if features is None:
        chosen = tuple(c for c in present if c in numeric and c not in taken)
    else:
        chosen = _names("features", features)
    if not chosen:
        raise ValueError("X must have at least one numeric column besides y.")
    for argument, names in (
        ("y", responses),
        ("sample_weight", weights),
        ("features", chosen),
    ):
        for name in names:
            _check(argument, name, present, numeric)
    everything = (*responses, *weights, *chosen)
    for name in everything:
        if everything.count(name) > 1:
            raise ValueError(
                f"Column {name!r} can be one of features, y and sample_weight only, "
                f"and only once."
            )
    return Columns(chosen, responses, sample_weight)


def _names(argument: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or (
        isinstance(value, Hashable) and not isinstance(value, tuple)
    ):
        return (value,)
    try:
        return tuple(value)
    except TypeError as error:
        raise ValueError(
            f"{argument} must be the name of a column, or several, got {value!r:.80}."
        ) from error


def _check(
    argument: str, name: Any, present: Sequence[Any], numeric: Collection[Any]
) -> None:
    if not isinstance(name, Hashable) or name not in present:
        known = ", ".join(repr(column) for column in present)
        raise ValueError(
            f"{argument} must name columns of the table, got {name!r:.80}; there are "
            f"{known:.400}."
        )
    if name not in numeric:
        raise ValueError(
            f"{argument} must name columns of numbers, but {name!r} holds something "
            f"else."
        )
