"""What is lost without columns, against laws of which that is known."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, optimize, stats

from kexpfam import KCEF
from kexpfam.distributions import MixedDensity
from kexpfam.errors import MissingDependencyError
from kexpfam.explanation import ModelColumns
from kexpfam.explanation.averaged_laws import AveragedLaws
from kexpfam.explanation.importance import importance
from kexpfam.metrics.scores import crps_values
from tests.explanation.laws import gaussian, houses, linear


def of_each_kind(n, seed=0):
    """x0 moves the mean, x1 the spread, x2 nothing; x3 is a copy of x0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = X[:, 0] + 0.02 * rng.normal(size=n)
    y = X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.normal(size=n)
    model = gaussian(
        lambda Z: 0.5 * (Z[:, 0] + Z[:, 3]), lambda Z: np.exp(0.5 * Z[:, 1]), 4
    )
    return model, X, y


def wider_without_the_mean():
    """Mean of how much wider N(0, 1 + s²) is than N(0, s²), log s being N(0, 1/4)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    s, weights = np.exp(0.5 * nodes), weights / weights.sum()
    return 2 * stats.norm.ppf(0.95) * (weights @ (np.sqrt(1 + s**2) - s))


def wider_of_mixture():
    """How much wider the mixture of N(0, s²) over s is than these are on average."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    s, weights = np.exp(0.5 * nodes), weights / weights.sum()
    end = optimize.brentq(lambda t: weights @ stats.norm.cdf(t / s) - 0.95, 0, 20)
    return 2 * (end - stats.norm.ppf(0.95) * (weights @ s))


def test_scores_of_averaged_laws_are_those_of_loops_and_quadrature():
    rng = np.random.default_rng(0)
    model = gaussian(lambda Z: 3 * Z[:, 0], lambda Z: np.exp(Z[:, 1]), 2)
    Z, Y = 0.5 * rng.normal(size=(6, 2)), rng.normal(size=6)
    moved = 0.5 * rng.normal(size=(5, 6, 2))
    found = AveragedLaws.of(model, Z, Y).losses(moved)
    for i in range(6):
        laws = [stats.norm(3 * a, np.exp(b)) for a, b in moved[:, i]]
        log_loss = -np.log(np.mean([law.pdf(Y[i]) for law in laws]))
        assert found["log_density"][i] == pytest.approx(log_loss, rel=1e-10)

        def cdf(t, laws=laws):
            return np.mean([law.cdf(t) for law in laws])

        below = integrate.quad(lambda t: cdf(t) ** 2, -40, Y[i], limit=200)[0]
        above = integrate.quad(lambda t: (1 - cdf(t)) ** 2, Y[i], 40, limit=200)[0]
        assert found["crps"][i] == pytest.approx(below + above, rel=5e-3)
        low, high = (
            optimize.brentq(lambda t, a=a: cdf(t) - a, -40, 40) for a in (0.05, 0.95)
        )
        assert found["width"][i] == pytest.approx(high - low, rel=5e-3)


def test_scores_of_one_law_are_those_of_the_metrics():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (120, 1))
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.gamma(2.0, size=120)
    model = KCEF(select=None).fit(x, y)
    found = AveragedLaws.of(model._columns(), x, y).losses(x[None])
    p = model.given(x)
    np.testing.assert_allclose(found["log_density"], -p.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(found["crps"], crps_values(p, y), rtol=5e-3)
    widths = np.diff(p.interval(0.9))[:, 0]
    np.testing.assert_allclose(found["width"], widths, rtol=5e-3)


def test_laws_with_atoms_are_scored_exactly_at_their_steps():
    shares = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])

    def densities(Z):
        return MixedDensity([0.0, 1.0, 4.0], shares[Z[:, 0].astype(int)])

    model = ModelColumns.of(["a"], None, np.asarray, densities)
    Z, Y = np.array([[0.0], [1.0], [0.0]]), np.array([1.0, 4.0, 0.0])
    found = AveragedLaws.of(model, Z, Y).losses(np.stack([Z, Z[::-1]]))
    for i in range(3):
        mean = 0.5 * (shares[int(Z[i, 0])] + shares[int(Z[2 - i, 0])])
        observed = mean[[0.0, 1.0, 4.0].index(Y[i])]
        assert found["log_density"][i] == pytest.approx(-np.log(observed))
        F = np.cumsum(mean)
        step = [(F[0] - (Y[i] <= 0)) ** 2, 3 * (F[1] - (Y[i] <= 1)) ** 2]
        assert found["crps"][i] == pytest.approx(sum(step), rel=1e-6)


@pytest.mark.parametrize("slope", [0.3, 1.0, 2.0])
def test_log_density_lost_is_the_information_of_a_gaussian(slope):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X @ [slope, 0.0] + rng.normal(size=2000)
    found = importance(
        linear([slope, 0.0]), X, y, n_repeats=60, max_rows=400, random_state=0
    )
    information = 0.5 * np.log1p(slope**2)
    for kind in ("conditional", "marginal"):
        lost = found.loss("x0", kind=kind)
        assert abs(lost.value - information) < 4 * lost.standard_error
        assert found.loss("x1", kind=kind).value == pytest.approx(0.0, abs=1e-9)
    # Without x0 the law is N(0, 1 + slope²).
    wider = 2 * stats.norm.ppf(0.95) * (np.sqrt(1 + slope**2) - 1)
    width = found.loss("x0", "width", "marginal")
    assert width.value == pytest.approx(wider, rel=0.03)


def test_conditional_losses_are_of_what_other_columns_do_not_tell():
    rng, rho = np.random.default_rng(0), 0.8
    X = rng.normal(size=(4000, 2))
    X[:, 1] = rho * X[:, 0] + np.sqrt(1 - rho**2) * X[:, 1]
    y = 2 * X[:, 0] + rng.normal(size=4000)
    how = {"groups": None, "n_repeats": 30, "max_rows": 800, "random_state": 0}
    found = importance(linear([2.0, 0.0]), X, y, **how)
    expected = 0.5 * np.log1p(4 * (1 - rho**2))
    lost = found.loss("x0")
    # Leaves of ten rows are not of one value, so that a little more is lost.
    assert expected - 3 * lost.standard_error < lost.value < 1.35 * expected
    assert found.loss("x0", kind="marginal").value > 1.5 * lost.value


def test_means_spreads_noise_and_copies_are_told_apart():
    model, X, y = of_each_kind(1500)
    found = importance(model, X, y, n_repeats=30, max_rows=500, random_state=0)
    assert found.names == ("x0 + x3", "x1", "x2")
    assert found.columns == (("x0", "x3"), ("x1",), ("x2",))
    assert found.loss("x3") is found.loss("x0")
    for name, wider in (("x0", wider_without_the_mean()), ("x1", wider_of_mixture())):
        lost = found.loss(name, "width")
        assert abs(lost.value - wider) < 4 * lost.standard_error, name
    for name in ("x0", "x1"):
        for score in ("log_density", "crps"):
            lost = found.loss(name, score)
            assert lost.value > 4 * lost.standard_error, (name, score)
    for score in ("log_density", "crps", "width"):
        assert found.loss("x2", score).value == pytest.approx(0.0, abs=1e-9)


def test_a_copy_is_worth_nothing_beside_the_other_and_much_by_itself():
    model, X, y = of_each_kind(1500)
    found = importance(model, X, y, groups=None, max_rows=600, random_state=0)
    assert set(found.names) == {"x0", "x1", "x2", "x3"}
    assert abs(found.loss("x0").value) < 0.02
    assert found.loss("x0", kind="marginal").value > 0.1


def test_standard_errors_are_those_of_other_rows_and_exchanges():
    values, errors = [], []
    for seed in range(20):
        model, X, y = of_each_kind(300, seed)
        how = {"n_repeats": 4, "max_rows": 100, "random_state": seed}
        lost = importance(model, X, y, **how).loss("x1")
        values.append(lost.value)
        errors.append(lost.standard_error)
    # 20 draws know a standard deviation to about 16 %.
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.4)


def test_exchanges_equal_those_of_loops():
    model, X, y = of_each_kind(40)
    seen = []

    def densities(Z):
        seen.append(Z.copy())
        return model.densities(Z)

    watched = ModelColumns.of(model.names, None, np.asarray, densities)
    importance(watched, X, y, groups=None, n_repeats=3, max_rows=40, random_state=0)
    rows = {row.tobytes() for row in X}
    moved = [Z for Z in seen if not rows & {row.tobytes() for row in Z}]
    assert len(moved) == 8  # four columns, two kinds; one call for each
    for k, Z in enumerate(moved):
        column, others = k // 2, np.arange(4) != k // 2
        # Three of each row, or fewer if an exchange came again, which is asked once.
        assert len(np.unique(Z, axis=0)) == len(Z) <= 120
        same = (Z[:, None, others] == X[:, others]).all(axis=2)
        assert np.all(same.sum(axis=1) == 1)
        assert np.all(same.sum(axis=0) <= 3)
        own = X[same.argmax(axis=1), column]
        assert np.isin(Z[:, column], X[:, column]).all()
        assert not np.any(Z[:, column] == own)


def test_groups_may_be_told():
    model, X, y = of_each_kind(200)
    told = {"both": ["x0", "x1"]}
    found = importance(model, X, y, groups=told, n_repeats=2, random_state=0)
    assert set(found.names) == {"both", "x2", "x3"}
    assert found.columns[found.names.index("both")] == ("x0", "x1")


def test_the_same_seed_gives_the_same_numbers_and_weights_count_by_ratio():
    model, X, y = of_each_kind(150)
    how = {"n_repeats": 2, "max_rows": 60}
    first = importance(model, X, y, random_state=3, **how)
    again = importance(
        model, X, y, random_state=3, sample_weight=np.full(150, 7.0), **how
    )
    for name, values in first.table().items():
        np.testing.assert_allclose(again.table()[name], values, rtol=1e-10)


def test_tables_count_the_users_columns(house_model):
    X, y = houses(300, seed=1)
    how = {"n_repeats": 4, "max_rows": 120, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = house_model.importance(X, y, **how)
    assert set(found.names) == {"area + rooms", "city", "sold", "garden"}
    assert found.names[:2] == ("area + rooms", "city")
    for name in ("sold", "garden"):
        assert abs(found.loss(name).value) < 0.05
    named = house_model.importance(X.assign(price=y), "price", **how)
    assert named.loss("city") == found.loss("city")


def test_several_columns_of_y_have_log_densities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = np.column_stack([X[:, 0] + 0.3 * rng.normal(size=40), rng.normal(size=40)])
    model = KCEF(select=None).fit(X, Y)
    found = model.importance(X, Y, n_repeats=1, max_rows=4, random_state=0)
    assert list(found.scores) == ["log_density"]
    assert "CRPS" not in str(found)


def test_it_reads_well():
    model, X, y = of_each_kind(200)
    found = importance(model, X, y, n_repeats=3, max_rows=50, random_state=0)
    lines = str(found).splitlines()
    assert lines[0].startswith("Without a column, of 50 rows (3 exchanges; with all: ")
    assert lines[1].split("  ")[-1] == "(marginal)"
    assert lines[2].startswith("x0 + x3  ")
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == list(found.names)
    crps = found.loss("x1", "crps", "marginal")
    assert frame.loc["x1", "crps_marginal"] == crps.value
    assert frame.loc["x1", "crps_marginal_se"] > 0


def test_without_pandas_the_table_is_there(monkeypatch):
    import sys

    model, X, y = of_each_kind(60)
    found = importance(model, X, y, n_repeats=2, random_state=0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pandas is needed to make a"):
        found.to_frame()
    assert len(found.table()["width_marginal"]) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": "some"}, "groups must be 'auto', None, or names of columns"),
        ({"groups": {"a": ["x9"]}}, "no column 'x9'"),
        ({"groups": {"a": ["x0"], "b": ["x0"]}}, "'x0' twice"),
        ({"groups": {"a": []}}, "a group without columns"),
        ({"groups": {"x1": ["x0"]}}, "called like columns outside of them, got 'x1'"),
        ({"n_repeats": 0}, "n_repeats must be a whole number from 1 on"),
        ({"max_rows": 0.5}, "max_rows must be a whole number from 1 on"),
        ({"y": np.zeros(3)}, "y must have 30 rows like X, got 3"),
        ({"y": np.full(30, np.nan)}, "y contains NaN"),
        ({"y": "price"}, "'price' names a column, and X is no frame"),
        ({"X": np.zeros((3, 4)), "y": np.zeros(3)}, "X must have 4 rows at least"),
    ],
)
def test_errors_say_what_to_do(change, words):
    model, X, y = of_each_kind(30)
    given = {"X": X, "y": y} | change
    with pytest.raises(ValueError, match=words):
        importance(model, **given)


def test_unknown_names_of_losses_are_refused():
    model, X, y = of_each_kind(30)
    found = importance(model, X, y, n_repeats=1, random_state=0)
    for wrong, word in (
        ({"name": "x9"}, "name"),
        ({"name": "x0", "score": "r2"}, "score"),
        ({"name": "x0", "kind": "partial"}, "kind"),
    ):
        with pytest.raises(ValueError, match=f"{word} must be one of"):
            found.loss(**wrong)


def test_a_column_that_is_constant_loses_exactly_nothing():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.full(60, 3.0)])
    y = X[:, 0] + rng.normal(size=60)
    found = importance(linear([1.0, 1.0]), X, y, n_repeats=3, random_state=0)
    for kind in ("conditional", "marginal"):
        for score in found.scores:
            lost = found.loss("x1", score, kind)
            assert (lost.value, lost.standard_error) == (0.0, 0.0)
