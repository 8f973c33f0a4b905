"""Masses of components: alarms where they are wrong, silence where there is one."""

import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF
from kexpfam.errors import BlindnessWarning
from kexpfam.family import check_isolated_components, component_std
from kexpfam.family.isolated_components import (
    CHECK,
    IsolatedComponents,
    _chance,
    _effective,
    _narrowed,
    gaps_of_responses,
    nothing_to_compare,
    spread_out,
)
from tests.oracles.isolated_components import slow_check
from tests.tolerances import QUADRATURE, assert_close


def bumps(y, left, centers=(-2.0, 2.0), sd=0.4):
    """Log density of two bumps, the left one with a given mass."""
    parts = [-0.5 * ((y - c) / sd) ** 2 for c in centers]
    return np.logaddexp(np.log(left) + parts[0], np.log1p(-left) + parts[1])


def draw(left, rng, sd=0.4):
    side = np.where(rng.random(len(left)) < left, -2.0, 2.0)
    return side + sd * rng.normal(size=len(left))


Y = np.linspace(-5.0, 5.0, 401)


def check_kef(u):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        p = KEF(select=None).fit(u[:, None]).distribution()
    y = np.linspace(u.min() - 3 * u.std(), u.max() + 3 * u.std(), 600)
    return check_isolated_components(y, p.logpdf(y)[None], u), p


def test_numbers_of_the_report_are_those_of_the_data():
    u = draw(np.full(200, 0.3), np.random.default_rng(0))
    report = check_isolated_components(Y, bumps(Y, 0.6)[None], u)
    worst = report.worst
    assert worst is not None
    observed = np.mean(u < 0)
    assert_close(worst.predicted, 0.6, 1e-6)
    assert_close(worst.observed, observed)
    assert abs(worst.valley) < 0.5
    assert worst.neighbours == pytest.approx(200)
    plain = np.sqrt(observed * (1 - observed) / 200)
    assert worst.standard_error == pytest.approx(plain, rel=0.05)
    assert_close(worst.z, (observed - worst.predicted) / worst.standard_error, 1e-9)
    assert report.suspicious
    assert "the fit puts 60% of the mass below" in str(report)
    assert "fit by likelihood" in str(report)


def test_weights_count_as_rows():
    rng = np.random.default_rng(1)
    u = draw(np.full(50, 0.3), rng)
    counts = rng.integers(1, 4, size=50)
    weighted = check_isolated_components(
        Y, bumps(Y, 0.6)[None], u, counts.astype(float)
    ).worst
    repeated = check_isolated_components(
        Y, bumps(Y, 0.6)[None], np.repeat(u, counts)
    ).worst
    assert_close(weighted.observed, repeated.observed)
    assert weighted.neighbours < repeated.neighbours  # copies are no new evidence


@pytest.mark.slow
def test_right_masses_that_change_with_x_raise_no_alarm():
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(150, 1))
        left = 0.5 + 0.45 * x[:, 0]
        log_p = np.stack([bumps(Y, mass) for mass in left])
        index = spread_out(x)
        near = np.exp(-0.5 * ((x[index] - x[:, 0]) / 0.3) ** 2)
        u = draw(left, rng)
        report = check_isolated_components(Y, log_p, u, neighbours=near, index=index)
        assert len(report.comparisons) > 10
        alarms += report.suspicious
    # A rate of 1 % is aimed at: more than 4 of 100 has a probability of 0.3 %.
    assert alarms <= 4


def test_wrong_masses_that_cancel_over_x_are_found():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(300, 1))
    left = 0.5 + 0.45 * x[:, 0]
    log_p = np.stack([bumps(Y, 1.0 - mass) for mass in left])
    index = spread_out(x)
    near = np.exp(-0.5 * ((x[index] - x[:, 0]) / 0.3) ** 2)
    report = check_isolated_components(
        Y, log_p, draw(left, rng), neighbours=near, index=index
    )
    assert report.suspicious
    assert report.worst.index in index
    assert abs(x[report.worst.index, 0]) > 0.3


def test_a_component_that_the_fit_has_lost_is_found():
    u = draw(np.full(200, 0.3), np.random.default_rng(4))
    lost = stats.norm(2.0, 0.4).logpdf(Y)[None]
    report = check_isolated_components(Y, lost, u)
    assert report.suspicious
    assert report.worst.predicted < 1e-6


def test_without_isolated_components_there_is_nothing_to_compare():
    u = np.random.default_rng(5).normal(size=200)
    report = check_isolated_components(Y, stats.norm.logpdf(Y)[None], u)
    assert report.comparisons == ()
    assert report.worst is None
    assert not report.suspicious
    assert "No isolated components" in str(report)


def test_a_few_densities_tell_that_there_is_nothing_to_compare():
    rng = np.random.default_rng(3)
    y, x = np.linspace(-6, 6, 300), rng.normal(size=800)
    near = np.exp(-0.5 * (x[:5, None] - x) ** 2)
    one = -0.5 * (y - x[:50, None]) ** 2
    u = x + rng.normal(size=800)
    assert nothing_to_compare(y, one, u, np.ones(800), near)
    assert not check_isolated_components(
        y, -0.5 * (y - x[:, None]) ** 2, u, neighbours=near, index=np.arange(5)
    ).suspicious
    # A valley of a fitted density, or a gap of the responses, is looked at.
    two = np.logaddexp(one, -0.5 * (y - x[:50, None] - 8.0) ** 2)
    assert not nothing_to_compare(y, two, u, np.ones(800), near)
    apart = np.where(rng.random(800) < 0.5, -4.0, 4.0) + 0.5 * rng.normal(size=800)
    assert not nothing_to_compare(y, one, apart, np.ones(800), near)


def test_an_outlier_is_no_component():
    u = np.append(np.random.default_rng(6).normal(size=100), 30.0)
    y = np.linspace(-5, 35, 800)
    assert not check_isolated_components(y, stats.norm.logpdf(y)[None], u).suspicious


def test_fits_with_wrong_masses_are_reported():
    missed = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        u = np.where(rng.random(500) < 0.3, -4.0, 4.0) + rng.normal(size=500)
        report, p = check_kef(u)
        wrong = abs(p.cdf(0.0) - np.mean(u < 0))
        if wrong > 0.08 and not report.suspicious:
            missed.append(seed)
    assert missed == []


UNIMODAL_OR_OVERLAPPING = {
    "normal": lambda rng: rng.normal(size=150),
    "student": lambda rng: rng.standard_t(3, size=150),
    "skewed": lambda rng: rng.exponential(size=150),
    "overlapping": lambda rng: rng.choice([-1.5, 1.5], 150) + rng.normal(size=150),
}


@pytest.mark.slow
def test_alarms_are_rare_where_components_overlap_or_are_one():
    alarms = 0
    for seed in range(50):
        for make in UNIMODAL_OR_OVERLAPPING.values():
            alarms += check_kef(make(np.random.default_rng(seed)))[0].suspicious
    assert alarms <= 4  # 2 % of 200


@pytest.mark.slow
def test_conditional_fits_are_checked_near_several_conditions():
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, size=(400, 1))
    mean = np.sin(3 * x[:, 0])
    left = rng.random(400) < 0.5 + 0.3 * x[:, 0]
    noise = 0.3 * rng.normal(size=400)
    y = np.linspace(-5, 9, 500)

    def check(u):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlindnessWarning)
            model = KCEF(select=None, fit_method="score").fit(x, u)
        index = spread_out(x)
        near = model.kernel_.terms[0][0].values(x[index] / x.std(), x / x.std())
        log_p = model.given(x).logpdf(y[None])
        return check_isolated_components(y, log_p, u, neighbours=near, index=index)

    assert check(mean + noise + np.where(left, 0.0, 3.6)).suspicious
    assert not check(mean + noise).suspicious


def test_spread_out_rows_are_distinct_and_cover():
    x = np.random.default_rng(8).normal(size=(100, 2))
    index = spread_out(x, 10)
    assert len(set(index.tolist())) == 10
    nearest = np.sqrt(((x[:, None] - x[index]) ** 2).sum(axis=2)).min(axis=1)
    apart = np.sqrt(((x[index][:, None] - x[index]) ** 2).sum(axis=2))
    assert nearest.max() <= apart[np.triu_indices(10, 1)].min() + QUADRATURE
    assert spread_out(np.zeros((5, 1))).tolist() == [0]


@pytest.mark.slow
def test_the_example_of_the_failure_says_what_is_wrong(capsys, monkeypatch, tmp_path):
    path = Path(__file__).parents[2] / "examples" / "failure_case.py"
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture), "120"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "score matching warns: Masses of isolated components are wrong" in printed
    assert printed.count("warns") == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    masses = {
        line.rsplit(maxsplit=4)[0].strip(): np.array(line.split()[-4:], dtype=float)
        for line in printed.splitlines()
        if line.split()[-1:] and line.startswith("      ")
    }
    truth = masses.pop("truth")
    errors = {name: np.abs(mass - truth).mean() for name, mass in masses.items()}
    blind = errors.pop("score matching")
    assert len(errors) == 3
    # Thirty rows around each x tell a mass to about 0.08.
    assert max(errors.values()) < 0.15
    assert blind > 0.18


def moving(n, separation, wrong, seed):
    """True densities that move with x by more than they are apart, and responses."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, size=n)
    u = x + separation * (rng.random(n) < 0.5) + 0.4 * rng.normal(size=n)
    y = np.linspace(u.min() - 1.0, u.max() + 1.0, 150)
    z = (y - x[:, None]) / 0.4
    parts = [
        np.log(0.5 - wrong) - 0.5 * z**2,
        np.log(0.5 + wrong) - 0.5 * (z - separation / 0.4) ** 2,
    ]
    index = np.arange(10)
    near = np.exp(-0.5 * ((x[index][:, None] - x) / 0.5) ** 2)
    return check_isolated_components(
        y, np.logaddexp(*parts), u, neighbours=near, index=index
    )


def test_an_error_of_five_points_shows_over_all_rows_though_components_move():
    report = moving(3000, 3.0, 0.06, 0)
    assert report.suspicious
    assert report.worst.index is None
    assert not moving(3000, 3.0, 0.0, 1).suspicious


@pytest.mark.parametrize("separation", [0.0, 1.2], ids=["one mode", "touching"])
def test_gaps_by_chance_are_no_components(separation):
    assert not any(moving(600, separation, 0.0, seed).found for seed in range(5))


def test_the_chance_of_a_gap_is_that_of_a_sign_test():
    U = np.concatenate([np.linspace(-3, -1, 40), [0.2], np.linspace(1.2, 3.4, 12)])
    found = _chance(np.ones(len(U)), U, -0.9, 0.9)
    # As long an interval around the median of the smaller side, 2.2 or 2.4.
    middle = np.sort(U[U > 0.9])[5]
    beside = np.sum(np.abs(U - middle) <= 0.9)
    slow = stats.binomtest(1, 1 + beside, 0.5, alternative="less").pvalue
    assert_close(found, slow)


def test_std_within_components_is_that_of_each_around_its_mean():
    rng = np.random.default_rng(4)
    u = np.concatenate([rng.normal(-4, 0.5, 100), rng.normal(4, 0.5, 50)])
    parts = [u[:100] - u[:100].mean(), u[100:] - u[100:].mean()]
    slow = np.sqrt(np.mean(np.concatenate(parts) ** 2))
    assert_close(component_std(u, np.ones(150)), slow)
    assert_close(component_std(u[:100], np.ones(100)), u[:100].std())


def assert_compared_alike(report, expected):
    found = [
        (c.index, c.valley, c.predicted, c.observed, c.standard_error, c.neighbours)
        for c in report.comparisons
    ]
    assert [row[0] for row in found] == [row[0] for row in expected]
    for one, other, comparison in zip(found, expected, report.comparisons, strict=True):
        assert_close(one[1:], other[1:6], 1e-9)
        assert_close(comparison.chance, other[6], 1e-9, scale=1e-6 + other[6])


@pytest.mark.parametrize("seed", range(8))
def test_comparisons_are_those_of_loops_over_rows_and_nodes(seed):
    """Of two bumps or three that move with x, in the right places or not."""
    rng = np.random.default_rng(seed)
    n = 120
    x = rng.uniform(-1.0, 1.0, n)
    weights = rng.integers(0, 3, n).astype(float)
    centers = [-3.0, 2.0, 6.0][: 2 + seed % 2]
    shares = rng.dirichlet(np.full(len(centers), 4.0))
    u = rng.choice(centers, n, p=shares) + 0.8 * x + 0.4 * rng.normal(size=n)
    y = np.sort(rng.uniform(-6.0, 9.0, 90))  # of any distance
    wrong = rng.dirichlet(np.full(len(centers), 2.0))
    # Every fifth row's density has a single bump, and one has more of them.
    bumps = [
        np.log(share) - 0.5 * ((y - center - 0.8 * x[:, None]) / 0.5) ** 2
        for share, center in zip(wrong, centers, strict=True)
    ]
    log_p = np.logaddexp.reduce(bumps)
    log_p[::5] = bumps[0][::5]
    log_p[7] = np.logaddexp(log_p[7], -0.5 * ((y + 5.5) / 0.2) ** 2)
    near = np.exp(-0.5 * ((x[:4, None] - x) / 0.7) ** 2)
    near[3] = np.abs(x - x[3]) < 0.05  # of few rows
    if seed == 5:
        log_p = np.tile(log_p[1:2], (1, 1))
    report = check_isolated_components(y, log_p, u, weights, neighbours=near)
    expected = slow_check(y, log_p, u, weights, near, _narrowed)
    assert len(expected) > 1
    assert report.conditional is (seed != 5)
    assert_compared_alike(report, expected)


def test_the_mass_at_a_gap_of_the_responses_is_that_of_the_density_there():
    """A fit with one wide bump over two of the responses, on coarse nodes."""
    rng = np.random.default_rng(2)
    u = np.concatenate([rng.normal(-3.0, 0.5, 60), rng.normal(3.0, 0.5, 140)])
    y = np.linspace(-8.0, 8.0, 41)
    report = check_isolated_components(y, stats.norm(0.0, 3.0).logpdf(y)[None], u)
    (one,) = report.comparisons
    assert abs(one.valley) < 2.0
    assert_close(one.predicted, stats.norm(0.0, 3.0).cdf(one.valley), 0.01)
    assert_close(one.observed, 0.3)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_the_chance_of_any_false_alarm_is_the_level(count):
    """Independent comparisons of right masses, each a standard normal number."""
    u = draw(np.full(200, 0.3), np.random.default_rng(0))
    one = check_isolated_components(Y, bumps(Y, 0.6)[None], u).worst
    report = IsolatedComponents((one,) * count)
    any_alarm = 1.0 - (1.0 - 2.0 * stats.norm.sf(report.threshold)) ** count
    # Bonferroni's bound is a little more than that.
    assert_close(any_alarm, 0.01, 0.006)
    assert any_alarm <= 0.01 + 1e-9
    assert IsolatedComponents(()).threshold == IsolatedComponents((one,)).threshold


def test_effective_numbers_and_narrowed_neighbourhoods():
    near = np.exp(-0.5 * np.linspace(-3.0, 3.0, 500) ** 2)
    assert_close(_effective(np.full(40, 0.3)), 40.0)
    assert_close(_effective(near), near.sum() ** 2 / np.sum(near**2))
    assert _effective(np.zeros(3)) == 0.0
    narrow = _narrowed(near)
    # A power of two of them, the first that leaves no more than enough.
    power = np.log(narrow[100]) / np.log(near[100])
    assert_close(power, np.round(power))
    assert power in (2, 4, 8, 16, 32, 64, 128)
    assert (
        _effective(narrow) <= CHECK.enough_neighbours < _effective(near ** (power / 2))
    )
    few = near[::12]
    np.testing.assert_array_equal(_narrowed(few), few)
    np.testing.assert_array_equal(_narrowed(np.full(300, 0.5)), np.full(300, 0.5))


@pytest.mark.parametrize(("count", "told"), [(4, False), (6, True)])
def test_gaps_have_a_twentieth_of_the_responses_on_either_side(count, told):
    u = np.concatenate(
        [np.linspace(-0.5, 0.5, 100 - count), np.linspace(9, 9.4, count)]
    )
    places = gaps_of_responses(u, np.ones(100))
    assert len(places) == told
    assert all(0.5 < place < 9.0 for place in places)
    assert gaps_of_responses(np.zeros(100), np.ones(100)) == []
