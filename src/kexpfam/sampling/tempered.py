"""Tempered sequential Monte Carlo as a sampler, for densities with several modes."""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from kexpfam._validation import check_count
from kexpfam.errors import SamplingWarning
from kexpfam.partition import (
    TemperedEstimate,
    Tempering,
    UnnormalizedDensity,
    generators,
    temper,
)
from kexpfam.sampling.interface import Run, Sampler
from kexpfam.sampling.tempering_report import TemperingReport


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
        >>> p = KEF(fit_method="likelihood").fit(data[:, None]).distribution()
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
        if not 0.0 < self.threshold < 1.0:
            raise ValueError(
                f"threshold must lie between 0 and 1, got {self.threshold!r}."
            )

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        particles = max(self.particles, size)
        settings = Tempering(particles, self.groups, self.threshold, self.steps)
        rngs = generators(rng, len(target))
        estimate = temper(target, rngs, settings)
        _warn(estimate)
        draws = estimate.sample(target, size, rngs, moves=self.steps)
        report = TemperingReport(
            estimate.log_partition,
            estimate.error,
            estimate.levels,
            estimate.acceptance,
            estimate.ancestors,
        )
        return Run(draws, report)


def _warn(estimate: TemperedEstimate) -> None:
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
