"""Every derivative of a radial kernel, written once.

A radial kernel is k(a, b) = φ(‖u‖²) with u = (a − b)/ℓ, ℓ one length or one per column.
Its derivatives need only the profile φ and its first four derivatives with respect to
s = ‖u‖². They are used here as ratios ρₖ = φ⁽ᵏ⁾/φ: a Gaussian's ratios are plain
numbers, so its derivatives cost one exponential and a short polynomial.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kexpfam._linalg import Empty
from kexpfam._parallel import cached_property
from kexpfam._typing import Array, namespace_of, written
from kexpfam.kernels.base import Kernel, LengthScale, Pairs

# A ratio is a number where it does not depend on s.
Ratio = float | Array

# Scaled points and differences are clipped here. Every kernel has long vanished, and
# fourth powers still fit into a double.
_FARTHEST = 1e50

# "median" asks the estimator to fill in a multiple of the data's median distance.
MEDIAN = "median"


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """A kernel of the scaled distance only; `lengthscale` is a length.

    Attributes:
        lengthscale: One length, one per column, or "median", which `fit` replaces by
            a multiple of the median distance between training points: half of it in
            a kernel of x, 1.4 times in a kernel of y.
    """

    lengthscale: float | Sequence[float] | str = 1.0

    def __post_init__(self) -> None:
        ell = self.lengthscale
        if isinstance(ell, str):
            if ell != MEDIAN:
                raise ValueError(
                    f"lengthscale must be a positive number, one per column, or "
                    f"'{MEDIAN}', got {ell!r}."
                )
            return
        values = np.asarray(ell, dtype=float)
        if (
            values.ndim > 1
            or not values.size
            or not np.all(np.isfinite(values) & (values > 0))
        ):
            raise ValueError(
                f"lengthscale must be a positive number, or a flat sequence of them, "
                f"got {ell!r}."
            )
        plain = float(values) if values.ndim == 0 else tuple(values.tolist())
        object.__setattr__(self, "lengthscale", plain)

    @abstractmethod
    def profile(self, s: Array, out: Array | None) -> Array:
        """φ(s) for squared scaled distances s, written to `out` unless that is None."""

    @abstractmethod
    def ratios(self, s: Array, order: int) -> list[Ratio]:
        """[φ′/φ, φ″/φ, …] at s, up to the given order (at most 4)."""

    @property
    def resolution(self) -> float:
        return float(np.min(self._lengths()))

    @property
    def stationary(self) -> bool:
        return True

    def at(
        self, A: Array, B: Array, weight: Array | None = None, empty: Empty = np.empty
    ) -> Pairs:
        A, B, lengths = self._scaled(A, B)
        return RadialPairs(self, A, B, lengths, weight, empty)

    def values(self, A: Array, B: Array, empty: Empty = np.empty) -> Array:
        A, B, lengths = self._scaled(A, B)
        if len(lengths) < 3 or _maybe_far(A, B):
            return RadialPairs(self, A, B, lengths, None, empty).partial(0, 0, 0, 0)
        # ‖a‖² + ‖b‖² − 2 a·b as one product, [a, ‖a‖², 1]·[−2b, 1, ‖b‖²].
        left = np.empty((len(A), A.shape[1] + 2))
        left[:, :-2], left[:, -1] = A, 1.0
        left[:, -2] = np.einsum("ai,ai->a", A, A)
        right = np.empty((B.shape[1] + 2, len(B)))
        right[:-2], right[-2] = -2.0 * B.T, 1.0
        right[-1] = np.einsum("bi,bi->b", B, B)
        s = np.matmul(left, right, out=empty((len(A), len(B))))
        return self.profile(s, s)

    def _scaled(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """Points in units of the lengthscale, and the lengths, (d,).

        They are centred, so that an offset of the data costs no digits.
        """
        ell = self._lengths()
        if ell.ndim and ell.size != A.shape[1]:
            raise ValueError(
                f"lengthscale has {ell.size} values, but the data have {A.shape[1]} "
                f"columns; give one number, or one per column."
            )
        # Shorter lengths than any difference of data: scaling by them cannot overflow.
        lengths = np.maximum(np.broadcast_to(ell, A.shape[1:]), 1e-100)
        center = B.mean(axis=0) if len(B) else 0.0
        xp = namespace_of(A, B)
        with np.errstate(over="ignore"):
            return (
                xp.clip((A - center) / lengths, -(_FARTHEST**4), _FARTHEST**4),
                xp.clip((B - center) / lengths, -(_FARTHEST**4), _FARTHEST**4),
                lengths,
            )

    def map_lengthscales(self, change: Callable[[LengthScale], LengthScale]) -> Self:
        ell = self.lengthscale
        assert isinstance(ell, float | tuple | str)
        return replace(self, lengthscale=change(ell))

    def _lengths(self) -> Array:
        if isinstance(self.lengthscale, str):
            raise ValueError(
                f"{type(self).__name__} still has lengthscale='{MEDIAN}'; an estimator "
                f"fills it in when it is fitted. Give a number to use it on its own."
            )
        return np.asarray(self.lengthscale, dtype=float)


def _maybe_far(A: Array, B: Array) -> bool:
    """Whether differences of points may have powers that overflow."""
    if namespace_of(A, B) is not np:  # compiled before values are known
        return True
    return max(np.abs(A).max(initial=0.0), np.abs(B).max(initial=0.0)) > _FARTHEST


class RadialPairs(Pairs):
    """A radial kernel on all pairs; what derivatives share is computed once."""

    def __init__(
        self,
        kernel: RadialKernel,
        A: Array,
        B: Array,
        ell: Array,
        weight: Array | None,
        empty: Empty,
    ) -> None:
        """Take scaled points A (m, d), B (n, d), the lengths (d,) and a weight."""
        self._xp = namespace_of(A, B)
        self._shape = (len(A), len(B))
        self._empty = empty
        self._kernel = kernel
        self._A = A
        self._B = B
        self._ell = ell
        self._weight = weight
        self._far = _maybe_far(A, B)
        self._differences: dict[int, Array] = {}
        self._squares: dict[int, Array] = {}
        self._ratios: list[Ratio] = []

    def partial(self, r: int, i: int, s: int, j: int) -> Array:
        if r == s == 0:
            return self._value
        # ∂'_j = −D_j, and each derivative brings down 1/ℓ.
        scale = float((-1.0) ** s / (self._ell[i] ** r * self._ell[j] ** s))
        if i == j or r == 0 or s == 0:
            factor = self._along(r + s, i if r else j, scale)
        else:
            factor = self._across(r, i, s, j, scale)
        factor *= self._value
        return factor

    # The two functions below return fresh arrays, written in place pass by pass, and
    # fold `scale` into the ratios, which are plain numbers for a Gaussian: an exact fit
    # spends its time outside LAPACK here.

    def _along(self, order: int, i: int, scale: float) -> Array:
        """Scale · D_iⁿφ / φ, derivatives in one coordinate: theory (10)."""
        rho = [scale * ratio for ratio in self._ratios_to(order)]
        if order == 1:
            return self._times(self._difference(i), 2.0 * rho[0])  # 2uφ′
        if order == 2:
            factor = self._times(self._square(i), 4.0 * rho[1])  # 2φ′ + 4u²φ″
            factor += 2.0 * rho[0]
            return factor
        if order == 3:
            factor = self._times(self._square(i), 8.0 * rho[2])  # 12uφ″ + 8u³φ‴
            factor += 12.0 * rho[1]
            factor *= self._difference(i)
            return factor
        factor = self._times(self._square(i), 16.0 * rho[3])  # 12φ″ + 48u²φ‴ + 16u⁴φ⁗
        factor += 48.0 * rho[2]
        factor *= self._square(i)
        factor += 12.0 * rho[1]
        return factor

    def _across(self, r: int, i: int, s: int, j: int, scale: float) -> Array:
        """Scale · D_iʳD_jˢφ / φ for two coordinates i ≠ j: theory (10)."""
        rho = [scale * ratio for ratio in self._ratios_to(r + s)]
        if r == s == 1:
            factor = self._times(self._difference(i), 4.0 * rho[1])  # 4u_iu_jφ″
            factor *= self._difference(j)
            return factor
        if r != s:
            twice, once = (i, j) if r == 2 else (j, i)
            factor = self._times(
                self._square(twice), 8.0 * rho[2]
            )  # (4φ″ + 8u_i²φ‴) u_j
            factor += 4.0 * rho[1]
            factor *= self._difference(once)
            return factor
        # 4φ″ + 8(u_i² + u_j²)φ‴ + 16u_i²u_j²φ⁗
        factor = self._times(self._square(i), 16.0 * rho[3])
        factor += 8.0 * rho[2]
        factor *= self._square(j)
        factor += self._times(self._square(i), 8.0 * rho[2])
        factor += 4.0 * rho[1]
        return factor

    def _times(self, array: Array, factor: Ratio) -> Array:
        return written(self._xp.multiply, array, factor, out=self._new())

    def _new(self) -> Array | None:
        """Memory for a result; None if arrays cannot be written to."""
        return self._empty(self._shape) if self._xp is np else None

    def _difference(self, i: int) -> Array:
        if i not in self._differences:
            xp, out = self._xp, self._new()
            u = written(xp.subtract, self._A[:, i, None], self._B[None, :, i], out=out)
            if self._far:
                u = written(xp.clip, u, -_FARTHEST, _FARTHEST, out=out)
            self._differences[i] = u
        return self._differences[i]

    def _square(self, i: int) -> Array:
        if i not in self._squares:
            u = self._difference(i)
            self._squares[i] = self._times(u, u)
        return self._squares[i]

    def _ratios_to(self, order: int) -> list[Ratio]:
        if len(self._ratios) < order:
            self._ratios = self._kernel.ratios(self._s, order)
        return self._ratios[:order]

    @cached_property
    def _s(self) -> Array:
        """Squared scaled distances (m, n)."""
        columns = self._A.shape[1]
        if columns == 1:
            return self._square(0)
        if not columns:
            return self._xp.zeros(self._shape)
        s = written(self._xp.add, self._square(0), self._square(1), out=self._new())
        for i in range(2, columns):
            s += self._square(i)
        return s

    @cached_property
    def _value(self) -> Array:
        value = self._kernel.profile(self._s, self._new())
        if self._weight is not None:
            value *= self._weight
        return value
