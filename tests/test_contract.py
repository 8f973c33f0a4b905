"""What every estimator of p(y|x) promises, whichever it is."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import kexpfam
from kexpfam import KCEF, AutoKCEF, FactorizedDensity
from kexpfam.baselines import (
    LSCDE,
    ConditionalKDE,
    ConditionalMeanEmbedding,
    ConditionalRNADE,
    GaussianProcessDensity,
    KernelQuantileRegression,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.baselines.quantile_density import QuantileDensity
from kexpfam.errors import DegenerateDataError, TableWarning

ESTIMATORS = {
    "KCEF": KCEF(random_state=0),
    "KCEF, untuned": KCEF(select=None, random_state=0),
    # Members fitted by likelihood take most of the time, and are densities like others.
    "AutoKCEF": AutoKCEF(likelihood=False, random_state=0),
    "LSCDE": LSCDE(random_state=0),
    "ConditionalKDE": ConditionalKDE(random_state=0),
    "KernelQuantileRegression": KernelQuantileRegression(random_state=0),
    "ConditionalMeanEmbedding": ConditionalMeanEmbedding(random_state=0),
    "GaussianProcessDensity": GaussianProcessDensity(random_state=0),
    "ConditionalRNADE": ConditionalRNADE(
        units=20, components=3, max_epochs=60, random_state=0
    ),
    "NGBoostDensity": NGBoostDensity(n_estimators=150, random_state=0),
    "QuantileForestDensity": QuantileForestDensity(
        n_estimators=50, min_samples_leaf=5, random_state=0
    ),
}
# These need a library that is not among those of the tests; `pip install
# "kexpfam[rivals]"` and run the tests to check them.
LIBRARIES = {"NGBoostDensity": "ngboost", "QuantileForestDensity": "quantile_forest"}
SMALL = {  # quick ones of the same kinds, for checks with many fits
    "LSCDE": LSCDE(width=0.5, regularization=0.1, random_state=0),
    "ConditionalKDE": ConditionalKDE(widths_x=0.5, widths_y=0.5),
    "KernelQuantileRegression": KernelQuantileRegression(
        lengthscale=1.0, regularization=0.1, least_scale=0.1
    ),
    "ConditionalMeanEmbedding": ConditionalMeanEmbedding(
        lengthscale=1.0, regularization=0.01, width=0.3
    ),
    "GaussianProcessDensity": GaussianProcessDensity(
        estimator=GaussianProcessRegressor(1.0 * RBF() + WhiteKernel(), optimizer=None)
    ),
}
SEVERAL_COLUMNS = {
    "KCEF, untuned",
    "LSCDE",
    "ConditionalKDE",
    "ConditionalMeanEmbedding",
}

LEVELS = np.array([0.05, 0.3, 0.5, 0.9])


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    y = 50 + 10 * np.sin(x[:, 0]) + 3 * rng.gamma(2.0, size=n)
    return x, y


@pytest.fixture(scope="module")
def rows():
    return skewed(80, 0)


@pytest.fixture(scope="module", params=ESTIMATORS, ids=list(ESTIMATORS))
def fitted(request, rows):
    if request.param in LIBRARIES:
        pytest.importorskip(LIBRARIES[request.param])
    return clone(ESTIMATORS[request.param]).fit(*rows)


CONDITIONS = np.array([[-1.0, 0.5], [0.0, 0.0], [1.5, -1.0]])


def expected_failures(estimator):
    needs_y = "score_samples(X, y) needs y, which these checks do not pass"
    failures = {
        "check_methods_sample_order_invariance": needs_y,
        "check_methods_subset_invariance": needs_y,
    }
    if isinstance(estimator, LSCDE):
        reason = (
            "its centres are random rows, and a row with a weight is one of them once"
        )
        for data in ("dense", "sparse"):
            failures[f"check_sample_weight_equivalence_on_{data}_data"] = reason
    return failures


@parametrize_with_checks(list(SMALL.values()), expected_failed_checks=expected_failures)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def nodes(p, least, most):
    """Points between two quantiles, dense where the mass is: tails may be long."""
    inside = p.ppf([max(least, 1e-4), min(most, 1 - 1e-4)])
    ends = p.ppf([least, most])
    tails = [np.geomspace(1.0, 1.0 + 1e6, 2001)[1:] - 1.0] * 2
    left, right = (
        1e-6 * tail * length
        for tail, length in zip(
            tails, (inside[0] - ends[0], ends[1] - inside[1]), strict=True
        )
    )
    middle = np.linspace(*inside, 20_001)
    found = np.concatenate([inside[0] - left[::-1], middle, inside[1] + right])
    if not isinstance(p, QuantileDensity):
        return found
    # Where this one jumps, both sides: the rule of trapezoids sees straight lines.
    jumps = p.ppf(KernelQuantileRegression().levels)
    jumps = jumps[(jumps > ends[0]) & (jumps < ends[1])]
    sides = [jumps * (1.0 + sign * 1e-13) for sign in (-1.0, 1.0)]
    return np.sort(np.concatenate([found, *sides]))


class TestDensity:
    def test_it_integrates_to_one_and_has_its_mean(self, fitted):
        p = fitted.given(CONDITIONS)
        for i in range(len(CONDITIONS)):
            y = nodes(p[i], 1e-9, 1 - 1e-9)
            pdf = p[i].pdf(y)
            assert integrate.trapezoid(pdf, y) == pytest.approx(1.0, abs=1e-5)
            mean = integrate.trapezoid(pdf * y, y)
            assert p[i].mean() == pytest.approx(mean, abs=1e-3 * p[i].std())

    def test_the_distribution_function_is_the_integral(self, fitted):
        p = fitted.given(CONDITIONS)[1]
        y = nodes(p, 1e-9, 0.8)
        below = integrate.trapezoid(p.pdf(y), y)
        assert p.cdf(y[-1]) == pytest.approx(below, abs=1e-5)
        assert p.cdf(y[-1]) + p.sf(y[-1]) == pytest.approx(1.0, abs=1e-12)

    def test_quantiles_invert_it(self, fitted):
        p = fitted.given(CONDITIONS)
        quantiles = p.quantile(LEVELS)
        np.testing.assert_allclose(p.cdf(quantiles), np.tile(LEVELS, (3, 1)), atol=1e-8)
        np.testing.assert_array_equal(quantiles, p.ppf(LEVELS[None]))

    def test_the_gradient_is_a_difference(self, fitted):
        p = fitted.given(CONDITIONS)
        y, h = p.median(), 1e-4
        expected = (p.logpdf(y + h) - p.logpdf(y - h)) / (2 * h)
        np.testing.assert_allclose(p.grad_logpdf(y), expected, atol=1e-4)

    def test_draws_follow_it(self, fitted):
        draws = fitted.sample(CONDITIONS, 1000, random_state=0)
        assert draws.shape == (3, 1000)
        p = fitted.given(CONDITIONS)
        for i in range(3):
            assert stats.kstest(draws[i], p[i].cdf).pvalue > 1e-3
        np.testing.assert_array_equal(
            draws, fitted.sample(CONDITIONS, 1000, random_state=0)
        )

    def test_regions_have_their_mass(self, fitted):
        p = fitted.given(CONDITIONS)
        low, high = p.interval(0.8).T
        np.testing.assert_allclose(p.cdf(high) - p.cdf(low), 0.8, atol=1e-8)
        for i in range(3):
            region = p[i].hpd(0.8)
            mass = sum(p[i].cdf(b) - p[i].cdf(a) for a, b in region)
            assert mass == pytest.approx(0.8, abs=1e-5)
            assert np.diff(region).sum() <= high[i] - low[i] + 1e-6

    def test_the_mode_is_highest(self, fitted):
        p = fitted.given(CONDITIONS)
        at_mode = p.pdf(p.mode())
        assert np.all(
            at_mode >= p.pdf(p.ppf(np.linspace(0.01, 0.99, 99)[None])).T - 1e-12
        )

    def test_one_density_is_a_row_of_many(self, fitted):
        p = fitted.given(CONDITIONS)
        assert len(p) == 3
        assert p[2].median() == pytest.approx(float(p.median()[2]), abs=1e-9)
        assert [one.mean() for one in p] == pytest.approx(p.mean().tolist(), abs=1e-9)
        assert np.all(p.support[:, 0] < p.support[:, 1])
        assert np.all(p.log_partition_error < 1e-4)

    def test_entropy_is_an_expectation(self, fitted):
        p = fitted.given(CONDITIONS)[0]
        y = nodes(p, 1e-10, 1 - 1e-10)
        log_p = p.logpdf(y)
        expected = -integrate.trapezoid(np.exp(log_p) * log_p, y)
        assert p.entropy() == pytest.approx(expected, abs=1e-4)


class TestEstimator:
    def test_predictions_are_those_of_the_densities(self, fitted):
        p = fitted.given(CONDITIONS)
        np.testing.assert_allclose(fitted.predict(CONDITIONS), p.mean())
        np.testing.assert_allclose(
            fitted.predict_quantiles(CONDITIONS, LEVELS), p.ppf(LEVELS[None])
        )
        np.testing.assert_allclose(
            fitted.predict_interval(CONDITIONS, 0.9), p.interval(0.9)
        )

    def test_scores_are_log_densities(self, fitted, rows):
        x, y = rows
        log_p = fitted.score_samples(x, y)
        assert log_p.shape == y.shape
        np.testing.assert_allclose(log_p, fitted.given(x).logpdf(y), rtol=1e-10)
        assert fitted.score(x, y) == pytest.approx(log_p.mean())

    def test_it_learns_more_than_a_normal_without_x(self, fitted):
        _, y = skewed(80, 0)
        x_new, y_new = skewed(500, 1)
        null = stats.norm.logpdf(y_new, y.mean(), y.std()).mean()
        assert fitted.score(x_new, y_new) > null + 0.2

    def test_new_units_shift_the_log_density(self, fitted, rows):
        x, y = rows
        # Transforms of y and x that are found by iteration end where rounding says.
        tolerance = 1e-3 if isinstance(fitted, AutoKCEF) else 1e-5
        other = clone(fitted).fit(1000 * x + 7, 0.01 * y - 3)
        np.testing.assert_allclose(
            other.score_samples(1000 * x + 7, 0.01 * y - 3),
            fitted.score_samples(x, y) + np.log(100),
            atol=tolerance,
        )

    def test_frames_are_the_same_as_arrays(self, fitted, rows):
        x, y = rows
        expected = fitted.score_samples(x, y)
        for frame in (
            pd.DataFrame(x, columns=["a", "b"]),
            pl.DataFrame(x, schema=["a", "b"]),
        ):
            model = clone(fitted).fit(frame, y)
            np.testing.assert_allclose(model.score_samples(frame, y), expected)
            assert list(model.feature_names_in_) == ["a", "b"]

    def test_seeds_reproduce(self, fitted, rows):
        again = clone(fitted).fit(*rows)
        np.testing.assert_array_equal(
            again.score_samples(*rows), fitted.score_samples(*rows)
        )

    def test_far_away_it_is_still_a_density(self, fitted):
        far = np.array([[1e3, -1e3]])
        y = fitted.predict_quantiles(far, [0.1, 0.5, 0.9])
        assert np.all(np.isfinite(y))
        assert np.all(np.isfinite(fitted.given(far).logpdf(y)))

    def test_how_many_rows_are_near_can_be_asked(self, fitted):
        near, far = fitted.reliability(np.array([[0.0, 0.0], [50.0, 50.0]]))
        assert near > 1 > far

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[np.nan, 0.0]], "NaN"),
            ([[1.0]], "features"),
            ([[1.0, 2.0, 3.0]], "features"),
        ],
    )
    def test_wrong_conditions_are_refused(self, fitted, X, message):
        if message == "NaN" and get_tags(fitted).input_tags.allow_nan:
            with pytest.warns(TableWarning, match="gaps in 1 of 1 rows"):
                assert np.isfinite(fitted.predict(X)).all()
            return
        with pytest.raises(ValueError, match=message):
            fitted.predict(X)

    def test_wrong_responses_are_refused(self, fitted, rows):
        with pytest.raises(ValueError, match="y must have 3 rows like X"):
            fitted.score_samples(CONDITIONS, rows[1])
        with pytest.raises(ValueError, match="NaN"):
            fitted.score_samples(CONDITIONS, [1.0, np.nan, 2.0])

    def test_a_constant_response_is_refused(self, fitted, rows):
        with pytest.raises(DegenerateDataError, match="constant"):
            clone(fitted).fit(rows[0], np.full(len(rows[0]), 3.0))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_it_works_in_pipelines_and_searches(name, rows):
    pipe = make_pipeline(StandardScaler(), clone(SMALL[name]))
    scores = cross_val_score(pipe, *rows, cv=3)
    assert np.all(np.isfinite(scores))


def test_weights_count_rows(rows):
    """LSCDE has its centres on random rows; kernel densities have them on all."""
    x, y = rows
    weights = np.repeat([1.0, 2.0], 40)
    weighted = ConditionalKDE().fit(x, y, sample_weight=weights)
    twice = np.concatenate([x, x[40:]]), np.concatenate([y, y[40:]])
    widths = {"widths_x": weighted.width_x_, "widths_y": weighted.width_y_}
    repeated = ConditionalKDE(**widths).fit(*twice)
    np.testing.assert_allclose(
        weighted.score_samples(x, y), repeated.score_samples(x, y), atol=1e-10
    )


@pytest.mark.parametrize("name", sorted(SEVERAL_COLUMNS))
def test_several_columns_of_y_have_one_density(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 1))
    y = np.column_stack([x[:, 0], -x[:, 0]]) + 0.5 * rng.normal(size=(80, 2))
    model = clone(ESTIMATORS[name]).fit(x, y)
    p = model.given([[0.5]])[0]
    a = np.linspace(-6, 6, 241)
    grid = np.stack(np.meshgrid(a, a, indexing="ij"), axis=-1)
    pdf = p.pdf(grid.reshape(-1, 2)).reshape(241, 241)
    mass = integrate.trapezoid(integrate.trapezoid(pdf, a), a)
    assert mass == pytest.approx(1.0, abs=1e-3)
    draws = model.sample([[0.5]], 4000, random_state=0)[0]
    assert draws.shape == (4000, 2)
    np.testing.assert_allclose(draws.mean(axis=0), p.mean(), atol=0.1)
    np.testing.assert_allclose(np.cov(draws.T), p.cov(), atol=0.15)
    assert np.all(p.pdf(p.mode()) >= pdf.max() - 1e-6)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_it_is_a_factor_of_a_joint_density(name, rows):
    x, y = rows
    table = np.column_stack([x, y])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FactorizedDensity(factor=clone(SMALL[name]), random_state=0).fit(table)
    assert np.all(np.isfinite(model.score_samples(table)))
    assert model.sample(5, random_state=0).shape == (5, 3)


def test_the_package_shows_what_a_user_may_call():
    shown = set(dir(kexpfam))
    assert shown == {*kexpfam.__all__, "__version__"}
    assert all(getattr(kexpfam, name) is not None for name in shown)
    assert not hasattr(kexpfam, "no_such_room")
