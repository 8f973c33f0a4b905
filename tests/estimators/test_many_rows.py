"""Fits to more rows than a spec is chosen on: sums over blocks, however they come."""

import functools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import integrate
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kexpfam import KCEF, KEF, AutoKCEF, load
from kexpfam.base_densities import GaussianBase, LinearBase, UniformBase
from kexpfam.data import ArraySource, Rows, TrainingRows
from kexpfam.estimators import fitting
from kexpfam.estimators.streams import KeptRows, SummedRows
from kexpfam.family import (
    N_FOLDS,
    Limits,
    LowRankSpec,
    RowsBeyond,
    Spec,
    ValidationRows,
    narrowed,
    sample_rows,
)
from kexpfam.family.all_rows import component_sizes
from kexpfam.family.statistics import SumOfRows
from kexpfam.kernels import Gaussian, RationalQuadratic
from kexpfam.score_matching import CENTER_METHODS
from kexpfam.selection.spec import CoordinateSpec
from kexpfam.selection.validation import Validation
from tests.limits import limited
from tests.simulations import waves
from tests.tolerances import assert_close

# Coefficients solve a system of condition 1e6 or so; sums differ by rounding.
SAME = 1e-10

SAMPLED = 300
LIMITS = Limits(design_rows=SAMPLED)

# The models here are crude on purpose: few centres, and λ from nowhere.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")


def small(estimator):
    """The estimator, for which a few hundred rows are many."""
    return limited(estimator, LIMITS)


def rows(n=1000, seed=0, p=2):
    rng = default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.sin(2 * X[:, 0]) + 0.3 * (1 + X[:, -1] ** 2) * rng.normal(size=n)
    return X, y


def settled(**changes):
    """A model without anything to choose, whose system is well-conditioned."""
    options = {
        "kernel_x": Gaussian(1.5),
        "kernel_y": Gaussian(1.0),
        "regularization": 0.05,
        "n_components": 20,
        "random_state": 0,
    }
    return small(KCEF(**(options | changes)))


def log_p(model):
    return model.score_samples(*rows(40, seed=9))


# --- the large fit


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kernel_x": RationalQuadratic(1.5)},
        {"base": "linear"},
        {"base": UniformBase(-30.0, 30.0), "standardize": False},
    ],
)
def test_rows_beyond_the_sample_are_summed_as_one_fit_would(changes):
    X, y = rows()
    model = settled(**changes).fit(X, y)
    family, stats = model.family_, model.stream_.statistics
    assert model.solver_ == "low-rank"
    # The same system from all rows at once: those of the sample with held-out
    # residuals, which `known` has, the others in the coordinates.
    total = functools.reduce(lambda a, b: a + b, stats.sums)
    sampled = sample_rows(ArraySource(X, y), SAMPLED, 0)
    assert total.weight == pytest.approx(1000)
    assert len(sampled.rows) == SAMPLED
    if "base" in changes:
        return  # residuals of the sample are held out; the count is what is checked
    coordinates, spec = family.coordinates, stats.spec
    Z = coordinates.conditions(X)
    U = coordinates.at(Z).to_kernel(y[:, None, None])[:, 0]
    sample = spec.sample(Z, U, np.ones(len(y)))
    pairs = spec.basis.pairs(Z, U)
    F, S = spec.basis.features(pairs, 1, 0), spec.basis.features(pairs, 2, 0)
    C, b = F.T @ F, S.sum(axis=0) + sample.gsm_linear[:, 0] @ F
    R = spec.basis.gram()
    alpha = np.linalg.solve(C / 1000 + 0.05 * R, -b / 1000)
    assert_close(family.T.zeroth, alpha, 1e-8)


def test_blocks_threads_and_order_do_not_matter():
    X, y = rows()
    expected = log_p(settled().fit(X, y))
    order = default_rng(1).permutation(len(y))
    for source in (
        ArraySource(X, y, rows=64),
        ArraySource(X[order], y[order], rows=301),
        ArraySource(X[::-1], y[::-1]),
    ):
        assert_close(log_p(settled().fit(source)), expected, SAME)
    assert_close(log_p(settled(n_jobs=1).fit(X, y)), expected, SAME)


def test_weights_count_rows():
    X, y = rows(700)
    weights = default_rng(2).integers(0, 3, len(y))
    weights[:400] = 1  # enough rows without copies
    many = np.repeat(np.arange(len(y)), weights)
    start = settled(standardize=False).fit(X[:100], y[:100])
    weighted = start.emptied().partial_fit(X, y, sample_weight=weights)
    repeated = start.emptied().partial_fit(X[many], y[many])
    assert weighted.n_rows_ == repeated.n_rows_ == weights.sum()
    assert_close(log_p(weighted), log_p(repeated), SAME)


def test_few_rows_in_blocks_are_the_same_as_in_memory(tmp_path):
    X, y = rows(200)
    expected = log_p(settled().fit(X, y))
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", dtype=float, mode="r", shape=X.shape)
    np.testing.assert_array_equal(log_p(settled().fit(mapped, y)), expected)
    frozen = ArraySource(X, y, rows=17)
    np.testing.assert_array_equal(log_p(settled().fit(frozen)), expected)


def test_files_frames_and_clusters_give_the_same_model(tmp_path):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    array = pytest.importorskip("dask.array")
    frame = pytest.importorskip("dask.dataframe")
    X, y = rows()
    expected = log_p(settled().fit(X, y))
    table = pandas.DataFrame(X, columns=["a", "b"]).assign(y=y)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=130)
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", dtype=float, mode="r", shape=X.shape)
    for data in (
        (mapped, y),
        (str(tmp_path / "rows.parquet"), "y"),
        (polars.scan_parquet(tmp_path / "rows.parquet"), "y"),
        (array.from_array(X, chunks=(230, 2)), array.from_array(y, chunks=230)),
        (frame.from_pandas(table, npartitions=4), "y"),
    ):
        model = settled().fit(*data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arrays have no names, files do
            assert_close(log_p(model), expected, SAME)
    model = settled().fit(str(tmp_path / "rows.parquet"), "y")
    assert list(model.feature_names_in_) == ["a", "b"]


def test_several_columns_of_y_and_the_score_are_chosen_by_at_scale():
    X, y = rows(600)
    Y = np.column_stack([y, X[:, 0] + 0.5 * default_rng(3).normal(size=600)])
    model = small(KCEF(kernel_x=Gaussian(1.5), select="score", random_state=0)).fit(
        X, Y
    )
    assert model.n_rows_ == 600
    assert model.components_.chosen.n_components <= SAMPLED
    assert np.isfinite(model.score_samples(X[:5], Y[:5])).all()


def test_an_unconditional_family_of_many_rows_integrates_to_one():
    Y = default_rng(0).gamma(3.0, size=(900, 1))
    model = small(KEF(random_state=0)).fit(Y)
    p = model.distribution()
    mass, _ = integrate.quad(lambda t: float(p.pdf(t)), -5, 30, limit=200)
    assert mass == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_an_average_of_many_rows_uses_them_all():
    X, y = rows(900)
    model = small(AutoKCEF(random_state=0)).fit(X, y)
    assert model.neighbourhood_.weights.sum() == pytest.approx(900)
    p = model.given([[0.3, 0.2]])[0]
    mass, _ = integrate.quad(lambda t: float(p.pdf(t)), -60, 60, limit=400)
    assert mass == pytest.approx(1, abs=1e-6)
    fresh = rows(400, seed=5)
    few = small(AutoKCEF(random_state=0)).fit(*rows(SAMPLED))
    assert model.score(*fresh) > few.score(*fresh) - 0.05


# --- the basis, and how the system is solved


@pytest.mark.parametrize("centers", CENTER_METHODS)
@pytest.mark.parametrize("derivatives", [False, True])
def test_every_basis_fits(centers, derivatives):
    X, y = rows(700)
    model = settled(centers=centers, derivative_features=derivatives).fit(X, y)
    assert len(model.family_.T.Y) == 20
    assert (model.family_.T.first is not None) == derivatives
    assert model.score(*rows(200, seed=3)) > -2.0


@pytest.mark.parametrize("n", [SAMPLED, 900])
@pytest.mark.parametrize("derivatives", [False, True])
def test_conjugate_gradients_find_the_direct_solution(n, derivatives):
    X, y = rows(n)
    options = {"derivative_features": derivatives, "base": "linear"}
    direct = settled(**options).fit(X, y)
    found = settled(**options, solver="iterative").fit(X, y)
    assert found.iterative_.stopped == "converged"
    # The residual is 1e-8 of the right-hand side.
    assert_close(log_p(found), log_p(direct), 1e-6)
    assert found.n_rows_ == n


def test_iterations_take_more_centres_than_a_direct_choice_tries():
    X, y = rows(700)
    model = settled(n_components=60, solver="iterative")
    limited(model, replace(LIMITS, most_centers=30)).fit(X, y)
    assert len(model.family_.T.Y) == 60
    assert model.iterative_.iterations > 0


@pytest.mark.parametrize(
    "wrong", [{"solver": "magic"}, {"centers": "best"}, {"derivative_features": 2}]
)
def test_unknown_ways_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name} must be .*{value!r}"):
        settled(**wrong).fit(*rows(50))


# --- the number of centres


def test_more_centres_are_asked_for_where_they_help():
    x, y = waves(900, frequency=5.0, noise=0.1, half_width=3.0)
    kernels = {"kernel_x": Gaussian(0.1), "kernel_y": Gaussian(0.5)}
    few = settled(n_components=6, regularization=1e-4, **kernels).fit(x, y)
    assert few.components_.more_would_help
    assert "more centres would help" in str(few.components_)
    many = settled(n_components=200, regularization=1e-4, **kernels).fit(x, y)
    assert not many.components_.more_would_help
    assert "hardly help" in str(many.components_)
    assert many.components_.chosen.held_out > few.components_.chosen.held_out


def test_centres_are_doubled_while_all_rows_say_that_it_helps(monkeypatch):
    x, y = waves(3000, frequency=5.0, noise=0.1, half_width=3.0)
    # On the sample few are taken as enough; the rows that follow know better.
    monkeypatch.setattr(
        fitting, "narrowed", lambda stats: narrowed(stats).limited(stats.sizes[:2])
    )
    model = KCEF(kernel_x=Gaussian(0.1), kernel_y=Gaussian(0.5), random_state=0)
    limited(model, replace(LIMITS, fewest_centers=4))
    found = model.fit(x, y).components_
    assert found.trials[-1].n_components > 16
    assert model.n_rows_ == 3000


def test_sizes_double_and_do_not_exceed_the_rows():
    assert component_sizes(50, None, LIMITS) == (50,)
    assert component_sizes(10_000, None, LIMITS) == (128, 256, 512, 1024)
    assert component_sizes(10_000, 7, LIMITS) == (3, 7)
    assert component_sizes(5, 700, LIMITS) == (2, 5)


def test_centres_that_do_not_fit_into_the_budget_are_refused():
    X, y = rows(700)
    with pytest.raises(ValueError, match="n_components=200 needs more than memory_bud"):
        settled(n_components=200, memory_budget="2 MiB").fit(X, y)
    few = settled(n_components=None, regularization=None, memory_budget="1 MiB")
    assert len(few.fit(X, y).family_.T.Y) < 128


def test_lambda_falls_as_rows_come_in():
    X, y = rows(4000)
    model = KCEF(kernel_x=Gaussian(1.0), kernel_y=Gaussian(0.8), random_state=0)
    small(model).fit(X[:150], y[:150])
    before = model.regularization_
    assert model.partial_fit(X[150:], y[150:]).regularization_ < before


# --- rows that come piece by piece


def split(n, seed):
    rng = default_rng(seed)
    order = rng.permutation(n)
    return np.split(order, np.sort(rng.integers(0, n, 5)))


@pytest.mark.parametrize("n", [SAMPLED - 10, 900])
def test_any_split_in_any_order_gives_the_same_model(n):
    X, y = rows(n)
    start = settled().fit(*rows(100, seed=7)) if n > SAMPLED else None
    found = []
    for seed in range(3):
        model = settled() if start is None else start.emptied()
        for part in split(n, seed):
            if len(part):
                model.partial_fit(X[part], y[part])
        assert model.n_rows_ == n
        found.append(log_p(model))
    for other in found[1:]:
        assert_close(other, found[0], SAME)


def test_pieces_of_few_rows_are_one_fit():
    X, y = rows(200)
    model = settled()
    for part in split(200, seed=4):
        if len(part):
            model.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(log_p(model), log_p(settled().fit(X, y)))


def test_a_spec_is_frozen_when_rows_are_too_many_to_be_kept():
    X, y = rows(900)
    model = settled().partial_fit(X[:250], y[:250])
    assert isinstance(model.stream_, KeptRows)
    model.partial_fit(X[250:400], y[250:400])
    assert isinstance(model.stream_, SummedRows)
    kernel = model.family_.T.X.copy()
    model.partial_fit(X[400:], y[400:])
    np.testing.assert_array_equal(model.family_.T.X, kernel)
    assert model.n_rows_ == pytest.approx(900)


def test_streams_merge_in_any_order():
    X, y = rows(900)
    start = settled().fit(X[:100], y[:100])
    parts = [
        start.emptied().partial_fit(X[a : a + 200], y[a : a + 200])
        for a in (100, 300, 500, 700)
    ]
    together = start.emptied().merge(start)
    for part in parts:
        together.merge(part)
    backwards = parts[3].merge(parts[1]).merge(parts[0]).merge(parts[2]).merge(start)
    one = start.emptied().merge(start).partial_fit(X[100:], y[100:])
    assert together.n_rows_ == 900
    for model in (together, backwards):
        assert_close(log_p(model), log_p(one), SAME)


def test_kept_rows_merge_too():
    X, y = rows(240)
    first = settled().partial_fit(X[:100], y[:100])
    first.merge(settled().partial_fit(X[100:], y[100:]))
    np.testing.assert_array_equal(log_p(first), log_p(settled().fit(X, y)))


def test_forgetting_is_the_same_as_smaller_weights():
    X, y = rows(600)
    start = settled().fit(X[:100], y[:100])
    model = start.emptied().partial_fit(X[:300], y[:300])
    model.partial_fit(X[300:], y[300:], forgetting=0.25)
    weights = np.where(np.arange(600) < 300, 0.25, 1.0)
    weighted = start.emptied().partial_fit(X, y, sample_weight=weights)
    assert model.n_rows_ == pytest.approx(375)
    assert_close(log_p(model), log_p(weighted), SAME)
    kept = settled().partial_fit(X[:100], y[:100])
    assert kept.partial_fit(X[100:200], y[100:200], forgetting=0.5).n_rows_ == 150


def test_reliability_counts_all_rows():
    X, y = rows(900)
    model = settled().fit(X[:100], y[:100])
    near = model.reliability(X[:3])
    model.partial_fit(X[100:], y[100:])
    assert_close(model.reliability(X[:3]), 9 * near, 1e-12)


def test_attributes_wait_until_they_are_asked_for():
    X, y = rows(200)
    model = settled().partial_fit(X, y)
    assert model._fitted is None
    assert model.regularization_ == 0.05
    assert model._fitted is not None
    assert not hasattr(KCEF(), "kernel_")
    with pytest.raises(NotFittedError):
        _ = KCEF().family_


@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, "slow", True])
def test_forgetting_factors_that_are_none_are_refused(value):
    X, y = rows(50)
    with pytest.raises(ValueError, match="forgetting must be a number above 0"):
        settled().partial_fit(X, y, forgetting=value)


def test_models_from_files_have_no_sums(tmp_path):
    X, y = rows(60)
    settled().fit(X, y).save(tmp_path / "model.kexpfam")
    model = load(tmp_path / "model.kexpfam")
    with pytest.raises(ValueError, match="partial_fit needs the rows or the sums"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="merge needs the rows or the sums of a fit"):
        model.merge(model)
    with pytest.raises(ValueError, match="emptied needs the rows or the sums"):
        model.emptied()


def test_exact_fits_keep_their_rows_until_they_are_too_many():
    X, y = rows(500)
    exact = KCEF(select=None, random_state=0)
    limited(exact, replace(LIMITS, exact_size=250)).fit(X[:100], y[:100])
    exact.partial_fit(X[100:200], y[100:200])
    assert exact.solver_ == "exact"
    whole = KCEF(select=None, random_state=0).fit(X[:200], y[:200])
    assert_close(log_p(exact), log_p(whole), SAME)
    assert exact.partial_fit(X[200:], y[200:]).n_rows_ == pytest.approx(500)
    assert exact.solver_ == "low-rank"


def test_likelihood_fits_cannot_take_more_rows_than_are_kept():
    X, y = rows(500)
    model = settled(fit_method="likelihood").partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="no sums to add rows to"):
        model.partial_fit(X, y)
    assert model.n_rows_ == 100


def test_other_specs_are_not_merged():
    X, y = rows(200)
    one, other = settled().fit(X, y), settled(random_state=1).fit(X[:150], y[:150])
    with pytest.raises(ValueError, match="do not share coordinates, kernel"):
        one.merge(other)


def test_pieces_with_other_columns_are_refused_and_nothing_is_lost():
    X, y = rows(100)
    model = settled().partial_fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X, np.full(100, np.nan))
    assert model.n_rows_ == 100


def test_a_first_piece_of_one_row_is_enough_to_begin():
    X, y = rows(50)
    model = settled().partial_fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="At least 2 rows"):
        model.predict(X[:1])
    assert np.isfinite(model.partial_fit(X[1:], y[1:]).predict(X[:1])).all()


# --- parts


def test_rows_of_the_sample_are_not_summed_twice():
    X, y = rows(500)
    source = ArraySource(X, y, rows=70)
    sampled = sample_rows(source, 120, seed=3)
    spec = settled().fit(X, y).stream_.statistics.spec
    (sums,) = RowsBeyond(source, sampled).sum(SumOfRows((spec,)))
    assert sum(own.weight for own in sums) == 500 - len(sampled.rows)


def test_copies_of_rows_are_sampled_like_others():
    X = np.repeat(np.arange(10.0), 200)[:, None]
    y = np.tile(np.arange(20.0), 100)
    sampled = sample_rows(ArraySource(X, y, rows=500), 400, seed=0)
    counts = np.bincount(sampled.rows.X[:, 0].astype(int), minlength=10)
    assert 380 <= len(sampled.rows) <= 400
    assert counts.min() > 15  # 40 are expected, with a deviation of 6


def test_folds_depend_on_content_only():
    X, y = rows(100)
    spec = settled().fit(X, y).stream_.statistics.spec
    assert isinstance(spec, LowRankSpec)
    order, data = default_rng(0).permutation(100), Rows(X, y[:, None], np.ones(100))
    hashes = spec.hashes_of(data)
    folds = spec.folds_of(hashes)
    np.testing.assert_array_equal(spec.hashes_of(data[order]), hashes[order])
    assert set(folds) == set(range(N_FOLDS))


def test_a_block_of_nothing_new_changes_nothing():
    X, y = rows(60)
    spec = settled().fit(X, y).stream_.statistics.spec
    source = ArraySource(X, y)
    everything = replace(sample_rows(source, 10, seed=0), known_below=2**64 - 1)
    (sums,) = RowsBeyond(source, everything).sum(SumOfRows((spec,)))
    assert all(own.weight == 0 for own in sums)


def test_base_densities_of_the_spec_are_kept():
    X, y = rows()
    model = settled(base=GaussianBase(scale=3.0)).fit(X, y)
    assert model.base_ == GaussianBase(scale=3.0)


# --- rows that repeat, streams that change, models that do not belong together


def noise(n, p, seed):
    rng = default_rng(seed)
    return rng.normal(size=(n, p)), rng.normal(size=n)


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
@pytest.mark.parametrize("n", [120, 500])
@pytest.mark.slow
def test_copies_of_rows_do_not_flatter_what_is_held_out(estimator, n):
    X, y = noise(n, 3, seed=1)
    model = estimator(random_state=0).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    # A normal density has −1.42; a model that memorises has far less on fresh rows.
    assert model.score(*noise(1000, 3, seed=2)) > -1.65


@pytest.mark.parametrize("estimator", [KCEF(random_state=0), KCEF(select=None)])
def test_a_row_of_weight_two_equals_two_rows(estimator):
    X, y = rows(150)
    twice = np.arange(150) < 60
    weighted = small(clone(estimator)).fit(X, y, sample_weight=1.0 + twice)
    both = np.concatenate([np.arange(150), np.flatnonzero(twice)])
    repeated = small(clone(estimator)).fit(X[both], y[both])
    assert_close(log_p(weighted), log_p(repeated), SAME)


def test_copies_beyond_the_sample_are_in_the_fold_of_the_sampled_row():
    X, y = noise(400, 2, seed=3)
    many = np.tile(np.arange(400), 4)
    model = small(KCEF(kernel_x=Gaussian(0.3), kernel_y=Gaussian(0.5), random_state=0))
    model.fit(X[many], y[many])
    fresh = model.score(*noise(2000, 2, seed=4))
    assert model.components_.chosen.held_out < fresh + 0.15


def test_units_do_not_change_folds():
    X, y = rows(SAMPLED)
    folds = []
    for unit_x, unit_y, shift in ((1.0, 1.0, 0.0), (1e3, 7.0, -3.0)):
        scaled_x, scaled_y = unit_x * X, unit_y * y + shift
        spec = settled().fit(scaled_x, scaled_y).stream_.statistics.spec
        data = Rows(scaled_x, scaled_y[:, None], np.ones(SAMPLED))
        folds.append(spec.folds_of(spec.hashes_of(data)))
    # Standardised values agree to rounding, which may cross a grain once in a while.
    assert np.mean(folds[0] == folds[1]) > 0.99


def test_lambda_is_validated_on_what_is_not_forgotten():
    fresh, y = rows(1000, seed=8)
    scores = {}
    for lam in (None, 1e-2, 1e-3, 1e-4):
        model = settled(
            kernel_x=Gaussian(1.0),
            kernel_y=Gaussian(0.6),
            n_components=60,
            regularization=lam,
            base="gaussian",
        ).fit(*rows(1500))
        for seed in range(1, 5):
            X, moved = rows(700, seed=seed)
            model.partial_fit(X, moved + 1.5, forgetting=0.1)
        scores[lam] = model.score(fresh, y + 1.5)
    chosen = scores.pop(None)
    # Validated on other rows, and from a grid of half an order of magnitude.
    assert chosen > max(scores.values()) - 0.1
    assert chosen > min(scores.values()) + 0.3


def test_validation_rows_are_rows_of_all_pieces_in_any_order():
    X, y = rows(900)
    start = settled().fit(X[:100], y[:100]).stream_.statistics
    blocks = [
        Rows(X[a : a + 200], y[a : a + 200, None], np.ones(200))
        for a in range(100, 900, 200)
    ]
    forward = functools.reduce(lambda r, b: r.added(b), blocks, start.emptied())
    back = functools.reduce(lambda r, b: r.added(b), blocks[::-1], start.emptied())
    assert sorted(forward.validation.keys) == sorted(back.validation.keys)
    assert len(forward.validation.keys) == 800
    problem, log_jacobian = forward.validation.in_folds(forward.spec)
    assert sum(fold.stop - fold.start for fold in problem.folds) == 800
    assert len(log_jacobian) == 800


def test_validation_rows_are_limited():
    X, y = rows(900)
    spec = settled().fit(X[:100], y[:100]).stream_.statistics.spec
    new = Rows(X, y[:, None], np.ones(900))
    Z, U, log_jacobian = spec.coordinates.rows(new)
    sample, hashes = spec.sample(Z, U, new.weights), spec.hashes_of(new)
    many = ValidationRows.of(spec, sample, log_jacobian, hashes)
    assert len(many.keys) == 900
    kept = many._kept(most=50)
    assert sorted(kept.keys) == sorted(many.keys)[:50]


def test_a_regression_that_goes_astray_on_more_rows_is_not_used(monkeypatch):
    X, y = rows(250)
    training = TrainingRows.of(Rows(X, y[:, None], np.ones(250)))
    spec = Spec(limits=Limits(validation_rows=150))
    validation = Validation.of(training, spec, default_rng(0))
    validation.add_coordinates([CoordinateSpec("linear", LinearBase())])
    on_some = validation.coordinates["linear"].coordinates
    good = validation.final("linear").coordinates
    validation._final.clear()
    fit = Validation._fit

    def astray(self, *arguments):
        placed = fit(self, *arguments)
        return replace(placed, U=50.0 * placed.U)

    monkeypatch.setattr(Validation, "_fit", astray)
    assert validation.final("linear").coordinates is on_some
    assert good is not on_some


def test_iterative_fits_to_a_source_do_not_forget_rows():
    X, y = rows(900)
    model = settled(solver="iterative").fit(ArraySource(X, y))
    assert model.n_rows_ == pytest.approx(900)
    with pytest.raises(ValueError, match="partial_fit needs the rows or the sums"):
        model.partial_fit(X, y)


@pytest.mark.parametrize(
    "change",
    [{"base": "student"}, {"derivative_features": True}, {"standardize": False}],
)
def test_specs_that_differ_in_anything_are_not_merged(change):
    X, y = rows(400)
    one, other = settled().fit(X, y), settled(**change).fit(X, y)
    with pytest.raises(ValueError, match="do not share coordinates, kernel"):
        one.merge(other)
    with pytest.raises(ValueError, match="do not share coordinates, kernel"):
        one.merge(settled().fit(X, 2.0 * y))


def test_other_columns_of_y_are_refused():
    X, y = rows(400)
    Y = np.column_stack([y, X[:, 0]])
    for n in (100, 400):
        model = settled().partial_fit(X[:n], y[:n])
        with pytest.raises(ValueError, match=r"2 and 1 column\(s\) as before"):
            model.partial_fit(X, Y)
        with pytest.raises(ValueError, match=r"column\(s\) as before"):
            model.merge(settled().partial_fit(X[:100], Y[:100]))
        assert model.n_rows_ == n


def test_a_model_without_rows_says_so():
    X, y = rows(400)
    empty = settled().fit(X, y).emptied()
    with pytest.raises(ValueError, match="has seen no rows yet"):
        empty.predict(X[:2])


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = rows(400)
    model = settled().fit(X, y)
    before = log_p(model)
    bad = np.column_stack([X, X])
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        model.fit(ArraySource(bad, y))
    np.testing.assert_array_equal(log_p(model), before)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_responses_of_a_frame_are_columns_by_name(library):
    frames = pytest.importorskip(library)
    X, y = rows(100)
    frame = frames.DataFrame({"a": X[:, 0], "y": y, "b": X[:, 1], "w": np.ones(100)})
    by_name = settled().fit(frame, "y", sample_weight="w")
    assert list(by_name.feature_names_in_) == ["a", "b"]
    apart = settled().fit(frame[["a", "b"]], y)
    fresh = frame[["a", "b"]]
    np.testing.assert_array_equal(by_name.predict(fresh), apart.predict(fresh))
    with pytest.raises(
        ValueError, match="X has no column 'z'; its columns are 'a', 'y'"
    ):
        settled().fit(frame, "z")


def test_an_iterative_fit_to_few_rows_has_the_centres_that_were_validated():
    x, y = waves(120, 2)
    direct = small(KCEF(random_state=0)).fit(x, y)
    model = small(KCEF(random_state=0, solver="iterative")).fit(x, y)
    assert model.solver_ == "iterative"
    np.testing.assert_array_equal(model.family_.T.Y, direct.family_.T.Y)
    assert_close(model.score_samples(x, y), direct.score_samples(x, y), 1e-6, scale=1.0)


def test_an_exact_fit_of_more_rows_than_are_kept_is_refused():
    x, y = waves(SAMPLED + 50, 2)
    with pytest.raises(ValueError, match=r"solver='exact' needs all rows in memory"):
        settled(solver="exact").fit(ArraySource(x, y))
