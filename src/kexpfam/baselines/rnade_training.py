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
from kexpfam._typing import Array
from kexpfam.baselines.rnade_network import Network, log_factors
from kexpfam.data import Rows


@dataclass(frozen=True)
class Training:
    """How to train, in the words of `RNADE`; weights decay, biases do not (AdamW)."""

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int
    weight_decay: float
    gradient_clip: float


class Trained(NamedTuple):
    """The network of the best epoch, in double precision, and how it came about."""

    network: Network
    train_loss: Array  # mean loss during each epoch, (e,)
    held_out_loss: Array  # −log p of held-out rows at first and after each, (e + 1,)
    best_epoch: int  # where that is lowest; 0 is the network before training


class Batch(NamedTuple):
    """Rows with what is seen of them, in single precision."""

    U: Any  # (..., d)
    Z: Any  # (..., p)
    seen: Any  # ones and zeros, (..., d)
    factor: Any  # what each term −log p(u_j | seen) counts, (..., d)


def train(
    network: Network,
    rows: Rows,
    held_out: Rows,
    least: Array,
    spec: Training,
    rng: np.random.Generator,
) -> Trained:
    """Train a network until held-out rows say that it is enough.

    Scales of each column's mixtures are not below `least`, (d,).
    """
    bound, held_batch = np.float32(least), held_out_batch(held_out, rng)
    best, best_epoch = _converted(network, np.float32), 0
    initial_state, run_epoch, loss_of = _program()
    held_losses = [float(loss_of(best, held_batch, bound))]
    train_losses: list[float] = []
    for rate in (spec.learning_rate, 0.1 * spec.learning_rate):
        steps = tuple(map(np.float32, (rate, spec.weight_decay, spec.gradient_clip)))
        current, state = best, initial_state(best)
        start = len(train_losses)
        for epoch in range(start + 1, spec.max_epochs + 1):
            batches = random_batches(rows, spec.batch_size, rng)
            current, state, loss, held = run_epoch(
                current, state, batches, held_batch, bound, steps
            )
            train_losses.append(float(loss))
            held_losses.append(float(held))
            if held_losses[-1] < held_losses[best_epoch]:
                best, best_epoch = current, epoch
            stale = epoch - max(best_epoch, start) >= spec.patience
            if stale or not math.isfinite(train_losses[-1]):
                break
    network = _converted(best, np.float64)
    return Trained(network, np.array(train_losses), np.array(held_losses), best_epoch)


def random_batches(rows: Rows, batch_size: int, rng: np.random.Generator) -> Batch:
    """An epoch: passes over the rows in random batches, with axes (steps, batch, ...).

    One pass, if rows are many. Those that do not fill a batch are left out, other ones
    in each pass.
    """
    n, d = rows.Y.shape
    # Few rows make small batches, five of a pass at least, and passes that make 15
    # steps are one epoch: steps are what training needs, and what patience means.
    # Guesses.
    size = min(batch_size, _power_of_two_below(max(1, n // 5)))
    passes = range(-(-15 // (n // size)))
    kept = [rng.permutation(n)[: n // size * size] for _ in passes]
    chosen = rows[np.concatenate(kept)]
    count = rng.integers(d, size=(len(chosen), 1))
    seen = rng.random(chosen.Y.shape).argsort(axis=1) < count
    share = chosen.weights / rows.weights.mean() / size
    factor = np.where(seen, 0.0, share[:, None] * d / (d - count))
    flat = Batch(chosen.Y, chosen.X, seen, factor)
    return Batch(
        *(np.float32(a.reshape(len(a) // size, size, a.shape[1])) for a in flat)
    )


def held_out_batch(rows: Rows, rng: np.random.Generator) -> Batch:
    """All factors of −log p_o of the rows, each in its own order, (n', d, ...).

    Rows without weight are added up to a power of two, so that programs are few.
    """
    n, d = rows.Y.shape
    total = 2 * _power_of_two_below(n)
    place = rng.random((n, d)).argsort(axis=1)
    count = np.arange(d)[:, None]
    seen = place[:, None] < count
    share = rows.weights / rows.weights.sum()
    factor = np.where(place[:, None] == count, share[:, None, None], 0.0)
    U, Z = (np.repeat(part[:, None], d, axis=1) for part in (rows.Y, rows.X))
    extra = ((0, total - n), (0, 0), (0, 0))
    return Batch(*(np.pad(np.float32(part), extra) for part in (U, Z, seen, factor)))


def _power_of_two_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


@functools.cache
def _program() -> tuple[Any, Any, Any]:
    """The optimizer's initial state, an epoch, and the loss, as functions.

    Steps are (learning rate, weight decay, gradient clip). The functions are compiled;
    JAX compiles again for other shapes only.
    """
    jax, optax = (needed(m, "to train RNADE", "baselines") for m in ("jax", "optax"))

    def optimizer(rate: Any, decay: Any, clip: Any) -> Any:
        return optax.chain(
            optax.clip_by_global_norm(clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(decay, mask=_decaying),
            optax.scale(-rate),
        )

    def loss(network: Network, batch: Batch, least: Any) -> Any:
        log_p = log_factors(network, batch.U, batch.seen, batch.Z, least, jax.numpy)
        return -(batch.factor * log_p).sum()

    def epoch(
        network: Network,
        state: Any,
        batches: Batch,
        held_batch: Batch,
        least: Any,
        steps: tuple[Any, Any, Any],
    ) -> tuple[Network, Any, Any, Any]:
        def step(carry: Any, batch: Batch) -> Any:
            value, slope = jax.value_and_grad(loss)(carry[0], batch, least)
            change, state = optimizer(*steps).update(slope, carry[1], carry[0])
            return (optax.apply_updates(carry[0], change), state), value

        (network, state), losses = jax.lax.scan(step, (network, state), batches)
        return network, state, losses.mean(), loss(network, held_batch, least)

    def initial_state(network: Network) -> Any:
        return optimizer(0.0, 0.0, 0.0).init(network)  # any steps have the same

    return initial_state, jax.jit(epoch), jax.jit(loss)


def _decaying(network: Network) -> Network:
    """Which parameters shrink: weights, not biases."""
    return Network(tuple((True, False) for _ in network.hidden), True, False)


def _converted(network: Network, kind: Any) -> Network:
    hidden = tuple(
        (np.asarray(w, kind), np.asarray(b, kind)) for w, b in network.hidden
    )
    return Network(
        hidden, np.asarray(network.output, kind), np.asarray(network.bias, kind)
    )
