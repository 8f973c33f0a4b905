"""Estimators of p(y|x) take tables as they come, and so do their files."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity, load
from kexpfam.baselines import LSCDE, ConditionalKDE
from kexpfam.cli.model_files import load_table_model
from kexpfam.errors import TableWarning
from kexpfam.metrics import evaluate
from kexpfam.selection.spec import default_coordinates
from kexpfam.tables import TableCoder, TableError
from tests.tables.frames import FRAMES, pandas_frame


@pytest.fixture(autouse=True)
def few_coordinates(monkeypatch):
    """One kind of coordinates: tables are the question, not averages."""
    small = [spec for spec in default_coordinates() if spec.name == "normal"]
    monkeypatch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: small))


MODELS = {
    "KCEF": lambda: KCEF(select=None, random_state=0),
    "AutoKCEF": lambda: AutoKCEF(likelihood=False, random_state=0),
}
LEFT_OUT = pytest.mark.filterwarnings(
    "ignore:Columns that cannot help:kexpfam.errors.TableWarning"
)


CASES = [("KCEF", "pandas"), ("KCEF", "polars"), ("AutoKCEF", "pandas")]


@LEFT_OUT
@pytest.mark.parametrize(("kind", "library"), CASES)
def test_a_frame_is_the_rows_that_its_coder_makes(kind, library, tmp_path):
    frame, y = FRAMES[library](40, gaps=True)
    model = MODELS[kind]().fit(frame, y)
    X = TableCoder().fit_transform(frame, y)
    direct = MODELS[kind]().fit(X, y)
    np.testing.assert_allclose(
        model.score_samples(frame, y), direct.score_samples(X, y), rtol=1e-9
    )
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 8
    some = frame[:5]
    turned = some[list(frame.columns)[::-1]]
    for answer in (
        lambda m, x: m.predict(x),
        lambda m, x: m.predict_quantiles(x, [0.1, 0.9]),
        lambda m, x: m.predict_interval(x, 0.8),
        lambda m, x: m.sample(x, 2, random_state=0),
        lambda m, x: m.given(x).mean(),
        lambda m, x: m.reliability(x),
        lambda m, x: m.score(x, y[:5]),
    ):
        np.testing.assert_allclose(answer(model, some), answer(direct, X[:5]))
        np.testing.assert_array_equal(answer(model, some), answer(model, turned))
    model.save(tmp_path / "a")
    loaded = load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict(turned), model.predict(some))
    assert loaded.n_features_in_ == 8
    best = getattr(loaded, "best_", loaded)
    assert len(best.predict(some)) == 5


@LEFT_OUT
def test_a_saved_model_of_a_frame_is_one_of_the_command_line(tmp_path):
    frame, y = pandas_frame()
    model = KCEF(select=None).fit(frame.assign(price=y), "price")
    model.save(tmp_path / "a")
    found = load_table_model(tmp_path / "a")
    assert found.coder.target == "price"
    assert found.coder.features == model.coder_.features_


def test_plain_numbers_have_no_coder():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    frames = (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"]))
    from_array = KCEF(select=None).fit(X, y)
    for x in (*frames, X):
        model = KCEF(select=None).fit(x, y)
        assert model.coder_ is None
        assert "coder_" not in vars(model)
        np.testing.assert_allclose(model.predict(x), from_array.predict(X), rtol=1e-10)
    numbers = {"b": X[:, 1], "a": X[:, 0]}
    named = KCEF(select=None).fit(frames[0], y)
    np.testing.assert_array_equal(named.predict(numbers), named.predict(frames[0]))


def test_a_refit_forgets_the_coder():
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    text = pd.DataFrame({"c": rng.choice(["a", "b"], 30)})
    model = KCEF(select=None).fit(text, y)
    assert model.coder_ is not None
    model.fit(rng.normal(size=(30, 3)), y)
    assert model.coder_ is None
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


def test_gaps_of_arrays_are_coded_as_those_of_frames():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    X[::7, 1] = np.nan
    model = KCEF(select=None).fit(X, y)
    names = ["x0", "x1", "x1 is missing"]
    assert model.coder_.get_feature_names_out().tolist() == names
    frame = pd.DataFrame(X, columns=names[:2])
    same = KCEF(select=None).fit(frame, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(frame))
    assert not hasattr(model, "feature_names_in_")


def test_columns_may_be_a_mapping_with_the_name_of_y():
    rng = np.random.default_rng(0)
    columns = {"c": rng.choice(["a", "b"], 30).tolist(), "y": rng.normal(size=30)}
    model = KCEF(select=None).fit(columns, "y")
    assert model.predict({"c": ["b", "a"]}).shape == (2,)


def test_one_row_is_answered_and_so_are_none():
    frame, y = pandas_frame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        model = KCEF(select=None).fit(frame, y)
    assert model.predict(frame[:1]).shape == (1,)
    assert model.coder_.transform(frame[:0]).shape == (0, 12)
    assert len(model.given(frame[:0])) == 0
    found = model.predict_frame(frame[:0])
    assert found.shape == (0, 5)
    assert found.index.equals(frame[:0].index)
    with pytest.raises(ValueError, match="0 sample"):  # there is nothing to draw
        model.plot(frame[:0])


@LEFT_OUT
def test_rows_may_come_in_pieces():
    frame, y = pandas_frame(80)
    whole = KCEF(select=None).fit(frame, y)
    piecewise = KCEF(select=None).fit(frame[:50], y[:50])
    piecewise.partial_fit(frame[50:], y[50:])
    assert piecewise.n_rows_ == 80
    near = piecewise.predict(frame), whole.predict(frame)
    assert np.corrcoef(*near)[0, 1] > 0.95
    empty = piecewise.emptied().partial_fit(frame[:30], y[:30])
    assert piecewise.merge(empty).n_rows_ == 110
    with pytest.raises(ValueError, match="code tables in the same way"):
        piecewise.merge(whole)


@pytest.mark.slow
@LEFT_OUT
def test_several_columns_of_y_share_the_coding(tmp_path):
    frame, y = pandas_frame(40)
    Y = np.column_stack([y, np.sin(3 * y)])
    order = {"city": ["Lima", "Rome", "Oslo"]}
    model = AutoKCEF(likelihood=False, random_state=0, ordered=order).fit(frame, Y)
    assert "city" in model.coder_.get_feature_names_out()
    assert model.given(frame[:2]).mean().shape == (2, 2)
    model.save(tmp_path / "a")
    loaded = load(tmp_path / "a")
    assert loaded.ordered == {"city": ("Lima", "Rome", "Oslo")}
    expected = model.score_samples(frame[:3], Y[:3])
    np.testing.assert_array_equal(loaded.score_samples(frame[:3], Y[:3]), expected)


def test_sparse_matrices_are_taken_if_they_fit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)) * (rng.random((30, 2)) < 0.5), rng.normal(size=30)
    model = KCEF(select=None).fit(sparse.csr_array(X), y)
    expected = KCEF(select=None).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), expected)
    wide = sparse.csr_array((30, 10**9))
    with pytest.raises(ValueError, match=r"sparse with shape .* memory budget"):
        model.fit(wide, y)


@pytest.mark.parametrize("library", [pd, pl])
def test_densities_of_numbers_refuse_texts_in_a_sentence(library):
    frame = library.DataFrame({"a": [1.0, 2.0, 3.0], "city": ["A", "B", "C"]})
    for model in (KEF(), FactorizedDensity()):
        with pytest.raises(TableError, match=r"column 'city'.*density of numbers"):
            model.fit(frame)


def test_a_column_that_fixes_y_is_pointed_out():
    rng = np.random.default_rng(0)
    wage = rng.lognormal(3, 0.5, 60).round(2)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 60), "logwage": np.log(wage)})
    with pytest.warns(TableWarning, match="'logwage' fixes wage, to rounding: a leak"):
        KCEF(select=None).fit(frame.round(4), pd.Series(wage, name="wage"))


def test_the_name_of_y_may_be_that_of_a_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.choice(["a", "b"], 40), "x": rng.normal(size=40)})
    y = frame["x"] + rng.normal(size=40)
    assert y.name == "x"
    model = KCEF(select=None).fit(frame, y)
    assert model.coder_.get_feature_names_out().tolist() == ["c=a", "c=b", "x"]
    assert model.coder_.coding_.target is None


@pytest.mark.parametrize("library", [pd, pl])
def test_baselines_take_the_frames_that_kcef_takes(library):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["A", "B", None], 60),
            "day": np.datetime64("2024-01-01") + rng.integers(0, 90, 60),
            "x": rng.normal(size=60),
        }
    )
    y = (frame["city"] == "A") * 3.0 + rng.normal(size=60)
    frame = frame if library is pd else pl.from_pandas(frame)
    for model in (ConditionalKDE(), LSCDE(width=1.0, regularization=0.1)):
        model.fit(frame, y)
        coded = model.coder_.transform(frame)
        reference = KCEF(select=None).fit(frame, y)
        np.testing.assert_array_equal(coded, reference.coder_.transform(frame))
        alone = clone(model).set_params(random_state=0).fit(coded, y)
        model.set_params(random_state=0).fit(frame, y)
        found = model.score_samples(frame[["x", "day", "city"]], y)
        np.testing.assert_allclose(found, alone.score_samples(coded, y), rtol=1e-9)


@pytest.mark.parametrize("kind", ["days", "moments", "nullable booleans"])
def test_responses_that_are_no_floats_become_numbers(kind):
    rng = np.random.default_rng(0)
    x, days = rng.normal(size=(40, 1)), rng.integers(0, 300, 40)
    y = {
        "days": pd.Series(pd.to_timedelta(days, unit="s")),
        "moments": np.datetime64("1970-01-01") + days,
        "nullable booleans": pd.Series(days > 150, dtype="boolean"),
    }[kind]
    numbers = (days > 150) * 1.0 if kind.startswith("null") else days.astype(float)
    model, plain = KCEF(select=None).fit(x, y), KCEF(select=None).fit(x, numbers)
    np.testing.assert_array_equal(
        model.score_samples(x, y), plain.score_samples(x, numbers)
    )


def test_durations_beside_numbers_are_seconds():
    rng = np.random.default_rng(0)
    hours, x, y = rng.integers(0, 9, 40), rng.normal(size=40), rng.normal(size=40)
    frame = pd.DataFrame({"lasted": pd.to_timedelta(hours, unit="h"), "x": x})
    model = KCEF(select=None).fit(frame, y)
    plain = KCEF(select=None).fit(np.column_stack([3600.0 * hours, x]), y)
    np.testing.assert_allclose(
        model.predict(frame), plain.predict(np.column_stack([3600.0 * hours, x]))
    )


def test_texts_as_responses_are_refused_in_a_sentence():
    x, texts = np.arange(9.0)[:, None], ["a", "b", "c"] * 3
    with pytest.raises(TableError, match=r"y holds texts, such as 'a'.*a classifier"):
        KCEF(select=None).fit(x, texts)
    Y = pd.DataFrame({"u": np.arange(9.0), "v": pd.Categorical(texts)})
    with pytest.raises(TableError, match=r"y holds texts in column 'v', such as 'a'"):
        AutoKCEF().fit(x, Y)
    Y["v"] = pd.Series([1, None] * 4 + [3], dtype="Int64")
    with pytest.warns(TableWarning, match="4 of 9 rows have no y"):
        model = KCEF(select=None).fit(x, Y)
    assert model.given(x).mean().shape == (9, 2)


def test_an_unseen_category_is_told_once_for_each_line_of_a_program():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.choice(["a", "b"], 40), "x": rng.normal(size=40)})
    y = rng.normal(size=40)
    model = KCEF(select=None).fit(frame, y)
    strange = frame.assign(c=["z", "z", *frame["c"][2:]])
    asked = [
        lambda: model.predict(strange),
        lambda: model.score(strange, y),
        lambda: evaluate(model, strange, y),
        lambda: model.predict_frame(strange),
        lambda: model.plot(strange, y),
    ]
    for times, ask in zip([3, 3, 3, 3, 1], asked, strict=True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(times):
                ask()
        told = [w for w in caught if issubclass(w.category, TableWarning)]
        assert len(told) == 1
        assert "2 rows of column 'c'" in str(told[0].message)
        assert told[0].filename == __file__


def test_categories_with_nul_characters_are_different_ones(tmp_path):
    labels = ["a", "a\0", "\0", "b\0c", "b"]
    frame = pd.DataFrame({"c": labels * 8, "x": np.arange(40.0) % 7})
    y = np.arange(40.0) % 5 + 0.1 * np.sin(np.arange(40.0))
    model = KCEF(select=None).fit(frame, y)
    assert model.coder_.features_[0].categories == tuple(sorted(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        means = model.predict(frame)
    assert np.corrcoef(means, y)[0, 1] > 0.95
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    np.testing.assert_allclose(again.predict(frame), means)


@pytest.mark.parametrize("beside", [[], ["city"]])
def test_booleans_and_their_texts_are_one_column(beside):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"flag": rng.random(60) < 0.5, "a": rng.normal(size=60)})
    frame["city"] = np.resize(["Rome", "Oslo", "Lima"], 60)
    y = 5.0 * frame["flag"] + frame["a"] + rng.normal(size=60)
    frame = frame[["flag", "a", *beside]]
    kinds = [
        frame,
        frame.assign(flag=frame["flag"].astype(object)),
        frame.assign(flag=frame["flag"].astype(str)),
        frame.assign(flag=frame["flag"].astype(str).str.upper()),
    ]
    means = [
        KCEF(select=None).fit(fitted, y).given(asked[:9]).mean()
        for fitted in kinds
        for asked in kinds
    ]
    for found in means[1:]:
        np.testing.assert_array_equal(found, means[0])


def test_categories_that_were_true_and_false_take_booleans():
    """So does a model of before, which had texts as categories."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"flag": rng.random(60) < 0.5, "a": rng.normal(size=60)})
    model = KCEF(select=None).fit(
        frame.assign(flag=frame["flag"].astype("category")), frame["a"] + frame["flag"]
    )
    assert model.coder_.features_[0].categories == ("False", "True")
    coded = model.coder_.transform(frame)
    assert coded[:, 1].tolist() == frame["flag"].tolist()
    assert model.coder_.features_[0].read("1") == "True"
