"""What a sampler is: it draws from densities that are known up to a constant."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.partition import UnnormalizedDensity
from kexpfam.sampling.diagnostics import SamplingReport, TemperingReport


@dataclass(frozen=True, eq=False)
class Chains:
    """What Markov chains of n densities kept, in the order in which they moved.

    Attributes:
        draws: (n, chains, draws, d).
        divergent: Whether a move that led to a draw diverged, (n, chains, draws).
        acceptance: Mean acceptance rate of these moves, (n, chains, draws).
    """

    draws: Array
    divergent: Mask
    acceptance: Array


@dataclass(frozen=True, eq=False)
class Run:
    """Draws, and how sampling went.

    Attributes:
        draws: (n, size, d) from a sampler; `Density.run` drops axes as `rvs` does.
        report: Diagnosis; None if draws are independent.
        chains: The Markov chains that the draws were taken from, all axes kept; None
            if there were none, or several densities with chains of their own were
            mixed.
        columns: Columns of y, whose axis `Density.run` drops if there is one; None for
            draws with all axes.
    """

    draws: Array
    report: SamplingReport | TemperingReport | None = None
    chains: Chains | None = None
    columns: int | None = None


class Sampler(ABC):
    """Draws from n unnormalised densities at once; a value, with its settings."""

    @abstractmethod
    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        """Draw `size` points of each density, in the coordinates of the kernel.

        Draws that should not be trusted come with a `SamplingWarning`.
        """
