"""What an average tries: families in all coordinates that are worth it, and experts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam.estimators.experts import ExpertSpec, cross_fitted
from kexpfam.kernels import Kernel
from kexpfam.selection import Candidate
from kexpfam.selection.candidates import Task
from kexpfam.selection.choosing import best_of
from kexpfam.selection.finishing import isolated_coordinates, replace_blind_candidates
from kexpfam.selection.kernel_grids import coarse, grid_tasks, kernels_x
from kexpfam.selection.spec import (
    AVERAGED_LIKELIHOOD_GRID,
    GAUSSIANIZED,
    PLAIN,
    PLAIN_SCOUTS,
    RESIDUAL_BASES,
    TUNING,
    UNTRANSFORMED,
    CoordinateSpec,
    heavy_tailed,
)
from kexpfam.selection.validation import Validation, is_heavy_tailed


def try_families(
    validation: Validation,
    experts: ExpertSpec,
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
        _add_coordinates(validation, experts, coordinates, verbose)
        return _try_kernels(validation, experts, likelihood, verbose)
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
    experts: ExpertSpec,
    coordinates: Sequence[CoordinateSpec],
    verbose: bool,
) -> None:
    if is_heavy_tailed(validation.rows, validation.spec):
        coordinates = heavy_tailed(list(coordinates))
    if not experts.families:  # but for the null model
        kept = PLAIN, UNTRANSFORMED
        coordinates = [spec for spec in coordinates if spec.name in kept]
    with ProgressBar("AutoKCEF, coordinates of y", shown=verbose) as bar:
        validation.add_coordinates(coordinates, bar)
        validation.add_bases()
    if experts.summaries and (validation.summary_pays() or not experts.families):
        with ProgressBar("AutoKCEF, a summary of x", shown=verbose):
            validation.add_summary()
    for name, summary in experts.given_summaries.items():
        validation.add_summary(f"summary by {name}", summary)


def _try_kernels(
    validation: Validation,
    experts: ExpertSpec,
    likelihood: bool | None,
    verbose: bool,
) -> bool:
    few = len(validation.rows) <= TUNING.likelihood_rows
    wanted = few if likelihood is None else likelihood
    with ProgressBar("AutoKCEF, mean log p", shown=verbose) as bar:
        # A summary first: what it reaches tells which others are hopeless.
        # Some family has to be the best one, whatever else is named.
        alone = not (experts.summaries or experts.given_summaries)
        on_x = [validation.worth_a_kernel] if experts.families or alone else []
        for choose in (validation.summaries, *on_x):
            new = [name for name in choose() if name not in validation.tilted]
            for tasks in _in_stages(validation, new):
                if tasks:
                    validation.run(tasks, bar)
                if validation.interrupted:
                    return False
        isolated = isolated_coordinates(validation)
        # Where components are isolated, others by likelihood take their place.
        if wanted and experts.families and (likelihood or not isolated):
            _try_likelihood(validation, bar)
        if isolated and likelihood is not False:
            best = best_of(validation).chosen
            replace_blind_candidates(validation, isolated, best)
    return bool(isolated)


def _try_likelihood(validation: Validation, bar: Any) -> None:
    """Validate families by likelihood beside all others, if that may pay."""
    if not validation.likelihood_pays() or validation.ended_before("likelihood"):
        return
    weights = validation.weights
    grid = coarse(validation, PLAIN, AVERAGED_LIKELIHOOD_GRID)
    tried = kernels_x(validation, PLAIN, grid)[1:]  # not the constant
    liked: dict[Kernel, float] = {}
    for candidate in validation.candidates:
        if candidate.coordinates == PLAIN and candidate.kernel is not None:
            kernel_x, mean = candidate.kernel.products[0][0], candidate.mean(weights)
            liked[kernel_x] = max(mean, liked.get(kernel_x, -np.inf))
    tried = sorted(tried, key=lambda kernel: -liked.get(kernel, -np.inf))
    paths = grid.paths(tried[: validation.tuning.likelihood_kernels])
    validation.run(validation.tasks(PLAIN, paths, method="likelihood"), bar)


def _in_stages(validation: Validation, names: Sequence[str]) -> Iterator[list[Task]]:
    """Kernels to try in some coordinates, those around a regression first.

    Without one kernels have to learn everything from x; a few scouts tell whether that
    can come near what others have reached by then, and whether the rest is tried.
    """
    plain = [name for name in names if name in (PLAIN, GAUSSIANIZED)]
    others = [name for name in names if name not in plain]
    tails = RESIDUAL_BASES
    yield [task for name in others for task in grid_tasks(validation, name, tails)]
    for name in plain:
        few = coarse(validation, name, PLAIN_SCOUTS)
        paths = few.paths(kernels_x(validation, name, few, relevance=False))
        yield validation.tasks(name, paths)
    for name in plain:
        if name in validation.tilted and not validation.may_catch_up(name):
            continue
        known = [c.kernel for c in validation.candidates if c.coordinates == name]
        tasks = grid_tasks(validation, name, tails)
        yield [task for task in tasks if task.path.kernel not in known]
