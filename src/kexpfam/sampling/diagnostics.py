"""Whether Markov chains have mixed, and what their draws are worth.

Draws are replaced by the normal scores of their ranks, so that heavy tails do no harm,
and chains are split in halves, so that a drift shows (Vehtari et al. 2021). Arrays of
draws are (..., chains, draws): everything is computed for all leading axes at once.

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and
    localization: an improved R̂ for assessing convergence of MCMC, Bayesian Analysis
    2021.
"""

import numpy as np
from scipy import fft, special, stats

from kexpfam._typing import Array

# Below this many draws per chain a half has no variance.
FEWEST_DRAWS = 4

# Quantiles whose effective sample size is that of the tails.
_TAILS = (0.05, 0.95)


def rank_r_hat(draws: Array) -> Array:
    """The larger R̂ of ranks and of ranked distances from the median.

    Args:
        draws: (..., chains, draws). With one chain its halves are compared.

    Returns:
        R̂ of each leading entry, near 1 if chains have mixed; not a number with fewer
        than 4 draws per chain or if all are equal, infinity if chains do not move but
        differ.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> mixed = rng.normal(size=(4, 500))
        >>> bool(rank_r_hat(mixed) < 1.01)
        True
        >>> bool(rank_r_hat(mixed + np.arange(4)[:, None]) > 1.5)
        True
    """
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    halves = split_chains(draws)
    median = np.median(halves, axis=(-2, -1), keepdims=True)
    folded = np.abs(halves - median)
    # Where all distances are equal they say nothing, and the other figure stands.
    return np.fmax(_r_hat(normal_scores(halves)), _r_hat(normal_scores(folded)))


def bulk_effective_size(draws: Array) -> Array:
    """How many independent draws tell as much about the centre.

    Args:
        draws: (..., chains, draws).

    Returns:
        Effective sample size of each leading entry; not a number with fewer than 4
        draws per chain.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bool(abs(bulk_effective_size(rng.normal(size=(4, 500))) - 2000) < 300)
        True
    """
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    return effective_size(normal_scores(split_chains(draws)))


def tail_effective_size(draws: Array) -> Array:
    """The smaller effective sample size of the 5% and 95% quantiles.

    Args:
        draws: (..., chains, draws).
    """
    if draws.shape[-1] < FEWEST_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    halves = split_chains(draws)
    levels = np.quantile(halves, _TAILS, axis=(-2, -1), keepdims=True)
    sizes = [effective_size((halves <= level).astype(float)) for level in levels]
    return np.fmin(*sizes)


def split_chains(draws: Array) -> Array:
    """Each chain as two: (..., c, s) -> (..., 2c, s // 2); an odd middle is left out.

    Example:
        >>> split_chains(np.array([[1, 2, 3, 4, 5]]))
        array([[1, 2],
               [4, 5]])
    """
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

    Args:
        draws: (..., chains, draws), at least two chains.
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
