"""Likelihood and bridged fits: right where score matching is blind, and it says so."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.base import clone

from kexpfam import KCEF, KEF, AutoKCEF, load
from kexpfam.base_densities import GaussianBase, StudentBase, TruncatedBase
from kexpfam.data import Rows, TrainingRows
from kexpfam.datasets import make_failure
from kexpfam.distributions import Bridge, bridge_sample
from kexpfam.errors import BlindnessWarning
from kexpfam.family import SOLVERS, LogDensities, chosen_centers, fit_coordinates
from kexpfam.family.solvers import weighted_score_sample
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.likelihood import fit_likelihood
from kexpfam.score_matching import Basis, TiltedDensity, fit_low_rank
from kexpfam.selection.candidates import Task
from kexpfam.selection.spec import LambdaPath
from kexpfam.selection.validation import held_out_problem
from tests.tolerances import QUADRATURE, ROUNDING, SOLVE, assert_close

REMEDIES = ["likelihood", "bridged"]
CONDITIONS = np.array([[-0.7], [-0.4], [0.4], [0.7]])


MASSES = (0.25, 0.75)


def upper_mass(X):
    return np.where(X[:, 0] < 0, *MASSES)


def switching(n, seed):
    """Two modes ten deviations apart, whose masses switch at x = 0."""
    return make_failure(n, masses=MASSES, random_state=seed)


def components(n, seed, left=0.3):
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(n) < left, -1.0, 1.0)
    return (side + 0.15 * rng.normal(size=n))[:, None]


def blind(model, *rows):
    """Fit without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        return model.fit(*rows)


# ------------------------------------------------------------------ masses


@pytest.mark.parametrize("method", REMEDIES)
@pytest.mark.parametrize("select", [None, "likelihood"])
def test_masses_of_components_are_right_where_score_matching_is_wrong(method, select):
    wrong = []
    for seed in range(3):
        Y = components(300, seed)
        observed = np.mean(Y < 0)
        model = KEF(fit_method=method, select=select, random_state=0).fit(Y)
        # Likelihood matches the mean of smooth functions of y, and with it the share
        # on one side; bridging has the noise of its draws besides.
        tolerance = 0.02 if method == "likelihood" else 0.08
        assert abs(model.distribution().cdf(0.0) - observed) < tolerance
        score = blind(KEF(kernel=Gaussian(1.0), regularization=1e-3), Y)
        wrong.append(abs(score.distribution().cdf(0.0) - observed))
    assert max(wrong) > 0.2


@pytest.mark.parametrize("method", REMEDIES)
def test_masses_that_switch_with_x_are_right_where_score_matching_is_wrong(method):
    errors, wrong = [], []
    for seed in range(3):
        rows = switching(300, seed)
        model = KCEF(fit_method=method, select=None).fit(*rows)
        plain = blind(KCEF(fit_method="score", select=None), *rows)
        for fitted, found in ((model, errors), (plain, wrong)):
            masses = fitted.given(CONDITIONS).sf(0.0)
            found.append(np.abs(masses - upper_mass(CONDITIONS)).mean())
    # About 75 neighbours tell a mass to 0.05; smoothing over the switch and the draws
    # of the bridge add as much.
    assert np.mean(errors) < 0.12
    assert np.mean(wrong) > 0.2


def test_score_matching_warns_with_numbers_and_ways_out():
    X, y = switching(300, 0)
    with pytest.warns(BlindnessWarning, match="fit_method='likelihood'") as caught:
        model = KCEF(fit_method="score", select=None).fit(X, y)
    (warning,) = caught
    text = str(warning.message)
    assert "fit_method='bridged'" in text
    assert "AutoKCEF" in text
    worst = model.isolated_components_.worst
    assert f"{worst.predicted:.0%} of the mass below {worst.valley:.3g}" in text
    assert f"near row {worst.index}" in text
    assert warning.filename == __file__  # where the user called `fit`
    # The row and the valley are the user's: counts there are those of the report.
    assert -0.7 < worst.valley < 0.7
    near = np.abs(X[:, 0] - X[worst.index, 0]) < 0.4
    assert abs(np.mean(y[near] < worst.valley) - worst.observed) < 0.15
    assert abs(worst.predicted - worst.observed) > 0.1


def test_unconditional_fits_warn_too():
    with pytest.warns(BlindnessWarning, match="over all rows"):
        model = KEF(kernel=Gaussian(1.0), regularization=1e-3).fit(components(300, 1))
    assert model.isolated_components_.suspicious


def test_valleys_and_rows_of_the_report_are_those_of_the_user():
    X, y = switching(300, 0)
    weights = np.ones(400)
    weights[:100] = 0.0  # rows that do not count, before those that do
    rng = np.random.default_rng(1)
    more_X = np.concatenate([rng.uniform(-1, 1, size=(100, 1)), X])
    more_y = np.concatenate([rng.normal(size=100), y])
    score = KCEF(fit_method="score", select=None)
    plain = blind(clone(score), X, y).isolated_components_.worst
    moved = blind(score, more_X, 5.0 * more_y - 3.0, weights)
    moved = moved.isolated_components_.worst
    assert moved.index == plain.index + 100
    assert_close(moved.valley, 5.0 * plain.valley - 3.0, 1e-6, scale=1.0)
    assert_close(moved.predicted, plain.predicted, 1e-6)
    assert_close(moved.observed, plain.observed)


ORDINARY = {
    "normal": lambda rng, x: x + 0.3 * rng.normal(size=len(x)),
    "waves": lambda rng, x: np.sin(4 * x) + 0.2 * rng.normal(size=len(x)),
    "fan": lambda rng, x: x + (0.1 + np.abs(x)) * rng.normal(size=len(x)),
    "skewed": lambda rng, x: x + rng.exponential(size=len(x)),
    "student": lambda rng, x: x + 0.2 * rng.standard_t(3, size=len(x)),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_data_do_not_warn(name):
    # Warnings are errors in the tests; no fit of these may raise one.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1.0, 1.0, size=150)
        y = ORDINARY[name](rng, x)
        assert not KCEF(select=None).fit(x[:, None], y).isolated_components_.suspicious
        assert not KEF().fit(y[:, None]).isolated_components_.suspicious


def test_right_masses_are_reported_and_do_not_warn():
    for method in REMEDIES:
        Y = components(300, 2)
        report = KEF(fit_method=method, select=None).fit(Y).isolated_components_
        assert not report.suspicious
        assert report.comparisons
        assert_close(report.worst.observed, np.mean(report.worst.valley > Y))


def test_several_columns_without_clusters_have_an_empty_report():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 1)), rng.normal(size=(30, 2))
    assert KCEF(select=None).fit(X, Y).isolated_components_.comparisons == ()
    assert KEF(select=None).fit(Y).isolated_components_.comparisons == ()


def test_wrong_masses_of_clusters_of_several_columns_are_said():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(300, 1))
    upper = rng.random((300, 1)) < 0.8
    Y = np.where(upper, 3.0, -3.0) + X + 0.5 * rng.normal(size=(300, 2))
    with pytest.warns(BlindnessWarning, match="FactorizedDensity"):
        model = KCEF(select=None).fit(X, Y)
    worst = model.isolated_components_.worst
    share = upper.mean() if worst.sides[0][0] > 0 else 1.0 - upper.mean()
    if worst.index is None:
        assert_close(worst.observed, share)
    assert abs(worst.predicted - worst.observed) > 0.05


def test_responses_too_far_apart_for_nodes_give_an_empty_report():
    y = np.append(np.random.default_rng(0).normal(size=80), [1e6])
    assert KEF(select=None).fit(y[:, None]).isolated_components_.comparisons == ()


# ------------------------------------------------------------------ the fits


@pytest.mark.parametrize("method", REMEDIES)
@pytest.mark.parametrize(
    "base", [None, StudentBase(1.5, df=5.0), TruncatedBase(lower=-4.0), "linear"]
)
def test_densities_integrate_to_one_and_their_functions_agree(method, base):
    X, y = switching(120, 3)
    model = KCEF(fit_method=method, select=None, base=base, random_state=0).fit(X, y)
    p = model.given(CONDITIONS)
    grid = np.linspace(-4.0, 6.0, 20_001)
    pdf = p.pdf(np.tile(grid, (4, 1)))
    mass = p.cdf(6.0) - p.cdf(-4.0)
    # The trapezoidal rule; bridged densities bend sharply where the difference is zero.
    assert_close(trapezoid(pdf, grid, axis=1), mass, 1e-6, scale=1.0)
    assert np.all(mass > 0.95)
    levels = np.tile([0.02, 0.3, 0.5, 0.9], (4, 1))
    assert_close(p.cdf(p.ppf(levels)), levels, 1e-8)
    assert np.isfinite(model.score(X, y))


def placed_rows(n=60, seed=4):
    X, y = switching(n, seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    # In the order of the centres.
    rows = TrainingRows.of(Rows(X, y[:, None], weights), shuffled=True)
    placed = fit_coordinates(rows, GaussianBase(2.0), np.random.default_rng(0))
    return rows.X, rows.Y[:, 0], rows.weights, placed


def mixed_sample(placed):
    """Rows, then draws from their base density for each of them; weights as they are.

    Always the same draws, in blocks of as many as there are rows.
    """
    solver, rng = SOLVERS["bridged"], np.random.default_rng(0)
    found = bridge_sample(
        placed.Z,
        placed.U,
        placed.weights,
        solver.share,
        placed.base,
        rng,
        draws=solver.draws,
    )
    return weighted_score_sample(placed.base, *found)


def normed(sample):
    return replace(sample, weights=sample.weights / sample.weights.sum())


def test_a_likelihood_fit_is_the_optimum_from_anywhere():
    X, y, weights, placed = placed_rows()
    kernel = separable(Gaussian(0.7), Gaussian(0.6))
    model = KCEF(
        kernel=kernel, regularization=1e-3, fit_method="likelihood", n_components=25
    ).fit(X, y, weights)
    centers = chosen_centers(60, 25)
    basis = Basis(kernel, placed.Z[centers], placed.U[centers], derivatives=False)
    fit = fit_likelihood(basis, placed.base, placed.Z, placed.U, placed.weights, 1e-3)
    assert np.array_equal(model.family_.T.Y, placed.U[centers])
    Z, U = placed.Z[:10], placed.U[:10]
    assert_close(model.family_.T.value(Z, U), fit.T.value(Z, U), 1e-5)
    assert model.solver_ == "low-rank"


def test_a_bridged_density_is_the_mixture_minus_the_bridge():
    X, y, weights, placed = placed_rows()
    kernel = separable(Gaussian(0.7), Gaussian(0.6))
    model = KCEF(
        kernel=kernel,
        base=GaussianBase(2.0),
        regularization=1e-2,
        fit_method="bridged",
        n_components=25,
    ).fit(X, y, weights)
    share = SOLVERS["bridged"].share
    assert model.family_.bridge == Bridge(share, GaussianBase(2.0))
    mixed = mixed_sample(placed)
    centers = np.append(chosen_centers(60, 25), 60 + chosen_centers(60, 25))
    basis = Basis(kernel, mixed.X[centers], mixed.Y[centers], derivatives=False)
    T = fit_low_rank(basis, normed(mixed), 1e-2)
    u = np.linspace(-9.0, 9.0, 30_001)
    Z = placed.coordinates.conditions(CONDITIONS)
    p_mix = np.exp(TiltedDensity(placed.base, T, Z).on_grid(u[:, None]))
    p_mix /= trapezoid(p_mix, u, axis=1)[:, None]
    m = np.exp(placed.base.log_density(u[:, None]))
    rest = (p_mix - share * m) / (1.0 - share)
    p_u = np.exp(model.family_.unnormalized(Z).on_grid(u[:, None]))
    clear = rest > 0.5 * p_mix
    assert clear.any(axis=1).all()
    # The smooth maximum is above the difference by f²·p_mix²/difference at most.
    assert_close(p_u[clear], rest[clear], 1e-3)
    scale = placed.coordinates.y_scale[0]
    p_y = model.given(CONDITIONS).pdf(
        np.tile(placed.coordinates.y_center[0] + scale * u, (4, 1))
    )
    total = trapezoid(p_u, u, axis=1)[:, None]
    assert_close(p_y * scale, p_u / total, 1e-6, scale=1.0)


def test_bridged_candidates_have_the_density_that_is_left_without_their_fold():
    n, (_, _, _, placed) = 40, placed_rows(40)
    folds = (slice(0, 17), slice(17, 40))
    problem = held_out_problem(placed, folds, np.arange(0, n, 2))
    path = LambdaPath(separable(Gaussian(1.0), Gaussian(0.7)), (0.02,))
    offset = placed.log_abs_det_jacobian
    (candidate,) = Task(
        "plain", problem, path, "bridged", LogDensities.of, offset
    ).candidates()
    assert candidate.method == "bridged"
    solver, sample = SOLVERS["bridged"], mixed_sample(placed)
    assert_close(sample.weights.sum(), placed.weights.sum())
    centers = np.append(problem.centers, n + problem.centers)
    basis = Basis(path.kernel, sample.X[centers], sample.Y[centers], derivatives=False)
    bridge = Bridge(solver.share, placed.base)
    u = np.linspace(-12.0, 12.0, 20_001)
    for fold in folds:
        # Without the rows of the fold, and without the draws for them.
        own = np.arange(n)[fold] + n * np.arange(1 + solver.draws)[:, None]
        rest = np.delete(np.arange(len(sample.Y)), own)
        T = fit_low_rank(basis, normed(sample.part(rest)), 0.02)
        tilted = TiltedDensity(placed.base, T, placed.Z[fold])
        log_mix = tilted.on_grid(u[:, None])
        log_mix -= np.log(trapezoid(np.exp(log_mix), u, axis=1))[:, None]
        log_rest = bridge.log_rest(log_mix, placed.base.log_density(u[:, None]))
        log_rest -= np.log(trapezoid(np.exp(log_rest), u, axis=1))[:, None]
        expected = placed.log_abs_det_jacobian[fold] + [
            np.interp(value, u, row)
            for value, row in zip(placed.U[fold][:, 0], log_rest, strict=True)
        ]
        # Between nodes 0.1 apart the logarithm is taken to be linear: with peaks of
        # deviation 0.2 that is 0.1²/(8·0.2²) = 0.03 too low at worst, and taking a
        # density away magnifies it.
        assert_close(np.exp(candidate.held_out[fold]), np.exp(expected), 0.08)


@pytest.mark.parametrize("method", REMEDIES)
def test_a_row_of_weight_two_equals_two_rows(method):
    X, y = switching(80, 5)
    options = {
        "kernel": separable(Gaussian(0.7), Gaussian(0.6)),
        "base": GaussianBase(2.0),
        "regularization": 1e-2,
        "standardize": False,
        "fit_method": method,
    }
    counts = np.random.default_rng(0).integers(1, 4, 80)
    again = np.repeat(np.arange(80), counts)
    if method == "likelihood":
        # All rows are centres, so that both fits live in the same space.
        one = KCEF(**options).fit(X, y, counts)
        two = KCEF(**options, n_components=len(again)).fit(X[again], y[again])
        # Repeated centres share the jitter of R, so that it weighs a little less.
        assert_close(one.score_samples(X, y), two.score_samples(X, y), 2e-3, scale=1.0)
    else:
        # Draws differ with the number of rows; a common factor changes nothing.
        one = KCEF(**options).fit(X, y, counts)
        two = KCEF(**options).fit(X, y, 3.0 * counts)
        assert_close(one.score_samples(X, y), two.score_samples(X, y), SOLVE)
        assert np.any(
            one.score_samples(X, y) != KCEF(**options).fit(X, y).score_samples(X, y)
        )


@pytest.mark.parametrize("method", REMEDIES)
def test_weights_move_the_masses(method):
    Y = components(200, 6, left=0.5)
    weights = np.where(Y[:, 0] < 0, 1.0, 3.0)
    model = KEF(fit_method=method, select=None).fit(Y, sample_weight=weights)
    expected = weights[Y[:, 0] < 0].sum() / weights.sum()
    assert abs(model.distribution().cdf(0.0) - expected) < 0.08


@pytest.mark.parametrize("method", ["score", *REMEDIES])
def test_what_was_validated_is_what_is_fitted(method):
    X, y = switching(50, 7)
    model = blind(KCEF(fit_method=method, random_state=0), X, y)
    chosen = model.selection_.chosen
    assert chosen.method == method
    assert {c.method for c in model.selection_.path} == {method, "none"}
    assert model.kernel_ == chosen.kernel
    assert model.regularization_ == chosen.lam
    assert (model.family_.bridge is None) == (method != "bridged")
    again = blind(KCEF(fit_method=method, random_state=0), X, y)
    assert_close(again.score(X, y), model.score(X, y), ROUNDING)


@pytest.mark.parametrize("method", REMEDIES)
def test_what_is_given_is_kept(method):
    X, y = switching(80, 8)
    model = KCEF(kernel_y=Gaussian(0.5), fit_method=method, base=GaussianBase(1.5)).fit(
        X, y
    )
    ((_, kernel_y),) = model.kernel_.terms
    assert kernel_y == Gaussian(0.5)
    assert model.base_ == GaussianBase(1.5)
    constant = KCEF(kernel_x=Constant(), regularization=0.05, fit_method=method)
    assert constant.fit(X, y).regularization_ == 0.05


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize("method", REMEDIES)
def test_several_columns_are_refused(method):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 1)), rng.normal(size=(30, 2))
    with pytest.raises(ValueError, match=f"'{method}' is for one column of y, got 2"):
        KCEF(fit_method=method).fit(X, Y)
    with pytest.raises(ValueError, match=f"'{method}' is for one column of X, got 2"):
        KEF(fit_method=method).fit(Y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fit_method": "newton"}, "fit_method must be one of 'score', 'likelihood',"),
        ({"select": "best"}, "select must be one of 'likelihood', 'score', or None"),
        ({"fit_method": "likelihood", "select": "score"}, "select='score' is for fits"),
        ({"fit_method": "bridged", "select": "score"}, "select='score' is for fits"),
        ({"fit_method": "likelihood", "regularization": -1.0}, "regularization must"),
    ],
)
def test_arguments_that_do_not_go_together_are_named(arguments, message):
    X, y = switching(40, 9)
    with pytest.raises(ValueError, match=message):
        KCEF(**arguments).fit(X, y)
    with pytest.raises(ValueError, match=message):
        KEF(**arguments).fit(y[:, None])


@pytest.mark.parametrize("search", ["gradient", "paper"])
def test_other_searches_are_for_score_matching(search):
    X, y = switching(40, 9)
    with pytest.raises(ValueError, match="search must be 'grid'"):
        KCEF(fit_method="bridged", search=search).fit(X, y)


@pytest.mark.parametrize("kind", [KCEF, KEF])
@pytest.mark.parametrize("method", REMEDIES)
def test_clones_keep_the_method(kind, method):
    model = kind(fit_method=method, select=None)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).fit_method == method


@pytest.mark.parametrize("method", REMEDIES)
def test_saved_models_keep_their_densities(method, tmp_path):
    X, y = switching(60, 0)
    model = KCEF(fit_method=method, select=None).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.fit_method == method
    assert np.array_equal(again.score_samples(X, y), model.score_samples(X, y))
    assert again.isolated_components_ is None  # the rows are not in the file


def test_the_best_of_an_average_says_how_it_was_fitted():
    X, y = switching(150, 10)
    model = AutoKCEF(random_state=0).fit(X, y)
    best = model.best_
    assert best.fit_method == best.selection_.chosen.method
    assert best.fit_method == "likelihood"  # nothing else is near on these rows
    masses = model.given(CONDITIONS).sf(0.0)
    assert np.abs(masses - upper_mass(CONDITIONS)).mean() < 0.12


def test_default_density_of_components_is_better_than_the_untuned_rule():
    # Two components of 35 and 65 per cent, like the durations of a geyser's eruptions.
    rng = np.random.default_rng(11)
    left = rng.random(300) < 0.35
    y = np.where(left, rng.normal(2.0, 0.25, 300), rng.normal(4.3, 0.4, 300))
    model = blind(KEF(random_state=0), y[:, None])
    assert abs(model.distribution().cdf(3.0) - np.mean(y < 3.0)) < 0.15
    untuned = blind(KEF(fit_method="score", select=None), y[:, None])
    assert model.score(y[:, None]) > untuned.score(y[:, None]) + 0.1


def test_quadrature_of_bridged_densities_is_accurate():
    X, y = switching(100, 12)
    model = KCEF(fit_method="bridged", select=None).fit(X, y)
    assert np.all(model.given(CONDITIONS).log_partition_error < QUADRATURE * 1e4)
