"""Fits by likelihood to more rows than a spec is chosen on: one pass for each step."""

import numpy as np
import pytest

from kexpfam import KCEF, KEF, AutoKCEF
from kexpfam.data import ArraySource
from kexpfam.family import Limits
from kexpfam.kernels import Constant, Gaussian
from kexpfam.likelihood import NEWTON, fit_likelihood
from kexpfam.score_matching import Basis
from tests.estimators.test_masses import UPPER, lines, share_above, upper_masses
from tests.limits import limited
from tests.tolerances import assert_close

SAMPLED = 300
# Steps stop at the same place, so that only rounding is left, which Newton's method
# passes on.
SAME = 1e-8


def small(estimator):
    """The estimator, for which a few hundred rows are many."""
    return limited(estimator, Limits(design_rows=SAMPLED, average_rows=SAMPLED))


def settled(**changes):
    options = {
        "kernel_x": Gaussian(1.5),
        "kernel_y": Gaussian(0.4),
        "regularization": 1e-3,
        "n_components": 20,
        "random_state": 0,
        "fit_method": "likelihood",
    }
    return small(KCEF(**(options | changes)))


def log_p(model):
    return model.score_samples(*lines(40, seed=9))


def check_optimum(model, X, y):
    """The model is where the likelihood of all rows is largest, but for chance."""
    family = model.family_
    Z = family.coordinates.conditions(X)
    U = family.coordinates.at(Z).to_kernel(y[:, None, None])[:, 0]
    basis = Basis(family.T.kernel, family.T.X, family.T.Y, derivatives=False)
    rows = basis, family.base, Z, U, np.ones(len(y)), family.lam
    best = fit_likelihood(*rows, tolerance=1e-6)
    here = fit_likelihood(*rows, start=family.T.zeroth, max_iterations=0)
    chance = 0.5 * basis.size / len(y)
    assert abs(here.objective - best.objective) < NEWTON.of_chance * chance


@pytest.mark.filterwarnings("ignore::kexpfam.errors.ConvergenceWarning")
@pytest.mark.parametrize("kernel_x", [Gaussian(1.5), Constant()], ids=["x", "constant"])
def test_all_rows_are_fitted_and_not_the_sample_alone(kernel_x):
    X, y = lines(1200)
    model = settled(kernel_x=kernel_x).fit(X, y)
    assert model.regularization_ == 1e-3  # given, it stays
    assert model.n_rows_ == pytest.approx(1200)
    check_optimum(model, X, y)


def test_blocks_threads_and_order_do_not_matter():
    X, y = lines(1000)
    expected = log_p(settled(n_jobs=1).fit(X, y))
    order = np.random.default_rng(1).permutation(len(y))
    for source in (
        ArraySource(X, y, rows=2000),  # one block
        ArraySource(X, y, rows=128),
        ArraySource(X[order], y[order], rows=301),
    ):
        assert_close(log_p(settled(n_jobs=2).fit(source)), expected, SAME)


def test_weights_of_rows_beyond_the_sample_count():
    X, y = lines(900)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 900)
    one, half = (settled().fit(X, y, sample_weight=c * weights) for c in (1.0, 0.5))
    assert one.n_rows_ == pytest.approx(weights.sum())
    assert_close(log_p(half), log_p(one), 1e-4)  # the last step depends on the weight
    heavy = settled().fit(X, y, sample_weight=np.where(y > X[:, 0], 3.0, 1.0))
    assert upper_masses(heavy).mean() > upper_masses(one).mean() + 0.1


def test_a_penalty_keeps_its_proportion_to_the_rows():
    untuned = {"kernel_x": None, "kernel_y": None, "regularization": None}
    model = settled(select=None, **untuned).fit(*lines(1000))
    assert model.regularization_ == pytest.approx(0.1 / 1000)


def test_one_column_without_conditions():
    rng = np.random.default_rng(0)
    upper = rng.random(2000) < UPPER
    Y = (np.where(upper, 1.0, -1.0) + 0.15 * rng.normal(size=2000))[:, None]
    model = small(KEF(select=None, random_state=0)).fit(Y)
    assert abs(model.distribution().sf(0.0) - upper.mean()) < 0.005


@pytest.mark.slow
def test_a_default_fit_is_finished_with_all_rows():
    X, y = lines(3000, seed=1)
    model = small(KCEF(random_state=0)).fit(X, y)
    assert model.fit_method_ == "likelihood"
    assert model.n_rows_ == pytest.approx(3000)
    assert model.stream_ is None
    # The sample of 300 rows alone knows the share to 0.026, all rows to 0.008.
    assert abs(upper_masses(model).mean() - share_above(X, y)) < 0.01
    with pytest.raises(ValueError, match="isolated components were found"):
        model.partial_fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experts", "method"),
    [(None, "EM"), (["families"], "likelihood")],
    ids=["all", "families"],
)
def test_members_of_an_average_are_finished_with_all_rows(experts, method):
    X, y = lines(3000, seed=1)
    model = small(AutoKCEF(experts=experts, random_state=0)).fit(X, y)
    assert method in {member.candidate.method for member in model.members_}
    assert model.neighbourhood_.weights.sum() == pytest.approx(3000)
    assert abs(upper_masses(model).mean() - share_above(X, y)) < 0.01
