"""The network of RNADE: one that predicts any column from any others.

Its input is [u ⊙ seen, seen, z]: the columns of u that are known, which ones these are,
and the condition z, which is always known. Its output is, for every column of u, a
mixture of normal densities. Column after column in some order, this is a density:

    p_o(u|z) = Π_i p(u_o(i) | u_o(1), ..., u_o(i-1), z),

and so is the average over several orders o. All is in standardised units.

Functions take the namespace `xp` of their arrays: JAX's to train in single precision,
NumPy's to evaluate in double.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from kexpfam._typing import Array, Indices

# Networks extrapolate linearly, without bound: what is known from farther away than so
# many standard deviations counts as that far. The density stays normalised.
_FARTHEST = 20.0

# Output weights start so much smaller than usual: at first nothing depends on anything.
_SMALL_START = 0.1

_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)


class Network(NamedTuple):
    """Parameters: arrays of NumPy, or of JAX.

    Attributes:
        hidden: Weights (a, b) and biases (b,) of each hidden layer.
        output: Weights of the last layer, (b, d, 3, k): for each column the logits of k
            components, their means, and their log scales.
        bias: Biases of the last layer, (d, 3, k).
    """

    hidden: tuple[tuple[Any, Any], ...]
    output: Any
    bias: Any


class Mixture(NamedTuple):
    """Mixtures of k normal densities, with any leading axes.

    Attributes:
        log_weights: Normalised, (..., k).
        means: (..., k).
        log_scales: (..., k).
    """

    log_weights: Any
    means: Any
    log_scales: Any


def initial_network(
    columns: int,
    conditions: int,
    units: int,
    hidden_layers: int,
    components: int,
    rng: np.random.Generator,
) -> Network:
    """A network to start from: components side by side over ±1.5 deviations.

    Units bend at different places from the start: with few inputs and no biases, all
    would bend at the mean.

    Args:
        columns: Columns of u.
        conditions: Columns of z.
        units: Units of each hidden layer.
        hidden_layers: How many.
        components: Components of each mixture.
        rng: Of the weights.
    """
    widths = [2 * columns + conditions] + hidden_layers * [units]
    hidden = tuple(
        (rng.normal(size=(a, b)) * math.sqrt(2.0 / a), rng.uniform(-1.0, 1.0, size=b))
        for a, b in itertools.pairwise(widths)
    )
    shape = (columns, 3, components)
    output = rng.normal(size=(widths[-1], *shape))
    bias = np.zeros(shape)
    if components > 1:
        bias[:, 1] = np.linspace(-1.5, 1.5, components)
        bias[:, 2] = np.log(3.0 / components)
    return Network(hidden, output * _SMALL_START / math.sqrt(widths[-1]), bias)


def last_hidden(network: Network, U: Any, seen: Any, Z: Any, xp: Any) -> Any:
    """Values of the last hidden layer.

    Args:
        network: Parameters.
        U: (..., d); values that are not seen do not matter, but must be finite.
        seen: Ones where a column is known and zeros elsewhere, (..., d).
        Z: Conditions, (..., p).
        xp: The namespace.

    Returns:
        (..., units).
    """
    values = xp.concatenate([U * seen, seen, Z], axis=-1)
    values = xp.clip(values, -_FARTHEST, _FARTHEST)
    for weights, bias in network.hidden:
        values = xp.maximum(values @ weights + bias, 0.0)
    return values


def all_mixtures(network: Network, values: Any, least: Any, xp: Any) -> Mixture:
    """The mixtures of all columns, (..., d, k), from the last hidden layer.

    Scales are `least`, (d,), and something positive.
    """
    units, d, _, k = network.output.shape
    out = values @ network.output.reshape(units, d * 3 * k)
    out = out.reshape(*out.shape[:-1], d, 3, k) + network.bias
    return _mixture(out, xp.log(least)[:, None], xp)


def column_mixture(
    network: Network, values: Any, column: int, least: Any, xp: Any
) -> Mixture:
    """The mixture of one column, (..., k)."""
    units, _, _, k = network.output.shape
    out = values @ network.output[:, column].reshape(units, 3 * k)
    out = out.reshape(*out.shape[:-1], 3, k) + network.bias[column]
    return _mixture(out, xp.log(least[column]), xp)


def log_density(mixture: Mixture, u: Any, xp: Any) -> Any:
    """Log densities of mixtures (..., k) at points (...)."""
    z = (u[..., None] - mixture.means) / xp.exp(mixture.log_scales)
    terms = mixture.log_weights - mixture.log_scales - 0.5 * z**2
    return log_sum_exp(terms, xp) - _LOG_ROOT


def log_factors(
    network: Network, U: Any, seen: Any, Z: Any, least: Any, xp: Any
) -> Any:
    """Log p(u_j | columns seen, z) of every column j, (..., d)."""
    values = last_hidden(network, U, seen, Z, xp)
    return log_density(all_mixtures(network, values, least, xp), U, xp)


def log_sum_exp(terms: Any, xp: Any) -> Any:
    """Log of the sum of exponentials over the last axis; of nothing but −∞, −∞."""
    top = xp.max(terms, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    return xp.log(xp.exp(terms - top).sum(axis=-1)) + top[..., 0]


def log_density_in_order(
    network: Network, U: Array, Z: Array, order: Indices, least: Array
) -> Array:
    """Log p_o(u|z) of rows (m, d) in one order, (m,)."""
    seen, total = np.zeros(U.shape[1]), np.zeros(len(U))
    for column in order:
        values = last_hidden(network, U, np.broadcast_to(seen, U.shape), Z, np)
        mixture = column_mixture(network, values, column, least, np)
        total += log_density(mixture, U[:, column], np)
        seen[column] = 1.0
    return total


def average_log_density(
    network: Network, U: Array, Z: Array, orders: Indices, least: Array
) -> Array:
    """Log of the mean of p_o(u|z) over orders (r, d), for rows (m, d), (m,)."""
    each = [log_density_in_order(network, U, Z, order, least) for order in orders]
    return log_sum_exp(np.stack(each, axis=-1), np) - math.log(len(orders))


def random_orders(columns: int, count: int, rng: np.random.Generator) -> Indices:
    """Different orders of the columns, (r, d): all there are, if they are not more."""
    if math.factorial(min(columns, 12)) <= count:
        return np.array(list(itertools.permutations(range(columns))))
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        found[tuple(rng.permutation(columns).tolist())] = None
    return np.array(list(found))


def _mixture(out: Any, log_least: Any, xp: Any) -> Mixture:
    logits = out[..., 0, :]
    log_weights = logits - log_sum_exp(logits, xp)[..., None]
    return Mixture(log_weights, out[..., 1, :], xp.logaddexp(log_least, out[..., 2, :]))
