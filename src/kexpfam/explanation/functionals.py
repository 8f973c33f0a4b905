"""Numbers of a distribution that can be explained: its mean, a quantile, P(y > t)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import check_share

# Levels of "quantiles", and probability of the interval that "width" is of.
LEVELS = (0.05, 0.5, 0.95)
WIDTH_OF = 0.9

# Limits of what may be any number
ANY = (-np.inf, np.inf)

_PROBABILITY = re.compile(r"P\(y\s*(>|<=)\s*([^)]+)\)")


@dataclass(frozen=True, eq=False)
class Functional:
    """Numbers of n densities, (n,) -> (n, k), and their names.

    Attributes:
        names: Of the k numbers.
        values: The numbers of n densities, (n, k).
        limits: Between which they always are; None for those of y.
    """

    names: tuple[str, ...]
    values: Callable[[Any], Array]
    limits: tuple[float, float] | None = None

    @classmethod
    def of(cls, wanted: Any) -> "Functional":
        """What a word, a level, P(y>t) or a function of densities stands for.

        Raises:
            ValueError: It stands for nothing.

        Example:
            >>> Functional.of("P(y > 200)").names, Functional.of(0.9).names
            (('P(y>200)',), ('q0.9',))
        """
        if isinstance(wanted, str):
            return cls._of_word(wanted)
        if callable(wanted):
            name = getattr(wanted, "__name__", "function")
            return cls((name,), lambda p: _checked(name, wanted(p), len(p)), ANY)
        level = check_share("of, as the level of a quantile,", wanted)
        return cls((f"q{level:.15g}",), lambda p: p.quantile([level]))

    @classmethod
    def _of_word(cls, word: str) -> "Functional":
        known: dict[str, Callable[[Any], Array]] = {
            "mean": lambda p: _moments("mean", p.mean()),
            "median": lambda p: p.quantile([0.5]),
            "std": lambda p: _moments("std", p.std()),
            "width": lambda p: np.diff(p.interval(WIDTH_OF), axis=1),
        }
        if word in known:
            limits = None if word in ("mean", "median") else (0.0, np.inf)
            return cls((word,), known[word], limits)
        if word == "quantiles":
            names = tuple(f"q{level:g}" for level in LEVELS)
            return cls(names, lambda p: p.quantile(LEVELS))
        if found := _PROBABILITY.fullmatch(word.strip()):
            return cls._of_probability(*found.groups())
        raise ValueError(
            f"of must be one of {[*known, 'quantiles']}, 'P(y>2.5)', 'P(y<=2.5)', the "
            f"level of a quantile such as 0.9, or a function of densities, got "
            f"{word!r}."
        )

    @classmethod
    def _of_probability(cls, sign: str, number: str) -> "Functional":
        try:
            limit = float(number)
        except ValueError:
            limit = np.nan
        if np.isnan(limit):
            raise ValueError(
                f"of='P(y{sign}{number})' needs a number, as 'P(y{sign}2.5)'."
            )
        name, at = f"P(y{sign}{limit:.15g})", np.array([[limit]])
        if sign == ">":
            return cls((name,), lambda p: p.sf(at), (0.0, 1.0))
        return cls((name,), lambda p: p.cdf(at), (0.0, 1.0))


def _moments(name: str, values: Array) -> Array:
    """Means or standard deviations as a column; of heavy tails there are none."""
    unknown = int(np.sum(~np.isfinite(values)))
    if unknown:
        instead = "'median'" if name == "mean" else "'width'"
        raise ValueError(
            f"of={name!r} is not a number at {unknown} of {len(values)} conditions, "
            f"where tails of y are too heavy for it; use of={instead}."
        )
    return values[:, None]


def _checked(name: str, values: Any, n: int) -> Array:
    found = np.asarray(values, dtype=float)
    if found.shape != (n,):
        raise ValueError(
            f"of={name} must give one number for each of {n} densities, got shape "
            f"{found.shape}."
        )
    return found[:, None]
