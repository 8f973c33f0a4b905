"""Kernel values by direct formulas, and their derivatives without any formula.

A kernel is an analytic function of each coordinate, so its derivatives are Cauchy
integrals over a circle, which the trapezium rule evaluates to machine precision:

    ∂ʳ∂'ˢk(a, b) = r! s! mean of k(a + h e^{iθ}, b + h e^{iφ}) e^{-irθ-isφ} / hʳ⁺ˢ.

A Matérn kernel is analytic only away from a = b. There, Bochner's theorem gives the
derivatives of any stationary kernel as moments of its spectral measure,
∂_iʳ∂'_jˢk(a, a) = iʳ(−i)ˢ E ω_iʳ ω_jˢ. The kernels here are mixtures of Gaussians
exp(−τ‖u‖²/2) over τ, so that E ω_i² = E τ and E ω_i⁴ = 3 E τ².
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

# Points on each circle, and its radius in lengthscales (or in distances from the
# singularity, if that is nearer). Two circles add up, so the error is 0.3²⁴ = 3e-13.
POINTS = 24
RADIUS = 0.15


@dataclass(frozen=True)
class SlowKernel:
    """A kernel of rows of length d, which may be complex.

    Attributes:
        value: (..., d), (..., d) -> (...).
        lengths: Shortest lengthscale of each coordinate, d -> (d,).
        second: E ω_i² under the spectral measure (of mass k(a, a)), d -> (d,).
        fourth: E ω_i² ω_j², d -> (d, d).
        singular: Whether the kernel is not analytic where a = b.
    """

    value: Callable
    lengths: Callable[[int], np.ndarray]
    mass: float
    second: Callable[[int], np.ndarray]
    fourth: Callable[[int], np.ndarray]
    singular: bool = False

    def __add__(self, other):
        return SlowKernel(
            value=lambda a, b: self.value(a, b) + other.value(a, b),
            lengths=lambda d: np.minimum(self.lengths(d), other.lengths(d)),
            mass=self.mass + other.mass,
            second=lambda d: self.second(d) + other.second(d),
            fourth=lambda d: self.fourth(d) + other.fourth(d),
            singular=self.singular or other.singular,
        )

    def __mul__(self, other):
        # The spectral measure of a product is a convolution: ω = ω₁ + ω₂, independent.
        def second(d):
            return self.second(d) * other.mass + self.mass * other.second(d)

        def fourth(d):
            # E (ω₁+ω₂)_i² (ω₁+ω₂)_j², odd moments and E ω_iω_j (i ≠ j) being zero
            one, two = self.second(d), other.second(d)
            mixed = np.outer(one, two) + np.outer(two, one)
            mixed += 4.0 * np.diag(one * two)
            return self.fourth(d) * other.mass + self.mass * other.fourth(d) + mixed

        return SlowKernel(
            value=lambda a, b: self.value(a, b) * other.value(a, b),
            lengths=lambda d: np.minimum(self.lengths(d), other.lengths(d)),
            mass=self.mass * other.mass,
            second=second,
            fourth=fourth,
            singular=self.singular or other.singular,
        )


def constant(value: float) -> SlowKernel:
    return SlowKernel(
        value=lambda a, b: np.full(np.broadcast(a, b).shape[:-1], value, dtype=complex),
        lengths=lambda d: np.full(d, np.inf),
        mass=value,
        second=np.zeros,
        fourth=lambda d: np.zeros((d, d)),
    )


def _radial(profile, ell, tau, tau_squared, *, singular=False) -> SlowKernel:
    def lengths(d):
        return np.broadcast_to(np.asarray(ell, dtype=float), (d,))

    def value(a, b):
        u = (a - b) / np.asarray(ell, dtype=float)
        return profile((u * u).sum(axis=-1))

    def fourth(d):
        inverse = 1.0 / lengths(d) ** 2
        return tau_squared * np.outer(inverse, inverse) * (1.0 + 2.0 * np.eye(d))

    return SlowKernel(
        value=value,
        lengths=lengths,
        mass=1.0,
        second=lambda d: tau / lengths(d) ** 2,
        fourth=fourth,
        singular=singular,
    )


def gaussian(ell) -> SlowKernel:
    return _radial(lambda s: np.exp(-s / 2), ell, 1.0, 1.0)


def rational_quadratic(ell, alpha) -> SlowKernel:
    # τ ~ Gamma(α, α)
    return _radial(
        lambda s: (1 + s / (2 * alpha)) ** (-alpha), ell, 1.0, (alpha + 1) / alpha
    )


def inverse_multiquadric(ell, power) -> SlowKernel:
    # τ/2 ~ Gamma(power, 1)
    return _radial(
        lambda s: (1 + s) ** (-power), ell, 2 * power, 4 * power * (power + 1)
    )


def matern(ell, nu) -> SlowKernel:
    # τ ~ inverse Gamma(ν, ν); moments that do not exist are infinite
    def profile(s):
        z = np.sqrt(2 * nu * np.asarray(s, dtype=complex))
        away = np.where(z == 0, 1.0, z)
        k = 2 ** (1 - nu) / math.gamma(nu) * away**nu * special.kv(nu, away)
        return np.where(z == 0, 1.0, k)

    tau = nu / (nu - 1) if nu > 1 else np.inf
    tau_squared = nu**2 / ((nu - 1) * (nu - 2)) if nu > 2 else np.inf
    return _radial(profile, ell, tau, tau_squared, singular=True)


def partials(kernel: SlowKernel, a, b, i: int, j: int):
    """∂_iʳ∂'_jˢk(a, b) for r, s = 0..2, and the scale of the error of each.

    Returns:
        Two (3, 3) arrays, indexed [r, s].
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    lengths = kernel.lengths(len(a))
    if np.all(a == b):
        return _at_coincidence(kernel, len(a), i, j)
    unit = RADIUS
    finite = np.where(np.isfinite(lengths), lengths, 1.0)
    if kernel.singular:
        unit *= min(1.0, float(np.linalg.norm((a - b) / finite)))
    h, g = unit * finite[i], unit * finite[j]
    circle = np.exp(2j * np.pi * np.arange(POINTS) / POINTS)
    moved_a = np.repeat(a[None].astype(complex), POINTS, axis=0)
    moved_b = np.repeat(b[None].astype(complex), POINTS, axis=0)
    moved_a[:, i] += h * circle
    moved_b[:, j] += g * circle
    half = kernel.value(moved_a[: POINTS // 2 + 1, None, :], moved_b[None, :, :])
    # Kernels are real on the real line, so that k(ā, b̄) is the conjugate of k(a, b).
    mirrored = half[POINTS // 2 - 1 : 0 : -1, -np.arange(POINTS)]
    values = np.concatenate([half, np.conj(mirrored)])
    coefficients = np.fft.fft2(values).real[:3, :3] / POINTS**2
    factor = np.outer([1, 1 / h, 2 / h**2], [1, 1 / g, 2 / g**2])
    return coefficients * factor, np.abs(values).max() * factor


def _at_coincidence(kernel: SlowKernel, d: int, i: int, j: int):
    out = np.zeros((3, 3))
    second, fourth = kernel.second(d), kernel.fourth(d)
    out[0, 0] = kernel.mass
    out[2, 0], out[0, 2] = -second[i], -second[j]
    out[1, 1] = second[i] if i == j else 0.0
    out[2, 2] = fourth[i, j]
    # |E ω_iʳω_jˢ|² ≤ E ω_i²ʳ E ω_j²ˢ
    scale = np.outer(
        [kernel.mass, second[i], fourth[i, i]], [kernel.mass, second[j], fourth[j, j]]
    )
    return out, np.sqrt(scale)


def all_partials(kernel: SlowKernel, A, B):
    """Derivatives at all pairs, [a, b, i, j, r, s], and the scales of their errors."""
    d = A.shape[1]
    shape = (len(A), len(B), d, d, 3, 3)
    out, scale = np.empty(shape), np.empty(shape)
    for a, b, i, j in np.ndindex(*shape[:4]):
        out[a, b, i, j], scale[a, b, i, j] = partials(kernel, A[a], B[b], i, j)
    return out, scale
