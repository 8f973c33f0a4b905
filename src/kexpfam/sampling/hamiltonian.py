"""Hamiltonian Monte Carlo: moves along the gradient of the log density.

Chains start at responses of training rows near x, adapt their step size in a warm-up
that is thrown away, and are diagnosed. Draws of one chain depend on each other, and no
chain finds a mode that it would have to cross a desert for: see the report.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._validation import check_count, check_positive
from kexpfam.partition import UnnormalizedDensity
from kexpfam.sampling.chains import Plan, run_chains
from kexpfam.sampling.interface import Run, Sampler
from kexpfam.sampling.transitions import Leapfrog, NoUTurn

# More doublings than this are 16 million steps.
_MOST_DOUBLINGS = 24


@dataclass(frozen=True)
class NUTS(Sampler):
    """The no-U-turn sampler, which finds the length of its trajectories itself.

    Attributes:
        chains: Chains of each density; fewer if fewer draws are asked for.
        warmup: Moves of each chain that adapt it and are thrown away.
        draws: Kept draws of each chain; None for as many as `size` takes, and at least
            100, which diagnosis needs.
        thin: Moves per kept draw.
        target_acceptance: Acceptance rate that sets the step size.
        max_doublings: A trajectory has at most 2 to this power steps.

    References:
        Hoffman and Gelman, The no-U-turn sampler, JMLR 2014.

    Example:
        >>> NUTS(warmup=300).chains
        4
    """

    chains: int = 4
    warmup: int = 500
    draws: int | None = None
    thin: int = 1
    target_acceptance: float = 0.8
    max_doublings: int = 10

    def __post_init__(self) -> None:
        Plan(self.chains, self.warmup, self.draws, self.thin)
        _check_rate(self.target_acceptance)
        check_count("max_doublings", self.max_doublings, least=1)
        if self.max_doublings > _MOST_DOUBLINGS:
            raise ValueError(
                f"max_doublings must be at most {_MOST_DOUBLINGS}, got "
                f"{self.max_doublings!r}."
            )

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        plan = Plan(self.chains, self.warmup, self.draws, self.thin)
        transition = NoUTurn(self.target_acceptance, self.max_doublings)
        return run_chains(target, size, rng, transition, plan)


@dataclass(frozen=True)
class HMC(Sampler):
    """Hamiltonian Monte Carlo with trajectories of at most so many steps.

    Each move takes a random number of steps from 1 to `leapfrog_steps`: with a fixed
    number a chain may return to where it started every time.

    Attributes:
        chains: Chains of each density; fewer if fewer draws are asked for.
        warmup: Moves of each chain that adapt it and are thrown away.
        draws: Kept draws of each chain; None for as many as `size` takes, and at least
            100, which diagnosis needs.
        thin: Moves per kept draw.
        leapfrog_steps: The largest number of steps of a move.
        step_size: In the coordinates of the kernel; None to adapt it, and a scale for
            each column, in the warm-up.
        target_acceptance: Acceptance rate that sets the step size.

    Example:
        >>> HMC.paper()
        HMC(chains=20, warmup=100, draws=100, thin=10, leapfrog_steps=10,
            step_size=None, target_acceptance=0.8)
    """

    chains: int = 4
    warmup: int = 500
    draws: int | None = None
    thin: int = 1
    leapfrog_steps: int = 10
    step_size: float | None = None
    target_acceptance: float = 0.8

    def __post_init__(self) -> None:
        Plan(self.chains, self.warmup, self.draws, self.thin)
        _check_rate(self.target_acceptance)
        check_count("leapfrog_steps", self.leapfrog_steps, least=1)
        if self.step_size is not None:
            check_positive("step_size", self.step_size)

    @classmethod
    def paper(cls) -> "HMC":
        """The protocol of Arbel and Gretton (2018).

        20 chains of 100 + 1000 moves, of which every tenth of the last 1000 is kept;
        `size` draws are taken from these 2000 at even distances, one from each of
        `size` chains if that is less than 20. More than 2000 are refused.
        """
        return cls(chains=20, warmup=100, draws=100, thin=10)

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        plan = Plan(self.chains, self.warmup, self.draws, self.thin)
        transition = Leapfrog(
            self.target_acceptance, self.leapfrog_steps, self.step_size
        )
        return run_chains(target, size, rng, transition, plan)


def _check_rate(rate: float) -> None:
    if not 0.0 < check_positive("target_acceptance", rate) < 1.0:
        raise ValueError(
            f"target_acceptance must lie between 0 and 1, got {rate!r}; 0.8 is usual."
        )
