"""Densities of JAX's arrays are those of NumPy's, gradients included."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import special

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import Bridge, BridgedDensity
from kexpfam.kernels import (
    Constant,
    Gaussian,
    JointKernel,
    Matern,
    Pairs,
    namespace_of,
    separable,
)
from kexpfam.sampling import NUTS
from kexpfam.sampling.programs import (
    Recipe,
    Transition,
    Unconstrained,
    double_precision,
    library,
    log_density_in_v,
    programs_of,
)
from tests.base_densities import cases as base_cases
from tests.kernels.cases import ALL_CASES, case_id
from tests.sampling.cases import by_jax, by_numpy, points, tilted
from tests.tolerances import DIFFERENCES, assert_close

# The same operations in the same order but for sums over centres, and exponentials and
# powers of another library: a few roundings of terms as large as the largest.
SAME_OPERATIONS = 1e-12


def assert_same(target):
    U = points(target)
    log_p, slope = by_jax(target, U)
    expected = target.log_unnormalized(U[:, None])[:, 0]
    expected_slope = target.gradient(U[:, None])[:, 0]
    for found_log_p, found_slope in ((log_p, slope), by_numpy(target, U)):
        np.testing.assert_allclose(found_log_p, expected, rtol=SAME_OPERATIONS)
        np.testing.assert_allclose(
            found_slope,
            expected_slope,
            rtol=SAME_OPERATIONS,
            atol=SAME_OPERATIONS * np.abs(expected_slope).max(),
        )


@pytest.mark.parametrize("case", ALL_CASES, ids=case_id)
def test_every_kernel_is_the_same_in_jax(case):
    assert_same(tilted(case.build(0.9, 2)[0], 2))


@pytest.mark.parametrize("case", base_cases.CASES, ids=base_cases.case_id)
def test_every_base_density_is_the_same_in_jax(case):
    assert_same(tilted(Gaussian(0.7), 1, base=case.base))


def test_low_rank_expansions_are_the_same_in_jax():
    assert_same(tilted(Matern(0.7, nu=2.5), 2, low_rank=True))


def test_sums_of_products_are_the_same_in_jax():
    kernel = separable(Constant(), Gaussian(1.0)) + separable(
        Gaussian(0.5), Matern(0.7, nu=3.5)
    )
    assert_same(tilted(kernel, 1))


def test_outside_the_support_both_are_minus_infinity():
    uniform = base_cases.UniformBase(-1.0, 1.0)
    target = tilted(Gaussian(0.7), 1, base=uniform)
    U = np.full((len(target), 1), 1.5)
    assert np.all(by_jax(target, U)[0] == -np.inf)
    assert np.all(by_numpy(target, U)[0] == -np.inf)


def test_bridged_densities_are_the_same_in_jax():
    mix = tilted(Gaussian(0.7), 1)
    log_partition = np.linspace(-0.2, 0.3, len(mix))
    assert_same(BridgedDensity(mix, log_partition, Bridge(0.3, GaussianBase(2.0))))


@pytest.mark.parametrize("upper", [1.0, np.inf])
def test_gradients_follow_the_coordinates_without_walls(upper):
    base = base_cases.TruncatedBase(lower=-1.0, upper=upper)
    target = tilted(Gaussian(0.7), 1, base=base)
    line = Unconstrained.of(target.base.support(1))
    recipe = Recipe(target.formula, line, Transition("nuts", 0.8, 5), warmup=10, thin=1)
    row = tuple(part[0] for part in target.row_parameters())
    V, h = np.array([[-1.3], [0.0], [0.4]]), 1e-5

    def slow(V):
        u, log_abs_det_jacobian = line.at(V)
        return (
            target.rows([0]).log_unnormalized(u[None])[0] + log_abs_det_jacobian[:, 0]
        )

    with double_precision():
        fast = log_density_in_v(recipe, target.shared_parameters(), row)
        value, slope = library("jax").vmap(library("jax").value_and_grad(fast))(V)
    np.testing.assert_allclose(value, slow(V), rtol=SAME_OPERATIONS)
    assert_close(
        np.asarray(slope)[:, 0], (slow(V + h) - slow(V - h)) / (2 * h), DIFFERENCES
    )


class ProductOfX(JointKernel):
    """A user's own kernel, whose arrays say how to compute: exp(x·x')·k(y, y')."""

    def at(self, X, Y, X2, Y2, empty=np.empty):
        xp = namespace_of(X, X2)
        return Gaussian(0.8).at(Y, Y2, xp.exp(0.1 * X @ X2.T), empty)


def test_a_users_joint_kernel_is_the_same_in_jax():
    assert_same(tilted(ProductOfX(), 2))


class BesselPairs(Pairs):
    """Values that come from SciPy, which JAX cannot run."""

    def __init__(self, Y, Y2):
        self.gap = Y[:, None, 0] - Y2[None, :, 0]

    def partial(self, r, i, s, j):
        return special.j0(np.asarray(self.gap))


class BesselKernel(JointKernel):
    def at(self, X, Y, X2, Y2, empty=np.empty):
        return BesselPairs(Y, Y2)


def test_what_jax_cannot_run_is_named_with_a_way_out():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"BesselKernel.*namespace_of.*'smc'"):
        NUTS(chains=1, warmup=10, draws=4).draw(tilted(BesselKernel(), 1), 4, rng)


@dataclass
class WithoutHash(ProductOfX):
    """An ordinary dataclass can be compared, and so has no hash."""

    offset: float = 1.0


def test_kernels_without_a_hash_are_compiled_anew():
    recipe = Recipe(
        tilted(WithoutHash(), 1).formula,
        Unconstrained(((-np.inf, np.inf),)),
        Transition("nuts", 0.8, 5),
        warmup=10,
        thin=1,
    )
    assert programs_of(recipe) is not programs_of(recipe)
    kept = replace(recipe, formula=tilted(Gaussian(0.7), 1).formula)
    assert programs_of(kept) is programs_of(kept)
