"""How the sums C and b of (16) over some rows move with the lengthscales.

Equation numbers are those of docs/theory.md. A loss of the sums has a differential

    Σ_r l_r·dC r_r + v·db,

with few vectors l_r, r_r and one v. Written out over rows a this is a sum of weights
times d∂_iφ and d∂_i²φ: with F = ∂_iφ(a) the first has the weights
w g Σ_r [(F·r_r) l_r + (F·l_r) r_r] + w gsm_linear v, and the second w g v. Nothing of
the size of dC is formed, and a block of rows is forgotten once it is summed.

A feature is a product k_X·∂ʳ∂'ˢk_Y; the weights times the y-factors, summed over
features, weigh dk_X, and the weights times k_X weigh d(∂ʳ∂'ˢk_Y). Both derivatives are
exact for every radial kernel: dφ(s)/dlog ℓ = −2sφ′(s), which is a function of s again,
so that its derivatives in y follow from those of φ. For a product of two
Gaussian kernels this is done by hand, as in `score_matching.low_rank`: in units of the
lengthscales, rows u and centres c differ by t = u − c, and

    d∂_iφ = t_j² ∂_iφ dlog ℓ_j,   d∂_i²φ = t_j² ∂_i²φ dlog ℓ_j   for columns j of x;

the sums of t_j² = u_j² − 2u_jc_j + c_j² times weights follow from moments of the rows,
which are matrix products. For ℓ_y there are −2∂_iφ and −2∂_i²φ − 2t_i²K/ℓ² in addition.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Constant, Gaussian, Kernel, Pairs, RadialKernel
from kexpfam.kernels.radial import Ratio
from kexpfam.score_matching.expansion import ScoreSample

# Scaled points are clipped here, where all kernels have vanished; and centres farther
# out than this cost digits in squares of differences that are made of products.
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
    −2 s_j φ′(s). Kernels without lengthscales have no entries. `values` are k_X of all
    pairs, (n, m), like the weights.
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


# Bytes of features that stay in the cache from the first product to the last.
_CACHED_BYTES = 2**19


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
        """For log ℓ_x of each column and log ℓ_y, (p + 1,), of a block of rows."""


def sum_gradient(
    kernel_x: Kernel,
    kernel_y: RadialKernel,
    X: Array,
    Y: Array,
    orders: list[tuple[int, int]],
) -> SumGradient:
    """The fastest way for these kernels and centres, and orders of basis functions."""
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
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            gsm_linear = sample.weights * sample.gsm_linear[:, i]
            first = (gsm_weights[:, None] * (F @ others)) @ ways.T
            first += gsm_linear[:, None] * weights.linear
            second = gsm_weights[:, None] * weights.linear
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
        np.clip(points, -_FARTHEST, _FARTHEST, out=points)
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
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            gsm_linear = sample.weights * sample.gsm_linear[:, i]
            u, c = left[:, q - d + i], self.centers[:, q - d + i]
            found[(1 + i) * size : (2 + i) * size] += (gsm_weights * powers) @ K
            # F̃ = t_i K. In place, which is twice as fast as a broadcast difference.
            F = np.empty_like(K)
            np.copyto(F, u[:, None])
            F -= c
            F *= K
            # ∂_iφ = −F̃/ℓ and ∂_i²φ = (t_i F̃ − K)/ℓ²: what weighs F̃ is of low rank.
            onto = gsm_weights[:, None] * (F @ others) / ell**2
            linear = (gsm_weights * u / ell - gsm_linear) / ell
            onto = np.column_stack([onto, linear, gsm_weights / -(ell**2)])
            F *= onto @ np.column_stack([ways, v, v * c]).T
            found[:size] += powers @ F

    def _squares(self, moments: Array) -> Array:
        """Σ t_j² of what has these moments, for each column, (q,)."""
        q, centers = len(self.lengths), self.centers.T
        sums = moments[1 + q :] - 2.0 * centers * moments[1 : 1 + q]
        sums += centers**2 * moments[0]
        result: Array = sums.sum(axis=1)
        return result
