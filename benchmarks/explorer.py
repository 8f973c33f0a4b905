"""How soon the explorer answers when a slider moves: requests through its server.

An `AutoKCEF` of 500 rows and six columns of x is asked for p(y|x) at one x after the
other, as the page asks: picture, grid, quantiles, moments and modes, with a central
interval or with a highest-density region; and for what the page shows when a slider
rests: the standard deviation too, and a curve along a feature. Wall-clock milliseconds
are what a user waits for on this machine, as loaded as it was; processor milliseconds,
of server and client together, are nearer those of an idle one. Run it with
OPENBLAS_NUM_THREADS=1.
"""

import http.client
import json
import os
import threading
import time
from typing import Any

import numpy as np
from record import write_result

from kexpfam import AutoKCEF
from kexpfam.explorer import (
    ConditionalView,
    ExplorerServer,
    Subject,
    number_control,
)

ROWS, COLUMNS, ANSWERS = 500, 6, 60


def subject() -> Subject:
    """A weak slope in skewed noise: several families share the weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = 0.5 * X[:, 0] + rng.gamma(4.0, 0.5, ROWS)
    controls = [number_control(f"x{i + 1}", i, X[:, i]) for i in range(COLUMNS)]
    model = AutoKCEF(random_state=0).fit(X, y)
    numbers = np.arange(1, ROWS + 1)
    return Subject(model, tuple(controls), "y", "benchmark", X, y, numbers, "rows")


def answers(server: ExplorerServer, name: str, **fields: Any) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    wall, processor = [], []
    for place in np.linspace(-2.0, 2.0, ANSWERS).tolist():
        body = json.dumps({"values": {"x1": place}, "width": 900, **fields})
        start = time.perf_counter(), time.process_time()
        connection.request("POST", f"/{server.token}/api/{name}", body)
        response = connection.getresponse()
        content = response.read()
        wall.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(content)
    connection.close()
    return {
        "median_ms": 1e3 * float(np.median(wall)),
        "largest_ms": 1e3 * float(np.max(wall)),
        "processor_median_ms": 1e3 * float(np.median(processor)),
        "bytes": len(content),
    }


def main() -> None:
    view = ConditionalView(subject())
    found: dict[str, Any] = {
        "rows": ROWS,
        "columns": COLUMNS,
        "members": len(view.subject.model.members_),
        "answers": ANSWERS,
        "load_average": os.getloadavg()[0],
    }
    with ExplorerServer(view) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers(server, "density")  # what is computed once is not counted
        for region in ("interval", "hpd"):
            found[f"moving, {region}"] = answers(
                server, "density", region=region, moving=True
            )
        found["at rest, interval"] = answers(server, "density")
        found["curve along a feature"] = answers(server, "curve", feature="x2")
        server.shutdown()
    for name, value in found.items():
        print(f"{name:28} {value}")
    print(write_result("explorer", found))


if __name__ == "__main__":
    main()
