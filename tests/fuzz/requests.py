"""Requests to the explorer with odd lines, headers and fields, whole and in part.

Each is answered with a status that says what is wrong with it, and a sentence, or the
connection is closed; none fails inside the server, and it answers the next one.
"""

import functools
import json
import socket
import threading

import numpy as np

from kexpfam import KCEF
from kexpfam.explorer import ConditionalView, ExplorerServer, Subject, controls_of
from kexpfam.tables import Coding, as_table
from tests.cli.tables import houses

QUESTIONS = ("description", "density", "curve", "row", "calibration", "draws")
THINGS = [
    *(None, True, False, 0, -1, 1, 0.5, 0.9, 1e308, -1e308, 5e-324, 10**400),
    *(float("inf"), float("nan"), "", "area", "city", "Rome", "hpd", "fixed"),
    *("x" * 3000, "\ud800", "<script>", [], [1, 2], [2, 1], [1e308, -1e308], {}),
    *({"area": 80.0}, {"area": 1e308}, {"city": "Rome"}, {"city": "Bonn"}),
    *({"area": None}, {"area": [1]}, {"rooms": True}, {"": 1}, [[[[]]]], 900, 240),
]
FIELDS = (
    *("values", "level", "region", "zoom", "kept", "include", "feature", "others"),
    *("width", "height", "observed", "place", "moving", "peak", "given", "other"),
)
HEADERS = [
    *("Origin: http://evil.example", "Origin: null", "Host: evil.example", "Host:"),
    *("Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999"),
    *("Transfer-Encoding: chunked", "Expect: 100-continue", "Connection: close"),
    *("Connection: keep-alive", "X: " + "y" * 70_000, "Broken", ": x", "É: é"),
    *("Content-Type: text/plain", "Range: bytes=0-5", "Upgrade: websocket"),
]
METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "get", "", "DELETE", "P\x00ST")
PATHS = ("", "style.css", "../server.py", "%2e%2e/", "api/", "api/__init__", "?x=1")


@functools.cache
def server():
    """A page of houses, served until the process ends."""
    table = as_table(houses())
    coding = Coding.learn(table, ["area", "rooms", "city"], "price")
    X, y = coding.transform(table).X, table.numbers("price")
    model = KCEF(select=None).fit(X, y)
    rows = (X, y, np.arange(1, len(y) + 1), "houses")
    subject = Subject(model, controls_of(coding, X), "price", "houses", *rows)
    running = ExplorerServer(ConditionalView(subject))
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    return running


def _choice(rng, among):
    return among[rng.integers(len(among))]


def _request(rng, token, port):
    """The bytes of a request, and how it was made."""
    names = rng.permutation(FIELDS)[: rng.integers(0, 5)].tolist()
    fields = {name: _choice(rng, THINGS) for name in names}
    body = json.dumps(fields).encode("utf-8", "surrogatepass")
    method, path = "POST", f"api/{_choice(rng, QUESTIONS)}"
    headers = [f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
    if rng.random() < 0.4:
        place = int(rng.integers(len(headers) + 1))
        headers[place : place + int(rng.integers(2))] = [_choice(rng, HEADERS)]
    if rng.random() < 0.2:
        method, path = _choice(rng, METHODS), _choice(rng, PATHS)
    if rng.random() < 0.1:
        token = _choice(rng, ["", "wrong", "é", token + token])
    version = _choice(rng, ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/9.9", "", "X"])
    line = f"{method} /{token}/{path} {version}"
    lines = "\r\n".join([line, *headers, "", ""]).encode("utf-8", "replace")
    sent = lines + body
    if rng.random() < 0.2:
        sent = sent[: rng.integers(len(sent) + 1)]
    if rng.random() < 0.1:
        data = bytearray(sent)
        for place in rng.integers(max(len(data), 1), size=3):
            data[place : place + 1] = rng.bytes(1)
        sent = bytes(data)
    return sent, f"{line} {headers[-1]!r:.40} {fields!r:.300}"


def answer(sent):
    """What comes back until the server closes, or has no more to say."""
    running, parts = server(), []
    with socket.create_connection(running.server_address, timeout=30) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(2**16):
                parts.append(part)
        except TimeoutError:
            raise
        except OSError:
            pass  # closed while it was sent
    return b"".join(parts)


def attempt(sent):
    """What is wrong with the answer to some bytes, or nothing."""
    got = answer(sent)
    if not got:
        return None
    start, _, content = got.partition(b"\r\n\r\n")
    words = start.split(b" ", 2)
    if words[0] != b"HTTP/1.1":
        return f"no answer of HTTP: {got[:80]!r}"
    status = int(words[1])
    if status == 500 or not 100 <= status < 600:
        return f"status {status}: {content[:300]!r}"
    if b"application/json" in start and status >= 400:
        said = json.loads(content)["error"]
        if not said.endswith(".") or "Traceback" in said or len(said) > 1000:
            return f"a refusal that is not clear: {said[:200]!r}"
    elif b"application/json" in start:
        json.loads(content, parse_constant=_no_number)
    return None


def _no_number(name):
    raise ValueError(f"{name} is no JSON")


def one_case(rng, folder):
    """A random case: how it was made, and what is wrong, or None."""
    running = server()
    sent, said = _request(rng, running.token, running.server_port)
    problem = attempt(sent)
    if problem is None:
        good = f"GET /{running.token}/icon.svg HTTP/1.1\r\nConnection: close\r\n"
        whole = f"{good}Host: 127.0.0.1:{running.server_port}\r\n\r\n"
        if not answer(whole.encode()).startswith(b"HTTP/1.1 200"):
            problem = "the next request was not answered"
    return said, problem
