"""Products of two Gaussian kernels, which most fits use, at many rows and few centres.

In units of the lengthscales, with rows a = (x, y) of weight w and centres c,

    √w K = exp(a·c − ½‖a‖² − ½‖c‖² + ½ log w)

is one matrix product and one exponential. It is computed for a few rows at a time,
which stay in the cache from the first product to the last that is made of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from kexpfam._linalg import Empty
from kexpfam._typing import Array
from kexpfam.kernels import Constant, Gaussian, JointKernel, RadialKernel


@dataclass(frozen=True)
class SumSpec:
    """How sums over rows of what is made of a product are computed."""

    # Centres farther out than this, in lengthscales, cost more digits of exponents and
    # squares that are made of products than the jitter of the Gram matrix does
    farthest_center: float = 300.0
    # Rows farther out are put here, where all kernels have vanished, so that their
    # squares stay finite
    farthest_row: float = 1e8
    # Bytes of values that stay in the cache; measured best from 32 to 64 rows of a
    # thousand numbers
    cached_bytes: int = 2**19

    def height(self, centers: int) -> int:
        """How many rows stay in the cache."""
        return max(1, self.cached_bytes // (8 * centers))


SUMS = SumSpec()


def lengths_of(kernel: JointKernel, p: int, d: int) -> Array | None:
    """ℓ of each column of (x, y), (p + d,), infinite where k_X or k_Y is constant.

    None for kernels that are not one product, or have no lengthscales.
    """
    if len(kernel.products) != 1:
        return None
    lengths = []
    for part, columns in zip(kernel.products[0], (p, d), strict=True):
        if not isinstance(part, RadialKernel | Constant):
            return None
        ell = np.inf if isinstance(part, Constant) else part.lengthscale
        if isinstance(ell, str):
            return None
        if np.size(ell) not in (1, columns):
            return None  # the kernel says what is wrong
        lengths.append(np.broadcast_to(np.asarray(ell, float), (columns,)))
    return np.concatenate(lengths)


@dataclass(frozen=True)
class GaussianProduct:
    """Centres of a product of two Gaussian kernels, or of a constant and one."""

    origin: Array  # What is subtracted from all (x, y), (q,)
    lengths: Array  # What they are divided by, (q,); infinite if k_X is constant
    right: Array  # Second factor of the exponent, (q + 2, m): centres, ones, −½‖c‖²
    d: int  # How many of the columns are those of y
    spec: SumSpec

    @classmethod
    def of(
        cls,
        kernel: JointKernel,
        X: Array,  # Conditions of the centres, (m, p)
        Y: Array,  # Responses of the centres, (m, d)
        spec: SumSpec = SUMS,
    ) -> Self | None:
        """None for other kernels, or if a centre is too far from the others."""
        lengths = lengths_of(kernel, X.shape[1], Y.shape[1])
        if lengths is None:
            return None
        ((kernel_x, kernel_y),) = kernel.products
        if not isinstance(kernel_x, Gaussian | Constant):
            return None
        points = np.concatenate([X, Y], axis=1)
        origin = points.mean(axis=0)
        centers = (points - origin) / lengths
        far = np.abs(centers).max(initial=0.0) > spec.farthest_center
        if far or not isinstance(kernel_y, Gaussian):
            return None
        right = np.ones((centers.shape[1] + 2, len(centers)))
        right[:-2] = centers.T
        right[-1] = -0.5 * np.einsum("ci,ci->c", centers, centers)
        if isinstance(kernel_x, Constant):
            right[-1] += np.log(kernel_x.value)
        return cls(origin, lengths, right, Y.shape[1], spec)

    @property
    def centers(self) -> Array:
        """Columns of the centres, (q, m)."""
        return self.right[:-2]

    def left(self, X: Array, Y: Array) -> Array:
        """First factor of the exponent, (n, q + 2): rows, −½‖a‖², ones."""
        q, p = len(self.lengths), len(self.lengths) - self.d
        left = np.ones((len(Y), q + 2))
        left[:, :p], left[:, p:q] = X, Y
        points = left[:, :q]
        points -= self.origin
        points /= self.lengths
        np.clip(points, -self.spec.farthest_row, self.spec.farthest_row, out=points)
        left[:, q] = -0.5 * np.einsum("ai,ai->a", points, points)
        return left

    def values(
        self, left: Array, empty: Empty = np.empty
    ) -> Iterator[tuple[slice, Array]]:
        """A few rows, and K of them and all centres, until there are no more rows."""
        n, m = len(left), self.right.shape[1]
        height = self.spec.height(m)
        K = empty((min(height, n), m))
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            values = K[: rows.stop - start]
            np.matmul(left[rows], self.right, out=values)
            np.exp(values, out=values)
            yield rows, values

    def differences(self, left: Array, i: int, K: Array, out: Array) -> Array:
        """(a_i − c_i) K for column i of y, in `out`."""
        column = len(self.lengths) - self.d + i
        # In place, which is twice as fast as a broadcast difference.
        np.copyto(out, left[:, column, None])
        out -= self.centers[column]
        out *= K
        return out
