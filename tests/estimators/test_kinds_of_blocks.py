"""Bounds, atoms and counts of rows that are read block by block."""

import numpy as np
import pytest
from scipy import special

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.data import ArraySource, ChangedSource, reduce_blocks
from kexpfam.data.row_hashes import RowSample
from kexpfam.distributions import BoundedDensity, MixedDensity
from kexpfam.errors import DegenerateDataError, MeasureWarning
from kexpfam.estimators.mixed import rows_without_atoms
from kexpfam.family import Limits, sample_rows
from tests.limits import limited
from tests.simulations import inflated, shares

SAMPLED = 300
NEW = np.array([[-0.9], [0.0], [0.9]])
QUICK = {"experts": ["families"], "likelihood": False, "random_state": 0}


pytestmark = pytest.mark.usefixtures("few_coordinates")


def in_blocks(x, y, rows=100):
    return ArraySource(x, y[:, None], rows=rows)


def sampling(model):
    """A model that chooses on a sample of few rows."""
    return limited(model, Limits(design_rows=SAMPLED, average_rows=SAMPLED))


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_few_rows_of_a_source_are_as_in_memory(kind):
    x, y = shares(80)
    how = QUICK if kind is AutoKCEF else {"select": None, "random_state": 0}
    models = [
        kind(lower=0.0, upper=1.0, **how).fit(*data)
        for data in ([x, y], [in_blocks(x, y, 30)])
    ]
    one, other = (model.given(NEW) for model in models)
    assert isinstance(other, BoundedDensity)
    np.testing.assert_allclose(other.mean(), one.mean(), rtol=1e-9)
    assert np.all(other.cdf(-1e-12) + other.sf(1.0) == 0.0)


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_bounds_that_are_given_hold_for_all_blocks(kind, tmp_path):
    x, y = shares(900)
    how = QUICK if kind is AutoKCEF else {"random_state": 0}
    model = sampling(kind(lower=0.0, upper=1.0, **how)).fit(in_blocks(x, y))
    p = model.given(NEW)
    assert np.all(p.cdf(-1e-12) + p.sf(1.0) == 0.0)
    truth = special.expit(2.0 * NEW[:, 0])
    assert np.abs(p.mean() - truth).max() < 0.06
    # All rows were summed, and not those of the sample only.
    assert model.neighbourhood_.weights.sum() == pytest.approx(900.0)
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam").given(NEW)
    np.testing.assert_allclose(again.mean(), p.mean(), rtol=1e-9)


@pytest.mark.parametrize("kind", [AutoKCEF, KCEF])
def test_one_row_outside_given_bounds_is_found_in_any_block(kind):
    x, y = shares(900)
    y[777] = 1.25
    how = QUICK if kind is AutoKCEF else {"random_state": 0}
    model = sampling(kind(lower=0.0, upper=1.0, **how))
    with pytest.raises(DegenerateDataError, match=r"to 1\.25, beyond \[0, 1\]"):
        model.fit(in_blocks(x, y))


def test_likely_bounds_are_noticed_unless_a_row_is_beyond():
    x, y = shares(900)
    p = sampling(AutoKCEF(**QUICK)).fit(in_blocks(x, y)).given(NEW)
    outside = p.cdf(-1e-12) + p.sf(1.0)
    assert np.all((outside > 0.0) & (outside < 0.005))
    sampled = sample_rows(in_blocks(x, y), SAMPLED, 7).rows.Y[:, 0]
    known = set(sampled.tolist())
    other = next(i for i, v in enumerate(y.tolist()) if v not in known)
    y[other] = -0.3
    model = sampling(AutoKCEF(**QUICK)).fit(in_blocks(x, y))
    assert model.support_ is None


def test_atoms_are_found_and_the_rest_is_of_all_blocks():
    x, y = inflated(1500)
    model = sampling(AutoKCEF(**QUICK))
    with pytest.warns(MeasureWarning, match="y is 0 in"):
        model.fit(in_blocks(x, y))
    p = model.given(NEW)
    assert isinstance(p, MixedDensity)
    assert model.atoms_.tolist() == [0.0]
    assert np.abs(p.pmf(0.0) - special.expit(2.0 * NEW[:, 0])).max() < 0.12
    assert np.abs(p.density.mean() - 3.0).max() < 0.5
    assert model.neighbourhood_.weights.sum() == pytest.approx(1500.0)
    rest = model.discrete_.rest.neighbourhood.weights.sum()
    assert rest == pytest.approx(np.count_nonzero(y))


def test_counts_are_found_in_a_sample():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(900, 1))
    y = 1.0 * rng.poisson(3.0 * np.exp(0.5 * x[:, 0]))
    model = sampling(AutoKCEF(**QUICK))
    with pytest.warns(MeasureWarning, match="whole numbers"):
        model.fit(in_blocks(x, y))
    p = model.given(NEW)
    assert p.measure == "counting"
    assert np.abs(p.mean() - 3.0 * np.exp(0.5 * NEW[:, 0])).max() < 0.7


def test_rounding_is_seen_in_a_sample():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(900, 1))
    y = (x[:, 0] + rng.normal(size=900)).round(1)
    assert sampling(AutoKCEF(**QUICK)).fit(in_blocks(x, y)).rounding_ == 0.1


def test_changed_blocks_leave_rows_out_in_threads_and_one_by_one():
    x, y = inflated(400)
    source = ChangedSource(
        in_blocks(x, y, 7), lambda rows: rows_without_atoms(rows, (0.0,))
    )
    read = [block for part in source.parts for block in part.read()]
    assert all(len(block) for block in read)
    kept = np.sort(np.concatenate([block.Y[:, 0] for block in read]))
    np.testing.assert_array_equal(kept, np.sort(y[y != 0]))
    for threads in (1, 2):
        sample = reduce_blocks(source, RowSample(1000, seed=0), n_jobs=threads)
        np.testing.assert_array_equal(np.sort(sample.Y[:, 0]), kept)


def test_the_range_of_a_sample_is_that_of_all_rows():
    x, y = shares(900)
    found = sample_rows(in_blocks(x, y), 50, 0, n_jobs=2)
    assert (found.low, found.high, found.weight) == (y.min(), y.max(), 900.0)
