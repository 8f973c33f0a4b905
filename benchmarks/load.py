"""Whether memory stays flat: 10,000 requests to the explorer, a million scored rows.

A server answers four clients at the same time: densities at ever new places, curves,
rows of the data, and requests that it has to refuse. Then the model scores a million
rows, 10,000 at a time, and a quarter of them in one call. What the process holds is
looked at after every tenth of the work; the first tenth, in which caches fill and
threads start, is where the line begins. Beside it stands what glibc has handed out in
all of its arenas and not got back: a leak would raise both, and what the allocator
keeps only the first. Run it with OPENBLAS_NUM_THREADS=1. What is done is written part
by part.
"""

import argparse
import ctypes
import gc
import http.client
import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from record import RESULTS, write_result

from kexpfam import AutoKCEF
from kexpfam.data import resident_now
from kexpfam.explorer import (
    ConditionalView,
    ExplorerServer,
    Subject,
    number_control,
)

ROWS, COLUMNS, CLIENTS, TENTHS = 500, 3, 4, 10


def data(n: int, seed: int) -> tuple[Any, Any]:
    """A slope in skewed noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS))
    return X, 0.5 * X[:, 0] + rng.gamma(4.0, 0.5, n)


def page(model: AutoKCEF) -> ConditionalView:
    X, y = data(ROWS, 0)
    controls = [number_control(f"x{i + 1}", i, X[:, i]) for i in range(COLUMNS)]
    numbers = np.arange(1, ROWS + 1)
    return ConditionalView(
        Subject(model, tuple(controls), "y", "load", X, y, numbers, "rows")
    )


def question(number: int) -> tuple[str, dict[str, Any], int]:
    """Name, fields, and the status that is expected."""
    rng = np.random.default_rng(number)
    if number % 50 == 7:
        return "curve", {"feature": f"x{1 + number % COLUMNS}"}, 200
    if number % 50 == 13:
        return "row", {"place": 1 + number % ROWS}, 200
    if number % 10 == 3:
        return "density", {"values": {"none": 1.0}}, 400
    place = {f"x{i + 1}": float(v) for i, v in enumerate(rng.normal(size=COLUMNS))}
    return "density", {"values": place, "width": 900, "moving": number % 4 > 0}, 200


def ask(server: ExplorerServer, numbers: range) -> None:
    """One client: connections are kept, as a page keeps them, and made anew."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    for number in numbers:
        name, fields, expected = question(number)
        body = json.dumps(fields)
        connection.request("POST", f"/{server.token}/api/{name}", body)
        response = connection.getresponse()
        response.read()
        if response.status != expected:
            raise RuntimeError(f"{response.status} for {name} {fields}")
    connection.close()


def held() -> tuple[float, float]:
    """Megabytes that the process holds, and what glibc has handed out."""
    gc.collect()
    return (resident_now() or 0) / 2**20, handed_out() / 2**20


def handed_out() -> int:
    """Bytes in use in all arenas and beside them, by `malloc_info` of glibc."""
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(
        libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    )
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    total = (text.value or b"").decode().rpartition("</heap>")[2]
    libc.free(text)
    sizes = {
        kind: int(number)
        for kind, number in re.findall(r'type="(\w+)"[^/]*size="(\d+)"', total)
    }
    return sizes["current"] + sizes["mmap"] - sizes["fast"] - sizes["rest"]


def requests(model: AutoKCEF, total: int) -> dict[str, Any]:
    memory, part = [], total // TENTHS
    start, wall = time.process_time(), time.perf_counter()
    with ExplorerServer(page(model)) as server, ThreadPoolExecutor(CLIENTS) as clients:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for first in range(0, total, part):
            ways = [range(first + k, first + part, CLIENTS) for k in range(CLIENTS)]
            list(clients.map(lambda numbers: ask(server, numbers), ways))
            memory.append(held())
            print(f"{first + part:>8} requests  {memory[-1]} MB", flush=True)
        server.shutdown()
    return described(total, memory, start, wall)


def scored(model: AutoKCEF, total: int) -> dict[str, Any]:
    memory, block, part = [], min(10_000, total // TENTHS), total // TENTHS
    start, wall = time.process_time(), time.perf_counter()
    for first in range(0, total, part):
        for seed in range(first, first + part, block):
            log_p = model.score_samples(*data(block, 1 + seed))
            if not np.isfinite(log_p).all():
                raise RuntimeError(f"rows from {seed} on have no finite log density")
        memory.append(held())
        print(f"{first + part:>8} rows      {memory[-1]} MB", flush=True)
    return described(total, memory, start, wall)


def at_once(model: AutoKCEF, total: int) -> dict[str, float]:
    """All rows in one call: what it needs beside the rows themselves."""
    X, y = data(total, 1)
    (before, _), done = held(), threading.Event()
    seen = [before]

    def watch() -> None:
        while not done.wait(0.05):
            seen.append((resident_now() or 0) / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    model.score_samples(X, y)
    done.set()
    watcher.join()
    return {"rows": total, "before_mb": before, "most_above_mb": max(seen) - before}


def described(
    total: int, memory: list[tuple[float, float]], cpu: float, wall: float
) -> Any:
    resident, in_use = zip(*memory, strict=True)
    half = len(memory) // 2
    return {
        "number": total,
        "memory_mb": resident,
        "in_use_mb": in_use,
        "growth_after_first_tenth_mb": resident[-1] - resident[0],
        "growth_in_second_half_mb": resident[-1] - resident[half],
        "growth_in_use_in_second_half_mb": in_use[-1] - in_use[half],
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - wall,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", default="load", help="name of the result file")
    given = parser.parse_args()
    model = AutoKCEF(random_state=0).fit(*data(ROWS, 0))
    found: dict[str, Any] = {
        "model": f"AutoKCEF of {ROWS} rows, {len(model.members_)} members",
        "clients": CLIENTS,
        "load_average": os.getloadavg()[0],
        "mmap_threshold": os.environ.get("MALLOC_MMAP_THRESHOLD_", "as it comes"),
    }
    parts = {
        "requests": (requests, given.requests),
        "scored": (scored, given.rows),
        "scored at once": (at_once, given.rows // 4),
    }
    for name, (measure, number) in parts.items():
        if number:
            found[name] = measure(model, number)
            write_result("load", found, path=RESULTS / f"{given.write}.json")


if __name__ == "__main__":
    main()
