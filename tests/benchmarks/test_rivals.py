"""The rivals that are written by hand are the densities they claim to be."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from scipy import stats
from scipy.integrate import quad

from reproduction import protocol
from reproduction.record import Task, read
from reproduction.tables import samples
from tests.tolerances import DIFFERENCES, QUADRATURE, SOLVE, assert_close

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def methods(monkeypatch):
    # Scripts in benchmarks import each other as they do when they are run.
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("rival_methods")


@pytest.fixture
def network(methods):
    return importlib.import_module("rival_network")


def rows(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(2.0 * X[:, 0]) + 0.4 * rng.standard_exponential(n)


BY_HAND = ["iid_normal", "ridge_normal", "kernel_density", "lscde"]


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("at", [0.3, 40.0], ids=["among the rows", "far away"])
def test_a_density_integrates_to_one(methods, name, at):
    X, y = rows(40, 2)
    model = methods.METHODS[name].make(0).fit(X, 5.0 + 3.0 * y)
    # Gauss-Legendre on narrow pieces, which miss no bump; ridge at x = 40 is near 50.
    t, weights = np.polynomial.legendre.leggauss(20)
    edges = np.arange(-100.0, 200.0, 0.25)
    points = (edges[:, None] + 0.125 * (1.0 + t)).ravel()
    x = np.full((len(points), 2), at)
    p = np.exp(model.score_samples(x, points)).reshape(len(edges), -1)
    mass = float(0.125 * np.sum(p @ weights))
    assert mass == pytest.approx(1.0, abs=QUADRATURE)


@pytest.mark.parametrize("name", BY_HAND)
def test_only_statistics_of_training_rows_decide_the_units(methods, name):
    X, y = rows(40, 2)
    X_new, y_new = rows(15, 2, seed=1)
    estimator = methods.METHODS[name].make(0)
    before = estimator.fit(X, y).score_samples(X_new, y_new)
    moved = estimator.fit(10.0 * X - 3.0, 7.0 * y + 2.0)
    after = moved.score_samples(10.0 * X_new - 3.0, 7.0 * y_new + 2.0)
    # Widths come from an optimiser whose path may differ in the last digits.
    assert_close(after, before - np.log(7.0), SOLVE)


@pytest.mark.parametrize("size", [0.1, 1.0])
def test_gradient_of_the_network_loss_agrees_with_differences(network, size):
    X, y = rows(12, 2)
    rng = np.random.default_rng(1)
    theta = size * rng.normal(size=len(network.start(rng, y, 2)))
    value, gradient = network.loss(theta, X, y, 0.7)
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        up, _ = network.loss(theta + step, X, y, 0.7)
        down, _ = network.loss(theta - step, X, y, 0.7)
        assert_close(gradient[j], (up - down) / 2e-5, DIFFERENCES, scale=value)


def test_an_average_of_networks_integrates_to_one(network):
    rng = np.random.default_rng(1)
    parameters = [network.start(rng, np.arange(9.0), 2) for _ in range(3)]
    model = network.MixtureNetworks(parameters)
    x = np.array([[0.3, -2.0]])
    mass, _ = quad(
        lambda value: np.exp(model.score_samples(x, np.array([value])))[0],
        -30.0,
        40.0,
        points=[0.0, 4.0, 8.0],
        epsabs=1e-13,
        limit=200,
    )
    assert mass == pytest.approx(1.0, abs=QUADRATURE)


def test_a_network_learns_a_density_better_than_one_that_ignores_x(network, methods):
    X, y = rows(300, 1)
    theta = network.train(np.random.default_rng(0), X, y, 1.0)
    X_new, y_new = rows(200, 1, seed=1)
    of_network = network.log_density(theta, X_new, y_new).mean()
    of_normal = methods.fit_iid_normal(X, y, 0).score_samples(X_new, y_new).mean()
    # Knowing the truth is worth 1.1 nats here; a fit that ignores x is worth none.
    assert of_network > of_normal + 0.3


def test_network_density_is_a_mixture_of_normals(network):
    X, y = rows(4, 2)
    theta = network.start(np.random.default_rng(1), y, 2)
    hidden, output, linear = network.unpack(theta, 2)
    found = network.log_density(theta, X, y)
    for k in range(4):
        units = [
            np.tanh(sum(X[k, j] * hidden[j, u] for j in range(2)) + hidden[2, u])
            for u in range(network.UNITS)
        ]
        out = units @ output[:-1] + output[-1] + X[k] @ linear
        logits, mean, raw = out.reshape(3, network.PARTS)
        weight = np.exp(logits) / np.exp(logits).sum()
        width = network.LEAST_WIDTH + np.exp(raw)
        density = sum(
            w * stats.norm(m, s).pdf(y[k])
            for w, m, s in zip(weight, mean, width, strict=True)
        )
        assert_close(found[k], np.log(density), scale=1.0)


def test_a_rival_is_measured_as_methods_of_the_reproduction_are(methods, monkeypatch):
    X, y = rows(31, 1)
    data = np.column_stack([X, y])
    toy = SimpleNamespace(data=data)
    monkeypatch.setattr(protocol, "load_benchmark", {"toy": toy}.__getitem__)
    suite = importlib.import_module("table1").suite_of(
        "rivals", methods.METHODS, ["toy"], [1, 2]
    )
    assert len(suite.tasks) == 2 * len(methods.METHODS)
    task = Task("rivals", "toy", "iid_normal", 2)
    found = suite.run(task, suite.first_seed + task.split)
    standard = (data - data.mean(axis=0)) / data.std(axis=0)
    order = np.random.default_rng(2).permutation(31)
    train, test = standard[order[:15], 1], standard[order[15:], 1]
    expected = -stats.norm(train.mean(), train.std(ddof=1)).logpdf(test).mean()
    # Files keep six decimals.
    assert found["nll"] == pytest.approx(expected, abs=1e-6)


def test_a_script_measures_what_is_missing_and_reports(
    methods, monkeypatch, tmp_path, benchmark_data, capsys
):
    table1 = importlib.import_module("table1")
    # Processes of other tests, if there are any, do not have the folder on their path.
    get_reusable_executor().shutdown()
    words = ["--datasets", "caution", "--methods", "iid_normal", "--seeds", "1:3"]
    words += ["--folder", str(tmp_path), "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", ["rivals.py", *words])
    for _ in range(2):
        table1.main("rivals", methods.METHODS, lambda: "the report")
        found = samples(read(tmp_path / "rivals.jsonl"), "nll")
        assert list(found["caution"]["iid_normal"].values) == [1, 2]
        assert capsys.readouterr().out == "the report\n"


def test_only_densities_that_can_vanish_are_floored(monkeypatch):
    toy = SimpleNamespace(data=np.random.default_rng(0).normal(size=(4, 2)))
    monkeypatch.setattr(protocol, "load_benchmark", lambda name: toy)
    fixed = SimpleNamespace(score_samples=lambda X, y: np.array([-50.0, 0.0]))
    for can_vanish, nll in ((True, 10.0), (False, 25.0)):
        estimator = SimpleNamespace(fit=lambda X, y: fixed)
        method = protocol.Method(lambda seed, found=estimator: found, can_vanish)
        entry = protocol.measure("toy", 0, method)
        assert (entry["nll"], entry["nll_floored"]) == (nll, 10.0)
        assert entry["below_floor"] == 1


def test_the_process_with_a_fast_gradient_is_that_of_scikit_learn(methods):
    rivals = importlib.import_module("table_rivals")
    X, y = rows(25, 3)
    signal, noise = rivals.ConstantKernel(0.7), rivals.WhiteKernel(0.2)
    kernel = signal * rivals.RBF([0.5, 2.0, 3.0]) + noise
    slow, fast = (
        kind(kernel, optimizer=None, normalize_y=True).fit(X, y)
        for kind in (rivals.GaussianProcessRegressor, rivals.FastProcess)
    )
    theta = kernel.theta + 0.3
    value, gradient = fast.log_marginal_likelihood(theta, eval_gradient=True)
    expected, by = slow.log_marginal_likelihood(theta, eval_gradient=True)
    assert_close(value, expected, SOLVE)
    assert_close(gradient, by, SOLVE)
