"""Base densities on the whole line with parameters fixed beforehand."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array, namespace_of
from kexpfam.base_densities.interface import BaseDensity, ToKernel
from kexpfam.base_densities.parameters import (
    PerColumn,
    as_parameter,
    per_column,
    require_columns,
)
from kexpfam.persistence import saved_value

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class LocationScaleDensity(BaseDensity):
    """A standard density of z = (y − location)/scale; subclasses give that density.

    The standard density is symmetric about zero.

    Attributes:
        scale: Width, once or per column, in the coordinates of the kernel.
        location: Centre, once or per column.
    """

    scale: PerColumn = 2.0
    location: PerColumn = 0.0

    def __post_init__(self) -> None:
        scale = as_parameter("scale", self.scale, positive=True)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "location", as_parameter("location", self.location))

    def column_log_density(self, y: Array, i: int) -> Array:
        return self._log_standard(self._z(y, i)) - math.log(per_column(self.scale, i))

    def column_gradient(self, y: Array, i: int) -> Array:
        return self._standard_gradient(self._z(y, i)) / per_column(self.scale, i)

    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        scale, location = per_column(self.scale, i), per_column(self.location, i)
        return location + scale * self._standard_sample(n, rng)

    def column_support(self, i: int) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def column_range(self, i: int) -> tuple[float, float]:
        # Nine scales are all that counts of a Gaussian; the quadrature extends them
        # where more is needed.
        location, reach = per_column(self.location, i), 9.0 * per_column(self.scale, i)
        return location - reach, location + reach

    def prepared(
        self, U: Array, weights: Array, to_kernel: ToKernel = np.asarray
    ) -> BaseDensity:
        require_columns(U.shape[1], scale=self.scale, location=self.location)
        return self

    def column_cdf(self, y: Array, i: int) -> Array:
        """Mass below values y of column i."""
        return self._standard_cdf(self._z(y, i))

    def column_sf(self, y: Array, i: int) -> Array:
        """Mass above values y of column i, small masses as accurate as below."""
        return self._standard_cdf(-self._z(y, i))

    def column_quantile(self, level: Array, i: int) -> Array:
        """The values of column i with mass `level` below them."""
        # One minus a level above one half is exact, so both tails are.
        tail = self._standard_quantile(np.minimum(level, 1.0 - level))
        z = np.where(level > 0.5, -tail, tail)
        return per_column(self.location, i) + per_column(self.scale, i) * z

    def column_std(self, i: int) -> float:
        """Standard deviation of column i; infinity if it does not exist."""
        if self.tail_index <= 2:
            return math.inf
        return per_column(self.scale, i) * math.sqrt(self._standard_variance)

    def column_entropy(self, i: int) -> float:
        """Differential entropy of column i in nats."""
        return math.log(per_column(self.scale, i)) + self._standard_entropy

    def _z(self, y: Array, i: int) -> Array:
        return (y - per_column(self.location, i)) / per_column(self.scale, i)

    @abstractmethod
    def _log_standard(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_gradient(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_sample(self, n: int, rng: np.random.Generator) -> Array: ...

    @abstractmethod
    def _standard_cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_quantile(self, level: Array) -> Array:
        """Quantiles at levels up to one half."""

    @property
    @abstractmethod
    def _standard_variance(self) -> float: ...

    @property
    @abstractmethod
    def _standard_entropy(self) -> float: ...


@saved_value
@dataclass(frozen=True)
class GaussianBase(LocationScaleDensity):
    """N(location, scale²); `GaussianBase(scale=2.0)` is the paper's q0.

    Example:
        >>> import numpy as np
        >>> GaussianBase(scale=2.0).log_density(np.zeros((1, 1))).round(4)
        array([-1.6121])
    """

    @property
    def tail_index(self) -> float:
        return math.inf

    def _log_standard(self, z: Array) -> Array:
        return -0.5 * z * z - _HALF_LOG_2PI

    def _standard_gradient(self, z: Array) -> Array:
        return -z

    def _standard_sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal(n)

    def _standard_cdf(self, z: Array) -> Array:
        return special.ndtr(z)

    def _standard_quantile(self, level: Array) -> Array:
        return special.ndtri(level)

    @property
    def _standard_variance(self) -> float:
        return 1.0

    @property
    def _standard_entropy(self) -> float:
        return 0.5 + _HALF_LOG_2PI


@saved_value
@dataclass(frozen=True)
class StudentBase(LocationScaleDensity):
    """Student's t with `df` degrees of freedom: tails that forgive far points.

    Example:
        >>> import numpy as np
        >>> StudentBase(scale=1.0, df=5.0).log_density(np.zeros((1, 1))).round(4)
        array([-0.9686])
    """

    df: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_parameter("df", self.df, positive=True)

    @property
    def tail_index(self) -> float:
        return self.df

    def _log_standard(self, z: Array) -> Array:
        nu, xp = self.df, namespace_of(z)
        constant = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2)
        constant -= 0.5 * math.log(nu * math.pi)
        # log1p(z²/ν) without squaring what would overflow
        return constant - (nu + 1) * xp.log(xp.hypot(1.0, z / math.sqrt(nu)))

    def _standard_gradient(self, z: Array) -> Array:
        safe = namespace_of(z).where(z == 0, 1.0, z)
        return -(self.df + 1) / (self.df / safe + z) * (z != 0)

    def _standard_sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_t(self.df, n)

    def _standard_cdf(self, z: Array) -> Array:
        return special.stdtr(self.df, z)

    def _standard_quantile(self, level: Array) -> Array:
        return special.stdtrit(self.df, level)

    @property
    def _standard_variance(self) -> float:
        return self.df / (self.df - 2.0)

    @property
    def _standard_entropy(self) -> float:
        half = 0.5 * self.df
        slope = special.digamma(half + 0.5) - special.digamma(half)
        constant = 0.5 * math.log(self.df) + special.betaln(half, 0.5)
        return float((half + 0.5) * slope + constant)


@saved_value
@dataclass(frozen=True)
class GeneralizedGaussianBase(LocationScaleDensity):
    """q0 ∝ exp(−|z|^power): flatter than a Gaussian for power > 2.

    Attributes:
        power: At least 1; 2 is a Gaussian, 1 is Laplace.

    Example:
        >>> import numpy as np
        >>> base = GeneralizedGaussianBase(scale=1.0, power=4.0)
        >>> base.log_density(np.zeros((1, 1))).round(4)
        array([-0.5949])
    """

    power: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_parameter("power", self.power, positive=True)
        if self.power < 1:
            raise ValueError(f"power must be at least 1, got {self.power!r}.")

    @property
    def tail_index(self) -> float:
        return math.inf

    def _log_standard(self, z: Array) -> Array:
        constant = math.log(2.0) + special.gammaln(1.0 + 1.0 / self.power)
        return -(abs(z) ** self.power) - constant

    def _standard_gradient(self, z: Array) -> Array:
        sign = namespace_of(z).sign(z)
        return -self.power * sign * abs(z) ** (self.power - 1.0)

    def _standard_sample(self, n: int, rng: np.random.Generator) -> Array:
        radius = rng.standard_gamma(1.0 / self.power, n) ** (1.0 / self.power)
        return radius * rng.choice([-1.0, 1.0], n)

    def _standard_cdf(self, z: Array) -> Array:
        tail = 0.5 * special.gammaincc(1.0 / self.power, np.abs(z) ** self.power)
        return np.where(z > 0, 1.0 - tail, tail)

    def _standard_quantile(self, level: Array) -> Array:
        radius = special.gammainccinv(1.0 / self.power, 2.0 * level)
        return -(radius ** (1.0 / self.power))

    @property
    def _standard_variance(self) -> float:
        inverse = 1.0 / self.power
        log_ratio = special.gammaln(3.0 * inverse) - special.gammaln(inverse)
        return math.exp(log_ratio)

    @property
    def _standard_entropy(self) -> float:
        inverse = 1.0 / self.power
        return inverse + math.log(2.0) + float(special.gammaln(1.0 + inverse))
