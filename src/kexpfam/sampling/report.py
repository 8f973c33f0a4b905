"""How sampling went, in the figures that people look at.

Chains that all started in one mode agree with each other, and no diagnosis of chains
sees that. For one column of y the distribution function is known from quadrature, and
draws are compared with it (`warn_of_other_masses`).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from kexpfam._typing import Array, Indices
from kexpfam.errors import SamplingWarning
from kexpfam.sampling.diagnostics import (
    FEWEST_DRAWS,
    bulk_effective_size,
    rank_r_hat,
    tail_effective_size,
)

# An R̂ up to this is fine, however long the chains (Vehtari et al. 2021).
_GOOD_R_HAT = 1.01

# Chance that R̂ of chains that have mixed earns a warning, over all densities.
_FALSE_ALARM = 1e-3

# Effective draws that are enough, and the share that is enough of a short run.
_ENOUGH_DRAWS = 100.0
_ENOUGH_SHARE = 0.05

# No draw is taken to be worth less than this when R̂ is judged: chains in different
# modes have hardly any effective draws, and must not be excused by that.
_LEAST_WORTH = 0.25

# In runs of fewer draws than this, effective sample sizes are so noisy that this share
# of many densities may come out too low.
_SHORT_RUN = 1000
_NOISY_SHARE = 0.1

# Chance of a warning about draws that are right, over all densities. Small, since a
# missed mode shows in any case, and what draws are worth is itself estimated.
_FALSE_ALARM_OF_MASSES = 1e-6

# Fewer draws of a density than this say nothing by themselves; then those of all
# densities are judged together.
_FEWEST = 50


@dataclass(frozen=True, eq=False)
class SamplingReport:
    """Diagnosis of the draws from n densities of d columns.

    Attributes:
        r_hat: Rank-normalised split R̂ of each column, (n, d); 1 is perfect. With one
            chain it compares its halves, and cannot see other modes.
        effective_sample_size: Effective number of draws of each column, (n, d), about
            the centre.
        divergences: Divergent transitions of each density, (n,).
        acceptance: Mean acceptance rate, (n,).
        tail_effective_sample_size: The same for the 5% and 95% quantiles, (n, d).
        chains: Chains of each density.
        draws: Kept draws of each chain, from which those asked for were taken.
    """

    r_hat: Array
    effective_sample_size: Array
    divergences: Array
    acceptance: Array
    tail_effective_sample_size: Array | None = None
    chains: int | None = None
    draws: int | None = None

    @classmethod
    def of_chains(
        cls, draws: Array, divergences: Array, acceptance: Array
    ) -> "SamplingReport":
        """Diagnose Markov chains.

        Args:
            draws: (n, chains, draws, d).
            divergences: Divergent transitions of each density, (n,).
            acceptance: Mean acceptance rate, (n,).
        """
        columns = np.moveaxis(draws, -1, 1)
        return cls(
            rank_r_hat(columns),
            bulk_effective_size(columns),
            divergences,
            acceptance,
            tail_effective_size(columns),
            draws.shape[1],
            draws.shape[2],
        )

    @classmethod
    def worst_of(cls, reports: Sequence["SamplingReport"]) -> "SamplingReport":
        """The worst figures of several reports on the same densities."""
        first = reports[0]
        tails = [
            report.tail_effective_sample_size
            for report in reports
            if report.tail_effective_sample_size is not None
        ]
        return cls(
            np.max([report.r_hat for report in reports], axis=0),
            np.min([report.effective_sample_size for report in reports], axis=0),
            np.sum([report.divergences for report in reports], axis=0),
            np.min([report.acceptance for report in reports], axis=0),
            np.min(tails, axis=0) if tails else None,
            first.chains if len({r.chains for r in reports}) == 1 else None,
            first.draws if len({r.draws for r in reports}) == 1 else None,
        )

    @property
    def tolerated_r_hat(self) -> float:
        """The largest R̂ to expect of chains that have mixed.

        1.01 for long ones; short chains and many densities exceed that by chance.
        """
        known = np.any(np.isfinite(self.effective_sample_size))
        if self.chains is None or self.draws is None or not known:
            return _GOOD_R_HAT
        halves, length = 2 * self.chains, self.draws // 2
        # With M chains of N independent draws, N (R̂² − 1) + 1 is F with M − 1 and
        # M (N − 1) degrees; N is what the usual density's draws are worth.
        usual = float(np.nanmedian(self._smaller_sizes))
        # Half of it: R̂ also looks at distances from the median, which mix more slowly.
        share = 0.5 * usual / (self.chains * self.draws)
        worth = length * min(max(share, _LEAST_WORTH), 1.0)
        freedom = halves - 1, max(halves * (worth - 1.0), 1.0)
        f = stats.f.isf(_FALSE_ALARM / self.r_hat.size, *freedom)
        return max(_GOOD_R_HAT, float(np.sqrt(1.0 + max(f - 1.0, 0.0) / worth)))

    @property
    def _smaller_sizes(self) -> Array:
        if self.tail_effective_sample_size is None:
            return self.effective_sample_size
        return np.fmin(self.effective_sample_size, self.tail_effective_sample_size)

    @property
    def needed_sample_size(self) -> float:
        """Effective draws below which the report complains."""
        if self.chains is None or self.draws is None:
            return _ENOUGH_DRAWS
        return min(_ENOUGH_DRAWS, _ENOUGH_SHARE * self.chains * self.draws)

    def complaint(self) -> str | None:
        """What is wrong with the draws, in a sentence; None if nothing was found."""
        if not self.r_hat.size:
            return None
        # Where R̂ could be found but was not, no chain has moved.
        unmixed = ~np.all(self.r_hat <= self.tolerated_r_hat, axis=1)
        if self.draws is not None and self.draws < FEWEST_DRAWS:
            unmixed[:] = False
        few = np.any(self.effective_sample_size < self.needed_sample_size, axis=1)
        total = (self.chains or 1) * (self.draws or _SHORT_RUN)
        if total < _SHORT_RUN and np.mean(few) <= _NOISY_SHARE:
            few[:] = False
        bad = unmixed | few | (self.divergences > 0)
        if not bad.any():
            return None
        of = "the density" if len(bad) == 1 else f"{bad.sum()} of {len(bad)} densities"
        return (
            f"draws from {of} may be wrong: {self._figures()}; effective draws should "
            f"be above {self.needed_sample_size:.0f} and divergences none; try a "
            f"longer warmup or thin, sampler='smc' for separated modes, or None."
        )

    def _figures(self) -> str:
        parts = []
        if np.any(np.isfinite(self.r_hat)):
            least = np.nanmin(self.effective_sample_size)
            highest = f"R̂ up to {np.nanmax(self.r_hat):.3f}"
            highest += f" (tolerated {self.tolerated_r_hat:.3f})"
            parts = [highest, f"{least:.0f} or more"]
            parts[1] += " effective draws"
            if self.chains is not None and self.draws is not None:
                parts[1] += f" of {self.chains * self.draws}"
        parts.append(f"{int(np.sum(self.divergences))} divergences")
        return ", ".join(parts)

    def __str__(self) -> str:
        n, d = self.r_hat.shape
        head = f"{n} densities of {d} column(s)"
        if self.chains is not None and self.draws is not None:
            head += f", {self.chains} chain(s) of {self.draws} kept draws each"
        rate = f"mean acceptance {np.mean(self.acceptance):.2f}" if n else "no draws"
        return f"{head}\n{self._figures() if n else ''}, {rate}"


@dataclass(frozen=True, eq=False)
class TemperingReport:
    """Diagnosis of the draws from n densities by tempered sequential Monte Carlo.

    Attributes:
        log_partition: log Z in the coordinates of the kernel, (n,).
        log_partition_error: Its standard error, (n,).
        levels: Temperatures between base density and target, (n,).
        acceptance: Acceptance rate of the moves at the target, (n,).
        ancestors: How many of the first particles have descendants among the last,
            (n,).
    """

    log_partition: Array
    log_partition_error: Array
    levels: Indices
    acceptance: Array
    ancestors: Indices

    def __str__(self) -> str:
        n = len(self.levels)
        if not n:
            return "no densities"
        return (
            f"{n} densities, up to {self.levels.max()} levels; acceptance "
            f"{self.acceptance.min():.2f} or more, {self.ancestors.min()} ancestors or "
            f"more, standard error of log Z up to {self.log_partition_error.max():.3f}"
        )


def warn_of_other_masses(
    levels: Array, report: SamplingReport | TemperingReport | None
) -> None:
    """Warn if draws do not follow their distribution function.

    Args:
        levels: The distribution function at the draws, (n, size), uniform if all is
            well.
        report: How sampling went; it tells what draws are worth.
    """
    n, size = levels.shape
    if not levels.size:
        return
    worth = _worth(report, n, size)
    if size < _FEWEST:  # one long row; draws of different densities are independent
        levels, worth = levels.reshape(1, -1), np.array([worth.sum()])
    if levels.shape[1] < _FEWEST:
        return
    distance = _distances(levels)
    # Kolmogorov's distribution, for as many independent draws as these are worth.
    allowed = special.kolmogi(_FALSE_ALARM_OF_MASSES / len(levels)) / np.sqrt(worth)
    worst = int(np.argmax(distance / allowed))
    if distance[worst] > allowed[worst]:
        warnings.warn(
            f"draws do not follow the distribution function, which is known for one "
            f"column: masses are off by {distance[worst]:.2f}, and chance explains "
            f"{allowed[worst]:.2f}; modes may have been missed, so use sampler=None or "
            f"'smc'.",
            SamplingWarning,
            stacklevel=5,
        )


def _distances(levels: Array) -> Array:
    """Largest distance of each row's empirical distribution from the uniform, (n,)."""
    ordered = np.sort(levels, axis=1)
    size = levels.shape[1]
    steps = np.arange(size + 1) / size
    above = (steps[1:] - ordered).max(axis=1)
    return np.maximum(above, (ordered - steps[:-1]).max(axis=1))


def _worth(report: SamplingReport | TemperingReport | None, n: int, size: int) -> Array:
    """How many independent draws those of each density are worth, (n,)."""
    worth = np.full(n, float(size))
    if isinstance(report, SamplingReport):
        # Chains in different modes have hardly any effective draws, and must not be
        # excused by that.
        sizes = np.nan_to_num(report.effective_sample_size.min(axis=1), nan=np.inf)
        kept = size if report.draws is None else (report.chains or 1) * report.draws
        share = np.clip(sizes / max(kept, 1), 0.05, 1.0)
        worth = size * share
    elif isinstance(report, TemperingReport):
        worth = np.minimum(worth, np.maximum(report.ancestors, 20.0))
    return worth
