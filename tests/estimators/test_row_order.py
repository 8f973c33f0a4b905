"""The same rows in another order are the same model, to the last bit.

Whatever is dealt by position (folds, trees, starts, samples) is dealt to rows in an
order of their own. So the figures that are compared here are equal, not close.
"""

import warnings

import numpy as np
import pandas
import pytest
from sklearn.ensemble import RandomForestRegressor

from kexpfam import KCEF, AutoKCEF
from kexpfam._row_order import row_order
from kexpfam.baselines import ConditionalKDE
from kexpfam.tables import TableCoder


def rows_of(n, p=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(n, p))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


def same_in_any_order(model, x, y, answer, tolerance=0.0, **more):
    """Fit rows as they come and shuffled, and compare answers."""
    order = np.random.default_rng(9).permutation(len(y))
    found = []
    for rows in (np.arange(len(y)), order):
        own = {name: values[rows] for name, values in more.items()}
        table = x.iloc[rows] if hasattr(x, "iloc") else x[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(answer(model().fit(table, y[rows], **own)))
    np.testing.assert_allclose(*found, rtol=0.0, atol=tolerance)


def auto():
    return AutoKCEF(random_state=0)


def test_an_average_of_few_rows():
    x, y = rows_of(40)
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x, y))


def test_weights_and_rows_that_repeat():
    x, y = rows_of(40)
    x[30:], y[30:] = x[:10], y[:10]
    weights = np.random.default_rng(2).uniform(0.5, 1.5, size=40)
    same_in_any_order(
        auto, x, y, lambda model: model.score_samples(x, y), sample_weight=weights
    )


def test_many_rows_and_a_learned_summary():
    x, y = rows_of(450, p=5)
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x, y))


def test_more_rows_than_are_validated():
    x, y = rows_of(3500, p=1)
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x[:50], y[:50]))


def test_experts():
    x, y = rows_of(60)
    forest = RandomForestRegressor(n_estimators=5, random_state=0)

    def with_experts():
        return AutoKCEF(experts=[ConditionalKDE(), forest], random_state=0)

    same_in_any_order(with_experts, x, y, lambda model: model.score_samples(x, y))


def test_replicates_of_a_band():
    x, y = rows_of(40, p=1)
    same_in_any_order(
        lambda: AutoKCEF(bootstrap=2, random_state=0),
        x,
        y,
        lambda model: model.given(x[:3]).band(0.9, np.zeros((3, 1))),
    )


def test_bounds():
    x, y = rows_of(60)
    y = np.exp(y)
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x, y))


def test_atoms():
    x, y = rows_of(80)
    y[y < -0.2] = -0.2
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x, y))


def test_counts():
    x, y = rows_of(150)
    y = np.random.default_rng(3).poisson(np.exp(1.0 + y)).astype(float)
    same_in_any_order(auto, x, y, lambda model: model.score_samples(x, y))


def test_several_columns():
    x, y = rows_of(40)
    Y = np.column_stack([y, y**2 + x[:, 0]])
    same_in_any_order(auto, x, Y, lambda model: model.score_samples(x, Y))


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_censored_rows(kind):
    x, y = rows_of(60)
    censoring = np.where(y > 0.5, "right", "none")
    same_in_any_order(
        lambda: kind(random_state=0),
        x,
        np.minimum(y, 0.5),
        lambda model: model.score_samples(x, y),
        censoring=censoring,
    )


def table_of(n, seed=0):
    """Texts of 5, 30 and 100 categories, numbers and dates, with gaps in all."""
    rng = np.random.default_rng(seed)
    parts = {
        "few": rng.choice([f"kind {k}" for k in range(5)], n),
        "town": rng.choice([f"town {k}" for k in range(30)], n),
        "street": rng.choice([f"street {k}" for k in range(100)], n),
        "a": rng.normal(size=n).round(1),
        "day": np.datetime64("2024-01-20") + rng.integers(0, 90, n),
    }
    table = pandas.DataFrame(
        {name: cells.astype(object) for name, cells in parts.items()}
    )
    table["a"], table["day"] = parts["a"], pandas.to_datetime(table["day"])
    effect = pandas.Series(parts["town"]).str[5:].astype(int).to_numpy() % 7
    y = table["a"].to_numpy() + effect + np.exp(0.2 * effect) * rng.normal(size=n)
    for i, name in enumerate(table.columns):
        table.loc[rng.choice(n, n // 12 + i, replace=False), name] = None
    return table, y.round(
        1
    )  # rows of one town with one y: other columns have to decide


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_tables_with_many_categories(kind):
    table, y = table_of(150)
    same_in_any_order(
        lambda: kind(random_state=0),
        table,
        y,
        lambda model: model.score_samples(table, y),
    )


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_many_rows_of_a_table_with_many_categories(kind):
    table, y = table_of(600)
    same_in_any_order(
        lambda: kind(random_state=0),
        table,
        y,
        lambda model: model.score_samples(table[:60], y[:60]),
    )


@pytest.mark.filterwarnings("ignore::kexpfam.errors.TableWarning")  # of streets
@pytest.mark.parametrize("seed", range(20))
def test_codings_do_not_depend_on_the_order_of_rows(seed):
    table, y = table_of(400, seed)
    order = np.random.default_rng(seed).permutation(len(y))
    coders = TableCoder(), TableCoder()
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(y)) if seed % 2 else None
    own = None if weights is None else weights[order]
    first = coders[0].fit_transform(table, y, weights)
    other = coders[1].fit_transform(table.iloc[order], y[order], own)
    np.testing.assert_array_equal(other, first[order])
    new = table_of(50, seed + 100)[0]
    np.testing.assert_array_equal(*(coder.transform(new) for coder in coders))


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_rows_near_an_x_are_counted_alike(kind):
    x, y = rows_of(300, p=1)
    model = lambda: kind(random_state=0)  # noqa: E731 - of one line
    same_in_any_order(model, x, y, lambda model: model.neighbourhood_.count(x))


def test_a_memmap_of_few_rows_is_the_model_of_the_array(tmp_path):
    x, y = rows_of(40)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    one, other = (auto().fit(some, y) for some in (x, mapped))
    assert np.array_equal(one.score_samples(x, y), other.score_samples(x, y))


def test_the_rows_of_an_average_are_those_of_the_user():
    """Held-out log densities say of which rows they are."""
    x, y = rows_of(40)
    order = row_order(x, y)
    x, y = x[order], y[order]
    model = auto().fit(x, y)
    numbers, held_out = model._law.held_out
    assert np.array_equal(np.sort(numbers), np.arange(40))
    fitted = model.score_samples(x, y)[numbers]
    assert np.corrcoef(fitted, held_out)[0, 1] > 0.8
