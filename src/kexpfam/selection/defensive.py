"""The defensive component of an average: no response is impossible.

It is a t density with three degrees of freedom in coordinates that candidates are
fitted in: around the location that a regression has at x, some multiple of its scale
wide. So it is narrow where the members are, and hardly widens what is said about y,
where a component over the whole range of y would double the standard deviation of sharp
densities.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.family import Coordinates
from kexpfam.persistence import saved_fit


@saved_fit({"coordinates": "p d=1"})
@dataclass(frozen=True, eq=False)
class DefensiveComponent:
    """A t density in some coordinates, around their location at x."""

    coordinates: Coordinates
    base: StudentBase

    def check_saved(self) -> None:
        """Refuse coordinates that have moved responses in another way."""
        if self.coordinates.transform is not None:
            raise ValueError("the defensive component has a transform of y")

    @classmethod
    def everywhere(cls, p: int, center: float, scale: float) -> "DefensiveComponent":
        """The same at all x (n, p): what averages in older files have."""
        coordinates = Coordinates(
            np.zeros(p),
            np.ones(p),
            np.array([center]),
            np.array([scale]),
            support=np.array([[-np.inf, np.inf]]),
        )
        return cls(coordinates, StudentBase(scale=0.85, df=5.0))

    def density(self, X: Array) -> ClosedFormDensity:
        """Densities at conditions (n, p)."""
        there = self.coordinates.at(self.coordinates.conditions(X))
        return self.at(there.location[:, 0], there.scale[:, 0])

    def at(self, location: Array, scale: Array) -> ClosedFormDensity:
        """Densities with some location and scale of u = 0, (n,) each."""
        return ClosedFormDensity(self.base, location, scale)
