"""Missing entries as draws, against closed forms for normal conditionals."""

import numpy as np
import pytest
from scipy import stats

from kexpfam import FactorizedDensity
from kexpfam.errors import SamplingWarning

from .gaussians import (
    LinearNormal,
    Normal,
    conditioned,
    joint_of,
    linear_table,
    normal_joint,
)


@pytest.fixture(scope="module")
def model():
    return normal_joint(linear_table(noise=1.0))


def test_what_is_known_is_kept(model):
    Y = np.array([[1.0, np.nan, 2.0], [0.5, 0.1, 0.2], [np.nan, 0.0, np.nan]])
    done = model.impute(Y, random_state=0)
    assert np.isfinite(done).all()
    np.testing.assert_array_equal(done[np.isfinite(Y)], Y[np.isfinite(Y)])


@pytest.mark.parametrize("missing", [[2], [1, 2], [0], [1], [0, 2], [0, 1, 2]])
def test_draws_follow_the_conditional_given_what_is_known(model, missing):
    row = np.array([1.5, 0.2, 1.0])
    known = [i for i in range(3) if i not in missing]
    row[missing] = np.nan
    draws = model.impute(np.tile(row, (4000, 1)), random_state=0)
    mean, cov = joint_of(model)
    if known:
        mean, cov = conditioned(mean, cov, known, row[known])
    for k, column in enumerate(missing):
        expected = stats.norm(mean[k], np.sqrt(cov[k, k]))
        assert stats.kstest(draws[:, column], expected.cdf).pvalue > 0.01
    found = np.corrcoef(draws[:, missing].T).reshape(len(missing), -1)
    expected = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    np.testing.assert_allclose(found, expected, atol=0.05)  # three errors of 4000 rows


def test_rows_with_different_entries_missing_are_filled_in_together(model):
    rng = np.random.default_rng(0)
    Y = model.sample(200, random_state=0)
    holes = rng.random(Y.shape) < 0.3
    done = model.impute(np.where(holes, np.nan, Y), random_state=0)
    assert np.isfinite(done).all()
    mean, cov = joint_of(model)
    np.testing.assert_allclose(
        done.mean(axis=0), mean, atol=4 * np.sqrt(np.diag(cov).max() / 200)
    )


def test_several_tables_have_a_leading_axis(model):
    Y = np.array([[1.0, np.nan, 2.0]])
    assert model.impute(Y, n_draws=5, random_state=0).shape == (5, 1, 3)
    assert model.impute(Y, n_draws=1, random_state=0).shape == (1, 1, 3)
    assert model.impute(Y, random_state=0).shape == (1, 3)


def test_draws_below_what_is_known_are_exact(model):
    Y = np.array([[1.0, np.nan, np.nan], [np.nan, 0.0, 0.0], [1.0, 1.0, 1.0]])
    done = model.imputation(Y, random_state=0)
    assert np.isinf(done.effective_sample_size[[0, 2]]).all()
    assert 1 <= done.effective_sample_size[1] <= 200


def test_rows_that_contradict_nearly_all_draws_are_warned_about(model):
    Y = np.array([[np.nan, 60.0, -60.0]])
    with pytest.warns(SamplingWarning, match="in 1 of 1 rows"):
        done = model.imputation(Y, random_state=0, population=50)
    assert done.effective_sample_size[0] < 10


def test_seeds_reproduce(model):
    Y = np.array([[np.nan, 0.3, np.nan]] * 4)
    first, second = (model.impute(Y, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_missing_condition_is_named():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 2))
    model = FactorizedDensity(exogenous=[0], factor=LinearNormal()).fit(Y)
    Y[7, 0] = np.nan
    with pytest.raises(ValueError, match="exogenous column 0 in row 7"):
        model.impute(Y)


def test_part_of_a_block_is_refused():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 2))
    model = FactorizedDensity(graph={(0, 1): []}, root=Normal()).fit(Y)
    Y[3, 0] = np.nan
    with pytest.raises(ValueError, match="block '0, 1', but not all, in row 3"):
        model.impute(Y)
    Y[3, 1] = np.nan
    assert np.isfinite(model.impute(Y, random_state=0)).all()
