"""Densities for the tests of samplers, with random coefficients or fitted."""

import numpy as np

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, JointKernel, separable
from kexpfam.sampling.programs import double_precision, library
from kexpfam.score_matching import KernelExpansion, TiltedDensity

CENTERS, ROWS = 6, 5


def tilted(kernel, d, *, base=None, low_rank=False, seed=0):
    """Densities with random coefficients; a kernel of y alone, or a joint one."""
    rng = np.random.default_rng(seed)
    if not isinstance(kernel, JointKernel):
        kernel = separable(Gaussian(0.8), kernel)
    X, Y = rng.normal(size=(CENTERS, 2)), rng.uniform(-0.9, 0.4, size=(CENTERS, d))
    first, second = 0.3 * rng.normal(size=(2, CENTERS, d))
    if low_rank:
        T = KernelExpansion(kernel, X, Y, zeroth=rng.normal(size=CENTERS))
    else:
        T = KernelExpansion(kernel, X, Y, first=first, second=second)
    conditions = rng.normal(size=(ROWS, 2))
    return TiltedDensity(base or GaussianBase(1.5), T, conditions)


def points(target, seed=1):
    """One point for each row: one on a centre, one far away, others near."""
    rng = np.random.default_rng(seed)
    U = rng.uniform(-0.95, 0.45, size=(len(target), target.d))
    U[0] = target.responses[0]
    U[1] = 60.0 if np.isinf(target.base.support(1)[0, 1]) else U[1]
    return U


def by_numpy(target, U):
    """Log densities (n,) and gradients (n, d) from the formula, row by row."""
    rows, found = target.row_parameters(), []
    for i, u in enumerate(U):
        row = tuple(part[i] for part in rows)
        found.append(target.formula.at(target.shared_parameters(), row, u))
    return np.array([log_p for log_p, _ in found]), np.array([g for _, g in found])


def by_jax(target, U):
    """The same from the formula as JAX runs it.

    It is traced without values, as for compiling, and then run operation by operation:
    that is faster than to compile a program for each of many small tests.
    """
    with double_precision():
        program = library("jax").vmap(target.formula.at, (None, 0, 0))
        arrays = target.shared_parameters(), target.row_parameters(), U
        library("jax").eval_shape(program, *arrays)
        return tuple(np.asarray(part) for part in program(*arrays))


def smooth_model(n=60, d=1, base=None, seed=0):
    """A KCEF of one mode, with as much λ as makes it smooth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(n, 1))
    mean = np.stack([np.sin(2.0 * x[:, 0]), 0.5 * x[:, 0]], axis=1)[:, :d]
    y = mean + 0.4 * rng.normal(size=(n, d)) * (1.3 + x)
    model = KCEF(
        select=None,
        kernel_x=Gaussian(0.8),
        kernel_y=Gaussian(1.5),
        base=base or GaussianBase(2.0),
        regularization=0.03,
    )
    return model.fit(x, y[:, 0] if d == 1 else y)
