"""What an average tries: families in all coordinates that are worth it, and experts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam.estimators.experts import Competitors, cross_fitted
from kexpfam.selection import Candidate
from kexpfam.selection.candidates import Task
from kexpfam.selection.choosing import best_of
from kexpfam.selection.finishing import isolated_coordinates, replace_blind_candidates
from kexpfam.selection.spec import (
    AVERAGED_LIKELIHOOD_GRID,
    PLAIN,
    RESIDUAL_BASES,
    TUNING,
    UNTRANSFORMED,
    CoordinateSpec,
    heavy_tailed,
)
from kexpfam.selection.validation import Validation, is_heavy_tailed


def try_families(
    validation: Validation,
    competing: Competitors,
    coordinates: Sequence[CoordinateSpec],
    *,
    likelihood: bool | None,
    verbose: bool = False,
) -> bool:
    """Validate families in all coordinates that are worth it.

    Ctrl-C between searches, which end with what they have, ends this, too. Returns
    whether components are isolated in some coordinates.
    """
    try:
        _add_coordinates(validation, competing, coordinates, verbose)
        return _try_kernels(validation, competing, likelihood, verbose)
    except KeyboardInterrupt:
        if not validation.tilted:
            raise
        validation.interrupted = True
        return False


def try_experts(validation: Validation, experts: Mapping[str, Any]) -> None:
    """Validate estimators of the user's, one after another."""
    for name, expert in experts.items():
        if validation.ended_before(name):
            continue
        found = cross_fitted(name, expert, validation.rows, validation.folds)
        validation.candidates.append(
            Candidate(name, None, None, np.inf, "expert", *found)
        )


def _add_coordinates(
    validation: Validation,
    competing: Competitors,
    coordinates: Sequence[CoordinateSpec],
    verbose: bool,
) -> None:
    if is_heavy_tailed(validation.rows, validation.spec):
        coordinates = heavy_tailed(list(coordinates))
    if not competing.families:  # but for the null model
        kept = PLAIN, UNTRANSFORMED
        coordinates = [spec for spec in coordinates if spec.name in kept]
    with ProgressBar("AutoKCEF, coordinates of y", shown=verbose) as bar:
        validation.add_coordinates(coordinates, bar)
        validation.add_bases()
    if competing.summaries and (validation.summary_pays() or not competing.families):
        with ProgressBar("AutoKCEF, a summary of x", shown=verbose):
            validation.add_summary()
    for name, summary in competing.given_summaries.items():
        validation.add_summary(f"summary by {name}", summary)


def _try_kernels(
    validation: Validation,
    competing: Competitors,
    likelihood: bool | None,
    verbose: bool,
) -> bool:
    few = len(validation.rows) <= TUNING.likelihood_rows
    wanted = few if likelihood is None else likelihood
    with ProgressBar("AutoKCEF, mean log p", shown=verbose) as bar:
        # A summary first: what it reaches tells which others are hopeless.
        on_x = [validation.worth_a_kernel] if competing.families else []
        for choose in (validation.summaries, *on_x):
            new = [name for name in choose() if name not in validation.tilted]
            tasks = [task for name in new for task in _tasks(validation, name)]
            if tasks:
                validation.run(tasks, bar)
            if validation.interrupted:
                return False
        isolated = isolated_coordinates(validation)
        # Where components are isolated, others by likelihood take their place.
        if wanted and competing.families and (likelihood or not isolated):
            _try_likelihood(validation, bar)
        if isolated and likelihood is not False:
            best = best_of(validation).chosen
            replace_blind_candidates(validation, isolated, best)
    return bool(isolated)


def _try_likelihood(validation: Validation, bar: Any) -> None:
    """Validate families by likelihood beside all others, if that may pay."""
    if not validation.likelihood_pays() or validation.ended_before("likelihood"):
        return
    grid = AVERAGED_LIKELIHOOD_GRID
    kernels_x = validation.kernels_x(PLAIN, grid)[1:]  # not the constant
    paths = grid.paths(kernels_x)
    validation.run(validation.tasks(PLAIN, paths, method="likelihood"), bar)


def _tasks(validation: Validation, name: str) -> list[Task]:
    """Kernels, λ and tails to try in some coordinates."""
    grid = validation.grid(name)
    tails_open = validation.is_regression(name) and not validation.has_summary(name)
    return validation.tasks(
        name,
        grid.paths(validation.kernels_x(name, grid)),
        bases=RESIDUAL_BASES if tails_open else (None,),
    )
