"""The tempered sampler on fitted densities, against quadrature of the same density."""

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF
from kexpfam.base_densities import GaussianBase, StudentBase, UniformBase
from kexpfam.errors import SamplingWarning
from kexpfam.kernels import Gaussian
from kexpfam.sampling import TemperedSMC, resolve_sampler
from tests.oracles.mixture import modes_in_a_row
from tests.tolerances import KS_LEVEL, STANDARD_ERRORS


@pytest.fixture(scope="module")
def bumps():
    """A fit to three bumps, eight and more standard deviations apart."""
    rng = np.random.default_rng(0)
    which = rng.choice(3, 200, p=[0.2, 0.5, 0.3])
    data = np.array([-4.0, 0.0, 5.0])[which] + 0.4 * rng.standard_normal(200)
    model = KEF(kernel=Gaussian(0.3), regularization=1e-5, fit_method="likelihood").fit(
        data[:, None]
    )
    return model.distribution()


def test_modes_of_a_fit_have_the_masses_of_quadrature(bumps):
    cuts = np.array([-2.0, 2.5])
    expected = np.diff(bumps.cdf(np.array([-20.0, *cuts, 20.0])))
    found = []
    for seed in range(12):
        draws = bumps.rvs(2000, random_state=seed, sampler="smc")
        found.append(np.bincount(np.searchsorted(cuts, draws), minlength=3) / 2000)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    assert np.all(np.abs(np.mean(found, axis=0) - expected) < STANDARD_ERRORS * error)
    assert np.all(np.std(found, axis=0) < 0.04)


def test_draws_are_those_of_the_inverse_distribution_function(bumps):
    tempered = bumps.rvs(1000, random_state=1, sampler="smc")
    assert stats.kstest(tempered, bumps.cdf).pvalue > KS_LEVEL
    exact = bumps.rvs(1000, random_state=1)
    assert stats.ks_2samp(tempered, exact).pvalue > KS_LEVEL


def test_log_partition_of_the_report_is_that_of_quadrature(bumps, plane_case):
    for density in (bumps, plane_case.density):
        report = density.run(10, random_state=0, sampler="smc").report
        gap = np.abs(report.log_partition - density.log_partition)
        assert np.all(gap < STANDARD_ERRORS * report.log_partition_error)
        assert np.all(report.log_partition_error < 0.1)
        assert np.all(report.levels >= 1)
        assert np.all(report.ancestors > 100)
        assert np.all((report.acceptance > 0.3) & (report.acceptance < 0.9))


def test_many_densities_are_drawn_from_at_once(plane_case):
    density = plane_case.density
    run = density.run(1500, random_state=3, sampler="smc")
    assert run.draws.shape == (len(density), 1500, 2)
    mean, cov = density.mean(), density.cov()
    # Draws with common ancestors count less; a third of them is what they are worth.
    error = np.sqrt(np.einsum("nii->ni", cov) / 500)
    assert np.all(np.abs(run.draws.mean(axis=1) - mean) < STANDARD_ERRORS * error)
    first, second = (run.draws[0, :750], run.draws[0, 750:])
    assert stats.ks_2samp(first[:, 0], second[:, 0]).pvalue > KS_LEVEL  # any order


def test_draws_of_a_fit_on_a_bounded_interval_stay_inside():
    data = np.random.default_rng(0).beta(0.8, 2.0, size=(80, 1))
    model = KEF(kernel=Gaussian(0.6), base=UniformBase(0.0, 1.0), regularization=1e-3)
    p = model.fit(data).distribution()
    draws = p.rvs(1000, random_state=0, sampler="smc")
    assert draws.min() >= 0.0
    assert draws.max() <= 1.0
    assert stats.kstest(draws, p.cdf).pvalue > KS_LEVEL


def test_heavy_tails_of_the_base_density_do_not_spoil_the_steps():
    data = np.random.default_rng(0).standard_t(2, size=(80, 1))
    model = KEF(
        kernel=Gaussian(1.0),
        base=StudentBase(1.0, df=1.5),
        regularization=1e-3,
        fit_method="likelihood",
    )
    p = model.fit(data).distribution()
    draws = p.rvs(1000, random_state=0, sampler="smc")
    assert stats.kstest(draws, p.cdf).pvalue > KS_LEVEL


def test_draws_of_conditional_densities_follow_their_conditions(curve):
    x, y = curve
    model = KCEF(
        kernel_x=Gaussian(0.5),
        kernel_y=Gaussian(0.5),
        regularization=1e-3,
        fit_method="likelihood",
    ).fit(x, y)
    p = model.given(np.array([[-0.5], [0.5]]))
    draws = p.rvs(800, random_state=0, sampler=TemperedSMC(particles=800))
    for i in range(2):
        assert stats.kstest(draws[i], p[i].cdf).pvalue > KS_LEVEL


def test_kef_of_five_columns_is_drawn_from():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 5)) @ (np.eye(5) + 0.5 * np.eye(5, k=1))
    model = KEF(kernel=Gaussian(3.0), base=GaussianBase(2.0), regularization=1e-3)
    model.set_params(random_state=0).fit(data)
    draws = model.sample(600, random_state=0, sampler="smc")
    assert draws.shape == (600, 5)
    p = model.distribution()
    error = np.sqrt(p.var() / 300 + p.var() / p.effective_draws)
    assert np.all(np.abs(draws.mean(axis=0) - p.mean()) < STANDARD_ERRORS * error)


def test_the_same_seed_gives_the_same_draws(bumps):
    first = bumps.rvs(50, random_state=4, sampler="smc")
    np.testing.assert_array_equal(first, bumps.rvs(50, random_state=4, sampler="smc"))
    assert np.all(first != bumps.rvs(50, random_state=5, sampler="smc"))


def test_more_draws_than_particles_are_particles_of_their_own():
    target = modes_in_a_row(1, (0.3, 0.7))
    sampler = TemperedSMC(particles=80)
    draws = sampler.draw(target, 1000, np.random.default_rng(0)).draws
    assert len(np.unique(draws)) == 1000
    assert sampler.draw(target, 0, np.random.default_rng(0)).draws.shape == (1, 0, 1)


def test_draws_that_should_not_be_trusted_come_with_a_warning():
    target = modes_in_a_row(6, (0.5, 0.5), sd=0.05)
    sampler = TemperedSMC(particles=64, steps=1, threshold=0.2)
    with pytest.warns(SamplingWarning, match=r"1 of 1 .* distinct ancestors"):
        sampler.draw(target, 10, np.random.default_rng(0))


def test_the_sampler_has_a_name_and_refuses_settings_that_make_no_sense():
    assert resolve_sampler("smc") == TemperedSMC()
    for wrong in (
        {"particles": 10},
        {"steps": 0},
        {"groups": 1},
        {"threshold": 1.0},
        {"threshold": 0.0},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TemperedSMC(**wrong)
