"""Conditional mean embeddings: the direct formula, rows left out, and herding."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.baselines import ConditionalMeanEmbedding
from kexpfam.baselines.features import KernelFeatures
from kexpfam.baselines.mean_embedding import EmbeddingRidge, as_shares
from kexpfam.kernels import Gaussian
from tests.baselines.cases import wave

FIXED = {"lengthscale": 0.7, "regularization": 0.003, "width": 0.3}


@pytest.fixture(scope="module")
def rows():
    return wave(60, 2.0)


@pytest.fixture(scope="module")
def fitted(rows):
    return ConditionalMeanEmbedding(**FIXED).fit(*rows)


def in_units(x, y):
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()


NEW = np.array([[0.2, -0.5], [1.0, 1.0]])


def direct_weights(x, new, ell=0.7, lam=0.003):
    """(K + nλI)⁻¹ k(x), with standardised rows."""
    Z, z = (A - x.mean(axis=0) for A in (x, new))
    Z, z = Z / x.std(axis=0), z / x.std(axis=0)
    K = Gaussian(ell)(Z, Z) + len(x) * lam * np.eye(len(x))
    return np.linalg.solve(K, Gaussian(ell)(Z, z)).T


def test_expectations_are_those_of_the_direct_formula(rows, fitted):
    x, y = rows
    beta = direct_weights(x, NEW)
    np.testing.assert_allclose(
        fitted.expectation(NEW, np.cos), beta @ np.cos(y), atol=1e-6
    )
    both = fitted.expectation(NEW, lambda y: np.column_stack([y, y**2]))
    np.testing.assert_allclose(both, beta @ np.column_stack([y, y**2]), atol=1e-6)


def test_the_density_has_normals_with_the_positive_weights(rows, fitted):
    x, y = rows
    shares = np.maximum(direct_weights(x, NEW), 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    t = np.linspace(-2, 2, 9)
    expected = shares @ stats.norm.pdf(t, y[:, None], 0.3 * y.std())
    np.testing.assert_allclose(
        fitted.given(NEW).pdf(np.tile(t, (2, 1))), expected, atol=1e-6
    )


def test_rows_left_out_are_those_of_fits_without_them(rows):
    x, y = rows
    Z, _ = in_units(x, y)
    ridge = EmbeddingRidge(KernelFeatures.on(Z, 0.7).of(Z), np.full(60, 1 / 60))
    found = ridge.without(np.array([3, 17]), 0.003)
    for a, weights in zip((3, 17), found, strict=True):
        others = np.delete(np.arange(60), a)
        K = Gaussian(0.7)(Z[others], Z[others]) + 60 * 0.003 * np.eye(59)
        expected = np.linalg.solve(K, Gaussian(0.7)(Z[others], Z[[a]]))[:, 0]
        np.testing.assert_allclose(weights[others], expected, atol=1e-6)
        assert weights[a] == 0.0


@pytest.mark.parametrize("select", ["likelihood", "embedding"])
def test_losses_are_those_of_loops(rows, select):
    x, y = rows
    model = ConditionalMeanEmbedding(select=select, width=0.3, random_state=0)
    model.fit(x, y)
    trials = model.selection_
    i, j = np.unravel_index(np.argmin(trials.losses), trials.losses.shape)
    assert model.lengthscale_ == trials.lengthscales[i]
    assert model.regularization_ == trials.regularizations[j]
    Z, u = in_units(x, y)
    i, j = 2, 4
    ell, lam = trials.lengthscales[i], trials.regularizations[j]
    total = 0.0
    for a in range(60):
        others = np.delete(np.arange(60), a)
        K = Gaussian(ell)(Z[others], Z[others]) + 60 * lam * np.eye(59)
        beta = np.linalg.solve(K, Gaussian(ell)(Z[others], Z[[a]]))[:, 0]
        if select == "likelihood":
            shares = np.maximum(beta, 0.0) / np.maximum(beta, 0.0).sum()
            total -= np.log(shares @ stats.norm.pdf(u[a], u[others], 0.3))
        else:
            k = Gaussian(model.lengthscale_y_)
            U = u[others, None]
            total += 1.0 - 2.0 * beta @ k(U, u[[a], None])[:, 0] + beta @ k(U, U) @ beta
    assert trials.losses[i, j] == pytest.approx(total / 60, abs=1e-6)


def distances(model, draws, weights):
    """‖μ − mean embedding of the first k draws‖ for each k."""
    k = Gaussian(model.lengthscale_y_)
    U = model.centers_y_
    u = (draws - model.y_center_[0]) / model.y_scale_[0]
    own = weights @ k(U, U) @ weights
    found = []
    for count in (10, 40, 160):
        some = u[:count, None]
        cross = (weights @ k(U, some)).mean()
        found.append(np.sqrt(max(own - 2 * cross + k(some, some).mean(), 0.0)))
    return np.array(found)


def test_herding_comes_closer_than_random_draws(fitted):
    (weights,) = as_shares(fitted.weights(NEW[:1]), fitted.shares_)
    herded = distances(fitted, fitted.herd(NEW[:1], 160)[0], weights)
    rng = np.random.default_rng(0)
    values = fitted.centers_y_[:, 0] * fitted.y_scale_[0] + fitted.y_center_[0]
    random = np.mean(
        [
            distances(fitted, rng.choice(values, 160, p=weights), weights)
            for _ in range(20)
        ],
        axis=0,
    )
    assert np.all(herded < 0.5 * random)
    # Random draws halve their error with four times as many; these do better.
    assert herded[2] < herded[0] / 8
    assert random[2] > random[0] / 8


def test_far_from_all_rows_it_is_the_law_of_all(rows, fitted):
    (far,) = fitted.given([[1e4, 1e4]]).mean()
    assert far == pytest.approx(rows[1].mean())


def test_several_columns_are_embedded_together(rows):
    x, y = rows
    both = np.column_stack([y, -y])
    model = ConditionalMeanEmbedding(random_state=0).fit(x, both)
    assert model.herd(NEW, 7).shape == (2, 7, 2)
    np.testing.assert_allclose(
        model.expectation(NEW, lambda y: y.sum(axis=1)), 0.0, atol=1e-9
    )


def test_rounded_responses_bound_the_width(rows):
    x, y = rows
    model = ConditionalMeanEmbedding(random_state=0).fit(x, np.round(y))
    assert model.width_y_[0] * np.round(y).std() >= np.sqrt(1 / 12) - 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": "score"}, "select must be one of 'likelihood', 'embedding'"),
        ({"lengthscale": 0.0}, "lengthscale must be a positive number"),
        ({"judged_rows": 1}, "judged_rows must be a whole number from 2 on"),
    ],
)
def test_what_is_wrong_is_named(rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        ConditionalMeanEmbedding(**arguments).fit(*rows)


def test_a_function_must_give_a_value_for_each_response(fitted):
    with pytest.raises(ValueError, match="a value for each of the 60 responses"):
        fitted.expectation(NEW, lambda y: y[:3])
