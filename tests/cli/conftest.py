"""One fitted model for all tests of the commands; none may write to it."""

import importlib
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kexpfam.cli import main
from tests.cli.tables import houses, untuned_model, write


@pytest.fixture
def run():
    """Calls the program: `run("fit", path, ...)` gives its result."""

    def call(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return call


@pytest.fixture
def fit(run, tmp_path):
    """Fits a model to columns: `fit(columns, ...)` has its files and the result."""

    def call(columns, *words):
        data, model = write(tmp_path / "a.csv", columns), tmp_path / "a.kexpfam"
        result = run("fit", data, *words, "-o", model)
        return SimpleNamespace(data=data, model=str(model), result=result)

    return call


@pytest.fixture
def joint(fit, untuned):
    """A joint density, and the table that it was fitted to."""
    done = fit(houses(40), "--joint", "--features", "area,price", "--model", "kcef")
    assert done.result.exit_code == 0
    return done


@pytest.fixture
def untuned(monkeypatch):
    """Makes `fit` and `evaluate` use untuned models, where only speed matters."""
    for command in ("fit", "evaluate"):
        module = importlib.import_module(f"kexpfam.cli.{command}")
        monkeypatch.setattr(module, "new_model", untuned_model)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A model of houses, the table that it was fitted to, and what was printed."""
    folder = tmp_path_factory.mktemp("fitted")
    data = write(folder / "houses.csv", houses())
    model = str(folder / "houses.kexpfam")
    words = ["fit", data, "--target", "price", "--model", "kcef", "-o", model]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return SimpleNamespace(model=model, data=data, result=result)
