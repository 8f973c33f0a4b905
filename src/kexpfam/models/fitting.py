"""A fit as both estimators make it: choose what is open, solve, look for islands."""

import warnings
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.errors import BlindnessWarning
from kexpfam.islands import IslandReport
from kexpfam.kernels import SumOfProducts
from kexpfam.models.blindness import island_report
from kexpfam.models.family import (
    FittedFamily,
    Options,
    fit_family,
    solve,
    training_rows,
)
from kexpfam.models.selected import Selection, choose
from kexpfam.models.solvers import COMPONENTS
from kexpfam.selection import CoarseSearch, SearchMethod, SearchResult


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit leaves behind.

    Attributes:
        family: The fitted family.
        selection: How its hyperparameters were found; None if they were given.
        islands: Masses of islands, compared with counts; None for several columns of y.
    """

    family: FittedFamily
    selection: Selection | SearchResult | None
    islands: IslandReport | None


def fit_rows(
    X: Array,
    Y: Array,
    weights: Array,
    options: Options,
    rng: np.random.Generator,
    *,
    select: str | None,
    search: SearchMethod,
    verbose: bool = False,
) -> Fit:
    """Fit the family to validated rows, and choose what the user left open.

    Args:
        X: Conditions, (n, p); p is 0 for the unconditional family.
        Y: Responses, (n, d).
        weights: Row weights, not negative; their sum counts the rows.
        options: The user's choices.
        rng: Deals folds, and gives a seed.
        select: How to choose, "likelihood", "score" or None.
        search: Where to look.
        verbose: Show a progress bar.

    Raises:
        ValueError: Arguments that do not go together.
    """
    _check_choices(options, select, search, Y.shape[1])
    if select is None or _is_settled(options):
        family, result = fit_family(X, Y, weights, options, rng), None
    else:
        family, result = _selected(X, Y, weights, options, rng, select, search, verbose)
    if Y.shape[1] > 1:
        return Fit(family, result, None)
    islands = island_report(family, X, Y, weights)
    if options.fit_method == "score" and islands.suspicious:
        warnings.warn(
            f"Masses of separated islands are wrong: {islands.finding}. Score matching "
            f"does not see them; use fit_method='likelihood' or fit_method='bridged', "
            f"or AutoKCEF, which considers likelihood fits by itself.",
            BlindnessWarning,
            stacklevel=3,
        )
    return Fit(family, result, islands)


def _selected(
    X: Array,
    Y: Array,
    weights: Array,
    options: Options,
    rng: np.random.Generator,
    select: str,
    search: SearchMethod,
    verbose: bool,
) -> tuple[FittedFamily, Selection | SearchResult]:
    rows = training_rows(X, Y, weights, options)
    seed = int(rng.integers(2**31))
    choice = choose(
        rows, options, rng, objective=select, search=search, verbose=verbose
    )
    # What was judged is what is fitted: the same estimator, with the same centres.
    family = solve(
        choice.charted,
        choice.kernel,
        choice.lam,
        seed=seed,
        centers=choice.centers,
        n_jobs=options.n_jobs,
        method=options.fit_method,
    )
    return family, choice.result


def _check_choices(
    options: Options, select: str | None, search: SearchMethod, d: int
) -> None:
    if select not in ("likelihood", "score", None):
        raise ValueError(
            f"select must be 'likelihood', 'score' or None, got {select!r}."
        )
    method = options.fit_method
    if method not in COMPONENTS:
        raise ValueError(
            f"fit_method must be 'score', 'likelihood' or 'bridged', got {method!r}."
        )
    if method == "score":
        return
    name = options.response_name
    if d > 1:
        raise ValueError(
            f"fit_method={method!r} is for one column of {name}, got {d}; use "
            f"fit_method='score', or model the columns one after another."
        )
    if select == "score":
        raise ValueError(
            f"select='score' judges fits by score matching only, and fit_method is "
            f"{method!r}; use select='likelihood' or None."
        )
    if select is not None and not isinstance(search, CoarseSearch):
        raise ValueError(
            f"search must be 'grid' with fit_method={method!r}, got {search!r}; the "
            f"other searches are for fit_method='score'."
        )


def _is_settled(options: Options) -> bool:
    """Whether kernels and λ leave nothing to choose; own kernels are not tuned."""
    if options.kernel is not None and not isinstance(options.kernel, SumOfProducts):
        return True
    kernels = (
        [options.kernel] if options.kernel else [options.kernel_x, options.kernel_y]
    )
    return all(part is not None for part in [*kernels, options.regularization])
