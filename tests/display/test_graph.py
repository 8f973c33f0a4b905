"""Pictures of graphs: parents above children, arrows around boxes, gains in colour."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_array_equal

from kexpfam.display import GraphDisplay

LETTERS = [chr(ord("A") + k) for k in range(11)]
GRAPHS = {
    "chain": {c: LETTERS[i - 1 : i] if i else [] for i, c in enumerate(LETTERS)},
    "full": {c: LETTERS[:i] for i, c in enumerate(LETTERS[:6])},
    "tree": {c: [LETTERS[(i - 1) // 2]] if i else [] for i, c in enumerate(LETTERS)},
    "independent": {c: [] for c in LETTERS},
    "second order": {c: LETTERS[max(0, i - 2) : i] for i, c in enumerate(LETTERS[:8])},
    "diamond": {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c", "a"], "alone": []},
    "mixed": {
        **{"x": [], "z": [], "a": ["x"], "b": ["x", "z"], "c": ["a", "b"]},
        **{"d": ["x", "c"], "e": ["d", "z"], "alone": []},
    },
    "one node": {"a": []},
}


def extents(display, node):
    """Left, bottom, right and top of a box, in data units."""
    box = display.boxes_[node].get_window_extent()
    return box.transformed(display.ax_.transData.inverted()).extents


@pytest.mark.parametrize("name", GRAPHS)
class TestLayout:
    def test_parents_stand_above_their_children(self, name):
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name])
        for child, own in GRAPHS[name].items():
            for parent in own:
                assert display.positions[parent][1] > display.positions[child][1]

    def test_boxes_do_not_overlap(self, name):
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name], gains={}).plot()
        display.figure_.canvas.draw()
        boxes = [extents(display, node) for node in GRAPHS[name]]
        for k, (left, bottom, right, top) in enumerate(boxes):
            for other in boxes[:k]:
                beside = right < other[0] or other[2] < left
                assert beside or top < other[1] or other[3] < bottom

    @pytest.mark.parametrize("gains", [{}, {"A": 0.1, "a": 0.1}])
    def test_arrows_meet_no_other_box(self, name, gains):
        own = {node: gain for node, gain in gains.items() if node in GRAPHS[name]}
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name], own).plot()
        display.figure_.canvas.draw()
        for edge, curve in display.curves.items():
            for node in set(GRAPHS[name]) - set(edge):
                left, bottom, right, top = extents(display, node)
                x, y = curve.T
                inside = (x > left) & (x < right) & (y > bottom) & (y < top)
                assert not inside.any(), f"{edge} runs through {node}"

    def test_arrows_lead_from_the_parent_to_the_child(self, name):
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name]).plot()
        expected = {(p, child) for child, own in GRAPHS[name].items() for p in own}
        assert set(display.arrows_) == set(display.curves) == expected
        half = 0.5 * display.box
        for (parent, child), curve in display.curves.items():
            for point, node in ((curve[0], parent), (curve[-1], child)):
                # On the border: the farther of both directions is at the half width.
                share = np.max(np.abs(point - display.positions[node]) / half)
                assert share == pytest.approx(1.0, abs=0.05)

    def test_everything_is_inside_the_axes(self, name):
        gains = dict.fromkeys(GRAPHS[name], 0.3)
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name], gains).plot()
        (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
        points = np.concatenate(
            [list(display.positions.values()), *display.curves.values()]
        )
        assert np.all((points > [left, bottom]) & (points < [right, top]))

    def test_text_fits_its_box(self, name):
        gains = dict.fromkeys(GRAPHS[name], -10.25)
        errors = dict.fromkeys(GRAPHS[name], 0.123)
        display = GraphDisplay(list(GRAPHS[name]), GRAPHS[name], gains, errors).plot()
        display.figure_.canvas.draw()
        back = display.ax_.transData.inverted()
        for text in display.ax_.texts:
            words = text.get_window_extent().transformed(back)
            assert words.width < display.box[0]


def test_edges_between_neighbouring_layers_are_straight():
    display = GraphDisplay(LETTERS, GRAPHS["chain"])
    for curve in display.curves.values():
        assert np.ptp(curve[:, 0]) < 1e-9


def test_a_root_stands_just_above_its_first_child():
    parents = {"a": [], "b": ["a"], "c": ["b"], "late": [], "d": ["c", "late"]}
    positions = GraphDisplay(list(parents), parents).positions
    assert positions["late"][1] == positions["c"][1]


def test_long_names_have_wide_boxes():
    long = "a name of a column that is rather long"
    display = GraphDisplay([long, "b"], {"b": [long]}).plot()
    display.figure_.canvas.draw()
    words = display.ax_.texts[0].get_window_extent()
    box = display.boxes_[long].get_window_extent()
    assert box.x0 < words.x0
    assert words.x1 < box.x1


class TestGains:
    def test_colour_grows_with_the_gain(self):
        gains = {"A": 0.1, "B": 0.5, "C": 0.9, "D": -0.2}
        display = GraphDisplay(LETTERS[:5], {}, gains).plot()
        reds = [display.boxes_[c].get_facecolor()[0] for c in "DABC"]
        assert reds == sorted(reds, reverse=True)
        assert len(set(reds)) == 4
        assert display.boxes_["E"].get_facecolor() == to_rgba("0.94")
        assert display.colorbar_.ax.get_ylabel() == "held-out gain, nats"
        assert (display.colorbar_.vmin, display.colorbar_.vmax) == (0.0, 0.9)
        assert display.colorbar_.extend == "min"

    def test_numbers_stand_below_the_names(self):
        gains, errors = {"A": 0.416, "B": -0.1}, {"A": 0.033}
        display = GraphDisplay(["A", "B", "C"], {}, gains, errors).plot()
        texts = [text.get_text() for text in display.ax_.texts]
        assert texts == ["A", "+0.42 ± 0.03 nats", "B", "−0.10 nats", "C", ""]

    def test_without_gains_there_is_no_bar(self):
        display = GraphDisplay(["A"], {}).plot()
        assert display.colorbar_ is None
        assert len(display.figure_.axes) == 1

    def test_losses_alone_are_white(self):
        display = GraphDisplay(["A", "B"], {}, {"A": -0.5}).plot()
        assert display.boxes_["A"].get_facecolor() == to_rgba("white")


def test_exogenous_nodes_are_dashed_and_need_not_be_listed():
    display = GraphDisplay(["a"], {"a": ["x"]}, exogenous=["x"]).plot()
    assert display.nodes == ("x", "a")
    assert display.boxes_["a"].get_linestyle() == "-"
    assert display.boxes_["x"].get_linestyle() != "-"


def test_draws_on_given_axes_with_smaller_text():
    display = GraphDisplay(LETTERS, GRAPHS["tree"]).plot()
    first = display.ax_.texts[0].get_fontsize()
    _, ax = plt.subplots(figsize=(3, 2))
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert ax.texts[0].get_fontsize() < first


def test_the_same_graph_is_drawn_the_same():
    one, other = (GraphDisplay(LETTERS[:6], GRAPHS["full"]) for _ in range(2))
    for edge, curve in one.curves.items():
        assert_array_equal(curve, other.curves[edge])


class TestRefusals:
    def test_a_cycle(self):
        with pytest.raises(ValueError, match=r"cycle among \['a', 'b'\]"):
            GraphDisplay(["a", "b", "c"], {"a": ["b"], "b": ["a"], "c": []})

    def test_unknown_labels(self):
        with pytest.raises(ValueError, match=r"parents has 'z', which is not a node"):
            GraphDisplay(["a"], {"a": ["z"]})
        with pytest.raises(ValueError, match=r"gains has 'z', which is not a node"):
            GraphDisplay(["a"], {}, gains={"z": 1.0})

    def test_no_nodes_and_equal_nodes(self):
        with pytest.raises(ValueError, match="no nodes to draw"):
            GraphDisplay([], {})
        with pytest.raises(ValueError, match="nodes must differ from each other"):
            GraphDisplay(["a", "a"], {})
