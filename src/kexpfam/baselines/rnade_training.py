"""Training of RNADE for all orders of the columns at once.

Each row of a batch gets a random order and a random number s of columns seen. With

    d/(d − s) Σ_{j not seen} −log p(u_j | columns seen, z)

the expectation over both is the mean of −log p_o(u|z) over all orders o (Uria, Murray
and Larochelle 2014). Steps are Adam's; after each epoch the held-out rows are looked
at, each in an order of its own, and the best network so far is kept. When none has been
better for a while, training goes on from there with shorter steps.

Random numbers are NumPy's, so that one generator decides everything.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, Indices
from kexpfam.baselines.rnade_network import Network, log_factors

# Steps of the second half of training, relative to the first.
_FINISH = 0.1

# Few rows make small batches, so many of a pass at least, and passes that make so many
# steps are one epoch: steps are what training needs, and what patience means. Guesses.
_FEWEST_BATCHES = 5
_FEWEST_STEPS = 15


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        learning_rate: Of Adam.
        batch_size: Rows of a step, at most.
        max_epochs: Epochs, at most: passes over the rows, several of few.
        patience: Epochs without a better held-out loss before steps are shortened, or
            training ends.
        weight_decay: Shrinkage of weights, not of biases (AdamW).
        gradient_clip: Longest gradient.
    """

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int
    weight_decay: float
    gradient_clip: float


class Rows(NamedTuple):
    """Standardised rows.

    Attributes:
        U: (n, d).
        Z: (n, p).
        weights: (n,).
    """

    U: Array
    Z: Array
    weights: Array

    def take(self, rows: Indices) -> "Rows":
        """Some of them."""
        return Rows(self.U[rows], self.Z[rows], self.weights[rows])


class Trained(NamedTuple):
    """A network, and how it came about.

    Attributes:
        network: Parameters in double precision, those of the best epoch.
        train_loss: Mean loss during each epoch, (e,).
        held_out_loss: −log p of the held-out rows before the first epoch and after
            each, (e + 1,).
        best_epoch: Where that is lowest; 0 is the network before training.
    """

    network: Network
    train_loss: Array
    held_out_loss: Array
    best_epoch: int


class Batch(NamedTuple):
    """Rows with what is seen of them, in single precision.

    Attributes:
        U: (..., d).
        Z: (..., p).
        seen: Ones and zeros, (..., d).
        factor: What each term −log p(u_j | seen) counts, (..., d).
    """

    U: Any
    Z: Any
    seen: Any
    factor: Any


def train(
    network: Network,
    rows: Rows,
    held_out: Rows,
    least: Array,
    how: Training,
    rng: np.random.Generator,
) -> Trained:
    """Train a network until held-out rows say that it is enough.

    Args:
        network: Where to start.
        rows: Rows to learn from.
        held_out: Rows that decide when to stop.
        least: Smallest scale of each column's mixtures, (d,).
        how: Options.
        rng: Of batches, orders and what is seen.

    Raises:
        MissingDependencyError: JAX or Optax is not installed.
    """
    bound, judged = np.float32(least), held_out_batch(held_out, rng)
    best, best_epoch = _single(network), 0
    program = _program()
    held_losses = [float(program.loss(best, judged, bound))]
    train_losses: list[float] = []
    for rate in (how.learning_rate, _FINISH * how.learning_rate):
        steps = Steps(*map(np.float32, (rate, how.weight_decay, how.gradient_clip)))
        current, state = best, program.initial_state(best)
        start = len(train_losses)
        for epoch in range(start + 1, how.max_epochs + 1):
            batches = random_batches(rows, how.batch_size, rng)
            current, state, loss, held = program.epoch(
                current, state, batches, judged, bound, steps
            )
            train_losses.append(float(loss))
            held_losses.append(float(held))
            if held_losses[-1] < held_losses[best_epoch]:
                best, best_epoch = current, epoch
            stale = epoch - max(best_epoch, start) >= how.patience
            if stale or not math.isfinite(train_losses[-1]):
                break
    return Trained(
        _double(best), np.array(train_losses), np.array(held_losses), best_epoch
    )


def random_batches(rows: Rows, batch_size: int, rng: np.random.Generator) -> Batch:
    """An epoch: passes over the rows in random batches, with axes (steps, batch, ...).

    One pass, if rows are many. Those that do not fill a batch are left out, other ones
    in each pass.
    """
    n, d = rows.U.shape
    size = min(batch_size, _power_of_two_below(max(1, n // _FEWEST_BATCHES)))
    passes = range(-(-_FEWEST_STEPS // (n // size)))
    kept = [rng.permutation(n)[: n // size * size] for _ in passes]
    chosen = rows.take(np.concatenate(kept))
    count = rng.integers(d, size=(len(chosen.U), 1))
    seen = rng.random(chosen.U.shape).argsort(axis=1) < count
    share = chosen.weights / rows.weights.mean() / size
    factor = np.where(seen, 0.0, share[:, None] * d / (d - count))
    flat = Batch(chosen.U, chosen.Z, seen, factor)
    return Batch(
        *(np.float32(a.reshape(len(a) // size, size, a.shape[1])) for a in flat)
    )


def held_out_batch(rows: Rows, rng: np.random.Generator) -> Batch:
    """All factors of −log p_o of the rows, each in its own order, (n', d, ...).

    Rows without weight are added up to a power of two, so that programs are few.
    """
    n, d = rows.U.shape
    total = 2 * _power_of_two_below(n)
    place = rng.random((n, d)).argsort(axis=1)
    count = np.arange(d)[:, None]
    seen = place[:, None] < count
    share = rows.weights / rows.weights.sum()
    factor = np.where(place[:, None] == count, share[:, None, None], 0.0)
    shape = (n, d)
    parts = (
        np.broadcast_to(rows.U[:, None], (*shape, d)),
        np.broadcast_to(rows.Z[:, None], (*shape, rows.Z.shape[1])),
        seen,
        factor,
    )
    extra = ((0, total - n), (0, 0), (0, 0))
    return Batch(*(np.pad(np.float32(part), extra) for part in parts))


def _power_of_two_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


class Steps(NamedTuple):
    """What steps are like, as in `Training`; arguments of the program."""

    learning_rate: Any
    weight_decay: Any
    gradient_clip: Any


class _Program(NamedTuple):
    initial_state: Any
    epoch: Any
    loss: Any


@functools.cache
def _program() -> _Program:
    """Compiled functions; JAX compiles again for other shapes only."""
    jax, optax = _libraries()
    jnp = jax.numpy

    def optimizer(steps: Steps) -> Any:
        return optax.chain(
            optax.clip_by_global_norm(steps.gradient_clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(steps.weight_decay, mask=_decaying),
            optax.scale(-steps.learning_rate),
        )

    def loss(network: Network, batch: Batch, least: Any) -> Any:
        log_p = log_factors(network, batch.U, batch.seen, batch.Z, least, jnp)
        return -(batch.factor * log_p).sum()

    def epoch(
        network: Network,
        state: Any,
        batches: Batch,
        judged: Batch,
        least: Any,
        steps: Steps,
    ) -> tuple[Network, Any, Any, Any]:
        def step(carry: Any, batch: Batch) -> Any:
            value, slope = jax.value_and_grad(loss)(carry[0], batch, least)
            change, state = optimizer(steps).update(slope, carry[1], carry[0])
            return (optax.apply_updates(carry[0], change), state), value

        (network, state), losses = jax.lax.scan(step, (network, state), batches)
        return network, state, losses.mean(), loss(network, judged, least)

    def initial_state(network: Network) -> Any:
        return optimizer(Steps(0.0, 0.0, 0.0)).init(network)  # any steps have the same

    return _Program(initial_state, jax.jit(epoch), jax.jit(loss))


def _decaying(network: Network) -> Network:
    """Which parameters shrink: weights, not biases."""
    return Network(tuple((True, False) for _ in network.hidden), True, False)


def _single(network: Network) -> Network:
    return _converted(network, np.float32)


def _double(network: Network) -> Network:
    return _converted(network, np.float64)


def _converted(network: Network, kind: Any) -> Network:
    return Network(
        tuple(
            (np.asarray(w, dtype=kind), np.asarray(b, dtype=kind))
            for w, b in network.hidden
        ),
        np.asarray(network.output, dtype=kind),
        np.asarray(network.bias, dtype=kind),
    )


def _libraries() -> tuple[Any, Any]:
    jax, optax = (needed(m, "to train RNADE", "baselines") for m in ("jax", "optax"))
    return jax, optax
