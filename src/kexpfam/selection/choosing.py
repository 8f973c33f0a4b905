"""Selection for one `KCEF`: among bases, kernels and λ, by what is held out.

What the user gave is kept; what was left open is searched.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._validation import check_positive
from kexpfam.base_densities import Base, TransformedBase
from kexpfam.data import TrainingRows
from kexpfam.family import (
    CRITERIA,
    SOLVERS,
    HeldOutProblem,
    Spec,
    equal_folds,
    given_base,
    resolve_kernel,
)
from kexpfam.kernels import Constant, RadialKernel
from kexpfam.selection.averaging import prior_weights, tempered_weights
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.kernel_grids import grid_tasks, is_open
from kexpfam.selection.objectives import OBJECTIVES, HeldOutObjective
from kexpfam.selection.parameters import Parameters, Penalty
from kexpfam.selection.results import Selected, Selection
from kexpfam.selection.search import GradientSearch, PaperGrid, paper_grid, refine
from kexpfam.selection.spec import (
    PLAIN,
    RESIDUAL_BASES,
    TUNING,
    CoordinateSpec,
    behind_arcsinh,
    default_coordinates,
    heavy_tailed,
)
from kexpfam.selection.tracker import SearchResult
from kexpfam.selection.validation import Validation, held_out_problem, is_heavy_tailed


def choose(rows: TrainingRows, spec: Spec, rng: np.random.Generator) -> Selected:
    """Choose what the user left open."""
    search, solver = spec.search, SOLVERS[spec.fit_method]
    _check(rows, spec)
    validation = Validation.of(rows, spec, rng)
    if isinstance(search, PaperGrid):
        return _on_paper_grid(validation, search)
    with (
        ProgressBar("KCEF, coordinates of y") if spec.verbose else nullcontext() as bar
    ):
        validation.add_coordinates(_coordinates(validation), bar)
    names = list(validation.coordinates)
    if CRITERIA[spec.criterion].comparable:
        validation.add_bases()
        names = validation.worth_a_kernel()
        # Likelihood and bridged fits cost more, so they are made without a regression
        # and with the best one only.
        names = names if solver.additive else names[:2]
    tails = RESIDUAL_BASES[1:]
    tasks = [task for name in names for task in grid_tasks(validation, name, tails)]
    with ProgressBar("KCEF, mean log p") if spec.verbose else nullcontext() as bar:
        validation.run(tasks, bar)
    selection = best_of(validation, spec.criterion)
    chosen = selection.chosen
    assert chosen.kernel is not None
    assert chosen.base is not None
    placed = replace(validation.final(chosen.coordinates), base=chosen.base)
    selected = Selected(
        placed,
        validation.all_rows,
        chosen.kernel,
        chosen.lam,
        solver.centers(len(placed), spec.n_components),
        selection,
        validation,
        lambda factors: validation.reweighted(factors)(chosen.coordinates),
    )
    if isinstance(search, GradientSearch) and not validation.ended:
        return _refined(validation, selected, search)
    return selected


def _check(rows: TrainingRows, spec: Spec) -> None:
    """Refuse what cannot be searched, before any work is done."""
    if spec.regularization is not None:
        check_positive("regularization", spec.regularization)
    if any(k is not None for k in (spec.kernel, spec.kernel_x, spec.kernel_y)):
        # Rows without distances: only what the user gave is looked at.
        nothing = np.zeros((1, 0))
        resolve_kernel(spec, nothing, nothing, np.ones(1))
    columns, fine = rows.Y.shape[1], isinstance(spec.search, GradientSearch | PaperGrid)
    if columns > 1 and fine and OBJECTIVES[spec.criterion].one_column:
        raise ValueError(
            f"{type(spec.search).__name__} with select='likelihood' is for one column "
            f"of y, got {columns}; use select='score', or search='grid'."
        )


def _coordinates(validation: Validation) -> list[CoordinateSpec]:
    rows, spec = validation.rows, validation.spec
    kernels = spec.kernel, spec.kernel_x, spec.kernel_y
    given = spec.base, spec.features, *kernels, spec.regularization
    comparable = CRITERIA[spec.criterion].comparable
    if any(part is not None for part in given) or not comparable:
        # Lengths and λ of the user are meant for one kind of coordinates, and scores
        # in different ones cannot be compared.
        return [CoordinateSpec(PLAIN, base_for(rows, spec))]
    if is_heavy_tailed(rows, spec):
        found = heavy_tailed(default_coordinates())
        if SOLVERS[spec.fit_method].own_base:
            found[0] = CoordinateSpec(PLAIN, base_for(rows, spec))
        return found if rows.X.shape[1] else found[:1]
    found = default_coordinates()
    if SOLVERS[spec.fit_method].own_base:
        found[0] = CoordinateSpec(PLAIN, given_base(spec))
    if rows.Y.shape[1] > 1 or not rows.X.shape[1]:
        # Transforms are for one column of y, regressions need columns of x.
        found = [one for one in found if not isinstance(one.base, TransformedBase)]
    return found if rows.X.shape[1] else found[:1]


def base_for(rows: TrainingRows, spec: Spec) -> Base:
    """The base density of the user, or that of the fitting method for these rows."""
    base = given_base(spec)
    open_base = spec.base is None and spec.features is None
    return behind_arcsinh(base) if open_base and is_heavy_tailed(rows, spec) else base


def best_of(validation: Validation, criterion: str = "likelihood") -> Selection:
    """The coordinates with the most weight, and the best family there.

    Raises:
        KeyboardInterrupt: The validation was interrupted before the first fit.
    """
    path, weights = tuple(validation.candidates), validation.weights
    fitted = [c for c in path if c.kernel is not None]
    if not fitted:  # interrupted before the first fit
        raise KeyboardInterrupt
    if CRITERIA[criterion].comparable:
        # Experts have no coordinates, and a good one would leave no weight to families.
        own = [c for c in path if c.base is not None]
        prior = prior_weights(own, PLAIN)
        shares = tempered_weights(np.stack([c.held_out for c in own]), prior, weights)
        names = np.array([c.coordinates for c in own])
        tried = dict.fromkeys(c.coordinates for c in fitted)  # in order, unlike a set
        best = max(tried, key=lambda name: float(shares[names == name].sum()))
        fitted = [c for c in fitted if c.coordinates == best]
        # See `grid_tasks`: families around a regression need heavy tails.
        heavy = [c for c in fitted if c.base and np.isfinite(c.base.tail_index)]
        fitted = fitted if best == PLAIN else heavy or fitted
    found = Selection(
        path,
        fitted[0],
        weights,
        len(validation.folds),
        (),
        validation.reason,
        objective=criterion,
    )
    chosen = max(fitted, key=found.cautious_mean)
    return replace(found, chosen=chosen, active_bounds=_active(path, chosen))


def _active(path: Sequence[Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Ends of the grid in its coordinates that a candidate lies on."""
    names = "lengthscale_y", "regularization times lengthscale_y²"
    tried = np.array(
        [
            _place(c)
            for c in path
            if c.coordinates == chosen.coordinates and c.kernel is not None
        ]
    )
    active = []
    for name, values, value in zip(names, tried.T, _place(chosen), strict=True):
        if np.ptp(values) == 0:
            continue
        for end, extreme in (("lower", values.min()), ("upper", values.max())):
            if np.isclose(value, extreme, rtol=1e-9):
                active.append(f"{end} end of {name}")
    return tuple(active)


def _place(candidate: Candidate) -> tuple[float, float]:
    """ℓ_y and λ·ℓ_y² of a candidate."""
    assert candidate.kernel is not None
    ell = candidate.kernel.resolution
    ell = ell if np.isfinite(ell) else 1.0
    return ell, candidate.lam * ell**2


def _on_paper_grid(validation: Validation, search: PaperGrid) -> Selected:
    """The paper's protocol: one base density, all rows as centres."""
    spec = validation.spec
    given = {"kernel_x": spec.kernel_x, spec.kernel_name: spec.kernel_y}
    settled: dict[str, object] = {
        name: kernel
        for name, kernel in given.items()
        if not is_open(kernel) and kernel != Constant()
    }
    if spec.kernel is not None:
        settled["kernel"] = spec.kernel
    if spec.n_components is not None or spec.solver is not None:
        raise ValueError(
            "search='paper' fits exactly, at all rows; leave n_components and solver "
            "out, or use search='grid'."
        )
    for name, value in settled.items():
        raise ValueError(
            f"search='paper' chooses all lengthscales, but {name}={value!r} was given; "
            f"leave it out, or use search='grid'."
        )
    validation.add_coordinates([CoordinateSpec(PLAIN, given_base(spec))])
    lam = spec.regularization
    result = paper_grid(
        validation.problem(PLAIN, n_components=len(validation.rows)),
        kernel_x=spec.kernel_x,
        kernel_y=spec.kernel_y,
        lengthscales=search.lengthscales,
        lambdas=search.lambdas if lam is None else (lam,),
        wide_x=search.wide_x,
        objective=spec.criterion,
        verbose=spec.verbose,
    )
    return Selected(
        validation.final(PLAIN),
        validation.all_rows,
        result.kernel,
        result.regularization,
        None,
        result,
        reweighted=lambda factors: validation.reweighted(factors)(PLAIN),
    )


def _refined(
    validation: Validation, selected: Selected, search: GradientSearch
) -> Selected:
    """Descend from what a grid has found, over what the user left open.

    If only some rows were validated, a few last trials are made with all of them.
    """
    spec, grid = validation.spec, selected.result
    assert isinstance(grid, Selection)
    problem = validation.problem(
        grid.chosen.coordinates,
        selected.placed.base,
        spec.n_components
        or SOLVERS[spec.fit_method].components_for(len(validation.rows)),
    )
    kernel = selected.kernel
    terms = kernel.products
    if len(terms) != 1 or not isinstance(terms[0][1], RadialKernel):
        raise ValueError(
            f"search='gradient' is for a product of two radial kernels, got "
            f"{kernel!r}; use search='grid'."
        )
    ((kernel_x, kernel_y),) = terms
    assert isinstance(kernel_y, RadialKernel)
    lengths = getattr(kernel_x, "lengthscale", ())
    p = problem.sample.X.shape[1] if isinstance(kernel_x, RadialKernel) else 0
    ell_x = tuple(np.broadcast_to(lengths, p).tolist()) if p else ()
    start = Parameters(ell_x, kernel_y.resolution, selected.lam)
    penalty = Penalty(search.penalty, start) if search.penalty else None

    def descent(
        problem: HeldOutProblem, start: Parameters, trials: int
    ) -> SearchResult:
        criterion = OBJECTIVES[spec.criterion].of(problem)
        return refine(
            HeldOutObjective(
                problem, kernel_x, kernel_y, criterion, penalty, spec.n_jobs
            ),
            start,
            bounds=search.bounds,
            shared_x=search.shared_x,
            fixed=_given(spec),
            max_trials=trials,
            verbose=spec.verbose,
        )

    last = min(TUNING.last_trials, search.max_trials // 2) if validation.on_some else 0
    result = descent(problem, start, search.max_trials - last)
    if last and result.reason != "interrupted":
        result = _with_all_rows(validation, selected, result, last, descent)
    return replace(
        selected, kernel=result.kernel, lam=result.regularization, result=result
    )


def _with_all_rows(
    validation: Validation,
    selected: Selected,
    first: SearchResult,
    trials: int,
    descent: Callable[[HeldOutProblem, Parameters, int], SearchResult],
) -> SearchResult:
    """Continue a descent on some rows with all, and the centres of the final fit."""
    placed, n = selected.placed, len(selected.placed)
    assert selected.centers is not None
    # Rows may come sorted, and a fold must not be one end of the data.
    order = np.random.default_rng(0).permutation(n)
    problem = held_out_problem(
        placed,
        equal_folds(n, len(validation.folds)),
        np.flatnonzero(np.isin(order, selected.centers)),
    )
    problem = replace(problem, sample=problem.sample.part(order))
    on_some = f"on {len(validation.rows)} rows {first.reason}"
    try:
        result = descent(problem, first.best.parameters, trials)
    except KeyboardInterrupt:  # before the first trial
        return replace(first, reason="interrupted")
    reason = f"{on_some}; from there on all {n} rows {result.reason}"
    return replace(result, path=first.path + result.path, reason=reason)


def _given(spec: Spec) -> tuple[str, ...]:
    """Names of the parameters that the user gave."""
    joint = spec.kernel is not None
    given = {
        "lengthscale_x": joint or not is_open(spec.kernel_x),
        "lengthscale_y": joint or not is_open(spec.kernel_y),
        "regularization": spec.regularization is not None,
    }
    return tuple(name for name, kept in given.items() if kept)
