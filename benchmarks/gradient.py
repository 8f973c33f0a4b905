"""Cost of the gradients of held-out objectives, relative to their value and to a fit.

The gradient with respect to all lengthscales and λ is the adjoint one: one more solve
per fold, and one more pass over the rows. All three are measured in turns in one run,
with 5 columns of x and 5 folds; medians. The fit is the sums of (16) over all rows and
one solve. Few rows have a basis with derivatives too, which is summed by other code.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
from record import write_result

from kexpfam.base_densities import GaussianBase
from kexpfam.family import equal_folds
from kexpfam.kernels import Gaussian, Matern, RadialKernel, separable
from kexpfam.score_matching import ScoreSample, statistics
from kexpfam.selection import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutProblem,
    HeldOutScore,
    Parameters,
)
from kexpfam.selection.objectives import Criterion

COLUMNS, FOLDS = 5, 5
THETA = np.log([1.0] * COLUMNS + [0.7, 0.01])


@dataclass(frozen=True)
class Size:
    """Rows, centres, whether the basis has derivatives, and how many repeats."""

    n: int
    centers: int
    derivatives: bool
    repeats: int

    def __str__(self) -> str:
        with_derivatives = ", with derivatives" if self.derivatives else ""
        return f"n = {self.n}, m = {self.centers}{with_derivatives}"


SIZES = (
    Size(500, 100, True, 51),
    Size(1000, 150, False, 51),
    Size(2000, 150, False, 31),
    Size(100_000, 150, False, 11),
)


def make_problem(size: Size) -> HeldOutProblem:
    """Rows whose response moves with the first column of x."""
    rng, n = np.random.default_rng(0), size.n
    X = rng.normal(size=(n, COLUMNS))
    Y = np.sin(X[:, :1]) + 0.5 * rng.normal(size=(n, 1))
    base = GaussianBase(1.5)
    sample = ScoreSample(
        X, Y, np.full(n, 1 / n), base.grad_log_density(Y), np.ones((n, 1))
    )
    folds = equal_folds(n, FOLDS)
    centers = np.sort(rng.choice(n, size.centers, replace=False))
    reach = float(np.max(np.abs(base.column_range(0))))
    return HeldOutProblem(sample, folds, centers, base, reach, size.derivatives)


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(
    problem: HeldOutProblem, kernel: RadialKernel, criterion: Criterion, repeats: int
) -> dict[str, float]:
    """A fit, a value, and a value with its gradient, in turns."""
    objective = HeldOutObjective(problem, kernel, kernel, criterion)
    parameters = Parameters.from_theta(THETA)
    basis = problem.basis(separable(*objective.kernels(parameters)))

    def fit() -> None:
        sums = statistics(basis, problem.sample, n_jobs=None)
        sums.solve(basis.gram(), parameters.regularization)

    turns = (
        fit,
        lambda: objective.value(THETA),
        lambda: objective.value_and_gradient(THETA),
    )
    taken = [[seconds(work) for work in turns] for _ in range(repeats)]
    fitted, value, gradient = (median(own) for own in zip(*taken, strict=True))
    return {
        "fit_seconds": fitted,
        "value_seconds": value,
        "value_and_gradient_seconds": gradient,
        "ratio": gradient / value,
        "value_in_fits": value / fitted,
        "value_and_gradient_in_fits": gradient / fitted,
    }


if __name__ == "__main__":
    kernels: list[RadialKernel] = [Gaussian(), Matern(nu=2.5)]
    result: dict[str, object] = {"columns": COLUMNS, "folds": FOLDS}
    for size in SIZES:
        problem = make_problem(size)
        criteria: list[Criterion] = [HeldOutLikelihood.of(problem), HeldOutScore()]
        result[str(size)] = found = {
            f"{criterion.name}, {type(kernel).__name__}": measure(
                problem, kernel, criterion, size.repeats
            )
            for criterion in criteria
            for kernel in kernels
        }
        for name, figures in found.items():
            rounded = {key: round(value, 4) for key, value in figures.items()}
            print(size, name, rounded, flush=True)
    print(write_result("gradient", result))
