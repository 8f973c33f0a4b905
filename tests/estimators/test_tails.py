"""Heavy tails and outliers: moments that say nothing do not spoil a fit."""

import warnings

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF, AutoKCEF, load
from kexpfam._heuristics import robust_scaling
from kexpfam.base_densities import GaussianProcessBase, StudentBase
from kexpfam.errors import MomentWarning


def _wave(n, rng, columns=1):
    X = rng.uniform(-1.0, 1.0, size=(n, columns))
    return X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=n)


def test_moments_are_kept_unless_few_rows_make_them():
    rng = np.random.default_rng(0)
    ones = np.ones(400)
    ordinary = np.column_stack(
        [
            rng.normal(size=400),
            rng.standard_t(3, size=400),
            rng.lognormal(size=400),
            np.where(rng.random(400) < 0.2, 5.0, 0.0) + 0.1 * rng.normal(size=400),
            np.where(rng.random(400) < 0.8, 0.0, rng.exponential(size=400)),
        ]
    )
    center, scale, far = robust_scaling(ordinary, ones)
    assert not far.any()
    np.testing.assert_allclose(center, ordinary.mean(axis=0))
    np.testing.assert_allclose(scale, ordinary.std(axis=0))
    ordinary[3] = 1e6
    assert robust_scaling(ordinary, ones)[2].tolist() == [True] * 4 + [False]


def test_copies_count_as_weights_do():
    rng = np.random.default_rng(1)
    y = rng.standard_cauchy((100, 1))
    counts = rng.integers(1, 4, size=100)
    weighted = robust_scaling(y, counts.astype(float))
    repeated = robust_scaling(np.repeat(y, counts, axis=0), np.ones(counts.sum()))
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one, other)


def test_a_density_of_cauchy_values_gains_by_more_rows():
    rng = np.random.default_rng(2)
    fresh = rng.standard_cauchy((2000, 1))
    truth = stats.cauchy.logpdf(fresh[:, 0])
    cost = {}
    for n in (100, 1000):
        model = KEF().fit(rng.standard_cauchy((n, 1)))
        cost[n] = np.mean(truth - model.score_samples(fresh))
    assert cost[1000] < cost[100]


@pytest.mark.slow
def test_an_average_around_cauchy_noise_gains_by_more_rows():
    rng = np.random.default_rng(3)

    def sample(n):
        X = rng.uniform(-1.0, 1.0, size=(n, 1))
        return X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_cauchy(n)

    X_new, y_new = sample(2000)
    truth = stats.cauchy.logpdf(y_new, np.sin(3.0 * X_new[:, 0]), 0.3)
    cost = {}
    for n in (100, 1000):
        model = AutoKCEF(random_state=0, n_jobs=1).fit(*sample(n))
        cost[n] = np.mean(truth - model.given(X_new).logpdf(y_new))
    assert cost[1000] < cost[100]


@pytest.mark.parametrize(
    "model", [KCEF(random_state=0), AutoKCEF(random_state=0, n_jobs=1)]
)
def test_what_has_no_mean_is_predicted_by_its_median_with_a_warning(model):
    rng = np.random.default_rng(9)
    X = rng.uniform(-1.0, 1.0, size=(150, 1))
    model.fit(X, 100.0 + X[:, 0] + rng.standard_cauchy(150))
    with pytest.warns(MomentWarning, match="at 2 of 2 rows of X"):
        found = model.predict([[-0.5], [0.5]])
    p = model.given([[-0.5], [0.5]])
    np.testing.assert_array_equal(found, p.median())
    assert np.abs(found - [99.5, 100.5]).max() < 1.0
    assert np.isnan(p.mean()).all()
    assert np.isinf(p.std()).all()
    frame = model.predict_frame([[-0.5], [0.5]])
    assert frame["mean"].isna().all()
    with pytest.raises(ValueError, match="of='median'"):
        model.effect(0, X[:20], of="mean")


@pytest.mark.parametrize(
    "noise", [stats.t(5), stats.lognorm(0.8)], ids=["t(5)", "lognormal"]
)
def test_means_and_deviations_of_tails_that_have_them_are_right(noise):
    rng = np.random.default_rng(10)
    X = rng.uniform(-1.0, 1.0, size=(600, 1))
    y = X[:, 0] + noise.rvs(600, random_state=rng)
    model = AutoKCEF(random_state=0, n_jobs=1).fit(X, y)
    at = np.array([[-0.5], [0.0], [0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", MomentWarning)
        found = model.predict(at)
    # Four standard errors of the mean of a third of the rows
    assert np.abs(found - at[:, 0] - noise.mean()).max() < 0.3 * noise.std()
    assert np.abs(model.given(at).std() / noise.std() - 1.0).max() < 0.25


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("base", [None, "gaussian_process"])
def test_one_x_far_out_does_not_blind_the_rest(columns, base):
    rng = np.random.default_rng(4)
    X, y = _wave(120, rng, columns)
    X_new, y_new = _wave(500, rng, columns)
    options = {"random_state": 0, "n_jobs": 1, "select": None}
    without = KCEF(base=base, **options).fit(X[1:], y[1:])
    X[0, 0] = 1e6
    model = KCEF(base=base, **options).fit(X, y)
    gap = without.score(X_new, y_new) - model.score(X_new, y_new)
    assert abs(gap) < 0.1  # to be blind costs about one
    # That it is far is still told.
    places = np.zeros((3, columns))
    places[:, 0] = 0.0, 1e3, 1e6
    near, between, far = model.reliability(places)
    assert near > 5.0
    assert between < 1e-3
    assert far < 2.0


@pytest.mark.slow
def test_one_x_far_out_does_not_blind_an_average():
    rng = np.random.default_rng(5)
    X, y = _wave(200, rng, 3)
    X_new, y_new = _wave(1000, rng, 3)
    without = AutoKCEF(random_state=0, n_jobs=1).fit(X[1:], y[1:])
    X[0, 1] = 1e6
    model = AutoKCEF(random_state=0, n_jobs=1).fit(X, y)
    assert abs(without.score(X_new, y_new) - model.score(X_new, y_new)) < 0.05


def test_one_y_far_out_does_not_move_a_regression():
    rng = np.random.default_rng(6)
    X, y = _wave(200, rng)
    grid = np.linspace(-0.9, 0.9, 7)[:, None]
    base = "gaussian_process"
    options = {"random_state": 0, "n_jobs": 1, "select": None}
    middle = KCEF(base=base, **options).fit(X[1:], y[1:]).predict_quantiles(grid, [0.5])
    y[0] = 1e6
    heavy = GaussianProcessBase(noise=StudentBase(scale=0.85, df=5.0))
    found = KCEF(base=heavy, **options).fit(X, y).predict_quantiles(grid, [0.5])
    assert np.abs(found - middle).max() < 0.15


def test_a_base_with_heavy_tails_is_centred_and_scaled_robustly():
    y = 100.0 + 5.0 * np.random.default_rng(7).standard_cauchy((500, 1))
    coordinates = KEF(base=StudentBase(scale=1.0, df=1.0)).fit(y).family_.coordinates
    assert abs(coordinates.y_center[0] - 100.0) < 2.0
    assert 5.0 < coordinates.y_scale[0] < 10.0


def test_models_of_far_values_are_the_same_after_a_file(tmp_path):
    rng = np.random.default_rng(8)
    X, y = _wave(60, rng, 2)
    X[0, 0], y[1] = 1e6, -1e6
    model = KCEF(select=None, random_state=0).fit(X, y)
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    np.testing.assert_array_equal(again.given(X).logpdf(y), model.given(X).logpdf(y))
