"""Laws with atoms, against sums and quadrature; metrics of them against slow twins."""

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import (
    BoundedDensity,
    ClosedFormDensity,
    MixedDensity,
    MixtureDensity,
    SupportMap,
)
from kexpfam.errors import MeasureWarning
from kexpfam.metrics import (
    cde_loss_values,
    crps_values,
    hpd_values,
    log_loss_values,
    measure_of,
    pit,
    pit_uniformity,
    warn_if_measures_differ,
)
from tests.tolerances import assert_close

VALUES = np.array([0.0, 2.0])
PI = np.array([[0.3, 0.1], [0.05, 0.6]])
CENTERS, SCALES = np.array([1.0, 3.0]), np.array([1.0, 0.5])
REST = [stats.norm(c, s) for c, s in zip(CENTERS, SCALES, strict=True)]


@pytest.fixture(scope="module")
def mixed():
    return MixedDensity(
        VALUES, PI, ClosedFormDensity(GaussianBase(1.0), CENTERS, SCALES)
    )


@pytest.fixture(scope="module")
def counts():
    return MixedDensity(
        np.arange(4.0), np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.0, 0.2]])
    )


def slow_cdf(i, y):
    share = 1.0 - PI[i].sum()
    return float(PI[i][y >= VALUES].sum() + share * REST[i].cdf(y))


def test_densities_are_probabilities_at_atoms_and_densities_elsewhere(mixed):
    y = np.array([[0.0, 2.0, 1.0, 0.1]] * 2)
    share = 1.0 - PI.sum(axis=1)
    expected = [
        [*PI[i], share[i] * REST[i].pdf(1.0), share[i] * REST[i].pdf(0.1)]
        for i in range(2)
    ]
    assert_close(mixed.pdf(y), expected)
    assert_close(mixed.pmf(y), np.hstack([PI, np.zeros((2, 2))]))
    assert mixed.measure == "mixed"
    assert_close(mixed.atoms.values, VALUES)
    assert_close(mixed.atoms.probabilities, PI)
    assert_close(mixed.continuous_share, share)


def test_distribution_functions_jump(mixed):
    y = np.array([-1.0, 0.0, 1e-9, 1.5, 2.0 - 1e-9, 2.0, 3.0])
    expected = [[slow_cdf(i, t) for t in y] for i in range(2)]
    assert_close(mixed.cdf(y[None]), expected)
    assert_close(mixed.sf(y[None]), 1.0 - np.array(expected))


def test_quantiles_are_the_first_values_that_reach_a_level(mixed, counts):
    levels = np.linspace(0.001, 0.999, 97)
    for law in (mixed, counts):
        y = law.ppf(levels[None])
        assert np.all(law.cdf(y) >= levels - 1e-9)
        before = law.cdf(y) - law.pmf(y)
        assert np.all(before <= levels + 1e-9)
    assert_close(counts.ppf(counts.cdf(np.array([[0.0, 1.0, 3.0]]))), [[0, 1, 3]] * 2)
    assert_close(mixed.ppf(mixed.cdf(VALUES[None])), [VALUES] * 2)


def test_moments_and_entropy_are_sums_and_integrals(mixed, counts):
    for i in range(2):
        share = 1.0 - PI[i].sum()
        mean = PI[i] @ VALUES + share * CENTERS[i]
        second = PI[i] @ VALUES**2 + share * (CENTERS[i] ** 2 + SCALES[i] ** 2)
        assert_close(mixed.mean()[i], mean)
        assert_close(mixed.std()[i], np.sqrt(second - mean**2))
        # −E log of the density with respect to the mixed measure
        inner = integrate.quad(
            lambda y, i=i, share=share: (
                share * REST[i].pdf(y) * np.log(share * REST[i].pdf(y))
            ),
            CENTERS[i] - 9,
            CENTERS[i] + 9,
        )[0]
        assert mixed.entropy()[i] == pytest.approx(
            -PI[i] @ np.log(PI[i]) - inner, abs=1e-8
        )
    _, p = counts.atoms
    assert_close(counts.mean(), p @ np.arange(4))
    assert_close(counts.entropy(), [stats.entropy(row) for row in p])
    assert counts.mode().tolist() == [3.0, 0.0]


def test_modes_are_the_likelier_of_atoms_and_rest(mixed):
    assert_close(mixed.mode(), [CENTERS[0], 2.0])


def test_draws_have_atoms_and_rest(mixed):
    draws = mixed.rvs(4000, random_state=0)
    for i in range(2):
        for k, value in enumerate(VALUES):
            assert np.mean(draws[i] == value) == pytest.approx(PI[i, k], abs=0.03)
        rest = draws[i][~np.isin(draws[i], VALUES)]
        assert stats.kstest(rest, REST[i].cdf).pvalue > 1e-3


def test_regions_hold_their_mass_and_atoms_as_points(mixed, counts):
    for i, region in enumerate(mixed.hpd(0.8)):
        points = region[region[:, 0] == region[:, 1], 0]
        inside = region[region[:, 0] < region[:, 1]]
        atoms = [v for v in VALUES if np.any((region[:, 0] <= v) & (v <= region[:, 1]))]
        share = 1.0 - PI[i].sum()
        mass = share * sum(REST[i].cdf(b) - REST[i].cdf(a) for a, b in inside)
        mass += PI[i][np.isin(VALUES, atoms)].sum()
        assert mass == pytest.approx(0.8, abs=1e-6)
        assert set(points) <= set(VALUES)
    assert counts.hpd(0.6)[0].tolist() == [[2.0, 3.0]]
    assert counts.hpd(0.85)[1].tolist() == [[0.0, 0.0], [3.0, 3.0]]


def test_an_interval_may_end_at_an_atom(mixed):
    low, high = mixed.interval(0.9)[1]
    assert low == pytest.approx(float(mixed[1].ppf(0.05)))
    assert low <= 2.0 <= high
    assert mixed.quantile(0.5)[1] == 2.0 if hasattr(mixed, "quantile") else True


def test_rows_are_selected_and_single_laws_drop_the_axis(mixed, counts):
    for law in (mixed, counts):
        one = law[1]
        assert one.cdf(1.0) == pytest.approx(law.cdf(1.0)[1])
        assert np.shape(one.mean()) == ()
        assert np.shape(one.atoms.probabilities) == (len(one.atoms.values),)
        assert_close(law[[1, 0]].mean(), law.mean()[::-1])


def test_crps_is_an_integral_over_jumps(mixed, counts):
    y = np.array([0.0, 2.3])
    for i, found in enumerate(crps_values(mixed, y)):
        cuts = np.unique([-9.0, *VALUES, y[i], 12.0])
        slow = sum(
            integrate.quad(lambda t, i=i: (slow_cdf(i, t) - (t >= y[i])) ** 2, a, b)[0]
            for a, b in zip(cuts[:-1] + 1e-12, cuts[1:] - 1e-12, strict=True)
        )
        assert found == pytest.approx(slow, rel=1e-6)
    grid = (np.arange(-2000, 7000) + 0.5) / 1000
    for y in ([3.0, 0.0], [1.5, -1.0]):
        for i, found in enumerate(crps_values(counts, y)):
            F = np.array([counts[i].cdf(t) for t in grid[::10]])
            slow = np.mean((F - (grid[::10] >= y[i])) ** 2) * 9.0
            assert found == pytest.approx(slow, abs=0.02)


def test_squared_losses_add_squared_probabilities(mixed, counts):
    y = np.array([0.0, 2.3])
    for i, found in enumerate(cde_loss_values(mixed, y)):
        share = 1.0 - PI[i].sum()
        square = share**2 / (2 * SCALES[i] * np.sqrt(np.pi)) + (PI[i] ** 2).sum()
        assert found == pytest.approx(square - 2 * float(mixed[i].pdf(y[i])), rel=1e-6)
    _, p = counts.atoms
    expected = (p**2).sum(axis=1) - 2 * p[[0, 1], [3, 0]]
    assert_close(cde_loss_values(counts, [3.0, 0.0]), expected)
    assert_close(log_loss_values(counts, [3.0, 0.0]), -np.log(p[[0, 1], [3, 0]]))


@pytest.mark.parametrize("kind", ["mixed", "counts"])
def test_values_of_a_right_law_are_uniform(kind, request):
    law = request.getfixturevalue(kind)
    many = law[np.arange(1500) % 2]
    y = many.rvs(1, random_state=1)[:, 0]
    assert pit_uniformity(pit(many, y)).pvalue > 1e-3
    assert pit_uniformity(hpd_values(many, y)).pvalue > 1e-3
    # The same draws for the same seed
    assert np.array_equal(pit(many, y), pit(many, y))
    assert not np.array_equal(pit(many, y), pit(many, y, random_state=1))


def test_what_makes_no_law_is_refused():
    rest = ClosedFormDensity(GaussianBase(1.0), np.zeros(2), np.ones(2))
    for values, pi, density, message in [
        ([1.0, 0.0], PI, rest, "values must increase"),
        ([0.0], PI, rest, r"\(n, 1\)"),
        ([0.0, 1.0], PI + 0.4, rest, "more than one in sum"),
        ([0.0, 1.0], PI, None, "sum to one"),
        ([0.0, 1.0], PI[:1], rest, "1 conditions"),
    ]:
        with pytest.raises(ValueError, match=message):
            MixedDensity(values, pi, density)
    law = MixedDensity([0.0], [[0.5], [0.5]], rest)
    with pytest.raises(TypeError, match="without atoms"):
        MixedDensity([1.0], [[0.5], [0.5]], law)
    with pytest.raises(TypeError, match="scipy"):
        law.to_scipy(0)
    with pytest.raises(TypeError, match="without atoms"):
        MixtureDensity([law, law], [0.5, 0.5])


def test_measures_are_compared_with_a_word(mixed, counts):
    rest = mixed.density
    assert measure_of(rest) == ("lebesgue", ())
    assert measure_of(mixed) == ("mixed", (0.0, 2.0))
    assert measure_of(counts) == ("counting", ())
    assert not warn_if_measures_differ({"a": mixed, "b": mixed[:1]})
    with pytest.warns(MeasureWarning, match="different measures .*a: lebesgue"):
        assert warn_if_measures_differ({"a": rest, "b": mixed})


def test_atoms_are_drawn_as_stems(mixed, counts):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for law in (mixed, counts, mixed[0]):
        ax = law.plot()
        assert "probability" in ax.get_ylabel()
        assert len(ax.collections) > 0
        pyplot.close("all")


def test_the_support_reaches_from_the_first_atom_or_density_to_the_last(mixed, counts):
    assert_close(counts.support, [[0.0, 3.0]] * 2)
    assert np.array_equal(mixed.support, [[-np.inf, np.inf]] * 2)
    inner = BoundedDensity(
        ClosedFormDensity(GaussianBase(1.0), CENTERS, SCALES),
        SupportMap(-1.0, 5.0, (0.01, 0.01)),
    )
    for values, ends in (
        (np.array([0.0, 2.0]), (-1.0, 5.0)),
        (np.array([-3.0, 2.0]), (-3.0, 5.0)),
        (np.array([0.0, 7.0]), (-1.0, 7.0)),
        (np.array([-3.0, 7.0]), (-3.0, 7.0)),
    ):
        assert_close(MixedDensity(values, PI, inner).support, [ends] * 2)


@pytest.mark.parametrize(
    "pi",
    [[[-0.1, 0.4], [0.3, 0.2]], [[0.3, 0.2], [0.6, 0.5]], [[0.1, 0.4], [0.3, -0.2]]],
)
def test_probabilities_of_any_law_that_are_none_are_refused(pi):
    rest = ClosedFormDensity(GaussianBase(1.0), CENTERS, SCALES)
    with pytest.raises(ValueError, match="must not be negative, nor more than one"):
        MixedDensity(VALUES, np.array(pi), rest)
