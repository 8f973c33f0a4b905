"""Laws: what an average has learned of p(y|x), whatever kind of variable y is.

An `AutoKCEF` has one law. That is an `Average` of densities; probabilities of atoms
beside the average of the rest; a mass function of counts; or, of several columns of y,
one for each. They are made by functions of rows and an `AverageSpec`; the estimator
checks what users pass, and shows what its law holds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.data import Rows, Source
from kexpfam.estimators.experts import ExpertSpec
from kexpfam.family import Spec
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection.spec import CoordinateSpec
from kexpfam.selection.supports import ResponseBounds


class Law(ABC):
    """P(y|x), as it was learned.

    Attributes:
        neighbourhood: The rows behind `reliability`.
        rounding: The width that y was rounded to; zero if it was not.
    """

    neighbourhood: Neighbourhood
    rounding: float

    @abstractmethod
    def density(self, X: Array) -> Any:
        """The densities at validated conditions."""

    @abstractmethod
    def saved(self) -> Any:
        """As files hold it.

        Raises:
            CannotSaveError: A part has no safe file representation.
        """

    @property
    @abstractmethod
    def average(self) -> Any:
        """The `Average` behind `members_` and `best_`; None if there is none."""


@dataclass(frozen=True)
class AverageSpec:
    """What is asked of an average."""

    family: Spec  # What is asked of its families
    experts: ExpertSpec
    coordinates: tuple[CoordinateSpec, ...]  # That are tried
    likelihood: bool | None = None  # Whether families by likelihood are tried, too
    lower: Any = None  # Bounds of y that the user gave
    upper: Any = None
    ends: ResponseBounds | None = None  # Bounds that are likely for another reason


# How an average is fitted to rows in the order of `in_row_order`, or to a source.
FitAverage = Callable[[Rows | Source, AverageSpec, np.random.Generator], Any]


def child_of(rng: np.random.Generator) -> np.random.Generator:
    """A generator of its own for a part, so that no other depends on what it draws."""
    return np.random.default_rng(int(rng.integers(2**31)))
