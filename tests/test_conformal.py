"""Split-conformal sets cover as often as they say, whatever the estimator."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.conformal import ConformalDensity, conformal_quantile
from kexpfam.distributions import MixtureDensity
from kexpfam.kernels import Gaussian
from tests.densities import closed_form


class Fixed(BaseEstimator):
    """A normal density at the first column of x, of a width that it does not learn."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def given(self, X):
        return closed_form(np.asarray(X)[:, 0], self.scale)


class TwoSided(Fixed):
    """Two normal densities, left and right of x."""

    def given(self, X):
        centers = np.asarray(X)[:, 0]
        parts = [closed_form(centers + shift, 0.5) for shift in (-2.0, 2.0)]
        return MixtureDensity(parts, [0.5, 0.5])


class Bare:
    """Distribution functions and quantiles, nothing else."""

    def __init__(self, X):
        self._normal = stats.norm(np.asarray(X)[:, :1], 1.0)
        self.support = np.tile([-np.inf, np.inf], (len(X), 1))

    def __len__(self):
        return len(self.support)

    def cdf(self, y):
        return self._normal.cdf(y)

    def ppf(self, q):
        return self._normal.ppf(q)


class FixedBare(Fixed):
    def given(self, X):
        return Bare(X)


def rows(rng, n):
    """Rows whose noise is skewed, wider than 1, and wider for larger x."""
    x = rng.uniform(0.0, 1.0, size=(n, 1))
    return x, x[:, 0] + (1.0 + x[:, 0]) * (rng.exponential(size=n) - 0.7)


def inside(sets, y):
    pairs = zip(sets, y, strict=True)
    return [np.any((s[:, 0] <= v) & (v <= s[:, 1])) for s, v in pairs]


def mean_coverage(estimator, kind, *, level, n, repetitions, fresh):
    """Coverage over calibration sets and fresh rows, and its standard error."""
    found = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        model = ConformalDensity(estimator, prefit=True).fit(*rows(rng, n))
        x, y = rows(rng, fresh)
        if kind == "interval":
            sets = model.predict_interval(x, level)[:, None]
        else:
            sets = model.predict_hpd(x, level)
        found.append(np.mean(inside(sets, y)))
    return np.mean(found), np.std(found) / np.sqrt(repetitions)


@pytest.mark.parametrize(("level", "n"), [(0.8, 19), (0.9, 40)])
def test_intervals_of_a_wrong_density_cover_exactly_as_often_as_they_say(level, n):
    estimator = Fixed(0.8).fit(*rows(np.random.default_rng(0), 5))
    found, error = mean_coverage(
        estimator, "interval", level=level, n=n, repetitions=120, fresh=200
    )
    # Three standard errors; the seeds are fixed.
    assert level - 3 * error < found < level + 1 / (n + 1) + 3 * error
    assert error < 0.01


def test_regions_of_a_wrong_density_cover_exactly_as_often_as_they_say():
    level, n = 0.8, 24
    estimator = Fixed(0.8).fit(*rows(np.random.default_rng(0), 5))
    found, error = mean_coverage(
        estimator, "hpd", level=level, n=n, repetitions=120, fresh=40
    )
    assert level - 3 * error < found < level + 1 / (n + 1) + 3 * error
    assert error < 0.01


def test_without_calibration_the_wrong_density_covers_too_rarely():
    x, y = rows(np.random.default_rng(1), 4000)
    wrong = Fixed(0.8).given(x).interval(0.9)
    assert np.mean(inside(wrong[:, None], y)) < 0.8


def test_a_set_holds_y_if_and_only_if_its_score_is_not_above_the_confidence():
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(140, 1))
    y = x[:, 0] + rng.choice([-2.0, 2.0], 140) + 0.7 * rng.normal(size=140)
    model = ConformalDensity(TwoSided().fit(x, y), prefit=True).fit(x[80:], y[80:])
    x, y = x[:80], y[:80]
    p = model.given(x)
    confidence = model.interval_confidence(0.7)
    expected = np.abs(2 * p.cdf(y) - 1) <= confidence
    np.testing.assert_array_equal(
        inside(model.predict_interval(x, 0.7)[:, None], y), expected
    )
    # P(p(Y) ≥ p(y)) by draws, away from the edge by more than their noise.
    draws = p.rvs(20_000, random_state=0)
    mass = np.mean(p.pdf(draws) >= p.pdf(y)[:, None], axis=1)
    confidence = model.hpd_confidence(0.7)
    clear = np.abs(mass - confidence) > 0.02
    regions = model.predict_hpd(x, 0.7)
    assert clear.sum() > 60
    assert max(map(len, regions)) == 2
    np.testing.assert_array_equal(
        np.array(inside(regions, y))[clear], (mass <= confidence)[clear]
    )


def test_sets_of_the_right_density_are_nearly_its_own():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 1))
    y = x[:, 0] + rng.normal(size=4000)
    model = ConformalDensity(Fixed().fit(x, y), prefit=True).fit(x, y)
    # Standard error of a quantile of 4000 uniform scores: sqrt(.9 · .1 / 4000) < 0.005.
    assert model.interval_confidence(0.9) == pytest.approx(0.9, abs=0.02)
    assert model.hpd_confidence(0.9) == pytest.approx(0.9, abs=0.02)


def test_too_few_rows_are_refused_with_the_number_that_is_needed():
    rng = np.random.default_rng(4)
    model = ConformalDensity(Fixed().fit(*rows(rng, 3)), prefit=True)
    model.fit(*rows(rng, 8))
    with pytest.raises(ValueError, match=r"at least 9 calibration rows, and .* 8"):
        model.predict_interval([[0.0]], 0.9)
    model.fit(*rows(rng, 9))
    assert np.all(np.isfinite(model.predict_interval([[0.0]], 0.9)))


def test_sets_leave_nothing_out_where_only_that_is_sure_to_cover():
    x, y = np.zeros((9, 1)), np.append(np.zeros(8), 1e6)
    model = ConformalDensity(Fixed().fit(x, y), prefit=True).fit(x, y)
    np.testing.assert_array_equal(
        model.predict_interval(x[:2], 0.9), np.tile([-np.inf, np.inf], (2, 1))
    )
    np.testing.assert_array_equal(
        model.predict_hpd(x[:2], 0.9), np.tile([-np.inf, np.inf], (2, 1, 1))
    )


def test_intervals_need_no_more_than_cdf_and_ppf():
    rng = np.random.default_rng(5)
    x, y = rows(rng, 50)
    model = ConformalDensity(FixedBare(), random_state=0).fit(x, y)
    assert model.predict_interval(x, 0.8).shape == (50, 2)
    with pytest.raises(ValueError, match="FixedBare gives densities without hpd"):
        model.predict_hpd(x, 0.8)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan")])
def test_coverage_is_a_probability(level):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        conformal_quantile(np.arange(5.0), level)


def test_ranks_are_those_of_the_formula():
    scores = np.arange(1.0, 100.0)  # the k-th smallest is k, and n + 1 is 100
    for percent in range(1, 100):
        assert conformal_quantile(scores, percent / 100) == percent


def test_the_split_is_of_the_share_and_repeats_with_its_seed():
    x, y = rows(np.random.default_rng(6), 80)
    first, again, other = (
        ConformalDensity(Fixed(), calibration_share=0.4, random_state=seed).fit(x, y)
        for seed in (0, 0, 1)
    )
    assert len(first.interval_scores_) == 32
    np.testing.assert_array_equal(first.interval_scores_, again.interval_scores_)
    assert not np.array_equal(first.interval_scores_, other.interval_scores_)


def test_wrong_options_are_named():
    x, y = rows(np.random.default_rng(7), 20)
    with pytest.raises(ValueError, match=r"calibration_share must .* got 1\.5"):
        ConformalDensity(Fixed(), calibration_share=1.5).fit(x, y)
    with pytest.raises(ValueError, match="prefit=True needs an estimator"):
        ConformalDensity(prefit=True).fit(x, y)


def test_a_frozen_estimator_survives_a_clone():
    x, y = rows(np.random.default_rng(9), 60)
    model = ConformalDensity(FrozenEstimator(Fixed(0.8).fit(x, y)), prefit=True)
    found = clone(model).fit(x[30:], y[30:]).predict_interval(x[:5], 0.8)
    np.testing.assert_array_equal(
        found, model.fit(x[30:], y[30:]).predict_interval(x[:5], 0.8)
    )


def test_parameters_reach_the_estimator_and_fit_leaves_it_alone():
    model = ConformalDensity(Fixed(0.5), calibration_share=0.3)
    twin = clone(model).set_params(estimator__scale=2.0)
    assert twin.estimator.scale == 2.0
    assert model.estimator.scale == 0.5
    twin.fit(*rows(np.random.default_rng(8), 30))
    assert not hasattr(twin.estimator, "n_features_in_")


# Some checks have isolated components, which this kernel does not see.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
@parametrize_with_checks(
    [
        ConformalDensity(
            KCEF(
                select=None,
                kernel_x=Gaussian(1.0),
                kernel_y=Gaussian(1.0),
                base=GaussianBase(2.0),
                regularization=1.0,
            ),
            random_state=0,
        )
    ]
)
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)
