"""Factors of separable features, and their derivatives in log lengthscales.

A feature of a low-rank fit is k_X(x, x') ∂_iʳ∂'_jˢk_Y(y, y'). Here are both factors on
all pairs of rows and centres, and their derivatives with respect to log ℓ, exact for
every radial kernel: dφ(s)/dlog ℓ = −2sφ′(s), which is a function of s again, so that
its derivatives in y follow from those of φ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Kernel, Pairs, RadialKernel
from kexpfam.kernels.radial import Ratio

# Scaled points are clipped here, where all kernels have vanished; and second points up
# to here lose few digits when squares of differences are made of products.
_FARTHEST, _FARTHEST_CENTER = 1e8, 300.0


class ResponseFactors:
    """Derivatives of k_Y on all pairs of two sets of responses; each computed once."""

    def __init__(self, kernel: RadialKernel, Y: Array, Y2: Array) -> None:
        """Take the kernel and responses Y (n, d), Y2 (m, d)."""
        self._kernel, self._Y, self._Y2 = kernel, Y, Y2
        self._one_column = Y.shape[1] == 1
        self._plain = _Kept(lambda: kernel.at(Y, Y2), self._one_column)
        stretched = _Stretched(kernel.lengthscale, kernel)
        self._columns: dict[tuple[int, int], Array] = {}
        self._stretched = _Kept(lambda: stretched.at(Y, Y2), self._one_column)

    def part(self, r: int, i: int, s: int, j: int) -> Array:
        """∂_iʳ∂'_jˢk_Y of all pairs, (n, m); not to be written to."""
        return self._plain.part(r, i, s, j)

    def stretched(self, r: int, i: int, s: int, j: int) -> Array:
        """Its derivative in log ℓ_y, common to all columns of y; r + s at most 3."""
        if r + s and not self._one_column:
            return self._stretched.part(r, i, s, j)
        if r + s:
            return self._stretched_column(r, s)
        # −2sφ′ = −Σ_i (y_i − y'_i) ∂_ik_Y
        result = np.zeros((len(self._Y), len(self._Y2)))
        for column in range(self._Y.shape[1]):
            difference = self._Y2[:, column] - self._Y[:, column, None]
            result += difference * self.part(1, column, 0, 0)
        return result

    def _stretched_column(self, r: int, s: int) -> Array:
        """For one column, from the next derivative instead of further ratios.

        ∂ʳ∂'ˢk_Y is ℓ⁻⁽ʳ⁺ˢ⁾ times a function of (y − y')/ℓ, so that d/dlog ℓ of it is
        −(r + s) ∂ʳ∂'ˢk_Y − (y − y') ∂ʳ⁺¹∂'ˢk_Y.
        """
        key = (r, s)
        if key not in self._columns:
            # The higher derivative first: it finds what the lower one needs.
            result = self.part(r + 1, 0, s, 0) if r < 2 else -self.part(r, 0, s + 1, 0)
            result = result * (self._Y2[:, 0] - self._Y[:, :1])
            result -= (r + s) * self.part(r, 0, s, 0)
            self._columns[key] = result
        return self._columns[key]


class _Kept:
    """Derivatives on pairs that are made when first needed; each computed once."""

    def __init__(self, make: Callable[[], Pairs], one_column: bool) -> None:
        self._make = make
        self._pairs: Pairs | None = None
        self._one_column = one_column
        self._parts: dict[tuple[int, int, int, int], Array] = {}

    def part(self, r: int, i: int, s: int, j: int) -> Array:
        key = (r, i, s, j)
        if key not in self._parts:
            self._parts[key] = self._known(r, i, s, j)
        return self._parts[key]

    def _known(self, r: int, i: int, s: int, j: int) -> Array:
        """From another derivative of the same order, if there is one."""
        # With one column ∂' = −∂, so only the total order matters, but for a sign.
        if self._one_column:
            for (r2, _, s2, _), part in self._parts.items():
                if r2 + s2 == r + s:
                    return part if (s2 - s) % 2 == 0 else -part
        if self._pairs is None:
            self._pairs = self._make()
        return self._pairs.partial(r, i, s, j)


@dataclass(frozen=True)
class _Stretched(RadialKernel):
    """d/dlog ℓ of a radial kernel, for derivatives of order one to three.

    Its profile is ψ = −2sφ′ with ψ⁽ᵏ⁾ = −2(kφ⁽ᵏ⁾ + sφ⁽ᵏ⁺¹⁾). Ratios are taken to φ,
    which is never zero; the value itself, of order zero, is therefore not that of ψ.
    """

    kernel: RadialKernel | None = None

    @property
    def smoothness(self) -> int:
        assert self.kernel is not None
        return self.kernel.smoothness

    def profile(self, s: Array, out: Array | None) -> Array:
        assert self.kernel is not None
        return self.kernel.profile(s, out)

    def ratios(self, s: Array, order: int) -> list[Ratio]:
        assert self.kernel is not None
        rho = self.kernel.ratios(s, order + 1)
        return [-2.0 * (k * rho[k - 1] + s * rho[k]) for k in range(1, order + 1)]


def stretch_x(
    kernel: Kernel, X: Array, X2: Array, values: Array, weights: Array
) -> Array:
    """Σ weights · dk_X/dlog ℓ_j for each column j of x, (p,).

    k_X = φ(s) with s = Σ_j s_j and s_j = (x_j − x'_j)²/ℓ_j², so dk_X/dlog ℓ_j is
    −2 s_j φ′(s). Kernels without lengthscales have no entries.

    Args:
        kernel: k_X.
        X: First points, (n, p).
        X2: Second points, (m, p).
        values: k_X of all pairs, (n, m).
        weights: (n, m).
    """
    if not isinstance(kernel, RadialKernel):
        return np.zeros(0)
    center = X2.mean(axis=0)
    A, B = (
        np.clip((points - center) / kernel.lengthscale, -_FARTHEST, _FARTHEST)
        for points in (X, X2)
    )
    slope = values * weights
    if kernel.smoothness < 1 or np.abs(B).max(initial=0.0) > _FARTHEST_CENTER:
        # φ′ is infinite at zero, or squares made of products would lose digits.
        squares = [(a[:, None] - b) ** 2 for a, b in zip(A.T, B.T, strict=True)]
        slope *= kernel.ratios(np.sum(squares, axis=0), 1)[0]
        return np.array([-2.0 * np.vdot(slope, square) for square in squares])
    ones, norms = np.ones((len(A), 1)), np.sum(B**2, axis=1)
    left = np.concatenate([np.sum(A**2, axis=1, keepdims=True), ones, A], axis=1)
    right = np.concatenate([np.ones((1, len(B))), norms[None], -2.0 * B.T])
    slope *= kernel.ratios(np.maximum(left @ right, 0.0), 1)[0]
    # Σ s_j of the slopes from their moments: s_j = a_j² − 2a_jb_j + b_j²
    by_row, by_column = slope.sum(axis=1), slope.sum(axis=0)
    crossed = np.einsum("ja,aj->j", B.T @ slope.T, A)
    result: Array = -2.0 * (by_row @ A**2 - 2.0 * crossed + by_column @ B**2)
    return result
