"""RNADE and ConditionalRNADE: densities, draws, units, and scikit-learn's ways."""

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from kexpfam import FactorizedDensity
from kexpfam.baselines import RNADE, ConditionalRNADE
from kexpfam.baselines.rnade_network import log_density_in_order
from kexpfam.distributions import NormalMixtureDensity
from kexpfam.errors import DegenerateDataError, TableWarning
from tests.tolerances import KS_LEVEL, QUADRATURE, STANDARD_ERRORS, assert_close

SMALL = {"units": 16, "components": 3, "batch_size": 128, "random_state": 0}


def two_branches(n, seed):
    """One condition, and a response on either of two branches."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(n, 1))
    branch = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return x, 50.0 + 10.0 * (branch * (1.5 + x[:, 0]) + 0.2 * rng.normal(size=n))


def bent(n, seed):
    """Two columns in other units: a parabola with noise."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return np.stack([100.0 * a, 3.0 + 0.01 * (a**2 + 0.4 * rng.normal(size=n))], axis=1)


COVARIANCE = np.array([[4.0, 1.2, -0.6], [1.2, 1.0, 0.0], [-0.6, 0.0, 0.25]])


@pytest.fixture(scope="module")
def branched():
    return ConditionalRNADE(max_epochs=150, **SMALL).fit(*two_branches(1000, 0))


@pytest.fixture(scope="module")
def plane():
    return RNADE(max_epochs=80, **SMALL).fit(bent(1000, 0))


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(0)
    Y = rng.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, size=2000)
    return RNADE(max_epochs=60, n_orders=4, **SMALL).fit(Y)


@pytest.fixture(scope="module")
def conditional_plane():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, size=(1000, 2))
    noise = rng.normal(size=(1000, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    y = [5.0, -20.0] + 2.0 * x[:, :1] + [0.5, 10.0] * noise
    return ConditionalRNADE(max_epochs=60, **SMALL).fit(x, y), x, y


def grid_of(Y, count=401, margin=2.0):
    """Points on a grid that covers the data and more, and the area of a cell."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    low, high = low - margin * Y.std(axis=0), high + margin * Y.std(axis=0)
    axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1), cell


def test_joint_density_of_two_columns_integrates_to_one(plane):
    points, cell = grid_of(bent(1000, 0), 801, margin=6.0)
    p = np.exp(plane.score_samples(points.reshape(-1, 2)))
    # Cells are narrower than the components, but tails end at the edge of the grid.
    assert p.sum() * cell == pytest.approx(1.0, abs=1e-6)


def test_joint_density_of_one_column_integrates_to_one():
    Y = two_branches(400, 1)[1][:, None]
    model = RNADE(max_epochs=20, **SMALL).fit(Y)
    total, _ = integrate.quad(
        lambda v: np.exp(model.score_samples([[v]])[0]), -200.0, 300.0, limit=500
    )
    assert total == pytest.approx(1.0, abs=QUADRATURE)
    p = model.distribution()
    assert isinstance(p, NormalMixtureDensity)
    assert_close(p.logpdf(Y[:, 0]), model.score_samples(Y))
    assert p.cdf(p.ppf(0.3)) == pytest.approx(0.3)


def test_conditional_density_of_one_column_integrates_to_one(branched):
    for p in branched.given([[-0.9], [0.0], [2.0]]):
        total, _ = integrate.quad(p.pdf, -100.0, 200.0, limit=500, epsabs=1e-12)
        assert total == pytest.approx(1.0, abs=QUADRATURE)


def test_conditional_density_of_two_columns_integrates_to_one(conditional_plane):
    model, _, y = conditional_plane
    points, cell = grid_of(y, 601, margin=3.0)
    for p in model.given([[-0.9, 0.0], [0.5, 0.5]]):
        assert p.pdf(points.reshape(-1, 2)).sum() * cell == pytest.approx(1, abs=1e-6)


def test_training_beats_the_start_and_a_normal_density_on_two_branches(branched):
    x, y = two_branches(1000, 5)
    start = clone(branched).set_params(max_epochs=0).fit(*two_branches(1000, 0))
    normal = stats.norm.logpdf(y, y.mean(), y.std()).mean()
    truth = np.logaddexp(
        *(
            stats.norm.logpdf(y, 50.0 + sign * 10.0 * (1.5 + x[:, 0]), 2.0)
            for sign in (-1.0, 1.0)
        )
    ).mean() - np.log(2.0)
    assert branched.score(x, y) > start.score(x, y) + 0.5
    assert branched.score(x, y) > normal + 0.5
    # A tenth of a nat for 1000 rows; the truth cannot be beaten by much.
    assert truth - 0.1 < branched.score(x, y) < truth + 0.02


def test_training_beats_a_normal_density_on_a_bent_one(plane):
    Y = bent(1000, 5)
    normal = stats.multivariate_normal(Y.mean(axis=0), np.cov(Y.T))
    assert plane.score(Y) > normal.logpdf(Y).mean() + 0.5


def test_the_density_is_the_mean_over_orders_in_the_units_of_the_data(space):
    Y = np.random.default_rng(3).multivariate_normal([1, 2, 3], COVARIANCE, size=5)
    fitted = space.fitted_
    U, Z = (Y - fitted.center) / fitted.scale, np.empty((5, 0))
    each = [
        log_density_in_order(fitted.network, U, Z, order, fitted.least)
        for order in space.orders_
    ]
    expected = np.log(np.mean(np.exp(each), axis=0)) - np.log(fitted.scale).sum()
    assert space.orders_.shape == (4, 3)
    assert_close(space.score_samples(Y), expected)


def test_draws_follow_the_density(plane):
    # Marginals of the density on a grid against those of draws.
    points, cell = grid_of(bent(1000, 0), 601)
    p = np.exp(plane.score_samples(points.reshape(-1, 2))).reshape(points.shape[:2])
    draws = plane.sample(4000, random_state=1)
    for column, axis in ((0, points[:, 0, 0]), (1, points[0, :, 1])):
        marginal = p.sum(axis=1 - column) * cell
        reached = marginal.cumsum() - marginal / 2.0
        levels = np.interp(draws[:, column], axis, reached)
        assert stats.kstest(levels, "uniform").pvalue > KS_LEVEL
    # And together: the mean log density is minus the entropy.
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum() * cell
    log_p = plane.score_samples(draws)
    error = log_p.std() / np.sqrt(len(draws))
    assert abs(log_p.mean() + entropy) <= STANDARD_ERRORS * error


def test_conditional_draws_follow_the_density_of_one_column(branched):
    X = [[-0.5], [0.5]]
    draws, p = branched.sample(X, 2000, random_state=0), branched.given(X)
    assert draws.shape == (2, 2000)
    for i in range(2):
        assert stats.kstest(draws[i], p[i].cdf).pvalue > KS_LEVEL


def test_draws_have_the_correlations_of_the_data(space):
    draws = space.sample(20000, random_state=0)
    expected = COVARIANCE / np.sqrt(np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE)))
    # When to stop is decided by 200 rows, which know such figures to 1/√200 = 0.07 in
    # deviations.
    deviation = np.sqrt(np.diag(COVARIANCE))
    assert np.abs(np.corrcoef(draws.T) - expected).max() < 0.07
    assert np.abs((draws.mean(axis=0) - [1, 2, 3]) / deviation).max() < 0.1
    assert np.abs(draws.std(axis=0) / deviation - 1).max() < 0.1


def test_moments_of_several_columns_are_those_of_draws(conditional_plane):
    model, _, _ = conditional_plane
    X = np.array([[-0.9, 0.0], [0.5, 0.5]])
    p, draws = model.given(X), model.sample(X, 20000, random_state=0)
    assert draws.shape == (2, 20000, 2)
    # A few hundredths of a deviation, as documented.
    scale = draws.std(axis=1)
    assert np.all(np.abs(p.mean() - draws.mean(axis=1)) < 0.05 * scale)
    assert np.all(np.abs(p.std() - scale) < 0.05 * scale)
    log_p = p.logpdf(draws)
    assert np.all(np.abs(p.entropy() + log_p.mean(axis=1)) < 0.1)
    assert np.array_equal(model.predict(X), p.mean())


def test_the_conditional_mean_of_several_columns_is_learned(conditional_plane):
    model, _, _ = conditional_plane
    x = np.array([[-0.8, 0.0], [0.8, 0.0]])
    # Deviations are 0.5 and 10; 1000 rows know such means to a tenth of that.
    error = np.abs(model.predict(x) - ([5.0, -20.0] + 2.0 * x[:, :1]))
    assert np.all(error < [0.15, 3.0])


def test_densities_of_several_columns_have_the_shapes_of_others(conditional_plane):
    model, x, y = conditional_plane
    p = model.given(x[:4])
    assert len(p) == 4
    assert p.logpdf(y[:4]).shape == (4,)
    assert p.logpdf(y[None, :7]).shape == (4, 7)
    assert p[1].logpdf(y[:3]).shape == (3,)
    assert_close(p[1].logpdf(y[:3]), p.logpdf(y[None, :3])[1])
    assert p[2].rvs(5, random_state=0).shape == (5, 2)
    assert p[1:3].mean().shape == (2, 2)
    assert p[0].mean().shape == p[0].std().shape == (2,)
    assert p.support.shape == (4, 2, 2)
    assert np.all(p.log_partition == 0.0)
    assert np.all(p.log_partition_error == 0.0)
    assert p.rvs(3, random_state=1, sampler="smc").shape == (4, 3, 2)
    assert_close(model.score_samples(x[:4], y[:4]), p.logpdf(y[:4]))
    assert p[:0].mean().shape == (0, 2)
    assert p[:0].rvs(3).shape == (0, 3, 2)


def test_a_row_does_not_depend_on_the_other_rows(conditional_plane):
    model, x, y = conditional_plane
    some = np.arange(0, 300, 7)
    assert_close(model.score_samples(x[some], y[some]), model.score_samples(x, y)[some])
    assert_close(model.predict(x[:300])[some], model.predict(x[some]))


def test_what_is_missing_for_several_columns_says_so(conditional_plane):
    model, x, y = conditional_plane
    p = model.given(x[:2])
    with pytest.raises(AttributeError, match="ppf is for one column of y"):
        p.ppf(0.5)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = p.nonsense
    with pytest.raises(NotImplementedError, match="mode is not available"):
        p.mode()
    with pytest.raises(NotImplementedError, match="grad_logpdf is not available"):
        p.grad_logpdf(y[:2])
    with pytest.raises(ValueError, match="predict_quantiles is for one column"):
        model.predict_quantiles(x, [0.5])


def test_quantiles_and_intervals_of_one_column_come_from_the_mixture(branched):
    X = [[-0.5], [0.5]]
    levels = [0.1, 0.5, 0.9]
    quantiles = branched.predict_quantiles(X, levels)
    for i, p in enumerate(branched.given(X)):
        assert_close(p.cdf(quantiles[i]), levels)
        assert_close(branched.predict(X)[i], p.mean())
    assert_close(branched.predict_interval(X, 0.8), quantiles[:, [0, 2]], 1e-9)
    assert len(branched.given([[0.5]])[0].hpd(0.9)) == 2  # two branches


@pytest.mark.parametrize("factor", [np.array([8.0, 0.25]), np.array([1e-5, 300.0])])
def test_other_units_shift_the_log_density_and_nothing_else(factor):
    Y, unit = bent(300, 2), factor
    options = {**SMALL, "max_epochs": 5}
    plain = RNADE(**options).fit(Y)
    scaled = RNADE(**options).fit(Y * unit)
    shift = np.log(unit).sum()
    # Standardising rounds, and training in single precision spreads that a little.
    assert_close(scaled.score_samples(Y * unit), plain.score_samples(Y) - shift, 1e-4)
    draws = plain.sample(5, random_state=0) * unit
    assert_close(scaled.sample(5, random_state=0) / unit, draws / unit, 1e-3)


def test_other_units_of_x_change_nothing_and_of_y_the_density():
    x, y = two_branches(300, 2)
    options = {**SMALL, "max_epochs": 5}
    plain = ConditionalRNADE(**options).fit(x, y)
    scaled = ConditionalRNADE(**options).fit(64.0 * x, 0.5 * y)
    expected = plain.score_samples(x, y) + np.log(2.0)
    assert_close(scaled.score_samples(64.0 * x, 0.5 * y), expected, 1e-4)


def test_the_same_seed_gives_the_same_numbers_and_another_other_ones():
    Y = bent(200, 3)

    def scores(seed):
        options = {**SMALL, "max_epochs": 3, "random_state": seed}
        return RNADE(**options).fit(Y).score_samples(Y)

    assert np.array_equal(scores(1), scores(1))
    assert not np.array_equal(scores(1), scores(2))
    assert np.array_equal(
        scores(np.random.default_rng(1)), scores(np.random.default_rng(1))
    )


def test_draws_repeat_with_their_seed(plane):
    assert np.array_equal(plane.sample(4, random_state=2), plane.sample(4, 2))
    assert not np.array_equal(plane.sample(4, 2), plane.sample(4, 3))
    assert plane.sample(0).shape == (0, 2)


def test_held_out_loss_falls_and_the_best_epoch_is_kept(plane):
    assert plane.held_out_loss_.argmin() == plane.best_epoch_
    assert len(plane.held_out_loss_) == plane.n_iter_ + 1 == len(plane.train_loss_) + 1
    assert plane.held_out_loss_.min() < plane.held_out_loss_[0] - 0.3


@pytest.mark.slow
def test_scales_of_rounded_columns_stay_above_their_resolution():
    rng = np.random.default_rng(4)
    smooth = rng.normal(size=400)
    Y = np.stack([smooth, np.round(smooth + rng.normal(size=400))], axis=1)
    options = {**SMALL, "max_epochs": 40, "components": 10}
    model = RNADE(**options).fit(Y)
    step = 1.0 / Y[:, 1].std()
    assert_close(model.least_scale_, [1e-3, step / np.sqrt(12.0)])
    # A spike of the bound's width with all the mass is as high as a density can be.
    bound = -np.log(model.least_scale_[1] * Y[:, 1].std() * np.sqrt(2 * np.pi))
    one = RNADE(**options).fit(Y[:, 1:])
    assert one.score_samples(Y[:, 1:]).max() < bound
    p = one.distribution()
    assert np.all(p._scales >= one.least_scale_ * Y[:, 1].std())


def test_paper_networks_are_chosen_by_cross_validation_on_the_training_rows():
    model = RNADE.paper(random_state=3)
    assert model.get_params()["units"] == (2, 10, 100)
    assert model.get_params()["components"] == (1, 2, 5, 10)
    assert model.hidden_layers == 1
    assert ConditionalRNADE.paper(units=(2, 5)).units == (2, 5)


def test_cross_validation_sees_that_two_branches_need_two_components():
    x, y = two_branches(300, 6)
    options = {**SMALL, "units": (8,), "components": (1, 2), "hidden_layers": 1}
    model = ConditionalRNADE(cv=2, max_epochs=200, **options).fit(x, y)
    assert model.components_ == 2
    assert model.units_ == 8
    assert model.selection_.sizes == ((8, 1), (8, 2))
    assert model.selection_.losses[1] < model.selection_.losses[0] - 0.2
    assert model.fitted_.network.bias.shape == (1, 3, 2)
    assert ConditionalRNADE(**{**SMALL, "max_epochs": 0}).fit(x, y).selection_ is None


def test_rows_without_weight_do_not_matter():
    Y = bent(150, 7)
    junk = np.concatenate([Y, Y[:50] + 1e3])
    weights = np.append(np.ones(150), np.zeros(50))
    options = {**SMALL, "max_epochs": 3}
    model = RNADE(**options).fit(junk, sample_weight=weights)
    assert_close(model.score_samples(Y), RNADE(**options).fit(Y).score_samples(Y), 1e-4)


def test_weights_move_the_density():
    x, y = two_branches(600, 8)
    weights = np.where(y > 50.0, 9.0, 1.0)
    options = {**SMALL, "max_epochs": 100}
    model = ConditionalRNADE(**options).fit(x, y, sample_weight=weights)
    # Nine tenths lie on the upper branch, which is 50 and more at every x.
    assert model.given([[0.0]]).sf(50.0)[0] == pytest.approx(0.9, abs=0.05)


def test_infinite_points_have_no_density_and_far_ones_little(plane, conditional_plane):
    model, x, _ = conditional_plane
    p = model.given(x[:1])[0]
    assert p.logpdf([np.inf, 0.0]) == -np.inf
    assert p.logpdf([1e200, 0.0]) == -np.inf
    assert np.isfinite(plane.score_samples([[1e9, 3.0]]))[0]


def test_a_constant_column_of_x_says_nothing():
    x, y = two_branches(100, 9)
    both = np.hstack([x, np.full((100, 1), 7.0)])
    model = ConditionalRNADE(**{**SMALL, "max_epochs": 2}).fit(both, y)
    changed = both.copy()
    changed[:, 1] = -100.0
    assert np.array_equal(model.score_samples(both, y), model.score_samples(changed, y))


def test_a_constant_response_is_refused():
    Y = bent(50, 0)
    Y[:, 1] = 3.0
    with pytest.raises(DegenerateDataError, match="X is constant in column 1"):
        RNADE().fit(Y)
    with pytest.raises(DegenerateDataError, match="y is constant in column 0"):
        ConditionalRNADE().fit(Y[:, :1], Y[:, 1])


def test_a_single_row_with_weight_is_refused():
    Y = np.array([[0.0], [1.0], [2.0]])
    with pytest.raises(DegenerateDataError, match="constant"):
        RNADE().fit(Y, sample_weight=[1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("hidden_layers", 0),
        ("units", 0),
        ("units", ()),
        ("units", "many"),
        ("units", (3, 0)),
        ("components", 1.5),
        ("n_orders", 0),
        ("least_scale", 0.0),
        ("learning_rate", -1.0),
        ("batch_size", 0),
        ("max_epochs", -1),
        ("patience", 0),
        ("held_out", 1.0),
        ("held_out", 0.0),
        ("weight_decay", -0.1),
        ("weight_decay", "none"),
        ("gradient_clip", 0.0),
        ("cv", 1),
        ("random_state", "seed"),
    ],
)
def test_a_bad_argument_is_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        RNADE(**{argument: value}).fit(bent(20, 0))


def test_bad_rows_are_refused(plane, conditional_plane):
    Y = bent(20, 0)
    few = RNADE(**{**SMALL, "max_epochs": 1})
    with pytest.warns(TableWarning, match=r"gaps in \d of 20 rows"):
        few.fit(np.where(Y > 100.0, np.nan, Y))
    with pytest.raises(ValueError, match="2 features"):
        plane.score_samples(Y[:, :1])
    model, x, y = conditional_plane
    with pytest.raises(ValueError, match=r"2 column\(s\) as in fit"):
        model.score_samples(x, y[:, 0])
    with pytest.raises(ValueError, match="n_samples"):
        plane.sample(-1)
    with pytest.raises(NotFittedError):
        RNADE().sample(3)


@pytest.mark.parametrize("kind", [RNADE, ConditionalRNADE])
def test_parameters_are_keyword_only_listed_and_cloned(kind):
    names = set(inspect.signature(kind).parameters)
    model = kind(units=(2, 3), random_state=5)
    assert set(model.get_params()) == names
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(TypeError, match="positional argument"):
        kind(2)


def test_only_the_conditional_one_is_a_regressor():
    assert is_regressor(ConditionalRNADE())
    assert not is_regressor(RNADE())


def test_names_of_columns_are_kept():
    frame = pd.DataFrame(bent(40, 0), columns=["a", "b"])
    model = RNADE(**{**SMALL, "max_epochs": 1}).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    other = model.score_samples(frame[["b", "a"]])  # columns go by their names
    np.testing.assert_array_equal(other, model.score_samples(frame))


def test_grid_search_takes_the_mean_log_density():
    grid = {"max_epochs": [0, 30]}
    search = GridSearchCV(RNADE(**SMALL), grid, cv=2, error_score="raise")
    assert search.fit(bent(200, 0)).best_params_ == {"max_epochs": 30}


def test_both_are_factors_of_a_joint_density():
    Y = bent(150, 0)
    options = {**SMALL, "max_epochs": 5}
    model = FactorizedDensity(graph="full", factor=ConditionalRNADE(**options)).fit(Y)
    assert np.all(np.isfinite(model.score_samples(Y)))
    assert model.sample(3, random_state=0).shape == (3, 2)
    alone = FactorizedDensity(graph="independent", root=RNADE(**options)).fit(Y)
    expected = [
        RNADE(**options).fit(Y[:, [j]]).score_samples(Y[:, [j]]) for j in (0, 1)
    ]
    assert_close(alone.score_samples(Y), np.sum(expected, axis=0), 1e-4)


def test_importing_the_baselines_does_not_import_jax():
    code = (
        "import sys, kexpfam, kexpfam.baselines as b; b.RNADE(); b.ConditionalRNADE();"
        "sys.exit('jax' in sys.modules or 'optax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


_NEEDS_Y = "score_samples of p(y|x) takes x and y, and the check passes x only"
_RANDOM = "batches are random, so a row of weight two is not the same as two rows"
_EXPECTED_FAILURES = {
    "RNADE": {"check_sample_weight_equivalence_on_dense_data": _RANDOM},
    "ConditionalRNADE": {
        "check_methods_sample_order_invariance": _NEEDS_Y,
        "check_methods_subset_invariance": _NEEDS_Y,
        "check_sample_weight_equivalence_on_dense_data": _RANDOM,
        "check_sample_weight_equivalence_on_sparse_data": _RANDOM,
    },
}


@parametrize_with_checks(
    [
        RNADE(units=2, components=1, max_epochs=1, random_state=0),
        ConditionalRNADE(units=2, components=1, max_epochs=1, random_state=0),
    ],
    expected_failed_checks=lambda e: _EXPECTED_FAILURES[type(e).__name__],
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)
