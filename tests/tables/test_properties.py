"""Random frames: whatever their types, gaps and orders, they become finite numbers."""

import datetime
import tempfile
import warnings

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from kexpfam import KCEF, load
from kexpfam.errors import DegenerateDataError, TableWarning
from kexpfam.tables import TableCoder, TableError
from tests.properties import searched

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))
texts = st.text("abc é'\"=", min_size=1, max_size=3)
CELLS = {
    "number": numbers,
    "whole": st.integers(-5, 5),
    "flag": st.booleans(),
    "text": texts,
    "many": st.integers(0, 40).map(lambda i: f"v{i}"),
    "date": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    "moment": st.datetimes(datetime.datetime(1950, 1, 1)),
    "lasted": st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=99)),
    "same": st.just("Peru"),
}


@st.composite
def tables(draw, fewest=6, most=30):
    """Columns of random kinds by name, with gaps in some."""
    n = draw(st.integers(fewest, most))
    names = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=5))
    columns = {}
    for i, kind in enumerate(names):
        cells = CELLS[kind]
        if draw(st.booleans()):
            cells = st.one_of(st.none(), cells)
        columns[f"{kind} {i}"] = draw(st.lists(cells, min_size=n, max_size=n))
    return columns


def as_frame(columns, library):
    if library == "columns":
        return columns
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    return make(columns)


def coded(columns, y, library="columns"):
    """Coder and rows of a table; None if no column of it could help."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        try:
            coder = TableCoder()
            return coder, coder.fit_transform(as_frame(columns, library), y)
        except TableError as error:
            if "no column that could help" not in str(error):
                raise
            return None


@searched(40)
@given(tables(), st.sampled_from(["columns", "pandas", "polars"]))
def test_tables_become_finite_numbers_in_any_order_of_columns(columns, library):
    n = len(next(iter(columns.values())))
    y = np.sin(np.arange(n))
    found = coded(columns, y, library)
    if found is None:
        return
    coder, X = found
    names = coder.get_feature_names_out().tolist()
    assert X.shape == (n, len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(X).all()
    turned = {name: columns[name] for name in reversed(columns)}
    frame = as_frame(turned | {"other": list(range(n))}, library)
    new = coder.transform(frame)
    np.testing.assert_array_equal(new, coder.transform(as_frame(columns, library)))
    one = coder.transform({name: cells[:1] for name, cells in columns.items()})
    np.testing.assert_array_equal(one, new[:1])
    none = {name: np.array(cells, dtype=object)[:0] for name, cells in columns.items()}
    assert coder.transform(none).shape == (0, len(names))


@searched(30)
@given(tables(), tables(fewest=1, most=5))
def test_rows_with_anything_new_are_finite_numbers_and_a_warning_at_most(old, new):
    found = coded(old, np.sin(np.arange(len(next(iter(old.values()))))))
    if found is None:
        return
    coder, X = found
    rows = len(next(iter(new.values())))
    kinds = {name.split()[0]: cells for name, cells in new.items()}
    # What is not drawn anew is missing.
    frame = {name: kinds.get(name.split()[0], [None] * rows) for name in old}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Z = coder.transform(frame)
    assert Z.shape == (rows, X.shape[1])
    assert np.isfinite(Z).all()
    assert len(seen) <= 1


@searched(40)
@given(tables())
def test_the_inverse_is_coded_as_before(columns):
    found = coded(columns, np.sin(np.arange(len(next(iter(columns.values()))))))
    if found is None:
        return
    coder, _ = found
    X = coder.transform(columns)
    back = coder.transform(coder.inverse_transform(X))
    alone = [i for i, n in enumerate(coder.get_feature_names_out()) if "mean" not in n]
    np.testing.assert_allclose(back[:, alone], X[:, alone], atol=1e-6)


def some_rows(columns, rows, library):
    """A frame of some of the rows, by their numbers."""
    some = {name: [cells[i] for i in rows] for name, cells in columns.items()}
    return as_frame(some, library)


def fitted(columns, y, library):
    """A model of a table; None if it has no column that could help."""
    try:
        return KCEF(select=None).fit(as_frame(columns, library), y)
    except (TableError, DegenerateDataError):
        return None


@searched(15)
@given(
    tables(fewest=12, most=20),
    tables(fewest=1, most=5),
    st.sampled_from(["columns", "pandas", "polars"]),
    st.randoms(use_true_random=False),
)
def test_models_of_random_tables_answer_and_so_do_their_files(
    columns, new, library, random
):
    n = len(next(iter(columns.values())))
    y = np.sin(np.arange(n)) + 0.1 * np.arange(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(columns, y, library)
        if model is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model.kexpfam")
            again = load(f"{folder}/model.kexpfam")
        frame = as_frame(columns, library)
        means = model.predict(frame)
        assert np.isfinite(means).all()
        # Names of columns, and not their order.
        turned = {name: columns[name] for name in reversed(columns)}
        other = as_frame(turned | {"other": list(range(n))}, library)
        for who, asked in ((model, other), (again, frame), (again, other)):
            np.testing.assert_allclose(who.predict(asked), means, rtol=1e-9)
        # Another order of the rows.
        order = random.sample(range(n), n)
        twin = KCEF(select=None).fit(some_rows(columns, order, library), y[order])
        np.testing.assert_array_equal(twin.predict(frame), means)
        # One row, and none.
        for who in (model, again):
            one = who.predict(some_rows(columns, [0], library))
            np.testing.assert_allclose(one, means[:1], rtol=1e-9)
            none = some_rows(columns, [], library)
            assert who.predict(none).shape == (0,)
            assert who.predict_quantiles(none, [0.1, 0.9]).shape == (0, 2)
            assert len(who.given(none)) == 0
            assert who.predict_frame(none).shape == (0, 5)
        # What the fit has not seen.
        rows = len(next(iter(new.values())))
        kinds = {name.split()[0]: cells for name, cells in new.items()}
        strange = as_frame(
            {name: kinds.get(name.split()[0], [None] * rows) for name in columns},
            library,
        )
        found = model.predict(strange)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(again.predict(strange), found, rtol=1e-9)
