"""Products of Gaussian kernels: values against the kernel, and any number of rows."""

from dataclasses import replace

import numpy as np
import pytest

from kexpfam.kernels import Constant, Gaussian, Matern, separable
from kexpfam.score_matching.gaussian_products import (
    GaussianProduct,
    SumSpec,
    lengths_of,
)
from kexpfam.score_matching.sum_gradients import (
    GaussianSumGradient,
    GeneralSumGradient,
    SumWeights,
)
from tests.selection.cases import make_sample
from tests.tolerances import ROUNDING, assert_close

# Twelve centres: three rows stay in the cache.
FEW = SumSpec(cached_bytes=3 * 8 * 12)

KERNELS = {
    "gaussian": separable(Gaussian((0.5, 2.0)), Gaussian(0.6)),
    "constant": separable(Constant(0.3), Gaussian(0.6)),
}


@pytest.mark.parametrize("spec", [FEW, SumSpec()], ids=["few", "all"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_values_of_a_few_rows_at_a_time_are_those_of_the_kernel(kernel, spec):
    sample = make_sample(20, 2, 2, seed=5)
    X, Y = sample.X[:12], sample.Y[:12]
    product = GaussianProduct.of(kernel, X, Y, spec)
    expected = kernel.at(sample.X, sample.Y, X, Y).partial(0, 0, 0, 0)
    seen = 0
    for rows, K in product.values(product.left(sample.X, sample.Y)):
        assert rows.start == seen
        assert_close(K, expected[rows], ROUNDING)
        seen = rows.stop
    assert seen == 20


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradients_of_sums_do_not_depend_on_how_many_rows_are_cached(kernel):
    sample, rng = make_sample(50, 2, 1, weighted=True), np.random.default_rng(0)
    X, Y = sample.X[:12], sample.Y[:12]
    weights = SumWeights(*rng.normal(size=(2, 12, 3)), rng.normal(size=12))
    general = GeneralSumGradient(*kernel.terms[0], X, Y, [(0, 0)])
    whole = general.of(sample, weights)
    assert_close(replace(general, spec=FEW).of(sample, weights), whole)
    for spec in (FEW, SumSpec()):
        fast = GaussianSumGradient(GaussianProduct.of(kernel, X, Y, spec))
        assert_close(fast.of(sample, weights), whole)


def test_lengths_are_those_of_one_product():
    (product, constant), matern = KERNELS.values(), separable(Matern(2.0), Matern(3.0))
    assert lengths_of(product, 2, 1).tolist() == [0.5, 2.0, 0.6]
    assert lengths_of(constant, 2, 1).tolist() == [np.inf, np.inf, 0.6]
    assert lengths_of(matern, 1, 2).tolist() == [2.0, 3.0, 3.0]
    for other in (
        product + constant,
        separable(Gaussian(1.0) + Constant(), Gaussian(1.0)),
        separable(Gaussian("median"), Gaussian(1.0)),
    ):
        assert lengths_of(other, 2, 1) is None
        assert GaussianProduct.of(other, np.zeros((3, 2)), np.zeros((3, 1))) is None
