"""A way out of score matching's blindness: a bridge between isolated components.

Where p(y|x) has isolated components, score matching hardly sees their relative
masses, because nothing connects them. So connect them: mix the data with draws from a
wide density m, whose mass is everywhere, fit that mixture

    p_mix(u|x) = (1 − s) p(u|x) + s m(u),

which has no gaps, and take the known m away again,

    p(u|x) = (p_mix(u|x) − s m(u)) / (1 − s).

In the gaps this is the small difference of two equal numbers, one of them estimated,
and may come out negative. There a small share of p_mix is used in its place, with a
smooth transition: quadrature would have to chase every kink.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kexpfam._typing import Array, namespace_of
from kexpfam._validation import check_share
from kexpfam.base_densities import BaseDensity
from kexpfam.distributions.coordinates import ResponseCoordinates
from kexpfam.distributions.univariate import UnivariateDensity
from kexpfam.partition import Formula, UnnormalizedDensity
from kexpfam.persistence import saved_value

# Where the difference is negative, about this share of p_mix is left. A guess: above
# the accuracy of p_mix in the gaps nothing is gained, and small masses stay small.
FLOOR = 0.01


@saved_value
@dataclass(frozen=True)
class Bridge:
    """What is mixed in and taken away again."""

    share: float  # s, between 0 and 1
    m: BaseDensity  # The wide density, in the coordinates of the kernel

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def log_rest(self, log_mix: Array, log_m: Array) -> Array:
        """Log of (p_mix − s m)/(1 − s), kept positive, from log p_mix and log m."""
        rest = (1.0 - self._ratio(log_mix, log_m)) / (1.0 - self.share)
        # A smooth maximum of rest and 0: (rest + √(rest² + 4f²))/2, without the
        # cancellation that this has where rest is negative.
        xp = namespace_of(rest)
        positive = 0.5 * (abs(rest) + xp.hypot(rest, 2.0 * FLOOR))
        negative = FLOOR**2 / positive
        return log_mix + xp.log(xp.where(rest > 0, positive, negative))

    def slope_factor(self, log_mix: Array, log_m: Array) -> Array:
        """What m'/m − p'/p is multiplied by in the slope of `log_rest`, beside p'/p."""
        ratio = self._ratio(log_mix, log_m)
        rest = (1.0 - ratio) / (1.0 - self.share)
        # d log(rest⁺) = d rest / √(rest² + 4f²), d rest = −ratio (m'/m − p'/p)/(1 − s)
        root = namespace_of(rest).hypot(rest, 2.0 * FLOOR)
        return -ratio / (1.0 - self.share) / root

    def _ratio(self, log_mix: Array, log_m: Array) -> Array:
        """S m / p_mix; where both vanish it is zero, and large but finite elsewhere."""
        with np.errstate(invalid="ignore"):
            gap = np.log(self.share) + log_m - log_mix
        xp = namespace_of(gap)
        gap = xp.where(xp.isneginf(log_mix), -np.inf, gap)
        return xp.exp(xp.minimum(gap, 300.0))


class BridgedRows(NamedTuple):
    """Rows and draws together: what the mixture is fitted to."""

    X: Array
    U: Array
    weights: Array


def bridge_sample(
    X: Array,  # Conditions, (n, p)
    U: Array,  # Responses in the coordinates of the kernel, (n, d)
    weights: Array,  # Row weights, (n,); their sum stays the same
    share: float,  # s, between 0 and 1
    m: BaseDensity,  # A density wide enough to bridge the gaps
    rng: np.random.Generator,  # Where the draws come from
    *,
    draws: int = 1,  # Draws that each condition is paired with; more, less noise
) -> BridgedRows:
    """Mix rows with draws from m, so that these have the share s of the weight.

    Example:
        >>> from kexpfam.base_densities import GaussianBase
        >>> rng = np.random.default_rng(0)
        >>> X, U = np.zeros((4, 1)), np.ones((4, 1))
        >>> rows = bridge_sample(X, U, np.ones(4), 0.25, GaussianBase(2.0), rng)
        >>> rows.U.shape, float(rows.weights[4:].sum())
        ((8, 1), 1.0)
    """
    check_share("share", share)
    drawn = m.sample(draws * len(U), U.shape[1], rng)
    return BridgedRows(
        np.concatenate([X, np.tile(X, (draws, 1))]),
        np.concatenate([U, drawn]),
        np.concatenate(
            [(1.0 - share) * weights, np.tile(share / draws * weights, draws)]
        ),
    )


@dataclass(frozen=True)
class BridgedFormula:
    """`BridgedDensity` without its arrays."""

    mix: Formula  # That of p_mix
    bridge: Bridge

    def at(
        self, shared: tuple[Array, ...], row: tuple[Array, ...], u: Array
    ) -> tuple[Array, Array]:
        log_partition, *mix_row = row
        log_mix, slope = self.mix.at(shared, tuple(mix_row), u)
        log_mix = log_mix - log_partition
        log_m = self.bridge.m.log_density(u[None])[0]
        slope_m = self.bridge.m.grad_log_density(u[None])[0]
        factor = self.bridge.slope_factor(log_mix, log_m)
        log_p = self.bridge.log_rest(log_mix, log_m)
        return log_p, slope + factor * (slope_m - slope)


@dataclass(frozen=True)
class BridgedDensity:
    """(p_mix − s m)/(1 − s), an unnormalised density like any other."""

    mix: UnnormalizedDensity  # p_mix before it is normalised
    log_partition: Array  # log Z of p_mix, (n,)
    bridge: Bridge  # What was mixed in

    @classmethod
    def of(
        cls, mix: UnnormalizedDensity, m: BaseDensity, share: float, resolution: float
    ) -> "BridgedDensity":
        """Normalise the mixture of one variable, and take m away."""
        ones = np.ones((len(mix), 1))
        support = mix.base.support(1)
        whole = UnivariateDensity.normalize(
            mix, ResponseCoordinates(0.0 * ones, ones, support), resolution
        )
        return cls(mix, whole.log_partition, Bridge(share, m))

    def __len__(self) -> int:
        return len(self.mix)

    @property
    def base(self) -> BaseDensity:
        """The base density of the mixture, whose support and tails these have."""
        return self.mix.base

    @property
    def responses(self) -> Array:
        return self.mix.responses

    @property
    def d(self) -> int:
        return self.mix.d

    @property
    def rounding(self) -> float:
        """That of the mixture, relative to the smaller mass that is left of it."""
        return self.mix.rounding / (1.0 - self.bridge.share)

    @property
    def same_rows(self) -> bool:
        return self.mix.same_rows

    def rows(self, index: Any) -> "BridgedDensity":
        return replace(
            self, mix=self.mix.rows(index), log_partition=self.log_partition[index]
        )

    def on_grid(self, nodes: Array) -> Array:
        log_mix = self.mix.on_grid(nodes) - self.log_partition[:, None]
        return self.bridge.log_rest(log_mix, self.bridge.m.log_density(nodes))

    def log_unnormalized(self, U: Array) -> Array:
        return self.bridge.log_rest(*self._logs(U))

    def gradient(self, U: Array) -> Array:
        slope = self.mix.gradient(U)
        slope_m = self.bridge.m.grad_log_density(U.reshape(-1, self.d))
        factor = self.bridge.slope_factor(*self._logs(U))
        return slope + factor[..., None] * (slope_m.reshape(U.shape) - slope)

    def _logs(self, U: Array) -> tuple[Array, Array]:
        """Log p_mix and log m at each row's own points, (n, q) each."""
        log_m = self.bridge.m.log_density(U.reshape(-1, self.d)).reshape(U.shape[:2])
        return self.mix.log_unnormalized(U) - self.log_partition[:, None], log_m

    @property
    def formula(self) -> BridgedFormula:
        return BridgedFormula(self.mix.formula, self.bridge)

    def shared_parameters(self) -> tuple[Array, ...]:
        return self.mix.shared_parameters()

    def row_parameters(self) -> tuple[Array, ...]:
        """Log Z of the mixture, and what the mixture needs to know of each x."""
        return (self.log_partition, *self.mix.row_parameters())

    def nearness(self) -> Array:
        return self.mix.nearness()
