"""Where else a search for hyperparameters begins, so that no single start decides.

The posterior of the hyperparameters of a Gaussian process has a local optimum at "all
is noise": with many columns the few rows that a search begins with support nothing
else, and from there it does not find back. So where a process explains little beyond a
straight line, searches from other starts go a few steps on all rows of the search: with
shorter lengthscales, and with short ones for those columns only that a forest of
randomised trees splits by. Whichever is clearly better is followed to its end, and the
largest posterior density is kept. Optima of similar data are starts, too, and cost one
evaluation each where they are not better.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.regression.process import (
    PROCESS_SPEC,
    GaussianProcessSpec,
    NegativeLogPosterior,
    maximise_log_posterior,
)


@dataclass(frozen=True)
class StartSpec:
    """When searches begin elsewhere, too, and where."""

    # Other starts are tried where the noise is more than this share of what a straight
    # line leaves
    little: float = 0.5
    # Iterations after which another start has to be better by so many nats; where the
    # first one was stuck, they were ahead by hundreds after a dozen
    trial_iterations: int = 12
    clear_nats: float = 1.0
    # Log factor of the lengthscales of all columns
    shorter: float = -1.0
    # Columns that a forest splits by most, half of them at most: more than are likely
    # to matter, since a search that has one of two partners does not find the other.
    # Their lengthscales begin below those of a process with so many columns, the others
    # above the prior mean
    most_columns: int = 8
    screened: float = -0.5
    others: float = 0.5
    # The forest: cheap, and its leaves large enough for noise
    trees: int = 60
    leaf_rows: int = 5
    forest_rows: int = 1000


START_SPEC = StartSpec()


def explains_little(
    X: Array,  # Conditions in standard units, (n, p)
    y: Array,  # Responses in standard units, (n,)
    noise_factors: Array,  # Known factors of the noise variances, (n,)
    noise_variance: float,  # What a process takes for noise
    spec: StartSpec = START_SPEC,
) -> bool:
    """Whether a process takes most of what a straight line leaves for noise.

    Example:
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> wave = np.cos(6 * x[:, 0])
        >>> [explains_little(x, wave, np.ones(50), noise) for noise in (0.4, 0.01)]
        [True, False]
    """
    n, p = X.shape
    root = 1.0 / np.sqrt(noise_factors)
    features = np.column_stack([X, np.ones(n)]) * root[:, None]
    response = y * root
    line = np.linalg.lstsq(features, response, rcond=None)[0]
    left = response - features @ line
    return noise_variance > spec.little * float(left @ left) / max(n - p - 1, 1)


def other_starts(
    X: Array,  # Conditions in standard units, (n, p)
    y: Array,  # Responses in standard units, (n,)
    noise_factors: Array,  # Known factors of the noise variances, (n,)
    process_spec: GaussianProcessSpec = PROCESS_SPEC,
    spec: StartSpec = START_SPEC,
) -> Iterator[Array]:
    """Starts of a search beside the prior mean, (3 + p,) each.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = np.abs(X[:, 1])
        >>> short, screened = other_starts(X, y, np.ones(400))
        >>> int(screened[3:].argmin())
        1
    """
    p = X.shape[1]
    mean, _, _ = process_spec.prior(p)
    lengths = np.full(p, spec.shorter)
    yield mean + np.append(np.zeros(3), lengths)
    count = min(spec.most_columns, p // 2)
    if count == 0:
        return
    columns = _split_columns(X, y, noise_factors, spec)[:count]
    lengths = np.full(p, spec.others)
    # The prior mean grows with √p, because distances do.
    lengths[columns] = spec.screened + 0.5 * math.log(count / p)
    yield mean + np.append(np.zeros(3), lengths)


def _split_columns(
    X: Array, y: Array, noise_factors: Array, spec: StartSpec
) -> Indices:
    """Columns, those first that a forest gains most by splitting at."""
    # Imported here because it is slow to import and rarely needed.
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(
        spec.trees, min_samples_leaf=spec.leaf_rows, random_state=0
    )
    rows = slice(0, spec.forest_rows)
    forest.fit(X[rows], y[rows], sample_weight=1.0 / noise_factors[rows])
    return np.argsort(-forest.feature_importances_, kind="stable")


def best_start(
    objective_rows: tuple[Array, Array, Array],  # X, y and noise factors of the search
    rows: tuple[Array, Array, Array],  # The same of more rows, in random order
    found: Array,  # θ that the search has found from its first start, (3 + p,)
    similar: Sequence[Array],  # Optima of similar data; if any, the only other starts
    max_iterations: int,  # Iterations of each search at most
    process_spec: GaussianProcessSpec = PROCESS_SPEC,
    spec: StartSpec = START_SPEC,
) -> Array:
    """The θ of largest posterior density among those of several searches, (3 + p,)."""
    objective = NegativeLogPosterior(*objective_rows, process_spec)
    starts: Iterator[Array] = iter(similar)
    trial_iterations = 0
    if not similar:
        if not explains_little(*objective_rows, math.exp(found[2]), spec):
            return found
        starts = other_starts(*rows, process_spec, spec)
        trial_iterations = min(spec.trial_iterations, max_iterations)

    def search(start: Array, iterations: int) -> tuple[float, Array]:
        theta = maximise_log_posterior(*objective_rows, start, iterations, process_spec)
        return objective(theta)[0], theta

    first = objective(found)[0], found
    trials = [search(start, trial_iterations) for start in starts]
    # A trial beside one that was followed to its end would seem worse than it is.
    ahead = [theta for value, theta in trials if value < first[0] - spec.clear_nats]
    ends = [first, *(search(theta, max_iterations) for theta in ahead)]
    return min(ends, key=lambda pair: pair[0])[1]
