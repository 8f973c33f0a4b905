"""A simulated joint density of five columns along a graph, with a known truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.datasets.laws import Conditional, Gamma, Law, Normal, TwoNormals
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
    """A product of laws, each given some of the columns before it.

    Args:
        factors: For each column, its parents and its law given them.
    """

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
            data[:, i] = law(data[:, parents]).draw(1, rng)[:, 0]
        return data

    def _by_column(self, data: Array, f: Callable[[Law, Array], Array]) -> Array:
        columns = [
            f(law(data[:, parents]), data[:, [i]])
            for i, (parents, law) in enumerate(self.factors)
        ]
        return np.concatenate(columns, axis=1)


def _first(before: Array) -> Law:
    n = len(before)
    return Normal(np.zeros((n, 1)), np.ones((n, 1)))


def _second(before: Array) -> Law:
    return Normal(0.5 * before**2, np.full_like(before, 0.5))


def _third(before: Array) -> Law:
    one = np.ones_like(before)
    return TwoNormals(special.expit(2.0 * before), one, -one, 0.4 * one)


def _fourth(before: Array) -> Law:
    second, third = before[:, [0]], before[:, [1]]
    return Gamma(2.0, 0.3 * np.exp(0.4 * third), np.sin(2.0 * second))


def _fifth(before: Array) -> Law:
    third, fourth = before[:, [0]], before[:, [1]]
    return Normal(third * fourth, 0.3 + 0.2 * np.abs(third))
