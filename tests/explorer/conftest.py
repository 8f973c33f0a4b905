"""Small fitted models in files, and pages of them; no test may write to these."""

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest

from kexpfam import KCEF, FactorizedDensity
from kexpfam.base_densities import GaussianBase
from kexpfam.cli.explore import view_of
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.readers import read_table
from kexpfam.distributions import ClosedFormDensity, MixtureDensity
from kexpfam.explorer import ExplorerServer
from kexpfam.tables import Coding, TableCoder
from tests.cli.tables import houses, write


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Files of houses: their table, a model of prices, a joint one, two modes."""
    folder = tmp_path_factory.mktemp("explorer")
    data = write(folder / "houses.csv", houses())
    table = read_table(data)
    coder = Coding.learn(table, ["area", "rooms", "city"], "price")
    X, y = coder.transform(table).X, table.numbers("price")
    model = str(folder / "houses.kexpfam")
    density = KCEF(select=None).fit(X, y)
    density._adopt(TableCoder.of_coding(coder))
    density.save(model)
    joint = str(folder / "joint.kexpfam")
    columns = Coding.learn(table, ["area", "rooms", "price"])
    Y = columns.transform(table).X
    factorized = FactorizedDensity(factor=KCEF(select=None), random_state=0).fit(Y)
    factorized.save(joint, extra=columns.as_extra())
    return SimpleNamespace(data=data, model=model, joint=joint, X=X, y=y, Y=Y)


@pytest.fixture(scope="session")
def view(saved):
    """The page of the model of prices, with its data."""
    return view_of(load_table_model(saved.model), read_table(saved.data))


@pytest.fixture(scope="session")
def joint_view(saved):
    """The page of the joint model, with its data."""
    return view_of(load_table_model(saved.joint), read_table(saved.data))


@pytest.fixture(scope="session")
def alone(view):
    """What is explored of the model of prices without data."""
    subject = view.subject
    return replace(subject, X=subject.X[:0], y=subject.y[:0], source="")


@pytest.fixture(scope="session")
def two_modes():
    """What is asked of a model, for 40 % around −2 and 60 % around 2."""

    def given(X):
        at = [np.full(len(X), place) for place in (-2.0, 2.0)]
        sides = [ClosedFormDensity(GaussianBase(0.4), a, np.ones(len(X))) for a in at]
        return MixtureDensity(sides, [0.4, 0.6])

    return SimpleNamespace(given=given)


@contextmanager
def serving(view):
    """A server in a thread."""
    with ExplorerServer(view) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def server(view):
    with serving(view) as running:
        yield running


def asked(server, method, path, fields=None, *, token=None, body=None, headers=None):
    """Sends a request, and gives status, answer and headers."""
    place = urlsplit(server.address)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    whole = f"/{server.token if token is None else token}/{path}"
    content = body if body is not None else json.dumps(fields or {})
    connection.request(
        method, whole, content if method == "POST" else None, headers or {}
    )
    response = connection.getresponse()
    text = response.read()
    connection.close()
    kind = response.getheader("Content-Type")
    answer = json.loads(text) if kind == "application/json" else text.decode()
    return SimpleNamespace(
        status=response.status, answer=answer, headers=response.headers
    )


@pytest.fixture
def ask(server):
    """Sends a request; `ask("POST", "api/density", {})` gives status and answer."""

    def call(*words, **options):
        return asked(server, *words, **options)

    return call
