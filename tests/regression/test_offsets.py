"""Offsets of components that x moves together."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import LinearBase, WithinComponentsBase
from kexpfam.regression import offsets_of
from kexpfam.regression.offsets import OFFSET_SPEC, ComponentOffsets, _fit_components
from tests.tolerances import assert_close


def rng():
    return np.random.default_rng(3)


def lines(n=200, slope=2.0, bend=0.0):
    """y = slope·x + bend·sin(3x) + 4c + 0.3 ε, more of the upper one for large x."""
    source = rng()
    x = source.uniform(-1, 1, size=(n, 1))
    upper = source.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))
    y = slope * x[:, 0] + bend * np.sin(3 * x[:, 0]) + 4.0 * upper
    return x, y + 0.3 * source.normal(size=n), upper


def test_log_joint_is_that_of_normal_components():
    model = ComponentOffsets(
        np.array([0.5, -1.0]),
        np.array([-1.0, 2.0]),
        np.array([0.3, 0.7]),
        np.log([0.2, 0.8]),
        0.0,
    )
    D, u = rng().normal(size=(5, 2)), rng().normal(size=5)
    slow = [
        [
            np.log(mass) + stats.norm.logpdf(u[a], D[a] @ model.slopes + m, s)
            for mass, m, s in zip((0.2, 0.8), model.means, model.stds, strict=True)
        ]
        for a in range(5)
    ]
    assert_close(model.log_joint(D, u), np.array(slow))


def test_steps_with_known_components_are_a_ridge_regression_on_indicators():
    x, y, upper = lines()
    R = np.stack([~upper, upper], axis=1).astype(float)
    found = _fit_components(x, y, np.ones(len(y)), R, OFFSET_SPEC)
    # Components are so far apart that responsibilities stay what they are.
    W = 1.0 / found.stds[upper.astype(int)] ** 2
    D = np.column_stack([x, R])
    gram = D.T @ (W[:, None] * D) + np.diag([1.0, 0.0, 0.0])
    slow = np.linalg.solve(gram, D.T @ (W * y))
    assert_close(np.append(found.slopes, found.means), slow, 1e-3)


def test_offsets_tell_components_apart_and_one_component_has_none():
    x, y, upper = lines()
    offsets = offsets_of(x, y, np.ones(len(y)))
    assert abs(offsets.mean()) < 1e-9
    assert np.all((offsets > 0) == upper)
    assert np.ptp(offsets) == pytest.approx(4.0, abs=0.2)
    alone = 2 * x[:, 0] + rng().normal(size=len(y))
    assert_close(offsets_of(x, alone, np.ones(len(y))), np.zeros(len(y)), scale=1.0)


def test_weights_of_few_rows_have_one_component():
    """An assertion failed where components were isolated and weights summed to one."""
    x, y, _ = lines()
    offsets = offsets_of(x, y, np.full(len(y), 1.0 / len(y)))
    assert_close(offsets, np.zeros(len(y)), scale=1.0)


def test_masses_that_depend_on_x_do_not_bend_the_location():
    x, y, _ = lines()
    at = np.array([[-1.0], [1.0]])
    rise = [
        float(
            np.diff(
                base.cross_fit(x, y[:, None], np.ones(200), rng()).model.at(at)[0][:, 0]
            )[0]
        )
        for base in (LinearBase(), WithinComponentsBase())
    ]
    assert rise[0] > 5.0  # the mean of y
    assert rise[1] == pytest.approx(4.0, abs=0.3)


@pytest.mark.parametrize("bend", [0.0, 1.5], ids=["line", "process"])
def test_model_and_held_out_rows_agree(bend):
    x, y, _ = lines(bend=bend)
    fit = WithinComponentsBase().cross_fit(x, y[:, None], np.ones(200), rng())
    assert abs(fit.residuals.mean()) < 1e-9
    assert fit.residuals.std() == pytest.approx(1.0)
    location, scale = fit.model.at(x)
    own = (y[:, None] - location) / scale
    # Other rows have hardly any say in 200 of them.
    assert np.abs(own - fit.residuals).max() < 0.1


def test_several_columns_are_refused():
    x, y, _ = lines(20)
    with pytest.raises(ValueError, match="one column of y, got 2"):
        WithinComponentsBase().cross_fit(x, np.column_stack([y, y]), np.ones(20), rng())
