"""Cost of the gradient of the held-out objectives, relative to their value.

The gradient with respect to all lengthscales and λ is the adjoint one: one more solve
per fold and a few products. Both are measured in turns in one run, at n = 500 rows,
100 centres with derivatives and 5 columns of x; medians.
"""

import time
from statistics import median

import numpy as np
from record import write_result

from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, Matern, RadialKernel
from kexpfam.score_matching import ScoreSample
from kexpfam.selection.objectives import (
    Criterion,
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
)
from kexpfam.selection.problem import HeldOutProblem

N, CENTERS, COLUMNS, FOLDS, REPEATS = 500, 100, 5, 5, 51


def make_problem() -> HeldOutProblem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, COLUMNS))
    Y = np.sin(X[:, :1]) + 0.5 * rng.normal(size=(N, 1))
    base = GaussianBase(1.5)
    sample = ScoreSample(
        X, Y, np.full(N, 1 / N), base.grad_log_density(Y), np.ones((N, 1))
    )
    return HeldOutProblem.make(sample, base, FOLDS, rng, n_centers=CENTERS)


def measure(kernel: RadialKernel, criterion: Criterion) -> dict[str, float]:
    objective = HeldOutObjective(make_problem(), kernel, kernel, criterion)
    theta = np.log([1.0] * COLUMNS + [0.7, 0.01])
    values, gradients = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        objective.value(theta)
        middle = time.perf_counter()
        objective.value_and_gradient(theta)
        values.append(middle - start)
        gradients.append(time.perf_counter() - middle)
    return {
        "value_seconds": median(values),
        "value_and_gradient_seconds": median(gradients),
        "ratio": median(gradients) / median(values),
    }


if __name__ == "__main__":
    problem = make_problem()
    criteria: list[Criterion] = [HeldOutLikelihood.of(problem), HeldOutScore()]
    kernels: list[RadialKernel] = [Gaussian(), Matern(nu=2.5)]
    result = {
        f"{criterion.name}, {type(kernel).__name__}": measure(kernel, criterion)
        for criterion in criteria
        for kernel in kernels
    }
    for name, figures in result.items():
        print(name, {key: round(value, 4) for key, value in figures.items()})
    sizes = {"n": N, "centers": CENTERS, "columns": COLUMNS, "folds": FOLDS}
    print(write_result("gradient", {"sizes": sizes, **result}))
