"""What is said of densities is what they say themselves."""

import re

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.display.html import densities_in_html, html_table
from kexpfam.display.summaries import densities_in_words, first_summaries
from kexpfam.distributions import ClosedFormDensity, MixedDensity, MixtureDensity


def normals(*centers):
    return ClosedFormDensity(
        GaussianBase(1.0), np.array(centers), np.ones(len(centers))
    )


@pytest.fixture
def two_modes():
    return MixtureDensity([normals(-3.0, 0.0), normals(3.0, 0.0)], np.array([0.3, 0.7]))


@pytest.fixture
def zero_or_normal():
    return MixedDensity([0.0], [[0.4], [0.1]], normals(3.0, 3.0))


def test_numbers_of_a_summary_are_those_of_the_density(two_modes):
    for i, found in enumerate(first_summaries(two_modes, 2)):
        p = two_modes[i]
        assert found.mean == pytest.approx(p.mean())
        assert found.median == pytest.approx(p.median())
        np.testing.assert_allclose(found.interval, p.interval(0.9))
        # Read off a grid of 161 points.
        np.testing.assert_allclose(found.region, p.hpd(0.9), atol=0.02)
    both, one = first_summaries(two_modes, 2)
    np.testing.assert_allclose(both.modes, [3.0, -3.0], atol=0.02)
    np.testing.assert_allclose(one.modes, [0.0], atol=0.02)


def test_no_more_densities_are_computed_than_are_shown(two_modes):
    assert len(first_summaries(two_modes, 1)) == 1
    assert len(first_summaries(two_modes[1], 5)) == 1


def test_atoms_are_modes_with_their_probability(zero_or_normal):
    words = densities_in_words(zero_or_normal, ["rain"])
    assert "2 densities of rain" in words
    assert "0 (40%), 3" in words
    found = first_summaries(zero_or_normal, 1)[0]
    # The curve beside an atom holds the rest of the mass.
    mass = np.trapezoid(found.curve.pdf, found.curve.y)
    assert mass == pytest.approx(0.6, abs=0.01)


def test_a_mass_function_has_stems_and_no_curve():
    p = MixedDensity([0.0, 1.0, 2.0], [[0.2, 0.5, 0.3]])
    found = first_summaries(p, 1)[0]
    assert found.curve is None
    assert found.modes == (1.0,)
    assert "one mass function of goals" in densities_in_words(p, ["goals"])
    assert densities_in_html(p, ["goals"]).count("<circle") == 3


def test_words_tell_rows_and_how_many_are_left():
    words = densities_in_words(normals(*np.arange(10.0)), ["y"], most=3)
    assert words.splitlines()[0] == "10 densities of y"
    assert words.splitlines()[-1] == "  ... and 7 more"
    assert len(words.splitlines()) == 6


def test_a_single_density_has_no_row():
    assert "row" not in densities_in_words(normals(1.0)[0], ["y"])


def test_nothing_is_said_of_no_densities():
    none = normals(1.0)[:0]
    assert densities_in_words(none, ["y"]) == "0 densities of y"
    assert "0 densities of y" in densities_in_html(none, ["y"])


def test_names_are_escaped_and_there_is_no_script(two_modes):
    page = densities_in_html(two_modes, ["<script>alert(1)</script>&"])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg ") == 2
    assert html_table(("a<b",), [("<i>",)]).count("&lt;") == 2


def test_pictures_of_a_batch_share_an_axis(two_modes):
    # Labels of the ticks are at the same pixels in both rows.
    pictures = re.findall("<svg .*?</svg>", densities_in_html(two_modes, ["y"]))
    labels = [re.findall('<text x="([0-9.]+)".*?>(.*?)</text>', p) for p in pictures]
    assert labels[0] == labels[1] != []


def test_several_columns_have_means_and_draws():
    class Two:
        support = np.tile([-np.inf, np.inf], (2, 2, 1))

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return self

        def mean(self):
            return np.array([[1.0, 2.0], [3.0, 4.0]])

        std = mean

        def rvs(self, size, random_state):
            return np.random.default_rng(random_state).normal(size=(2, size, 2))

    assert "1 ± 1" in densities_in_words(Two(), ["a", "b"])
    page = densities_in_html(Two(), ["a", "b"])
    assert "b against a" in page
    assert page.count("<svg ") == 2
