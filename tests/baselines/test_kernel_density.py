"""Conditional kernel densities: the likelihood against loops, widths and limits."""

import numpy as np
import pytest
from scipy import optimize, stats

from kexpfam.baselines import ConditionalKDE
from kexpfam.baselines.kernel_density import Squares
from kexpfam.data import Rows
from tests.baselines.cases import wave
from tests.simulations import waves


@pytest.fixture(scope="module")
def rows():
    return wave(40, 2.0)


def leave_one_out(Z, U, weights, judged, log_widths, **sizes):
    squares = Squares(Rows(Z, U, weights), judged, **sizes)
    first = squares.leave_one_out(log_widths)
    again = squares.leave_one_out(log_widths)
    assert first[0] == again[0]  # what is kept is not changed
    return first


def slow_leave_one_out(Z, U, weights, judged, widths):
    p = Z.shape[1]
    total = 0.0
    for a in judged:
        top = bottom = 0.0
        for b in range(len(Z)):
            if b == a:
                continue
            kx = weights[b] * np.exp(-0.5 * np.sum(((Z[a] - Z[b]) / widths[:p]) ** 2))
            ky = np.prod(stats.norm.pdf(U[a], U[b], widths[p:]))
            top, bottom = top + kx * ky, bottom + kx
        total += weights[a] * np.log(top / bottom)
    return total / weights[judged].sum()


@pytest.mark.parametrize("d", [1, 2])
def test_the_likelihood_is_that_of_loops(d):
    rng = np.random.default_rng(0)
    Z, U = rng.normal(size=(15, 2)), rng.normal(size=(15, d))
    weights = rng.uniform(0.5, 2.0, size=15)
    log_widths = rng.normal(-0.5, 0.3, size=2 + d)
    for judged in (np.arange(15), np.array([1, 4, 9])):
        value, _ = leave_one_out(Z, U, weights, judged, log_widths)
        expected = slow_leave_one_out(Z, U, weights, judged, np.exp(log_widths))
        assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_the_gradient_is_that_of_differences(d):
    rng = np.random.default_rng(1)
    Z, U = rng.normal(size=(15, 2)), rng.normal(size=(15, d))
    weights, judged = rng.uniform(0.5, 2.0, size=15), np.arange(12)
    log_widths = rng.normal(-0.5, 0.3, size=2 + d)

    def value(v):
        return leave_one_out(Z, U, weights, judged, v)[0]

    expected = optimize.approx_fprime(log_widths, value, 1e-7)
    _, gradient = leave_one_out(Z, U, weights, judged, log_widths)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_the_likelihood_is_a_mean_over_the_judged_rows(rows):
    x, y = rows
    arguments = (x, y[:, None], np.ones(40), np.arange(40), np.full(3, -1.0))
    whole = leave_one_out(*arguments)
    parts = [
        leave_one_out(x, y[:, None], np.ones(40), np.arange(a, a + 10), arguments[4])
        for a in range(0, 40, 10)
    ]
    assert whole[0] == pytest.approx(np.mean([value for value, _ in parts]))
    np.testing.assert_allclose(whole[1], np.mean([g for _, g in parts], axis=0))


@pytest.mark.parametrize("kept", [0, 2**20])
def test_blocks_of_rows_give_the_same_likelihood(rows, kept):
    x, y = rows
    arguments = (x, y[:, None], np.ones(40), np.arange(40), np.full(3, -1.0))
    whole = leave_one_out(*arguments)
    parts = leave_one_out(*arguments, at_once=500, most_kept=kept)
    assert parts[0] == pytest.approx(whole[0], rel=1e-13)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-10)


def test_no_width_nearby_is_better(rows):
    model = ConditionalKDE().fit(*rows)
    x, y = rows
    Z = (x - x.mean(axis=0)) / x.std(axis=0)
    U = ((y - y.mean()) / y.std())[:, None]
    best = np.log(np.concatenate([model.width_x_, model.width_y_]))
    value, _ = leave_one_out(Z, U, np.ones(40), np.arange(40), best)
    assert value - np.log(y.std()) == pytest.approx(model.leave_one_out_, rel=1e-9)
    for j in range(3):
        for step in (-0.2, 0.2):
            other = best.copy()
            other[j] = min(other[j] + step, np.log(100.0))
            assert leave_one_out(Z, U, np.ones(40), np.arange(40), other)[0] <= value


def test_the_density_is_the_weighted_sum_of_kernels(rows):
    x, y = rows
    model = ConditionalKDE(widths_x=0.5, widths_y=0.3).fit(x, y)
    assert model.leave_one_out_ is None
    t = np.linspace(-3, 3, 7)
    gap = (x - x[0]) / (0.5 * x.std(axis=0))
    weights = np.exp(-0.5 * (gap**2).sum(axis=1))
    kernels = stats.norm.pdf(t[:, None], y, 0.3 * y.std())
    expected = kernels @ weights / weights.sum()
    np.testing.assert_allclose(model.given(x[:1])[0].pdf(t), expected, rtol=1e-10)


def test_wide_windows_of_x_give_the_kernel_density_of_y(rows):
    x, y = rows
    model = ConditionalKDE(widths_x=1e6, widths_y=0.3).fit(x, y)
    t = np.linspace(-3, 3, 7)
    expected = stats.norm.pdf(t[:, None], y, 0.3 * y.std()).mean(axis=1)
    np.testing.assert_allclose(model.given(x[:1])[0].pdf(t), expected, rtol=1e-6)


def test_a_column_that_says_nothing_is_smoothed_out():
    model = ConditionalKDE().fit(*waves(300, 2))
    assert model.width_x_[0] < 0.5
    assert model.width_x_[1] > 3.0


def test_given_widths_are_kept(rows):
    model = ConditionalKDE(widths_x=[0.4, 0.7]).fit(*rows)
    np.testing.assert_array_equal(model.width_x_, [0.4, 0.7])
    assert model.leave_one_out_ is not None


def test_rounded_responses_do_not_make_spikes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    y = np.round(x[:, 0] + rng.normal(size=200))
    model = ConditionalKDE().fit(x, y)
    # The deviation of a number that is anywhere between two whole ones.
    assert model.width_y_[0] * y.std() >= np.sqrt(1 / 12) - 1e-9


def test_repeated_rows_do_not_judge_each_other(rows):
    x, y = rows
    once = ConditionalKDE().fit(x, y)
    twice = ConditionalKDE().fit(np.concatenate([x, x]), np.concatenate([y, y]))
    np.testing.assert_allclose(twice.width_y_, once.width_y_, rtol=1e-3)
    np.testing.assert_allclose(
        twice.score_samples(x, y), once.score_samples(x, y), atol=1e-3
    )


def test_one_value_far_out_does_not_hide_the_others():
    x, y = waves(200, frequency=3.0, noise=0.2, half_width=1.0)
    far = ConditionalKDE().fit(np.append(x, [[1e4]], axis=0), np.append(y, 0.0))
    near = ConditionalKDE().fit(x, y)
    assert far.score(x, y) > near.score(x, y) - 0.05


def test_the_likelihood_is_in_the_units_of_y(rows):
    x, y = rows
    one, other = ConditionalKDE().fit(x, y), ConditionalKDE().fit(x, 100 * y)
    gap = one.leave_one_out_ - other.leave_one_out_
    assert gap == pytest.approx(np.log(100), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths_x": [1.0, 2.0, 3.0]}, r"widths_x must be one number, or one per"),
        ({"widths_x": "scott"}, "widths_x must be a number"),
        ({"widths_y": -1.0}, "widths_y must be a positive number"),
        ({"judged_rows": 1}, "judged_rows must be a whole number from 2 on"),
    ],
)
def test_what_is_wrong_is_named(rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        ConditionalKDE(**arguments).fit(*rows)
