"""What a sampler is: it draws from densities that are known up to a constant."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.partition import UnnormalizedDensity
from kexpfam.sampling.report import SamplingReport
from kexpfam.sampling.tempering_report import TemperingReport


@dataclass(frozen=True, eq=False)
class Run:
    """Draws, and how sampling went.

    Attributes:
        draws: (n, size, d) from a sampler; `Density.run` drops axes as `rvs` does.
        report: Diagnosis; None if draws are independent.
    """

    draws: Array
    report: SamplingReport | TemperingReport | None = None


class Sampler(ABC):
    """Draws from n unnormalised densities at once; a value, with its settings."""

    @abstractmethod
    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        """Draw `size` points of each density, in the coordinates of the kernel.

        Draws that should not be trusted come with a `SamplingWarning`.
        """


@dataclass(frozen=True)
class InverseCDF(Sampler):
    """Independent draws by the inverse distribution function, for one column of y.

    It is what densities of one column do unless told otherwise: they have the
    distribution function on the panels of their quadrature, so nothing is left to do
    here.
    """

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        raise NotImplementedError(
            "InverseCDF needs a normalised density: pass it as p.rvs(sampler=...)."
        )
