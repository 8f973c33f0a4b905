"""Metrics agree with closed forms and slow integrals, and point the declared way."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from kexpfam import KCEF, metrics
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import MixedDensity, MixtureDensity
from kexpfam.errors import AccuracyWarning
from kexpfam.metrics.evaluation import metric_rows
from kexpfam.metrics.observations import estimate, integrate_rows
from tests.densities import closed_form
from tests.oracles.scores import (
    Frozen,
    GaussianModel,
    Gaussians,
    Mixture,
    slow_cde_loss,
    slow_crps,
    slow_hpd_value,
    slow_integral,
)
from tests.tolerances import KS_LEVEL, QUADRATURE, STANDARD_ERRORS, assert_close

# What scipy reaches on half-lines under a Cauchy tail; see the exact twin below.
HEAVY = 1e-8

# A grid of 400000 cells over at most 100 scales finds a level to about 1e-4 of mass.
GRID = 2e-4

TWO_BUMPS = Mixture([0.3, 0.7], [stats.norm(-3, 0.5), stats.norm(2, 1)])
FAR_APART = Mixture([0.5, 0.5], [stats.norm(0, 1e-3), stats.norm(1000, 1e-3)])
SPIKE = Mixture([0.01, 0.99], [stats.norm(0.3, 1e-7), stats.norm(0, 1)])
STEPS = Mixture([0.25, 0.75], [stats.uniform(0, 1), stats.uniform(0.3, 4)])

# Each density with breaks for the oracle, and where it is observed.
DENSITIES = {
    "gaussian": (stats.norm(2, 0.5), [2], [2.3, 2.0, 0.0, 30.0]),
    "student": (stats.t(3), [-30, 0, 30], [0.2, -4.0, 60.0]),
    "cauchy": (stats.cauchy(), [-1e3, -10, 0, 10, 1e3], [0.1, 12.0]),
    "exponential": (stats.expon(), [1, 10], [0.0, 0.5, 7.0, -1.0]),
    "uniform": (stats.uniform(1, 2), [], [1.5, 3.0, 5.0]),
    "two bumps": (TWO_BUMPS, [-6, -3, -1, 2, 6, 8], [-3.0, -0.5, 2.4]),
    "far apart": (
        FAR_APART,
        [-0.01, 0, 0.01, 999.99, 1000, 1000.01],
        [0.0005, 500.0, 1000.0],
    ),
    "spike": (
        SPIKE,
        [-6, 0.3 - 1e-6, 0.3, 0.3 + 1e-6, 6],
        [0.3, 0.0, 2.0],
    ),
    "steps": (STEPS, [0, 0.3, 1, 4.3], [0.1, 0.5, 2.0]),
}


@pytest.fixture(params=DENSITIES, scope="module")
def case(request):
    one, points, y = DENSITIES[request.param]
    tolerance = HEAVY if request.param == "cauchy" else QUADRATURE
    return one, points, np.array(y), tolerance


@pytest.fixture(scope="module")
def line():
    """x and y = x + standard normal noise."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-2, 2, size=(600, 1))
    y = x[:, 0] + rng.normal(size=600)
    x.flags.writeable = y.flags.writeable = False
    return x, y


class TestScores:
    def test_crps_is_the_integral(self, case):
        one, points, y, tolerance = case
        found = metrics.crps_values(Frozen(*[one] * len(y)), y)
        assert_close(found / [slow_crps(one, t, points) for t in y], 1.0, tolerance)

    def test_cde_loss_is_the_integral(self, case):
        one, points, y, tolerance = case
        found = metrics.cde_loss_values(Frozen(*[one] * len(y)), y)
        assert_close(found, [slow_cde_loss(one, t, points) for t in y], tolerance)

    def test_crps_of_gaussians_has_a_closed_form_at_any_scale(self):
        rng = np.random.default_rng(0)
        mean, scale = rng.normal(size=50) * 100, 10.0 ** rng.uniform(-150, 150, 50)
        z = rng.normal(size=50) * 2
        closed = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z)
        closed = scale * (closed - 1 / np.sqrt(np.pi))
        p = Gaussians(mean * scale, scale)
        y = mean * scale + z * scale
        assert_close(metrics.crps_values(p, y) / closed, 1.0, QUADRATURE)
        square = 1 / (2 * np.sqrt(np.pi)) - 2 * stats.norm.pdf(z)
        assert_close(metrics.cde_loss_values(p, y) * scale, square, QUADRATURE)

    def test_crps_without_a_mean_is_exact_too(self):
        # With t = −cot(s), F = s/π, and F² dt = (s / (π sin s))² ds is bounded.
        def tail(end):
            return slow_integral(lambda s: (s / (np.pi * np.sin(s))) ** 2, 0.0, end)

        y = np.array([0.1, -12.0, 1e4])
        s = np.arctan(y) + 0.5 * np.pi
        exact = [tail(end) + tail(np.pi - end) for end in s]
        found = metrics.crps_values(Frozen(*[stats.cauchy()] * 3), y)
        assert_close(found / exact, 1.0, QUADRATURE)

    def test_crps_of_a_fit_is_the_expected_distance_less_half_the_spread(
        self, line_case
    ):
        p, y = line_case.density, np.array([4.0, 5.5, 8.0])
        draws = p.rvs(40_000, random_state=0)
        first, second = draws[:, :20_000], draws[:, 20_000:]
        parts = np.abs(first - y[:, None]) - 0.5 * np.abs(first - second)
        error = parts.std(axis=1) / np.sqrt(20_000)
        gap = metrics.crps_values(p, y) - parts.mean(axis=1)
        assert np.all(np.abs(gap) < STANDARD_ERRORS * error)

    def test_scores_of_a_fit_are_the_integrals(self, line_case):
        p, y = line_case.density, np.array([4.0, 5.5, 8.0])
        cuts = [0, 2, 3, 4, 5, 6, 7, 8, 9]
        for i, t in enumerate(y):
            one = p[i]
            # 300 scales away a Student tail of three degrees of freedom has squared
            # mass 1e-15, which times its length is below the tolerance.
            low, high = np.clip(one.support, -300, 300)
            fake = SimpleNamespace(
                cdf=one.cdf, pdf=one.pdf, support=lambda e=(low, high): e
            )
            assert_close(
                metrics.crps_values(p, y)[i], slow_crps(fake, t, cuts), QUADRATURE
            )
            assert_close(
                metrics.cde_loss_values(p, y)[i],
                slow_cde_loss(fake, t, cuts),
                QUADRATURE,
            )

    def test_log_loss_is_minus_the_score(self, gaussian_case, curve):
        x, y = curve
        model = gaussian_case.model
        assert_close(metrics.log_loss(model.given(x), y), -model.score(x, y))

    def test_log_loss_takes_several_columns(self, plane_case, plane):
        y = plane[1][:2]
        loss = metrics.log_loss(plane_case.density, y)
        assert_close(loss, -plane_case.model.score(plane_case.X, y))
        alone = [metrics.log_loss(plane_case.density[i], y[[i]]) for i in range(2)]
        assert_close(loss, np.mean(alone))

    def test_log_loss_of_an_impossible_observation_is_infinite(self):
        p = Frozen(stats.expon(), stats.expon())
        assert metrics.log_loss(p, [1.0, -1.0]) == np.inf
        assert metrics.log_loss(p, [1.0, -1.0], sample_weight=[1, 0]) == 1.0

    # Not of a Cauchy density: its quantile losses have no mean over levels.
    @pytest.mark.parametrize("name", sorted({*DENSITIES} - {"cauchy"}))
    def test_pinball_loss_over_all_levels_is_half_the_crps(self, name):
        one, _, y = DENSITIES[name]
        p = Frozen(*[one] * len(y))
        levels = (np.arange(4000) + 0.5) / 4000
        # The midpoint rule leaves out about (mean beyond the last level) / 4000.
        found = 2 * metrics.pinball_loss_values(p, y, levels).mean(axis=1)
        assert_close(found / metrics.crps_values(p, y), 1.0, 2e-3)

    def test_pinball_loss_of_the_median_is_half_the_absolute_error(self):
        p = Gaussians(np.array([0.0, 1.0]), np.ones(2))
        assert metrics.pinball_loss(p, [1.0, -1.0], 0.5) == pytest.approx(0.75)

    def test_interval_score_is_width_plus_misses(self):
        p = Frozen(*[stats.uniform(0, 1)] * 3)
        # The 80 % interval is (0.1, 0.9); a miss of 0.2 costs 0.2 · 2/0.2.
        scores = metrics.interval_score_values(p, [0.5, 1.1, -0.1], 0.8)
        assert_close(scores, [0.8, 2.8, 2.8])

    def test_a_single_density_takes_many_observations(self, bimodal):
        y = np.array([-2.0, 0.0, 2.5])
        for name in ("log_loss", "crps", "cde_loss", "interval_score"):
            values = getattr(metrics, f"{name}_values")
            each = [values(bimodal, [t])[0] for t in y]
            assert_close(values(bimodal, y), each)
        each = [metrics.hpd_values(bimodal, [t])[0] for t in y]
        assert_close(metrics.hpd_values(bimodal, y), each)


class TestCalibration:
    def test_hpd_values_are_masses_of_denser_places(self, case):
        one, _, y, _ = case
        found = metrics.hpd_values(Frozen(*[one] * len(y)), y)
        if one is SPIKE:
            # A mode this narrow may be overlooked, which costs at most its mass.
            wide = [0.0, 0.0, 2 * stats.norm.cdf(2) - 1]
            assert_close(found, wide, 0.01 + 1e-4, scale=1.0)
            return
        if one is FAR_APART:
            z = np.abs(y[[0]]) / 1e-3
            expected = [2 * stats.norm.cdf(z[0]) - 1, 1.0, 0.0]
            # At the top itself the plateau, 1e-9 in log p, has mass 4e-5.
            assert_close(found, expected, 1e-4, scale=1.0)
            return
        low, high = np.clip(one.ppf([1e-6, 1 - 1e-6]), -1e3, 1e3)
        slow = [slow_hpd_value(one, t, low, high) for t in y]
        # The grid leaves out what a Cauchy density has beyond 1000, 6e-4.
        beyond = 1e-3 if one is DENSITIES["cauchy"][0] else GRID
        assert_close(found, slow, beyond, scale=1.0)

    def test_hpd_values_at_the_ends_of_regions_are_their_confidence(self, line_case):
        p = line_case.density
        for confidence in (0.3, 0.9):
            regions = p.hpd(confidence)
            support = p.support[0]
            for i, region in enumerate(regions):
                ends = region[(region > support[0]) & (region < support[1])]
                found = metrics.hpd_values(p[i], ends)
                assert_close(found, np.full(len(ends), confidence), 1e-7, scale=1.0)

    def test_tops_hidden_between_the_points_of_the_search_are_found(self):
        # y is on the slope of the wide part, a little lower than a narrow top.
        missed = []
        for center in np.linspace(1.5, 2.2, 8):
            parts = [stats.norm(0, 1), stats.norm(center, 0.04)]
            one = Mixture([0.98, 0.02], parts)
            level = 0.98 * one.pdf(center)
            y = -np.sqrt(-2 * np.log(level / 0.98 * np.sqrt(2 * np.pi)))
            slow = slow_hpd_value(one, y, -7, 7)
            without_top = 0.98 * (1 - 2 * stats.norm.cdf(y))
            assert slow - without_top > 10 * GRID  # the top matters
            missed.append(abs(metrics.hpd_values(Frozen(one), [y])[0] - slow))
        assert max(missed) < GRID

    def test_a_plateau_counts_whole(self):
        p = Frozen(stats.uniform(), stats.uniform())
        assert_close(metrics.hpd_values(p, [0.2, 0.9]), [1.0, 1.0])

    def test_outside_the_support_everything_is_denser(self):
        p = Frozen(stats.expon())
        assert metrics.hpd_values(p, [-1.0]) == [1.0]
        assert metrics.hpd_coverage(p, [-1.0], 0.99) == 0.0
        assert metrics.coverage(p, [-1.0], 0.99) == 0.0

    def test_draws_of_the_model_are_calibrated(self, line_case):
        p = line_case.density
        for i in range(3):
            y = p[i].rvs(500, random_state=i)
            for values in (metrics.pit(p[i], y), metrics.hpd_values(p[i], y)):
                assert stats.kstest(values, "uniform").pvalue > KS_LEVEL

    def test_coverage_counts_the_intervals_and_regions_themselves(self, gaussian_case):
        model = gaussian_case.model
        x = np.linspace(-1, 1, 12)[:, None]
        p = model.given(x)
        y = p.rvs(1, random_state=3)[:, 0]
        for a in (0.3, 0.9):
            low, high = p.interval(a).T
            inside = np.mean((low <= y) & (y <= high))
            assert metrics.coverage(p, y, a) == inside
            regions = p.hpd(a)
            held = [
                np.any((r[:, 0] <= t) & (t <= r[:, 1]))
                for r, t in zip(regions, y, strict=True)
            ]
            assert metrics.hpd_coverage(p, y, a) == np.mean(held)

    def test_coverage_has_the_shape_of_the_confidence(self, line):
        x, y = line
        p = GaussianModel().given(x)
        assert np.ndim(metrics.coverage(p, y, 0.5)) == 0
        found = metrics.coverage(p, y, [0.5, 0.9])
        assert found.shape == (2,)
        assert found[1] == metrics.coverage(p, y, 0.9)

    def test_intervals_too_narrow_cover_less_and_too_wide_more(self, line):
        x, y = line
        for function in (metrics.coverage, metrics.hpd_coverage):
            narrow, right, wide = (
                function(GaussianModel(scale=s).given(x), y, 0.8) for s in (0.5, 1, 2)
            )
            assert narrow < 0.6
            assert abs(right - 0.8) < STANDARD_ERRORS * np.sqrt(0.16 / len(y))
            assert wide > 0.95

    def test_uniformity_is_that_of_scipy(self, line):
        x, y = line
        for model in (GaussianModel(), GaussianModel(shift=0.1)):
            values = metrics.pit(model.given(x), y)
            ours, scipys = (
                metrics.pit_uniformity(values),
                stats.kstest(values, "uniform"),
            )
            assert ours.statistic == pytest.approx(scipys.statistic, rel=1e-12)
            assert ours.pvalue == pytest.approx(scipys.pvalue, rel=1e-9)

    def test_uniformity_does_not_depend_on_the_scale_of_weights(self, line):
        _, y = line
        u = stats.norm.cdf(y / 3)
        plain = metrics.pit_uniformity(u)
        scaled = metrics.pit_uniformity(u, sample_weight=np.full(len(u), 0.01))
        assert scaled.statistic == pytest.approx(plain.statistic, rel=1e-12)
        assert scaled.pvalue == pytest.approx(plain.pvalue, rel=1e-9)


class TestDirections:
    @pytest.mark.parametrize("name", metrics.METRICS)
    @pytest.mark.parametrize(
        "worse",
        [GaussianModel(shift=1.0), GaussianModel(scale=3.0)],
        ids=["shifted", "wide"],
    )
    def test_the_true_model_is_better_in_the_declared_direction(
        self, name, worse, line
    ):
        x, y = line
        metric = metrics.METRICS[name]
        best, other = (
            metric.badness(metric.function(model.given(x), y))
            for model in (GaussianModel(), worse)
        )
        assert best < other

    def test_every_metric_says_where_it_points(self):
        for name, metric in metrics.METRICS.items():
            assert metric.function is getattr(metrics, name)
            assert (metric.target is None) == (metric.direction != "calibration")

    def test_higher_is_turned_around(self):
        metric = metrics.Metric("score", len, "higher")
        assert metric.badness(2.0) < metric.badness(1.0)

    def test_the_registry_cannot_be_changed(self):
        with pytest.raises(TypeError):
            metrics.METRICS["new"] = None


class TestWeights:
    @pytest.mark.parametrize("name", metrics.METRICS)
    def test_weight_two_is_two_rows_and_weight_zero_is_none(self, name, line):
        x, y = line[0][:40], line[1][:40]
        function = metrics.METRICS[name].function
        weights = np.resize([0, 1, 2], 40)
        twice = np.repeat(np.arange(40), weights)
        p, repeated = (GaussianModel().given(rows) for rows in (x, x[twice]))
        assert_close(
            function(p, y, sample_weight=weights), function(repeated, y[twice])
        )

    def test_standard_errors_are_those_of_means_and_of_draws(self, line):
        x, y = line
        result = metrics.evaluate(GaussianModel(), x, y)
        values = metrics.log_loss_values(GaussianModel().given(x), y)
        assert_close(result.log_loss.standard_error, stats.sem(values))
        scaled = metrics.evaluate(
            GaussianModel(), x, y, sample_weight=np.full(len(y), 7.0)
        )
        assert_close(scaled.crps.standard_error, result.crps.standard_error)

    def test_weighted_standard_error_is_the_spread_of_repeated_means(self):
        rng = np.random.default_rng(5)
        weights = rng.exponential(size=200)
        runs = [estimate(rng.normal(size=200), weights) for _ in range(2000)]
        spread = np.std([run.value for run in runs])
        stated = np.mean([run.standard_error for run in runs])
        # The spread of 2000 values is known to 1/√4000 = 1.6 %.
        assert stated == pytest.approx(spread, rel=STANDARD_ERRORS * 0.016)


class TestEvaluate:
    def test_numbers_are_those_of_the_functions_whatever_the_blocks(self):
        rng = np.random.default_rng(8)
        x = rng.normal(size=(50, 1))
        y = x[:, 0] + rng.normal(size=50)
        weights = rng.exponential(size=50)
        blocks = metric_rows(GaussianModel(), x, y, block_rows=16)
        assert_close(blocks, metric_rows(GaussianModel(), x, y))
        result = metrics.evaluate(GaussianModel(), x, y, sample_weight=weights)
        p = GaussianModel().given(x)
        for name in ("log_loss", "crps", "cde_loss", "interval_score"):
            alone = metrics.METRICS[name].function(p, y, sample_weight=weights)
            assert_close(getattr(result, name).value, alone)
        for name in ("coverage", "hpd_coverage"):
            alone = getattr(metrics, name)(
                p, y, result.confidence, sample_weight=weights
            )
            assert_close([part.value for part in getattr(result, name)], alone)
        assert_close(result.pit, metrics.pit(p, y))
        assert_close(result.hpd_values, metrics.hpd_values(p, y))
        assert result.pit_uniformity == metrics.pit_uniformity(
            result.pit, sample_weight=weights
        )

    # The untuned fit gets the masses of the two branches wrong.
    @pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames_are_cut_into_blocks_too(self, frame, curve):
        x, y = curve
        X = frame({"length": x[:, 0]})
        model = KCEF(select=None).fit(X, y)
        log_losses, *_ = metric_rows(model, X, y, block_rows=16)
        assert_close(log_losses, -model.score_samples(X, y))

    def test_the_table_shows_every_number(self, line):
        x, y = line
        result = metrics.evaluate(GaussianModel(), x, y, confidence=[0.5, 0.9])
        table = str(result)
        assert "600 rows" in table
        for part in (result.log_loss, result.crps, result.cde_loss):
            assert str(part) in table
        for part in (*result.coverage, *result.hpd_coverage):
            assert str(part) in table
        assert all(len(row) <= 88 for row in table.splitlines())

    def test_a_result_cannot_be_changed(self, line):
        result = metrics.evaluate(GaussianModel(), line[0][:5], line[1][:5])
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.crps = None

    def test_one_row_has_no_standard_error(self, line):
        result = metrics.evaluate(GaussianModel(), line[0][:1], line[1][:1])
        assert np.isnan(result.crps.standard_error)


ONE_COLUMN = [
    metrics.crps,
    metrics.cde_loss,
    metrics.pinball_loss,
    metrics.interval_score,
    metrics.pit,
    metrics.pit_distance,
    metrics.hpd_values,
    metrics.coverage,
    metrics.hpd_coverage,
]


class TestBadInput:
    @pytest.mark.parametrize("function", ONE_COLUMN, ids=lambda f: f.__name__)
    def test_several_columns_are_refused(self, function, plane_case, plane):
        with pytest.raises(ValueError, match="is for one column of y, and these"):
            function(plane_case.density, plane[1][:2])

    def test_evaluate_refuses_several_columns(self, plane_case, plane):
        with pytest.raises(ValueError, match="evaluate is for one column of y"):
            metrics.evaluate(plane_case.model, plane[0][:1], plane[1][:1])

    def test_log_loss_checks_the_shape_of_several_columns(self, plane_case, plane):
        y = plane[1][:2]
        with pytest.raises(ValueError, match=r"shape \(2, 2\), got shape \(2,\)"):
            metrics.log_loss(plane_case.density, y[:, 0])

    @pytest.mark.parametrize("function", [metrics.log_loss, *ONE_COLUMN])
    @pytest.mark.parametrize(
        ("y", "message"),
        [
            ([1.0], r"shape \(2,\), got shape \(1,\)"),
            ([[1.0, 2.0]], r"shape \(2,\), got shape \(1, 2\)"),
            ([1.0, np.nan], "y contains NaN or infinity"),
            ([1.0, np.inf], "y contains NaN or infinity"),
            (["a", "b"], "y must be a number or an array of numbers"),
            ([], "at least one row"),
            (1.0, "at least one row"),
        ],
    )
    def test_observations_are_checked(self, function, y, message):
        with pytest.raises(ValueError, match=message):
            function(Gaussians(np.zeros(2), np.ones(2)), y)

    def test_a_column_of_observations_is_taken(self):
        p = Gaussians(np.zeros(2), np.ones(2))
        assert metrics.crps(p, [[0.0], [1.0]]) == metrics.crps(p, [0.0, 1.0])

    @pytest.mark.parametrize("level", [0.0, 1.0, -1.0, np.nan])
    def test_levels_lie_strictly_between_zero_and_one(self, level):
        p, y = Gaussians(np.zeros(2), np.ones(2)), [0.0, 1.0]
        for function in (
            metrics.coverage,
            metrics.hpd_coverage,
            metrics.interval_score,
            metrics.pinball_loss,
        ):
            with pytest.raises(ValueError, match="strictly between 0 and 1"):
                function(p, y, level)

    def test_shapes_of_levels_are_checked(self):
        p, y = Gaussians(np.zeros(2), np.ones(2)), [0.0, 1.0]
        with pytest.raises(ValueError, match="confidence must be one number"):
            metrics.interval_score(p, y, [0.5, 0.9])
        with pytest.raises(ValueError, match="levels must be a number or a flat list"):
            metrics.pinball_loss(p, y, [[0.5]])

    def test_weights_are_checked(self):
        p, y = Gaussians(np.zeros(2), np.ones(2)), [0.0, 1.0]
        with pytest.raises(ValueError, match=r"sample_weight must have shape \(2,\)"):
            metrics.crps(p, y, sample_weight=[1.0])

    def test_evaluate_wants_as_many_rows_of_X_as_of_y(self):
        with pytest.raises(ValueError, match="as many rows, got 3 and 2"):
            metrics.evaluate(GaussianModel(), np.zeros((3, 1)), [0.0, 1.0])

    @pytest.mark.parametrize("values", [[1.5], [[0.5]], []])
    def test_uniformity_wants_a_flat_list_of_probabilities(self, values):
        with pytest.raises(ValueError, match="values must"):
            metrics.pit_uniformity(values)


class TestQuadrature:
    def test_noise_is_given_up_with_a_warning(self):
        rng = np.random.default_rng(0)
        with pytest.warns(AccuracyWarning, match="known to a relative error of"):
            found = integrate_rows(
                lambda t: 1.0 + 0.01 * rng.normal(size=t.shape), np.array([[0.0, 1.0]])
            )
        assert found == pytest.approx(1.0, abs=0.01)

    def test_rows_do_not_disturb_each_other(self):
        edges = np.array([[0.0, 1.0, 2.0], [-1.0, 0.5, 9.0]])

        def bumps(t):
            return np.exp(-0.5 * ((t - [[0.123], [7.0]]) / [[1e-2], [0.5]]) ** 2)

        together = integrate_rows(bumps, edges)
        # The bump is whole in its cell up to 12 of its scales; its last node is near.
        assert_close(together, np.sqrt(2 * np.pi) * np.array([1e-2, 0.5]), 1e-4)


@pytest.mark.parametrize("single", [False, True])
def test_metrics_from_a_table_are_those_of_the_density_itself(single):
    rng = np.random.default_rng(0)
    places, widths = rng.normal(size=(4, 6)), rng.uniform(0.05, 1.0, size=(4, 6))
    parts = [closed_form(*pair) for pair in zip(places, widths, strict=True)]
    defensive = closed_form(np.zeros(6), 2.0, StudentBase(1.0, df=5.0))
    p = MixtureDensity([*parts, defensive], [0.3, 0.2, 0.2, 0.25, 0.05])
    y = rng.normal(size=6)
    y[3] = 50.0  # where the table knows only that there is hardly anything
    p = p[0] if single else p
    methods = ("logpdf", "pdf", "cdf", "ppf", "support")
    plain = SimpleNamespace(**{name: getattr(p, name) for name in methods})
    for metric in (
        metrics.crps_values,
        metrics.cde_loss_values,
        metrics.hpd_values,
        metrics.pit,
        metrics.log_loss_values,
    ):
        assert_close(metric(p, y), metric(plain, y), 1e-8, scale=1.0)


def test_cross_evaluation_pools_the_evaluations_of_its_folds():
    rng = np.random.default_rng(11)
    x = rng.uniform(-1, 1, size=(40, 1))
    y = x[:, 0] + 0.3 * rng.normal(size=40)
    weights = rng.uniform(0.5, 2.0, 40)
    order = rng.permutation(40)
    folds = [(order[:25], order[25:]), (order[25:], order[:25])]
    model = KCEF(select=None)
    ours = metrics.cross_evaluate(model, x, y, folds, sample_weight=weights)
    parts = [
        metrics.evaluate(
            KCEF(select=None).fit(x[a], y[a], weights[a]),
            x[b],
            y[b],
            sample_weight=weights[b],
        )
        for a, b in folds
    ]
    shares = [weights[b].sum() for _, b in folds]
    for name in ("log_loss", "crps"):
        pooled = np.average([getattr(p, name).value for p in parts], weights=shares)
        assert_close(getattr(ours, name).value, pooled)
    assert_close(ours.pit, np.concatenate([p.pit for p in parts]))
    assert not hasattr(model, "kernel_")  # it was cloned
    with pytest.raises(ValueError, match="folds must hold"):
        metrics.cross_evaluate(model, x, y, [])


def test_draws_at_atoms_are_not_those_of_data_from_the_same_seed():
    # Rows of a law that is known: zero with a probability that is each row's own draw.
    share = np.random.default_rng(0).random(400)
    p = MixedDensity(np.array([0.0, 1.0]), np.column_stack([share, 1.0 - share]))
    y = (np.random.default_rng(1).random(400) > share).astype(float)
    assert metrics.pit_uniformity(metrics.pit(p, y)).pvalue > 0.05
    assert metrics.pit_uniformity(metrics.hpd_values(p, y)).pvalue > 0.05
