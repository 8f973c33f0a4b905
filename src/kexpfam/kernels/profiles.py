"""The radial kernels: each is its profile φ(s), s = ‖u‖², and the ratios φ⁽ᵏ⁾/φ."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, namespace_of, written
from kexpfam._validation import check_positive
from kexpfam.kernels.radial import RadialKernel, Ratio
from kexpfam.persistence import saved_value


@saved_value
@dataclass(frozen=True)
class Gaussian(RadialKernel):
    """k(a, b) = exp(−‖(a − b)/ℓ‖² / 2): smooth functions of one length.

    Example:
        >>> import numpy as np
        >>> Gaussian(2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
        array([[1.    , 0.6065]])
    """

    @property
    def smoothness(self) -> int:
        return 2

    def profile(self, s: Array, out: Array | None) -> Array:
        xp = namespace_of(s)
        return written(xp.exp, written(xp.multiply, s, -0.5, out=out), out=out)

    def ratios(self, s: Array, order: int) -> list[Ratio]:
        return [(-0.5) ** k for k in range(1, order + 1)]


def _power(s: Array, rate: float, power: float, out: Array | None) -> Array:
    """(1 + rate·s)^(−power)."""
    xp = namespace_of(s)
    base = written(xp.multiply, s, rate, out=out)
    base += 1.0
    return written(xp.power, base, -power, out=out)


def _power_ratios(base: Array, rate: float, power: float, order: int) -> list[Ratio]:
    """Ratios of φ = base^(−power) where base = 1 + rate·s."""
    step = rate / base
    ratios: list[Ratio] = []
    current = np.ones(())
    for k in range(order):
        current = current * (-(power + k)) * step
        ratios.append(current)
    return ratios


@saved_value
@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """k = (1 + ‖u‖²/(2α))^(−α): a mixture of Gaussians over lengths.

    Attributes:
        alpha: Small values mix many lengths; infinity is the Gaussian.

    Example:
        >>> import numpy as np
        >>> RationalQuadratic(1.0)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
        array([[0.6667]])
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)

    @property
    def smoothness(self) -> int:
        return 2

    def profile(self, s: Array, out: Array | None) -> Array:
        return _power(s, 1.0 / (2.0 * self.alpha), self.alpha, out)

    def ratios(self, s: Array, order: int) -> list[Ratio]:
        rate = 1.0 / (2.0 * self.alpha)
        return _power_ratios(1.0 + rate * s, rate, self.alpha, order)


@saved_value
@dataclass(frozen=True)
class InverseMultiquadric(RadialKernel):
    """k = (1 + ‖u‖²)^(−power): slow tails that reach far points.

    Example:
        >>> import numpy as np
        >>> InverseMultiquadric(1.0)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
        array([[0.7071]])
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("power", self.power)

    @property
    def smoothness(self) -> int:
        return 2

    def profile(self, s: Array, out: Array | None) -> Array:
        return _power(s, 1.0, self.power, out)

    def ratios(self, s: Array, order: int) -> list[Ratio]:
        return _power_ratios(1.0 + s, 1.0, self.power, order)


@saved_value
@dataclass(frozen=True)
class Matern(RadialKernel):
    """Matérn kernel of half-integer smoothness ν = 1/2, 3/2, 5/2 and so on.

    With z = √(2ν)‖u‖ the kernel is proportional to z^ν K_ν(z), and d/ds lowers ν by
    one: dφ_ν/ds ∝ −ν z^(ν−1) K_(ν−1)(z). For half-integers z^μ K_μ(z) is exp(−z) times
    a polynomial, so no Bessel function is evaluated.

    As the kernel of y, ν = 1/2 and 3/2 are refused by the estimators: score matching
    takes two derivatives in each argument, and these kernels have none and one.

    Attributes:
        nu: A half-integer; larger is smoother.

    Example:
        >>> import numpy as np
        >>> Matern(1.0, nu=1.5)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
        array([[0.4834]])
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        nu = check_positive("nu", self.nu, finite=False)
        largest = 50.5  # above, it cannot be told from a Gaussian
        if nu > largest or (nu - 0.5) % 1.0 != 0.0:
            raise ValueError(
                f"nu must be a half-integer (0.5, 1.5, 2.5 and so on) up to "
                f"{largest}, got {self.nu!r}; use Gaussian for infinitely smooth "
                f"functions."
            )

    @property
    def smoothness(self) -> int:
        return min(2, int(self.nu))

    def profile(self, s: Array, out: Array | None) -> Array:
        xp, z = namespace_of(s), self._z(s)
        value = written(xp.exp, written(xp.negative, z, out=out), out=out)
        value *= _bessel_polynomial(self.nu, z)
        value /= float(_bessel_polynomial(self.nu, np.zeros(())))
        return value

    def ratios(self, s: Array, order: int) -> list[Ratio]:
        # Where z is zero a ratio has a pole, which is always multiplied by a higher
        # power of z: its value does not matter as long as its cube does not overflow.
        z = namespace_of(s).maximum(self._z(s), 1e-60)
        own = _bessel_polynomial(self.nu, z)
        return [
            (-self.nu) ** k * _bessel_polynomial(self.nu - k, z) / own
            for k in range(1, order + 1)
        ]

    def _z(self, s: Array) -> Array:
        xp = namespace_of(s)
        # Beyond z = 800 exp(−z) is zero; the polynomial must not overflow there.
        z = xp.clip(s, 0.0, 800.0**2 / (2.0 * self.nu))
        z *= 2.0 * self.nu
        return xp.sqrt(z)


def _bessel_polynomial(mu: float, z: Array) -> Array:
    """√(2/π) exp(z) z^μ K_μ(z) for half-integer μ of either sign.

    P_½ = 1, P_(3/2) = 1 + z, P_(μ+1) = z² P_(μ−1) + 2μ P_μ; K_(−μ) = K_μ gives
    P_(−μ) = z^(−2μ) P_μ.
    """
    if mu < 0:
        return _bessel_polynomial(-mu, z) * z ** (2.0 * mu)
    lower, current = namespace_of(z).ones_like(z), 1.0 + z
    if mu == 0.5:
        return lower
    order = 1.5
    while order < mu:
        lower, current = current, z * z * lower + 2.0 * order * current
        order += 1.0
    return current
