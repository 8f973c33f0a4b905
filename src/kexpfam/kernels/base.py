"""What a kernel is: a small frozen value that can be differentiated.

Score matching needs k and its derivatives up to second order in each argument. A
kernel therefore offers one thing, `at(A, B)`: the pairs of two point sets, on which
any derivative can be asked for. What the derivatives share (differences, exponentials)
is computed once per set of pairs, and only when asked for.

Sums and products of kernels are kernels. Their derivatives follow from those of their
parts: sums term by term, products by Leibniz's rule.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from kexpfam._linalg import Empty
from kexpfam._typing import Array, namespace_of
from kexpfam._validation import check_positive
from kexpfam.persistence import saved_value


class Pairs(ABC):
    """A kernel on all pairs of two point sets A (m, d) and B (n, d)."""

    @abstractmethod
    def partial(self, r: int, i: int, s: int, j: int) -> Array:
        """∂ʳ/∂aᵢʳ ∂ˢ/∂bⱼˢ of the kernel at every pair, shape (m, n).

        Derivatives (r + s > 0) are the caller's to write in.

        Args:
            r: Order of the derivative in the first argument, 0, 1 or 2.
            i: Coordinate it is taken in (ignored when r is 0).
            s: Order in the second argument.
            j: Coordinate of the second argument.
        """


class Kernel(ABC):
    """A positive definite function of two points."""

    @property
    @abstractmethod
    def smoothness(self) -> int:
        """How many derivatives in each argument exist; score matching needs two."""

    @property
    @abstractmethod
    def resolution(self) -> float:
        """Length below which functions of this kernel's space look smooth."""

    @property
    @abstractmethod
    def stationary(self) -> bool:
        """Whether k(a, b) is an even function of a − b."""

    @abstractmethod
    def at(
        self, A: Array, B: Array, weight: Array | None = None, empty: Empty = np.empty
    ) -> Pairs:
        """The kernel on all pairs of rows of A and B.

        Args:
            A: First points, (m, d).
            B: Second points, (n, d).
            weight: Factor for every pair, (m, n), constant under differentiation.
            empty: Where the (m, n) arrays come from; the pairs are valid as long as
                they are.
        """

    @abstractmethod
    def values(self, A: Array, B: Array, empty: Empty = np.empty) -> Array:
        """The kernel matrix k(A, B), (m, n), without derivatives and so faster."""

    @abstractmethod
    def map_lengthscales(
        self, change: Callable[["LengthScale"], "LengthScale"]
    ) -> "Kernel":
        """The same kernel with every lengthscale replaced by `change(lengthscale)`."""

    def __call__(self, A: Array, B: Array) -> Array:
        """Kernel matrix k(A, B), shape (m, n)."""
        return self.values(A, B)

    def __add__(self, other: "Kernel | float") -> "Sum":
        return Sum(self, _as_kernel(other))

    def __radd__(self, other: float) -> "Sum":
        return Sum(_as_kernel(other), self)

    def __mul__(self, other: "Kernel | float") -> "Product":
        return Product(self, _as_kernel(other))

    def __rmul__(self, other: float) -> "Product":
        return Product(_as_kernel(other), self)


LengthScale = float | tuple[float, ...] | str


def _as_kernel(value: "Kernel | float") -> "Kernel":
    if isinstance(value, Kernel):
        return value
    if isinstance(value, int | float):
        return Constant(float(value))
    raise TypeError(
        f"A kernel can be combined with a kernel or a number, not with "
        f"{type(value).__name__}."
    )


@saved_value
@dataclass(frozen=True)
class Constant(Kernel):
    """The same similarity for every pair, k(a, b) = value.

    As the kernel of x it makes p(y|x) independent of x.

    Example:
        >>> import numpy as np
        >>> Constant()(np.zeros((1, 2)), np.ones((2, 2)))
        array([[1., 1.]])
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        check_positive("value of Constant", self.value)

    @property
    def smoothness(self) -> int:
        return 2

    @property
    def resolution(self) -> float:
        return np.inf

    @property
    def stationary(self) -> bool:
        return True

    def at(
        self, A: Array, B: Array, weight: Array | None = None, empty: Empty = np.empty
    ) -> Pairs:
        matrix = self.values(A, B, empty)
        if weight is not None:
            matrix *= weight
        return _ConstantPairs(matrix)

    def values(self, A: Array, B: Array, empty: Empty = np.empty) -> Array:
        xp, shape = namespace_of(A, B), (len(A), len(B))
        if xp is not np:
            return xp.full(shape, self.value)
        matrix = empty(shape)
        matrix[...] = self.value
        return matrix

    def map_lengthscales(
        self, change: Callable[[LengthScale], LengthScale]
    ) -> "Constant":
        return self


@dataclass(frozen=True)
class _ConstantPairs(Pairs):
    matrix: Array

    def partial(self, r: int, i: int, s: int, j: int) -> Array:
        if r == s == 0:
            return self.matrix
        return namespace_of(self.matrix).zeros_like(self.matrix)


@dataclass(frozen=True)
class _Pair(Kernel):
    """Fields and rules that sums and products have in common."""

    first: Kernel
    second: Kernel

    @property
    def smoothness(self) -> int:
        return min(self.first.smoothness, self.second.smoothness)

    @property
    def resolution(self) -> float:
        return min(self.first.resolution, self.second.resolution)

    @property
    def stationary(self) -> bool:
        return self.first.stationary and self.second.stationary

    def map_lengthscales(self, change: Callable[[LengthScale], LengthScale]) -> Kernel:
        return replace(
            self,
            first=self.first.map_lengthscales(change),
            second=self.second.map_lengthscales(change),
        )


@saved_value
@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels: functions are sums of functions of either space."""

    def at(
        self, A: Array, B: Array, weight: Array | None = None, empty: Empty = np.empty
    ) -> Pairs:
        terms = (
            self.first.at(A, B, weight, empty),
            self.second.at(A, B, weight, empty),
        )
        return SumPairs(terms)

    def values(self, A: Array, B: Array, empty: Empty = np.empty) -> Array:
        return self.first.values(A, B, empty) + self.second.values(A, B, empty)


@dataclass(frozen=True)
class SumPairs(Pairs):
    """Pairs of a sum: every derivative is the sum of the terms' derivatives."""

    terms: tuple[Pairs, ...]

    def partial(self, r: int, i: int, s: int, j: int) -> Array:
        total = self.terms[0].partial(r, i, s, j)
        for term in self.terms[1:]:
            total = total + term.partial(r, i, s, j)
        return total


@saved_value
@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels: similar only where both say so."""

    def at(
        self, A: Array, B: Array, weight: Array | None = None, empty: Empty = np.empty
    ) -> Pairs:
        return _ProductPairs(
            self.first.at(A, B, weight, empty), self.second.at(A, B, empty=empty)
        )

    def values(self, A: Array, B: Array, empty: Empty = np.empty) -> Array:
        return self.first.values(A, B, empty) * self.second.values(A, B, empty)


@dataclass(frozen=True)
class _ProductPairs(Pairs):
    first: Pairs
    second: Pairs

    def partial(self, r: int, i: int, s: int, j: int) -> Array:
        # Leibniz in each argument: Σ_{a≤r} Σ_{b≤s} C(r,a) C(s,b) ∂ᵃ∂'ᵇk₁ ∂ʳ⁻ᵃ∂'ˢ⁻ᵇk₂
        return sum(
            (
                comb(r, a)
                * comb(s, b)
                * self.first.partial(a, i, b, j)
                * self.second.partial(r - a, i, s - b, j)
                for a in range(r + 1)
                for b in range(s + 1)
            ),
            start=np.zeros(()),
        )
