"""Pictures of `kexpfam plot`: where they are, what they warn of, and long names."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.pictures import (
    condition,
    draw_along,
    draw_densities,
)
from kexpfam.cli.readers import read_table
from kexpfam.display import EXTRAPOLATION, UNLIKE, middle_cut
from kexpfam.tables import Coding, Table
from tests.cli.tables import houses

LONG = [f"the_length_of_some_part_of_the_flower_in_centimetres_{i}" for i in range(5)]


@pytest.fixture(autouse=True)
def no_window():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def long_names():
    """A model and its coder, with names of more than fifty letters."""
    columns = houses()
    values = [*(columns[n] for n in ("area", "rooms", "price")), columns["area"] ** 2]
    table = Table("a.csv", (*LONG[:4],), tuple(np.asarray(v, float) for v in values))
    coder = Coding.learn(table, [LONG[0], LONG[1], LONG[3]], LONG[2])
    X, y = coder.transform(table).X, table.numbers(LONG[2])
    return KCEF(select=None).fit(X, y), coder


def inside(figure):
    """Whether all texts with words are within the figure, from left to right."""
    figure.canvas.draw()
    texts = [t for t in figure.findobj(plt.Text) if re.search("[a-z]", t.get_text())]
    boxes = [t.get_window_extent() for t in texts]
    assert len(boxes) > 4
    return all(b.x0 >= 0.0 and b.x1 <= figure.bbox.x1 for b in boxes)


def test_long_names_stay_inside_the_picture(long_names):
    model, coder = long_names
    row = coder.row()
    label = ",".join(f"{f.name}=3.25" for f in coder.features)
    X = np.vstack([row, row + 1.0])
    figure = draw_densities(model, coder, X, [label, label], np.full(2, np.nan))
    assert inside(figure)
    assert inside(draw_along(model, coder, coder.features[0], None, row))


def test_a_long_legend_is_not_across_the_curve(long_names):
    model, coder = long_names
    label = ",".join(f"{f.name}=3.25" for f in coder.features)
    figure = draw_densities(model, coder, coder.row(), [label], np.full(1, np.nan))
    figure.canvas.draw()
    (legend,) = figure.legends
    axes = figure.axes[0]
    assert axes.get_legend() is None
    assert legend.get_window_extent().y1 <= axes.get_window_extent().y0
    short = draw_densities(model, coder, coder.row(), ["row 1"], np.full(1, np.nan))
    assert short.legends == []


def test_names_keep_both_ends():
    cut = [middle_cut(name, 20) for name in LONG]
    assert len(set(cut)) == len(LONG)
    assert all(len(name) == 20 for name in cut)
    assert middle_cut("short", 20) == "short"


def test_other_features_are_those_of_the_nearest_row(fitted):
    table = read_table(fitted.data)
    coder = load_table_model(fitted.model).coder
    X = coder.transform(table).X
    assert (condition(coder, table) == X).all(axis=1).any()
    found = condition(coder, table, {"city": "Oslo"})
    assert (found == X).all(axis=1).any()
    assert found[0, coder.columns.index("city=Oslo")] == 1.0
    # Of the row with the nearest area all but the area is taken.
    found = condition(coder, table, {"area": "71.234"})
    nearest = X[np.argmin(np.abs(X[:, coder.columns.index("area")] - 71.234))].copy()
    nearest[coder.columns.index("area")] = 71.234
    np.testing.assert_array_equal(found[0], nearest)


def test_without_rows_other_features_are_medians(fitted):
    coder = load_table_model(fitted.model).coder
    some = Table("a.csv", ("area",), (np.ones(3),))
    for table in (None, some):
        np.testing.assert_array_equal(condition(coder, table), coder.row())


def test_a_density_far_from_data_is_noted(run, fitted, tmp_path):
    words = ["plot", fitted.model, "--at", "area=5000", "-o", tmp_path / "a.png"]
    result = run(*words)
    assert f"Note: area=5000: {UNLIKE}." in result.stderr
    assert "Note" not in run(*words, "--force", "-q").stderr
    found = load_table_model(fitted.model)
    row = found.coder.row({"area": "5000"})
    figure = draw_densities(found.model, found.coder, row, ["far"], np.full(1, np.nan))
    assert figure.axes[0].get_title() == UNLIKE
    both = np.vstack([row, condition(found.coder, read_table(fitted.data))])
    figure = draw_densities(found.model, found.coder, both, ["a", "b"], np.full(2, 0.0))
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels[:2] == [f"a ({EXTRAPOLATION})", "b"]


def test_a_density_at_a_typical_row_is_not_noted(run, fitted, tmp_path):
    path = tmp_path / "a.png"
    at = ["--at", "city=Oslo", "-o", path]
    assert run("plot", fitted.model, fitted.data, *at).stderr == ""


def test_curves_are_hatched_where_few_rows_are_near(fitted, capsys):
    found = load_table_model(fitted.model)
    coder, model = found.coder, found.model
    feature, row = coder.feature("area"), coder.row()
    dots = np.array([[-500.0, 100.0], [90.0, 200.0]])
    figure = draw_along(model, coder, feature, dots, row)
    assert EXTRAPOLATION in figure.axes[0].get_legend_handles_labels()[1]
    assert "no training row is like these" in capsys.readouterr().err
