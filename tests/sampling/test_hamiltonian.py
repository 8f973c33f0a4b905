"""HMC and NUTS draw from the densities they are given, and say when they do not.

Compiling takes seconds, so what compiles is marked slow; that densities are the same in
JAX is tested without compiling in `test_formulas`.
"""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import stats

from kexpfam import KEF
from kexpfam.base_densities import GaussianBase, TruncatedBase, UniformBase
from kexpfam.distributions import MixtureDensity
from kexpfam.errors import BlindnessWarning, MissingDependencyError, SamplingWarning
from kexpfam.kernels import Gaussian
from kexpfam.sampling import HMC, NUTS, resolve_sampler
from kexpfam.sampling.chains import starting_points
from kexpfam.sampling.diagnostics import bulk_effective_size
from kexpfam.score_matching import TiltedFormula
from tests.sampling.cases import by_jax, points, smooth_model, tilted
from tests.tolerances import KS_LEVEL, STANDARD_ERRORS

CONDITIONS = np.array([[-0.6], [0.0], [0.7]])

# One setting for many tests, so that its program is compiled once. Five moves make
# draws nearly independent, as tests of distributions assume.
SAMPLER = NUTS(chains=4, warmup=150, thin=5)
PLAIN = HMC(chains=4, warmup=150, thin=2)


@pytest.fixture(scope="module")
def model():
    return smooth_model()


@pytest.fixture(scope="module")
def density(model):
    return model.given(CONDITIONS)


@pytest.fixture(scope="module")
def run(density):
    return density.run(400, 0, SAMPLER)


def assert_distributed(density, draws):
    for p, row in zip(density, draws, strict=True):
        assert stats.kstest(p.cdf(row), "uniform").pvalue > KS_LEVEL


@pytest.mark.slow
def test_nuts_agrees_with_the_distribution_function(density, run):
    assert run.draws.shape == (3, 400)
    assert_distributed(density, run.draws)


@pytest.mark.slow
def test_hmc_agrees_with_the_distribution_function(density):
    run = density.run(400, 1, PLAIN)
    assert_distributed(density, run.draws)
    assert np.all(run.report.acceptance > 0.6)


@pytest.mark.slow
def test_one_draw_of_each_density_comes_from_one_chain(density):
    many = density[np.zeros(100, dtype=int)]
    run = many.run(1, 2, PLAIN)
    assert run.draws.shape == (100, 1)
    assert run.report.chains == 1
    assert np.all(np.isfinite(run.report.r_hat))
    # All are the same density, so their single draws are a sample of it.
    pit = density[0].cdf(run.draws[:, 0])
    assert stats.kstest(pit, "uniform").pvalue > KS_LEVEL


@pytest.mark.slow
def test_chains_are_kept_in_their_order_and_in_the_users_units(run):
    chains = run.chains
    assert chains.draws.shape == (3, 4, 100, 1)
    assert chains.divergent.shape == chains.acceptance.shape == (3, 4, 100)
    # All kept draws were asked for: the same ones, in another order.
    np.testing.assert_array_equal(
        np.sort(chains.draws.reshape(3, -1)), np.sort(run.draws)
    )
    np.testing.assert_allclose(
        chains.acceptance.mean(axis=(1, 2)), run.report.acceptance
    )
    np.testing.assert_allclose(
        bulk_effective_size(chains.draws[..., 0]),
        run.report.effective_sample_size[:, 0],
    )


@pytest.mark.slow
def test_divergent_moves_are_counted_where_they_were():
    # A wall of log density that a fixed long step runs into
    model = smooth_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        run = model.given([[0.0]]).run(100, 0, HMC(chains=2, step_size=1e3))
    assert run.report.divergences[0] > 0
    assert run.chains.divergent.sum() == run.report.divergences[0]


@pytest.mark.slow
def test_a_run_that_went_well_is_reported_without_a_warning(run):
    # Warnings are errors here, so there was none.
    assert run.report.complaint() is None
    assert run.report.r_hat.shape == run.report.effective_sample_size.shape == (3, 1)
    assert run.report.tail_effective_sample_size.shape == (3, 1)
    assert np.all(run.report.divergences == 0)
    assert np.all((run.report.acceptance > 0.6) & (run.report.acceptance <= 1))
    assert (run.report.chains, run.report.draws) == (4, 100)


@pytest.mark.slow
def test_seeds_reproduce_draws(density, run):
    assert np.array_equal(density.run(400, 0, SAMPLER).draws, run.draws)
    assert not np.array_equal(density.rvs(400, 1, SAMPLER), run.draws)


@pytest.mark.slow
def test_a_single_density_drops_its_axis(density):
    assert density[1].rvs(7, 0, SAMPLER).shape == (7,)
    assert density.rvs(0, 0, SAMPLER).shape == (3, 0)
    assert density[:0].rvs(5, 0, SAMPLER).shape == (0, 5)


@pytest.mark.slow
def test_programs_are_compiled_once_for_all_models_of_a_form(density, run, monkeypatch):
    traced, at = [], TiltedFormula.at

    def counting(self, *args):
        traced.append(self)
        return at(self, *args)

    monkeypatch.setattr(TiltedFormula, "at", counting)
    density.rvs(400, 3, SAMPLER)
    density[[0, 1, 2, 0]].rvs(1000, 4, SAMPLER)  # other lengths, and nearly as many
    other = smooth_model(seed=5)
    other.given(CONDITIONS + 0.1).rvs(100, 5, SAMPLER)  # other data
    assert not traced
    # Another program, which shows that traces are counted: steps that are given, and so
    # small that they are always accepted.
    run = density.run(400, 3, HMC(warmup=50, thin=2, step_size=0.1))
    assert traced
    assert np.all(run.report.acceptance > 0.99)


@pytest.mark.slow
def test_two_columns_one_half_bounded_have_the_moments_of_quadrature():
    base = TruncatedBase(GaussianBase(2.0), lower=(-1.8, -np.inf))
    p = smooth_model(d=2, base=base).given([[0.3]])[0]
    run = p.run(2000, 0, PLAIN)
    worth = np.sqrt(run.report.effective_sample_size.min())
    assert run.draws.shape == (2000, 2)
    assert np.all(run.draws[:, 0] >= -1.8)
    error = STANDARD_ERRORS * p.std() / worth
    assert np.all(np.abs(run.draws.mean(axis=0) - p.mean()) < error)
    # A variance of n normal draws has the relative error √(2/n), and a covariance less.
    error = STANDARD_ERRORS * np.sqrt(2.0) * np.outer(p.std(), p.std()) / worth
    assert np.all(np.abs(np.cov(run.draws.T) - p.cov()) < error)


@pytest.mark.slow
def test_an_interval_is_filled_and_not_left():
    p = smooth_model(base=UniformBase(-1.8, 2.6)).given(CONDITIONS[:2])
    draws = p.rvs(400, 0, PLAIN)
    assert np.all((draws >= -1.8) & (draws <= 2.6))
    assert_distributed(p, draws)


@pytest.mark.slow
def test_mixtures_report_the_worst_of_their_parts(density):
    mixture = MixtureDensity([density[:2], density[1:]], np.array([0.3, 0.7]))
    run = mixture.run(300, 0, PLAIN)
    assert_distributed(mixture, run.draws)
    assert run.report.r_hat.shape == (2, 1)


@pytest.fixture(scope="module")
def separated():
    """A KEF with two modes eight standard deviations apart."""
    rng = np.random.default_rng(0)
    data = np.append(rng.normal(-2.0, 0.5, 40), rng.normal(2.0, 0.5, 60))[:, None]
    model = KEF(kernel=Gaussian(0.3), base=GaussianBase(2.0), regularization=0.01)
    with warnings.catch_warnings():
        # Masses are not those of the data, but a density has them all the same.
        warnings.simplefilter("ignore", BlindnessWarning)
        return model.fit(data).distribution()


def test_the_inverse_distribution_function_keeps_masses_of_separated_modes(separated):
    left, draws = float(separated.cdf(0.0)), separated.rvs(2000, 0)
    error = STANDARD_ERRORS * np.sqrt(left * (1 - left) / 2000)
    assert abs(np.mean(draws < 0) - left) < error


@pytest.mark.slow
def test_chains_between_separated_modes_earn_a_warning(separated):
    # At fixed seeds: chains that happen to start in one mode see no other.
    with pytest.warns(SamplingWarning, match=r"R̂ up to .*'smc' for separated modes"):
        run = separated.run(400, 0, SAMPLER)
    assert np.all(run.report.r_hat > 1.2)


def test_the_protocol_of_the_paper_has_its_numbers():
    paper = resolve_sampler("paper")
    assert paper == HMC.paper()
    assert (paper.chains, paper.warmup, paper.draws * paper.thin) == (20, 100, 1000)
    assert paper.lengths(2000) == (20, 100)
    assert paper.lengths(7) == (7, 100)
    with pytest.raises(ValueError, match=r"size=2001 .* at most 2000"):
        paper.lengths(2001)


def test_chains_without_a_fixed_length_are_as_long_as_it_takes():
    assert NUTS().lengths(4000) == (4, 1000)
    assert NUTS().lengths(4001) == (4, 1001)
    assert NUTS().lengths(1) == (1, 100)


def test_chains_start_at_responses_of_near_rows():
    target = tilted(Gaussian(0.7), 1)
    target = type(target)(target.base, target.T, target.T.X + 1e-3)
    chosen = starting_points(target, 4000, np.random.default_rng(0))
    weights = target.nearness()
    expected = weights @ target.responses[:, 0] / weights.sum(axis=1)
    # The spread of a mean of 4000 points.
    error = STANDARD_ERRORS * target.responses.std() * 1.1 / np.sqrt(4000)
    assert np.all(np.abs(chosen[..., 0].mean(axis=1) - expected) < error)


def test_far_from_all_rows_chains_start_anywhere_among_them():
    target = tilted(Gaussian(0.7), 1)
    far = type(target)(target.base, target.T, target.X + 1e6)
    assert np.all(np.isfinite(starting_points(far, 3, np.random.default_rng(0))))


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        (NUTS, {"chains": 0}, "chains must be"),
        (NUTS, {"warmup": 0}, "warmup must be"),
        (NUTS, {"draws": 0}, "draws must be"),
        (NUTS, {"thin": 1.5}, "thin must be"),
        (NUTS, {"target_acceptance": 1.0}, "target_acceptance must lie between"),
        (NUTS, {"max_doublings": 30}, "max_doublings must be at most"),
        (HMC, {"leapfrog_steps": 0}, "leapfrog_steps must be"),
        (HMC, {"step_size": -1.0}, "step_size must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(sampler, options, message):
    with pytest.raises(ValueError, match=message):
        sampler(**options)


@pytest.mark.parametrize("name", ["nuts", "hmc", "paper"])
def test_without_jax_the_way_to_get_it_is_named(density, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "kexpfam\[mcmc\]"'):
        density.rvs(3, 0, name)


def test_the_precision_of_others_who_use_jax_is_left_alone():
    import jax.numpy as jnp

    target = tilted(Gaussian(0.7), 1)
    assert by_jax(target, points(target))[0].dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32


def test_importing_kexpfam_does_not_import_jax():
    code = "import sys, kexpfam, kexpfam.sampling; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
