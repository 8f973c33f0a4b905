"""LSCDE: H and h against quadrature of the definition, and what follows from them."""

from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.baselines import LSCDE
from kexpfam.baselines.least_squares import (
    GaussianFunctions,
    Split,
    held_out_losses,
    solutions,
    splits,
)
from kexpfam.data import Rows
from tests.baselines.cases import wave


@pytest.fixture(scope="module")
def rows():
    x, y = wave(30)
    return x, y[:, None]


def weighted(x, y, weights=None):
    return Rows(x, y, np.ones(len(x)) if weights is None else weights)


def phi(functions, width, x, y):
    """The basis functions at one x and at y (..., d), written as in the paper."""
    in_x = ((functions.centers_x - x) ** 2).sum(axis=1)
    in_y = ((functions.centers_y - np.asarray(y)[..., None, :]) ** 2).sum(axis=-1)
    return np.exp(-(in_x + in_y) / (2 * width**2))


def product_integral(functions, width, x, i, j):
    """∫ φ_i(x, y) φ_j(x, y) dy by adaptive quadrature."""

    def product(y):
        values = phi(functions, width, x, [y])
        return values[i] * values[j]

    ends = functions.centers_y[[i, j], 0].tolist()
    return integrate.quad(product, -12, 12, points=ends, epsabs=1e-16)[0]


@pytest.mark.parametrize("width", [0.3, 1.2])
def test_h_and_H_are_those_of_the_definition(rows, width):
    x, y = rows
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=30)
    functions = GaussianFunctions(x[:4], y[:4])
    H, h = functions.sums(width, weighted(x, y, weights))
    share = weights / weights.sum()
    slow_h = sum(
        w * phi(functions, width, a, b) for w, a, b in zip(share, x, y, strict=True)
    )
    np.testing.assert_allclose(h, slow_h, rtol=1e-12)
    for i in range(4):
        for j in range(i, 4):
            value = sum(
                w * product_integral(functions, width, a, i, j)
                for w, a in zip(share, x, strict=True)
            )
            np.testing.assert_allclose(H[i, j], value, rtol=1e-7, atol=1e-14)


def test_H_of_two_columns_of_y_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 1)), rng.normal(size=(5, 2))
    functions = GaussianFunctions(x[:2], y[:2])
    H, _ = functions.sums(0.8, weighted(x, y))
    t = np.linspace(-9, 9, 361)
    plane = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.zeros((len(plane), 2, 2))
    for a in x:
        f = phi(functions, 0.8, a, plane)
        values += f[:, :, None] * f[:, None] / 5
    grid = values.reshape(361, 361, 2, 2)
    expected = integrate.trapezoid(integrate.trapezoid(grid, t, axis=0), t, axis=0)
    np.testing.assert_allclose(H, expected, rtol=1e-8)


def test_solutions_for_all_regularizations_are_those_of_linear_systems(rows):
    x, y = rows
    H, h = GaussianFunctions(x[:10], y[:10]).sums(0.7, weighted(x, y))
    lams = np.array([1e-3, 0.1, 5.0])
    for lam, alpha in zip(lams, solutions(H, h, lams), strict=True):
        expected = np.linalg.solve(H + lam * np.eye(10), h)
        np.testing.assert_allclose(alpha, np.maximum(expected, 0), atol=1e-10)


def test_entries_that_underflow_do_no_harm():
    """An H of the red wines, on which LAPACK's dsyevr ends with an internal error."""
    H = np.load(Path(__file__).with_name("underflowing.npy"))
    h = np.linspace(0.0, 1.0, len(H))
    for lam, alpha in zip(
        (1e-6, 0.1), solutions(H, h, np.array([1e-6, 0.1])), strict=True
    ):
        expected = np.linalg.solve(H + lam * np.eye(len(H)), h)
        np.testing.assert_allclose(alpha, np.maximum(expected, 0), rtol=1e-7, atol=1e-9)


def test_the_solution_minimises_the_squared_error_of_the_ratio(rows):
    """J by quadrature is lowest at α before its negative part is cut off."""
    x, y = rows
    functions = GaussianFunctions(x[:3], y[:3])
    H, h = functions.sums(0.7, weighted(x, y))
    alpha = np.linalg.solve(H + 0.1 * np.eye(3), h)
    t = np.linspace(-9, 9, 2001)
    f = np.stack([[phi(functions, 0.7, a, np.array([b])) for b in t] for a in x])

    def J(alpha):
        ratio = f @ alpha
        square = integrate.trapezoid(ratio**2, t, axis=1).mean()
        fit = np.mean(
            [phi(functions, 0.7, a, b) @ alpha for a, b in zip(x, y, strict=True)]
        )
        return 0.5 * square - fit + 0.05 * alpha @ alpha

    best = J(alpha)
    for step in 0.01 * np.eye(3):
        assert J(alpha + step) > best
        assert J(alpha - step) > best


@pytest.mark.parametrize("select", ["likelihood", "squared_loss"])
def test_held_out_losses_are_those_of_separate_fits(rows, select):
    data = weighted(*rows)
    widths, lams = np.array([0.4, 1.0]), np.array([0.01, 1.0])
    parts = []
    for fold in np.array_split(np.arange(30), 3):
        kept = data[np.setdiff1d(np.arange(30), fold)]
        parts.append(Split(GaussianFunctions.on(kept[:8]), kept, data[fold]))
    found = held_out_losses(parts, widths, lams, select)
    for i, width in enumerate(widths):
        for j, lam in enumerate(lams):
            total = 0.0
            for functions, kept, held_out in parts:
                H, h = functions.sums(width, kept)
                alpha = np.maximum(np.linalg.solve(H + lam * np.eye(8), h), 0)
                for a, b in zip(held_out.X, held_out.Y, strict=True):
                    value = phi(functions, width, a, b) @ alpha
                    t = np.linspace(-15, 15, 4001)
                    ratio = phi(functions, width, a, t[:, None]) @ alpha
                    if select == "likelihood":
                        mass = integrate.trapezoid(ratio, t)
                        total -= np.log(value / mass)
                    else:
                        square = integrate.trapezoid(ratio**2, t)
                        total += 0.5 * square - value
            np.testing.assert_allclose(found[i, j], total / 30, rtol=1e-8)


def test_rows_far_from_all_centres_have_a_finite_loss(rows):
    x, y = rows
    functions = GaussianFunctions(x[:8], y[:8])
    split = Split(functions, weighted(x, y), weighted(x + 500.0, y))
    losses = held_out_losses([split], np.array([0.1]), np.array([0.1]), "likelihood")
    assert np.all(np.isfinite(losses))


def test_the_best_of_the_grid_is_used(rows):
    x, y = rows
    model = LSCDE(random_state=0).fit(x, y[:, 0])
    losses = model.selection_.losses
    assert losses.shape == (20, 20)
    i, j = np.unravel_index(np.argmin(losses), losses.shape)
    assert model.width_ == model.selection_.widths[i]
    assert model.regularization_ == model.selection_.regularizations[j]
    fixed = LSCDE(
        width=model.width_, regularization=model.regularization_, random_state=0
    ).fit(x, y[:, 0])
    assert fixed.selection_ is None
    np.testing.assert_allclose(
        fixed.score_samples(x, y[:, 0]), model.score_samples(x, y[:, 0])
    )


def test_the_density_is_the_ratio_over_its_integral(rows):
    x, y = rows
    model = LSCDE(width=0.5, regularization=0.1, random_state=0).fit(x, y[:, 0])
    z = (x[:1] - x.mean(axis=0)) / x.std(axis=0)
    t = np.linspace(-8, 8, 4001)
    u = (t - y.mean()) / y.std()
    in_x = np.exp(-((model.centers_x_ - z) ** 2).sum(axis=1) / (2 * 0.5**2))
    in_y = np.exp(-((u[:, None] - model.centers_y_[:, 0]) ** 2) / (2 * 0.5**2))
    ratio = in_y @ (model.coefficients_ * in_x)
    expected = ratio / integrate.trapezoid(ratio, t)
    np.testing.assert_allclose(model.given(x[:1])[0].pdf(t), expected, atol=1e-10)


def test_known_mixtures_are_recovered():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(1500, 1))
    side = np.where(rng.random(1500) < 0.5, -1.0, 1.0)
    y = 2.0 * side + x[:, 0] + 0.5 * rng.normal(size=1500)
    p = LSCDE(random_state=0).fit(x, y).given([[0.0]])[0]
    t = np.linspace(-5, 5, 501)
    truth = 0.5 * stats.norm.pdf(t, -2, 0.5) + 0.5 * stats.norm.pdf(t, 2, 0.5)
    distance = integrate.trapezoid(np.abs(p.pdf(t) - truth), t)
    assert distance < 0.25  # of at most 2; 0.5 from a single normal is above 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": -1.0}, "width must be a positive number"),
        ({"select": "score"}, "select must be one of 'likelihood'"),
        ({"n_centers": 0}, "n_centers must be a whole number from 1 on"),
        ({"widths": []}, "widths must be a list of one or more numbers"),
        ({"widths": 0.3}, "use width= for a single one"),
        ({"regularizations": [0.0]}, "regularization must be a positive number"),
        ({"cv": 1}, "cv must be a whole number from 2 on"),
    ],
)
def test_what_is_wrong_is_named(rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        LSCDE(**arguments).fit(*rows)


def test_rows_held_out_are_never_centres(rows):
    parts = splits(weighted(*rows), 20, 5, np.random.default_rng(0))
    assert len(parts) == 5
    for functions, kept, held_out in parts:
        centers, fitted, left = (
            set(map(tuple, X)) for X in (functions.centers_x, kept.X, held_out.X)
        )
        assert len(centers) == 20
        assert centers <= fitted
        assert len(left) == 6
        assert not fitted & left
