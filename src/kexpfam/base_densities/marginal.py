"""The marginal density of y as base density: a kernel density estimate from the data.

With it the kernel part models only how p(y|x) departs from p(y). The estimate is put on
a grid of Gaussian components first, so that its cost does not depend on n, and a wide
component keeps the tails away from zero.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, namespace_of
from kexpfam.base_densities.interface import BaseDensity, TrainingResponses

# Components per column: bins a fifth of a bandwidth wide are invisible, and this many
# cover thousands of rows.
_COMPONENTS = 256

# Share and width (in standard deviations) of the component that guards the tails.
_GUARD_MASS = 0.05
_GUARD_WIDTH = 2.0


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
            center, deviation, mass = np.array(mixture, dtype=float)
            sound = np.all(np.isfinite(center)) and np.all(np.isfinite(deviation))
            if not sound or deviation.min() <= 0 or mass.min() <= 0:
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
        peak, terms = self._terms(y, i)
        with np.errstate(divide="ignore"):
            return peak + namespace_of(y).log(terms.sum(axis=1))

    def column_gradient(self, y: Array, i: int) -> Array:
        center, deviation, _ = self._mixture(i)
        _, terms = self._terms(y, i)
        slopes = (center - y[:, None]) / (deviation * deviation)
        return namespace_of(y).einsum("nk,nk->n", terms, slopes) / terms.sum(axis=1)

    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        center, deviation, mass = self._mixture(i)
        chosen = rng.choice(len(center), size=n, p=mass)
        return center[chosen] + deviation[chosen] * rng.standard_normal(n)

    def column_support(self, i: int) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def column_range(self, i: int) -> tuple[float, float]:
        center, deviation, _ = self._mixture(i)
        return (
            float(np.min(center - 6 * deviation)),
            float(np.max(center + 6 * deviation)),
        )

    def prepared(self, training: TrainingResponses) -> BaseDensity:
        columns = range(training.Y.shape[1])
        return MarginalBase(
            tuple(_binned_estimate(training.Y[:, i], training.weights) for i in columns)
        )

    def _mixture(self, i: int) -> Array:
        if not self.mixtures:
            raise ValueError(
                "MarginalBase has not seen data yet; pass it to KCEF(base=...) and fit."
            )
        return np.array(self.mixtures[i])

    def _terms(self, y: Array, i: int) -> tuple[Array, Array]:
        """Log of the largest component at each y, and all divided by it, (n, k)."""
        center, deviation, mass = self._mixture(i)
        xp = namespace_of(y)
        z = (y[:, None] - center) / deviation
        constant = np.log(mass) - np.log(deviation) - 0.5 * math.log(2.0 * math.pi)
        log_terms = constant - 0.5 * z * z
        peak = log_terms.max(axis=1)
        peak = xp.where(xp.isfinite(peak), peak, 0.0)  # far away all of them are zero
        return peak, xp.exp(log_terms - peak[:, None])


def _binned_estimate(y: Array, weights: Array) -> tuple[tuple[float, ...], ...]:
    total = float(weights.sum())
    mean = float(weights @ y) / total
    sd = math.sqrt(float(weights @ (y - mean) ** 2) / total)
    # Silverman's rule, with sd alone: weights make quartiles awkward for no gain here.
    bandwidth = 0.9 * sd * total**-0.2
    edges = np.linspace(y.min(), y.max(), _COMPONENTS)
    step = edges[1] - edges[0]
    # Linear binning: a point shares its weight between its two neighbours.
    position = np.clip((y - edges[0]) / step, 0, _COMPONENTS - 1)
    left = np.minimum(position.astype(int), _COMPONENTS - 2)
    right_share = position - left
    mass = np.bincount(left, weights * (1 - right_share), minlength=_COMPONENTS)
    mass += np.bincount(left + 1, weights * right_share, minlength=_COMPONENTS)
    kept = mass > 0
    center = np.append(edges[kept], mean)
    deviation = np.append(np.full(kept.sum(), bandwidth), _GUARD_WIDTH * sd)
    shares = np.append(mass[kept] / total * (1 - _GUARD_MASS), _GUARD_MASS)
    shares /= shares.sum()
    return tuple(tuple(part.tolist()) for part in (center, deviation, shares))
