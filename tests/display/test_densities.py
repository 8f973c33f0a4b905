"""Pictures: what is drawn is what the model says, and errors say what to do."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.integrate import trapezoid

from kexpfam import KCEF, KEF
from kexpfam.base_densities import StudentBase, UniformBase
from kexpfam.display import ConditionalDensityDisplay, plot_densities
from kexpfam.display.densities import _apart
from tests.tolerances import assert_close

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"

# Mass that a picture may leave out: 0.001 on either side, and as much again by the
# trapezoidal rule between the points of a curve.
OUTSIDE = 0.004


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(80, 1))
    y = np.sin(3.0 * x[:, 0]) + (0.05 + 0.3 * x[:, 0] ** 2) * rng.normal(size=80)
    x.flags.writeable = y.flags.writeable = False
    return x, y


@pytest.fixture(scope="module")
def model(data):
    return KCEF(select=None).fit(*data)


@pytest.fixture(scope="module")
def bounded():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(60, 1))
    y = rng.beta(1.0, 1.0 + 3.0 * x[:, 0])
    return KCEF(select=None, base=UniformBase(0.0, 1.0)).fit(x, y), x, y


def area(line):
    return trapezoid(line.get_ydata(), line.get_xdata())


class TestPlotDensities:
    def test_a_single_density_is_one_filled_curve_of_area_one(self, model):
        ax = model.given([[0.5]])[0].plot()
        (line,) = ax.lines
        assert area(line) == pytest.approx(1.0, abs=OUTSIDE)
        assert len(ax.collections) == 1
        assert ax.get_legend() is None
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("y", "density")
        assert ax.get_ylim()[0] == 0.0

    def test_the_curve_is_the_density(self, model):
        p = model.given([[0.5]])[0]
        (line,) = p.plot().lines
        assert_close(line.get_ydata(), p.pdf(line.get_xdata()))

    def test_every_curve_of_a_batch_has_area_one_however_narrow(self):
        rng = np.random.default_rng(2)
        x = np.repeat([[0.0], [1.0]], 60, axis=0)
        y = np.where(x[:, 0] == 0, 0.002, 1.0) * rng.normal(size=120)
        ax = KCEF(select=None, standardize=True).fit(x, y).given([[0.0], [1.0]]).plot()
        areas = [area(line) for line in ax.lines]
        assert areas == pytest.approx([1.0, 1.0], abs=OUTSIDE)

    def test_few_are_named_and_many_are_coloured_in_order(self, model):
        eight = model.given(np.linspace(-1, 1, 8)[:, None]).plot()
        names = [text.get_text() for text in eight.get_legend().get_texts()]
        assert names == [f"row {i}" for i in range(8)]
        assert len(eight.collections) == 0
        nine = model.given(np.linspace(-1, 1, 9)[:, None]).plot()
        assert nine.get_legend() is None
        greens = [line.get_color()[1] for line in nine.lines]
        assert greens == sorted(set(greens))

    def test_draws_on_given_axes_with_given_lines(self, model):
        _, ax = plt.subplots()
        p = model.given([[0.0], [0.5]])
        assert p.plot(ax=ax, c=["red", "blue"], label=["a", "b"], lw=3) is ax
        assert [line.get_color() for line in ax.lines] == ["red", "blue"]
        assert [line.get_linewidth() for line in ax.lines] == [3, 3]
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b"]

    def test_a_second_call_on_the_same_axes_makes_room(self, model):
        p = model.given([[-1.0], [0.0]])
        assert p.pdf(p.mode())[1] > 2.0 * p.pdf(p.mode())[0]
        ax = p[1].plot(ax=p[0].plot())
        assert ax.get_ylim()[0] == 0.0
        assert ax.get_ylim()[1] > p.pdf(p.mode())[1]

    def test_one_label_for_all_is_named_once(self, model):
        ax = model.given(np.linspace(-1, 1, 20)[:, None]).plot(label="p", color="k")
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["p"]
        assert {line.get_color() for line in ax.lines} == {"k"}

    def test_a_bounded_density_falls_to_zero_at_the_ends(self, bounded):
        (line,) = bounded[0].given([[0.1]])[0].plot().lines
        y, p = line.get_xdata(), line.get_ydata()
        assert_close(y[[0, -1]], [0.0, 1.0])
        assert_array_equal(p[[0, -1]], 0.0)
        assert p[2] > 0.1

    def test_a_heavy_tail_does_not_squeeze_the_rest(self):
        # A density near its base, which has the tails of a Cauchy density.
        data = np.random.default_rng(3).normal(size=(50, 1))
        model = KEF(base=StudentBase(df=1.0), regularization=1e3).fit(data)
        low, high = model.plot().get_xlim()
        tails = model.distribution().ppf([0.001, 0.999])
        assert high - low < 0.2 * (tails[1] - tails[0])

    def test_wrong_lists_are_refused(self, model):
        p = model.given([[0.0], [0.5]])
        with pytest.raises(ValueError, match=r"label must be .* a list of 2.* of 3"):
            p.plot(label=["a", "b", "c"])
        with pytest.raises(ValueError, match=r"color must be .* a list of 2.* of 1"):
            p.plot(color=["red"])

    def test_no_density_is_refused(self, model):
        with pytest.raises(ValueError, match="no densities to draw"):
            model.given([[0.0], [0.5]])[:0].plot()

    def test_several_columns_of_y_are_refused(self):
        rng = np.random.default_rng(4)
        p = KEF(select=None).fit(rng.normal(size=(30, 2))).distribution()
        with pytest.raises(ValueError, match=r"one column of y, and .* have 2"):
            plot_densities(p)


class TestConditionalDensityDisplay:
    def test_columns_integrate_to_one(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(model, *data)
        masses = display.density @ np.diff(display.y_edges)
        assert display.density.shape == (200, 200)
        # A tenth of the columns may lose more at the top, another tenth at the bottom,
        # but none more than what is outside the outermost lines.
        assert np.percentile(masses, 20) > 1.0 - OUTSIDE
        assert masses.min() >= 0.9
        assert masses.max() <= 1.0 + 1e-9
        assert_array_equal(display.heatmap_.get_array(), display.density.T)

    def test_cells_hold_the_mean_density(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(
            model, *data, grid_resolution=400
        )
        middle = 0.5 * (display.y_edges[1:] + display.y_edges[:-1])
        at_middle = model.given(display.x[:, None]).pdf(middle[None])
        # The mean of a cell of width h differs from its middle by h² p″ / 24.
        assert_close(display.density, at_middle, 2e-3)

    def test_a_peak_between_grid_points_is_not_missed(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(
            model, *data, grid_resolution=5
        )
        masses = display.density @ np.diff(display.y_edges)
        assert np.percentile(masses, 20) > 1.0 - OUTSIDE

    def test_lines_are_the_quantiles(self, model, data):
        levels = [0.9, 0.5, 0.1]
        display = ConditionalDensityDisplay.from_estimator(model, *data, levels=levels)
        expected = model.predict_quantiles(display.x[:, None], levels)
        assert_close(display.quantiles, expected)
        for line, quantile in zip(display.quantile_lines_, expected.T, strict=True):
            assert_close(line.get_ydata(), quantile)
        widths = [line.get_linewidth() for line in display.quantile_lines_]
        assert widths.index(max(widths)) == 1
        texts = [text.get_text() for text in display.ax_.texts]
        assert texts == ["90%", "median", "10%"]

    def test_the_picture_covers_data_and_lines(self, model, data):
        x, y = data
        display = ConditionalDensityDisplay.from_estimator(model, x, y)
        assert_array_equal(display.scatter_.get_offsets(), np.column_stack([x, y]))
        (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
        assert left < x.min() < x.max() < right
        assert bottom < min(y.min(), display.quantiles.min())
        assert top > max(y.max(), display.quantiles.max())

    def test_rows_end_with_the_support_but_dots_do_not(self, bounded):
        model, x, y = bounded
        display = ConditionalDensityDisplay.from_estimator(model, x, y)
        assert_close(display.y_edges[[0, -1]], [0.0, 1.0])
        beyond = ConditionalDensityDisplay.from_estimator(model, x, y + 1.0)
        assert beyond.y_edges[-1] == display.y_edges[-1]
        assert beyond.ax_.get_ylim()[1] >= y.max() + 1.0

    def test_without_data_or_lines(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(model, data[0], levels=())
        assert display.scatter_ is None
        assert display.quantile_lines_ == []
        assert display.ax_.texts[:] == []

    def test_one_row_still_gives_a_range(self, model):
        display = ConditionalDensityDisplay.from_estimator(model, [[0.3]], [0.8])
        assert display.x[0] < 0.3 < display.x[-1]

    def test_draws_again_on_other_axes(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(model, *data)
        first = display.ax_
        _, ax = plt.subplots()
        assert display.plot(ax) is display
        assert display.ax_ is ax is not first
        assert display.figure_ is ax.figure

    def test_plot_of_a_model_returns_the_axes_given(self, model, data):
        _, ax = plt.subplots()
        assert model.plot(*data, ax=ax) is ax
        assert len(ax.lines) == 5

    def test_colours_and_their_bar(self, model, data):
        display = ConditionalDensityDisplay.from_estimator(model, *data, cmap="Purples")
        assert display.heatmap_.get_cmap().name == "Purples"
        assert display.colorbar_.ax.get_ylabel() == "p(y|x)"
        assert display.heatmap_.norm.vmin == 0.0
        # Narrow columns are brighter than the bar goes, and the bar says so.
        assert display.density.max() > display.heatmap_.norm.vmax
        assert display.colorbar_.extend == "max"

    @pytest.mark.parametrize("library", [pd, pl])
    def test_labels_are_the_names_of_columns(self, library, data):
        x, y = data
        X = library.DataFrame({"age": x[:, 0]})
        response = (
            library.Series(name="height", data=y)
            if library is pd
            else (library.Series("height", y))
        )
        display = ConditionalDensityDisplay.from_estimator(
            KCEF(select=None).fit(X, response), X, response
        )
        assert display.ax_.get_xlabel() == "age"
        assert display.ax_.get_ylabel() == "height"

    def test_labels_without_names(self, model, data):
        x, y = data
        display = ConditionalDensityDisplay.from_estimator(model, x, pd.Series(y))
        assert display.ax_.get_xlabel() == "x"
        assert display.ax_.get_ylabel() == "y"

    def test_labels_of_close_lines_stand_apart(self):
        _, ax = plt.subplots()
        ax.set_ylim(0.0, 10.0)
        heights = _apart(np.array([5.01, 5.0, 9.99, 10.0]), ax)
        assert heights[1] < heights[0] < heights[2] < heights[3] <= 10.0
        assert np.diff(np.sort(heights)).min() > 0.2
        assert_close(heights[:2].mean(), 5.005)


class TestRefusals:
    def test_a_column_that_is_not_there(self, model, data):
        with pytest.raises(ValueError, match=r"columns 'x0', .* got 'age'"):
            model.plot(*data, along="age")
        with pytest.raises(ValueError, match="from 0 to 0; got 3"):
            model.plot(*data, along=3)

    def test_several_columns_of_y(self, model, data):
        x, y = data
        both = np.column_stack([y, y**2])
        with pytest.raises(ValueError, match="one column of y, and y has 2; fit"):
            model.plot(x, both)
        with pytest.raises(ValueError, match=r"one column of y.* these .* have 2"):
            KCEF(select=None).fit(x[:20], both[:20]).plot(x[:20])

    def test_flat_x(self, model, data):
        with pytest.raises(ValueError, match=r"got shape \(80,\); X.reshape\(-1, 1\)"):
            model.plot(data[0][:, 0])

    def test_rows_that_do_not_match(self, model, data):
        x, y = data
        with pytest.raises(ValueError, match=r"80 rows like X, got shape \(79,\)"):
            model.plot(x, y[1:])

    @pytest.mark.parametrize("name", ["X", "y"])
    def test_missing_values(self, name, model, data):
        x, y = (array.copy() for array in data)
        (x if name == "X" else y)[3] = np.nan
        with pytest.raises(ValueError, match=f"{name} contains NaN"):
            model.plot(x, y)

    @pytest.mark.parametrize("level", [0.0, 1.0, np.nan])
    def test_levels_at_the_ends(self, level, model, data):
        with pytest.raises(
            ValueError, match="levels must lie strictly between 0 and 1"
        ):
            ConditionalDensityDisplay.from_estimator(model, *data, levels=[0.5, level])

    def test_a_grid_of_one(self, model, data):
        with pytest.raises(ValueError, match="grid_resolution must be > 1, got 1"):
            ConditionalDensityDisplay.from_estimator(model, *data, grid_resolution=1)


@pytest.mark.parametrize("arguments", [[], ["other.png"]])
def test_demo_writes_a_picture_and_beats_a_line(
    arguments, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(DEMO), *arguments])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(DEMO), run_name="__main__")
    assert not end.value.code
    name = (arguments or ["demo.png"])[0]
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert f"The picture is in {name}" in printed
    scores = {
        line.split()[1].rstrip(","): float(line.split()[0])
        for line in printed.splitlines()
        if "KCEF, " in line or "linear" in line
    }
    assert scores["KCEF"] > scores["linear"]


@pytest.mark.parametrize("pure", [False, True], ids=["mixed", "counted"])
def test_colours_are_scaled_to_what_is_beside_atoms(pure):
    x, edges = np.array([0.0, 1.0]), np.linspace(-0.5, 3.5, 9)
    density = np.zeros((2, 8)) if pure else np.full((2, 8), 0.2)
    density[:, 1] = 5.0  # the cell of an atom at zero
    display = ConditionalDensityDisplay(
        x=x,
        y_edges=edges,
        density=density,
        levels=np.empty(0),
        quantiles=np.empty((2, 0)),
        atoms=np.zeros(1),
    ).plot()
    assert display.heatmap_.norm.vmax == pytest.approx(5.0 if pure else 0.2)
    assert display.colorbar_.extend == ("neither" if pure else "max")
