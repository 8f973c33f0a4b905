"""Pictures of pairs of columns: what is drawn is what was given, told apart."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_array_equal

from kexpfam.display import PairsDisplay
from kexpfam.display.theme import THEME
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    data, drawn = rng.normal(size=(2, 200, 3)) * [1.0, 10.0, 0.1]
    data.flags.writeable = drawn.flags.writeable = False
    return data, drawn


def sorted_rows(table):
    return table[np.lexsort(table.T)]


class TestPanels:
    def test_the_lower_triangle_holds_every_row_of_both(self, rows):
        display = PairsDisplay.from_samples(*rows)
        both = np.concatenate(rows)
        for i in range(3):
            for j in range(3):
                ax = display.axes_[i, j]
                if j > i:
                    assert ax is None
                elif j < i:
                    (dots,) = ax.collections
                    expected = sorted_rows(both[:, [j, i]])
                    assert_array_equal(sorted_rows(dots.get_offsets().data), expected)

    def test_dots_have_the_colour_of_their_sample(self, rows):
        data, drawn = rows
        display = PairsDisplay.from_samples(data, drawn)
        (dots,) = display.axes_[2, 0].collections
        offsets, colors = dots.get_offsets().data, dots.get_facecolors()
        assert len(colors) == 400
        for color, table in zip(THEME.samples, rows, strict=False):
            mine = np.all(colors[:, :3] == to_rgb(color), axis=1)
            expected = sorted_rows(table[:, [0, 2]])
            assert_array_equal(sorted_rows(offsets[mine]), expected)
        # None is on top: both have rows among the last that are drawn.
        assert 0 < np.mean(mine[-20:]) < 1

    def test_histograms_hold_the_shares_of_all_rows(self, rows):
        data, drawn = rows
        display = PairsDisplay.from_samples(data, np.tile(drawn, (5, 1)), max_points=10)
        fill, own, other = display.axes_[1, 1].patches
        for patch, table in ((fill, data), (own, data), (other, drawn)):
            heights, edges, _ = patch.get_data()
            inside = (table[:, 1] >= edges[0]) & (table[:, 1] <= edges[-1])
            assert_close(heights @ np.diff(edges), np.mean(inside))
            counts, _ = np.histogram(table[:, 1], edges)
            assert_close(heights * np.diff(edges), counts / len(table))

    def test_limits_are_shared_and_hold_nearly_all_rows(self, rows):
        data, drawn = rows
        display = PairsDisplay.from_samples(data, 3.0 * drawn)
        for j in range(3):
            low, high = display.limits[j]
            for table in (data, 3.0 * drawn):
                inside = (table[:, j] > low) & (table[:, j] < high)
                assert np.mean(inside) > 0.98
            for i in range(j, 3):
                assert display.axes_[i, j].get_xlim() == (low, high)
            for i in range(j):
                assert display.axes_[j, i].get_ylim() == (low, high)

    def test_a_stray_point_does_not_squeeze_the_rest(self, rows):
        data, drawn = rows
        stray = np.tile(drawn, (5, 1))
        stray[7] = 1e6
        limits = PairsDisplay.from_samples(data, stray).limits
        assert np.abs(limits).max() < 100.0

    def test_a_constant_column_still_has_a_range(self):
        display = PairsDisplay.from_samples(np.full((5, 2), 3.0), np.full((6, 2), 3.0))
        assert_close(display.limits, [[1.5, 4.5]] * 2)

    @pytest.mark.parametrize("d", [1, 2, 12])
    def test_few_and_many_columns(self, d):
        rng = np.random.default_rng(1)
        display = PairsDisplay.from_samples(*rng.normal(size=(2, 30, d)))
        display.figure_.canvas.draw()
        assert display.axes_.shape == (d, d)
        assert sum(ax is not None for ax in display.axes_.flat) == d * (d + 1) // 2


class TestThinning:
    def test_every_sample_has_as_many_dots_as_the_smallest(self, rows):
        data, drawn = rows
        display = PairsDisplay.from_samples(data[:50], drawn)
        assert [len(table) for table in display.dots.values()] == [50, 50]
        assert [len(table) for table in display.samples.values()] == [50, 200]

    def test_the_choice_is_reproducible(self, rows):
        one, other = (
            PairsDisplay.from_samples(*rows, max_points=30, random_state=3).dots
            for _ in range(2)
        )
        assert len(one["data"]) == len(one["samples"]) == 30
        assert_array_equal(one["samples"], other["samples"])
        assert np.isin(one["samples"], rows[1]).all()


class TestNames:
    @pytest.mark.parametrize("library", [pd, pl])
    def test_names_are_those_of_a_frame(self, library, rows):
        data, drawn = rows
        frame = library.DataFrame({"a": data[:, 0], "b": data[:, 1], "c": data[:, 2]})
        display = PairsDisplay.from_samples(frame, drawn)
        assert display.names == ["a", "b", "c"]
        assert [ax.get_xlabel() for ax in display.axes_[2]] == ["a", "b", "c"]
        assert [ax.get_ylabel() for ax in display.axes_[1:, 0]] == ["b", "c"]
        assert PairsDisplay.from_samples(data, frame).names == ["a", "b", "c"]

    def test_columns_are_chosen_by_name_or_number(self, rows):
        data, drawn = rows
        frame = pd.DataFrame(data, columns=["a", "b", "c"])
        display = PairsDisplay.from_samples(frame, drawn, columns=["c", 0])
        assert display.names == ["c", "a"]
        assert_array_equal(display.samples["samples"], drawn[:, [2, 0]])
        named = PairsDisplay.from_samples(data, drawn, columns=[-1], names=["z"])
        assert named.names == ["z"]
        assert_array_equal(named.samples["data"], data[:, [2]])

    def test_several_samples_are_named_in_the_legend(self, rows):
        data, drawn = rows
        display = PairsDisplay.from_samples(data, {"KEF": drawn, "KCEF": drawn[:100]})
        texts = [text.get_text() for text in display.legend_.get_texts()]
        assert texts == ["data (200 rows)", "KEF (200 rows)", "KCEF (100 rows)"]
        single = PairsDisplay.from_samples(data, drawn, labels=("wine", "model"))
        assert list(single.samples) == ["wine", "model"]


def test_colours_differ_in_lightness():
    # Neighbours in the list are drawn together most often.
    lightness = [np.dot(to_rgb(c), [0.2126, 0.7152, 0.0722]) for c in THEME.samples]
    assert np.abs(np.diff(lightness)).min() > 0.1
    assert lightness[0] < 0.15


def test_draws_again_in_another_figure(rows):
    display = PairsDisplay.from_samples(*rows)
    outer = plt.figure(figsize=(8, 4))
    left, _ = outer.subfigures(1, 2)
    assert display.plot(left) is display
    assert display.figure_ is left
    outer.canvas.draw()


class TestRefusals:
    def test_other_columns(self, rows):
        data, drawn = rows
        with pytest.raises(ValueError, match="samples has 2 columns, but data has 3"):
            PairsDisplay.from_samples(data, drawn[:, :2])
        frames = (pd.DataFrame(data, columns=list(names)) for names in ("abc", "acb"))
        with pytest.raises(ValueError, match=r"samples has the columns \['a', 'c', 'b"):
            PairsDisplay.from_samples(*frames)

    def test_columns_that_are_not_there(self, rows):
        with pytest.raises(ValueError, match=r"columns has 'z', but the columns are"):
            PairsDisplay.from_samples(*rows, columns=["z"])
        with pytest.raises(ValueError, match=r"columns has 3, but the columns are"):
            PairsDisplay.from_samples(*rows, columns=[3])

    def test_too_many_columns(self):
        with pytest.raises(ValueError, match="1 to 12 columns can be drawn, got 13"):
            PairsDisplay.from_samples(*np.zeros((2, 5, 13)))

    def test_too_many_samples(self, rows):
        data, drawn = rows
        with pytest.raises(ValueError, match="1 to 4 samples can be told apart, got 5"):
            PairsDisplay.from_samples(data, {str(k): drawn for k in range(5)})
        with pytest.raises(ValueError, match="Two samples are called 'data'"):
            PairsDisplay.from_samples(data, {"data": drawn})

    def test_wrong_names(self, rows):
        with pytest.raises(ValueError, match=r"names must have 3 names, .* got 2"):
            PairsDisplay.from_samples(*rows, names=["a", "b"])

    def test_missing_values_and_shapes(self, rows):
        data, drawn = rows[0].copy(), rows[1]
        data[3, 1] = np.nan
        with pytest.raises(ValueError, match="data contains NaN"):
            PairsDisplay.from_samples(data, drawn)
        with pytest.raises(ValueError, match=r"samples must have rows .* \(0, 3\)"):
            PairsDisplay.from_samples(rows[0], drawn[:0])
