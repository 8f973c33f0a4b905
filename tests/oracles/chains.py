"""R̂ and effective sample sizes by their definitions, with loops over draws."""

import numpy as np
from scipy import stats


def split(chains):
    """Every chain as two, without an odd middle."""
    halves = []
    for chain in chains:
        half = len(chain) // 2
        halves += [list(chain[:half]), list(chain[len(chain) - half :])]
    return halves


def normal_scores(chains):
    """Blom's normal scores of the ranks among all draws."""
    everything = [value for chain in chains for value in chain]
    total = len(everything)

    def score(value):
        below = sum(other < value for other in everything)
        ties = sum(other == value for other in everything)
        rank = below + (ties + 1) / 2
        return stats.norm.ppf((rank - 3 / 8) / (total + 1 / 4))

    return [[score(value) for value in chain] for chain in chains]


def r_hat(chains):
    """The classical potential scale reduction."""
    n = len(chains[0])
    means = [np.mean(chain) for chain in chains]
    within = np.mean([np.var(chain, ddof=1) for chain in chains])
    between = n * np.var(means, ddof=1)
    return np.sqrt(((n - 1) / n * within + between / n) / within)


def rank_r_hat(chains):
    """The larger of bulk and folded."""
    halves = split(chains)
    median = np.median([value for chain in halves for value in chain])
    folded = [[abs(value - median) for value in chain] for chain in halves]
    return max(r_hat(normal_scores(halves)), r_hat(normal_scores(folded)))


def effective_size(chains):
    """Sum of autocorrelations in pairs, cut where a pair is not positive."""
    n = len(chains[0])
    within = np.mean([np.var(chain, ddof=1) for chain in chains])
    means = [np.mean(chain) for chain in chains]
    total = (n - 1) / n * within + np.var(means, ddof=1)

    def autocovariance(chain, lag):
        mean = np.mean(chain)
        pairs = zip(chain[: n - lag], chain[lag:], strict=True)
        return sum((a - mean) * (b - mean) for a, b in pairs) / n

    def rho(lag):
        if lag == 0:
            return 1.0
        return 1 - (within - np.mean([autocovariance(c, lag) for c in chains])) / total

    time, last = -1.0, np.inf
    for lag in range(0, n - 1, 2):
        pair = rho(lag) + rho(lag + 1)
        if pair <= 0:
            break
        last = min(last, pair)
        time += 2 * last
    draws = n * len(chains)
    return draws / max(time, 1 / np.log10(draws))


def bulk_size(chains):
    """Effective size of the normal scores."""
    return effective_size(normal_scores(split(chains)))


def tail_size(chains):
    """The smaller one of the two indicators."""
    halves = split(chains)
    levels = np.quantile(np.ravel(halves), [0.05, 0.95])
    below = [
        [[float(v <= level) for v in chain] for chain in halves] for level in levels
    ]
    # If all draws are on one side, that quantile says nothing.
    return min(effective_size(chains) for chains in below if np.ptp(chains) > 0)
