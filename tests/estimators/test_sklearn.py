"""KEF and KCEF inside scikit-learn: its own checks, its tools, and data frames."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kexpfam import KCEF, KEF, AutoKCEF
from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.kernels import Gaussian, Matern
from kexpfam.selection import choosing
from kexpfam.selection.spec import default_coordinates

_NEEDS_Y = (
    "the check calls score_samples(X), but log p(y|x) is a function of x and y, so "
    "KCEF.score_samples takes both; given(X) is covered by "
    "test_densities_do_not_depend_on_the_other_rows_of_a_call"
)
_EXPECTED_FAILURES = {
    "KCEF": {
        "check_methods_sample_order_invariance": _NEEDS_Y,
        "check_methods_subset_invariance": _NEEDS_Y,
    },
    "KEF": {},
}


def assert_same_numbers(found, expected):
    """Equal but for the order of summation, which follows the memory layout."""
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def _expected_failures(estimator):
    return _EXPECTED_FAILURES[type(estimator).__name__]


# The checks fit tables of three and more columns, where the importance sampler rightly
# says that it is unreliable.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.NormalizationWarning")
# Some checks fit clusters of several columns.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
@parametrize_with_checks(
    [KEF(), KCEF(select=None)],
    expected_failed_checks=_expected_failures,
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


@pytest.fixture
def two_coordinates(monkeypatch):
    """Fewer coordinates: the checks are about the interface, 90 fits to tiny tables.

    With all of them they take minutes, and pass as well.
    """
    kept = {"normal", "linear"}
    small = [spec for spec in default_coordinates() if spec.name in kept]
    monkeypatch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: small))
    monkeypatch.setattr(choosing, "default_coordinates", lambda: small)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kexpfam.errors.NormalizationWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.errors.MeasureWarning")
@pytest.mark.usefixtures("two_coordinates")
@parametrize_with_checks(
    [KCEF(), AutoKCEF(likelihood=False)],
    expected_failed_checks=lambda _: _EXPECTED_FAILURES["KCEF"],
)
def test_scikit_learn_check_passes_with_a_choice(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(20)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=60)
    X.flags.writeable = y.flags.writeable = False
    return X, y


CONFIGURED = [
    KEF(
        kernel=Matern(1.5),
        base=StudentBase(2.0, df=4.0),
        regularization=0.1,
        standardize=False,
        n_jobs=1,
        random_state=3,
    ),
    KCEF(
        select=None,
        kernel_y=Gaussian(0.7),
        kernel_x=Matern(1.5, nu=0.5),
        base=GaussianBase(3.0),
        regularization=0.02,
        standardize=False,
        n_jobs=2,
        random_state=3,
    ),
]


@pytest.mark.parametrize("model", CONFIGURED, ids=["KEF", "KCEF"])
def test_clone_keeps_every_parameter_and_forgets_the_fit(model, rows):
    X, y = rows
    copy = clone(clone(model).fit(X[:, :1], y))
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.score(X[:, :1], y)


@pytest.mark.parametrize("model", CONFIGURED, ids=["KEF", "KCEF"])
def test_fit_leaves_constructor_arguments_alone(model, rows):
    X, y = rows
    before = dict(model.get_params())
    fitted = clone(model).fit(X[:, :1], y)
    assert fitted.get_params() == before


@pytest.mark.parametrize("kind", [KEF, KCEF, AutoKCEF])
def test_get_params_lists_every_argument_and_set_params_changes_it(kind):
    names = set(inspect.signature(kind).parameters)
    model = kind()
    assert set(model.get_params()) == names
    for name in names:
        marker = object()
        assert model.set_params(**{name: marker}) is model
        assert model.get_params(deep=False)[name] is marker
        assert getattr(model, name) is marker
    with pytest.raises(ValueError, match="Invalid parameter 'bandwidth'"):
        model.set_params(bandwidth=1.0)


@pytest.mark.parametrize("kind", [KEF, KCEF, AutoKCEF])
def test_constructor_arguments_are_keyword_only(kind):
    with pytest.raises(TypeError, match="positional argument"):
        kind(Gaussian(1.0))


# So short a lengthscale with so little λ puts mass where no rows are.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
def test_set_params_before_fit_equals_constructing_with_them(rows):
    X, y = rows
    changed = (
        KCEF(select=None)
        .set_params(kernel_y=Gaussian(0.5), regularization=0.01)
        .fit(X, y)
    )
    built = KCEF(select=None, kernel_y=Gaussian(0.5), regularization=0.01).fit(X, y)
    assert np.array_equal(changed.score_samples(X, y), built.score_samples(X, y))
    assert not np.array_equal(
        changed.score_samples(X, y), KCEF(select=None).fit(X, y).score_samples(X, y)
    )


def test_refitting_forgets_the_previous_data(rows):
    X, y = rows
    model = (
        KCEF(select=None).fit(pd.DataFrame(X, columns=["a", "b"]), y).fit(X[:, :1], -y)
    )
    fresh = KCEF(select=None).fit(X[:, :1], -y)
    assert model.n_features_in_ == 1
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(
        model.score_samples(X[:, :1], -y), fresh.score_samples(X[:, :1], -y)
    )


def test_kcef_is_a_regressor_to_scikit_learn_and_kef_is_not():
    assert is_regressor(KCEF())
    assert not is_regressor(KEF())


def test_repr_shows_changed_parameters_only():
    assert repr(KCEF()) == "KCEF()"
    assert "regularization=0.5" in repr(KCEF(regularization=0.5))


def test_pipeline_with_a_scaler_equals_scaling_by_hand(rows):
    X, y = rows
    X = X * [10.0, 0.1] + [3.0, -2.0]
    pipeline = make_pipeline(
        StandardScaler(), KCEF(select=None, standardize=False)
    ).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    by_hand = KCEF(select=None, standardize=False).fit(scaled, y)
    assert np.array_equal(pipeline.predict(X), by_hand.predict(scaled))
    assert pipeline.score(X, y) == by_hand.score(scaled, y)
    assert pipeline.score(X, y) != KCEF(select=None, standardize=False).fit(X, y).score(
        X, y
    )


def test_standardize_makes_a_scaler_of_x_redundant(rows):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), KCEF(select=None)).fit(
        X * [1e3, 1e-3], y
    )
    alone = KCEF(select=None).fit(X, y)
    np.testing.assert_allclose(
        pipeline.predict(X * [1e3, 1e-3]), alone.predict(X), rtol=1e-9
    )


def test_grid_search_finds_the_candidate_with_the_best_held_out_log_density(rows):
    X, y = rows
    grid = {
        "kernel_y": [None, Gaussian(0.5), Matern(1.0)],
        "regularization": [1e-3, 1e-1, 1e3],
    }
    search = GridSearchCV(
        KCEF(select=None), grid, cv=KFold(3), error_score="raise"
    ).fit(X, y)
    by_hand = []
    for candidate in search.cv_results_["params"]:
        folds = [
            KCEF(select=None, **candidate).fit(X[a], y[a]).score(X[b], y[b])
            for a, b in KFold(3).split(X)
        ]
        by_hand.append(np.mean(folds))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_ == search.cv_results_["params"][np.argmax(by_hand)]
    assert search.best_params_["regularization"] != 1e3
    assert search.score(X, y) == search.best_estimator_.score(X, y)


def test_grid_search_reaches_into_a_pipeline(rows):
    X, y = rows
    pipeline = Pipeline([("scale", StandardScaler()), ("density", KCEF(select=None))])
    search = GridSearchCV(
        pipeline, {"density__regularization": [1e-2, 1e2]}, cv=2, error_score="raise"
    ).fit(X, y)
    assert search.best_params_ == {"density__regularization": 1e-2}


def test_grid_search_over_kef_needs_no_y(rows):
    X, _ = rows
    search = GridSearchCV(KEF(), {"regularization": [1e-2, 1e2]}, cv=3).fit(X[:, :1])
    assert search.best_params_ == {"regularization": 1e-2}


def test_cross_val_score_is_the_mean_log_density_of_each_fold(rows):
    X, y = rows
    scores = cross_val_score(KCEF(select=None), X, y, cv=KFold(4), error_score="raise")
    by_hand = [
        np.mean(KCEF(select=None).fit(X[a], y[a]).score_samples(X[b], y[b]))
        for a, b in KFold(4).split(X)
    ]
    np.testing.assert_allclose(scores, by_hand)


def test_cross_val_predict_gives_each_row_its_held_out_mean(rows):
    X, y = rows
    predicted = cross_val_predict(KCEF(select=None), X, y, cv=KFold(3))
    by_hand = np.empty(len(y))
    for a, b in KFold(3).split(X):
        by_hand[b] = KCEF(select=None).fit(X[a], y[a]).predict(X[b])
    np.testing.assert_allclose(predicted, by_hand)
    assert np.corrcoef(predicted, y)[0, 1] > 0.7


def test_cross_val_predict_keeps_columns_of_a_two_column_y(rows):
    X, y = rows
    Y = np.column_stack([y, X[:, 0] + 0.1 * np.cos(9 * y)])
    assert cross_val_predict(KCEF(select=None), X, Y, cv=2).shape == Y.shape


def test_densities_do_not_depend_on_the_other_rows_of_a_call(rows):
    X, y = rows
    model = KCEF(select=None).fit(X, y)
    whole = model.score_samples(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    # Panels are shared by the rows of a call, so the quadrature may differ in digits
    # below its tolerance.
    tight = {"rtol": 0.0, "atol": 1e-9}
    np.testing.assert_allclose(
        model.score_samples(X[order], y[order]), whole[order], **tight
    )
    single = [model.score_samples(X[i : i + 1], y[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(single, whole[:20], **tight)
    np.testing.assert_allclose(
        model.given(X).logpdf(y),
        np.ravel([p.logpdf(v) for p, v in zip(model.given(X), y, strict=True)]),
        **tight,
    )


FRAMES = {
    "pandas": (pd.DataFrame, pd.Series),
    "polars": (
        lambda data, columns: pl.DataFrame(data, schema=columns),
        lambda data, name: pl.Series(name, data),
    ),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_and_series_give_the_numbers_of_arrays(library, rows):
    X, y = rows
    frame, series = FRAMES[library]
    table, response = frame(X, columns=["a", "b"]), series(y, name="y")
    from_frame, from_array = (
        KCEF(select=None).fit(table, response),
        KCEF(select=None).fit(X, y),
    )
    assert_same_numbers(
        from_frame.score_samples(table, response), from_array.score_samples(X, y)
    )
    assert_same_numbers(from_frame.predict(table), from_array.predict(X))
    assert_same_numbers(
        from_frame.predict_quantiles(table, [0.1, 0.9]),
        from_array.predict_quantiles(X, [0.1, 0.9]),
    )
    assert_same_numbers(from_frame.score(table, response), from_array.score(X, y))
    assert_same_numbers(
        from_frame.sample(table, 2, random_state=0),
        from_array.sample(X, 2, random_state=0),
    )


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_of_responses_equals_an_array_of_them(library, rows):
    X, y = rows
    Y = np.column_stack([y, X[:, 1] - y**2])
    frame, _ = FRAMES[library]
    responses = frame(Y, columns=["u", "v"])
    from_frame, from_array = (
        KCEF(select=None).fit(X, responses),
        KCEF(select=None).fit(X, Y),
    )
    few = slice(10)  # an integral over the plane each
    assert_same_numbers(
        from_frame.score_samples(X[few], responses[few]),
        from_array.score_samples(X[few], Y[few]),
    )


@pytest.mark.parametrize("library", FRAMES)
def test_kef_takes_frames(library, rows):
    X, _ = rows
    frame, _ = FRAMES[library]
    table = frame(X, columns=["a", "b"])
    model = KEF(select=None).fit(table)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert_same_numbers(
        model.score_samples(table), KEF(select=None).fit(X).score_samples(X)
    )


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("kind", [KEF, KCEF])
def test_feature_names_are_stored_and_other_names_are_refused(library, kind, rows):
    X, y = rows
    frame, _ = FRAMES[library]
    model = kind().fit(frame(X, columns=["age", "dose"]), y)
    assert model.feature_names_in_.tolist() == ["age", "dose"]
    if kind is KEF:
        swapped = frame(X[:, ::-1], columns=["dose", "age"])
        straight = frame(X, columns=["age", "dose"])
        found, expected = model.score_samples(swapped), model.score_samples(straight)
        assert_same_numbers(found, expected)
    renamed = frame(X, columns=["age", "weight"])
    arguments = (renamed,) if kind is KEF else (renamed, y)
    with pytest.raises(ValueError, match="unseen at fit time:\n- weight"):
        model.score(*arguments)


@pytest.mark.parametrize("method", ["predict", "given", "sample", "predict_interval"])
@pytest.mark.parametrize("library", FRAMES)
def test_every_method_goes_by_the_names_of_columns(method, library, rows):
    X, y = rows
    frame, _ = FRAMES[library]
    model = KCEF(select=None).fit(frame(X, columns=["age", "dose"]), y)
    other = np.column_stack([X[:, 1], y, X[:, 0]])
    swapped = frame(other, columns=["dose", "y", "age"])
    options = {"random_state": 0} if method == "sample" else {}
    found, expected = (
        getattr(model, method)(x, **options)
        for x in (swapped, frame(X, columns=["age", "dose"]))
    )
    if method == "given":
        found, expected = found.mean(), expected.mean()
    assert_same_numbers(found, expected)


def test_an_array_after_names_gives_scikit_learns_warning(rows):
    X, y = rows
    model = KCEF(select=None).fit(pd.DataFrame(X, columns=["age", "dose"]), y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_y_as_one_column_works_like_a_flat_y(rows):
    X, y = rows
    flat, column = KCEF(select=None).fit(X, y), KCEF(select=None).fit(X, y[:, None])
    for model in (flat, column):
        for response in (y, y[:, None], pd.DataFrame({"y": y})):
            assert np.array_equal(
                model.score_samples(X, response), flat.score_samples(X, y)
            )
        assert model.predict(X).shape == (60,)
        assert model.sample(X, 3, random_state=0).shape == (60, 3)
    assert np.array_equal(column.predict(X), flat.predict(X))


def test_integer_and_single_precision_input_is_taken_as_double():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 9, size=(40, 2)), rng.integers(0, 30, size=40)
    expected = KCEF(select=None).fit(X.astype(float), y.astype(float)).score(X, y)
    assert KCEF(select=None).fit(X, y).score(X, y) == expected
    assert (
        KCEF(select=None).fit(X.astype(np.float32), y.astype(np.int8)).score(X, y)
        == expected
    )
    assert (
        KCEF(select=None).fit(X.tolist(), y.tolist()).score(X.tolist(), y.tolist())
        == expected
    )


def test_memory_order_of_x_does_not_matter(rows):
    X, y = rows
    c, f = (
        KCEF(select=None).fit(X, y),
        KCEF(select=None).fit(np.asfortranarray(X), y[::-1][::-1]),
    )
    assert_same_numbers(c.score_samples(X, y), f.score_samples(X, y))


@pytest.mark.parametrize("kind", [KEF, KCEF])
def test_score_is_the_weighted_mean_of_score_samples(kind, rows):
    X, y = rows
    arguments = (X,) if kind is KEF else (X, y)
    model = kind().fit(X, y)
    log_p = model.score_samples(*arguments)
    weights = np.linspace(0, 2, len(y))
    assert model.score(*arguments) == pytest.approx(log_p.mean(), rel=1e-14)
    weighted = model.score(X, y, sample_weight=weights)
    assert weighted == pytest.approx(weights @ log_p / weights.sum(), rel=1e-14)
    assert weighted != model.score(*arguments)
    assert isinstance(weighted, float)
    only_first = np.zeros(len(y))
    only_first[0] = 7.0
    assert model.score(X, y, sample_weight=only_first) == pytest.approx(log_p[0])


def test_two_fits_with_the_same_seed_are_equal_and_a_generator_is_accepted(rows):
    X, y = rows
    Z = np.column_stack([X, y])

    def score(seed):
        return KEF(regularization=0.3, random_state=seed).fit(Z).score(Z)

    assert score(5) == score(5)
    assert score(5) != score(6)
    assert score(np.random.default_rng(5)) == score(np.random.default_rng(5))
    assert score(np.random.RandomState(5)) == score(np.random.RandomState(5))


def test_fitting_does_not_touch_the_global_random_state(rows):
    X, y = rows
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - its use is the question
    KCEF(select=None).fit(X, y).sample(X, 2)
    after = np.random.get_state()[1]  # noqa: NPY002
    assert np.array_equal(before, after)


def test_input_arrays_are_not_changed(rows):
    X, y = (part.copy() for part in rows)
    weights = np.ones(60)
    model = KCEF(select=None).fit(X, y, sample_weight=weights)
    model.score(X, y, sample_weight=weights)
    assert np.array_equal(X, rows[0])
    assert np.array_equal(y, rows[1])
    assert np.array_equal(weights, np.ones(60))
