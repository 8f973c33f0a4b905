"""Families that are fitted by likelihood where score matching was blind.

Held-out likelihood of blind fits is a poor guide to kernels, so these are chosen again:
kernels of x first, a constant one among them, on some of the rows and in few
coordinates; then the lengthscale of y and λ with the best of them, on all.

Around a location that moves all components, they stand still, and x changes little but
their log odds, smoothly. So a kernel is tried there that says so,

    K = k_Y(y, y') + k_X(x, x') k_Z(y, y'),

with one shape for all x, and a long lengthscale of x for the odds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._parallel import shared_out
from kexpfam._typing import Array, Indices
from kexpfam.family import (
    SCORE,
    SOLVERS,
    IsolatedComponents,
    check_masses,
    chosen_centers,
    component_std,
    equal_folds,
    solve,
)
from kexpfam.kernels import (
    Constant,
    Gaussian,
    JointKernel,
    SumOfProducts,
    separable,
)
from kexpfam.selection.candidates import Candidate, Task
from kexpfam.selection.kernel_grids import (
    coarse,
    is_coarse,
    open_kernels_x,
    open_kernels_y,
    open_paths,
)
from kexpfam.selection.results import Selected, Selection
from kexpfam.selection.spec import (
    FINISH_BESIDE,
    FINISH_GRID,
    FINISH_ODDS,
    FINISH_REFINED,
    FINISH_WIDTH,
    PLAIN,
    RESIDUAL_BASES,
    WITHIN_COMPONENTS,
    KernelGrid,
    LambdaPath,
)
from kexpfam.selection.validation import Validation

METHOD = "likelihood"


def choose_by_likelihood(selected: Selected) -> Selected | None:
    """What the same rows are to be fitted with by likelihood; None if that is worse."""
    validation, found = selected.validation, selected.result
    assert validation is not None
    assert isinstance(found, Selection)
    tuning = validation.tuning
    some = ValidatedPart.evenly(validation, tuning.finish_rows, tuning.finish_folds)
    names = worth_finishing(validation, found.chosen)
    own = validated_by_likelihood(validation, names, some)
    if not own:
        return None
    path = [replace(c, held_out=c.held_out[some.held_out]) for c in found.path]
    before = path[found.path.index(found.chosen)]
    found = replace(found, path=(*path, *own), weights=some.weights)
    best = _simplest(own, some.weights)
    if best.mean(some.weights) < before.mean(some.weights):
        best = max(own, key=lambda c: c.mean(some.weights))
    if best.mean(some.weights) < before.mean(some.weights):
        return None
    assert best.base is not None
    assert best.kernel is not None
    placed = replace(validation.final(best.coordinates), base=best.base)
    return replace(
        selected,
        placed=placed,
        kernel=best.kernel,
        lam=lambda_for_all(validation, best.lam, some.weights),
        centers=SOLVERS[METHOD].centers(len(placed), validation.spec.n_components),
        result=replace(found, chosen=best, active_bounds=()),
        reweighted=lambda factors: validation.reweighted(factors)(best.coordinates),
    )


def _simplest(candidates: list[Candidate], weights: Array) -> Candidate:
    """The best, or the best with one shape for all x if that is as good.

    What a kernel of x gains by chance shows in masses that change with x.
    """
    best = max(candidates, key=lambda c: c.mean(weights))
    alike = [c for c in candidates if _has_one_shape(c.kernel)]
    if not alike or best in alike:
        return best
    simple = max(alike, key=lambda c: c.mean(weights))
    gain = replace(best, held_out=best.held_out - simple.held_out)
    as_good = gain.mean(weights) < gain.standard_error(weights)
    return simple if as_good else best


def _has_one_shape(kernel: JointKernel | None) -> bool:
    """Whether x changes nothing, or log odds only."""
    if kernel is None or not kernel.products:
        return False
    return isinstance(kernel.products[0][0], Constant)


def isolated_coordinates(validation: Validation) -> dict[str, IsolatedComponents]:
    """Coordinates where families by score matching have isolated components.

    Looked at are those that may have weight in an average.
    """
    rows, found = validation.rows, {}
    # Recorded values are no components because nothing is recorded between them.
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, size=rows.Y.shape)
    unrounded = rows.Y + validation.rounding * noise
    for name in validation.in_the_race():
        own = [c for c in validation.candidates if c.coordinates == name]
        blind = [c for c in own if c.method == SCORE.name]
        if not blind:
            continue
        best = max(blind, key=lambda c: c.mean(validation.weights))
        assert best.base is not None
        placed = replace(
            validation.coordinates[name], base=best.base, weights=validation.weights
        )
        centers = SCORE.centers(len(placed))
        family = solve(placed, best.kernel, best.lam, seed=0, centers=centers)
        held_out = placed if validation.has_summary(name) else None
        Y = unrounded if is_coarse(validation, name) else rows.Y
        masses = check_masses(family, rows.X, Y, rows.weights, placed=held_out)
        if masses.found:
            found[name] = masses
    return found


def replace_blind_candidates(
    validation: Validation,
    isolated: Mapping[str, IsolatedComponents],
    chosen: Candidate,
) -> None:
    """Put candidates by likelihood in the place of blind ones.

    Blind are those by score matching in coordinates where masses of isolated components
    are wrong. If they predict better nevertheless, both stay; where masses agree with
    counts, held-out likelihood tells who is to have how much weight.
    """
    names = [name for name, masses in isolated.items() if masses.suspicious]
    everything = ValidatedPart.evenly(
        validation, len(validation.rows), len(validation.folds)
    )
    coordinates = worth_finishing(validation, chosen)
    own = validated_by_likelihood(validation, coordinates, everything)
    if own and _has_one_shape(_simplest(own, validation.weights).kernel):
        own = [c for c in own if _has_one_shape(c.kernel)]
    blind = [
        c
        for c in validation.candidates
        if c.method == SCORE.name and c.coordinates in names
    ]

    def best(candidates: list[Candidate]) -> float:
        means = [c.mean(validation.weights) for c in candidates]
        return max(means, default=-np.inf)

    if best(own) >= best(blind):
        left = [c for c in validation.candidates if not any(c is b for b in blind)]
        validation.candidates = left
    validation.candidates += own


def lambda_for_all(validation: Validation, lam: float, weights: Array) -> float:
    """λ for all training rows, in the proportion that was validated on some.

    A λ that was given stays.
    """
    if validation.spec.regularization is not None:
        return lam
    return float(lam * weights.sum() / validation.all_rows.weights.sum())


def worth_finishing(validation: Validation, chosen: Candidate) -> list[str]:
    """Plain coordinates, around a location within components, and those chosen.

    The second are fitted here, if the user left regressions open.
    """
    known = validation.coordinates
    if FINISH_BESIDE in known and WITHIN_COMPONENTS.name not in known:
        validation.add_coordinates([WITHIN_COMPONENTS])
    names = [PLAIN, WITHIN_COMPONENTS.name, chosen.coordinates]
    return [name for name in dict.fromkeys(names) if name in validation.coordinates]


@dataclass(frozen=True, eq=False)
class ValidatedPart:
    """Some rows of a validation, and folds among them."""

    index: Indices  # Which rows of the validation
    folds: tuple[slice, ...]  # Where the folds are among them
    held_out: Indices  # Which rows of the validation are in the folds, in their order
    weights: Array  # Weights of these

    @classmethod
    def evenly(cls, validation: Validation, most: int, folds: int) -> "ValidatedPart":
        """At most so many rows, as large a part of every fold; some folds held out."""
        share = min(1.0, most / len(validation.rows))
        index = np.concatenate(
            [
                f.start + np.arange(int(np.ceil(share * (f.stop - f.start))))
                for f in validation.folds
            ]
        )
        edges = np.searchsorted(index, [f.start for f in validation.folds]).tolist()
        slices = tuple(map(slice, edges, [*edges[1:], len(index)]))[:folds]
        held_out = index[: slices[-1].stop]
        return cls(index, slices, held_out, validation.weights[held_out])

    @classmethod
    def of_few(cls, validation: Validation) -> "ValidatedPart":
        """Few rows, of which some are in folds; enough to compare kernels."""
        n, tuning = len(validation.rows), validation.tuning
        count = min(n, tuning.compared_rows)
        # Rows come in random order, and coordinates are held out whatever the fold.
        index = np.linspace(0, n - 1, count).astype(int)
        folds = equal_folds(count, tuning.compared_folds)[: tuning.compared_folds - 1]
        held_out = index[: folds[-1].stop]
        return cls(index, folds, held_out, validation.weights[held_out])

    def task(self, task: Task) -> Task:
        """A task on these rows only."""
        problem = task.problem
        if len(self.index) < len(problem.sample.Y):
            centers = chosen_centers(len(self.index), len(problem.centers))
            sample = problem.sample.part(self.index)
            problem = replace(problem, sample=sample, centers=centers)
        problem = replace(problem, folds=self.folds)
        return replace(task, problem=problem, offset=task.offset[self.held_out])


def validated_by_likelihood(
    validation: Validation, names: Sequence[str], part: ValidatedPart
) -> list[Candidate]:
    """Candidates by likelihood, in some coordinates, validated on a part of the rows.

    Kernels of x are compared on few rows. With the best of those with one shape for
    all x, and with the best of the others if that is ahead, the lengthscale of y and λ
    are chosen on some more rows; the best of each is validated on the part.
    """
    tuning = validation.tuning
    some = ValidatedPart.evenly(validation, tuning.finish_rows, tuning.finish_folds)
    refined: list[list[Candidate]] = []
    for name, kernel in _kernels_worth_refining(validation, names):
        paths = _refined(validation, name, kernel)
        tasks = _tasks(validation, name, paths, some)
        refined.append([c for own in _run(validation, tasks) for c in own])
    refined = [own for own in refined if own]
    if len(some.held_out) == len(part.held_out):
        return [c for own in refined for c in own]
    chosen: list[Task] = []
    for own in refined:
        best = max(own, key=lambda c: c.mean(some.weights))
        assert best.kernel is not None
        unit = _lambda_unit(validation, some)
        path = LambdaPath(best.kernel, (best.lam / unit,))
        chosen += _tasks(validation, best.coordinates, [path], part)
    return [c for own in _run(validation, chosen) for c in own]


def _kernels_worth_refining(
    validation: Validation, names: Sequence[str]
) -> list[tuple[str, JointKernel]]:
    """The best kernel with one shape for all x, and the best of the others.

    The latter only if it could be better: not if it is behind by more than a standard
    error of the difference. With their coordinates; compared on few rows.
    """
    few = ValidatedPart.of_few(validation)
    tasks = []
    for name in names:
        tasks += _tasks(validation, name, _paths(validation, name), few)
    found = _run(validation, tasks)
    best = [max(own, key=lambda c: c.mean(few.weights)) for own in found]
    best.sort(key=lambda c: -c.mean(few.weights))
    alike = [c for c in best if _has_one_shape(c.kernel)][:1]
    kept = alike + [c for c in best if not _has_one_shape(c.kernel)][:1]
    if alike and len(kept) > 1:
        gain = replace(kept[1], held_out=kept[1].held_out - kept[0].held_out)
        if gain.mean(few.weights) < -gain.standard_error(few.weights):
            kept = alike
    return [(c.coordinates, c.kernel) for c in kept if c.kernel is not None]


def _run(validation: Validation, tasks: Sequence[Task]) -> list[list[Candidate]]:
    """Candidates of each task; Ctrl-C ends this, and what was tried so far counts."""
    found: list[list[Candidate]] = []
    try:
        calls = [(task,) for task in tasks]
        for results in shared_out(Task.candidates, calls, validation.spec.n_jobs):
            found += results
    except KeyboardInterrupt:
        validation.interrupted = True
    return found


def _for_components(validation: Validation, name: str, grid: KernelGrid) -> KernelGrid:
    """A grid whose lengthscales of y follow the width of components, if that is seen.

    It is where components have places of their own; elsewhere x moves them.
    """
    if name != WITHIN_COMPONENTS.name:
        return coarse(validation, name, grid)
    placed = validation.coordinates[name]
    width = component_std(placed.U[:, 0], placed.weights)
    unit = min(1.0, width / FINISH_WIDTH)
    lengths = tuple(unit * ell for ell in grid.lengthscales_y)
    return coarse(validation, name, replace(grid, lengthscales_y=lengths))


def _paths(validation: Validation, name: str) -> list[LambdaPath]:
    """Kernels to compare in some coordinates."""
    spec, grid = validation.spec, _for_components(validation, name, FINISH_GRID)
    if spec.kernel is not None:
        return open_paths(validation, name, grid)
    kernels_x = open_kernels_x(validation, name, grid)
    if validation.rows.X.shape[1] == 1:  # whose columns that matter are known
        kernels_x = kernels_x[: 1 + len(grid.multiples_x)]
    kernels_y = open_kernels_y(grid, spec.kernel_y)
    paths = grid.paths(kernels_x, kernels_y)
    if name == WITHIN_COMPONENTS.name and spec.kernel_x is None and len(paths) > 1:
        # The last one has the longest lengthscale of x.
        smooth = separable(kernels_x[-1], Gaussian(FINISH_ODDS))
        odds = separable(Constant(), kernels_y[0]) + smooth
        paths[-1] = LambdaPath(odds, grid.lams)
    return paths


def _refined(
    validation: Validation, name: str, kernel: JointKernel
) -> list[LambdaPath]:
    """The same kernel with all lengthscales of y to try, if they are open."""
    spec, grid = validation.spec, _for_components(validation, name, FINISH_REFINED)
    if spec.kernel is not None:
        return [LambdaPath(kernel, grid.lams)]
    (kernel_x, _), *rest = kernel.products
    return [
        LambdaPath(SumOfProducts(((kernel_x, kernel_y), *rest)), grid.lams)
        for kernel_y in open_kernels_y(grid, spec.kernel_y)
    ]


def _lambda_unit(validation: Validation, part: ValidatedPart) -> float:
    return 0.1 / float(validation.weights[part.index].sum())


def _tasks(
    validation: Validation, name: str, paths: list[LambdaPath], part: ValidatedPart
) -> list[Task]:
    """Kernels, with λ in units of 0.1/n, to try on a part of the rows."""
    spec = validation.spec
    unit = _lambda_unit(validation, part)
    given = spec.regularization
    paths = [
        replace(
            path, lams=(given,) if given else tuple(unit * lam for lam in path.lams)
        )
        for path in paths
    ]
    # See `choosing`: families around a regression need heavy tails.
    heavy = validation.is_regression(name) and spec.base is None
    tasks = validation.tasks(
        name,
        paths,
        bases=RESIDUAL_BASES[1:] if heavy else (None,),
        method=METHOD,
        n_components=spec.n_components
        or SOLVERS[METHOD].components_for(len(part.index)),
    )
    return [part.task(task) for task in tasks]
