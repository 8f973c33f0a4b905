"""The server answers this page only, and says in a sentence what is wrong."""

import contextlib
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kexpfam.explorer import ConditionalView, ExplorerServer, Question
from kexpfam.metrics import evaluate
from tests.explorer.conftest import asked, serving


def test_the_page_and_its_parts_are_there(ask):
    page = ask("GET", "")
    assert page.status == 200
    assert "<main" in page.answer
    for name in ("style.css", "script.js", "icon.svg"):
        assert ask("GET", name).status == 200


@pytest.mark.parametrize("token", ["", "wrong", "%C3%9Cn"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_nothing_is_answered(ask, method, token):
    for path in ("", "api/description", "style.css"):
        found = ask(method, path, token=token)
        assert found.status == 403
        assert found.answer == {"error": "Use the whole address that kexpfam printed."}


def test_tokens_differ_and_are_long(view):
    with ExplorerServer(view) as one, ExplorerServer(view) as other:
        assert one.token != other.token
        assert len(one.token) >= 20
        assert one.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", ""])
def test_another_host_is_refused(ask, host):
    found = ask("GET", "", headers={"Host": host})
    assert found.status == 403
    assert found.answer == {"error": "This page is for this computer only."}


def test_localhost_is_the_same_computer(ask, server):
    headers = {"Host": f"localhost:{server.server_port}"}
    assert ask("GET", "", headers=headers).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1"])
def test_pages_of_others_are_refused(ask, origin):
    found = ask("POST", "api/density", headers={"Origin": origin})
    assert found.status == 403
    assert found.answer == {"error": "Other pages may not ask."}


def test_the_page_itself_may_ask(ask, server):
    origin = server.address.split(f"/{server.token}")[0]
    assert ask("GET", "", headers={"Origin": origin}).status == 200


@pytest.mark.parametrize("length", ["+2", " 2 2", "0x2", "²", "-1", "1e1", "9" * 5000])
def test_lengths_are_plain_numbers(server, length):
    request = (
        f"POST /{server.token}/api/density HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{server.server_port}\r\nContent-Length: {length}\r\n\r\n{{}}"
    )
    with socket.create_connection(server.server_address, timeout=10) as connection:
        connection.sendall(request.encode())
        assert b" 413 " in connection.recv(100)


def test_requests_without_a_version_have_answers_with_a_status(server):
    with socket.create_connection(server.server_address, timeout=10) as connection:
        connection.sendall(f"GET /{server.token}/style.css\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 ")


def test_half_requests_do_not_pile_up(view):
    class Small(ExplorerServer):
        most_connections = 3

    before = threading.active_count()
    with Small(view) as server, contextlib.ExitStack() as stack:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        many = [
            stack.enter_context(socket.create_connection(server.server_address))
            for _ in range(20)
        ]
        for connection in many:
            connection.sendall(b"GET / HT")
        assert many[-1].recv(1) == b""  # closed at once
        assert threading.active_count() <= before + 1 + 3
        for connection in many:
            connection.close()
        deadline = time.monotonic() + 20
        while threading.active_count() > before + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert asked(server, "GET", "").status == 200
        server.shutdown()


def test_what_is_not_there_is_404(ask):
    assert ask("GET", "other.html").status == 404
    assert ask("GET", "../server.py").status == 404
    assert ask("GET", "page/../../server.py").status == 404
    assert ask("POST", "api/other").status == 404
    assert ask("POST", "").status == 404


@pytest.mark.parametrize("body", ["", "{", "[1]", "null", '"text"', "[" * 5000])
def test_what_is_no_json_object_is_refused(ask, body):
    found = ask("POST", "api/density", body=body)
    assert found.status == 400
    assert found.answer == {"error": "The request is not a JSON object."}


def test_long_requests_are_refused(ask):
    assert ask("POST", "api/density", body="x" * 70000).status == 413


@pytest.mark.parametrize(
    ("question", "fields", "sentence"),
    [
        ("density", {"values": {"areas": 1.0}}, "There is no feature 'areas'."),
        ("density", {"values": {"area": "x"}}, "area must be a number, got 'x'."),
        ("density", {"values": {"area": True}}, "area must be a number, got True."),
        ("density", {"values": {"city": "Bonn"}}, "'Bonn' is not a category of 'city'"),
        ("density", {"values": 3}, "values must be values by name, got 3."),
        ("density", {"level": 1.0}, "level must be between 0.01 and 0.999, got 1."),
        ("density", {"region": "x"}, "region must be one of"),
        ("density", {"zoom": 1}, "zoom must be true or false, got 1."),
        ("density", {"kept": [1.0]}, "kept must be two numbers, got [1.0]."),
        ("density", {"include": [2.0, 1.0]}, "include must be two increasing numbers."),
        ("curve", {"feature": "area", "others": "all"}, "others must be one of"),
        ("density", {"width": 1e9}, "width must be between 160 and 4000"),
        ("density", {"level": 10**400}, "level must be a number below 1e300, got 1000"),
        ("density", {"observed": "x"}, "observed must be a number"),
        ("curve", {"feature": "areas"}, "There is no feature 'areas'."),
        ("curve", {}, "There is no feature None."),
        ("row", {"place": 61}, "place must be between 1 and 60, got 61."),
        ("draws", {"feature": ["area"]}, "There is no feature ['area']."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(ask, question, fields, sentence):
    found = ask("POST", f"api/{question}", fields)
    assert found.status == 400
    assert found.answer["error"].startswith(sentence)


def test_what_fails_inside_is_said_too(view):
    def fail(question):
        raise RuntimeError("no luck")

    with serving(SimpleNamespace(questions={"density": fail})) as running:
        found = asked(running, "POST", "api/density")
    assert found.status == 500
    assert found.answer == {"error": "kexpfam failed at this (RuntimeError: no luck)."}


@pytest.mark.parametrize("area", [-1e300, -1e6, 1e6, 1e300])
def test_far_away_the_answer_is_a_density_or_a_sentence(ask, area):
    found = ask("POST", "api/density", {"values": {"area": area}})
    if found.status == 400:
        assert found.answer["error"].endswith(".")
        return
    assert found.status == 200
    assert None not in found.answer["pdf"]
    assert found.answer["near"] < 1e-6


def test_infinity_is_not_a_condition(ask):
    found = ask("POST", "api/density", body='{"values": {"area": Infinity}}')
    assert found.status == 400
    assert found.answer["error"] == "area must be finite, got inf."


def test_answers_may_not_be_kept_or_used_elsewhere(ask):
    found = ask("POST", "api/description")
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["Cache-Control"] == "no-store"
    assert found.headers["Access-Control-Allow-Origin"] is None


def test_a_row_has_its_values_and_observation(ask, saved):
    found = ask("POST", "api/row", {"place": 3}).answer
    assert found["observed"] == saved.y[2]
    assert found["values"]["area"] == saved.X[2, 0]
    assert found["values"]["city"] == "Rome"
    assert found["number"] == 3


def test_calibration_is_that_of_the_metrics(ask, view, saved):
    found = ask("POST", "api/calibration").answer
    expected = evaluate(view.subject.model, saved.X, saved.y)
    assert found["rows"] == 60
    assert found["scores"]["log loss"][0] == pytest.approx(expected.log_loss.value)
    np.testing.assert_allclose(np.sort(found["pit"]), np.sort(expected.pit), atol=1e-9)
    assert found["note"].startswith("The model was fitted to these rows")


def test_draws_stand_beside_their_rows(ask, saved):
    for feature in (None, "area", "city"):
        found = ask("POST", "api/draws", {"feature": feature}).answer
        rows = np.array(found["numbers"]) - 1
        np.testing.assert_allclose(saved.y[rows], found["observed"])
        assert found["picture"].startswith("<svg")
        assert len(found["drawn"]) == 60


def test_names_from_files_cannot_become_elements(view, saved):
    evil = "<script>alert(1)</script>"
    first = replace(view.subject.controls[0], name=evil)
    subject = replace(
        view.subject, target=evil, controls=(first, *view.subject.controls[1:])
    )
    other = ConditionalView(subject)
    width = {"width": 2000}
    answers = [
        other.density(Question(width))["content"],
        other.curve(Question({"feature": evil, **width}))["picture"],
        other.draws(Question({"feature": evil, **width}))["picture"],
        other.draws(Question(width))["picture"],
    ]
    for picture in answers:
        assert "<script" not in picture
        assert "&lt;script" in picture
