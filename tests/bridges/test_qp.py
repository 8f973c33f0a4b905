"""Densities as ensembles of qp."""

import warnings

import numpy as np
import pytest

from kexpfam.bridges import to_qp
from kexpfam.distributions import MixtureDensity
from kexpfam.errors import AccuracyWarning
from tests.densities import closed_form

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it says when it is imported is its own
    qp = pytest.importorskip("qp")

# The tolerance holds where it is checked, in the middle of cells; qp then divides by
# its own mass, which is off by about the tolerance as well.
FACTOR = 3.0


def check_agreement(p, ensemble, tolerance):
    y = p.ppf(np.linspace(0.0005, 0.9995, 307)[None])
    ours, theirs = p.pdf(y), ensemble.pdf(y)
    peak = ours.max(axis=1, keepdims=True)
    assert np.max(np.abs(ours - theirs) / peak) < FACTOR * tolerance
    assert np.max(np.abs(p.cdf(y) - ensemble.cdf(y))) < FACTOR * tolerance


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_density_and_distribution_function_agree_to_the_tolerance(line_case, tolerance):
    p = line_case.density
    ensemble = to_qp(p, tolerance=tolerance)
    assert ensemble.npdf == 3
    check_agreement(p, ensemble, tolerance)


def test_moments_and_quantiles_are_nearly_ours(gaussian_case):
    p = gaussian_case.density
    ensemble = to_qp(p, tolerance=1e-4)
    width = p.std()
    assert np.max(np.abs(ensemble.mean().ravel() - p.mean()) / width) < 1e-2
    assert np.max(np.abs(ensemble.std().ravel() / width - 1.0)) < 1e-2
    assert np.max(np.abs(ensemble.median().ravel() - p.median()) / width) < 1e-2


def test_narrow_spikes_far_from_each_other_are_found():
    centers = np.array([0.1, 1.7, 2.9])
    p = closed_form(centers, [0.004, 0.3, 0.01])
    ensemble = to_qp(p)
    check_agreement(p, ensemble, 1e-3)
    assert len(ensemble.metadata["xvals"].ravel()) < 20_000


def test_spikes_too_narrow_for_any_grid_earn_a_warning():
    p = closed_form([0.0, 1.0], [2e-4, 1.0])
    with pytest.warns(AccuracyWarning, match="1 of 2 densities are not followed"):
        to_qp(p)


def test_a_single_density_is_an_ensemble_of_one(gaussian_case):
    one = gaussian_case.density[1]
    ensemble = to_qp(one)
    assert ensemble.npdf == 1
    y = one.ppf(0.4)
    assert float(np.squeeze(ensemble.pdf(y))) == pytest.approx(one.pdf(y), rel=0.01)


def redshifts():
    """Two-peaked densities of redshifts between 0 and 3."""
    parts = [closed_form([0.4, 0.9], 0.05), closed_form([2.1, 1.9], 0.1)]
    return MixtureDensity(parts, [0.8, 0.2])


def test_a_grid_of_redshifts_is_kept_as_it_is():
    grid = np.linspace(0.0, 3.0, 301)
    ensemble = to_qp(redshifts(), grid, tolerance=0.02, ancil={"object": [7, 8]})
    np.testing.assert_array_equal(ensemble.metadata["xvals"].ravel(), grid)
    check_agreement(redshifts(), ensemble, 0.02)
    assert list(ensemble.ancil["object"]) == [7, 8]
    assert np.squeeze(ensemble.mode(grid))[0] == pytest.approx(0.4, abs=0.011)


@pytest.mark.parametrize(
    "grid", [np.linspace(0.0, 3.0, 31), np.linspace(0.0, 1.0, 401)]
)
def test_grids_that_are_too_coarse_or_too_short_earn_a_warning(grid):
    with pytest.warns(AccuracyWarning, match="2 of 2 densities are not followed"):
        to_qp(redshifts(), grid, tolerance=0.02)


def test_ensembles_survive_a_file(tmp_path):
    ensemble = to_qp(redshifts())
    path = str(tmp_path / "redshifts.hdf5")
    ensemble.write_to(path)
    again = qp.read(path)
    z = np.linspace(0.1, 2.5, 40)
    np.testing.assert_allclose(again.pdf(z), ensemble.pdf(z))


def test_wrong_arguments_are_named(gaussian_case, plane_case):
    with pytest.raises(ValueError, match="to_qp is for one column of y"):
        to_qp(plane_case.density)
    for grid in ([1.0], [0.0, 0.0, 1.0], [0.0, np.inf], [[0.0, 1.0]]):
        with pytest.raises(ValueError, match="grid must be a flat list of increasing"):
            to_qp(gaussian_case.density, grid)
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        to_qp(gaussian_case.density, tolerance=0.0)
