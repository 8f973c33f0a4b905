"""A process that carries out tasks: `python -m kexpfam.experiments.worker`.

Requests come as JSON lines on standard input and answers go out as JSON lines on
standard output. Both are taken away from libraries before any of them can print or
read. When standard input ends, the run that started this process is gone, however that
came about, and the process ends at once, in the middle of a task if need be.
"""

import json
import math
import os
import queue
import threading
import time
import warnings
from typing import IO, Any

from kexpfam.experiments.suites import load_suite
from kexpfam.experiments.task import Figures, Task


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = _take_pipes()
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    _send(answers, {"ready": True})
    while True:
        request = json.loads(waiting.get())
        _send(answers, perform(request["name"], Task.of(request["task"])))


def _take_pipes() -> tuple[IO[str], IO[str]]:
    """Requests and answers; whatever libraries print goes to standard error."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _listen(requests: IO[str], waiting: queue.SimpleQueue[str]) -> None:
    for line in requests:
        waiting.put(line)
    os._exit(0)


def _send(answers: IO[str], content: dict[str, Any]) -> None:
    answers.write(json.dumps(content, allow_nan=False) + "\n")
    answers.flush()


def perform(name: str, task: Task) -> dict[str, Any]:
    """Carry out a task of the suite of a name.

    Returns:
        Figures, error and seconds. Whatever is raised is an error, and so are figures
        that a result file cannot hold.
    """
    figures: Figures = {}
    error = None
    start = time.perf_counter()
    try:
        suite = load_suite(name)
        start = time.perf_counter()  # imports are not part of the measurement
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures = plain(suite.run(task))
    except BaseException as problem:  # SystemExit as well: the next task may do better
        error = describe(problem)
    return {
        "figures": figures,
        "error": error,
        "seconds": round(time.perf_counter() - start, 3),
    }


def describe(problem: BaseException) -> str:
    """An exception in one line.

    Example:
        >>> describe(ValueError("no rows"))
        'ValueError: no rows'
        >>> describe(MemoryError())
        'MemoryError'
    """
    message = " ".join(str(problem).split())
    return type(problem).__name__ + (f": {message}" if message else "")


def plain(figures: object) -> Figures:
    """Figures as they stand in a result file: numbers, texts, lists and dicts.

    Raises:
        TypeError: They are not a dict, or hold what has no place in JSON.
        ValueError: A number is not finite.

    Example:
        >>> import numpy as np
        >>> plain({"rows": np.int64(3), "loss": np.ones(2)})
        {'rows': 3, 'loss': [1.0, 1.0]}
        >>> plain({"loss": [0.5, float("nan")]})
        Traceback (most recent call last):
            ...
        ValueError: figure 'loss' is nan; only finite numbers are results.
    """
    if not isinstance(figures, dict):
        raise TypeError(f"a task must return a dict of figures; got {figures!r}.")
    found: Figures = json.loads(json.dumps(figures, default=_unpacked))
    for name, value in found.items():
        _check_finite(name, value)
    return found


def _unpacked(value: Any) -> Any:
    # NumPy's arrays and scalars, without importing NumPy to tell.
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a figure must be a number, text, list or dict; got {value!r}.")


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"figure {name!r} is {value}; only finite numbers are results."
        )
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_finite(name, part)


if __name__ == "__main__":
    main()
