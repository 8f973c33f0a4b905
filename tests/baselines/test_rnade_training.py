"""Training of RNADE: the loss, its bookkeeping, and early stopping."""

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest

from kexpfam.baselines import rnade_training
from kexpfam.baselines.rnade_network import (
    initial_network,
    log_density_in_order,
    log_factors,
)
from kexpfam.baselines.rnade_training import (
    Training,
    held_out_batch,
    random_batches,
    train,
)
from kexpfam.data import Rows
from kexpfam.errors import MissingDependencyError
from tests.tolerances import STANDARD_ERRORS, assert_close

HOW = Training(
    learning_rate=0.01,
    batch_size=32,
    max_epochs=30,
    patience=5,
    weight_decay=0.0,
    gradient_clip=10.0,
)
LEAST = np.full(3, 0.01)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    U = rng.normal(size=(100, 3)) @ [[1.0, 0.5, 0.0], [0.0, 0.7, 0.0], [0.3, 0.0, 1.0]]
    return Rows(rng.normal(size=(100, 1)), U, rng.uniform(0.5, 2.0, size=100))


@pytest.fixture(scope="module")
def network():
    return initial_network(3, 1, 8, 1, 2, np.random.default_rng(1))


def loss_of(network, batch):
    log_p = log_factors(network, batch.U, batch.seen, batch.Z, LEAST, np)
    return -(batch.factor * log_p).sum(axis=-1)


def rows_of(U):
    return {tuple(u) for u in U.reshape(-1, U.shape[-1])}


def test_an_epoch_holds_every_row_once_but_a_remainder(rows):
    rng = np.random.default_rng(0)
    U, Z = rng.normal(size=(1000, 3)), rng.normal(size=(1000, 1))
    many = Rows(Z, U, np.ones(1000))
    batches = random_batches(many, 64, rng)
    assert batches.U.shape == (15, 64, 3)
    assert batches.Z.shape == (15, 64, 1)
    assert len(rows_of(batches.U)) == 960
    assert rows_of(batches.U) <= rows_of(np.float32(U))


def test_few_rows_make_small_batches_and_come_again(rows):
    batches = random_batches(rows, 64, np.random.default_rng(0))
    assert batches.U.shape == (18, 16, 3)  # three passes of six batches
    for start in (0, 6, 12):
        assert len(rows_of(batches.U[start : start + 6])) == 96
    assert not np.array_equal(batches.seen[:6], batches.seen[6:12])
    single = random_batches(rows[3:4], 64, np.random.default_rng(0))
    assert single.U.shape == (15, 1, 3)


def test_what_is_seen_is_uniform_over_counts_and_columns(rows):
    many = Rows.concatenate([rows] * 600)
    seen = random_batches(many, 1024, np.random.default_rng(0)).seen.reshape(-1, 3)
    n = len(seen)
    for pattern in itertools.product([0, 1], repeat=3):
        # A third for each number of columns seen, shared out among their choices.
        ways = {0: 1, 1: 3, 2: 3, 3: np.inf}[sum(pattern)]
        expected = 1.0 / 3.0 / ways
        error = np.sqrt(expected * (1 - expected) / n)
        share = np.mean(np.all(seen == pattern, axis=1))
        assert abs(share - expected) <= STANDARD_ERRORS * error


def test_the_loss_is_the_mean_over_orders_on_average(rows, network):
    one = rows[4:5]
    expected = np.mean(
        [
            -log_density_in_order(network, one.Y, one.X, np.array(order), LEAST)[0]
            for order in itertools.permutations(range(3))
        ]
    )
    many = one[np.zeros(2**15, dtype=int)]
    batch = random_batches(many, 2**15, np.random.default_rng(2))
    losses = loss_of(network, batch) * batch.U.shape[1]
    error = losses.std() / np.sqrt(losses.size)
    assert abs(losses.mean() - expected) <= STANDARD_ERRORS * error
    assert error < 0.01 * expected


def test_weights_count_relative_to_their_mean(rows):
    batch = random_batches(rows, 16, np.random.default_rng(0))
    doubled = replace(rows, weights=2.0 * rows.weights)
    again = random_batches(doubled, 16, np.random.default_rng(0))
    assert_close(again.factor, batch.factor, 1e-6)  # single precision
    first = np.flatnonzero(np.all(np.float32(rows.Y) == batch.U[0, 0], axis=1))[0]
    unseen = 3 - batch.seen[0, 0].sum()
    expected = rows.weights[first] / rows.weights.mean() / 16 * 3 / unseen
    assert_close(batch.factor[0, 0].max(), expected, 1e-6)


def test_held_out_loss_is_the_exact_density_of_each_row_in_one_order(rows, network):
    batch = held_out_batch(rows, np.random.default_rng(0))
    assert batch.U.shape == (128, 3, 3)  # padded to a power of two
    found = loss_of(network, batch).sum(axis=1)
    share = rows.weights / rows.weights.sum()
    for a in range(100):
        counts = batch.seen[a].sum(axis=0)  # the first column is seen most often
        order = np.argsort(-counts)
        log_p = log_density_in_order(
            network, rows.Y[a : a + 1], rows.X[a : a + 1], order, LEAST
        )
        assert found[a] == pytest.approx(-share[a] * log_p[0], rel=1e-5, abs=1e-8)
    assert np.all(found[100:] == 0.0)


def test_held_out_orders_differ_between_rows(rows):
    batch = held_out_batch(rows, np.random.default_rng(0))
    orders = {tuple(np.argsort(-s.sum(axis=0))) for s in batch.seen[:100]}
    assert len(orders) == 6


def test_training_lowers_both_losses(rows, network):
    first, second = rows[:70], rows[70:]
    trained = train(network, first, second, LEAST, HOW, np.random.default_rng(0))
    assert trained.best_epoch > 0
    assert trained.held_out_loss[trained.best_epoch] < trained.held_out_loss[0] - 0.2
    assert trained.train_loss[-1] < trained.train_loss[0]


def test_the_parameters_kept_are_those_with_the_lowest_held_out_loss(rows, network):
    # So few rows and so many steps: training goes too far, and must come back.
    first, second = rows[:20], rows[20:]
    how = Training(0.1, 16, 60, 15, 0.0, 10.0)
    rng = np.random.default_rng(3)
    judged = held_out_batch(second, np.random.default_rng(3))  # what `train` draws
    trained = train(network, first, second, LEAST, how, rng)
    losses = trained.held_out_loss
    assert losses.argmin() == trained.best_epoch
    assert losses[-1] > losses.min() + 0.01
    # Single precision in training, double here.
    found = loss_of(trained.network, judged).sum()
    assert found == pytest.approx(losses.min(), abs=1e-4)


def test_training_ends_after_two_phases_of_patience(rows, network):
    # Steps so short that nothing changes: not even the first epoch may count as better.
    how = Training(1e-30, 32, 100, 4, 0.0, 10.0)
    trained = train(network, rows, rows, LEAST, how, np.random.default_rng(0))
    assert len(trained.train_loss) == 8
    assert trained.best_epoch == 0
    for (w, b), (v, c) in zip(trained.network.hidden, network.hidden, strict=True):
        assert np.array_equal(w, np.float32(v))
        assert np.array_equal(b, np.float32(c))


def test_no_epochs_leave_the_network_alone(rows, network):
    how = Training(0.01, 32, 0, 4, 0.0, 10.0)
    trained = train(network, rows, rows, LEAST, how, np.random.default_rng(0))
    assert len(trained.train_loss) == 0
    assert np.array_equal(trained.network.output, np.float32(network.output))


def test_training_that_diverges_keeps_the_best_network(rows, network):
    how = Training(1e30, 32, 20, 4, 0.0, 1e30)
    trained = train(network, rows, rows, LEAST, how, np.random.default_rng(0))
    assert np.all(np.isfinite(trained.network.output))


def test_weight_decay_shrinks_weights_and_not_biases(rows, network):
    def norms(decay):
        how = Training(0.01, 32, 10, 10, decay, 10.0)
        trained = train(network, rows, rows, LEAST, how, np.random.default_rng(0))
        (weights, bias), *_ = trained.network.hidden
        return np.linalg.norm(weights), np.linalg.norm(bias)

    # 180 steps of 0.01 would shrink weights that nothing holds to exp(-0.01 * 180 * 3).
    assert norms(3.0)[0] < 0.7 * norms(0.0)[0]
    assert norms(3.0)[1] > 0.7 * norms(0.0)[1]


def test_the_same_generator_gives_the_same_network(rows, network):
    first, second = rows[:70], rows[70:]
    one, two, other = (
        train(network, first, second, LEAST, HOW, np.random.default_rng(seed)).network
        for seed in (5, 5, 6)
    )
    assert np.array_equal(one.output, two.output)
    assert not np.array_equal(one.output, other.output)


@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_a_missing_library_is_named_with_the_way_to_get_it(
    missing, rows, network, monkeypatch
):
    rnade_training._program.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=r"kexpfam\[baselines\]"):
        train(network, rows, rows, LEAST, HOW, np.random.default_rng(0))
