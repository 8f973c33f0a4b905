"""Estimators as regressors of skpro, judged by skpro's own checks."""

import warnings

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam import KCEF, AutoKCEF

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it says when it is imported is its own
    pytest.importorskip("skpro")
    import pandas as pd
    from skpro.metrics import CRPS, LogLoss
    from skpro.utils import check_estimator

    from kexpfam.bridges.skpro import KexpfamDistribution, SkproRegressor
from tests.tolerances import STANDARD_ERRORS

# skpro warns of what it approximates, and its checks of what they set aside.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(0)
    index = [f"row{k}" for k in range(60)]
    X = pd.DataFrame(rng.uniform(-1, 1, size=(60, 2)), index, ["a", "b"])
    y = np.sin(2 * X[["a"]].to_numpy()) + 0.3 * rng.normal(size=(60, 1))
    return X, pd.DataFrame(y, index, ["response"])


@pytest.fixture(scope="module")
def fitted(frames):
    return SkproRegressor(KCEF(select=None)).fit(*frames)


@pytest.mark.parametrize("kind", [SkproRegressor, KexpfamDistribution])
@pytest.mark.slow
def test_skpros_own_checks_pass(kind):
    results = check_estimator(kind, raise_exceptions=True, verbose=False)
    assert len(results) > 50
    assert set(results.values()) == {"PASSED"}


@pytest.mark.slow
def test_skpros_own_checks_pass_for_an_average():
    model = SkproRegressor(AutoKCEF(likelihood=False, random_state=0))
    names = ["test_input_output_contract", "test_fit_does_not_overwrite_hyper_params"]
    results = check_estimator(
        model, raise_exceptions=True, verbose=False, tests_to_run=names
    )
    assert len(results) >= 2


def test_a_broken_regressor_fails_skpros_checks():
    class Unlabelled(SkproRegressor):
        def _predict(self, X):
            return super()._predict(X).reset_index(drop=True)

    results = check_estimator(
        Unlabelled, verbose=False, tests_to_run="test_input_output_contract"
    )
    assert "PASSED" not in set(results.values())


def test_predictions_are_those_of_the_estimator(frames, fitted):
    X, y = frames
    p = KCEF(select=None).fit(X, y["response"]).given(X)
    found = fitted.predict_proba(X)
    np.testing.assert_allclose(fitted.predict(X)["response"], p.mean())
    np.testing.assert_allclose(found.var()["response"], p.var())
    np.testing.assert_allclose(found.log_pdf(y)["response"], p.logpdf(y["response"]))
    np.testing.assert_allclose(found.pdf(y)["response"], p.pdf(y["response"]))
    np.testing.assert_allclose(found.cdf(y)["response"], p.cdf(y["response"]))
    np.testing.assert_allclose(found.surv(y)["response"], p.sf(y["response"]))
    bounds = fitted.predict_interval(X, coverage=0.8)["response"][0.8]
    np.testing.assert_allclose(bounds, p.interval(0.8))
    levels = fitted.predict_quantiles(X, alpha=[0.1, 0.6])["response"]
    np.testing.assert_allclose(levels, p.ppf([[0.1, 0.6]]))


def test_rows_are_found_by_their_labels(frames, fitted):
    X, y = frames
    found = fitted.predict_proba(X)
    some = ["row7", "row3"]
    np.testing.assert_array_equal(
        found.loc[some].mean().to_numpy(), found.mean().loc[some].to_numpy()
    )
    # Points with labels in another order meet the densities of these labels.
    shuffled = y.iloc[::-1]
    np.testing.assert_array_equal(
        found.pdf(shuffled).loc[X.index].to_numpy(), found.pdf(y).to_numpy()
    )
    one = found.loc["row3", "response"]
    assert one.ndim == 0
    assert one.mean() == found.mean().loc["row3", "response"]
    assert found.iloc[2:5].shape == (3, 1)


def test_energies_are_those_of_quadrature(frames, fitted):
    X, y = frames
    found = fitted.predict_proba(X.iloc[:3])
    apart = found.energy(y.iloc[:3])["energy"].to_numpy()
    within = found.energy()["energy"].to_numpy()
    for k in range(3):
        p, x = found.density[k], float(y.iloc[k, 0])
        low, high = p.ppf([1e-13, 1 - 1e-13])

        def distance(t, p=p, x=x):
            return abs(t - x) * p.pdf(t)

        def spread(t, p=p):
            return 2 * p.cdf(t) * p.sf(t)

        slow, _ = integrate.quad(distance, low, high, points=[x], limit=300)
        assert apart[k] == pytest.approx(slow, rel=1e-6)
        slow, _ = integrate.quad(spread, low, high, limit=300)
        assert within[k] == pytest.approx(slow, rel=1e-6)


def test_the_norm_is_that_of_quadrature(frames, fitted):
    found = fitted.predict_proba(frames[0].iloc[:3])
    norms = found.pdfnorm()
    for k in range(3):
        p = found.density[k]
        t = np.linspace(*p.ppf([1e-13, 1 - 1e-13]), 4001)
        slow = integrate.trapezoid(p.pdf(t) ** 2, t)
        assert norms.iloc[k, 0] == pytest.approx(slow, rel=1e-6)
    assert found.iloc[0, 0].pdfnorm() == pytest.approx(norms.iloc[0, 0])
    first = found.iloc[:1]
    cubes = first.pdfnorm(a=3).iloc[0, 0]  # by skpro, the mean of p² at draws
    p = found.density[0]
    t = np.linspace(*p.ppf([1e-13, 1 - 1e-13]), 4001)
    third, fifth = (np.sum(p.pdf(t) ** k) * (t[1] - t[0]) for k in (3, 5))
    error = np.sqrt((fifth - third**2) / first.get_tag("approx_spl"))
    assert abs(cubes - third) < STANDARD_ERRORS * error


def test_skpros_metrics_are_ours(frames, fitted):
    from kexpfam.metrics import crps, log_loss

    X, y = frames
    found = fitted.predict_proba(X)
    assert LogLoss()(y, found) == pytest.approx(log_loss(found.density, y["response"]))
    assert CRPS()(y, found) == pytest.approx(crps(found.density, y["response"]))


def test_draws_have_the_distribution_and_follow_numpys_seed(frames, fitted):
    found = fitted.predict_proba(frames[0].iloc[:2])
    np.random.seed(5)  # noqa: NPY002 - how users of skpro repeat draws
    draws = found.sample(1000)
    np.random.seed(5)  # noqa: NPY002
    pd.testing.assert_frame_equal(draws, found.sample(1000))
    for k, label in enumerate(frames[0].index[:2]):
        own = draws.xs(label, level=1)["response"]
        assert stats.kstest(own, found.density[k].cdf).pvalue > 1e-4


@pytest.mark.slow
def test_it_takes_part_in_skpros_tuning(frames):
    from sklearn.model_selection import KFold
    from skpro.model_selection import GridSearchCV

    grid = {"estimator__regularization": [1e-3, 1e3]}
    search = GridSearchCV(
        SkproRegressor(KCEF(select=None)), KFold(2), grid, scoring=LogLoss()
    )
    search.fit(*frames)
    assert search.best_params_ == {"estimator__regularization": 1e-3}


def test_frames_with_numbers_as_names_are_taken(frames):
    X, y = frames
    bare = SkproRegressor(KCEF(select=None)).fit(X.to_numpy(), y.to_numpy())
    named = SkproRegressor(KCEF(select=None)).fit(X, y)
    np.testing.assert_array_equal(
        np.ravel(bare.predict(X.to_numpy())), named.predict(X)["response"]
    )
