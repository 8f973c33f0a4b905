"""What candidates say of rows they have not seen, against fits without each fold."""

import numpy as np
import pytest

from kexpfam import AutoKCEF
from kexpfam.selection.held_out_laws import HeldOutLaws
from tests.selection.test_defensive import Kept
from tests.tolerances import assert_close


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 1))
    return x, np.exp(x[:, 0] + 0.5 * rng.normal(size=n))


@pytest.fixture(scope="module")
def model():
    return Kept(random_state=0, likelihood=False, lower=0.0, n_jobs=1).fit(*rows(80, 0))


def test_means_and_variances_are_those_of_y_behind_maps_and_transforms(model):
    """Against densities of the fit to all rows, which differ by one fold in ten."""
    laws = HeldOutLaws(model.validation_, model.support_)
    assert_close(np.sort(laws.responses), np.sort(rows(80, 0)[1]), 1e-9)
    X = model.validation_.rows.X
    p = model.given(X)
    found = laws.mixed(
        [member.candidate for member in model.members_],
        np.array([m.weight for m in model.members_]) / (1 - model.members_.defensive),
    )
    below, mean, variance = found.T
    assert np.median(np.abs(mean / p.mean() - 1.0)) < 0.1
    assert 0.7 < np.sqrt(np.median(variance) / np.median(p.var())) < 1.3
    assert np.all((below > 0) & (below < 1))


def test_base_densities_alone_have_the_moments_of_their_coordinates(model):
    validation = model.validation_
    laws = HeldOutLaws(validation)  # of log y, whose map is left out
    for candidate in validation.candidates:
        placed = validation.coordinates[candidate.coordinates]
        if candidate.kernel is None and placed.coordinates.transform is None:
            scale = np.exp(-placed.log_abs_det_jacobian)
            _, mean, variance = laws.of(candidate).T
            center = validation.rows.Y[:, 0] - scale * placed.U[:, 0]
            # Nodes end where far tails are still some hundredths of a variance.
            assert_close(mean, center, 1e-3)
            std = scale * candidate.base.column_std(0)
            np.testing.assert_allclose(np.sqrt(variance), std, rtol=0.04)


def test_right_variances_are_worth_most(model):
    laws = HeldOutLaws(model.validation_, model.support_)
    y = laws.responses
    mean = np.full(len(y), y.mean())
    right = np.full(len(y), y.var())
    assert_close(laws.variance_worth(mean, right), 0.0, scale=1.0)
    twice = laws.variance_worth(mean, 2.0 * right)
    assert_close(twice, laws.variance_worth(mean, 0.5 * right), 1e-9)
    squares = (y - y.mean()) ** 2
    error = np.std(squares) / np.mean(squares) / np.sqrt(len(y))
    assert_close(twice, -0.5 * np.log(2.0) ** 2 / (error**2 + 0.01), 1e-9)
    assert laws.variance_worth(mean, np.full(len(y), np.nan)) == 0.0


def test_nothing_is_said_where_moments_are_those_of_a_few_rows():
    x, y = rows(80, 0)
    y[0] = 1e6
    model = Kept(random_state=0, likelihood=False, n_jobs=1).fit(x, y)
    laws = HeldOutLaws(model.validation_, model.support_)
    mean, variance = np.full((2, 80), y.mean())
    assert laws.variance_worth(mean, variance) == 0.0


def test_standard_deviations_behind_a_logarithm_are_those_of_residuals():
    """Tails of members behind a logarithm had made them many times as large."""
    model = AutoKCEF(random_state=0, likelihood=False, n_jobs=1).fit(*rows(150, 1))
    assert model.support_ is not None
    X, y = rows(200, 2)
    p = model.given(X)
    ratio = np.sqrt(np.mean(p.var()) / np.mean((y - p.mean()) ** 2))
    assert 0.8 < ratio < 1.25
