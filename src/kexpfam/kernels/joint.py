"""Kernels on pairs (x, y): products k_X·k_Y, sums of them, and a user's own.

T(x, y) lives in the space of a joint kernel K((x, y), (x', y')). In the theory
K = ⟨Γ_x k(y, ·), Γ_x' k(y', ·)⟩ for an operator-valued Γ; a product of a kernel of x
and one of y is the separable choice, and sums of products are the next richer ones.
Derivatives are always taken in y.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import Empty, for_each_row_block
from kexpfam._typing import Array
from kexpfam.kernels.base import Constant, Kernel, LengthScale, Pairs, SumPairs
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

    @property
    def constant_in_x(self) -> bool:
        """Whether K is known not to depend on x and x'."""
        return False

    @property
    def products(self) -> tuple[tuple[Kernel, Kernel], ...]:
        """Kernels (k_X, k_Y) whose products K is the sum of; none if it is not one."""
        return ()

    def map_lengthscales(
        self,
        change_x: Callable[[LengthScale], LengthScale],
        change_y: Callable[[LengthScale], LengthScale],
    ) -> "JointKernel":
        """The same kernel with every lengthscale replaced; itself if it shows none."""
        return self

    # K at conditions that are used again and again is evaluated in two steps: what it
    # needs to know of each condition, and then its pairs at any responses.

    def row_parameters(
        self, X: Array, X2: Array, n_jobs: int | None = None
    ) -> tuple[Array, ...]:
        """What K needs to know of each row of X beside X2, (n, ...) each."""
        return (X,)

    def at_rows(
        self,
        row_parameters: tuple[Array, ...],
        Y: Array,
        X2: Array,
        Y2: Array,
        empty: Empty = np.empty,
    ) -> Pairs:
        """`at` for rows whose conditions have these parameters."""
        (X,) = row_parameters
        return self.at(X, Y, X2, Y2, empty)

    def nearness(self, row_parameters: tuple[Array, ...], X2: Array) -> Array:
        """How near each row of X2 is to each condition, (n, m); ones if not known."""
        return np.ones((len(row_parameters[0]), len(X2)))


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
        weights = tuple(kx.values(X, X2, empty) for kx, _ in self.terms)
        return self.at_rows(weights, Y, X2, Y2, empty)

    @property
    def resolution(self) -> float:
        return min(ky.resolution for _, ky in self.terms)

    @property
    def stationary(self) -> bool:
        return all(ky.stationary for _, ky in self.terms)

    @property
    def constant_in_x(self) -> bool:
        return all(isinstance(kx, Constant) for kx, _ in self.terms)

    @property
    def products(self) -> tuple[tuple[Kernel, Kernel], ...]:
        return self.terms

    def row_parameters(
        self, X: Array, X2: Array, n_jobs: int | None = None
    ) -> tuple[Array, ...]:
        """k_X of each term, (n, m)."""
        matrices = tuple(np.empty((len(X), len(X2))) for _ in self.terms)

        def work(rows: slice, empty: Empty) -> None:
            for matrix, (kx, _) in zip(matrices, self.terms, strict=True):
                matrix[rows] = kx.values(X[rows], X2, empty)

        for_each_row_block(len(X), len(X2), work, n_jobs=n_jobs)
        return matrices

    def at_rows(
        self,
        row_parameters: tuple[Array, ...],
        Y: Array,
        X2: Array,
        Y2: Array,
        empty: Empty = np.empty,
    ) -> Pairs:
        pairs = tuple(
            ky.at(Y, Y2, weight, empty)
            for (_, ky), weight in zip(self.terms, row_parameters, strict=True)
        )
        return pairs[0] if len(pairs) == 1 else SumPairs(pairs)

    def nearness(self, row_parameters: tuple[Array, ...], X2: Array) -> Array:
        return functools.reduce(np.add, map(np.abs, row_parameters))

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
