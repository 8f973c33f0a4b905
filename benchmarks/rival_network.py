"""A small mixture density network (Bishop, 1994), in NumPy.

One hidden layer of tanh units beside a linear map of x gives logits, means and widths
of three normals. Its loss is the negative log-likelihood of the rows plus a Gaussian
prior on weights, minimised by L-BFGS; five networks from different starts are averaged
as densities, because a single one depends on its start.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

Array = np.ndarray
UNITS, PARTS, NETWORKS, FOLDS = 10, 3, 5, 5
DECAYS = (0.1, 1.0, 10.0, 100.0)  # precision of the prior on weights
# Of a bump, in standard deviations of y: narrower ones fit the rounding of responses
# (53 of the 299 geyser durations are exactly 4), where the likelihood has no bound.
LEAST_WIDTH = 0.05
MOST_STEPS = 300
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


def shapes(p: int) -> list[tuple[int, int]]:
    """Of hidden, output and linear weights; the first two end with a row of biases."""
    return [(p + 1, UNITS), (UNITS + 1, 3 * PARTS), (p, 3 * PARTS)]


def unpack(theta: Array, p: int) -> list[Array]:
    sizes = np.cumsum([a * b for a, b in shapes(p)])
    parts = np.split(theta, sizes[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes(p), strict=True)]


def _forward(theta: Array, X: Array, y: Array) -> tuple[Array, ...]:
    """Hidden units, log weights, log of weighted normals, z-values and widths."""
    hidden, output, linear = unpack(theta, X.shape[1])
    A = np.tanh(X @ hidden[:-1] + hidden[-1])
    logits, mean, raw = np.split(A @ output[:-1] + output[-1] + X @ linear, 3, axis=1)
    log_w = logits - logsumexp(logits, axis=1, keepdims=True)
    # exp is cut where it would overflow in a line search that goes too far
    width = LEAST_WIDTH + np.exp(np.minimum(raw, 20.0))
    z = (y[:, None] - mean) / width
    return A, log_w, log_w - 0.5 * z**2 - np.log(width) - _LOG_ROOT_TWO_PI, z, width


def log_density(theta: Array, X: Array, y: Array) -> Array:
    return logsumexp(_forward(theta, X, y)[2], axis=1)


def loss(theta: Array, X: Array, y: Array, decay: float) -> tuple[float, Array]:
    """Negative log-likelihood plus ½ decay ‖weights‖² without biases, and gradient."""
    hidden, output, linear = unpack(theta, X.shape[1])
    A, log_w, parts, z, width = _forward(theta, X, y)
    log_p = logsumexp(parts, axis=1, keepdims=True)
    share = np.exp(parts - log_p)
    by_output = np.hstack(
        [
            np.exp(log_w) - share,
            -share * z / width,
            # the derivative of the width by its raw value is width − LEAST_WIDTH
            -share * (z**2 - 1.0) * (1.0 - LEAST_WIDTH / width),
        ]
    )
    by_hidden = (by_output @ output[:-1].T) * (1.0 - A**2)
    gradients = [
        np.vstack([X.T @ by_hidden + decay * hidden[:-1], by_hidden.sum(axis=0)]),
        np.vstack([A.T @ by_output + decay * output[:-1], by_output.sum(axis=0)]),
        X.T @ by_output + decay * linear,
    ]
    weights = (hidden[:-1], output[:-1], linear)
    penalty = 0.5 * decay * sum(float(np.sum(W**2)) for W in weights)
    return -float(log_p.sum()) + penalty, np.concatenate([g.ravel() for g in gradients])


def start(rng: np.random.Generator, y: Array, p: int) -> Array:
    """Small random weights; means at quantiles of y, widths of half its deviation."""
    hidden, output, linear = (rng.normal(size=shape) for shape in shapes(p))
    hidden /= np.sqrt(p + 1)
    output *= 0.1
    linear *= 0.1
    levels = (np.arange(PARTS) + 0.5) / PARTS
    output[-1] = np.hstack(
        [np.zeros(PARTS), np.quantile(y, levels), np.full(PARTS, np.log(0.5))]
    )
    return np.concatenate([hidden.ravel(), output.ravel(), linear.ravel()])


def train(rng: np.random.Generator, X: Array, y: Array, decay: float) -> Array:
    return minimize(
        loss,
        start(rng, y, X.shape[1]),
        (X, y, decay),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_STEPS},
    ).x


@dataclass(frozen=True)
class MixtureNetworks:
    """The average density of several networks."""

    parameters: list[Array]

    def score_samples(self, X: Array, y: Array) -> Array:
        log_p = [log_density(theta, X, y) for theta in self.parameters]
        return logsumexp(log_p, axis=0) - np.log(len(log_p))


def fit_mixture_network(X: Array, y: Array, seed: int) -> MixtureNetworks:
    """Decay by cross-validated likelihood of single networks, then all rows."""
    rng = np.random.default_rng(seed)
    fold_of = rng.permutation(len(y)) % FOLDS
    scores = np.zeros(len(DECAYS))
    for fold in range(FOLDS):
        held = fold_of == fold
        for i, decay in enumerate(DECAYS):
            theta = train(rng, X[~held], y[~held], decay)
            scores[i] += np.maximum(log_density(theta, X[held], y[held]), -20.0).sum()
    decay = DECAYS[int(np.argmax(scores))]
    return MixtureNetworks([train(rng, X, y, decay) for _ in range(NETWORKS)])
