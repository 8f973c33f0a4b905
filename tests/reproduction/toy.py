"""A suite whose tasks take no time, and misbehave if their case says so.

Environment variables, which processes inherit, say where tasks are logged when they
begin and when they end, how long one takes, and which file mends what raises.
"""

import os
import signal
import sys
import time
from pathlib import Path

from reproduction.record import Suite, Task


def run(task, seed):
    print("a library that prints is no trouble")
    if task.case == "raises" and not Path(os.environ.get("TOY_MENDED", "no")).exists():
        raise ValueError("no\nrows")
    if task.case == "kills itself":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.case == "leaves":
        sys.exit("told to go")
    if task.case == "nan":
        return {"loss": [0.5, float("nan")]}
    if begun := os.environ.get("TOY_BEGUN"):
        with Path(begun).open("a") as file:
            file.write(f"{os.getpid()}\n")
    time.sleep(float(os.environ.get("TOY_SECONDS", "0")))
    if log := os.environ.get("TOY_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{task.key} {os.getpid()}\n")
    return {"loss": seed / 7, "threads": os.environ.get("OPENBLAS_NUM_THREADS")}


def show(records, folder):
    (folder / "toy.png").write_bytes(b"a picture")
    lines = [f"{r.task.key} {r.figures.get('loss')}" for r in records]
    return "\n".join([*lines, "", "![a toy](toy.png)"])


def tasks(*cases, splits, rows=None):
    return tuple(
        Task("toy", case, "KCEF", split, rows) for case in cases for split in splits
    )


SUITE = Suite(
    name="toy",
    title="A toy",
    tasks=tasks("a", "b", splits=range(20)),
    quick=tasks("a", splits=range(2), rows=10),
    run=run,
    first_seed=100,
    show=show,
)
