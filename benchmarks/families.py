"""Conditional families whose true log density is known, for one column of x and y."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from kexpfam.datasets import (
    ConditionalSimulation,
    make_bimodal,
    make_heteroscedastic,
    make_skewed,
)

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Family:
    """A way to draw rows and the log density they were drawn from."""

    sample: Callable[[int, np.random.Generator], Rows]
    logpdf: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _uniform_x(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-2.0, 2.0, n)


def _gaussian() -> Family:
    def sample(n: int, rng: np.random.Generator) -> Rows:
        x = _uniform_x(n, rng)
        return x[:, None], np.sin(2 * x) + 0.3 * rng.normal(size=n)

    return Family(sample, lambda X, y: stats.norm.logpdf(y, np.sin(2 * X[:, 0]), 0.3))


def _simulated(make: Callable[..., ConditionalSimulation]) -> Family:
    def sample(n: int, rng: np.random.Generator) -> Rows:
        simulation = make(n, random_state=rng)
        return simulation.X, simulation.y

    return Family(sample, make(1, random_state=0).logpdf)


def _well_specified() -> Family:
    """N(0, 2²) exp T0 / Z with T0 a sum of six Gaussian bumps in (x, y)."""
    rng = np.random.default_rng(7)
    centers, height = rng.uniform(-1.5, 1.5, size=(6, 2)), rng.normal(0, 2.5, 6)
    grid = np.linspace(-20, 20, 8001)
    step = grid[1] - grid[0]

    def log_unnormalized(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        near = (x[..., None] - centers[:, 0]) ** 2 + (y[..., None] - centers[:, 1]) ** 2
        return stats.norm.logpdf(y, 0, 2) + np.exp(-0.5 * near) @ height

    def on_grid(x: np.ndarray) -> np.ndarray:
        return np.exp(log_unnormalized(x[:, None], grid[None]))

    def sample(n: int, rng: np.random.Generator) -> Rows:
        x = _uniform_x(n, rng)
        y = np.empty(n)
        for a in range(n):
            cdf = np.cumsum(on_grid(x[a : a + 1])[0])
            y[a] = np.interp(rng.random(), cdf / cdf[-1], grid + 0.5 * step)
        return x[:, None], y

    def logpdf(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        x = X[:, 0]
        log_z = [np.log(on_grid(x[a : a + 1]).sum() * step) for a in range(len(x))]
        return log_unnormalized(x, y) - np.array(log_z)

    return Family(sample, logpdf)


FAMILIES = {
    "Gaussian": _gaussian(),
    "heteroscedastic": _simulated(make_heteroscedastic),
    "skewed": _simulated(make_skewed),
    "bimodal": _simulated(make_bimodal),
    "well specified": _well_specified(),
}
