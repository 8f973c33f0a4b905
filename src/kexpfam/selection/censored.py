"""Families for rows of which some are censored: coordinates, kernels and λ.

Fits are by penalised likelihood, in coordinates whose location and scale are those of a
censored normal regression (`regression.censored`): constant or linear in x, of y or, if
no response can be negative, of nearly its logarithm. What is open is chosen by rows
held out, observed ones by their log density and censored ones by the log mass of their
interval; coordinates are fitted again without each fold.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from kexpfam._heuristics import median_and_width, median_distance
from kexpfam._parallel import single_threaded_blas
from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam.base_densities import (
    Arcsinh,
    Base,
    BaseDensity,
    GaussianBase,
    LinearBase,
    LinearModel,
    MonotoneTransform,
    StudentBase,
    pulled_in,
    resolve_base,
)
from kexpfam.distributions import SupportMap
from kexpfam.errors import DegenerateDataError
from kexpfam.family import (
    SOLVERS,
    Coordinates,
    FittedFamily,
    Spec,
    equal_folds,
    resolve_kernel,
)
from kexpfam.family.coordinates import standardizer
from kexpfam.kernels import Constant, Gaussian, JointKernel, Kernel, separable
from kexpfam.likelihood import (
    CensoredRows,
    censored_log_scores,
    censored_nodes,
    censored_path,
)
from kexpfam.regression import fit_censored_linear
from kexpfam.score_matching import Basis, KernelExpansion
from kexpfam.selection.averaging import average_weights
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.censored_rows import CensoredData
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.kernel_grids import open_kernels_y
from kexpfam.selection.results import Selection
from kexpfam.selection.spec import (
    DEFENSIVE,
    LIKELIHOOD_GRID,
    PLAIN,
    RESIDUAL_BASES,
    SUPPORT,
    TUNING,
    DefensiveSpec,
    LambdaPath,
    end_of_trials,
)

LINEAR = "linear"
_TILTED = 2  # Coordinates that get a kernel part: those that are best without one
_SOLVER = SOLVERS["likelihood"]


@dataclass(frozen=True)
class _Kind:
    """A kind of coordinates that is tried."""

    name: str
    linear: bool  # Whether location and log scale are linear in x, or constant
    transform: MonotoneTransform | None  # Of y, done first
    base: BaseDensity  # Of the residual


def choose_censored(
    data: CensoredData, spec: Spec, rng: np.random.Generator
) -> tuple[FittedFamily, Selection | None]:
    """A family for censored rows, and what it was chosen among.

    Raises:
        ValueError: Something was asked for that censored rows cannot have.
    """
    _check(data, spec)
    seed = int(rng.integers(2**31))
    far_x = pulled_in(data.X, data.weights) if spec.standardize else None
    with single_threaded_blas():
        kinds = _kinds(data, spec)
        if spec.select is None:
            kind = kinds[0]
            coordinates = _coordinates(data, kind, spec, far_x)
            rows, _ = _placed(data, coordinates)
            U = rows.likely[:, None]
            kernel = resolve_kernel(spec, rows.X, U, rows.weights)
            total = float(data.weights.sum())
            lam = spec.regularization or _SOLVER.untuned_lambda(kernel, total)
            selection = None
        else:
            selection = _validated(data, kinds, spec, far_x, rng)[0]
            chosen = selection.chosen
            kind = _kind_of(chosen, kinds)
            coordinates = _coordinates(data, kind, spec, far_x)
            assert chosen.kernel is not None
            kernel, lam = chosen.kernel, chosen.lam
            if spec.regularization is None:
                lam *= _proportion(selection, data)
        return _fitted(data, kind, coordinates, kernel, lam, spec, seed), selection


@dataclass(frozen=True, eq=False)
class CensoredAverage:
    """Families for censored rows, with their weights."""

    selection: Selection
    weights: Array  # Of the members, with the defensive one summing to one, (k,)
    members: list[tuple[Candidate, FittedFamily]]
    best: FittedFamily  # The one that was chosen alone
    defensive: DefensiveComponent
    defensive_weight: float


def average_censored(
    data: CensoredData,
    spec: Spec,
    rng: np.random.Generator,
    defence: DefensiveSpec = DEFENSIVE,
) -> CensoredAverage:
    """An average of families for censored rows, stacked on held-out scores.

    Base densities alone take part, the null model among them. The defensive component
    has a weight that is not chosen.
    """
    _check(data, spec)
    seed = int(rng.integers(2**31))
    far_x = pulled_in(data.X, data.weights) if spec.standardize else None
    with single_threaded_blas():
        kinds = _kinds(data, spec)
        base = StudentBase(scale=defence.first_width, df=defence.df)
        selection, log_t = _validated(data, kinds, spec, far_x, rng, base)
        candidates, share = selection.path, defence.first_weight
        # What is validated is what will be used: every member beside the defensive one.
        log_p = np.stack([c.held_out for c in candidates])
        beside = np.logaddexp(np.log1p(-share) + log_p, np.log(share) + log_t)
        weights = average_weights(candidates, beside, selection.weights)
        places = {f.name: _coordinates(data, f, spec, far_x) for f in kinds}
        proportion = _proportion(selection, data)

        def fitted(candidate: Candidate) -> FittedFamily:
            kind = _kind_of(candidate, kinds)
            there, kernel = places[kind.name], candidate.kernel
            if kernel is not None:
                lam = candidate.lam * proportion
                return _fitted(data, kind, there, kernel, lam, spec, seed)
            rows, _ = _placed(data, there)
            nothing = separable(Constant(), Gaussian(1.0)), rows.X[:1]
            T = KernelExpansion(*nothing, rows.likely[:1, None], zeroth=np.zeros(1))
            return FittedFamily(there, kind.base, T, np.inf, float("nan"), seed)

        kept = np.flatnonzero(weights)
        members = [(candidates[k], fitted(candidates[k])) for k in kept]
        return CensoredAverage(
            selection,
            weights[kept] * (1.0 - share),
            members,
            fitted(selection.chosen),
            DefensiveComponent(places[PLAIN], base),
            share,
        )


def _kind_of(candidate: Candidate, kinds: Sequence[_Kind]) -> _Kind:
    """The coordinates that a candidate was validated in, with its base density."""
    wanted = candidate.coordinates, candidate.base
    return next(kind for kind in kinds if (kind.name, kind.base) == wanted)


def _proportion(selection: Selection, data: CensoredData) -> float:
    """What λ of a validation is multiplied by for all rows.

    Penalty and log-likelihood of all rows keep their proportion.
    """
    seen = selection.weights.sum() * (1.0 - 1.0 / selection.n_folds)
    return float(seen / data.weights.sum())


def _check(data: CensoredData, spec: Spec) -> None:
    if spec.fit_method not in ("likelihood", "score") or (
        spec.fit_method == "score" and not spec.finish
    ):
        raise ValueError(
            f"fit_method must be None or 'likelihood' with censoring, got "
            f"{spec.fit_method!r}: score matching needs every response."
        )
    if spec.select == "score" or spec.features is not None:
        raise ValueError(
            "select='score' and features are for rows that are not censored; leave "
            "them out."
        )
    if spec.solver not in (None, "low-rank"):
        raise ValueError(
            f"solver must be None with censoring, got {spec.solver!r}; leave it out."
        )
    most = spec.limits.design_rows
    if len(data) > most:
        raise ValueError(
            f"censoring is for up to {most} rows, got {len(data)}; take a sample."
        )
    if len(data) < 4 or np.ptp(data.ends) == 0:
        raise DegenerateDataError(
            f"Censored rows must be at least 4, with ends that differ; got {len(data)} "
            f"rows."
        )


def _kinds(data: CensoredData, spec: Spec) -> list[_Kind]:
    """Coordinates to try: those of the base that was given, or several."""
    if spec.base is not None:
        base: Base = resolve_base(spec.base)
        if isinstance(base, LinearBase):
            return [_Kind(LINEAR, True, None, base.noise)]
        if isinstance(base, BaseDensity) and not np.isfinite(base.support(1)).any():
            return [_Kind(PLAIN, False, None, base)]
        raise ValueError(
            f"base must be None, LinearBase or a density on the whole line such as "
            f"GaussianBase(scale=2.0) with censoring, got {base!r}."
        )
    if spec.select is None or spec.kernel is not None:
        return [_Kind(PLAIN, False, None, GaussianBase(scale=2.0))]
    transforms: dict[str, MonotoneTransform | None] = {"": None}
    least = float(data.ends.min())
    # Left-censored rows have no lower end, and may be negative as far as is known.
    if not data.mapped and least > 0 and np.isfinite(data.lower).all():
        middle, _ = median_and_width(data.ends, np.ones(len(data.ends)))
        transforms["arcsinh, "] = Arcsinh(0.0, middle)
        transforms["log, "] = Arcsinh(0.0, 0.1 * least)  # nearly
    return [
        _Kind(prefix + (LINEAR if linear else PLAIN), linear, transform, noise)
        for prefix, transform in transforms.items()
        for linear in ((False, True) if data.X.shape[1] else (False,))
        for noise in RESIDUAL_BASES
    ]


def _coordinates(
    data: CensoredData, kind: _Kind, spec: Spec, far_x: MonotoneTransform | None
) -> Coordinates:
    """Coordinates with the location and scale of a censored normal regression."""
    X = data.X if far_x is None else far_x.forward(data.X)
    x_center, x_scale = standardizer("X", X, data.weights, spec.standardize)
    t, weights = kind.transform, data.weights
    lower, upper = (
        end if t is None else t.forward(end[:, None])[:, 0]
        for end in (data.lower, data.upper)
    )
    known = np.where(np.isfinite(lower), lower, upper)[:, None]
    center, scale = standardizer("y", known, weights, True, must_vary=True)
    lower, upper = (lower - center) / scale, (upper - center) / scale
    Z = (X - x_center) / x_scale
    if not kind.linear:
        Z = Z[:, :0]
    model = fit_censored_linear(Z, lower, upper, weights)
    location_scale = None
    if kind.linear:
        location_scale = LinearModel((model,), np.zeros(1), np.ones(1))
    else:
        center = center + scale * model.location
        scale = scale * np.exp(model.log_scale)
    return Coordinates(
        x_center,
        x_scale,
        center,
        scale,
        support=np.array([[-np.inf, np.inf]]),
        location_scale=location_scale,
        transform=t,
        x_transform=far_x,
    )


def _placed(data: CensoredData, coordinates: Coordinates) -> tuple[CensoredRows, Array]:
    """Rows in some coordinates, and log |du/dy| of those observed, zero of others."""
    Z = coordinates.conditions(data.X)
    there = coordinates.at(Z)
    lower, upper = (
        there.to_kernel(end[:, None, None])[:, 0, 0] for end in (data.lower, data.upper)
    )
    exact = data.lower == data.upper
    points = np.where(exact, data.lower, 0.0)[:, None, None]
    jacobian = -np.broadcast_to(there.log_volume(points), (len(Z), 1))[:, 0]
    likely = np.where(exact, lower, _normal_medians(lower, upper))
    rows = CensoredRows(Z, lower, upper, likely, data.weights)
    return rows, np.where(exact, jacobian, 0.0)


def _normal_medians(lower: Array, upper: Array) -> Array:
    """Medians of the standard normal density between ends, (n,)."""
    flip = lower + upper > 0  # whichever tail is smaller has more digits
    low, high = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    middle = special.ndtri(0.5 * (special.ndtr(low) + special.ndtr(high)))
    # Where no digit is left, the end that is nearer.
    middle = np.clip(np.where(np.isfinite(middle), middle, high), low, high)
    return np.where(flip, -middle, middle)


def _basis(rows: CensoredRows, kernel: JointKernel, spec: Spec) -> Basis:
    n = len(rows.likely)
    centers = _SOLVER.centers(n, spec.n_components)
    return Basis(kernel, rows.X[centers], rows.likely[centers, None], derivatives=False)


def _fitted(
    data: CensoredData,
    kind: _Kind,
    coordinates: Coordinates,
    kernel: JointKernel,
    lam: float,
    spec: Spec,
    seed: int,
) -> FittedFamily:
    rows, _ = _placed(data, coordinates)
    basis = _basis(rows, kernel, spec)
    nodes = censored_nodes(kind.base, rows, kernel.resolution)
    (alpha,) = censored_path(basis, kind.base, rows, [lam], nodes)
    T = replace(basis.expansion(alpha), n_jobs=spec.n_jobs)
    return FittedFamily(coordinates, kind.base, T, lam, float("nan"), seed)


def _validated(
    data: CensoredData,
    kinds: Sequence[_Kind],
    spec: Spec,
    far_x: MonotoneTransform | None,
    rng: np.random.Generator,
    defence: BaseDensity | None = None,
) -> tuple[Selection, Array]:
    """Candidates in the coordinates that are best without a kernel part.

    Also what rows are worth under another density in the first coordinates, (n,).
    """
    n = min(len(data), TUNING.compared_rows)
    some = data.part(rng.permutation(len(data))[:n])
    folds = equal_folds(n, min(n, TUNING.compared_folds))
    everyone = np.arange(n)
    path, placed = _bases_alone(some, folds, kinds, spec, far_x)
    ranked = sorted(path, key=lambda c: -c.mean(some.weights))
    # In each kind of coordinates with the better tails, in the best of them.
    names = list(dict.fromkeys(c.coordinates for c in ranked))[:_TILTED]
    tasks: list[tuple[_Kind, LambdaPath]] = []
    for name in names:
        kind = _kind_of(next(c for c in ranked if c.coordinates == name), kinds)
        tasks += [(kind, task) for task in _paths(placed[name][0][0], kind, spec)]
    tried: list[Candidate] = []
    end, reason = end_of_trials(spec), "all candidates were tried"
    with ProgressBar("censored rows, mean log p", shown=spec.verbose) as bar:
        try:
            for done, (kind, task) in enumerate(tasks):
                if tried and time.monotonic() > end:
                    missing = f"{len(tasks) - done} of {len(tasks)} kernels"
                    reason = f"the time budget was over; not tried: {missing}"
                    break
                # From smooth fits to rough ones.
                lams = sorted(task.lams, reverse=True)
                held_out = _held_out(placed[kind.name], folds, kind, task, lams, spec)
                tried += [
                    Candidate(kind.name, kind.base, task.kernel, lam, _SOLVER.name, own)
                    for lam, own in zip(lams, held_out, strict=True)
                ]
                if bar is not None:
                    best = max(c.mean(some.weights) for c in path + tried)
                    bar(done + 1, len(tasks), best)
        except KeyboardInterrupt:
            if not tried:
                raise
            reason = "interrupted"
    path += tried
    found = Selection(tuple(path), tried[0], some.weights, len(folds), (), reason)
    chosen = max(tried, key=found.cautious_mean)
    defended, defence = np.empty(n), defence or kinds[0].base
    for fold, (rows, jacobian) in zip(folds, placed[kinds[0].name], strict=True):
        held = rows.part(everyone[fold])
        defended[fold] = _base_scores(defence, held) + jacobian[fold]
    return replace(found, chosen=chosen), defended


def _bases_alone(
    some: CensoredData,
    folds: Sequence[slice],
    kinds: Sequence[_Kind],
    spec: Spec,
    far_x: MonotoneTransform | None,
) -> tuple[list[Candidate], dict[str, list[tuple[CensoredRows, Array]]]]:
    """Candidates without a kernel part, and rows in coordinates of each fold."""
    everyone = np.arange(len(some))
    path: list[Candidate] = []
    placed: dict[str, list[tuple[CensoredRows, Array]]] = {}
    for kind in kinds:
        if kind.name not in placed:
            parts = [some.part(np.delete(everyone, fold)) for fold in folds]
            placed[kind.name] = [
                _placed(some, _coordinates(part, kind, spec, far_x)) for part in parts
            ]
        alone = np.empty(len(some))
        for fold, (rows, jacobian) in zip(folds, placed[kind.name], strict=True):
            held = rows.part(everyone[fold])
            alone[fold] = _base_scores(kind.base, held) + jacobian[fold]
        path.append(Candidate(kind.name, kind.base, None, np.inf, "none", alone))
    return path, placed


def _held_out(
    placed: Sequence[tuple[CensoredRows, Array]],
    folds: Sequence[slice],
    kind: _Kind,
    task: LambdaPath,
    lams: Sequence[float],
    spec: Spec,
) -> Array:
    """Held-out log densities and masses of a kernel with some λ, (l, n)."""
    everyone = np.arange(len(placed[0][0].likely))
    found = np.empty((len(lams), len(everyone)))
    for fold, (rows, jacobian) in zip(folds, placed, strict=True):
        train, held = rows.part(np.delete(everyone, fold)), rows.part(everyone[fold])
        basis = _basis(train, task.kernel, spec)
        nodes = censored_nodes(kind.base, rows, task.kernel.resolution, refinement=0)
        alphas = censored_path(basis, kind.base, train, lams, nodes, tolerance=1e-4)
        for row, alpha in zip(found, alphas, strict=True):
            scores = censored_log_scores(basis, kind.base, held, alpha, nodes)
            row[fold] = scores + jacobian[fold]
    return found


def worth_behind(data: CensoredData, support: SupportMap | None, spec: Spec) -> float:
    """Mean held-out log density behind a map, without a kernel part, of the best."""
    n = min(len(data), SUPPORT.compared_rows)
    some = data.part(np.random.default_rng(0).permutation(len(data))[:n])
    gained = 0.0
    if support is not None:
        some, gained = some.behind(support), some.log_jacobian(support)
    far_x = pulled_in(some.X, some.weights) if spec.standardize else None
    folds = equal_folds(n, min(n, TUNING.compared_folds))
    with single_threaded_blas():
        path, _ = _bases_alone(some, folds, _kinds(some, spec), spec, far_x)
    return max(candidate.mean(some.weights) for candidate in path) + gained


def _base_scores(base: BaseDensity, rows: CensoredRows) -> Array:
    """Log density or log mass under the base density alone, (n,)."""
    nodes = censored_nodes(base, rows, 1.0)
    q0 = np.exp(base.log_density(nodes.points[:, None]))
    mass = nodes.interval_weights(rows.lower, rows.upper) @ q0
    log_q0 = base.log_density(rows.likely[:, None])
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.maximum(mass, 1e-300))
    return np.where(rows.exact, log_q0, log_mass)


def _paths(rows: CensoredRows, kind: _Kind, spec: Spec) -> list[LambdaPath]:
    """Kernels and λ to try, as far as they are open."""
    grid = LIKELIHOOD_GRID
    if spec.regularization is not None:
        grid = replace(grid, lams=(spec.regularization,))
    if spec.kernel is not None:
        U = rows.likely[:, None]
        kernel = resolve_kernel(spec, rows.X, U, rows.weights)
        return [LambdaPath(kernel, grid.lams_for(kernel))]
    kernels_x: list[Kernel] = [Constant()]
    if spec.kernel_x is not None:
        given = replace(spec, kernel_y=Gaussian(1.0), kernel=None)
        filled = resolve_kernel(given, rows.X, rows.likely[:, None], rows.weights)
        kernels_x = [kx for kx, _ in filled.products]
    elif rows.X.shape[1]:
        length = median_distance(rows.X, rows.weights)
        kernels_x += [Gaussian(multiple * length) for multiple in grid.multiples_x]
    kernels_y = open_kernels_y(grid, spec.kernel_y)
    return grid.paths(kernels_x, kernels_y)
