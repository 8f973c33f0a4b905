"""Averages over orders: shared factors, log densities, draws, evidence, files."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from kexpfam import KCEF, KEF, FactorizedDensity, load
from kexpfam.errors import FileFormatError
from kexpfam.graphs.orders import averaged_graphs, crossed_orders, distinct_nodes
from tests.persistence.files import parts_of, write

from .gaussians import LinearNormal, Normal, conditioned, joint_of

FAST = {"factor": KCEF(select=None), "root": KEF(select=None)}


class Shrunk(LinearNormal):
    """Slopes that are too small, so that normal joints differ from order to order."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_[1:] *= 0.6
        residuals = y - self.mean(X)
        self.coef_[0] += residuals.mean()
        self.scale_ = residuals.std()
        return self


class Counted(LinearNormal):
    """A factor that remembers what it was fitted to."""

    seen: list = []  # noqa: RUF012  (shared by clones on purpose)

    def fit(self, X, y, sample_weight=None):
        self.seen.append((X[0].tolist(), float(y[0])))
        return super().fit(X, y, sample_weight)


@pytest.fixture(scope="module")
def table():
    """Four columns that depend on each other."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    b = a**2 + 0.5 * rng.normal(size=300)
    c = a - b + 0.5 * rng.normal(size=300)
    return np.column_stack([a, b, c, b * c / 4 + rng.normal(size=300)])


@pytest.fixture(scope="module")
def model(table):
    return _normal(orders=4).fit(table)


def _normal(**parameters):
    return FactorizedDensity(
        factor=Shrunk(), root=Normal(), random_state=0, **parameters
    )


@pytest.fixture(scope="module")
def normals(table, model):
    """Mean and covariance of each order, fitted alone."""
    alone = [_normal(order=list(o.columns)).fit(table) for o in model.orders_]
    return [joint_of(one) for one in alone]


class TestOrders:
    @pytest.mark.parametrize("d", [1, 2, 3, 5, 11])
    @pytest.mark.parametrize("count", [1, 2, 5, 8])
    def test_they_are_different_permutations_and_the_given_one_is_first(self, d, count):
        columns = [3 * c for c in range(d)][::-1]
        orders = crossed_orders(columns, count, np.random.default_rng(1))
        every = min(count, special.factorial(d))
        assert len(orders) == len(set(map(tuple, orders))) == every
        assert orders[0] == columns
        assert all(sorted(order) == sorted(columns) for order in orders)

    @pytest.mark.parametrize(("count", "fits"), [(1, 1), (2, 2), (4, 2), (8, 4)])
    def test_eight_orders_have_the_factors_of_four(self, count, fits):
        rng = np.random.default_rng(0)
        graphs = averaged_graphs("full", range(11), None, None, count, rng)
        assert len(distinct_nodes(graphs)) <= 11 * fits

    def test_factors_with_the_same_parents_are_fitted_once(self, table):
        Counted.seen.clear()
        model = FactorizedDensity(factor=Counted(), root=Normal(), orders=24)
        model.fit(table)
        orders = itertools.permutations(range(4))
        assert {o.columns for o in model.orders_} == set(orders)
        # A column and a set of others that is not empty: 4 (2³ − 1).
        assert len(Counted.seen) == 28

    def test_the_first_order_is_the_model_of_one_order(self, table):
        one = FactorizedDensity(**FAST, random_state=3).fit(table[:40])
        several = FactorizedDensity(**FAST, orders=3, random_state=3).fit(table[:40])
        assert several.orders_[0].columns == (0, 1, 2, 3)
        np.testing.assert_array_equal(
            one.factor_log_densities(table), several.factor_log_densities(table)
        )

    def test_orders_follow_the_seed(self, table):
        found = [
            [
                o.columns
                for o in _normal(orders=5).set_params(random_state=s).fit(table).orders_
            ]
            for s in (0, 0, 1)
        ]
        assert found[0] == found[1] != found[2]

    def test_exogenous_columns_are_parents_of_all(self, table):
        model = _normal(orders=6, exogenous=[1]).fit(table)
        for order in model.orders_:
            assert sorted(order.columns) == [0, 2, 3]
            assert all(1 in node.parents for node in order.graph.nodes)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"graph": {0: [], 1: [0], 2: [], 3: []}}, "orders=2 is for graph='full'"),
            ({"graph": "independent"}, "got graph='independent'; leave orders=1"),
            ({"order": "greedy"}, "order='greedy' looks for one"),
            ({"orders": 0}, "orders must be"),
            ({"orders": 1.5}, "orders must be"),
        ],
    )
    def test_where_orders_make_no_sense_they_are_refused(
        self, table, parameters, message
    ):
        with pytest.raises(ValueError, match=message):
            _normal(**{"orders": 2, **parameters}).fit(table)


class TestDensity:
    @pytest.mark.parametrize("graph", ["full", "markov"])
    def test_it_is_the_mean_of_the_densities_of_its_orders(self, table, graph):
        model = _normal(orders=5, graph=graph).fit(table)
        alone = [
            _normal(graph=graph, order=list(o.columns)).fit(table).score_samples(table)
            for o in model.orders_
        ]
        assert np.ptp(alone, axis=0).max() > 0.1
        expected = special.logsumexp(alone, axis=0) - np.log(5)
        np.testing.assert_allclose(model.score_samples(table), expected, rtol=1e-10)

    def test_names_and_factors_of_some_columns_hold(self, table):
        frame = pd.DataFrame(table, columns=list("abcd"))
        factors = {name: LinearNormal() for name in "abd"} | {"c": Counted()}
        model = FactorizedDensity(factor=factors, root=Normal(), orders=4).fit(frame)
        assert set(model.orders_[1].columns) == set("abcd")
        kinds = {
            factor.node.label: type(factor.estimator)
            for order in model.orders_
            for factor in order.factors
        }
        assert kinds["c"] is Counted
        found = model.score_samples(frame[list("badc")])
        np.testing.assert_array_equal(found, model.score_samples(frame))


class TestDraws:
    def test_draws_have_the_moments_of_the_mixture(self, model, normals):
        draws = model.sample(40_000, random_state=0)
        mean = np.mean([m for m, _ in normals], axis=0)
        second = np.mean([c + np.outer(m, m) for m, c in normals], axis=0)
        cov = second - np.outer(mean, mean)
        std = np.sqrt(np.diag(cov))
        np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4 * std.max() / 200)
        np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.05 * std.max() ** 2)

    def test_evidence_that_all_orders_begin_with_chooses_among_them(
        self, model, normals
    ):
        # The four orders begin with columns 0 and 1, in one order or the other.
        known, values = [0, 1], [0.3, 2.5]
        parts = [conditioned(m, c, known, values) for m, c in normals]
        weights = _posterior(normals, known, values)
        expected = sum(w * m for w, (m, _) in zip(weights, parts, strict=True))
        draws = model.sample(
            20_000, random_state=0, given=dict(zip(known, values, strict=True))
        )
        np.testing.assert_array_equal(draws[:, :2], np.tile(values, (20_000, 1)))
        np.testing.assert_allclose(draws[:, 2:].mean(axis=0), expected, atol=0.05)
        per_draw = {0: np.full(3, 0.3), 1: np.array([2.5, 0.0, 1.0])}
        found = model.sample(3, random_state=0, given=per_draw)
        np.testing.assert_array_equal(found[:, 1], per_draw[1])

    def test_evidence_elsewhere_is_refused(self, model):
        with pytest.raises(ValueError, match=r"in one of 4 orders.*in exogenous"):
            model.sample(3, given={2: 0.0})


def _posterior(normals, known, values):
    """Weights of orders given evidence, from equal ones."""
    log_p = [
        stats.multivariate_normal(m[known], c[np.ix_(known, known)]).logpdf(values)
        for m, c in normals
    ]
    return special.softmax(log_p)


@pytest.mark.parametrize(
    ("known", "values"),
    [([2], [-1.0]), ([0, 3], [0.5, 1.0]), ([1, 2, 3], [2.0, -1, 0])],
)
class TestEvidence:
    def test_weighted_draws_are_those_of_the_mixture_given_evidence(
        self, model, normals, known, values
    ):
        found = model.conditional(dict(zip(known, values, strict=True)), 40_000, 0)
        parts = [conditioned(m, c, known, values) for m, c in normals]
        weights = _posterior(normals, known, values)
        rest = [i for i in range(4) if i not in known]
        expected = sum(w * m for w, (m, _) in zip(weights, parts, strict=True))
        np.testing.assert_allclose(found.mean()[rest], expected, atol=0.06)
        log_p = [
            stats.multivariate_normal(m[known], c[np.ix_(known, known)]).logpdf(values)
            for m, c in normals
        ]
        truth = special.logsumexp(log_p) - np.log(4)
        assert abs(found.log_evidence - truth) < 4 * found.log_evidence_error + 1e-9

    def test_missing_entries_are_drawn_from_the_mixture_given_the_rest(
        self, model, normals, known, values
    ):
        row = np.full((1, 4), np.nan)
        row[0, known] = values
        rows = np.repeat(row, 400, axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = model.imputation(rows, random_state=0, population=200)
        rest = [i for i in range(4) if i not in known]
        parts = [conditioned(m, c, known, values) for m, c in normals]
        weights = _posterior(normals, known, values)
        expected = sum(w * m for w, (m, _) in zip(weights, parts, strict=True))
        spread = np.sqrt(max(np.diag(c).max() for _, c in parts))
        np.testing.assert_allclose(
            done.draws[0][:, rest].mean(axis=0), expected, atol=5 * spread / 20
        )


def test_the_stated_error_of_the_evidence_is_its_spread(model):
    found = [model.conditional({2: -1.0}, 400, seed) for seed in range(30)]
    spread = np.std([f.log_evidence for f in found])
    stated = np.mean([f.log_evidence_error for f in found])
    assert 0.65 < spread / stated < 1.5


def test_fewer_draws_than_orders_are_no_problem(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.conditional({2: -1.0}, 2, 0)
    assert found.draws.shape == (2, 4)
    assert np.isfinite(found.log_evidence)


@pytest.fixture(scope="module")
def average(table):
    frame = pd.DataFrame(table[:50, :3], columns=list("abc"))
    return FactorizedDensity(**FAST, orders=4, random_state=0).fit(frame)


class TestFiles:
    def test_a_loaded_average_answers_as_before(self, average, table, tmp_path):
        frame = pd.DataFrame(table[:9, :3], columns=list("abc"))
        average.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert [o.columns for o in loaded.orders_] == [
            o.columns for o in average.orders_
        ]
        np.testing.assert_array_equal(
            loaded.score_samples(frame), average.score_samples(frame)
        )
        draws = [m.sample(4, random_state=0) for m in (loaded, average)]
        np.testing.assert_array_equal(*draws)
        again = loaded.set_params(factor=LinearNormal(), root=Normal()).fit(frame)
        assert len(again.orders_) == 4

    def test_factors_that_are_shared_are_written_once(self, average, tmp_path):
        average.save(tmp_path / "model")
        _, description = parts_of(tmp_path / "model")
        count = len(distinct_nodes(o.graph for o in average.orders_))
        assert len(description["factors"]) == count < 4 * 3

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("weights", [0.5, 0.5, 0.5, 0.5]),
            ("weights", [1.0, 0.0, 0.0, 0.0]),
            ("graph", "independent"),
            ("orders", [[0, 1, 2]]),
            ("orders", [[0, 1, 99]] * 4),
            ("orders", [[0, 1]] * 4),
        ],
    )
    def test_a_wrong_structure_is_refused(self, average, tmp_path, key, value):
        average.save(tmp_path / "model")
        arrays, description = parts_of(tmp_path / "model")
        description["structure"][key] = value
        write(tmp_path / "model", arrays, description)
        with pytest.raises(FileFormatError):
            load(tmp_path / "model")

    @pytest.mark.parametrize(
        "parameters", [{"order": [2, 0, 1]}, {"exogenous": [2]}], ids=str
    )
    def test_parents_keep_their_order_in_files(self, table, tmp_path, parameters):
        rows = table[:50, :3] * [1.0, 5.0, 0.2]
        model = FactorizedDensity(**FAST, **parameters, random_state=0).fit(rows)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(
            load(tmp_path / "model").score_samples(rows), model.score_samples(rows)
        )
