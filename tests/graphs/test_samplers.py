"""Joint draws by any sampler that the factors know."""

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF, FactorizedDensity
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian
from kexpfam.sampling import HMC, NUTS, TemperedSMC


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    a = rng.normal(size=80)
    b = 0.8 * a + 0.6 * rng.normal(size=80)
    given = {"base": GaussianBase(2.0), "regularization": 0.03, "select": None}
    factor = KCEF(kernel_x=Gaussian(1.0), kernel_y=Gaussian(1.5), **given)
    root = KEF(kernel=Gaussian(1.5), **given)
    return FactorizedDensity(factor=factor, root=root).fit(np.column_stack([a, b]))


@pytest.mark.parametrize(
    "sampler",
    [
        HMC(chains=4, warmup=200, thin=2),
        TemperedSMC(particles=400),
    ],
    ids=["hmc", "smc"],
)
@pytest.mark.slow
def test_samplers_draw_from_the_same_joint_density(model, sampler):
    exact = model.sample(4000, random_state=0)
    draws = model.sample(200, random_state=1, sampler=sampler)
    for column in range(2):
        test = stats.ks_2samp(draws[:, column], exact[:, column])
        # The root's 200 draws are from four chains, or 400 particles, and depend on
        # each other a little.
        assert test.pvalue > 1e-3
    difference = np.corrcoef(draws.T)[0, 1] - np.corrcoef(exact.T)[0, 1]
    assert abs(difference) < 0.1  # three standard errors of 200 draws


@pytest.mark.slow
def test_evidence_goes_with_every_sampler(model):
    draws = model.sample(100, random_state=0, given={0: 1.0}, sampler=NUTS(thin=2))
    p = model.factors_[1].given([[1.0]])[0]
    assert stats.kstest(draws[:, 1], p.cdf).pvalue > 1e-3


def test_a_name_that_is_no_sampler_is_refused(model):
    with pytest.raises(ValueError, match="sampler must be None, one of 'inverse_cdf'"):
        model.sample(3, sampler="gibbs")
