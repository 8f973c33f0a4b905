"""Joint densities along graphs: sums of factors, special cases, draws, and errors."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity
from kexpfam.errors import DegenerateDataError, TableWarning

from .gaussians import LinearNormal, Normal, joint_of

FAST = KCEF(select=None)
FAST_ROOT = KEF(select=None)


@pytest.fixture(scope="module")
def curve():
    """A root, a curved child, and a grandchild with a variance that depends on it."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    b = np.sin(2 * a) + 0.3 * rng.normal(size=300)
    c = b + np.exp(0.5 * b) * 0.3 * rng.normal(size=300)
    return np.column_stack([a, b, c])


@pytest.fixture(scope="module")
def model(curve):
    return FactorizedDensity(factor=FAST, root=FAST_ROOT, random_state=0).fit(curve)


@parametrize_with_checks(
    [FactorizedDensity(factor=KCEF(select=None), root=KEF(select=None))]
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


class TestDensity:
    def test_the_joint_is_the_sum_of_its_factors(self, model, curve):
        expected = model.factors_[0].score_samples(curve[:, :1])
        expected = expected + model.factors_[1].score_samples(curve[:, :1], curve[:, 1])
        expected = expected + model.factors_[2].score_samples(curve[:, :2], curve[:, 2])
        np.testing.assert_allclose(model.score_samples(curve), expected, rtol=1e-13)
        parts = model.factor_log_densities(curve)
        assert parts.shape == (len(curve), 3)
        np.testing.assert_allclose(parts.sum(axis=1), expected, rtol=1e-13)
        assert model.score(curve) == pytest.approx(expected.mean(), rel=1e-13)

    def test_a_factor_is_the_estimator_fitted_alone(self, model, curve):
        alone = clone(model.factors_[2]).fit(curve[:, :2], curve[:, 2])
        np.testing.assert_allclose(
            model.factor_log_densities(curve)[:, 2],
            alone.score_samples(curve[:, :2], curve[:, 2]),
            rtol=1e-9,
        )

    def test_it_integrates_to_one_over_two_columns(self, curve):
        model = FactorizedDensity(factor=FAST, root=FAST_ROOT).fit(curve[:, :2])
        # The trapezoidal rule is spectrally accurate for smooth densities that vanish.
        a, b = np.linspace(-12, 12, 161), np.linspace(-9, 9, 241)
        grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
        p = np.exp(model.score_samples(grid)).reshape(len(a), len(b))
        mass = integrate.trapezoid(integrate.trapezoid(p, b), a)
        assert mass == pytest.approx(1.0, abs=1e-8)

    def test_one_node_is_its_density(self, curve):
        column = curve[:, :1]
        one = FactorizedDensity(root=KEF(random_state=0)).fit(column)
        alone = KEF(random_state=0).fit(column)
        np.testing.assert_array_equal(
            one.score_samples(column), alone.score_samples(column)
        )
        np.testing.assert_array_equal(
            one.sample(50, random_state=1), alone.sample(50, random_state=1)
        )

    def test_one_block_is_its_joint_density(self, curve):
        pair = curve[:100, :2]
        one = FactorizedDensity(graph={(0, 1): []}, root=FAST_ROOT).fit(pair)
        alone = KEF(select=None).fit(pair)
        np.testing.assert_array_equal(
            one.score_samples(pair), alone.score_samples(pair)
        )

    def test_independent_columns_have_products_of_marginals(self, curve):
        model = FactorizedDensity(graph="independent", root=FAST_ROOT).fit(curve)
        alone = [clone(FAST_ROOT).fit(curve[:, [i]]) for i in range(3)]
        expected = sum(m.score_samples(curve[:, [i]]) for i, m in enumerate(alone))
        np.testing.assert_allclose(model.score_samples(curve), expected, rtol=1e-12)

    def test_one_exogenous_column_makes_it_the_conditional_estimator(self, curve):
        pair = curve[:, :2]
        model = FactorizedDensity(exogenous=[0], factor=FAST).fit(pair)
        alone = clone(FAST).fit(pair[:, :1], pair[:, 1])
        np.testing.assert_array_equal(
            model.score_samples(pair), alone.score_samples(pair[:, :1], pair[:, 1])
        )

    def test_a_graph_of_all_kinds_of_input_is_the_same(self, curve):
        frame = pd.DataFrame(curve, columns=["a", "b", "c"])
        graphs = [
            {"a": [], "b": ["a"], "c": ["b"]},
            {0: [], 1: [0], 2: [1]},
            nx.DiGraph([("a", "b"), ("b", "c")]),
            "markov",
        ]
        scores = [
            FactorizedDensity(graph=g, factor=FAST, root=FAST_ROOT).fit(frame)
            for g in graphs
        ]
        first = scores[0].score_samples(frame)
        for other in scores[1:]:
            np.testing.assert_array_equal(other.score_samples(frame), first)

    def test_frames_are_the_same_as_arrays(self, model, curve):
        for frame in (
            pd.DataFrame(curve, columns=["a", "b", "c"]),
            pl.DataFrame(curve, schema=["a", "b", "c"]),
        ):
            other = FactorizedDensity(factor=FAST, root=FAST_ROOT, random_state=0)
            other.fit(frame)
            assert list(other.factors_) == ["a", "b", "c"]
            np.testing.assert_array_equal(
                other.score_samples(frame), model.score_samples(curve)
            )

    @pytest.mark.parametrize("names", [[1, 0, 7], [("x", 1), ("x", 2), ("y", 1)]])
    def test_names_that_are_no_texts_are_names_all_the_same(self, curve, names):
        frame = pd.DataFrame(dict(zip(names, curve.T, strict=True)))
        first, second, third = names
        graph = {third: [first], second: [], first: [second]}
        model = FactorizedDensity(graph=graph, factor=LinearNormal(), root=Normal())
        model.fit(frame)
        assert list(model.factors_) == [second, first, third]
        draws = model.sample(3, random_state=0, given={second: 50.0})
        np.testing.assert_array_equal(draws[:, 1], 50.0)
        found = model.score_samples(frame[[third, second, first]])
        np.testing.assert_array_equal(found, model.score_samples(frame))
        with pytest.raises(ValueError, match="pass the same columns"):
            model.score_samples(frame[[third, second]])

    def test_weights_reach_the_factors(self, curve):
        weights = np.where(curve[:, 0] > 0, 2.0, 1.0)
        repeated = np.concatenate([curve, curve[curve[:, 0] > 0]])
        args = {"factor": LinearNormal(), "root": FAST_ROOT}
        weighted = FactorizedDensity(**args).fit(curve, sample_weight=weights)
        plain = FactorizedDensity(**args).fit(repeated)
        np.testing.assert_allclose(
            weighted.score_samples(curve), plain.score_samples(curve), rtol=1e-8
        )


class TestFactors:
    def test_some_columns_may_have_factors_of_their_own(self, curve):
        model = FactorizedDensity(
            graph="markov",
            factor={1: LinearNormal(), 2: FAST},
            root=KernelDensity(bandwidth=0.3),
        ).fit(curve)
        kinds = [type(f).__name__ for f in model.factors_.values()]
        assert kinds == ["KernelDensity", "LinearNormal", "KCEF"]
        assert model.sample(7, random_state=0).shape == (7, 3)

    def test_densities_of_scikit_learn_are_roots(self, curve):
        model = FactorizedDensity(
            factor=LinearNormal(), root=GaussianMixture(2, random_state=0)
        ).fit(curve)
        draws = model.sample(2000, random_state=0)
        assert abs(draws[:, 0].mean() - curve[:, 0].mean()) < 0.1

    def test_an_estimator_of_a_conditional_can_be_a_root(self, curve):
        model = FactorizedDensity(root=AutoKCEF(random_state=0)).fit(curve[:60, :1])
        grid = np.linspace(-15, 15, 3001)
        p = np.exp(model.score_samples(grid[:, None]))
        assert integrate.trapezoid(p, grid) == pytest.approx(1.0, abs=1e-3)
        assert model.sample(5, random_state=0).shape == (5, 1)

    def test_the_estimators_given_are_not_fitted(self, curve):
        factor = KCEF(select=None)
        FactorizedDensity(factor=factor, root=FAST_ROOT).fit(curve[:50])
        assert not hasattr(factor, "family_")

    def test_seeds_are_given_to_factors_without_one(self, curve):
        factor = {1: KCEF(select=None, random_state=5), 2: KCEF(select=None)}
        models = [
            FactorizedDensity(factor=factor, root=FAST_ROOT, random_state=0).fit(curve)
            for _ in range(2)
        ]
        assert models[0].factors_[1].random_state == 5
        seeds = [model.factors_[2].random_state for model in models]
        assert seeds[0] == seeds[1] is not None

    @pytest.mark.slow
    def test_processes_fit_the_same_model(self, curve):
        serial, parallel = (
            FactorizedDensity(
                factor=FAST, root=FAST_ROOT, random_state=0, n_jobs=n_jobs
            ).fit(curve)
            for n_jobs in (1, 2)
        )
        np.testing.assert_allclose(
            serial.score_samples(curve), parallel.score_samples(curve), rtol=1e-12
        )

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_warnings_name_their_factor(self, curve, n_jobs):
        class Loud(LinearNormal):
            def fit(self, X, y):
                warnings.warn("too loud", RuntimeWarning, stacklevel=2)
                return super().fit(X, y)

        model = FactorizedDensity(
            graph="markov", factor={2: Loud(), 1: FAST}, root=FAST_ROOT, n_jobs=n_jobs
        )
        with pytest.warns(RuntimeWarning, match="Factor of '2': too loud"):
            model.fit(curve)

    def test_errors_name_their_factor(self, curve):
        class Broken(LinearNormal):
            def fit(self, X, y):
                raise RuntimeError("no")

        with pytest.raises(RuntimeError) as caught:
            FactorizedDensity(factor=Broken(), root=FAST_ROOT).fit(curve)
        assert "factor of '1'" in caught.value.__notes__[0]

    def test_a_constant_column_is_named(self, curve):
        frame = pd.DataFrame(curve, columns=["a", "b", "c"])
        frame["b"] = 3.0
        model = FactorizedDensity(factor=FAST, root=FAST_ROOT)
        with pytest.raises(DegenerateDataError, match="constant in column 'b'"):
            model.fit(frame)
        given = model.set_params(exogenous=["b"]).fit(frame)
        assert np.all(np.isfinite(given.score_samples(frame)))

    def test_rows_with_gaps_are_left_out_of_a_fit_and_infinity_is_named(self, curve):
        frame = pd.DataFrame(curve, columns=["a", "b", "c"])
        frame.loc[4, "c"] = np.nan
        model = FactorizedDensity(factor=LinearNormal(), root=Normal())
        with pytest.warns(TableWarning, match=r"gaps in 1 of .* were left out"):
            model.fit(frame)
        same = clone(model).fit(frame.dropna())
        whole = frame[:4]
        found, expected = model.score_samples(whole), same.score_samples(whole)
        np.testing.assert_array_equal(found, expected)
        frame.loc[4, "c"] = np.inf
        with pytest.raises(ValueError, match="infinity in column 'c', row 4"):
            FactorizedDensity().fit(frame)

    def test_factors_need_not_take_a_seed(self, curve):
        class Loose(LinearNormal):
            def sample(self, X, *rest, **named):
                return super().sample(X, *rest, **named)

        class Seedless(LinearNormal):
            def sample(self, X, n_samples=1):
                return super().sample(X, n_samples, 0)

        for factor in (Loose(), Seedless()):
            model = FactorizedDensity(factor=factor, root=Normal()).fit(curve)
            assert model.sample(4, random_state=0).shape == (4, 3)

    def test_wrong_answers_of_factors_are_named(self, curve):
        class WrongShape(LinearNormal):
            def score_samples(self, X, y):
                return super().score_samples(X, y)[:-1]

            def sample(self, X, n_samples=1, random_state=None):
                return np.zeros((len(X), 3))

        class NotANumber(LinearNormal):
            def score_samples(self, X, y):
                return np.full(len(X), np.nan)

        model = FactorizedDensity(factor=WrongShape(), root=Normal()).fit(curve)
        with pytest.raises(ValueError, match="score_samples of the factor of '1'"):
            model.score_samples(curve)
        with pytest.raises(ValueError, match="sample of the factor of '1', WrongShape"):
            model.sample(4)
        model = FactorizedDensity(factor=NotANumber(), root=Normal()).fit(curve)
        with pytest.raises(ValueError, match="NotANumber, returned NaN"):
            model.score(curve)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"factor": KEF()}, TypeError, "KEF, has a density p.y. that cannot"),
            ({"factor": object()}, TypeError, "object, has no method fit"),
            ({"root": "kef"}, TypeError, "str, has no method fit"),
            ({"factor": {"z": FAST}}, ValueError, "factor names column 'z'"),
            ({"factor": {(0, 1): FAST}}, ValueError, "no node of the graph"),
            ({"order": "best"}, ValueError, "order must be a list of columns"),
            ({"order": "greedy", "graph": {}}, ValueError, "is for graph='full'"),
            ({"order": "greedy", "factor": {1: FAST}}, ValueError, "needs one factor"),
        ],
    )
    def test_what_is_wrong_is_named(self, curve, arguments, error, message):
        with pytest.raises(error, match=message):
            FactorizedDensity(**arguments).fit(curve[:30])

    def test_a_factor_that_draws_in_its_own_way_takes_no_sampler(self, curve):
        model = FactorizedDensity(factor=LinearNormal(), root=Normal()).fit(curve)
        with pytest.raises(TypeError, match="draws in its own way only"):
            model.sample(3, sampler="inverse_cdf")


class TestSamples:
    def test_seeds_reproduce_and_differ(self, model):
        first, again, other = (model.sample(20, random_state=s) for s in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_no_draws_are_an_empty_table(self, model):
        assert model.sample(0, random_state=0).shape == (0, 3)

    def test_linear_normal_factors_give_the_moments_of_their_joint(self):
        rng = np.random.default_rng(0)
        mixing = rng.normal(size=(4, 4))
        table = rng.normal(size=(500, 4)) @ mixing
        model = FactorizedDensity(factor=LinearNormal(), root=Normal()).fit(table)
        draws = model.sample(20_000, random_state=0)
        mean, cov = joint_of(model)
        scale = np.sqrt(np.diag(cov))
        np.testing.assert_allclose((draws.mean(axis=0) - mean) / scale, 0, atol=0.03)
        found = np.cov(draws.T) / np.outer(scale, scale)
        np.testing.assert_allclose(found, cov / np.outer(scale, scale), atol=0.04)

    def test_marginals_and_correlations_are_those_of_the_truth(self):
        rng = np.random.default_rng(3)
        a = rng.normal(size=1000)
        b = 0.8 * a + 0.6 * rng.normal(size=1000)
        c = b + rng.choice([-1.0, 1.0], size=1000) + 0.5 * rng.normal(size=1000)
        model = FactorizedDensity(graph="markov", random_state=0)
        draws = model.fit(np.column_stack([a, b, c])).sample(4000, random_state=0)

        def two_normals(y):
            return stats.norm.cdf(y[:, None], [-1, 1], np.sqrt(1.25)).mean(axis=1)

        # As near as the rows of the fit themselves are, 99 times in 100.
        nearest = stats.kstwo(1000).ppf(0.99)
        for column, cdf in enumerate([stats.norm.cdf, stats.norm.cdf, two_normals]):
            assert stats.kstest(draws[:, column], cdf).statistic < nearest
        third = 0.8 / 1.5  # corr(a, c) = cov(a, b) / sd(c), and sd(c) = 1.5
        truth = np.array([[1, 0.8, third], [0.8, 1, 1 / 1.5], [third, 1 / 1.5, 1]])
        np.testing.assert_allclose(np.corrcoef(draws.T), truth, atol=0.06)

    @pytest.mark.slow
    def test_two_far_modes_keep_their_weights(self):
        rng = np.random.default_rng(0)
        a = rng.normal(size=600)
        b = np.where(rng.random(600) < 0.3, -4.0, 4.0) + rng.normal(size=600)
        factor = KCEF(fit_method="likelihood", random_state=0)
        model = FactorizedDensity(factor=factor, random_state=0)
        model.fit(np.column_stack([a, b]))
        draws = model.sample(4000, random_state=0)
        p = model.factors_[1].given(draws[:, :1])
        exact = float(np.mean(p.cdf(0.0)))
        low = float(np.mean(draws[:, 1] < 0))
        # Draws against the fitted density, and the fitted density against the truth.
        assert abs(low - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000)
        assert abs(exact - 0.3) < 0.06

    def test_exogenous_columns_are_given(self, curve):
        frame = pd.DataFrame(curve, columns=["a", "b", "c"])
        model = FactorizedDensity(exogenous=["a"], factor=FAST).fit(frame)
        with pytest.raises(ValueError, match="no value for the exogenous column 'a'"):
            model.sample(3)
        draws = model.sample(500, random_state=0, given={"a": 0.7})
        assert np.all(draws[:, 0] == 0.7)
        assert abs(draws[:, 1].mean() - np.sin(1.4)) < 0.15

    def test_draws_at_one_condition_are_those_of_one_density(self, curve):
        model = FactorizedDensity(exogenous=[0], factor=FAST).fit(curve[:, :2])
        draws = model.sample(2000, random_state=0, given={0: 0.4})
        p = model.factors_[1].given([[0.4]])[0]
        assert stats.kstest(draws[:, 1], p.cdf).pvalue > 0.01

    def test_blocks_are_drawn_together(self, curve):
        model = FactorizedDensity(
            graph={0: [], (1, 2): [0]}, factor=KCEF(select=None), root=FAST_ROOT
        ).fit(curve[:80])
        draws = model.sample(60, random_state=0)
        assert draws.shape == (60, 3)
        assert np.corrcoef(draws[:, 1:].T)[0, 1] > 0.6  # 0.9 in truth


class TestGains:
    def test_parents_gain_what_they_explain(self):
        rng = np.random.default_rng(0)
        a, other = rng.normal(size=(2, 400))
        b = 0.8 * a + 0.6 * rng.normal(size=400)
        table = np.column_stack([a, b, other])
        model = FactorizedDensity(
            graph={0: [], 1: [0], 2: [0]}, factor=LinearNormal(), root=Normal()
        ).fit(table)
        gains = model.held_out_gains(table)
        assert gains.labels == ("0", "1", "2")
        assert np.isnan(gains.gains[0])
        # Mutual information of normal variables, −½ log(1 − ρ²)
        assert abs(gains.gains[1] - -0.5 * np.log(1 - 0.64)) < 3 * gains.errors[1]
        assert abs(gains.gains[2]) < 3 * gains.errors[2] + 0.01
        assert gains.total == pytest.approx(gains.gains[1:].sum())
        assert "gained by its parents" in str(gains)

    def test_held_out_log_densities_are_of_rows_not_seen(self):
        rng = np.random.default_rng(0)
        table = rng.normal(size=(40, 2))
        model = FactorizedDensity(factor=LinearNormal(), root=Normal()).fit(table)
        gains = model.held_out_gains(table, cv=4, random_state=1)
        folds = np.array_split(np.random.default_rng(1).permutation(40), 4)
        conditional, marginal = np.empty(40), np.empty(40)
        for fold in folds:
            kept = np.setdiff1d(np.arange(40), fold)
            one = LinearNormal().fit(table[kept, :1], table[kept, 1])
            conditional[fold] = one.score_samples(table[fold, :1], table[fold, 1])
            other = Normal().fit(table[kept, 1:])
            marginal[fold] = other.score_samples(table[fold, 1:])
        assert gains.scores[1] == pytest.approx(conditional.mean(), rel=1e-12)
        assert gains.gains[1] == pytest.approx((conditional - marginal).mean())

    def test_the_graph_is_drawn_with_its_gains(self, curve):
        frame = pd.DataFrame(curve[:60], columns=["a", "b", "c"])
        model = FactorizedDensity(
            graph="markov", exogenous=["c"], factor=LinearNormal()
        ).fit(frame)
        gains = model.set_params(root=Normal()).held_out_gains(frame)
        ax = model.plot(gains)
        texts = " ".join(text.get_text() for text in ax.texts)
        assert all(name in texts for name in "abc")
        assert texts.count("nats") == 2  # c is a condition


def test_a_second_table_is_refused_and_the_way_is_said():
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 2))
    with pytest.raises(ValueError, match=r"shape \(20, 2\): fit takes one table"):
        FactorizedDensity().fit(X, Y)
