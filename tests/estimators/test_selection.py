"""What KCEF chooses, what it leaves alone, and how it tells."""

import re

import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.base_densities import (
    GaussianBase,
    GaussianProcessBase,
    StudentBase,
    TransformedBase,
    TruncatedBase,
)
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import Spec, given_base
from kexpfam.kernels import Constant, Gaussian, Matern, SumOfProducts, separable
from kexpfam.selection import (
    GradientSearch,
    HeldOutLikelihood,
    HeldOutObjective,
    PaperGrid,
    Parameters,
)
from kexpfam.selection.candidates import Task
from kexpfam.selection.spec import PLAIN, CoordinateSpec
from kexpfam.selection.validation import Validation
from tests.simulations import waves
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def rows():
    return waves(40, frequency=3.0, half_width=1.0)


@pytest.fixture(scope="module")
def pair():
    """Two columns of x and of y."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    return X, np.column_stack([X[:, 0], X.sum(axis=1)]) + 0.4 * rng.normal(size=(40, 2))


@pytest.fixture(scope="module")
def default(rows):
    return KCEF(random_state=0).fit(*rows)


def kernels_of(model):
    ((kernel_x, kernel_y),) = model.kernel_.terms
    return kernel_x, kernel_y


# What the user gave is kept.


def test_given_kernels_regularization_and_base_are_kept(rows):
    given_x, given_y = Matern(0.7), Gaussian(0.9)
    base = StudentBase(1.5, df=4.0)
    assert kernels_of(KCEF(kernel_x=given_x).fit(*rows))[0] == given_x
    assert kernels_of(KCEF(kernel_y=given_y).fit(*rows))[1] == given_y
    assert (
        KCEF(kernel_x=given_x, regularization=0.07).fit(*rows).regularization_ == 0.07
    )
    model = KCEF(kernel_x=given_x, kernel_y=given_y, base=base).fit(*rows)
    assert (*kernels_of(model), model.base_) == (given_x, given_y, base)
    assert model.regularization_ in {c.lam for c in model.selection_.path}
    assert len({c.lam for c in model.selection_.path if c.kernel}) > 1


def test_a_given_joint_kernel_is_kept_and_its_medians_are_filled_in(rows):
    joint = separable(Gaussian(1.0), Gaussian(0.7)) + separable(
        Constant(), Gaussian(2.0)
    )
    assert KCEF(kernel=joint).fit(*rows).kernel_ == joint
    median = separable(Gaussian("median"), Gaussian(0.7))
    kernel_x, kernel_y = kernels_of(KCEF(kernel=median).fit(*rows))
    untuned_x, _ = kernels_of(KCEF(kernel=median, select=None).fit(*rows))
    assert kernel_y == Gaussian(0.7)
    assert_close(kernel_x.lengthscale, untuned_x.lengthscale, 1e-9)


def test_open_lengthscales_of_a_given_family_are_searched_and_others_kept(rows):
    kernel_x, kernel_y = kernels_of(
        KCEF(kernel_x=Matern("median"), kernel_y=2.0 * Gaussian("median")).fit(*rows)
    )
    assert isinstance(kernel_x, Matern)
    assert np.all(np.asarray(kernel_x.lengthscale) > 0)
    assert kernel_y.first == Constant(2.0)
    half_open = Gaussian("median") + Gaussian(2.0)
    _, kernel_y = kernels_of(KCEF(kernel_y=half_open).fit(*rows))
    assert kernel_y.second == Gaussian(2.0)
    assert kernel_y.first.lengthscale > 0


def test_nothing_is_chosen_if_everything_is_given_or_select_is_none(rows):
    settled = KCEF(
        kernel_x=Gaussian(1.0), kernel_y=Gaussian(1.0), regularization=0.1
    ).fit(*rows)
    untuned = KCEF(select=None).fit(*rows)
    for model in (settled, untuned):
        assert model.selection_ is None
        assert model.solver_ == "exact"


@pytest.mark.parametrize("fixed", ["kernel_x", "kernel_y", "regularization", "kernel"])
def test_the_descent_keeps_what_was_given(pair, fixed):
    X, Y = pair
    given = {
        "kernel_x": Gaussian((0.4, 5.0)),
        "kernel_y": Gaussian(0.3),
        "regularization": 0.3,
        "kernel": separable(Gaussian((0.4, 5.0)), Gaussian(0.3)),
    }[fixed]
    base = GaussianBase(2.0)
    model = KCEF(
        **{fixed: given},
        base=base,
        search=GradientSearch(max_trials=10),
        random_state=0,
    ).fit(X, Y[:, 0])
    kernel_x, kernel_y = kernels_of(model)
    if fixed in ("kernel_x", "kernel"):
        assert_close(kernel_x.lengthscale, (0.4, 5.0))
    if fixed in ("kernel_y", "kernel"):
        assert_close(kernel_y.lengthscale, 0.3)
    if fixed == "regularization":
        assert_close(model.regularization_, 0.3)
    first = model.selection_.path[0].parameters
    assert np.any(first.theta != model.selection_.best.parameters.theta)


# Bases.


@pytest.mark.parametrize(
    "base",
    [
        "gaussian",
        "student",
        "linear",
        "gaussian_process",
        GaussianProcessBase(GaussianBase(1.0), heteroscedastic=True),
        TransformedBase(),
        TruncatedBase(lower=-9.0),
    ],
    ids=str,
)
def test_only_the_given_base_competes(rows, base):
    model = KCEF(base=base, random_state=0).fit(*rows)
    assert {c.coordinates for c in model.selection_.path} == {PLAIN}
    assert np.isfinite(model.score(*rows))


def test_by_default_several_bases_compete_with_the_null_model(default):
    coordinates = {c.coordinates for c in default.selection_.path}
    assert len(coordinates) > 3
    assert PLAIN in coordinates
    alone = [c for c in default.selection_.path if c.kernel is None]
    assert len(alone) == 2 * len(coordinates)


def test_the_choice_is_near_the_best_of_all_candidates(default):
    selection = default.selection_
    best = max(c.mean(selection.weights) for c in selection.path)
    error = selection.chosen.standard_error(selection.weights)
    assert selection.chosen.mean(selection.weights) > best - error
    assert selection.chosen.kernel == default.kernel_
    assert selection.chosen.lam == default.regularization_


def test_what_was_validated_is_what_is_fitted(default):
    """The mean log density of the fit is near, and above, its held-out one."""
    assert default.solver_ == "low-rank"
    selection = default.selection_
    held_out = selection.chosen.mean(selection.weights)
    fresh = default.score(*waves(2000, frequency=3.0, half_width=1.0, seed=9))
    # Four standard errors of a mean over forty rows with a spread of about 0.7.
    assert abs(held_out - fresh) < 4 * 0.7 / np.sqrt(40)


# Objectives and searches.


def test_by_the_score_one_kind_of_coordinates_is_searched(rows):
    model = KCEF(select="score", random_state=0).fit(*rows)
    selection = model.selection_
    assert {c.coordinates for c in selection.path} == {PLAIN}
    assert selection.objective == "score"
    assert model.base_ == GaussianBase(2.0)
    assert "held-out score" in str(selection)
    best = max(selection.path, key=selection.cautious_mean)
    assert best is selection.chosen


def test_the_descent_improves_the_held_out_objective(rows):
    options = {"base": "gaussian", "random_state": 0}
    grid = KCEF(**options).fit(*rows).selection_
    model = KCEF(**options, search="gradient").fit(*rows)
    found = model.selection_
    assert found.best.value < found.path[0].value
    # The descent starts at the grid's choice, whose loss it knows in double precision.
    assert_close(found.path[0].value, held_out_loss(rows, grid.chosen), 1e-3, scale=1.0)


def held_out_loss(rows, candidate):
    """The objective at a candidate of the grid, with the same folds as in the fit."""
    X, y = rows
    rng = np.random.default_rng(0)
    spec = Spec(base="gaussian")
    rng.integers(2**31)  # the seed that `fit` draws first
    training = TrainingRows.of(Rows(X, y[:, None], np.ones(40)), shuffled=True)
    validation = Validation.of(training, spec, rng)
    validation.add_coordinates([CoordinateSpec(PLAIN, given_base(spec))])
    problem = validation.problem(PLAIN)
    ((kernel_x, kernel_y),) = candidate.kernel.terms
    parameters = Parameters(
        tuple(np.atleast_1d(kernel_x.lengthscale)), kernel_y.lengthscale, candidate.lam
    )
    objective = HeldOutObjective(
        problem, kernel_x, kernel_y, HeldOutLikelihood.of(problem)
    )
    return objective.value(parameters.theta).loss


def test_the_papers_grid_has_one_lengthscale_and_an_exact_fit(rows):
    search = PaperGrid(lengthscales=(0.5, 1.0, 2.0), lambdas=(0.01, 0.1))
    for select in ("likelihood", "score"):
        model = KCEF(search=search, select=select, random_state=0).fit(*rows)
        kernel_x, kernel_y = kernels_of(model)
        assert set(np.atleast_1d(kernel_x.lengthscale)) == {kernel_y.lengthscale}
        assert kernel_y.lengthscale in search.lengthscales
        assert model.regularization_ in search.lambdas
        assert model.solver_ == "exact"
        assert len(model.selection_.path) == 6


def test_ends_of_the_grid_that_are_active_are_reported(rows):
    """Pure noise wants the most regularisation that there is."""
    X, _ = rows
    noise = np.random.default_rng(3).normal(size=40)
    model = KCEF(base=GaussianBase(1.0), random_state=0).fit(X, noise)
    active = model.selection_.active_bounds
    assert "upper end of regularization times lengthscale_y²" in active
    assert active[0] in str(model.selection_)


def test_the_report_names_the_choice_and_its_rivals(default):
    text = str(default.selection_)
    assert default.selection_.chosen.coordinates in text
    assert "stopped: all candidates were tried" in text
    assert len(default.selection_.table(3).splitlines()) == 4


# Interruption and progress.


def interrupted_after(monkeypatch, calls):
    genuine, done = Task.candidates, []

    def sometimes(task):
        done.append(1)
        if len(done) > calls:
            raise KeyboardInterrupt
        return genuine(task)

    monkeypatch.setattr(Task, "candidates", sometimes)


def test_ctrl_c_keeps_the_best_so_far(rows, monkeypatch):
    interrupted_after(monkeypatch, 3)
    model = KCEF(base="gaussian", random_state=0).fit(*rows)
    selection = model.selection_
    assert selection.reason == "interrupted"
    assert "stopped: interrupted" in str(selection)
    kernels = {c.kernel for c in selection.path if c.kernel is not None}
    assert len(kernels) == 3
    assert model.kernel_ in kernels
    assert np.isfinite(model.score(*rows))


def test_ctrl_c_before_the_first_fit_ends_it(rows, monkeypatch):
    interrupted_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        KCEF(base="gaussian", random_state=0).fit(*rows)


def test_verbose_writes_to_standard_error_only(rows, capsys):
    KCEF(base="gaussian", verbose=True, random_state=0).fit(*rows)
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first == "KCEF, coordinates of y: 1 of 1"
    assert re.fullmatch(r"KCEF, mean log p: \d+ of \d+, best -?[\d.]+", second)
    KCEF(base="gaussian", random_state=0).fit(*rows)
    assert capsys.readouterr() == ("", "")


# Data.


def test_the_same_seed_gives_the_same_model(rows, default):
    X, y = rows
    again = KCEF(random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        again.score_samples(X, y), default.score_samples(X, y)
    )


def test_components_bound_the_size_of_the_fit(rows):
    model = KCEF(base="gaussian", n_components=7, random_state=0).fit(*rows)
    assert len(model.family_.T.Y) == 7
    untuned = KCEF(select=None, n_components=7).fit(*rows)
    assert len(untuned.family_.T.Y) == 7
    assert untuned.solver_ == "low-rank"
    many = KCEF(base="gaussian", n_components=1000, random_state=0).fit(*rows)
    assert len(many.family_.T.Y) == 40


def test_several_columns_of_y_are_chosen_for(pair):
    X, Y = (part[:20] for part in pair)  # an integral over the plane for each
    model = KCEF(random_state=0).fit(X, Y)
    assert model.given(X[:3]).mean().shape == (3, 2)
    # Better than y standardised, the same for all x.
    null = -np.log(Y.std(axis=0)).sum() - np.log(2 * np.pi) - 1.0
    assert model.score(X, Y) > null


def test_rows_of_weight_zero_do_not_count(rows):
    X, y = rows
    weights = np.ones(40)
    weights[::4] = 0.0
    wild = np.where(weights > 0, y, 1e6)
    used = weights > 0
    one = KCEF(random_state=0).fit(X, wild, sample_weight=weights)
    other = KCEF(random_state=0).fit(X[used], y[used])
    assert_close(one.score_samples(X, y), other.score_samples(X, y), 1e-9)


def test_weights_move_the_choice_towards_heavy_rows(rows):
    """Two populations: the density follows the one that has all the weight."""
    X, y = rows
    both = np.concatenate([X, X]), np.concatenate([y, -y])
    weights = np.repeat([1.0, 1e-6], 40)
    model = KCEF(random_state=0).fit(*both, sample_weight=weights)
    assert model.score(X, y) > model.score(X, -y) + 0.5


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_a_handful_of_rows_can_be_fitted(rows, n):
    X, y = rows
    model = KCEF(random_state=0).fit(X[:n], y[:n])
    assert np.all(np.isfinite(model.score_samples(X[:n], y[:n])))


def test_a_fold_without_spread_leaves_regressions_out(rows):
    """All responses but one are equal, so that some fold has no spread without it."""
    X, _ = rows
    y = np.zeros(40)
    y[3] = 1.0
    model = KCEF(random_state=0).fit(X, y)
    assert {c.coordinates for c in model.selection_.path} == {PLAIN}
    given = KCEF(base="gaussian_process", random_state=0).fit(X, y)
    assert np.all(np.isfinite(given.given(X).mean()))


def test_one_wild_response_costs_neither_memory_nor_the_fit(rows):
    X, y = rows
    wild = y.copy()
    wild[5] = 1e8
    model = KCEF(random_state=0).fit(X, wild)
    log_p = model.score_samples(X, wild)
    assert np.all(np.isfinite(log_p))


# Arguments that cannot be.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kernel_x": "gaussian"}, "kernel_x must be a kernel"),
        ({"kernel_y": 3.0}, "kernel_y must be a kernel"),
        ({"kernel_y": Gaussian(1e-60)}, "lengthscale of y must lie between"),
        ({"kernel_y": Matern(1.0, nu=0.5)}, "not smooth enough"),
        (
            {"kernel": separable(Gaussian(), Gaussian()), "kernel_x": Gaussian()},
            "not both",
        ),
        ({"regularization": -1.0}, "regularization must be a positive number"),
        ({"regularization": float("nan")}, "regularization must be a positive number"),
        ({"regularization": "a"}, "regularization must be a positive number"),
        ({"n_components": 0}, "n_components must be a whole number from 1 on"),
        ({"n_components": 2.5}, "n_components must be a whole number from 1 on"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0"),
        ({"standardize": "no"}, "standardize must be True or False"),
        ({"base": "foo"}, "base='foo' is not the name"),
        ({"select": "cv"}, "select must be"),
        ({"search": "bayes"}, "search must be"),
        ({"search": "paper", "kernel_x": Gaussian(1.0)}, "kernel_x=Gaussian"),
        (
            {"search": "paper", "kernel": separable(Gaussian(), Gaussian())},
            "kernel=SumOfProducts",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_bad_arguments_are_refused_in_one_sentence(rows, arguments, words):
    with pytest.raises((ValueError, TypeError), match=re.escape(words)) as caught:
        KCEF(**arguments).fit(*rows)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("search", ["gradient", "paper"])
def test_searches_for_one_column_refuse_several_before_any_work(pair, search):
    with pytest.raises(ValueError, match="is for one column of y, got 2; use select="):
        KCEF(search=search).fit(*pair)
    model = KCEF(search=search, select="score", random_state=0).fit(*pair)
    assert isinstance(model.kernel_, SumOfProducts)


@pytest.mark.parametrize("n", [400, 401])
def test_what_is_claimed_is_kept(n):
    # Where x says nothing, at the number of rows where residuals change their origin.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1200, 1)), rng.exponential(size=1200)
    model = KCEF(random_state=0).fit(x[:n], y[:n])
    claimed = model.selection_.chosen.mean(model.selection_.weights)
    # Standard errors of the two means are about 0.05.
    assert abs(model.score(x[n:], y[n:]) - claimed) < 0.2


def test_a_given_transform_that_turns_out_to_be_none_is_fitted():
    x, y = waves(60, 2, frequency=3.0, noise=0.2, half_width=1.0, seed=2)
    model = KCEF(base=TransformedBase("yeo_johnson"), random_state=0).fit(x, y)
    assert model.score(x, y) > -1.5


def test_new_values_of_a_constant_column_change_nothing():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=40), np.full(40, 7.0)])
    y = x[:, 0] + 0.3 * rng.normal(size=40)
    model = KCEF(random_state=0).fit(x, y)
    same, other = model.given([[0.5, 7.0]]), model.given([[0.5, 1e6]])
    np.testing.assert_allclose(same.interval(0.9), other.interval(0.9), rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows_of_several_columns_are_enough(n):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    assert np.isfinite(KCEF(random_state=0).fit(x, y).score(x, y))


def test_a_single_family_around_a_regression_has_heavy_tails():
    x, y = waves(80, frequency=4.0, noise=0.05, half_width=1.0)
    model = KCEF(random_state=0).fit(x, y)
    assert model.family_.coordinates.location_scale is not None
    # A hundred deviations away.
    assert model.given([[0.0]]).logpdf([5.0])[0] > -50.0


@pytest.mark.parametrize("name", ["yeo_johnson", "gaussianize"])
def test_a_transform_can_be_asked_for_by_name(name, rows):
    named = KCEF(base=name, select=None).fit(*rows)
    built = KCEF(base=TransformedBase(name), select=None).fit(*rows)
    np.testing.assert_array_equal(
        named.score_samples(*rows), built.score_samples(*rows)
    )


def test_solver_and_what_the_fit_reports_are_the_same_words(rows):
    x, y = rows
    given = {"kernel_x": Gaussian(0.8), "kernel_y": Gaussian(0.7)}
    for solver in ("exact", "low-rank", "iterative"):
        model = KCEF(**given, regularization=1e-3, solver=solver, random_state=0)
        assert model.fit(x, y).solver_ == solver


def test_an_exact_solver_needs_kernels_and_regularization(rows):
    with pytest.raises(ValueError, match="solver='exact' is for a fit whose kernels"):
        KCEF(solver="exact").fit(*rows)
