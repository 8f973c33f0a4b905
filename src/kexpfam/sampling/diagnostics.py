"""Whether Markov chains have mixed, and what their draws are worth.

Draws are replaced by the normal scores of their ranks, so that heavy tails do no harm,
and chains are split in halves, so that a drift shows (Vehtari et al. 2021). Arrays of
draws are (..., chains, draws): everything is computed for all leading axes at once.

Chains that all started in one mode agree with each other, and no diagnosis of chains
sees that. For one column of y the distribution function is known from quadrature, and
draws are compared with it (`warn_of_other_masses`).

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and
    localization: an improved R̂ for assessing convergence of MCMC, Bayesian Analysis
    2021.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft, special, stats

from kexpfam._typing import Array, Indices
from kexpfam.errors import SamplingWarning

# Below this many draws per chain a half has no variance.
FEWEST_DRAWS = 4


def rank_r_hat(draws: Array) -> Array:
    """The larger R̂ of ranks and of ranked distances from the median.

    It is near 1 if chains have mixed, infinity if they do not move but differ, and not
    a number if all draws are equal or fewer than 4 per chain. With one chain its halves
    are compared.
    """
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    halves = split_chains(draws)
    median = np.median(halves, axis=(-2, -1), keepdims=True)
    folded = np.abs(halves - median)
    # Where all distances are equal they say nothing, and the other figure stands.
    return np.fmax(_r_hat(normal_scores(halves)), _r_hat(normal_scores(folded)))


def bulk_effective_size(draws: Array) -> Array:
    """How many independent draws tell as much about the centre; NaN as above."""
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    return effective_size(normal_scores(split_chains(draws)))


def tail_effective_size(draws: Array) -> Array:
    """The smaller effective sample size of the 5% and 95% quantiles."""
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    halves = split_chains(draws)
    levels = np.quantile(halves, (0.05, 0.95), axis=(-2, -1), keepdims=True)
    sizes = [effective_size((halves <= level).astype(float)) for level in levels]
    return np.fmin(*sizes)


def split_chains(draws: Array) -> Array:
    """Chains in halves, (..., c, s) -> (..., 2c, s // 2), without an odd middle."""
    half = draws.shape[-1] // 2
    return np.concatenate([draws[..., :half], draws[..., -half:]], axis=-2)


def normal_scores(draws: Array) -> Array:
    """Normal quantiles of the ranks among all chains, ties sharing their mean rank."""
    flat = draws.reshape(*draws.shape[:-2], -1)
    ranks = stats.rankdata(flat, axis=-1)
    # Blom's offsets, as in the paper.
    scores = special.ndtri((ranks - 0.375) / (flat.shape[-1] + 0.25))
    return scores.reshape(draws.shape)


def _r_hat(draws: Array) -> Array:
    within, total = _variances(draws)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(total / within)
    return np.where(total == 0, np.nan, ratio)


def _variances(draws: Array) -> tuple[Array, Array]:
    """Mean variance within chains, and the estimate of that of the target."""
    n = draws.shape[-1]
    within = draws.var(axis=-1, ddof=1).mean(axis=-1)
    between = draws.mean(axis=-1).var(axis=-1, ddof=1)
    return within, (n - 1) / n * within + between


def effective_size(draws: Array) -> Array:
    """Effective sample size of the mean, with Geyer's initial monotone sequence.

    There must be two chains at least.
    """
    chains, n = draws.shape[-2:]
    within, total = _variances(draws)
    safe = np.where(total > 0, total, 1.0)
    mean_autocovariance = _autocovariances(draws).mean(axis=-2)
    rho = 1.0 - (within[..., None] - mean_autocovariance) / safe[..., None]
    rho[..., 0] = 1.0
    even = n // 2 * 2
    sums = rho[..., 0:even:2] + rho[..., 1:even:2]
    # Sums of neighbours are positive and fall until noise takes over.
    positive = np.logical_and.accumulate(sums > 0, axis=-1)
    monotone = np.minimum.accumulate(np.where(positive, sums, 0.0), axis=-1)
    time = 2.0 * monotone.sum(axis=-1) - 1.0
    # Alternating chains may beat independent draws, but not without limit.
    size = chains * n / np.maximum(time, 1.0 / np.log10(chains * n))
    return np.where(total > 0, size, np.nan)


def _autocovariances(draws: Array) -> Array:
    """Of each chain at lags 0 to n − 1, divided by n."""
    n = draws.shape[-1]
    centered = draws - draws.mean(axis=-1, keepdims=True)
    length = fft.next_fast_len(2 * n)
    spectrum = fft.rfft(centered, length, axis=-1)
    power = (spectrum * spectrum.conj()).real
    return fft.irfft(power, length, axis=-1)[..., :n] / n


@dataclass(frozen=True)
class Alarm:
    """When a report complains."""

    r_hat: float = 1.01  # Up to this all is fine, however long chains (Vehtari 2021)
    r_hat_chance: float = 1e-3  # That chains that have mixed earn a warning, over all
    draws: float = 100.0  # Effective draws that are enough
    share: float = 0.05  # And the share that is enough of a short run
    # No draw is taken to be worth less than this when R̂ is looked at: chains in
    # different modes have hardly any effective draws, and must not be excused by that.
    least_worth: float = 0.25
    # In runs of fewer draws, effective sample sizes are so noisy that this share of
    # many densities may come out too low.
    short_run: int = 1000
    noisy_share: float = 0.1
    # Chance of a warning about masses that are right, over all densities. Small, since
    # a missed mode shows in any case, and what draws are worth is itself estimated.
    mass_chance: float = 1e-6
    # Fewer draws of a density say nothing by themselves; those of all are pooled.
    fewest: int = 50


ALARM = Alarm()


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
        """Diagnose Markov chains, draws (n, chains, draws, d)."""
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
        tails = [r.tail_effective_sample_size for r in reports]
        known = [tail for tail in tails if tail is not None]
        return cls(
            np.stack([r.r_hat for r in reports]).max(axis=0),
            np.stack([r.effective_sample_size for r in reports]).min(axis=0),
            np.stack([r.divergences for r in reports]).sum(axis=0),
            np.stack([r.acceptance for r in reports]).min(axis=0),
            np.stack(known).min(axis=0) if known else None,
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
            return ALARM.r_hat
        halves, length = 2 * self.chains, self.draws // 2
        # With M chains of N independent draws, N (R̂² − 1) + 1 is F with M − 1 and
        # M (N − 1) degrees; N is what the usual density's draws are worth.
        usual = float(np.nanmedian(self._smaller_sizes))
        # Half of it: R̂ also looks at distances from the median, which mix more slowly.
        share = 0.5 * usual / (self.chains * self.draws)
        worth = length * min(max(share, ALARM.least_worth), 1.0)
        freedom = halves - 1, max(halves * (worth - 1.0), 1.0)
        f = stats.f.isf(ALARM.r_hat_chance / self.r_hat.size, *freedom)
        return max(ALARM.r_hat, float(np.sqrt(1.0 + max(f - 1.0, 0.0) / worth)))

    @property
    def _smaller_sizes(self) -> Array:
        if self.tail_effective_sample_size is None:
            return self.effective_sample_size
        return np.fmin(self.effective_sample_size, self.tail_effective_sample_size)

    @property
    def needed_sample_size(self) -> float:
        """Effective draws below which the report complains."""
        if self.chains is None or self.draws is None:
            return ALARM.draws
        return min(ALARM.draws, ALARM.share * self.chains * self.draws)

    def complaint(self) -> str | None:
        """What is wrong with the draws, in a sentence; None if nothing was found."""
        if not self.r_hat.size:
            return None
        # Where R̂ could be found but was not, no chain has moved.
        unmixed = ~np.all(self.r_hat <= self.tolerated_r_hat, axis=1)
        if self.draws is not None and self.draws < FEWEST_DRAWS:
            unmixed[:] = False
        few = np.any(self.effective_sample_size < self.needed_sample_size, axis=1)
        total = (self.chains or 1) * (self.draws or ALARM.short_run)
        if total < ALARM.short_run and np.mean(few) <= ALARM.noisy_share:
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
        divergences = f"{int(np.sum(self.divergences))} divergences"
        if not np.any(np.isfinite(self.r_hat)):
            return divergences
        of = ""
        if self.chains is not None and self.draws is not None:
            of = f" of {self.chains * self.draws}"
        return (
            f"R̂ up to {np.nanmax(self.r_hat):.3f} (tolerated "
            f"{self.tolerated_r_hat:.3f}), {np.nanmin(self.effective_sample_size):.0f} "
            f"or more effective draws{of}, {divergences}"
        )

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

    Its values at the draws, (n, size), are uniform if all is well; the report tells
    what draws are worth.
    """
    n, size = levels.shape
    if not levels.size:
        return
    worth = _worth(report, n, size)
    if (
        size < ALARM.fewest
    ):  # one long row; draws of different densities are independent
        levels, worth = levels.reshape(1, -1), np.array([worth.sum()])
    if levels.shape[1] < ALARM.fewest:
        return
    distance = _distances(levels)
    # Kolmogorov's distribution, for as many independent draws as these are worth.
    allowed = special.kolmogi(ALARM.mass_chance / len(levels)) / np.sqrt(worth)
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
