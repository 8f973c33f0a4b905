"""The network of RNADE: one that predicts any column from any others.

Its input is [u ⊙ seen, seen, z]: the columns of u that are known, which ones these are,
and the condition z, which is always known. Its output is, for every column of u, a
mixture of normal densities. Column after column in some order, this is a density:

    p_o(u|z) = Π_i p(u_o(i) | u_o(1), ..., u_o(i-1), z),

and so is the average over several orders o. All is in standardised units.

Functions take the namespace `xp` of their arrays: JAX's to train in single precision,
NumPy's to evaluate in double.

A fitted network gives densities in the user's units. One column is a mixture of normals
at each condition, and has all that those have. Several columns are drawn one after
another: each draw in one of the orders, at random.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.distributions import (
    Density,
    ExactDensity,
    NormalMixtureDensity,
    SeveralColumns,
)

# Rows times columns that go through the network at once.
_AT_ONCE = 2**17

# Draws behind means, deviations and entropies of several columns. Conditional means are
# averaged, not the draws, so a mean is known to a few hundredths of a deviation.
_MOMENT_DRAWS = 1024


class Network(NamedTuple):
    """Parameters: arrays of NumPy, or of JAX.

    The last layer gives, for each column, the logits of k components, their means, and
    their log scales.
    """

    hidden: tuple[tuple[Any, Any], ...]  # weights (a, b) and biases (b,) of each layer
    output: Any  # weights of the last layer, (b, d, 3, k)
    bias: Any  # its biases, (d, 3, k)


class Mixture(NamedTuple):
    """Mixtures of k normal densities, (..., k) with any leading axes."""

    log_weights: Any  # normalised
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
    # Smaller than usual: at first nothing depends on anything.
    return Network(hidden, output * 0.1 / math.sqrt(widths[-1]), bias)


def last_hidden(network: Network, U: Any, seen: Any, Z: Any, xp: Any) -> Any:
    """Values of the last hidden layer, (..., units).

    U and seen are (..., d), Z is (..., p). Values of U that are not seen, where `seen`
    is zero and not one, do not matter, but must be finite.
    """
    values = xp.concatenate([U * seen, seen, Z], axis=-1)
    # Networks extrapolate linearly, without bound: what is known from farther away than
    # 20 standard deviations counts as that far. The density stays normalised.
    values = xp.clip(values, -20.0, 20.0)
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


def mixture_log_density(mixture: Mixture, u: Any, xp: Any) -> Any:
    """Log densities of mixtures (..., k) at points (...)."""
    z = (u[..., None] - mixture.means) / xp.exp(mixture.log_scales)
    terms = mixture.log_weights - mixture.log_scales - 0.5 * z**2
    return log_sum_exp(terms, xp) - 0.5 * math.log(2.0 * math.pi)


def log_factors(
    network: Network, U: Any, seen: Any, Z: Any, least: Any, xp: Any
) -> Any:
    """Log p(u_j | columns seen, z) of every column j, (..., d)."""
    values = last_hidden(network, U, seen, Z, xp)
    return mixture_log_density(all_mixtures(network, values, least, xp), U, xp)


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
        total += mixture_log_density(mixture, U[:, column], np)
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


@dataclass(frozen=True, eq=False)
class FittedRNADE:
    """A network in double precision, with its orders and the units of y."""

    network: Network
    orders: Indices  # of the columns, over which densities are averaged, (r, d)
    least: Array  # smallest scale of each column's mixtures, standardised, (d,)
    center: Array  # of y, (d,)
    scale: Array

    def density(self, Z: Array, *, single: bool = False) -> Density:
        """Densities of y at standardised conditions (n, p)."""
        if len(self.center) > 1:
            return AutoregressiveDensity(self, Z, single=single)
        nothing = np.zeros((len(Z), 1))
        values = last_hidden(self.network, nothing, nothing, Z, np)
        log_weights, means, log_scales = column_mixture(
            self.network, values, 0, self.least, np
        )
        return NormalMixtureDensity(
            log_weights,
            self.center + self.scale * means,
            self.scale * np.exp(log_scales),
            single=single,
        )

    def log_density(self, Y: Array, Z: Array) -> Array:
        """Log p(y|z) of rows (m, d), (m,)."""
        log_p = np.full(len(Y), -np.inf)
        with np.errstate(over="ignore", divide="ignore"):
            U = (Y - self.center) / self.scale
            finite = np.flatnonzero(np.isfinite(U).all(axis=1))
            step = max(1, _AT_ONCE // U.shape[1])
            for start in range(0, len(finite), step):
                rows = finite[start : start + step]
                log_p[rows] = average_log_density(
                    self.network, U[rows], Z[rows], self.orders, self.least
                )
        log_p -= np.log(self.scale).sum()
        return np.where(np.isnan(Y).any(axis=1), np.nan, log_p)

    def draw(self, Z: Array, which: Indices, uniform: Array, normal: Array) -> "Drawn":
        """Draws at conditions (m, p), each in the order that `which` (m,) names.

        Uniform numbers (m, d) choose the components, normal ones the points.
        """
        U, first, second = (np.zeros(uniform.shape) for _ in range(3))
        for i, order in enumerate(self.orders):
            rows = np.flatnonzero(which == i)
            seen = np.zeros((len(rows), len(order)))
            for column in order:
                values = last_hidden(self.network, U[rows], seen, Z[rows], np)
                mixture = column_mixture(self.network, values, column, self.least, np)
                u = _drawn(mixture, uniform[rows, column], normal[rows, column])
                U[rows, column] = u
                seen[:, column] = 1.0
                weights, means = np.exp(mixture.log_weights), mixture.means
                squares = means**2 + np.exp(2.0 * mixture.log_scales)
                first[rows, column] = (weights * means).sum(axis=1)
                second[rows, column] = (weights * squares).sum(axis=1)
        return Drawn(self.center + self.scale * U, first, second)


class Drawn(NamedTuple):
    """Draws (m, d), and what is known of each column from those before it."""

    Y: Array  # in the user's units
    first: Array  # conditional means, standardised
    second: Array  # conditional second moments, standardised


class AutoregressiveDensity(ExactDensity, SeveralColumns):
    """n densities of d ≥ 2 columns from one RNADE; see `RNADE`.

    Mean, standard deviation and entropy come from draws, the same at every condition.
    """

    def __init__(
        self, fitted: FittedRNADE, conditions: Array, *, single: bool = False
    ) -> None:
        """Densities at standardised conditions, (n, p)."""
        self._fitted = fitted
        self._conditions = conditions
        self._single = single

    @property
    def _n(self) -> int:
        return len(self._conditions)

    @property
    def _d(self) -> int:
        return len(self._fitted.center)

    def mean(self) -> Array:
        """Expectation, from draws: good to a few hundredths of a deviation."""
        first, _ = self._moments()
        return self._out(self._fitted.center + self._fitted.scale * first)

    def std(self) -> Array:
        """Standard deviation of each column, from draws."""
        first, second = self._moments()
        return self._out(self._fitted.scale * np.sqrt(second - first**2))

    def entropy(self) -> Array:
        """Differential entropy in nats, from draws."""
        entropies = np.empty(self._n)
        for rows, drawn in self._shared_draws():
            part = self._rows(rows, single=False)
            entropies[rows] = -part._log_pdf(drawn.Y).mean(axis=1)
        return self._out(entropies)

    def mode(self) -> NoReturn:
        """Not available for several columns of y."""
        raise NotImplementedError(
            f"mode is not available for an RNADE of {self._d} columns; draw with rvs() "
            f"and take the draw with the largest logpdf."
        )

    def _log_pdf(self, Y: Array) -> Array:
        n, q, d = Y.shape
        Z = np.repeat(self._conditions, q, axis=0)
        return self._fitted.log_density(Y.reshape(n * q, d), Z).reshape(n, q)

    def _gradient(self, Y: Array) -> NoReturn:
        raise NotImplementedError(
            f"grad_logpdf is not available for an RNADE of {self._d} columns."
        )

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        shape = (self._n, size, self._d)
        which = rng.integers(len(self._fitted.orders), size=shape[:2])
        uniform, normal = rng.random(shape), rng.standard_normal(shape)
        out = np.empty(shape)
        for rows in self._chunks(size):
            out[rows] = self._drawn(rows, which[rows], uniform[rows], normal[rows]).Y
        return out

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(self._fitted, self._conditions[index], single=single)

    def _chunks(self, size: int) -> Iterator[slice]:
        step = max(1, _AT_ONCE // max(1, size * self._d))
        for start in range(0, self._n, step):
            yield slice(start, min(start + step, self._n))

    def _drawn(
        self, rows: slice, which: Indices, uniform: Array, normal: Array
    ) -> Drawn:
        """Draws at some conditions, with axes (m, size, d), as is what chooses them."""
        shape = uniform.shape
        flat = self._fitted.draw(
            np.repeat(self._conditions[rows], shape[1], axis=0),
            which.ravel(),
            uniform.reshape(-1, self._d),
            normal.reshape(-1, self._d),
        )
        return Drawn(*(part.reshape(shape) for part in flat))

    def _moments(self) -> tuple[Array, Array]:
        """First and second moments of each column, standardised, (n, d) each."""
        first, second = np.empty((2, self._n, self._d))
        for rows, drawn in self._shared_draws():
            first[rows] = drawn.first.mean(axis=1)
            second[rows] = drawn.second.mean(axis=1)
        return first, second

    def _shared_draws(self) -> Iterator[tuple[slice, Drawn]]:
        """Draws with the same random numbers at every condition.

        So no row's moments depend on the other rows. Orders have equal shares.
        """
        rng, shape = np.random.default_rng(0), (_MOMENT_DRAWS, self._d)
        which = np.arange(_MOMENT_DRAWS) % len(self._fitted.orders)
        uniform, normal = rng.random(shape), rng.standard_normal(shape)
        for rows in self._chunks(_MOMENT_DRAWS):
            m = rows.stop - rows.start
            numbers = (np.broadcast_to(a, (m, *a.shape)) for a in (uniform, normal))
            yield rows, self._drawn(rows, np.tile(which, m), *numbers)


def _drawn(mixture: Mixture, uniform: Array, normal: Array) -> Array:
    """A draw of each mixture (m, k), (m,)."""
    reached = np.exp(mixture.log_weights).cumsum(axis=1)
    last = reached.shape[1] - 1
    chosen = (uniform[:, None] * reached[:, -1:] >= reached[:, :last]).sum(axis=1)
    row = np.arange(len(uniform))
    scales = np.exp(mixture.log_scales[row, chosen])
    return mixture.means[row, chosen] + scales * normal
