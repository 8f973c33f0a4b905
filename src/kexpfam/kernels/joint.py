"""Kernels on pairs (x, y): products k_X·k_Y, sums of them, and a user's own.

T(x, y) lives in the space of a joint kernel K((x, y), (x', y')). In the theory
K = ⟨Γ_x k(y, ·), Γ_x' k(y', ·)⟩ for an operator-valued Γ; a product of a kernel of x
and one of y is the separable choice, and sums of products are the next richer ones.
Derivatives are always taken in y.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import Empty
from kexpfam._typing import Array
from kexpfam.kernels.base import Kernel, LengthScale, Pairs, SumPairs
from kexpfam.persistence import saved_value


class JointKernel(ABC):
    """A positive definite function of two pairs (x, y) and (x', y').

    To use a joint kernel of your own, implement `at` and pass an instance as
    `KCEF(kernel=...)`. Its `Pairs` must offer derivatives in y up to second order in
    each argument.
    """

    @abstractmethod
    def at(
        self, X: Array, Y: Array, X2: Array, Y2: Array, empty: Empty = np.empty
    ) -> Pairs:
        """The kernel on all pairs of rows of (X, Y) and rows of (X2, Y2).

        Temporaries of shape (rows, rows) may come from `empty`; ignoring it is fine.
        """

    @property
    def resolution(self) -> float:
        """Length in y below which functions look smooth; infinity if not known."""
        return float("inf")

    @property
    def stationary(self) -> bool:
        """Whether K is symmetric and depends on y, y' through y − y' only, evenly.

        If so, half of all pairs is enough to fit.
        """
        return False


@saved_value
@dataclass(frozen=True)
class SumOfProducts(JointKernel):
    """K = Σₜ k_X,ₜ(x, x') k_Y,ₜ(y, y'), one or more separable terms.

    Attributes:
        terms: The pairs (kernel of x, kernel of y).
    """

    terms: tuple[tuple[Kernel, Kernel], ...]

    def __post_init__(self) -> None:
        for _, kernel_y in self.terms:
            if kernel_y.smoothness < 2:
                raise ValueError(
                    f"kernel_y={kernel_y!r} is not smooth enough: score matching takes "
                    f"two derivatives in each argument of the y-kernel, and this one "
                    f"has {kernel_y.smoothness}; use Matern(nu=2.5) or smoother, or "
                    f"Gaussian."
                )

    def at(
        self, X: Array, Y: Array, X2: Array, Y2: Array, empty: Empty = np.empty
    ) -> Pairs:
        pairs = tuple(
            ky.at(Y, Y2, kx.values(X, X2, empty), empty) for kx, ky in self.terms
        )
        return pairs[0] if len(pairs) == 1 else SumPairs(pairs)

    @property
    def resolution(self) -> float:
        return min(ky.resolution for _, ky in self.terms)

    @property
    def stationary(self) -> bool:
        return all(ky.stationary for _, ky in self.terms)

    def map_lengthscales(
        self,
        change_x: Callable[[LengthScale], LengthScale],
        change_y: Callable[[LengthScale], LengthScale],
    ) -> "SumOfProducts":
        """The same kernel with every lengthscale of x and of y replaced."""
        return SumOfProducts(
            tuple(
                (kx.map_lengthscales(change_x), ky.map_lengthscales(change_y))
                for kx, ky in self.terms
            )
        )

    def __add__(self, other: "SumOfProducts") -> "SumOfProducts":
        return SumOfProducts(self.terms + other.terms)


def separable(kernel_x: Kernel, kernel_y: Kernel) -> SumOfProducts:
    """The product kernel k_X(x, x')·k_Y(y, y'); add several for a richer one.

    Example:
        >>> from kexpfam.kernels import Constant, Gaussian
        >>> shared = separable(Constant(), Gaussian(1.0))
        >>> local = separable(Gaussian(0.3), Gaussian(0.5))
        >>> len((shared + local).terms)
        2

    Raises:
        ValueError: The kernel of y is not smooth enough for score matching.
    """
    return SumOfProducts(((kernel_x, kernel_y),))
