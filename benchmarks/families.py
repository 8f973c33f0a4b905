"""Conditional families whose true log density is known, for one column of x and y."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Family:
    """A way to draw rows and the log density they were drawn from."""

    sample: Callable[[int, np.random.Generator], Rows]
    logpdf: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _uniform_x(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-2.0, 2.0, n)


def _from_scipy(distribution: Callable[[np.ndarray], stats.rv_continuous]) -> Family:
    def sample(n: int, rng: np.random.Generator) -> Rows:
        x = _uniform_x(n, rng)
        return x[:, None], distribution(x).rvs(random_state=rng)

    return Family(sample, lambda X, y: distribution(X[:, 0]).logpdf(y))


def _bimodal() -> Family:
    """Two branches that cross and overlap, with unequal masses."""

    def branches(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 0.5 * x + 0.6, -0.5 * x - 0.6

    def sample(n: int, rng: np.random.Generator) -> Rows:
        x = _uniform_x(n, rng)
        up, down = branches(x)
        y = np.where(rng.random(n) < 0.4, up, down) + 0.5 * rng.normal(size=n)
        return x[:, None], y

    def logpdf(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        up, down = branches(X[:, 0])
        return np.logaddexp(
            np.log(0.4) + stats.norm.logpdf(y, up, 0.5),
            np.log(0.6) + stats.norm.logpdf(y, down, 0.5),
        )

    return Family(sample, logpdf)


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
    "Gaussian": _from_scipy(lambda x: stats.norm(np.sin(2 * x), 0.3)),
    "heteroscedastic": _from_scipy(lambda x: stats.norm(x, 0.1 + 0.12 * (x + 2))),
    "skewed": _from_scipy(lambda x: stats.gamma(3.0, scale=0.4 * np.exp(0.3 * x))),
    "bimodal": _bimodal(),
    "well specified": _well_specified(),
}
