"""Problems that the tests of selection share."""

import numpy as np

from kexpfam.base_densities import GaussianBase
from kexpfam.family import HeldOutProblem, equal_folds
from kexpfam.score_matching import ScoreSample

BASE = GaussianBase(1.5)


def make_sample(n=40, p=2, d=1, *, seed=0, weighted=False) -> ScoreSample:
    """Rows whose first column of y moves with x; weights and g uneven on request."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    Y = 0.5 * rng.normal(size=(n, d))
    if p:
        Y[:, 0] += np.sin(2.0 * X[:, 0])
    weights, gsm_weights = np.ones(n), np.ones((n, d))
    if weighted:
        weights, gsm_weights = rng.uniform(0.2, 2.0, n), rng.uniform(0.5, 1.0, (n, d))
    gsm_linear = gsm_weights * BASE.grad_log_density(Y)
    return ScoreSample(X, Y, weights / weights.sum(), gsm_linear, gsm_weights)


def make_problem(n=40, p=2, d=1, *, n_folds=4, n_centers=12, **options):
    """A problem with these rows; see `make_sample`."""
    derivatives = options.pop("derivatives", True)
    sample, rng = make_sample(n, p, d, **options), np.random.default_rng(7)
    return in_folds(sample, BASE, n_folds, rng, n_centers, derivatives=derivatives)


def in_folds(sample, base, n_folds, rng, n_centers, *, derivatives=True):
    """Rows shuffled into folds of equal size, with random rows as centres."""
    n = len(sample.Y)
    order, folds = rng.permutation(n), equal_folds(n, n_folds)
    centers = np.arange(n)
    if n_centers < n:
        centers = np.sort(rng.choice(n, n_centers, replace=False))
    reach = float(np.max(np.abs(base.column_range(0))))
    return HeldOutProblem(sample.part(order), folds, centers, base, reach, derivatives)


def differences(function, theta, step=1e-3):
    """Gradient of a function by central differences of fourth order.

    A long step, because fits with many neighbouring centres have condition numbers up
    to 1e9, which rounding divided by a short step would show.
    """
    slopes = []
    for e in step * np.eye(len(theta)):
        near = function(theta + e) - function(theta - e)
        far = function(theta + 2 * e) - function(theta - 2 * e)
        slopes.append((8.0 * near - far) / (12.0 * step))
    return np.array(slopes)
