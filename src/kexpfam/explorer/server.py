"""A web server for one person: it listens on this computer only.

The address holds a random token, so that other programs and other people's pages cannot
ask for anything. Requests whose Host is not this computer are refused as well: a name
of somebody else's that was pointed here (DNS rebinding) comes to nothing. Nothing is
fetched from elsewhere, and the page is told not to.
"""

import hmac
import json
import math
import re
import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

import numpy as np

from kexpfam.explorer.subject import Question

LOCALHOST = "127.0.0.1"

_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
    "script.js": ("script.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ExplorerServer(ThreadingHTTPServer):
    """The page of a view, at a secret address of this computer.

    Args:
        view: What answers: `view.questions` are functions from a `Question` to an
            answer, by name.
        port: Where to listen; 0 for any that is free.

    Attributes:
        token: The secret part of the address.

    Example:
        >>> from types import SimpleNamespace
        >>> with ExplorerServer(SimpleNamespace(questions={})) as server:
        ...     server.address.startswith("http://127.0.0.1:")
        True
    """

    daemon_threads = True
    request_queue_size = 64
    most_connections = 64  # at the same time; a page needs a few

    def __init__(self, view: Any, port: int = 0) -> None:
        super().__init__((LOCALHOST, port), _Handler)
        self._free = threading.BoundedSemaphore(self.most_connections)
        self.view = view
        self.token = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOCALHOST}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there are not too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it was answered is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    server_version = "kexpfam"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    # An answer goes out at once and in one piece; otherwise its second piece may wait
    # for 40 ms until the first has been acknowledged.
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 10.0  # seconds for half a request, or until the next
    default_request_version = "HTTP/1.0"  # without one, answers would have no status

    def do_GET(self) -> None:
        path = self._path()
        if path is None:
            return
        if path not in _FILES:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
            return
        name, kind = _FILES[path]
        page = resources.files("kexpfam.explorer") / "page" / name
        self._send(HTTPStatus.OK, kind, page.read_bytes())

    def do_POST(self) -> None:
        path = self._path()
        if path is None:
            return
        questions = self.server.view.questions
        name = path.removeprefix("api/")
        if name == path or name not in questions:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such question.")
            return
        fields = self._fields()
        if fields is None:
            return
        try:
            answer = questions[name](Question(fields))
        except (ValueError, ArithmeticError, MemoryError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, said(error))
        except Exception as error:  # whatever it is, the page should not wait for it
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, said(error))
        else:
            self._send_json(HTTPStatus.OK, answer)

    def _path(self) -> str | None:
        """What is asked for, after the token; None if that was refused."""
        host = self.headers.get("Host", "")
        port = self.server.server_port
        if host not in {f"{LOCALHOST}:{port}", f"localhost:{port}"}:
            self._refuse(HTTPStatus.FORBIDDEN, "This page is for this computer only.")
            return None
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            self._refuse(HTTPStatus.FORBIDDEN, "Other pages may not ask.")
            return None
        token, slash, rest = self.path.partition("?")[0].lstrip("/").partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        if not known or not slash:
            self._refuse(
                HTTPStatus.FORBIDDEN, "Use the whole address that kexpfam printed."
            )
            return None
        return rest

    def _fields(self) -> dict[str, Any] | None:
        """The JSON object that was sent; None if that was refused."""
        lengths = self.headers.get_all("Content-Length", [])
        length = lengths[0] if len(lengths) == 1 else ""
        plain = re.fullmatch(r"[0-9]{1,9}", length)
        if not plain or int(length) > 65536:  # the page's are shorter
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too long."
            )
            return None
        try:
            fields = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "The request is not a JSON object.")
            return None
        return fields

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        # What was sent with it is not read, so that the next request is not found.
        self.close_connection = True
        self._send_json(status, {"error": sentence})

    def _send_json(self, status: HTTPStatus, content: Any) -> None:
        text = json.dumps(plain(content), allow_nan=False)
        self._send(status, "application/json", text.encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the terminal is the user's."""


def said(error: Exception) -> str:
    """What the page says of an error: a sentence of ours, or that there was one."""
    if isinstance(error, ValueError | ArithmeticError | MemoryError):
        return " ".join(str(error).split()) or type(error).__name__
    return f"kexpfam failed at this ({type(error).__name__}: {error})."


def plain(value: Any) -> Any:
    """As JSON can say it: NaN and infinity become null.

    Example:
        >>> plain({"a": [1.0, float("nan")]})
        {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
