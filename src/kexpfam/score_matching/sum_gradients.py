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
so that its derivatives in y follow from those of φ. For a product of two Gaussian
kernels (`gaussian_products`), where rows u and centres c differ by t = u − c in units
of the lengthscales,

    d∂_iφ = t_j² ∂_iφ dlog ℓ_j,   d∂_i²φ = t_j² ∂_i²φ dlog ℓ_j   for columns j of x;

the sums of t_j² = u_j² − 2u_jc_j + c_j² times weights follow from moments of the rows,
which are matrix products. For ℓ_y there are −2∂_iφ and −2∂_i²φ − 2t_i²K/ℓ² in addition.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Kernel, RadialKernel, separable
from kexpfam.kernels.radial import Ratio
from kexpfam.score_matching.expansion import ScoreSample
from kexpfam.score_matching.gaussian_products import SUMS, GaussianProduct, SumSpec


class ResponseFactors:
    """Derivatives of k_Y on all pairs of two sets of responses; each computed once."""

    def __init__(self, kernel: RadialKernel, Y: Array, Y2: Array) -> None:
        """Take the kernel and responses Y (n, d), Y2 (m, d)."""
        self._Y, self._Y2 = Y, Y2
        self._one_column = Y.shape[1] == 1
        self._plain = kernel.at(Y, Y2)
        self._stretched = _Stretched(kernel.lengthscale, kernel).at(Y, Y2)
        self._known: dict[tuple[str | int, ...], Array] = {}

    def part(self, r: int, i: int, s: int, j: int) -> Array:
        """∂_iʳ∂'_jˢk_Y of all pairs, (n, m); not to be written to."""
        key: tuple[str | int, ...] = ("plain", r, i, s, j)
        mirror = None
        if self._one_column:
            # ∂' = −∂, so only the total order matters, but for a sign.
            key = ("plain", r + s, s % 2)
            mirror = self._known.get(("plain", r + s, 1 - s % 2))
        if mirror is not None:
            return self._once(key, mirror.__neg__)
        return self._once(key, lambda: self._plain.partial(r, i, s, j))

    def stretched(self, r: int, i: int, s: int, j: int) -> Array:
        """Its derivative in log ℓ_y, common to all columns of y; r + s at most 3."""
        if r + s and not self._one_column:
            key = ("stretched", r, i, s, j)
            return self._once(key, lambda: self._stretched.partial(r, i, s, j))
        if r + s:
            return self._once(("stretched", r, s), lambda: self._stretched_column(r, s))
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
        # The higher derivative first: it finds what the lower one needs.
        result = self.part(r + 1, 0, s, 0) if r < 2 else -self.part(r, 0, s + 1, 0)
        result = result * (self._Y2[:, 0] - self._Y[:, :1])
        result -= (r + s) * self.part(r, 0, s, 0)
        return result

    def _once(self, key: tuple[str | int, ...], make: Callable[[], Array]) -> Array:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


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
    kernel: Kernel,
    X: Array,
    X2: Array,
    values: Array,
    weights: Array,
    spec: SumSpec = SUMS,
) -> Array:
    """Σ weights · dk_X/dlog ℓ_j for each column j of x, (p,).

    k_X = φ(s) with s = Σ_j s_j and s_j = (x_j − x'_j)²/ℓ_j², so dk_X/dlog ℓ_j is
    −2 s_j φ′(s). Kernels without lengthscales have no entries. `values` are k_X of all
    pairs, (n, m), like the weights.
    """
    if not isinstance(kernel, RadialKernel):
        return np.zeros(0)
    center = X2.mean(axis=0)
    lengthscale = np.asarray(kernel.lengthscale, dtype=float)
    A, B = (
        np.clip(
            (points - center) / lengthscale,
            -spec.farthest_row,
            spec.farthest_row,
        )
        for points in (X, X2)
    )
    slope = values * weights
    if kernel.smoothness < 1 or np.abs(B).max(initial=0.0) > spec.farthest_center:
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


@dataclass(frozen=True)
class SumWeights:
    """Weights of dC and db in the differential of a loss: Σ_r l_r·dC r_r + v·db."""

    left: Array  # Vectors l_r, (M, k)
    right: Array  # Vectors r_r, (M, k)
    linear: Array  # v, (M,)

    def of_features(self, F: Array, g: Array) -> tuple[Array, Array]:
        """Factors (n, 2k) and (M, 2k) of g Σ_r [(F·r_r) l_r + (F·l_r) r_r]."""
        others = np.concatenate([self.right, self.left], axis=1)
        ways = np.concatenate([self.left, self.right], axis=1)
        return g[:, None] * (F @ others), ways


def sum_gradient(
    kernel_x: Kernel,
    kernel_y: RadialKernel,
    X: Array,  # Conditions of the centres, (m, p)
    Y: Array,  # Responses of the centres, (m, d)
    orders: list[tuple[int, int]],  # Order and column of each group of basis functions
) -> "GaussianSumGradient | GeneralSumGradient":
    """Differentials of sums over rows, the fastest way for these kernels."""
    gaussian = GaussianProduct.of(separable(kernel_x, kernel_y), X, Y)
    if gaussian is not None and len(orders) == 1:
        return GaussianSumGradient(gaussian)
    return GeneralSumGradient(kernel_x, kernel_y, X, Y, orders)


@dataclass(frozen=True)
class GeneralSumGradient:
    """Differentials of sums over rows, for any radial kernels."""

    kernel_x: Kernel
    kernel_y: RadialKernel
    X: Array  # Conditions of the centres, (m, p)
    Y: Array  # Responses of the centres, (m, d)
    orders: list[tuple[int, int]]  # Order and column of each group of basis functions
    spec: SumSpec = SUMS

    def of(self, sample: ScoreSample, weights: SumWeights) -> Array:
        """For log ℓ_x of each column and log ℓ_y, (p + 1,), of a block of rows."""
        height = self.spec.height(len(self.X))
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
        to_K, to_y = np.zeros_like(K), 0.0
        for i in range(sample.Y.shape[1]):
            F = np.concatenate(
                [K * factors.part(1, i, s, j) for s, j in self.orders], axis=1
            )
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            gsm_linear = sample.weights * sample.gsm_linear[:, i]
            onto, ways = weights.of_features(F, gsm_weights)
            first = onto @ ways.T
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
class GaussianSumGradient:
    """The same for products of two Gaussian kernels, or of a constant and one."""

    product: GaussianProduct  # At the centres

    def of(self, sample: ScoreSample, weights: SumWeights) -> Array:
        """For log ℓ_x of each column and log ℓ_y, (p + 1,), of a block of rows."""
        product, d, q = self.product, self.product.d, len(self.product.lengths)
        ell = float(product.lengths[-1])
        left = product.left(sample.X, sample.Y)
        found = np.zeros(((1 + d) * (1 + 2 * q), product.right.shape[1]))
        for rows, K in product.values(left):
            self._add_moments(found, left[rows], K, sample.part(rows), weights)
        # Moments of Σ_i F̃_i∘(its weights), and for each i those of w g K.
        moments = found.reshape(1 + d, 1 + 2 * q, -1)
        moments[1:] *= weights.linear / ell**2
        total = moments[0] - moments[1:].sum(axis=0)
        squares = self._squares(total)
        # With one Gaussian for all columns of y, ℓ_y is that of each of them.
        to_y = squares[q - d :].sum() - 2.0 * total[0].sum()
        for i in range(d):
            to_y -= 2.0 * self._squares(moments[1 + i])[q - d + i]
        # A constant kernel of x has no lengthscale.
        return np.append(squares[: q - d][np.isfinite(product.lengths[: q - d])], to_y)

    def _add_moments(
        self,
        found: Array,
        left: Array,
        K: Array,
        sample: ScoreSample,
        weights: SumWeights,
    ) -> None:
        """Add Σ_a (1, u, u²) times what is weighed, for each centre."""
        product, d, q = self.product, self.product.d, len(self.product.lengths)
        ell, v = float(product.lengths[-1]), weights.linear
        powers = np.concatenate([left[:, -1:], left[:, :q], left[:, :q] ** 2], axis=1).T
        size, F = len(powers), np.empty_like(K)
        for i in range(d):
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            gsm_linear = sample.weights * sample.gsm_linear[:, i]
            u, c = left[:, q - d + i], product.centers[q - d + i]
            found[(1 + i) * size : (2 + i) * size] += (gsm_weights * powers) @ K
            product.differences(left, i, K, F)  # F̃ = t_i K
            # ∂_iφ = −F̃/ℓ and ∂_i²φ = (t_i F̃ − K)/ℓ²: what weighs F̃ is of low rank.
            onto, ways = weights.of_features(F, gsm_weights)
            linear = (gsm_weights * u / ell - gsm_linear) / ell
            onto = np.column_stack([onto / ell**2, linear, gsm_weights / -(ell**2)])
            F *= onto @ np.column_stack([ways, v, v * c]).T
            found[:size] += powers @ F

    def _squares(self, moments: Array) -> Array:
        """Σ t_j² of what has these moments, for each column, (q,)."""
        centers, q = self.product.centers, len(self.product.lengths)
        sums = moments[1 + q :] - 2.0 * centers * moments[1 : 1 + q]
        sums += centers**2 * moments[0]
        result: Array = sums.sum(axis=1)
        return result
