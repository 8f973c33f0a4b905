"""Serve a saved model over HTTP, with the standard library only.

    python examples/serve.py houses.kexpfam 8000
    curl -s localhost:8000 -d '{"X": [[3.0]], "quantiles": [0.05, 0.5, 0.95]}'

The answer is a JSON object with the mean, the standard deviation and the quantiles at
each row of X. Opening a model file runs no code. This server is for a machine of your
own: it knows no passwords and no encryption, so put it behind one that does.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kexpfam import load

LARGEST_REQUEST = 10_000_000  # bytes


def answer(model: Any, question: dict[str, Any]) -> dict[str, Any]:
    """What the model says about the rows of X."""
    p = model.given(question["X"])
    levels = question.get("quantiles", [0.05, 0.5, 0.95])
    return {
        "mean": p.mean().tolist(),
        "standard_deviation": p.std().tolist(),
        "quantiles": p.quantile(levels).tolist(),
    }


def make_server(model: Any, port: int = 0) -> ThreadingHTTPServer:
    """A server of one model on this machine; port 0 is any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                size = min(int(self.headers["Content-Length"]), LARGEST_REQUEST)
                status, content = 200, answer(model, json.loads(self.rfile.read(size)))
            except (KeyError, TypeError, ValueError) as error:
                status, content = 400, {"error": str(error)}
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing for each request; `format` is the base class's name."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main(path: str, port: str = "8000") -> None:
    with make_server(load(path), int(port)) as server:
        print(f"Serving {path} at http://127.0.0.1:{server.server_address[1]}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:3])
