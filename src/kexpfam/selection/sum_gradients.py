"""How the sums C and b of (16) over some rows move with the lengthscales.

Equation numbers are those of docs/theory.md. A loss of the sums has a differential

    Σ_r l_r·dC r_r + v·db,

with few vectors l_r, r_r and one v. Written out over rows a this is a sum of weights
times d∂_iφ and d∂_i²φ: with F = ∂_iφ(a) the first has the weights
w g Σ_r [(F·r_r) l_r + (F·l_r) r_r] + w drift v, and the second w g v. Nothing of the
size of dC is formed, and a panel of rows is forgotten once it is summed.

A feature is a product k_X·∂ʳ∂'ˢk_Y; the weights times the y-factors, summed over
features, weigh dk_X, and the weights times k_X weigh d(∂ʳ∂'ˢk_Y). For a product of two
Gaussian kernels this is done by hand, as in `score_matching.low_rank`: in units of the
lengthscales, rows u and centres c differ by t = u − c, and

    d∂_iφ = t_j² ∂_iφ dlog ℓ_j,   d∂_i²φ = t_j² ∂_i²φ dlog ℓ_j   for columns j of x;

the sums of t_j² = u_j² − 2u_jc_j + c_j² times weights follow from moments of the rows,
which are matrix products. For ℓ_y there are −2∂_iφ and −2∂_i²φ − 2t_i²K/ℓ² in addition.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Constant, Gaussian, Kernel, RadialKernel
from kexpfam.score_matching import ScoreSample
from kexpfam.selection.factors import ResponseFactors, stretch_x

# Bytes of features that stay in the cache from the first product to the last.
_CACHED_BYTES = 2**19

# Centres farther out than this, in lengthscales, cost digits in squares of differences
# that are made of moments; rows are put there, as all kernels have vanished.
_FARTHEST_CENTER, _FARTHEST_ROW = 300.0, 1e8


@dataclass(frozen=True)
class SumWeights:
    """Weights of dC and db in the differential of a loss: Σ_r l_r·dC r_r + v·db.

    Attributes:
        left: Vectors l_r, (M, k).
        right: Vectors r_r, (M, k).
        linear: v, (M,).
    """

    left: Array
    right: Array
    linear: Array


class SumGradient(ABC):
    """Differentials of sums over rows, for one basis."""

    @abstractmethod
    def of(self, sample: ScoreSample, weights: SumWeights) -> Array:
        """For log ℓ_x of each column and log ℓ_y, (p + 1,).

        Args:
            sample: A panel of rows, whose weights are taken as they are.
            weights: How the loss depends on the sums over them.
        """


def sum_gradient(
    kernel_x: Kernel,
    kernel_y: RadialKernel,
    X: Array,
    Y: Array,
    orders: list[tuple[int, int]],
) -> SumGradient:
    """The fastest way for these kernels and centres.

    Args:
        kernel_x: Kernel of x.
        kernel_y: Kernel of y, with the same lengthscale for all columns.
        X: Conditions of the centres, (m, p).
        Y: Responses of the centres, (m, d).
        orders: Order and column of the derivative of each group of basis functions.
    """
    if (
        len(orders) == 1
        and isinstance(kernel_x, Gaussian | Constant)
        and isinstance(kernel_y, Gaussian)
    ):
        fast = GaussianSumGradient.at(kernel_x, kernel_y, X, Y)
        if fast is not None:
            return fast
    return GeneralSumGradient(kernel_x, kernel_y, X, Y, orders)


@dataclass(frozen=True)
class GeneralSumGradient(SumGradient):
    """For any radial kernels.

    Attributes:
        kernel_x: Kernel of x.
        kernel_y: Kernel of y.
        X: Conditions of the centres, (m, p).
        Y: Responses of the centres, (m, d).
        orders: Order and column of the derivative of each group of basis functions.
    """

    kernel_x: Kernel
    kernel_y: RadialKernel
    X: Array
    Y: Array
    orders: list[tuple[int, int]]

    def of(self, sample: ScoreSample, weights: SumWeights) -> Array:
        height = max(1, _CACHED_BYTES // (8 * len(self.X)))
        pieces = [
            self._of_few(sample.part(slice(start, start + height)), weights)
            for start in range(0, len(sample.Y), height)
        ]
        total: Array = np.sum(pieces, axis=0)
        return total

    def _of_few(self, sample: ScoreSample, weights: SumWeights) -> Array:
        K = self.kernel_x.values(sample.X, self.X)
        factors = ResponseFactors(self.kernel_y, sample.Y, self.Y)
        # The highest derivative first: the lower ones need parts of it.
        factors.stretched(2, 0, *self.orders[-1])
        ways = np.concatenate([weights.left, weights.right], axis=1)
        others = np.concatenate([weights.right, weights.left], axis=1)
        to_K, to_y = np.zeros_like(K), 0.0
        for i in range(sample.Y.shape[1]):
            F = np.concatenate(
                [K * factors.part(1, i, s, j) for s, j in self.orders], axis=1
            )
            diffusion = sample.weights * sample.diffusion[:, i]
            drift = sample.weights * sample.drift[:, i]
            first = (diffusion[:, None] * (F @ others)) @ ways.T
            first += drift[:, None] * weights.linear
            second = diffusion[:, None] * weights.linear
            to_y += self._contract(factors, K, (1, i), first, to_K)
            to_y += self._contract(factors, K, (2, i), second, to_K)
        to_x = stretch_x(self.kernel_x, sample.X, self.X, K, to_K)
        return np.append(to_x, to_y)

    def _contract(
        self,
        factors: ResponseFactors,
        K: Array,
        derivative: tuple[int, int],
        weights: Array,
        to_K: Array,
    ) -> float:
        """Add the weights (n, M) of dk_X to `to_K`; return the part of log ℓ_y."""
        (r, i), m, to_y = derivative, K.shape[1], 0.0
        for group, (s, j) in enumerate(self.orders):
            own = weights[:, group * m : (group + 1) * m]
            to_K += own * factors.part(r, i, s, j)
            to_y += float(np.vdot(own * K, factors.stretched(r, i, s, j)))
        return to_y


@dataclass(frozen=True)
class GaussianSumGradient(SumGradient):
    """For products of two Gaussian kernels, or of a constant and one, at the centres.

    Attributes:
        origin: What is subtracted from all (x, y), (q,); of y alone if k_X is constant.
        lengths: What they are then divided by, (q,).
        centers: The centres in these units, (m, q).
        right: Second factor of the exponent, (q + 2, m).
        columns_y: How many of the columns are those of y.
    """

    origin: Array
    lengths: Array
    centers: Array
    right: Array
    columns_y: int

    @classmethod
    def at(
        cls, kernel_x: Gaussian | Constant, kernel_y: Gaussian, X: Array, Y: Array
    ) -> "GaussianSumGradient | None":
        """None if a centre is too far from the others."""
        constant = isinstance(kernel_x, Constant)
        points = Y if constant else np.concatenate([X, Y], axis=1)
        lengths = np.broadcast_to(np.asarray(kernel_y.lengthscale, float), Y.shape[1:])
        factor = 1.0
        if isinstance(kernel_x, Constant):
            factor = kernel_x.value
        else:
            ell = np.broadcast_to(np.asarray(kernel_x.lengthscale, float), X.shape[1:])
            lengths = np.concatenate([ell, lengths])
        origin = points.mean(axis=0)
        centers = (points - origin) / lengths
        if np.abs(centers).max(initial=0.0) > _FARTHEST_CENTER:
            return None
        right = np.ones((centers.shape[1] + 2, len(centers)))
        right[:-2] = centers.T
        right[-1] = np.log(factor) - 0.5 * np.einsum("ci,ci->c", centers, centers)
        return cls(origin, lengths, centers, right, Y.shape[1])

    def of(self, sample: ScoreSample, weights: SumWeights) -> Array:
        d, q, ell = self.columns_y, len(self.lengths), float(self.lengths[-1])
        left = self._left(sample)
        found = np.zeros(((1 + d) * (1 + 2 * q), len(self.centers)))
        height = max(1, _CACHED_BYTES // (8 * len(self.centers)))
        for start in range(0, len(left), height):
            rows = slice(start, start + height)
            self._add_moments(found, left[rows], sample.part(rows), weights)
        # Moments of Σ_i F̃_i∘(its weights), and for each i those of w g K.
        moments = found.reshape(1 + d, 1 + 2 * q, -1)
        moments[1:] *= weights.linear / ell**2
        total = moments[0] - moments[1:].sum(axis=0)
        squares = self._squares(total)
        # With one Gaussian for all columns of y, ℓ_y is that of each of them.
        to_y = squares[q - d :].sum() - 2.0 * total[0].sum()
        for i in range(d):
            to_y -= 2.0 * self._squares(moments[1 + i])[q - d + i]
        return np.append(squares[: q - d], to_y)

    def _left(self, sample: ScoreSample) -> Array:
        """First factor of the exponent, (n, q + 2)."""
        q = len(self.lengths)
        left = np.ones((len(sample.Y), q + 2))
        points = left[:, :q]
        points[:, q - self.columns_y :] = sample.Y
        points[:, : q - self.columns_y] = sample.X[:, : q - self.columns_y]
        points -= self.origin
        points /= self.lengths
        np.clip(points, -_FARTHEST_ROW, _FARTHEST_ROW, out=points)
        left[:, q] = -0.5 * np.einsum("ai,ai->a", points, points)
        return left

    def _add_moments(
        self, found: Array, left: Array, sample: ScoreSample, weights: SumWeights
    ) -> None:
        """Add Σ_a (1, u, u²) times what is weighed, for each centre."""
        d, q, ell = self.columns_y, len(self.lengths), float(self.lengths[-1])
        K = left @ self.right
        np.exp(K, out=K)
        powers = np.concatenate([left[:, -1:], left[:, :q], left[:, :q] ** 2], axis=1).T
        size, v = len(powers), weights.linear
        ways = np.concatenate([weights.left, weights.right], axis=1)
        others = np.concatenate([weights.right, weights.left], axis=1)
        for i in range(d):
            diffusion = sample.weights * sample.diffusion[:, i]
            drift = sample.weights * sample.drift[:, i]
            u, c = left[:, q - d + i], self.centers[:, q - d + i]
            found[(1 + i) * size : (2 + i) * size] += (diffusion * powers) @ K
            # F̃ = t_i K. In place, which is twice as fast as a broadcast difference.
            F = np.empty_like(K)
            np.copyto(F, u[:, None])
            F -= c
            F *= K
            # ∂_iφ = −F̃/ℓ and ∂_i²φ = (t_i F̃ − K)/ℓ²: what weighs F̃ is of low rank.
            onto = diffusion[:, None] * (F @ others) / ell**2
            linear = (diffusion * u / ell - drift) / ell
            onto = np.column_stack([onto, linear, diffusion / -(ell**2)])
            F *= onto @ np.column_stack([ways, v, v * c]).T
            found[:size] += powers @ F

    def _squares(self, moments: Array) -> Array:
        """Σ t_j² of what has these moments, for each column, (q,)."""
        q, centers = len(self.lengths), self.centers.T
        sums = moments[1 + q :] - 2.0 * centers * moments[1 : 1 + q]
        sums += centers**2 * moments[0]
        result: Array = sums.sum(axis=1)
        return result
