"""Which columns of x matter, and over what distance, found one after another.

A Gaussian process knows over what distances the mean of y changes. Where the shape of
p(y|x) changes and the mean does not, or where few of many columns matter, that is a bad
metric, and so is the same length for all columns: distances are then made of columns
that say nothing. Here columns are taken up in the order in which they help a family of
densities, each with the best of a few lengths, until none helps any more.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._heuristics import median_distance
from kexpfam._parallel import on_threads
from kexpfam._typing import Array
from kexpfam.family import SCORE, HeldOutProblem, LogDensities
from kexpfam.kernels import Constant, Gaussian, Kernel, separable


@dataclass(frozen=True)
class Relevance:
    """How columns are looked for."""

    # Length of a column that does not count, in units of its own: distances along it
    # are nothing beside those of others
    ignored: float = 1e4
    # Lengths that are tried for a column, in its median distances: the first for every
    # column, the others for so many that were best with it, and this share of all
    multiples: tuple[float, ...] = (0.6, 0.25, 1.5)
    fewest_tried: int = 4
    share_tried: float = 0.25
    # With this lengthscale of y, in standard deviations, these values of λ·ℓ_y², and so
    # many centres: enough to tell columns apart
    lengthscale_y: float = 0.8
    lams: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    centers: int = 75
    # Columns that are taken up, at most. Each must gain so many nats in total, and the
    # logarithm of the number of trials more: among many, the best of noise gains as
    # much
    most_columns: int = 5
    least_gain: float = 3.0
    # Multiples of the lengths found that are tried beside other kernels
    tried: tuple[float, ...] = (0.6, 1.0, 1.7)


RELEVANCE = Relevance()


def relevant_lengthscales(
    problem: HeldOutProblem,
    log_jacobian: Array,
    weights: Array,
    how: Relevance = RELEVANCE,
    n_jobs: int | None = None,
) -> Array | None:
    """Lengths of the columns of x, large for those that do not help; None if none does.

    Args:
        problem: Rows in folds.
        log_jacobian: Log |du/dy| of each row, (n,).
        weights: Row weights, (n,).
        how: How columns are looked for.
        n_jobs: How many threads; None for all cores.
    """
    X = problem.sample.X
    units = np.array([median_distance(column[:, None], weights) for column in X.T])
    kernel_y = Gaussian(how.lengthscale_y)
    lams = tuple(relative / how.lengthscale_y**2 for relative in how.lams)

    def total(lengths: Array) -> float:
        """Total held-out log density with these lengths, and the best λ."""
        constant = bool(np.all(lengths >= how.ignored * units))
        kernel_x: Kernel = Constant() if constant else Gaussian(tuple(lengths.tolist()))
        kernel = separable(kernel_x, kernel_y)
        held_out = SCORE.held_out(problem, kernel, lams, LogDensities.of)
        return float(max((row + log_jacobian) @ weights for row in held_out))

    return columns_that_help(total, units, how, n_jobs)


def columns_that_help(
    total: Callable[[Array], float],
    units: Array,
    how: Relevance = RELEVANCE,
    n_jobs: int | None = None,
) -> Array | None:
    """The same for any total held-out log density as a function of the lengths.

    `units` are typical distances along each column, (p,); lengths are tried by so many
    threads, None for all cores.

    Example:
        >>> target = np.array([RELEVANCE.ignored, 0.5])
        >>> found = columns_that_help(
        ...     lambda lengths: -10 * np.abs(np.log(lengths / target)).sum(), np.ones(2)
        ... )
        >>> found.tolist()
        [10000.0, 0.6]
    """
    lengths = how.ignored * units
    best = total(lengths)
    left = list(range(len(units)))
    taken = 0

    def tried(column: int, multiple: float) -> tuple[float, int, Array]:
        # The more columns there are, the longer distances are.
        trial = lengths.copy()
        trial[column] = multiple * units[column] * np.sqrt(1 + taken)
        return total(trial), column, trial

    def all_tried(
        columns: list[int], multiples: tuple[float, ...]
    ) -> list[tuple[float, int, Array]]:
        pairs = itertools.product(columns, multiples)
        return on_threads(lambda pair: tried(*pair), pairs, n_jobs)

    while left and taken < how.most_columns:
        trials = all_tried(left, how.multiples[:1])
        most = max(how.fewest_tried, math.ceil(how.share_tried * len(left)))
        ranked = sorted(trials, key=lambda trial: -trial[0])[:most]
        trials += all_tried([column for _, column, _ in ranked], how.multiples[1:])
        value, column, trial = max(trials, key=lambda trial: trial[0])
        if not value > best + how.least_gain + np.log(len(trials)):
            break
        best, lengths = value, trial
        left.remove(column)
        taken += 1
    return lengths if taken else None
