"""Axes have round ticks that fit, and pictures stay inside their frames."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.display.numbers import CurveNumbers, density_numbers
from kexpfam.display.svg import NamedAxis, number_text, tick_texts, ticks
from kexpfam.distributions import ClosedFormDensity, MixedDensity
from kexpfam.explorer import Question
from kexpfam.explorer.pictures import (
    _bins,
    curve_picture,
    density_content,
    density_frame,
    density_picture,
)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3.2, 17.9), (1e-7, 3e-7), (5e8, 9e8)])
@pytest.mark.parametrize("most", [2, 5, 9])
def test_ticks_are_even_inside_and_not_too_many(ends, most):
    found = ticks(*ends, most)
    assert 1 <= len(found) <= most + 1
    width = ends[1] - ends[0]
    assert min(found) >= ends[0] - 1e-9 * width
    assert max(found) <= ends[1] + 1e-9 * width
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[:1].repeat(len(steps)), rtol=1e-6)


def test_labels_of_ticks_have_the_same_decimals():
    assert tick_texts([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert tick_texts([-20.0, 0.0, 20.0]) == ["−20", "0", "20"]
    assert len(set(tick_texts(ticks(1e-7, 3e-7, 4)))) == len(ticks(1e-7, 3e-7, 4))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(31.0, "31"), (1234567.0, "1,234,567"), (1.5e-7, "1.500e−7"), (np.nan, "–")],
)
def test_numbers_are_for_people(value, expected):
    assert number_text(value) == expected


@pytest.mark.parametrize("width", [200.0, 390.0, 1600.0])
def test_pictures_are_well_formed_and_inside(view, width):
    subject = view.subject
    found = density_numbers(subject.model, subject.row({}), view.axis)
    size = {"width": width, "height": 240.0}
    pictures = [
        density_picture(found, (width, 240.0), "price", 150.0),
        view.curve(Question({"feature": "area", **size}))["picture"],
        view.curve(Question({"feature": "city", **size}))["picture"],
        view.draws(Question(size))["picture"],
        view.calibration(Question(size))["pit_picture"],
        view.calibration(Question(size))["coverage_picture"],
    ]
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("width") == f"{width:.0f}"
        for path in root.iter("{http://www.w3.org/2000/svg}path"):
            assert "nan" not in path.get("d")
            points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d"))
            for x, y in points:
                assert -1.0 <= float(x) <= width + 1.0
                assert -1.0 <= float(y) <= 241.0


def test_atoms_are_stems_with_their_probabilities():
    rest = ClosedFormDensity(GaussianBase(1.0), np.array([3.0]), np.ones(1))
    law = MixedDensity([0.0, 8.0], [[0.4, 0.0]], rest)
    model = SimpleNamespace(given=lambda X: law)
    found = density_numbers(model, np.zeros((1, 1)), (-1.0, 6.0))
    np.testing.assert_allclose(found.atoms, [[0.0, 0.4]])
    svg = density_picture(found, (400.0, 200.0), "rain")
    assert svg.count('class="stem"') == 1
    assert ">40%</text>" in svg


def test_bars_of_counts_hold_whole_numbers_each():
    counts = np.repeat([0.0, 1.0, 2.0, 5.0], 5)
    np.testing.assert_array_equal(
        _bins(counts, 20, (-0.4, 5.4)), np.arange(-1.5, 7.0, 1.0)
    )
    many = np.arange(500.0)
    edges = _bins(many, 500, (0.0, 499.0))
    held = np.histogram(many, edges)[0]
    assert set(np.diff(edges)) == set(held[:-1]) == {16}
    plain = _bins(np.append(counts, 0.5), 21, (0.0, 5.0))
    np.testing.assert_array_equal(plain, np.linspace(0.0, 5.0, 11))


@pytest.mark.parametrize("categories", [(), ("a", "b", "c")])
def test_curves_of_heavy_tails_have_no_mean_where_there_is_none(categories):
    quantiles = np.arange(5.0) + np.zeros((3, 1))
    mean = np.array([2.0, np.nan, 2.0])
    found = CurveNumbers(np.arange(3.0), mean, quantiles, np.zeros(3, dtype=bool))
    along, none = NamedAxis("x", (-0.6, 2.6), categories), np.empty(0)
    svg = curve_picture(found, along, (300.0, 200.0), "y", seen=(none, none))
    assert "nan" not in svg
    assert svg.count('class="mean-line"') == 2


def test_stems_of_two_densities_have_one_scale():
    def tops(masses, likeliest):
        model = SimpleNamespace(given=lambda X: MixedDensity([0.0, 1.0], [masses]))
        found = density_numbers(model, np.zeros((1, 1)), (-1.0, 2.0))
        frame = density_frame(found, (400.0, 200.0))
        svg = density_content(found, frame, "y", None, likeliest)
        stems = re.findall(r'class="stem" d="M[\d.]+ ([\d.]+)V([\d.]+)"', svg)
        return [float(base) - float(top) for base, top in stems]

    low, high = tops([0.2, 0.8], 0.8)
    assert high == pytest.approx(4 * low, abs=0.3)
    assert tops([0.4, 0.6], 0.8)[0] == pytest.approx(2 * low, abs=0.3)
