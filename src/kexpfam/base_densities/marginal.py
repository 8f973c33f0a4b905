"""The marginal density of y as base density: a kernel density estimate from the data.

With it the kernel part models only how p(y|x) departs from p(y). The estimate is put on
a grid of Gaussian components first, so that its cost does not depend on n, and a wide
component keeps the tails away from zero.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam._kernel_density import KernelEstimate, moments, silverman
from kexpfam._typing import Array
from kexpfam.base_densities.interface import BaseDensity, ToKernel
from kexpfam.persistence import saved_value


@saved_value
@dataclass(frozen=True)
class MarginalBase(BaseDensity):
    """A kernel density estimate of the training responses, column by column.

    Before `fit` it is a recipe and has no parameters; the estimator replaces it by the
    estimate, a Gaussian mixture.

    Attributes:
        mixtures: For each column the tuples (centres, standard deviations, masses).

    Example:
        >>> from kexpfam import KCEF
        >>> KCEF(base=MarginalBase()).base
        MarginalBase()
    """

    mixtures: tuple[tuple[tuple[float, ...], ...], ...] = ()

    def __post_init__(self) -> None:
        for mixture in self.mixtures:
            center, std, mass = np.array(mixture, dtype=float)
            sound = np.all(np.isfinite(center)) and np.all(np.isfinite(std))
            if not sound or std.min() <= 0 or mass.min() <= 0:
                raise ValueError("mixtures must have positive widths and masses.")
            if abs(mass.sum() - 1.0) > 1e-9:
                raise ValueError("the masses of a mixture must sum to one.")

    def __repr__(self) -> str:
        fitted = f"fitted on {len(self.mixtures)} columns" if self.mixtures else ""
        return f"MarginalBase({fitted})"

    @property
    def tail_index(self) -> float:
        return math.inf

    def column_log_density(self, y: Array, i: int) -> Array:
        return self._estimate(i).log_density(y)

    def column_gradient(self, y: Array, i: int) -> Array:
        return self._estimate(i).gradient(y)

    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        own = self._estimate(i)
        chosen = rng.choice(len(own.centers), size=n, p=own.masses)
        return own.centers[chosen] + own.widths[chosen] * rng.standard_normal(n)

    def column_support(self, i: int) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def column_range(self, i: int) -> tuple[float, float]:
        own = self._estimate(i)
        return (
            float(np.min(own.centers - 6 * own.widths)),
            float(np.max(own.centers + 6 * own.widths)),
        )

    def prepared(
        self, U: Array, weights: Array, to_kernel: ToKernel = np.asarray
    ) -> BaseDensity:
        return MarginalBase(tuple(_binned_estimate(u, weights) for u in U.T))

    def _estimate(self, i: int) -> KernelEstimate:
        if not self.mixtures:
            raise ValueError(
                "MarginalBase has not seen data yet; pass it to KCEF(base=...) and fit."
            )
        return KernelEstimate(*np.array(self.mixtures[i]))


def _binned_estimate(
    y: Array,
    weights: Array,
    # Bins a fifth of a bandwidth wide are invisible, and so many cover thousands of
    # rows.
    components: int = 256,
    defensive_mass: float = 0.05,  # Of the wide component that guards the tails
) -> tuple[tuple[float, ...], ...]:
    """Centres, standard deviations and masses of one column."""
    total = float(weights.sum())
    mean, sd = moments(y, weights)
    # With sd alone: weights make quartiles awkward for no gain here.
    bandwidth = silverman(sd, total)
    edges = np.linspace(y.min(), y.max(), components)
    step = edges[1] - edges[0]
    # Linear binning: a point shares its weight between its two neighbours.
    position = np.clip((y - edges[0]) / step, 0, components - 1)
    left = np.minimum(position.astype(int), components - 2)
    right_share = position - left
    mass = np.bincount(left, weights * (1 - right_share), minlength=components)
    mass += np.bincount(left + 1, weights * right_share, minlength=components)
    kept = mass > 0
    own = KernelEstimate.with_defensive_component(
        edges[kept], mass[kept] / total, bandwidth, mean, sd, defensive_mass
    )
    shares = own.masses / own.masses.sum()
    return tuple(tuple(part.tolist()) for part in (own.centers, own.widths, shares))
