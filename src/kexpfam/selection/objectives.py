"""Held-out objectives of one family: a loss of θ, and its exact gradient.

θ holds the logarithms of the lengthscales and of λ (`Parameters`). For each fold the
low-rank fit to the other folds is judged on it, by the mean negative log density (one
column of y) or by the paper's held-out score. The gradient is the adjoint one of
`fold_fits`: it costs one or two times the value, whatever the number of columns of x.
No matrix of all rows is made, so there may be very many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kexpfam._typing import Array
from kexpfam.kernels import Constant, Kernel, RadialKernel
from kexpfam.selection.criteria import Criterion
from kexpfam.selection.fold_fits import FoldFits, fit_folds
from kexpfam.selection.parameters import Parameters, Penalty
from kexpfam.selection.problem import HeldOutProblem


@dataclass(frozen=True)
class ObjectiveValue:
    """What is minimised, in parts.

    Attributes:
        loss: The held-out loss.
        penalty: What the penalty adds to it.
    """

    loss: float
    penalty: float = 0.0

    @property
    def total(self) -> float:
        """Loss and penalty together."""
        return self.loss + self.penalty


@dataclass(frozen=True)
class HeldOutObjective:
    """A held-out loss as a function of θ.

    Attributes:
        problem: Rows, folds and centres.
        kernel_x: Kernel of x whose lengthscales are replaced: radial, or constant,
            which has none.
        kernel_y: Radial kernel of y whose lengthscale is replaced.
        criterion: How the fits are judged.
        penalty: Added to the loss, or None.
        n_jobs: Threads for passes over very many rows; None for all cores.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.kernels import Gaussian
        >>> from kexpfam.score_matching import ScoreSample
        >>> from kexpfam.selection import HeldOutLikelihood
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
        >>> base = GaussianBase(1.5)
        >>> sample = ScoreSample(
        ...     X, Y, np.full(40, 1 / 40), base.grad_log_density(Y), np.ones((40, 1))
        ... )
        >>> folds = slice(0, 20), slice(20, 40)
        >>> problem = HeldOutProblem(sample, folds, np.arange(10), base, reach=9.0)
        >>> objective = HeldOutObjective(
        ...     problem, Gaussian(), Gaussian(), HeldOutLikelihood.of(problem)
        ... )
        >>> value, gradient = objective.value_and_gradient(np.log([1, 1, 1, 0.1]))
        >>> gradient.shape
        (4,)
    """

    problem: HeldOutProblem
    kernel_x: Kernel
    kernel_y: RadialKernel
    criterion: Criterion
    penalty: Penalty | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_searchable(self.kernel_x, self.kernel_y)

    @property
    def columns(self) -> int:
        """Number of lengthscales of x."""
        radial = isinstance(self.kernel_x, RadialKernel)
        return self.problem.sample.X.shape[1] if radial else 0

    def kernels(self, parameters: Parameters) -> tuple[Kernel, RadialKernel]:
        """The kernels of x and y with these lengthscales."""
        return (
            with_lengthscale(self.kernel_x, parameters.lengthscale_x),
            replace(self.kernel_y, lengthscale=parameters.lengthscale_y),
        )

    def value(self, theta: Array) -> ObjectiveValue:
        """Loss and penalty at θ (p + 2,)."""
        penalty = self.penalty(theta)[0] if self.penalty else 0.0
        return ObjectiveValue(self.criterion.loss(self._fits(theta)), penalty)

    def value_and_gradient(self, theta: Array) -> tuple[ObjectiveValue, Array]:
        """Loss and penalty at θ, and the exact gradient of their sum, (p + 2,)."""
        fits = self._fits(theta)
        loss, sensitivity = self.criterion.sensitivity(fits)
        gradient = fits.gradient(sensitivity)
        penalty, slope = self.penalty(theta) if self.penalty else (0.0, 0.0)
        return ObjectiveValue(loss, penalty), gradient + slope

    def _fits(self, theta: Array) -> FoldFits:
        parameters = Parameters.from_theta(theta)
        if len(parameters.lengthscale_x) != self.columns:
            raise ValueError(
                f"theta must have {self.columns + 2} entries (lengthscales of x, of y, "
                f"and λ), got {len(theta)}."
            )
        return fit_folds(
            self.problem,
            *self.kernels(parameters),
            parameters.regularization,
            n_jobs=self.n_jobs,
        )


def check_searchable(kernel_x: Kernel, kernel_y: Kernel) -> None:
    """Refuse kernels whose lengthscales cannot be replaced, or would be lost."""
    if not isinstance(kernel_x, RadialKernel | Constant):
        raise TypeError(
            f"kernel_x must be a radial kernel or Constant to be searched, got "
            f"{kernel_x!r}."
        )
    if not isinstance(kernel_y, RadialKernel):
        raise TypeError(
            f"kernel_y must be a radial kernel to be searched, got {kernel_y!r}."
        )
    lengths = kernel_y.lengthscale
    if isinstance(lengths, tuple) and len(set(lengths)) > 1:
        raise ValueError(
            f"kernel_y must have one lengthscale to be searched, got {lengths}; scale "
            f"the columns of y instead."
        )


def with_lengthscale(kernel: Kernel, lengthscale: float | Sequence[float]) -> Kernel:
    """A radial kernel with another lengthscale; any other kernel as it is."""
    if isinstance(kernel, RadialKernel):
        return replace(kernel, lengthscale=lengthscale)
    return kernel
