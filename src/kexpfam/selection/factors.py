"""Factors of separable features, and their derivatives in log lengthscales.

A feature of a low-rank fit is k_X(x, x') ∂_iʳ∂'_jˢk_Y(y, y'). Here are both factors on
all pairs of rows and centres, and sums ⟨weights, d factor/d log ℓ⟩, exact for every
radial kernel: they need only the profile φ and derivatives that score matching has.
"""

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Kernel, RadialKernel


class ResponseFactors:
    """Derivatives of k_Y on all pairs of two sets of responses; each computed once."""

    def __init__(self, kernel: Kernel, Y: Array, Y2: Array) -> None:
        """Take the kernel and responses Y (n, d), Y2 (m, d)."""
        self._pairs = kernel.at(Y, Y2)
        self._kept: dict[tuple[int, int, int, int], Array] = {}
        self._Y, self._Y2 = Y, Y2
        self._one_column = Y.shape[1] == 1

    def part(self, r: int, i: int, s: int, j: int) -> Array:
        """∂_iʳ∂'_jˢk_Y of all pairs, (n, m); not to be written to."""
        key = (r, i, s, j)
        if key not in self._kept:
            self._kept[key] = self._known(r, i, s, j)
        return self._kept[key]

    def stretched(self, r: int, s: int) -> Array:
        """d/dlog ℓ_y of ∂ʳ∂'ˢk_Y, for one column of y, (n, m).

        A derivative of order t = r + s is homogeneous of degree −t in (y − y', ℓ), so
        by Euler it is −t ∂ʳ∂'ˢk_Y − (y − y') ∂ʳ⁺¹∂'ˢk_Y.
        """
        up = self.part(r + 1, 0, s, 0) if r < 2 else -self.part(r, 0, s + 1, 0)
        result = (self._Y2.T - self._Y) * up
        if r + s:
            result -= (r + s) * self.part(r, 0, s, 0)
        return result

    def _known(self, r: int, i: int, s: int, j: int) -> Array:
        """From another derivative of the same order, if there is one."""
        # With one column ∂' = −∂, so only the total order matters, but for a sign.
        if self._one_column:
            for (r2, _, s2, _), part in self._kept.items():
                if r2 + s2 == r + s:
                    return part if (s2 - s) % 2 == 0 else -part
        return self._pairs.partial(r, i, s, j)


def stretch_x(kernel: Kernel, X: Array, X2: Array, weights: Array) -> Array:
    """Σ weights · dk_X/dlog ℓ_j for each column j of x, (p,).

    k_X = φ(s) with s = Σ_j s_j and s_j = (x_j − x'_j)²/ℓ_j², so dk_X/dlog ℓ_j is
    −2 s_j φ′(s). Kernels without lengthscales have no entries.
    """
    if not isinstance(kernel, RadialKernel):
        return np.zeros(0)
    ell = np.asarray(kernel.lengthscale, dtype=float)
    A, B = X / ell, X2 / ell
    squares = [(a[:, None] - b) ** 2 for a, b in zip(A.T, B.T, strict=True)]
    s = np.sum(squares, axis=0)
    slope = kernel.profile(s, np.empty_like(s))
    slope *= kernel.ratios(s, 1)[0]
    slope *= weights
    return np.array([-2.0 * np.vdot(slope, square) for square in squares])
