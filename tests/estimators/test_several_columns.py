"""How a KEF of several columns is normalised, and that it says so."""

import numpy as np
import pytest
from sklearn.base import clone

from kexpfam import KCEF, KEF, load
from kexpfam.base_densities import GaussianBase
from kexpfam.errors import NormalizationWarning
from kexpfam.kernels import Gaussian
from kexpfam.partition.tempered import WORST_ERROR
from tests.tolerances import STANDARD_ERRORS, assert_close

# Fits here are too sharp on purpose, and two clusters are hard to normalise.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")

SETTINGS = {"base": GaussianBase(2.0), "random_state": 0}


def two_modes(d, n=80):
    rng = np.random.default_rng(d)
    data = 0.5 * rng.standard_normal((n, d))
    if d > 1:  # in one column score matching would warn of its blindness
        data[:, 0] += np.where(rng.random(n) < 0.3, -2.0, 2.0)
    return data


def fitted(d, partition, **kwargs):
    model = KEF(
        kernel=Gaussian(2.0),
        regularization=1e-3,
        partition=partition,
        **SETTINGS,
        **kwargs,
    )
    return model.fit(two_modes(d))


@pytest.fixture(scope="module")
def hard():
    """Rows of four columns with a fit whose importance weights are unreliable."""
    rows = two_modes(4, 50)
    settings = {"kernel": Gaussian(0.8), "regularization": 2e-3, **SETTINGS}
    with pytest.warns(NormalizationWarning, match="importance"):
        KEF(partition="importance", **settings).fit(rows)
    return KEF(**settings).fit(rows)


def test_quadrature_importance_and_tempering_agree_in_the_plane():
    exact = fitted(2, "auto").distribution()
    assert exact.partition_method == "quadrature"
    for method in ("importance", "smc"):
        p = fitted(2, method).distribution()
        assert p.partition_method == method
        gap = abs(p.log_partition - exact.log_partition)
        assert gap < STANDARD_ERRORS * p.log_partition_error
        assert 0 < p.log_partition_error < 0.1
        error = np.sqrt(exact.var() / 300)
        assert np.all(np.abs(p.mean() - exact.mean()) < STANDARD_ERRORS * error)
        assert abs(p.entropy() - exact.entropy()) < 0.15
        assert_close(p.mode(), exact.mode(), 1e-3)
        draws = p.rvs(900, random_state=0)
        assert abs((draws[:, 0] < 0).mean() - (exact.rvs(9000, 0)[:, 0] < 0).mean()) < (
            STANDARD_ERRORS * np.sqrt(0.25 / 300)
        )


def test_one_column_is_normalised_by_quadrature_whatever_is_asked():
    for method in ("auto", "importance", "smc"):
        p = fitted(1, method).distribution()
        assert p.partition_method == "quadrature"


def test_importance_and_tempering_agree_in_five_dimensions():
    found = [fitted(5, method).distribution() for method in ("importance", "smc")]
    error = np.hypot(*(p.log_partition_error for p in found))
    gap = abs(found[0].log_partition - found[1].log_partition)
    assert gap < STANDARD_ERRORS * error
    assert fitted(5, "auto").distribution().partition_method == "importance"


def test_unreliable_importance_weights_are_replaced_without_a_warning(hard):
    p = hard.distribution()
    assert p.partition_method == "smc"
    assert p.log_partition_error < WORST_ERROR
    assert np.isnan(p.tail_index)
    assert p.effective_draws > 10
    rows = two_modes(4, 50)
    assert_close(hard.score(rows), p.logpdf(rows).mean())
    draws = hard.sample(500, random_state=0)
    assert draws.shape == (500, 4)
    assert len(np.unique(draws, axis=0)) > 450


def test_the_choice_survives_saving_and_cloning(tmp_path, hard):
    model = fitted(3, "smc")
    for m in (model, hard):
        m.save(tmp_path / "model.kexpfam")
        again = load(tmp_path / "model.kexpfam")
        assert again.partition == m.partition
        assert again.distribution().partition_method == "smc"
        assert again.distribution().log_partition == m.distribution().log_partition
        assert clone(m).partition == m.partition


def test_an_unknown_way_to_normalise_is_refused_before_the_fit():
    for d in (1, 3):
        with pytest.raises(ValueError, match="partition must be one of 'auto'"):
            fitted(d, "quadrature")


@pytest.fixture(scope="module")
def conditional():
    """A fit that is too sharp where y varies much, for negative x only."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-1.0, 1.0, size=(60, 1)), axis=0)
    noise = np.random.default_rng(2).standard_normal((60, 3))
    return KCEF(
        kernel_x=Gaussian(0.3),
        kernel_y=Gaussian(1.5),
        base=GaussianBase(2.0),
        regularization=1e-4,
        random_state=0,
    ).fit(x, np.where(x < 0, 1.0, 0.25) * noise)


def test_unreliable_conditions_are_warned_of_however_many_are_asked_for(conditional):
    X = np.array([[-0.8], [0.6], [0.7]])
    with pytest.warns(NormalizationWarning, match=r"1 of 3 densities.*Factorized"):
        p = conditional.given(X)
    assert set(p.partition_method) == {"importance"}
    with pytest.warns(NormalizationWarning, match="1 of 1 densities"):
        alone = conditional.given(X[:1])
    assert_close(alone.log_partition[0], p.log_partition[0], 1e-6)
    draws = p[1:].rvs(400, random_state=0)
    assert draws.shape == (2, 400, 3)
    error = p[1:].std() / np.sqrt(100)
    assert np.all(np.abs(draws.mean(axis=1) - p[1:].mean()) < STANDARD_ERRORS * error)
