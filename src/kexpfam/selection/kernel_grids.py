"""Kernels and λ that are tried in some coordinates, as far as they were left open."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kexpfam._heuristics import median_distance
from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity, fit_processes
from kexpfam.family import SOLVERS, CoordinateRows, resolve_kernel
from kexpfam.kernels import MEDIAN, Constant, Gaussian, Kernel, LengthScale
from kexpfam.selection.candidates import Task
from kexpfam.selection.relevance import RELEVANCE, relevant_lengthscales
from kexpfam.selection.spec import (
    LIKELIHOOD_GRID,
    PLAIN_GRID,
    REGRESSION_GRID,
    RESIDUAL_BASES,
    SUMMARY_GRID,
    KernelGrid,
    LambdaPath,
)
from kexpfam.selection.validation import Validation


def grid_tasks(
    validation: Validation, name: str, tails: Sequence[BaseDensity]
) -> list[Task]:
    """Families to try in some coordinates, with these tails around a regression.

    Far from the data a regression can be wrong by many standard deviations: a single
    family around it needs heavy tails, and an average has others to fall back on.
    """
    spec, solver = validation.spec, SOLVERS[validation.spec.fit_method]
    grid = grid_for(validation, name)
    if not solver.relative_lambda:
        grid = coarse(validation, name, LIKELIHOOD_GRID)
    if spec.regularization is not None:
        grid = replace(grid, lams=(spec.regularization,), relative=False)
    residual = validation.is_regression(name) and not validation.has_summary(name)
    open_tails = residual and spec.base is None and solver.additive
    return validation.tasks(
        name,
        open_paths(validation, name, grid),
        bases=tails if open_tails else (None,),
        method=spec.fit_method,
        n_components=spec.n_components,
        criterion=spec.criterion,
    )


def open_paths(validation: Validation, name: str, grid: KernelGrid) -> list[LambdaPath]:
    """Kernels with their λ: those of a grid, or what of them was given."""
    spec, placed = validation.spec, validation.coordinates[name]
    if spec.kernel is not None:
        kernel = resolve_kernel(spec, placed.Z, placed.U, placed.weights)
        return [LambdaPath(kernel, grid.lams_for(kernel))]
    kernels_x = open_kernels_x(validation, name, grid)
    return grid.paths(kernels_x, open_kernels_y(grid, spec.kernel_y))


def grid_for(validation: Validation, name: str) -> KernelGrid:
    """Kernels and λ to try in some coordinates."""
    grid = REGRESSION_GRID if validation.is_regression(name) else PLAIN_GRID
    grid = SUMMARY_GRID if validation.has_summary(name) else grid
    return coarse(validation, name, grid)


def coarse(validation: Validation, name: str, grid: KernelGrid) -> KernelGrid:
    """A grid without lengthscales of y that are shorter than y was rounded to.

    They would put a spike on each recorded value, which held-out rows pay for.
    """
    width = _width(validation, name)
    if width <= min(grid.lengthscales_y):
        return grid
    lengths = (max(ell, width) for ell in grid.lengthscales_y)
    return replace(grid, lengthscales_y=tuple(dict.fromkeys(lengths)))


def is_coarse(validation: Validation, name: str) -> bool:
    """Whether rounding keeps lengthscales of y long in some coordinates."""
    return _width(validation, name) >= min(grid_for(validation, name).lengthscales_y)


def _width(validation: Validation, name: str) -> float:
    """What the width of rounding is in some coordinates, by the median slope."""
    if not validation.rounding > 0:
        return 0.0
    slope = np.median(validation.coordinates[name].log_abs_det_jacobian)
    return validation.rounding * float(np.exp(slope))


def kernels_x(
    validation: Validation, name: str, grid: KernelGrid, *, relevance: bool = True
) -> list[Kernel]:
    """Kernels of x to try: none, isotropic, by a process, by columns that help.

    The last of these only with `relevance`, since they have to be looked for.
    """
    placed = validation.coordinates[name]
    Z, p = placed.Z, placed.Z.shape[1]
    kernels: list[Kernel] = [Constant()]
    if not p:
        return kernels
    metrics, regression = [], validation.is_regression(name)
    if not regression or placed.lengthscales is None:
        metrics.append(np.ones(p))
    if validation.has_summary(name):
        # Location and scale alone, or all of the law.
        metrics.append(np.where(np.arange(p) < 2, 1.0, RELEVANCE.ignored))
    if placed.lengthscales is not None:
        metrics.append(placed.lengthscales)
    elif not regression and p > 1 and len(Z) >= validation.tuning.regression_rows:
        metrics.append(_metric(validation, placed))
    lengths = [
        multiple * (median_distance(Z / metric, placed.weights) * metric)
        for metric in metrics
        for multiple in grid.multiples_x
    ]
    relevant = _relevant_lengthscales(validation, name) if relevance else None
    if relevant is not None:
        lengths += [multiple * relevant for multiple in RELEVANCE.tried]
    return kernels + [Gaussian(tuple(length.tolist())) for length in lengths]


def _metric(validation: Validation, plain: CoordinateRows) -> Array:
    """Lengthscales of the columns of x, from some Gaussian process."""
    for placed in validation.coordinates.values():
        if placed.lengthscales is not None:
            return placed.lengthscales
    fits = fit_processes(plain.Z, plain.U, plain.weights)
    return np.stack([fit.process.lengthscales for fit in fits]).min(axis=0)


def _relevant_lengthscales(validation: Validation, name: str) -> Array | None:
    """Lengthscales of the columns of x that matter; None if not looked for.

    With few rows the best of many choices is mostly chance. Of the regressions the
    best one so far is worth it; coordinates without one share what the best of
    them finds.
    """
    placed = validation.coordinates[name]
    n, p = placed.Z.shape
    if n <= validation.tuning.refitted_rows or not p or placed.U.shape[1] > 1:
        return None
    if validation.has_summary(name):
        return None  # which says what matters of x by itself
    if validation.ended:
        return None
    totals, regression = validation.totals(), validation.is_regression(name)
    alike = [
        k
        for k in validation.coordinates
        if validation.is_regression(k) == regression and not validation.has_summary(k)
    ]
    best = max(alike, key=lambda other: totals[other])
    if regression and name != best:
        return None
    if best not in validation.relevant:
        placed = validation.coordinates[best]
        validation.relevant[best] = relevant_lengthscales(
            validation.problem(best, RESIDUAL_BASES[0], RELEVANCE.centers),
            placed.log_abs_det_jacobian,
            placed.weights,
            n_jobs=validation.spec.n_jobs,
        )
    return validation.relevant[best]


def is_open(kernel: Kernel | None) -> bool:
    """Whether a kernel has a lengthscale that was not given."""
    if kernel is None:
        return True
    lengths: list[LengthScale] = []

    def note(lengthscale: LengthScale) -> LengthScale:
        lengths.append(lengthscale)
        return lengthscale

    kernel.map_lengthscales(note)
    return MEDIAN in lengths


def open_kernels_x(validation: Validation, name: str, grid: KernelGrid) -> list[Kernel]:
    """The kernel of x that was given, or those to try in some coordinates."""
    given = validation.spec.kernel_x
    if given is not None and not is_open(given):
        return [given]
    kernels = kernels_x(validation, name, grid)
    if given is None:
        return kernels
    radial = [kernel for kernel in kernels if isinstance(kernel, Gaussian)]
    return [_with_lengthscale(given, kernel.lengthscale) for kernel in radial]


def open_kernels_y(grid: KernelGrid, given: Kernel | None) -> list[Kernel]:
    """The kernel of y that was given, or those to try."""
    if given is not None and not is_open(given):
        return [given]
    if given is None:
        return [Gaussian(ell) for ell in grid.lengthscales_y]
    return [_with_lengthscale(given, ell) for ell in grid.lengthscales_y]


def _with_lengthscale(kernel: Kernel, lengthscale: Any) -> Kernel:
    """A kernel whose open lengthscales are filled in; given ones are kept."""
    return kernel.map_lengthscales(
        lambda current: lengthscale if current == MEDIAN else current
    )
