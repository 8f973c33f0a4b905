"""Simulated joint densities with a known truth: along a graph, and the paper's grid.

The synthetic grid of the KCEF paper is a chain of columns on the unit cube,
p(x_i | x_{i−1}) ∝ 1 + sin(2π a_i x_i) sin(2π b_i x_{i−1}) on [0, 1], and x_1 uniform.
With s = sin(2π b_i x_{i−1}) the mass up to t is t + s C(t), where

    C(t) = ∫₀ᵗ sin(2π a x) dx = (1 − cos(2π a t)) / (2π a) = t sin(π a t) sinc(a t),

so the normaliser is 1 + s C(1), which is one for whole a.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.datasets.laws import Conditional, KnownLaw, TwoNormals
from kexpfam.datasets.simulation import JointLaw, JointSimulation


def make_joint(
    n_samples: int = 500, *, random_state: RandomState = None
) -> JointSimulation:
    """Five columns: a curve, two branches, skewed noise and a product.

    - x₁ ~ N(0, 1)
    - x₂ | x₁ ~ N(x₁²/2, 0.5²)
    - x₃ | x₁ ~ w N(1, 0.4²) + (1 − w) N(−1, 0.4²), w = 1 / (1 + exp(−2 x₁))
    - x₄ | x₂, x₃ ~ sin(2 x₂) + exp(0.4 x₃) Gamma(2, 0.3)
    - x₅ | x₃, x₄ ~ N(x₃ x₄, (0.3 + 0.2 |x₃|)²)

    Args:
        n_samples: Number of rows.
        random_state: Seed or generator.

    Example:
        >>> simulation = make_joint(200, random_state=0)
        >>> simulation.data.shape
        (200, 5)
        >>> simulation.graph
        {0: (), 1: (0,), 2: (0,), 3: (1, 2), 4: (2, 3)}
    """
    n = check_count("n_samples", n_samples, least=1)
    law = Factors(
        (
            ((), _first),
            ((0,), _second),
            ((0,), _third),
            ((1, 2), _fourth),
            ((2, 3), _fifth),
        )
    )
    return JointSimulation("joint", law.draw(n, as_generator(random_state)), law)


@dataclass(frozen=True)
class Factors(JointLaw):
    """A product of laws: for each column its parents, and its law given them."""

    factors: tuple[tuple[tuple[int, ...], Conditional], ...]

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        return tuple(parents for parents, _ in self.factors)

    def conditional_logpdf(self, data: Array) -> Array:
        return self._by_column(data, lambda law, y: law.logpdf(y))

    def conditional_cdf(self, data: Array) -> Array:
        return self._by_column(data, lambda law, y: law.cdf(y))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        data = np.empty((n, len(self.factors)))
        for i, (parents, law) in enumerate(self.factors):
            data[:, i] = law(data[:, parents]).rvs((n, 1), rng)[:, 0]
        return data

    def _by_column(self, data: Array, f: Callable[[KnownLaw, Array], Array]) -> Array:
        columns = [
            f(law(data[:, parents]), data[:, [i]])
            for i, (parents, law) in enumerate(self.factors)
        ]
        return np.concatenate(columns, axis=1)


def _first(before: Array) -> KnownLaw:
    return stats.norm(np.zeros((len(before), 1)), 1.0)


def _second(before: Array) -> KnownLaw:
    return stats.norm(0.5 * before**2, 0.5)


def _third(before: Array) -> KnownLaw:
    one = np.ones_like(before)
    return TwoNormals(special.expit(2.0 * before), one, -one, 0.4 * one)


def _fourth(before: Array) -> KnownLaw:
    second, third = before[:, [0]], before[:, [1]]
    return stats.gamma(2.0, np.sin(2.0 * second), 0.3 * np.exp(0.4 * third))


def _fifth(before: Array) -> KnownLaw:
    third, fourth = before[:, [0]], before[:, [1]]
    return stats.norm(third * fourth, 0.3 + 0.2 * np.abs(third))


def make_grid(
    n: int,
    d: int,
    *,
    frequencies_own: ArrayLike | None = None,
    frequencies_before: ArrayLike | None = None,
    random_state: RandomState = None,
) -> JointSimulation:
    """The KCEF paper's synthetic density, a chain on the unit cube.

    p(x_i | x_{i−1}) ∝ 1 + sin(2π a_i x_i) sin(2π b_i x_{i−1}), and x_1 is uniform. Rows
    are drawn by rejection from the uniform density; densities are exact for any
    frequencies.

    The paper does not print its frequencies. The default is 2 for all of them. Whole
    numbers make every column uniform by itself, so that all structure is in the pairs
    (x_{i−1}, x_i): a chequerboard of 2a × 2b smooth cells. Neighbours have correlation
    0.30/(a b): with 1 much of the dependence would be linear, with 2 little is (0.08),
    and higher frequencies only ask for more rows.

    Args:
        n: Number of rows.
        d: Number of columns, in the letters of the paper.
        frequencies_own: a, one number or one per column (the first is not used).
        frequencies_before: b, in the same way.
        random_state: Seed or generator.

    Returns:
        A simulation with `data` of shape (n, d).

    References:
        M. Arbel and A. Gretton, Kernel Conditional Exponential Family, AISTATS 2018.

    Example:
        >>> simulation = make_grid(1000, 2, random_state=0)
        >>> simulation.logpdf([[0.125, 0.125], [0.125, 0.375]]).round(3)
        array([0.693,  -inf])
    """
    n = check_count("n", n, least=1)
    d = check_count("d", d, least=1)
    law = GridLaw(
        _frequencies("frequencies_own", frequencies_own, d),
        _frequencies("frequencies_before", frequencies_before, d),
    )
    return JointSimulation("grid", law.draw(n, as_generator(random_state)), law)


@dataclass(frozen=True, eq=False)
class GridLaw(JointLaw):
    """The chain on the unit cube, with frequencies a and b, (d,) each."""

    own: Array
    before: Array

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i - 1,) if i else () for i in range(len(self.own)))

    def conditional_logpdf(self, data: Array) -> Array:
        waves = self._waves(data)
        mass = 1.0 + waves * _integral(self.own, 1.0)
        with np.errstate(divide="ignore"):  # the density is zero at some points
            log_p = np.log1p(waves * np.sin(2.0 * np.pi * self.own * data))
        inside = (data >= 0.0) & (data <= 1.0)
        return np.where(inside, log_p - np.log(mass), -np.inf)

    def conditional_cdf(self, data: Array) -> Array:
        waves, data = self._waves(data), np.clip(data, 0.0, 1.0)
        mass = 1.0 + waves * _integral(self.own, 1.0)
        return (data + waves * _integral(self.own, data)) / mass

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        # Rows that are drawn together: some vectors of them fit into a processor's
        # cache. Columns are contiguous while they are drawn.
        block, data = 2**14, np.empty((len(self.own), n))
        data[0] = rng.random(n)
        for i in range(1, len(self.own)):
            for start in range(0, n, block):
                rows = slice(start, start + block)
                wave = np.sin((2.0 * np.pi * self.before[i]) * data[i - 1, rows])
                data[i, rows] = _rejection(wave, self.own[i], rng)
        return np.ascontiguousarray(data.T)

    def _waves(self, data: Array) -> Array:
        """sin(2π b_i x_{i−1}), and zero for the first column, which is uniform."""
        waves = np.zeros(data.shape)
        waves[:, 1:] = np.sin(2.0 * np.pi * self.before[1:] * data[:, :-1])
        return waves


def _integral(own: Array, upper: Array | float) -> Array:
    """C(t), without cancellation, and at frequency zero as well."""
    return upper * np.sin(np.pi * own * upper) * np.sinc(own * upper)


def _rejection(wave: Array, own: float, rng: np.random.Generator) -> Array:
    """One draw for each row from the density ∝ 1 + s sin(2π a x), (n,)."""
    x, level = rng.random((2, len(wave)))
    # The density is at most 1 + |s|: about 0.6 of the proposals are taken.
    bound = 1.0 + np.abs(wave)
    left = np.flatnonzero(level * bound > 1.0 + wave * np.sin((2.0 * np.pi * own) * x))
    while len(left):
        s, height = wave[left], bound[left]
        again, level = rng.random((2, len(left)))
        x[left] = again
        density = 1.0 + s * np.sin((2.0 * np.pi * own) * again)
        left = left[level * height > density]
    return x


def _frequencies(name: str, value: ArrayLike | None, d: int) -> Array:
    found = as_numbers(name, 2.0 if value is None else value)
    if found.shape not in {(), (d,)} or not np.all(np.isfinite(found)):
        raise ValueError(
            f"{name} must be one finite number or {d} of them, one per column, got "
            f"{value!r:.80}."
        )
    return np.array(np.broadcast_to(found, d))
