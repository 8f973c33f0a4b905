"""Selection for one `KCEF`: among bases, kernels and λ, by what is held out.

What the user gave is kept; what was left open is searched.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._progress import ProgressBar
from kexpfam._validation import check_positive
from kexpfam.base_densities import BaseDensity, TransformedBase
from kexpfam.kernels import (
    MEDIAN,
    Constant,
    Gaussian,
    JointKernel,
    Kernel,
    LengthScale,
    RadialKernel,
    SumOfProducts,
    separable,
)
from kexpfam.models.choice import Choice, Selection
from kexpfam.models.contest import MOST_REGRESSIONS, Contest, Task
from kexpfam.models.entries import (
    LIKELIHOOD_GRID,
    PLAIN,
    PLAIN_GRID,
    REGRESSION_GRID,
    ChartEntry,
    KernelGrid,
    default_entries,
)
from kexpfam.models.family import (
    Options,
    TrainingRows,
    judged_components,
    resolve_joint,
)
from kexpfam.models.solvers import chosen_centers, score_sample
from kexpfam.selection import (
    BASES_ALONE,
    Candidate,
    GradientSearch,
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutProblem,
    HeldOutScore,
    Line,
    PaperGrid,
    Parameters,
    Penalty,
    SearchMethod,
    SearchResult,
    paper_grid,
    prior_weights,
    refine,
    tempered_weights,
)

# Charts in which fits of each method compete. Likelihood and bridged fits cost more, so
# they do in the chart without a regression and in the best of the others only.
MOST_CHARTS = {"score": 1 + MOST_REGRESSIONS, "likelihood": 2, "bridged": 2}

# Trials of a descent that are kept for all rows, if some were judged; from where the
# others have led to, few steps are left.
LAST_TRIALS = 8


def choose(rows: TrainingRows, options: Options, rng: np.random.Generator) -> Choice:
    """Choose what the user left open."""
    objective, search, verbose = options.select, options.search, options.verbose
    assert objective is not None
    _check(rows, options, objective, search)
    contest = Contest.of(rows, rng, options.limits)
    contest.n_centers, contest.n_jobs = judged_components(options), options.n_jobs
    if isinstance(search, PaperGrid):
        with single_threaded_blas():
            return _on_paper_grid(contest, options, objective, search, verbose)
    contest.add_charts(_entries(rows, options, objective))
    names = list(contest.charts)
    if objective == "likelihood":
        contest.add_bases()
        names = contest.promising()[: MOST_CHARTS[options.fit_method]]
    tasks = [task for name in names for task in _tasks(contest, name, options)]
    with ProgressBar("KCEF, mean log p", shown=verbose) as bar:
        contest.run(tasks, bar, objective=objective)
    selection = best_of(contest, objective)
    chosen = selection.chosen
    assert chosen.kernel is not None
    charted = replace(contest.final(chosen.chart), base=chosen.base)
    centers = chosen_centers(len(charted.U), contest.n_centers)
    choice = Choice(
        charted, contest.all_rows, chosen.kernel, chosen.lam, centers, selection
    )
    if isinstance(search, GradientSearch) and selection.reason != "interrupted":
        with single_threaded_blas():
            return _refined(contest, choice, options, search, objective, verbose)
    return choice


def _check(
    rows: TrainingRows, options: Options, objective: str, search: SearchMethod
) -> None:
    """Refuse what cannot be searched, before any work is done."""
    if options.regularization is not None:
        check_positive("regularization", options.regularization)
    # Rows without distances: only what the user gave is looked at.
    nothing = np.zeros((1, 0))
    resolve_joint(options, nothing, nothing, np.ones(1))
    columns = rows.Y.shape[1]
    if columns > 1 and objective == "likelihood" and not _is_coarse(search):
        raise ValueError(
            f"{type(search).__name__} with select='likelihood' is for one column of y, "
            f"got {columns}; use select='score', or search='grid'."
        )


def _is_coarse(search: SearchMethod) -> bool:
    return not isinstance(search, GradientSearch | PaperGrid)


def _entries(rows: TrainingRows, options: Options, objective: str) -> list[ChartEntry]:
    given = options.base, options.kernel, options.kernel_x, options.kernel_y
    some = any(part is not None for part in (*given, options.regularization))
    if some or objective == "score":
        # Lengths and λ of the user are meant for one chart, and scores in different
        # coordinates cannot be compared.
        return [ChartEntry(PLAIN, rows.options.base)]
    entries = default_entries()
    if options.fit_method == "bridged":
        entries[0] = ChartEntry(PLAIN, rows.options.base)  # wide enough for a bridge
    if rows.Y.shape[1] > 1 or not rows.X.shape[1]:
        # Transforms are for one column of y, regressions need columns of x.
        entries = [e for e in entries if not isinstance(e.base, TransformedBase)]
    return entries if rows.X.shape[1] else entries[:1]


def _tasks(contest: Contest, name: str, options: Options) -> list[Task]:
    regression = contest.charts[name].chart.frame is not None
    method = options.fit_method
    grid = REGRESSION_GRID if regression else PLAIN_GRID
    grid = LIKELIHOOD_GRID if method == "likelihood" else grid
    if options.kernel is not None:
        charted = contest.charts[name]
        kernels: list[JointKernel] = [
            resolve_joint(options, charted.Z, charted.U, charted.weights)
        ]
    else:
        kernels = [
            separable(kx, ky)
            for kx, ky in itertools.product(
                _kernels_x(contest, name, grid, options), _kernels_y(grid, options)
            )
        ]
    own: tuple[BaseDensity | None, ...] = (None,)
    # Far from the data a regression can be wrong by many of its deviations: a family
    # around it needs heavy tails, having no others to fall back on.
    several = regression and options.base is None and method == "score"
    bases = BASES_ALONE[1:] if several else own
    bridged = method == "bridged"
    return [
        Task(name, contest.problem(name, base, bridged=bridged), line, method)
        for base in bases
        for line in (Line(kernel, _lams(grid, kernel, options)) for kernel in kernels)
    ]


def _is_open(kernel: Kernel | None) -> bool:
    """Whether a kernel has a lengthscale that was not given."""
    if kernel is None:
        return True
    lengths: list[LengthScale] = []

    def note(lengthscale: LengthScale) -> LengthScale:
        lengths.append(lengthscale)
        return lengthscale

    kernel.map_lengthscales(note)
    return MEDIAN in lengths


def _kernels_x(
    contest: Contest, name: str, grid: KernelGrid, options: Options
) -> list[Kernel]:
    given = options.kernel_x
    if given is not None and not _is_open(given):
        return [given]
    kernels = contest.kernels_x(name, grid)
    if given is None:
        return kernels
    return [
        _with_lengthscale(given, kernel.lengthscale)
        for kernel in kernels
        if isinstance(kernel, Gaussian)
    ]


def _kernels_y(grid: KernelGrid, options: Options) -> list[Kernel]:
    given = options.kernel_y
    if given is not None and not _is_open(given):
        return [given]
    family = given or Gaussian(MEDIAN)
    return [_with_lengthscale(family, ell) for ell in grid.lengthscales_y]


def _with_lengthscale(kernel: Kernel, lengthscale: Any) -> Kernel:
    """A kernel whose open lengthscales are filled in; given ones are kept."""

    def replacement(current: LengthScale) -> LengthScale:
        ell: LengthScale = lengthscale
        return ell if current == MEDIAN else current

    return kernel.map_lengthscales(replacement)


def _lams(grid: KernelGrid, kernel: JointKernel, options: Options) -> tuple[float, ...]:
    if options.regularization is not None:
        return (options.regularization,)
    if options.fit_method == "likelihood":
        return LIKELIHOOD_LAMS
    ell = kernel.resolution if np.isfinite(kernel.resolution) else 1.0
    return tuple(r / ell**2 for r in grid.relative_lams)


# λ of likelihood fits does not scale with the lengthscale.
LIKELIHOOD_LAMS = (1e-4, 1e-3, 1e-2, 1e-1)


def best_of(contest: Contest, objective: str = "likelihood") -> Selection:
    """The chart with the most weight, and the best family in it.

    Raises:
        KeyboardInterrupt: The contest was interrupted before the first fit.
    """
    path = tuple(contest.candidates)
    weights = contest.weights
    tilted = [c for c in path if c.kernel is not None]
    if not tilted:  # interrupted before the first fit
        raise KeyboardInterrupt
    if objective == "likelihood":
        prior = prior_weights(path, PLAIN)
        shares = tempered_weights(np.stack([c.held_out for c in path]), prior, weights)
        charts = np.array([c.chart for c in path])
        tried = dict.fromkeys(c.chart for c in tilted)  # in order, unlike a set
        best = max(tried, key=lambda name: float(shares[charts == name].sum()))
        tilted = [c for c in tilted if c.chart == best]
        # See `_tasks`: families around a regression need heavy tails.
        heavy = [c for c in tilted if np.isfinite(c.base.tail_index)]
        tilted = tilted if best == PLAIN else heavy or tilted
    found = Selection(
        path,
        tilted[0],
        weights,
        len(contest.folds),
        (),
        contest.reason,
        objective=objective,
    )
    chosen = max(tilted, key=found.merit)
    return replace(found, chosen=chosen, active_bounds=_active(path, chosen))


def _active(path: Sequence[Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Ends of the chart's grid that the choice lies on."""
    rivals = [c for c in path if c.chart == chosen.chart and c.kernel is not None]
    active = []
    for name, measure in (
        ("lengthscale_y", _resolution),
        ("regularization times lengthscale_y²", _relative_lam),
    ):
        values = np.array([measure(c) for c in rivals])
        if np.ptp(values) == 0:
            continue
        for end, value in (("lower", values.min()), ("upper", values.max())):
            if np.isclose(measure(chosen), value, rtol=1e-9):
                active.append(f"{end} end of {name}")
    return tuple(active)


def _resolution(candidate: Candidate) -> float:
    assert candidate.kernel is not None
    ell = candidate.kernel.resolution
    return ell if np.isfinite(ell) else 1.0


def _relative_lam(candidate: Candidate) -> float:
    return candidate.lam * _resolution(candidate) ** 2


def _on_paper_grid(
    contest: Contest, options: Options, objective: str, search: PaperGrid, verbose: bool
) -> Choice:
    """The paper's protocol: one base density, all rows as centres."""
    given = {"kernel_x": options.kernel_x, options.kernel_name: options.kernel_y}
    settled: dict[str, object] = {
        name: kernel
        for name, kernel in given.items()
        if not _is_open(kernel) and kernel != Constant()
    }
    if options.kernel is not None:
        settled["kernel"] = options.kernel
    for name, value in settled.items():
        raise ValueError(
            f"search='paper' chooses all lengthscales, but {name}={value!r} was given; "
            f"leave it out, or use search='grid'."
        )
    contest.add_charts([ChartEntry(PLAIN, contest.rows.options.base)])
    problem = contest.problem(PLAIN)
    lam = options.regularization
    result = paper_grid(
        replace(problem, centers=np.arange(len(problem.sample.Y))),
        kernel_x=options.kernel_x,
        kernel_y=options.kernel_y,
        lengthscales=search.lengthscales,
        lambdas=search.lambdas if lam is None else (lam,),
        objective=objective,
        verbose=verbose,
    )
    charted = contest.final(PLAIN)
    return Choice(
        charted, contest.all_rows, result.kernel, result.regularization, None, result
    )


def _refined(
    contest: Contest,
    choice: Choice,
    options: Options,
    search: GradientSearch,
    objective: str,
    verbose: bool,
) -> Choice:
    """Descend from a choice, over what the user left open.

    If only some rows were judged, a few last trials are made with all of them.
    """
    assert isinstance(choice.result, Selection)
    problem = contest.problem(choice.result.chosen.chart, choice.charted.base)
    terms = choice.kernel.terms if isinstance(choice.kernel, SumOfProducts) else ()
    if len(terms) != 1 or not isinstance(terms[0][1], RadialKernel):
        raise ValueError(
            f"search='gradient' is for a product of two radial kernels, got "
            f"{choice.kernel!r}; use search='grid'."
        )
    ((kernel_x, kernel_y),) = terms
    assert isinstance(kernel_y, RadialKernel)
    lengths = getattr(kernel_x, "lengthscale", ())
    p = problem.sample.X.shape[1] if isinstance(kernel_x, RadialKernel) else 0
    ell_x = tuple(np.broadcast_to(lengths, p).tolist()) if p else ()
    start = Parameters(ell_x, kernel_y.resolution, choice.lam)
    penalty = Penalty(search.penalty, start) if search.penalty else None

    def descent(
        problem: HeldOutProblem, start: Parameters, trials: int
    ) -> SearchResult:
        likelihood = objective == "likelihood"
        criterion = HeldOutLikelihood.of(problem) if likelihood else HeldOutScore()
        return refine(
            HeldOutObjective(
                problem, kernel_x, kernel_y, criterion, penalty, options.n_jobs
            ),
            start,
            bounds=search.bounds,
            shared_x=search.shared_x,
            fixed=_given(options),
            max_trials=trials,
            verbose=verbose,
        )

    last = min(LAST_TRIALS, search.max_trials // 2) if contest.everyone else 0
    result = descent(problem, start, search.max_trials - last)
    if last and result.reason != "interrupted":
        result = _with_all_rows(contest, choice, result, last, descent)
    return replace(
        choice, kernel=result.kernel, lam=result.regularization, result=result
    )


def _with_all_rows(
    contest: Contest,
    choice: Choice,
    first: SearchResult,
    trials: int,
    descent: Callable[[HeldOutProblem, Parameters, int], SearchResult],
) -> SearchResult:
    """Continue a descent on some rows with all of them."""
    judged, n = len(contest.rows.Y), len(choice.charted.U)
    on_some = f"on {judged} rows {first.reason}"
    try:
        result = descent(_all_in_folds(contest, choice), first.best.parameters, trials)
    except KeyboardInterrupt:  # before the first trial
        return replace(first, reason="interrupted")
    reason = f"{on_some}; from there on all {n} rows {result.reason}"
    return replace(result, path=first.path + result.path, reason=reason)


def _all_in_folds(contest: Contest, choice: Choice) -> HeldOutProblem:
    """All rows in their chart, with the centres of the final fit."""
    charted, n = choice.charted, len(choice.charted.U)
    assert choice.centers is not None
    # Rows may come sorted, and a fold must not be one end of the data.
    order = np.random.default_rng(0).permutation(n)
    edges = np.linspace(0, n, len(contest.folds) + 1).astype(int)
    folds = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(edges))
    sample = replace(score_sample(charted), weights=contest.all_rows.weights)
    centers = np.flatnonzero(np.isin(order, choice.centers))
    reach = float(np.max(np.abs(charted.base.column_range(0))))
    return HeldOutProblem(
        sample.part(order), folds, centers, charted.base, reach, derivatives=False
    )


def _given(options: Options) -> tuple[str, ...]:
    """Names of the parameters that the user gave."""
    joint = options.kernel is not None
    given = {
        "lengthscale_x": joint or not _is_open(options.kernel_x),
        "lengthscale_y": joint or not _is_open(options.kernel_y),
        "regularization": options.regularization is not None,
    }
    return tuple(name for name, kept in given.items() if kept)
