"""Pictures of explanations show what they are made of."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from kexpfam.display import short_number
from kexpfam.explanation.effects import effect
from kexpfam.explanation.importance import importance
from kexpfam.explanation.shapley import explain
from tests.explanation.laws import gaussian, houses, linear


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, X[:, 0] + rng.normal(size=80)


def bars(ax):
    return [patch.get_width() for patch in ax.patches]


def test_bars_of_importance_are_its_values(rows):
    found = importance(linear([1.0, 0.0, 0.2]), *rows, n_repeats=2, random_state=0)
    display = found.plot()
    axes = display.axes_
    words = ["log density lost", "CRPS gained", "90 % interval wider by"]
    assert [ax.get_xlabel() for ax in axes] == words
    for ax, score in zip(axes, found.scores, strict=True):
        expected = [
            loss.value
            for kind in ("conditional", "marginal")
            for loss in found.losses[kind][score]
        ]
        np.testing.assert_allclose(bars(ax), expected)
    assert [t.get_text() for t in axes[0].get_yticklabels()] == list(found.names)
    (legend,) = display.figure_.legends
    assert len(legend.get_texts()) == 2


def test_the_most_important_are_shown_on_the_axes_that_are_given(rows):
    found = importance(linear([1.0, 0.0, 0.2]), *rows, n_repeats=2, random_state=0)
    _, axes = plt.subplots(1, 3)
    assert found.plot(axes, most=2).axes_.tolist() == axes.tolist()
    assert len(axes[0].get_yticks()) == 2
    with pytest.raises(ValueError, match="axes must be 3 Axes, one for each score"):
        found.plot(axes[:2])


def test_curves_of_effects_have_bands_and_marks(rows):
    X = rows[0].copy()
    X[:40, 0] += 20.0  # a gap
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    found = effect(linear([1.0, 1.0, 1.0]), 0, X, "quantiles", bins=5, random_state=0)
    ax = found.plot().ax_
    for line, values in zip(ax.lines, found.values.T, strict=False):
        np.testing.assert_allclose(line.get_ydata(), values)
    assert len(ax.collections) == 3
    assert ax.get_xlabel() == "x0"
    assert ax.get_ylabel() == "quantiles of y"
    assert found.is_extrapolated.any()
    assert any(patch.get_hatch() for patch in ax.patches)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["q0.05", "q0.5", "q0.95", "unlike the data"]


def test_one_curve_needs_no_legend(rows):
    _, ax = plt.subplots()
    found = effect(linear([1.0, 0.0, 0.0]), 2, rows[0], "P(y>1)", random_state=0)
    assert found.plot(ax).ax_ is ax
    assert ax.get_ylabel() == "P(y>1)"
    assert not found.is_extrapolated[2:-2].any()


def test_categories_and_dates_are_labelled(house_model):
    X, _ = houses(80, seed=1)
    city = house_model.effect("city", X, random_state=0)
    ax = city.plot().ax_
    assert [t.get_text() for t in ax.get_xticklabels()] == city.places.tolist()
    sold = house_model.effect("sold", X, bins=4, random_state=0)
    ax = sold.plot().ax_
    ax.figure.canvas.draw()
    assert "20" in ax.get_xticklabels()[0].get_text()
    for column, count, drawn in (("city", 3, 3), ("sold", 4, 200)):
        found = house_model.effect(column, X, of="density", bins=4, random_state=0)
        (mesh,) = found.plot().ax_.collections
        assert found.values.shape == (count, 120)
        shown = mesh.get_array().reshape(120, drawn)
        assert shown.min() >= found.values.min()
        assert shown.max() <= found.values.max()
        # At the ends it is what was found there.
        np.testing.assert_allclose(shown[:, [0, -1]], found.values[[0, -1]].T)


def test_pictures_name_what_was_predicted(house_model):
    X, _ = houses(80, seed=1)
    found = house_model.effect("area", X, "P(y>1)", bins=3, random_state=0)
    assert found.plot().ax_.get_ylabel() == "P(price>1)"
    density = house_model.effect("area", X, "density", bins=3, random_state=0)
    assert density.plot().ax_.get_ylabel() == "price"
    why = house_model.explain(X.iloc[:1], 0.9, max_background=3, random_state=0)
    assert why.plot().ax_.get_title().startswith("q0.9 of price is ")


def test_bars_of_a_row_lead_from_the_average_to_its_number():
    model = linear([3.0, -2.0, 1.0])
    found = explain(model, [1.0, 1.0, 1.0], background=np.zeros((2, 3)))
    ax = found.plot().ax_
    np.testing.assert_allclose(bars(ax), [3.0, -2.0, 1.0])
    starts = [patch.get_x() for patch in ax.patches]
    np.testing.assert_allclose(starts, [0.0, 3.0, 1.0])
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == ["x0 = 1", "x1 = 1", "x2 = 1"]
    assert [t.get_text() for t in ax.texts] == ["+3", "−2", "+1"]
    assert ax.get_title() == "mean of y is 2 here, 0 on average"


def test_small_contributions_share_a_bar():
    slopes = np.arange(1.0, 10.0)
    found = explain(linear(slopes), np.ones(9), background=np.zeros((2, 9)))
    ax = found.plot(most=4).ax_
    np.testing.assert_allclose(bars(ax), [9, 8, 7, 6, 15])
    assert ax.get_yticklabels()[-1].get_text() == "5 other columns"
    whole = found.plot(most=8).ax_  # one other has a bar of its own
    assert whole.get_yticklabels()[-1].get_text() == "x0 = 1"


def test_errors_of_drawn_orders_are_drawn():
    model = gaussian(lambda Z: Z.prod(axis=1), lambda Z: 1.0, 3)
    B = np.random.default_rng(0).normal(size=(5, 3))
    how = {"background": B, "n_permutations": 2, "random_state": 0}
    ax = explain(model, [1.0, 2.0, 3.0], **how).plot().ax_
    assert len(ax.collections) == 1


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [(3.14159, 3, "3.14"), (12345.6, 2, "12346"), (1e12, 3, "1e+12"), (-0.0, 2, "-0")],
)
def test_numbers_are_short(number, digits, text):
    assert short_number(number, digits) == text
