"""Draws of one column against the distribution function, which is known.

Chains that all started in one mode agree with each other, and no diagnosis of chains
sees that. The quadrature does.
"""

import warnings

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.errors import SamplingWarning
from kexpfam.sampling.report import SamplingReport
from kexpfam.sampling.tempering_report import TemperingReport

# Chance of a warning about draws that are right, over all densities. Small, since a
# missed mode shows in any case, and what draws are worth is itself estimated.
_FALSE_ALARM = 1e-6

# Fewer draws of a density than this say nothing by themselves; then those of all
# densities are judged together.
_FEWEST = 50


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
    allowed = special.kolmogi(_FALSE_ALARM / len(levels)) / np.sqrt(worth)
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
