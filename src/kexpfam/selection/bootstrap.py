"""The Bayesian bootstrap: fits to rows with random weights, standard exponential ones.

Kernels and λ stay as they were chosen. Learned again are regressions and transforms,
and the coefficients of T.

References:
    Rubin, The Bayesian bootstrap, Annals of Statistics 1981.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_count
from kexpfam.base_densities import MarginalBase
from kexpfam.family import (
    SOLVERS,
    CoordinateRows,
    FittedFamily,
    chosen_centers,
    solve,
)
from kexpfam.kernels import JointKernel
from kexpfam.selection.results import Selected

R = TypeVar("R")


def fit_family_replicates(
    family: FittedFamily,
    selected: Selected,
    method: str,
    count: int,
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[FittedFamily, ...]:
    """Fit one family to rows with weights of a Bayesian bootstrap, `count` times.

    Args:
        family: The fit to the rows as they are.
        selected: What it was fitted with.
        method: How T was fitted.
        count: How many replicates.
        n_jobs: Threads.
        verbose: Whether to show a progress bar.
    """
    return bootstrapped(
        lambda weights: family_replicate(family, selected, method, weights, n_jobs),
        len(selected.placed),
        count,
        family.seed,
        verbose=verbose,
    )


def family_replicate(
    family: FittedFamily,
    selected: Selected,
    method: str,
    weights: Array,
    n_jobs: int | None = None,
) -> FittedFamily:
    """Fit one family to rows that count so much more, (n,); only ratios matter."""
    assert selected.reweighted is not None
    here = selected.reweighted(weights / weights.mean())
    # A base density that is learned from the rows is learned again.
    learned = isinstance(family.base, MarginalBase)
    here = here if learned else replace(here, base=family.base)
    exact = family.solver == "exact"
    centers = None if exact else _rows_at_centers(family, selected.placed)
    return solved_again(
        here, family, family.T.kernel, method, centers, family.seed, n_jobs
    )


def check_bootstrap(count: Any) -> int:
    """A number of replicates; ValueError if there are none to tell a variance from."""
    if check_count("bootstrap", count) == 1:
        raise ValueError("bootstrap must be 0, or 2 and more, got 1.")
    return int(count)


def refuse_bootstrap(count: int, what: str) -> None:
    """Refuse replicates, if any are asked for, of what has none."""
    if count:
        raise ValueError(
            f"bootstrap={count} is not available for {what}; use bootstrap=0."
        )


def bootstrapped(
    fit: Callable[[Array], R], n: int, count: int, seed: int, *, verbose: bool
) -> tuple[R, ...]:
    """Fits with random weights of n rows."""
    rng = np.random.default_rng(seed)
    found = []
    with ProgressBar("replicates", shown=verbose) as bar:
        for b in range(count):
            found.append(fit(rng.standard_exponential(n)))
            if bar is not None:
                bar(b + 1, count)
    return tuple(found)


def solved_again(
    here: CoordinateRows,
    family: FittedFamily,
    kernel: JointKernel | None,
    method: str,
    centers: Indices | None,
    seed: int,
    n_jobs: int | None,
) -> FittedFamily:
    """T of other rows, with the λ that was chosen."""
    return solve(
        here,
        kernel,
        family.lam,
        seed=seed,
        centers=centers,
        n_jobs=n_jobs,
        solver=SOLVERS.get(method, SOLVERS["score"]),
    )


def _rows_at_centers(family: FittedFamily, placed: CoordinateRows) -> Indices:
    """Rows that the centres of a fit are; others, as many, where that is not known."""
    m = len(family.T.Y)
    numbers = {row.tobytes(): i for i, row in enumerate(_joined(placed.Z, placed.U))}
    found = [numbers.get(row.tobytes()) for row in _joined(family.T.X, family.T.Y)]
    known = [number for number in found if number is not None]
    return np.array(known) if len(known) == m else chosen_centers(len(placed), m)


def _joined(Z: Array, U: Array) -> Array:
    return np.ascontiguousarray(np.hstack([Z, U]))
