"""Where score matching is blind, and two ways out.

p(y|x) has two modes eight deviations apart, and their masses change abruptly at x = 0:
from 20 % in the upper one to 80 %. On each island the gradient of log p is the same
whatever the masses are, so score matching hardly sees them. Counting does, likelihood
does, and so does score matching once a bridge connects the islands.

Run with `python examples/failure_case.py`.
"""

from collections.abc import Callable

import numpy as np

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import (
    BridgedDensity,
    Coordinates,
    UnivariateDensity,
    UnnormalizedDensity,
    bridge_sample,
)
from kexpfam.islands import IslandReport, check_islands, spread_out
from kexpfam.kernels import Gaussian, separable
from kexpfam.likelihood import fit_likelihood
from kexpfam.score_matching import Basis, ScoreSample, TiltedDensity, fit_low_rank

ROWS = 600
LAM = 1e-3
BASE = GaussianBase(1.5)
KERNEL_X, KERNEL_Y = Gaussian(0.4), Gaussian(0.5)
SHARE = 0.3  # of the bridge
CONDITIONS = np.array([[-0.8], [-0.4], [0.4], [0.8]])


def upper_mass(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] < 0, 0.2, 0.8)


def make_data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1.0, 1.0, size=(ROWS, 1))
    side = np.where(rng.random(ROWS) < upper_mass(X), 1.0, -1.0)
    return X, (side + 0.25 * rng.normal(size=ROWS))[:, None]


def make_basis(X: np.ndarray, U: np.ndarray, centers: int = 120) -> Basis:
    chosen = np.linspace(0, len(U) - 1, centers).astype(int)
    return Basis(separable(KERNEL_X, KERNEL_Y), X[chosen], U[chosen])


def by_score_matching(
    X: np.ndarray, U: np.ndarray, weights: np.ndarray, at: np.ndarray
) -> TiltedDensity:
    share = weights / weights.sum()
    sample = ScoreSample(X, U, share, BASE.grad_log_density(U), np.ones_like(U))
    return TiltedDensity(BASE, fit_low_rank(make_basis(X, U), sample, LAM), at)


def by_likelihood(
    X: np.ndarray, U: np.ndarray, weights: np.ndarray, at: np.ndarray
) -> TiltedDensity:
    fit = fit_likelihood(make_basis(X, U), BASE, X, U, weights, LAM)
    return TiltedDensity(BASE, fit.T, at)


def by_bridging(
    X: np.ndarray, U: np.ndarray, weights: np.ndarray, at: np.ndarray
) -> BridgedDensity:
    wide = GaussianBase(1.2)
    mixed = bridge_sample(X, U, weights, SHARE, wide, np.random.default_rng(1))
    mixture = by_score_matching(*mixed, at)
    return BridgedDensity.of(mixture, wide, SHARE, KERNEL_Y.resolution)


def normalized(density: UnnormalizedDensity) -> UnivariateDensity:
    ones = np.ones((len(density), 1))
    line = np.array([[-np.inf, np.inf]])
    return UnivariateDensity.normalize(
        density, Coordinates(0.0 * ones, ones, line), KERNEL_Y.resolution
    )


def check(p: UnivariateDensity, X: np.ndarray, U: np.ndarray) -> IslandReport:
    grid = np.linspace(-3.0, 3.0, 301)
    index = spread_out(X)
    near = KERNEL_X.values(X[index], X)
    log_p = p.logpdf(grid[None])
    return check_islands(grid, log_p, U[:, 0], neighbours=near, index=index)


def main() -> None:
    X, U = make_data(np.random.default_rng(0))
    weights = np.ones(ROWS)
    print("mass of the upper mode at x =", *(f"{x:8.1f}" for x in CONDITIONS[:, 0]))
    print(f"{'truth':>29}", *(f"{mass:8.2f}" for mass in upper_mass(CONDITIONS)))
    ways: dict[str, Callable[..., UnnormalizedDensity]] = {
        "score matching": by_score_matching,
        "likelihood": by_likelihood,
        "score matching with a bridge": by_bridging,
    }
    reports = {}
    for name, fit in ways.items():
        p = normalized(fit(X, U, weights, np.concatenate([CONDITIONS, X])))
        masses = p[: len(CONDITIONS)].sf(0.0)
        print(f"{name:>29}", *(f"{mass:8.2f}" for mass in masses))
        reports[name] = check(p[len(CONDITIONS) :], X, U)
    for name, report in reports.items():
        print(f"\n{name}: {report}")


if __name__ == "__main__":
    main()
