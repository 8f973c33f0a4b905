"""Simulated conditional densities p(y|x), one column each, with a known truth.

Each is hard for some method: skewed and heteroscedastic noise for regressions with one
normal error, two branches for any regression, steps for smooth kernels, and isolated
components for score matching.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import stats

from kexpfam._typing import Array, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_count,
    check_probability,
)
from kexpfam.datasets.laws import Conditional, KnownLaw, TwoNormals
from kexpfam.datasets.simulation import ConditionalSimulation


def make_skewed(
    n_samples: int = 500, *, random_state: RandomState = None
) -> ConditionalSimulation:
    """Gamma noise whose scale grows with x.

    p(y|x) = Gamma(shape 3, scale 0.4 exp(0.3 x)), x uniform on [−2, 2]; y > 0.

    Args:
        n_samples: Number of rows.
        random_state: Seed or generator.

    Example:
        >>> make_skewed(3, random_state=0).mean([[0.0]])
        array([1.2])
    """
    return _simulated("skewed", n_samples, 2.0, _skewed, random_state)


def make_heteroscedastic(
    n_samples: int = 500, *, random_state: RandomState = None
) -> ConditionalSimulation:
    """Normal noise that is six times wider on the right than on the left.

    p(y|x) = N(x, (0.1 + 0.12 (x + 2))²), x uniform on [−2, 2].

    Args:
        n_samples: Number of rows.
        random_state: Seed or generator.

    Example:
        >>> simulation = make_heteroscedastic(3, random_state=0)
        >>> simulation.quantile([[-2.0], [2.0]], [0.16, 0.84]).round(2)
        array([[-2.1 , -1.9 ],
               [ 1.42,  2.58]])
    """
    return _simulated("heteroscedastic", n_samples, 2.0, _heteroscedastic, random_state)


def make_bimodal(
    n_samples: int = 500, *, random_state: RandomState = None
) -> ConditionalSimulation:
    """Two branches that cross and overlap, with unequal masses.

    p(y|x) = 0.4 N(m, 0.5²) + 0.6 N(−m, 0.5²), m = 0.6 + 0.5 x, x uniform on [−2, 2].

    Args:
        n_samples: Number of rows.
        random_state: Seed or generator.

    Example:
        >>> X, y = make_bimodal(500, random_state=0)
        >>> X.shape, y.shape
        ((500, 1), (500,))
    """
    return _simulated("bimodal", n_samples, 2.0, _bimodal, random_state)


def make_abrupt(
    n_samples: int = 500, *, random_state: RandomState = None
) -> ConditionalSimulation:
    """A step in mean and standard deviation at x = 0.

    p(y|x) = N(−1, 0.1²) for x < 0 and N(1, 0.5²) from there on, x uniform on [−1, 1]:
    no lengthscale of x suits both the step and the plains.

    Args:
        n_samples: Number of rows.
        random_state: Seed or generator.

    Example:
        >>> make_abrupt(3, random_state=0).mean([[-0.01], [0.01]])
        array([-1.,  1.])
    """
    return _simulated("abrupt", n_samples, 1.0, _abrupt, random_state)


def make_failure(
    n_samples: int = 500,
    *,
    masses: Sequence[float] = (0.2, 0.8),
    random_state: RandomState = None,
) -> ConditionalSimulation:
    """Where score matching is blind: isolated components whose masses change.

    p(y|x) = w N(1, 0.2²) + (1 − w) N(−1, 0.2²) with w = 0.2 for x < 0 and 0.8 from
    there on, x uniform on [−1, 1]: two modes ten deviations apart. On each the
    gradient of log p is the same whatever w is (docs/blindness.md).

    Args:
        n_samples: Number of rows.
        masses: w on the left and on the right.
        random_state: Seed or generator.

    Example:
        >>> simulation = make_failure(3, random_state=0)
        >>> simulation.cdf([[-0.5], [0.5]], 0.0).round(6)
        array([0.8, 0.2])
    """
    both = as_numbers("masses", masses)
    check_probability("masses", both)
    if both.shape != (2,):
        raise ValueError(
            f"masses must be two numbers, those of the upper component on the left and "
            f"on the right, got {masses!r}."
        )
    law = partial(_failure, left=float(both[0]), right=float(both[1]))
    return _simulated("failure", n_samples, 1.0, law, random_state)


def _simulated(
    name: str,
    n_samples: int,
    reach: float,
    law: Conditional,
    random_state: RandomState,
) -> ConditionalSimulation:
    """Rows with x uniform on [−reach, reach]."""
    n, rng = check_count("n_samples", n_samples, least=1), as_generator(random_state)
    X = rng.uniform(-reach, reach, size=(n, 1))
    return ConditionalSimulation(name, X, law(X).rvs((n, 1), rng)[:, 0], law)


def _skewed(X: Array) -> KnownLaw:
    return stats.gamma(3.0, scale=0.4 * np.exp(0.3 * X))


def _heteroscedastic(X: Array) -> KnownLaw:
    # A width of zero is reached at x = −2.83, outside of the data; stay positive there.
    return stats.norm(X, np.maximum(0.1 + 0.12 * (X + 2.0), 0.01))


def _bimodal(X: Array) -> KnownLaw:
    upper = 0.5 * X + 0.6
    return TwoNormals(np.full_like(X, 0.4), upper, -upper, np.full_like(X, 0.5))


def _abrupt(X: Array) -> KnownLaw:
    left = X < 0
    return stats.norm(np.where(left, -1.0, 1.0), np.where(left, 0.1, 0.5))


def _failure(X: Array, *, left: float, right: float) -> KnownLaw:
    share = np.where(X < 0, left, right)
    one = np.ones_like(X)
    return TwoNormals(share, one, -one, 0.2 * one)
