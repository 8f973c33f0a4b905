"""What a fitted model says of itself."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn

from kexpfam import KCEF, AutoKCEF, FactorizedDensity, load
from kexpfam.baselines import LSCDE, ConditionalKDE
from kexpfam.estimators.description import described, with_relevance


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"age": rng.uniform(-1, 1, 60)})
    return x, pd.Series(x["age"] + 0.2 * rng.normal(size=60), name="<income>")


@pytest.fixture(scope="module")
def model(rows):
    return KCEF(select=None, random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def average(rows):
    # One family is tried, so that it is quick.
    return AutoKCEF(random_state=0, time_budget=1e-3).fit(*rows)


def test_an_unfitted_model_is_shown_as_scikit_learn_shows_it():
    model = KCEF(random_state=0)
    assert repr(model) == "KCEF(random_state=0)"
    assert "sk-container" in model._repr_html_()


def test_words_say_of_what_and_from_how_many_rows(model):
    first, second, *rest = repr(model).splitlines()
    assert first == "KCEF(random_state=0, select=None)"
    assert second == "p(<income> | age) from 60 rows"
    assert any(line.startswith("  kernel") for line in rest)


def test_an_average_lists_its_members_with_weights_that_sum_to_one(average):
    found = described(average)
    assert sum(float(row[0]) for row in found.members) == pytest.approx(1.0, abs=0.01)
    assert f"an average of {len(average.members_)} densities" in repr(average)
    assert "held-out log p" in repr(average)


def test_a_page_has_the_calibration_of_held_out_rows(average, tmp_path):
    found = described(average)
    assert found.pit.mean() == pytest.approx(1.0)
    assert np.allclose(found.pit * 60 / 20, np.round(found.pit * 60 / 20))  # 60 rows
    needed = "corrected for" if average.calibration_ else "needed no correction"
    assert needed in average._repr_html_()
    average.save(tmp_path / "model")
    loaded = load(tmp_path / "model")  # which has the map only
    assert ("PIT" in loaded._repr_html_()) == (average.calibration_ is not None)


def test_the_page_escapes_names_and_has_no_script(average, model):
    for fitted in (average, model):
        page = fitted._repr_html_()
        assert "&lt;income&gt;" in page
        assert "<income>" not in page
        assert "<script" not in page
        assert fitted._repr_mimebundle_()["text/html"] == page


def test_the_setting_of_scikit_learn_turns_pages_off(model):
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_looking_at_a_stream_does_not_solve_it(rows):
    model = KCEF(select=None, n_components=8, random_state=0)
    model.partial_fit(rows[0], rows[1])
    assert "p(y | age)" in repr(model)
    assert model._fitted is None


def test_the_best_member_and_other_estimators_can_be_looked_at(average, rows):
    assert "kernel" in repr(average.best_)
    # A baseline has a grid of its own.
    for other in (ConditionalKDE(), LSCDE(random_state=0)):
        other.fit(rows[0].to_numpy(), rows[1].to_numpy())
        assert "p(y | x0)" in repr(other)


def test_densities_know_the_name_of_their_column(model, rows):
    p = model.given(rows[0][:4])
    assert "4 densities of <income>" in repr(p)
    assert "one density of <income>" in repr(p[1])
    assert "&lt;income&gt;" in p._repr_html_()
    assert "of y" in repr(KCEF(select=None).fit(rows[0], list(rows[1])).given(rows[0]))


def test_several_columns_and_counts_say_what_they_are(rows):
    rng = np.random.default_rng(1)
    x = rows[0].to_numpy()
    both = AutoKCEF(random_state=0, time_budget=1e-3).fit(
        x, np.column_stack([rows[1], rng.normal(size=60)])
    )
    assert "p(y0, y1 | x0)" in repr(both)
    assert repr(both).count("densities, held-out log p") == 2
    counts = AutoKCEF(random_state=0, time_budget=1e-3, counts=True)
    counts.fit(x, rng.poisson(2.0, 60))
    assert "a mass function on whole numbers" in repr(counts)


def test_a_page_ranks_columns_by_how_much_densities_depend_on_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"noise": rng.normal(size=80), "size": rng.normal(size=80)})
    y = 2.0 * X["size"] + 0.3 * rng.normal(size=80)
    model = KCEF(select=None, random_state=0).fit(X, y)
    found = with_relevance(model).relevance
    assert [name for name, _ in found] == ["size", "noise"]
    assert found[0][1] > 0.8
    page = model._repr_html_()
    assert page.index(">size<") < page.index(">noise<")
    assert "size  " not in repr(model)


def test_a_page_of_many_columns_counts_those_that_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12))
    model = KCEF(select=None, random_state=0).fit(X, X[:, 3])
    page = model._repr_html_()
    assert ">x3<" in page
    assert "(4 more)" in page


def test_weights_that_are_no_counts_are_said_to_weigh():
    x = np.linspace(-1, 1, 60)[:, None]
    y = x[:, 0] + 0.1 * np.cos(40 * x[:, 0])
    for weight, words in ((2.0, "from 120 rows"), (0.005, "from rows that weigh 0.3")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KCEF(select=None).fit(x, y, sample_weight=np.full(60, weight))
        assert words in repr(model)


def test_the_name_of_another_response_is_refused():
    x = np.linspace(-1, 1, 60)
    frame = pd.DataFrame({"x": x, "z": -x, "y": x + 0.1 * np.cos(40 * x)})
    model = KCEF(select=None).fit(frame[["x"]], frame["y"])
    assert model.score(frame, "y") == model.score(frame[["x"]], frame["y"])
    with pytest.raises(ValueError, match="y='z', and the model was fitted to 'y'"):
        model.score(frame, "z")


def test_a_joint_density_has_no_response():
    frame = {"x": [0.0, 1.0, 2.0], "y": [1.0, 0.0, 1.0]}
    with pytest.raises(ValueError, match="y must not be a column or a table, got 'y'"):
        FactorizedDensity().fit(frame, "y")
