"""Draws handed over to ArviZ."""

import warnings

import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.bridges import to_arviz
from kexpfam.distributions import MixtureDensity
from kexpfam.kernels import Gaussian
from kexpfam.sampling import NUTS, TemperedSMC
from tests.densities import closed_form
from tests.simulations import waves

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it says when it is imported is its own
    arviz = pytest.importorskip("arviz")

# ArviZ and the libraries below it announce changes of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def nuts():
    pytest.importorskip("blackjax")
    x, y = waves(60, noise=0.4, half_width=1.0)
    model = KCEF(
        select=None,
        kernel_x=Gaussian(0.8),
        kernel_y=Gaussian(1.5),
        base=GaussianBase(2.0),
        regularization=0.03,
    )
    p = model.fit(x, y).given([[-0.5], [0.5]])
    return p, p.run(600, random_state=0, sampler=NUTS(chains=4, warmup=200))


@pytest.mark.slow
def test_chains_keep_their_order_and_units(nuts):
    p, run = nuts
    data = to_arviz(run)
    draws = data.posterior["y"]
    assert draws.dims == ("chain", "draw", "density")
    assert draws.shape == (4, 150, 2)
    np.testing.assert_array_equal(draws.values[2, :, 1], run.chains.draws[1, 2, :, 0])
    # All kept draws were asked for, so both hold the same ones in another order.
    for k in range(2):
        np.testing.assert_array_equal(
            np.sort(draws.values[..., k].ravel()), np.sort(run.draws[k])
        )
    assert np.abs(draws.mean(("chain", "draw")).values - p.mean()).max() < 0.3


@pytest.mark.slow
def test_diagnosis_by_arviz_is_nearly_ours(nuts):
    _, run = nuts
    summary = arviz.summary(to_arviz(run), round_to="none")
    # The same formulas up to ties, odd lengths and rounding.
    np.testing.assert_allclose(summary["r_hat"], run.report.r_hat[:, 0], atol=0.01)
    ours = run.report.effective_sample_size[:, 0]
    np.testing.assert_allclose(summary["ess_bulk"], ours, rtol=0.1)
    tail = run.report.tail_effective_sample_size[:, 0]
    np.testing.assert_allclose(summary["ess_tail"], tail, rtol=0.15)


@pytest.mark.slow
def test_moves_report_divergences_and_acceptance(nuts):
    _, run = nuts
    stats = to_arviz(run).sample_stats
    assert stats["diverging"].dims == ("chain", "draw", "density")
    np.testing.assert_array_equal(
        stats["diverging"].sum(("chain", "draw")), run.report.divergences
    )
    np.testing.assert_allclose(
        stats["acceptance_rate"].mean(("chain", "draw")), run.report.acceptance
    )


def test_a_single_density_has_no_axis_of_its_own(gaussian_case):
    data = to_arviz(gaussian_case.density[0].run(50, random_state=0), name="z")
    assert data.posterior["z"].dims == ("chain", "draw")
    assert data.posterior["z"].shape == (1, 50)
    assert data.attrs["report"] == "independent draws"


def test_columns_have_names(plane_case):
    run = plane_case.density.run(40, random_state=0)
    draws = to_arviz(run, columns=["left", "right"]).posterior["y"]
    assert draws.dims == ("chain", "draw", "density", "column")
    np.testing.assert_array_equal(
        draws.sel(density=1, column="right").values[0], run.draws[1, :, 1]
    )
    alone = plane_case.density[0].run(40, random_state=0)
    assert to_arviz(alone).posterior["y"].dims == ("chain", "draw", "column")
    with pytest.raises(ValueError, match=r"columns must have 2 name\(s\)"):
        to_arviz(run, columns=["left"])


def test_particles_come_as_one_chain_with_their_report(gaussian_case):
    sampler = TemperedSMC()
    run = gaussian_case.density[[0, 1]].run(200, random_state=0, sampler=sampler)
    data = to_arviz(run)
    assert data.posterior["y"].shape == (1, 200, 2)
    assert "standard error of log Z" in data.attrs["report"]
    assert not hasattr(data, "sample_stats")


def test_averages_come_as_one_chain():
    parts = [closed_form([c, c]) for c in (0.0, 1.0)]
    run = MixtureDensity(parts, [0.4, 0.6]).run(30, random_state=0)
    assert to_arviz(run).posterior["y"].shape == (1, 30, 2)
