"""Which columns of x matter, and over what distance, found one after another.

A Gaussian process knows over what distances the mean of y changes. Where the shape of
p(y|x) changes and the mean does not, or where few of many columns matter, that is a bad
metric, and so is the same length for all columns: distances are then made of columns
that say nothing. Here columns are taken up in the order in which they help a family of
densities, each with the best of a few lengths, until none helps any more. Each costs as
many trials as there are columns: of very many columns, those are tried on all rows that
help some of the rows most.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._heuristics import median_distance
from kexpfam._parallel import on_threads
from kexpfam._typing import Array, Indices
from kexpfam.family import SCORE, HeldOutProblem, LogDensities
from kexpfam.kernels import Constant, Gaussian, Kernel, separable

Total = Callable[[Array], float]


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
    # Of more columns than this, each is tried on some rows first, and so many, or this
    # share if it is more, on all. None of the tables that selection is measured on has
    # as many
    many_columns: int = 40
    share_kept: float = 0.125
    screened_rows: int = 400
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

    def total_of(rows: Indices) -> Total:
        part = _thinned(problem, rows)
        jacobian, w = log_jacobian[rows], weights[rows]

        def total(lengths: Array) -> float:
            """Total held-out log density with these lengths, and the best λ."""
            near = np.flatnonzero(lengths < how.ignored * units)
            kernel_x: Kernel = Constant()
            if near.size:
                kernel_x = Gaussian(tuple(lengths[near].tolist()))
            # Columns that do not count cost nothing.
            sample = replace(part.sample, X=part.sample.X[:, near])
            kernel = separable(kernel_x, kernel_y)
            held_out = SCORE.held_out(
                replace(part, sample=sample), kernel, lams, LogDensities.of
            )
            return float(max((row + jacobian) @ w for row in held_out))

        return total

    n, p = X.shape
    screen = None
    if p > how.many_columns and n > 2 * how.screened_rows:
        every = np.arange(0, n, n // how.screened_rows)
        screen = total_of(np.union1d(every, problem.centers))
    return columns_that_help(total_of(np.arange(n)), units, how, n_jobs, screen)


def _thinned(problem: HeldOutProblem, rows: Indices) -> HeldOutProblem:
    """Some rows, in order, among which all centres are."""
    edges = np.searchsorted(rows, [fold.stop for fold in problem.folds]).tolist()
    return replace(
        problem,
        sample=problem.sample.part(rows),
        folds=tuple(map(slice, [0, *edges[:-1]], edges)),
        centers=np.searchsorted(rows, problem.centers),
    )


def columns_that_help(
    total: Total,
    units: Array,
    how: Relevance = RELEVANCE,
    n_jobs: int | None = None,
    screen: Total | None = None,
) -> Array | None:
    """The same for any total held-out log density as a function of the lengths.

    `units` are typical distances along each column, (p,); lengths are tried by so many
    threads, None for all cores. A cheaper total, `screen`, says which columns are
    tried if they are many.

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

    def all_tried(
        columns: list[int], multiples: tuple[float, ...], total: Total = total
    ) -> list[tuple[float, int, Array]]:
        def tried(column: int, multiple: float) -> tuple[float, int, Array]:
            # The more columns there are, the longer distances are.
            trial = lengths.copy()
            trial[column] = multiple * units[column] * np.sqrt(1 + taken)
            return total(trial), column, trial

        pairs = itertools.product(columns, multiples)
        return on_threads(lambda pair: tried(*pair), pairs, n_jobs)

    def first(trials: list[tuple[float, int, Array]], most: int) -> list[int]:
        ranked = sorted(trials, key=lambda trial: -trial[0])[:most]
        return [column for _, column, _ in ranked]

    while left and taken < how.most_columns:
        columns = left
        if screen is not None and len(left) > how.many_columns:
            most = max(how.many_columns, math.ceil(how.share_kept * len(left)))
            columns = first(all_tried(left, how.multiples[:1], screen), most)
        trials = all_tried(columns, how.multiples[:1])
        most = max(how.fewest_tried, math.ceil(how.share_tried * len(columns)))
        trials += all_tried(first(trials, most), how.multiples[1:])
        value, column, trial = max(trials, key=lambda trial: trial[0])
        # Those that were only tried on some rows are trials as well.
        count = len(trials) + len(left) - len(columns)
        if not value > best + how.least_gain + np.log(count):
            break
        best, lengths = value, trial
        left.remove(column)
        taken += 1
    return lengths if taken else None
