"""The score-matching objective and the data it is a function of.

For a density q0(y) exp T(x, y) / Z(x), Hyvärinen's objective needs of q0 only its
gradient, and of Z nothing. On a bounded support the integration by parts behind it
leaves a boundary term, unless every direction is weighted by a function g_i that
vanishes at the edge; the weighted objective is quadratic in T as before.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.score_matching.expansion import KernelExpansion


@dataclass(frozen=True)
class ScoreSample:
    """Weighted rows, with what the objective needs to know of q0 at each of them."""

    X: Array  # Conditions, (n, p)
    Y: Array  # Responses in the coordinates of the kernel, (n, d)
    weights: Array  # Row weights that sum to one, (n,)
    drift: Array  # g_i′ + g_i ∂_i log q0 at each row, (n, d); ∂ log q0 where g = 1
    diffusion: Array  # g_i at each row, (n, d)

    def part(self, rows: Indices | slice) -> "ScoreSample":
        """Some of the rows, with the weights that they have here."""
        return ScoreSample(
            self.X[rows],
            self.Y[rows],
            self.weights[rows],
            self.drift[rows],
            self.diffusion[rows],
        )


def score_matching_loss(T: KernelExpansion, sample: ScoreSample) -> float:
    """Ĵ(T) without its penalty, theory (2).

    Σ_a w_a Σ_i [ ½ g_i (∂_iT)² + g_i ∂_i²T + (g_i′ + g_i ∂_i log q0) ∂_iT ](x_a, y_a).
    """
    gradient = T.gradient(sample.X, sample.Y)
    curvature = T.second_derivative(sample.X, sample.Y)
    terms = sample.diffusion * (0.5 * gradient**2 + curvature) + sample.drift * gradient
    return float(sample.weights @ np.sum(terms, axis=1))
