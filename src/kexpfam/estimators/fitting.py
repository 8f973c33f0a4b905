"""The way of a fit: rows, coordinates, statistics, family.

    spec      what the user gave and left open
    choose    what is open, by what is held out          selection
    placed    rows in the coordinates of the kernel      family.coordinates
    stats     C and b of every fold, once                family.statistics
    family    (C + λR) α = −b                            family.components

Exact fits and those by likelihood have a solver of their own instead of statistics.
Rows that are read block by block go the same way, chosen for on a sample of them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam._validation import check_choice, check_positive
from kexpfam.base_densities import pulled_in
from kexpfam.data import ArraySource, Rows, Source, TrainingRows
from kexpfam.errors import BlindnessWarning, DegenerateDataError, WeightWarning
from kexpfam.family import (
    CRITERIA,
    SOLVERS,
    Components,
    FittedFamily,
    FoldStatistics,
    IsolatedComponents,
    LambdaRule,
    RowsBeyond,
    Spec,
    check_masses,
    choose_components,
    fit_coordinates,
    narrowed,
    resolve_kernel,
    sample_rows,
    solve_iteratively,
    solve_statistics,
    solve_with_others,
    sum_statistics,
    with_all_rows,
)
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.score_matching import CENTER_METHODS, IterativeFit
from kexpfam.selection import CoarseSearch, PaperGrid, SearchResult, Selection
from kexpfam.selection.bootstrap import fit_family_replicates, refuse_bootstrap
from kexpfam.selection.choosing import base_for, choose
from kexpfam.selection.finishing import choose_by_likelihood
from kexpfam.selection.results import Selected

# How the linear system of a fit is solved: what `KCEF.solver` may say and
# `KCEF.solver_` says.
LINEAR_SOLVERS = ("exact", "low-rank", "iterative")


@dataclass(frozen=True, eq=False)
class FamilyFit:
    """What a fit leaves behind."""

    family: FittedFamily
    selection: Selection | SearchResult | None = None  # None if nothing was open
    isolated: IsolatedComponents | None = None  # None for several columns of y
    # None if the fit is not low-rank; of few rows made when they are asked for
    statistics: FoldStatistics | Callable[[], FoldStatistics] | None = None
    components: Components | None = None  # None if their number was not chosen
    weight: float = 0.0  # Sum of the row weights
    iterative: IterativeFit | None = None  # None if there were no iterations
    complete: bool = True  # Whether all rows were in memory, and not only a sample
    solver: str = ""  # How it was computed, for the user
    method: str = ""  # How T was fitted, the name of a `Solver`
    neighbourhood: Neighbourhood | None = None  # The rows behind `reliability`
    replicates: tuple[FittedFamily, ...] = ()  # Fits to rows with random weights


def fit_rows(rows: Rows, spec: Spec, rng: np.random.Generator) -> FamilyFit:
    """Fit the family to validated rows, and choose what the user left open."""
    _check(spec, rows.Y.shape[1])
    if spec.settled and spec.regularization is None:
        _warn_of_weights(rows.weights)
    exact = _is_exact(spec, rows.Y)
    if not exact and np.count_nonzero(rows.weights) > spec.limits.design_rows:
        return fit_source(ArraySource(rows.X, rows.Y, rows.weights), spec, rng)[0]
    # In an order of their own, the rows give the same model in any order of the user.
    training = TrainingRows.of(rows, shuffled=True)
    fit, selected = _fit(training, spec, rng, exact=exact)
    fit, selected = _with_masses(fit, selected, spec, rng)
    if not spec.bootstrap:
        return fit
    replicates = fit_family_replicates(
        fit.family,
        selected,
        fit.method or spec.fit_method,
        spec.bootstrap,
        n_jobs=spec.n_jobs,
        verbose=spec.verbose,
    )
    return replace(fit, replicates=replicates)


def fit_source(
    source: Source, spec: Spec, rng: np.random.Generator
) -> tuple[FamilyFit, Rows]:
    """The same for rows that are read block by block, in little memory; and a sample.

    Few rows are collected and fitted as if they had been in memory. Bridged fits are
    fits to a sample.
    """
    work = {"n_jobs": spec.n_jobs, "client": spec.client}
    state = rng.bit_generator.state
    seed = int(rng.integers(2**31))
    sampled = sample_rows(source, spec.limits.design_rows, seed, **work)
    if sampled.complete:
        rng.bit_generator.state = state  # as if they had been in memory all along
        everything = collected(source)
        return fit_rows(everything, spec, rng), everything
    _check(spec, sampled.rows.Y.shape[1])
    refuse_bootstrap(spec.bootstrap, "rows that are not all in memory")
    if spec.solver == "exact":
        raise ValueError(
            f"solver='exact' needs all rows in memory, and there are more than "
            f"{spec.limits.design_rows} to be read block by block; leave solver out."
        )
    rows = TrainingRows.of(sampled.rows)
    beyond = RowsBeyond(source, sampled, **work)
    # Rows to choose on and folds of all come from one seed, where there are folds.
    summed = SOLVERS[spec.fit_method].additive and not isinstance(
        spec.search, PaperGrid
    )
    same = seed if summed and not spec.settled else None
    fit, selected = _fit(rows, spec, rng, exact=False, beyond=beyond, seed=same)
    fit = replace(fit, complete=False)
    return _with_masses(fit, selected, spec, rng, beyond)[0], sampled.rows


def _fit(
    rows: TrainingRows,
    spec: Spec,
    rng: np.random.Generator,
    *,
    exact: bool,
    beyond: RowsBeyond | None = None,
    seed: int | None = None,
) -> tuple[FamilyFit, Selected]:
    """A fit to rows, and to those beyond them; and what was selected for it."""
    seed = int(rng.integers(2**31)) if seed is None else seed
    selected, rule = _selected(rows, spec, rng)
    solver = SOLVERS[spec.fit_method]
    low_rank = spec.settled or selected.centers is not None
    additive = low_rank and solver.additive and not exact
    # With few rows what was validated is what is fitted: same centres, same λ.
    few = len(rows) < spec.limits.counted_rows and spec.n_components is None
    few = few and not spec.settled and beyond is None
    summed = partial(
        sum_statistics,
        selected.placed,
        selected.rows,
        selected.kernel,
        rule,
        replace(spec, client=None),
        seed=seed,
        centers=selected.centers if few else None,
    )
    directly = few and not spec.derivatives and spec.solver != "iterative"
    if not additive or directly:
        chosen = replace(selected, centers=None if exact else selected.centers)
        family, weight = _solved(chosen, spec, seed, beyond)
        later = summed if additive else None
        fit = FamilyFit(family, selected.result, statistics=later, weight=weight)
        return fit, selected
    stats, weight = summed(), float(rows.weights.sum())
    if beyond is not None:
        stats = _with_enough_centers(stats, beyond, spec)
        weight = stats.weight
    family, components = solve_statistics(stats, spec.n_jobs)
    fit = FamilyFit(family, selected.result, None, stats, components, weight)
    if spec.solver == "iterative":
        family, found = solve_iteratively(
            selected.placed, stats, spec, family.lam, beyond
        )
        fit = replace(fit, family=family, statistics=None, iterative=found)
    return fit, selected


def _solved(
    selected: Selected, spec: Spec, seed: int, beyond: RowsBeyond | None
) -> tuple[FittedFamily, float]:
    """A family as it was selected, and the weight of the rows it was fitted to."""
    family, weight = solve_with_others(
        selected.placed,
        selected.kernel,
        check_positive("regularization", selected.lam),
        selected.centers,
        beyond,
        solver=SOLVERS[spec.fit_method],
        seed=seed,
        n_jobs=spec.n_jobs,
        given=spec.regularization is not None,
    )
    return family, float(selected.placed.weights.sum()) if weight is None else weight


def _selected(
    rows: TrainingRows, spec: Spec, rng: np.random.Generator
) -> tuple[Selected, LambdaRule]:
    """What the user gave or what was chosen, and how λ is found from statistics."""
    if not spec.settled:
        selected = choose(rows, spec, rng)
        given = spec.regularization is not None
        return selected, LambdaRule(spec.select, selected.lam, given)
    place = partial(
        fit_coordinates,
        base=base_for(rows, spec),
        rng=rng,
        standardize=spec.standardize,
        name=spec.response_name,
        far_x=pulled_in(rows.X, rows.weights) if spec.standardize else None,
    )
    placed = place(rows)
    kernel = resolve_kernel(spec, placed.Z, placed.U, placed.weights)
    solver, lam = SOLVERS[spec.fit_method], spec.regularization
    if lam is not None:
        check_positive("regularization", lam)
    objective = "likelihood" if kernel.products else "score"
    selected = Selected(
        placed,
        rows,
        kernel,
        solver.untuned_lambda(kernel, rows.weights.sum()) if lam is None else lam,
        solver.centers(len(rows), spec.n_components),
        None,
        reweighted=lambda w: place(replace(rows, weights=rows.weights * w)),
    )
    return selected, LambdaRule(objective, lam, True)


def _with_enough_centers(
    started: FoldStatistics, beyond: RowsBeyond, spec: Spec
) -> FoldStatistics:
    """Sums over all rows; once more with twice the centres, while that would help."""
    stats = narrowed(started)
    while True:
        with ProgressBar("KCEF, parts of the data", shown=spec.verbose) as bar:
            (stats,) = with_all_rows([stats], beyond, bar)
        size = stats.sizes[-1]
        larger = [m for m in started.sizes if size < m <= 2 * size]
        found = choose_components(stats) if larger and stats.free else None
        if found is None or not found.more_would_help:
            return stats
        stats = started.limited([size, *larger])


def collected(source: Source) -> Rows:
    """All rows, in their order."""
    blocks = [block for part in source.parts for block in part.read()]
    if not blocks:
        raise DegenerateDataError("There are no rows with positive weight.")
    return Rows.concatenate(blocks)


def _with_masses(
    fit: FamilyFit,
    selected: Selected,
    spec: Spec,
    rng: np.random.Generator,
    beyond: RowsBeyond | None = None,
) -> tuple[FamilyFit, Selected]:
    """A fit with its masses of isolated components compared with counts.

    Where there are such components, and the user did not say how to fit them, it is
    finished by likelihood, to the same rows and those beyond them; and what was
    selected for that.
    """
    isolated = _masses(fit.family, selected)
    fit, d = replace(fit, isolated=isolated), selected.rows.Y.shape[1]
    if isolated.found and _is_finished(spec, d):
        finished = _by_likelihood(fit, selected, spec, rng, beyond)
        if finished is not None:
            found, better = finished
            return replace(found, isolated=_masses(found.family, selected)), better
    if SOLVERS[spec.fit_method].additive and isolated.suspicious:
        warnings.warn(
            f"Masses of isolated components are wrong: {isolated.finding}. Score "
            f"matching does not see them; {_remedy(d)}.",
            BlindnessWarning,
            stacklevel=4,
        )
    return fit, selected


def _masses(family: FittedFamily, selected: Selected) -> IsolatedComponents:
    """Masses by a fit and by counting, with the row numbers of the user.

    Rows are distinct and in an order of their own, so that neither copies nor the order
    of the user decide how a fit is made.
    """
    rows = selected.rows
    # A learned summary has seen the rows: held-out ones are compared.
    placed = None if family.coordinates.summary is None else selected.placed
    found = check_masses(family, rows.X, rows.Y, rows.weights, placed=placed)
    theirs = [
        c if c.index is None else replace(c, index=int(rows.numbers[c.index]))
        for c in found.comparisons
    ]
    return replace(found, comparisons=tuple(theirs))


def _remedy(d: int) -> str:
    if d > 1:
        return "model the columns one after another, with FactorizedDensity"
    return (
        "leave fit_method out, or use fit_method='likelihood' or fit_method='bridged', "
        "or AutoKCEF"
    )


def _is_finished(spec: Spec, d: int) -> bool:
    """Whether a fit with isolated components is to be finished by likelihood.

    Where all was given there is one such fit, and the user asked for it.
    """
    products = spec.kernel is None or bool(spec.kernel.products)
    return (
        spec.finish
        and d == 1
        and products
        and not spec.all_given
        and spec.select != "score"
        and spec.solver in (None, "low-rank")
        and not isinstance(spec.search, PaperGrid)
    )


def _by_likelihood(
    fit: FamilyFit,
    selected: Selected,
    spec: Spec,
    rng: np.random.Generator,
    beyond: RowsBeyond | None,
) -> tuple[FamilyFit, Selected] | None:
    """The fit to the same rows by likelihood; None if it predicts worse."""
    spec = replace(spec, fit_method="likelihood", finish=False)
    better: Selected | None
    if selected.validation is None:  # nothing was validated: an untuned fit
        found, better = _fit(selected.rows, spec, rng, exact=False, beyond=beyond)
    else:
        better = choose_by_likelihood(selected)
        if better is None:
            return None
        family, _ = _solved(better, spec, fit.family.seed, beyond)
        found = FamilyFit(family, better.result)
    found = replace(
        found, weight=fit.weight, complete=fit.complete, method=spec.fit_method
    )
    return found, better


def _is_exact(spec: Spec, Y: Array) -> bool:
    """Whether there is nothing to choose, and the fit is small enough to be exact."""
    if spec.solver == "exact":
        if not spec.settled or spec.n_components is not None:
            raise ValueError(
                "solver='exact' is for a fit whose kernels and regularization are "
                "given, or select=None, and without n_components; give them, or leave "
                "solver out."
            )
        return True
    small = Y.size <= spec.limits.exact_size and spec.solver is None
    free = spec.n_components is None and SOLVERS[spec.fit_method].additive
    return spec.settled and small and free


def _check(spec: Spec, d: int) -> None:
    """Refuse what does not fit together."""
    check_choice("select", spec.select, (*CRITERIA, None))
    check_choice("solver", spec.solver, (*LINEAR_SOLVERS, None))
    check_choice("centers", spec.centers, CENTER_METHODS)
    if spec.bootstrap:
        _check_bootstrap_of(spec, d)
    method = spec.fit_method
    check_choice("fit_method", method, (*SOLVERS, None))
    if SOLVERS[method].additive:
        return
    if spec.solver not in (None, "low-rank"):
        raise ValueError(
            f"solver={spec.solver!r} is for fit_method='score', and fit_method is "
            f"{method!r}, whose fits are always low-rank; leave solver out."
        )
    if d > 1:
        raise ValueError(
            f"fit_method={method!r} is for one column of {spec.response_name}, got "
            f"{d}; use fit_method='score', or model the columns one after another."
        )
    if spec.select == "score":
        raise ValueError(
            f"select='score' is for fits by score matching only, and fit_method is "
            f"{method!r}; use select='likelihood' or None."
        )
    if spec.select is not None and not isinstance(spec.search, CoarseSearch):
        raise ValueError(
            f"search must be 'grid' with fit_method={method!r}, got a "
            f"{type(spec.search).__name__}; that is for fit_method='score'."
        )


def _check_bootstrap_of(spec: Spec, d: int) -> None:
    """Refuse replicates of fits that `solve` does not make."""
    for wanted, what in (
        (d > 1, f"several columns of {spec.response_name}"),
        (spec.solver == "iterative", "solver='iterative'"),
        (spec.derivatives, "derivative_features=True"),
    ):
        if wanted:
            refuse_bootstrap(spec.bootstrap, what)


def _warn_of_weights(
    weights: Array,
    *,
    most: float = 3.0,  # Times that their sum may be off; a guess
    most_counts: float = 100.0,  # The same for whole numbers, which may be meant so
) -> None:
    """Say that a λ is for as many rows as weights sum to, if that is surprising."""
    used = weights[weights > 0]
    total, n = float(used.sum()), len(used)
    limit = most_counts if np.array_equal(used, np.rint(used)) else most
    if n / limit <= total <= n * limit:
        return
    warnings.warn(
        f"sample_weight sums to {total:.3g}, and there are {n} rows. A row of weight "
        f"two counts as two rows, so λ is one for {total:.3g} rows. If only ratios of "
        f"weights matter, divide them by their mean; or give regularization, or let it "
        f"be chosen (select='likelihood').",
        WeightWarning,
        stacklevel=4,
    )
