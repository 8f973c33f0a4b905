"""A fit as both estimators make it: choose what is open, solve, look for islands."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam._validation import check_positive
from kexpfam.data import ArraySource, Rows, Source
from kexpfam.errors import BlindnessWarning, DegenerateDataError
from kexpfam.islands import IslandReport
from kexpfam.kernels import SumOfProducts
from kexpfam.models.blindness import island_report
from kexpfam.models.chart import fit_chart
from kexpfam.models.choice import Choice, Selection
from kexpfam.models.family import (
    FittedFamily,
    Options,
    TrainingRows,
    fit_family,
    resolve_joint,
    solve,
    training_rows,
)
from kexpfam.models.finishing import Components
from kexpfam.models.many_rows import (
    SampledRows,
    Start,
    begin,
    iterated,
    sample_rows,
    with_all_rows,
)
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import LambdaRule, Running
from kexpfam.models.selected import choose
from kexpfam.models.solvers import COMPONENTS
from kexpfam.score_matching import CENTER_METHODS, IterativeFit
from kexpfam.selection import (
    CoarseSearch,
    PaperGrid,
    SearchResult,
)

# How the linear system of a fit is solved: what `KCEF.solver` may say and
# `KCEF.solver_` says.
SOLVERS = ("exact", "low-rank", "iterative")


@dataclass(frozen=True, eq=False)
class FamilyFit:
    """What a fit leaves behind.

    Attributes:
        family: The fitted family.
        selection: How its hyperparameters were found; None if they were given.
        islands: Masses of islands, compared with counts; None for several columns of y.
        running: Sums to which rows can be added; None if the fit is not low-rank.
        components: How many centres there are, and whether more would help; None if
            that was not judged.
        weight: Sum of the row weights.
        iterative: How conjugate gradients went; None if they were not used.
        complete: Whether all rows were in memory, and not only a sample of them.
        solver: How it was computed, for the user.
        neighbourhood: The rows behind `reliability`.
    """

    family: FittedFamily
    selection: Selection | SearchResult | None = None
    islands: IslandReport | None = None
    running: Running | None = None
    components: Components | None = None
    weight: float = 0.0
    iterative: IterativeFit | None = None
    complete: bool = True
    solver: str = ""
    neighbourhood: Neighbourhood | None = None


def fit_in_memory(rows: Rows, options: Options, rng: np.random.Generator) -> FamilyFit:
    """Fit the family to validated rows, and choose what the user left open."""
    _check_choices(options, rows.Y.shape[1])
    exact = _is_exact(options, rows.Y)
    if not exact and np.count_nonzero(rows.weights) > options.limits.design_rows:
        return fit_source(ArraySource(rows.X, rows.Y, rows.weights), options, rng)[0]
    # In an order of their own, the rows give the same model in any order of the user.
    training = training_rows(rows.X, rows.Y, rows.weights, options, shuffled=True)
    return _looked_at(_of_all(training, options, rng, exact=exact), options, rows)


def _of_all(
    rows: TrainingRows, options: Options, rng: np.random.Generator, *, exact: bool
) -> FamilyFit:
    """A fit to rows that are all there is."""
    settled = _is_settled(options)
    if exact or (settled and options.fit_method != "score"):
        fit = FamilyFit(fit_family(rows, options, rng))
    elif settled:
        fit = _low_rank(_given(rows, options, rng), options)
    else:
        fit = _selected(rows, options, rng)
    return replace(fit, weight=float(rows.weights.sum()))


def _selected(
    rows: TrainingRows, options: Options, rng: np.random.Generator
) -> FamilyFit:
    seed = int(rng.integers(2**31))
    choice = choose(rows, options, rng)
    if options.fit_method == "score" and choice.centers is not None:
        start = _start(choice, options, seed)
        if len(rows.Y) < options.limits.counted_rows and options.n_components is None:
            # With few rows what was judged is what is fitted: same centres, same λ.
            start = replace(start, centers=choice.centers)
        return replace(_low_rank(start, options), selection=choice.result)
    # What was judged is what is fitted: the same estimator with the same centres.
    family = solve(
        choice.charted,
        choice.kernel,
        choice.lam,
        seed=seed,
        centers=choice.centers,
        n_jobs=options.n_jobs,
        method=options.fit_method,
    )
    return FamilyFit(family, choice.result)


def fit_source(
    source: Source, options: Options, rng: np.random.Generator
) -> tuple[FamilyFit, Rows]:
    """The same for rows that are read block by block, in little memory; and a sample.

    Few rows are collected and fitted as if they had been in memory. Fits by likelihood
    and bridged ones are fits to a sample.
    """
    work = {"n_jobs": options.n_jobs, "client": options.client}
    state = rng.bit_generator.state
    seed = int(rng.integers(2**31))
    sampled = sample_rows(source, options.limits.design_rows, seed, **work)
    if sampled.complete:
        rng.bit_generator.state = state  # as if they had been in memory all along
        all_rows = collected(source)
        return fit_in_memory(all_rows, options, rng), all_rows
    block = sampled.block
    _check_choices(options, block.Y.shape[1])
    rows = training_rows(block.X, block.Y, block.weights, options)
    if options.fit_method != "score" or isinstance(options.search, PaperGrid):
        fit = replace(_of_all(rows, options, rng, exact=False), complete=False)
        return _looked_at(fit, options, block), block
    if _is_settled(options):
        start, result = _given(rows, options, rng), None
    else:
        choice = choose(rows, options, rng)
        start, result = _start(choice, options, seed), choice.result
    running = _with_enough_centers(begin(start, options), source, sampled, options)
    family, components = running.solved(options.n_jobs)
    fit = FamilyFit(
        family, result, None, running, components, running.weight, complete=False
    )
    if options.solver == "iterative":
        weight = running.weight
        family, found = iterated(start, options, family.lam, weight, source, sampled)
        fit = replace(fit, family=family, running=None, iterative=found)
    return _looked_at(fit, options, block), block


def _with_enough_centers(
    started: Running, source: Source, sampled: SampledRows, options: Options
) -> Running:
    """Sums over all rows; once more with twice the centres, while that would help."""
    running = started.narrowed()
    work = {"n_jobs": options.n_jobs, "client": options.client}
    while True:
        with ProgressBar("KCEF, parts of the data", shown=options.verbose) as bar:
            (running,) = with_all_rows([running], source, sampled, progress=bar, **work)
        size = running.sizes[-1]
        larger = [m for m in started.sizes if size < m <= 2 * size]
        found = running.components() if larger and running.free else None
        if found is None or not found.more_would_help:
            return running
        running = started.limited([size, *larger])


def _low_rank(start: Start, options: Options) -> FamilyFit:
    running = begin(start, options)
    family, components = running.solved(options.n_jobs)
    if options.solver == "iterative":
        family, found = iterated(start, options, family.lam, running.weight)
        return FamilyFit(family, components=components, iterative=found)
    return FamilyFit(family, None, None, running, components)


def _given(rows: TrainingRows, options: Options, rng: np.random.Generator) -> Start:
    """What the user gave, and rules for what is open."""
    seed = int(rng.integers(2**31))
    charted = fit_chart(rows.X, rows.Y, rows.weights, rows.options, rng)
    kernel = resolve_joint(options, charted.Z, charted.U, charted.weights)
    lam = options.regularization
    if lam is not None:
        check_positive("regularization", lam)
    objective = "likelihood" if isinstance(kernel, SumOfProducts) else "score"
    return Start(charted, rows, kernel, LambdaRule(objective, lam, True), seed)


def _start(choice: Choice, options: Options, seed: int) -> Start:
    given = options.regularization is not None
    rule = LambdaRule(options.select, choice.lam, given)
    return Start(choice.charted, choice.rows, choice.kernel, rule, seed)


def collected(source: Source) -> Rows:
    """All rows, in their order."""
    blocks = [block for part in source.parts for block in part.read()]
    if not blocks:
        raise DegenerateDataError("There are no rows with positive weight.")
    return Rows(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.Y for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
    )


def _looked_at(fit: FamilyFit, options: Options, rows: Rows) -> FamilyFit:
    """A fit with its masses of islands compared with counts."""
    if rows.Y.shape[1] > 1:
        return fit
    islands = island_report(fit.family, rows.X, rows.Y, rows.weights)
    if options.fit_method == "score" and islands.suspicious:
        warnings.warn(
            f"Masses of separated islands are wrong: {islands.finding}. Score matching "
            f"does not see them; use fit_method='likelihood' or fit_method='bridged', "
            f"or AutoKCEF, which considers likelihood fits by itself.",
            BlindnessWarning,
            stacklevel=4,
        )
    return replace(fit, islands=islands)


def _is_exact(options: Options, Y: Array) -> bool:
    """Whether there is nothing to choose, and the fit is small enough to be exact."""
    settled = _is_settled(options)
    if options.solver == "exact":
        if not settled or options.n_components is not None:
            raise ValueError(
                "solver='exact' is for a fit whose kernels and regularization are "
                "given, or select=None, and without n_components; give them, or leave "
                "solver out."
            )
        return True
    small = Y.size <= options.limits.exact_size and options.solver is None
    return settled and small and options.n_components is None


def _check_choices(options: Options, d: int) -> None:
    select, search = options.select, options.search
    if select not in ("likelihood", "score", None):
        raise ValueError(
            f"select must be 'likelihood', 'score' or None, got {select!r}."
        )
    if options.solver not in (None, *SOLVERS):
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, SOLVERS))}, or None, got "
            f"{options.solver!r}."
        )
    if options.centers not in CENTER_METHODS:
        raise ValueError(
            f"centers must be one of {', '.join(map(repr, CENTER_METHODS))}, got "
            f"{options.centers!r}."
        )
    method = options.fit_method
    if method not in COMPONENTS:
        raise ValueError(
            f"fit_method must be 'score', 'likelihood' or 'bridged', got {method!r}."
        )
    if method == "score":
        return
    if options.solver not in (None, "low-rank"):
        raise ValueError(
            f"solver={options.solver!r} is for fit_method='score', and fit_method is "
            f"{method!r}, whose fits are always low-rank; leave solver out."
        )
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
    """Whether there is nothing to choose; own kernels are not tuned."""
    if options.select is None:
        return True
    if options.kernel is not None and not isinstance(options.kernel, SumOfProducts):
        return True
    kernels = (
        [options.kernel] if options.kernel else [options.kernel_x, options.kernel_y]
    )
    return all(part is not None for part in [*kernels, options.regularization])
