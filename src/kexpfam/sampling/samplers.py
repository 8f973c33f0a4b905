"""The samplers, and their names.

Hamiltonian Monte Carlo moves along the gradient of the log density. Chains start at
responses of training rows near x, adapt their step size in a warm-up that is thrown
away, and are diagnosed. Draws of one chain depend on each other, and no chain finds a
mode that it would have to cross a desert for: see the report. Tempered particles are
for densities with several modes.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._validation import check_count, check_positive, check_share
from kexpfam.errors import SamplingWarning
from kexpfam.partition import TemperedEstimate, UnnormalizedDensity, generators, temper
from kexpfam.sampling.chains import MarkovChains
from kexpfam.sampling.diagnostics import TemperingReport
from kexpfam.sampling.interface import Run, Sampler
from kexpfam.sampling.programs import Transition


@dataclass(frozen=True)
class InverseCDF(Sampler):
    """Independent draws by the inverse distribution function, for one column of y.

    It is what densities of one column do unless told otherwise: they have the
    distribution function on the cells of their quadrature, so nothing is left to do
    here.
    """

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        raise NotImplementedError(
            "InverseCDF needs a normalised density: pass it as p.rvs(sampler=...)."
        )


@dataclass(frozen=True)
class NUTS(MarkovChains):
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

    target_acceptance: float = 0.8
    max_doublings: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("target_acceptance", self.target_acceptance, "0.8 is usual")
        check_count("max_doublings", self.max_doublings, least=1)
        if self.max_doublings > 24:  # that is 16 million steps
            raise ValueError(
                f"max_doublings must be at most 24, got {self.max_doublings!r}."
            )

    @property
    def transition(self) -> Transition:
        return Transition("nuts", self.target_acceptance, self.max_doublings)


@dataclass(frozen=True)
class HMC(MarkovChains):
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

    leapfrog_steps: int = 10
    step_size: float | None = None
    target_acceptance: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("target_acceptance", self.target_acceptance, "0.8 is usual")
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

    @property
    def transition(self) -> Transition:
        return Transition(
            "hmc", self.target_acceptance, self.leapfrog_steps, self.step_size
        )


@dataclass(frozen=True)
class TemperedSMC(Sampler):
    """Particles from the base density to the target, level by level, theory (24).

    Modes get their masses however far apart they are, if particles of the base density
    are near each of them. Draws are not independent: those with a common ancestor among
    the first particles are alike, though the moves pull them apart.

    Attributes:
        particles: Of each density; as many as draws, if more of these are wanted.
        steps: Langevin moves of each particle at each level.
        threshold: Effective share of the particles that a level may leave; higher
            values make more and shorter levels.
        groups: Groups of particles that never mix; their spread is the error of log Z.

    References:
        Del Moral, Doucet and Jasra, Sequential Monte Carlo Samplers, JRSS B 2006.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KEF
        >>> rng = np.random.default_rng(0)
        >>> data = np.append(rng.normal(-2, 0.5, 60), rng.normal(2, 0.5, 60))
        >>> model = KEF(fit_method="likelihood", random_state=0).fit(data[:, None])
        >>> p = model.distribution()
        >>> run = p.run(500, random_state=0, sampler=TemperedSMC())
        >>> run.draws.shape
        (500,)
        >>> bool(abs((run.draws > 0).mean() - p.sf(0.0)) < 0.05)
        True
    """

    particles: int = 2000
    steps: int = 5
    threshold: float = 0.7
    groups: int = 8

    def __post_init__(self) -> None:
        check_count("groups", self.groups, least=2)
        check_count("particles", self.particles, least=4 * self.groups)
        check_count("steps", self.steps, least=1)
        check_share("threshold", self.threshold)

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        rngs = generators(rng, len(target))
        estimate = temper(
            target,
            rngs,
            particles=max(self.particles, size),
            groups=self.groups,
            threshold=self.threshold,
            moves=self.steps,
        )
        _warn_of_particles(estimate)
        draws = estimate.sample(target, size, rngs, moves=self.steps)
        report = TemperingReport(
            estimate.log_partition,
            estimate.error,
            estimate.levels,
            estimate.acceptance,
            estimate.ancestors,
        )
        return Run(draws, report)


def resolve_sampler(sampler: object) -> Sampler | None:
    """The sampler that a name stands for; None stays None, the density's own way.

    Raises:
        ValueError: There is no such name.

    Example:
        >>> resolve_sampler("inverse_cdf")
        InverseCDF()
    """
    if sampler is None or isinstance(sampler, Sampler):
        return sampler
    named: dict[str, Callable[[], Sampler]] = {
        "inverse_cdf": InverseCDF,
        "smc": TemperedSMC,
        "nuts": NUTS,
        "hmc": HMC,
        "paper": HMC.paper,
    }
    if isinstance(sampler, str) and sampler in named:
        return named[sampler]()
    raise ValueError(
        f"sampler must be None, one of {', '.join(map(repr, named))}, or a sampler of "
        f"kexpfam.sampling; got {sampler!r}."
    )


def _warn_of_particles(estimate: TemperedEstimate) -> None:
    """Say so if draws of some densities should not be trusted."""
    bad = estimate.unreliable
    if not np.any(bad):
        return
    error = float(estimate.error.max())
    known = f"known to {error:.2f} only" if math.isfinite(error) else "not known"
    warnings.warn(
        f"Tempered draws of {int(bad.sum())} of {len(bad)} densities should not be "
        f"trusted: down to {estimate.ancestors.min()} distinct ancestors, acceptance "
        f"down to {estimate.acceptance.min():.2f}, log Z {known}. Raise particles, "
        f"steps or threshold of TemperedSMC.",
        SamplingWarning,
        stacklevel=6,
    )
