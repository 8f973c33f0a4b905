"""Carries out tasks in processes and writes down what comes of each at once.

Each process has one task at a time and one BLAS thread. What is in a result file
already is not run again, so that a run which was stopped, by whatever it was, goes on
where it stood. Only this process writes; joblib hands it what the others find.
"""

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from reproduction.record import (
    Figures,
    Record,
    Suite,
    Task,
    append,
    now,
    origin,
    outcomes,
    read,
)

# As many processes as cores: JAX, too, must be content with one thread.
_ENVIRONMENT = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

# The thread that looks whether a process was left alone, and seconds between looks.
_WATCH, _PATIENCE = "watch", 0.5


class Answer(NamedTuple):
    """What came of a task; seconds are of its computation."""

    figures: Figures
    error: str | None
    seconds: float


class Job(NamedTuple):
    """A task with what a process needs to carry it out."""

    task: Task
    run: Callable[[Task, int], Figures]
    seed: int


def results(folder: Path, suite: Suite) -> list[Record]:
    """What a folder has of a suite."""
    return read(folder / f"{suite.name}.jsonl")


def run(
    chosen: Sequence[tuple[Suite, Sequence[Task]]],
    folder: Path,
    *,
    jobs: int | None = None,
    retry: bool = False,
    stream: TextIO | None = None,
) -> tuple[int, list[Record]]:
    """Carry out chosen tasks that are not in the result files yet.

    Args:
        chosen: Suites, each with some of its tasks.
        folder: Where result files are, `<suite>.jsonl` each.
        jobs: Processes at a time; None for as many as there are cores.
        retry: Whether tasks that failed are run again.
        stream: Where a line is printed for each task; None for nowhere.

    Returns:
        How many tasks were run now, and one record for each chosen task, from this run
        or from before.
    """
    known = _known(chosen, folder)
    left = [
        Job(task, suite.run, suite.first_seed + task.split)
        for suite, tasks in chosen
        for task in tasks
        if task.key not in known or (retry and known[task.key].error is not None)
    ]
    where = origin()
    finished = _finished(left, jobs or cpu_count())
    for i, (job, answer) in enumerate(finished, start=1):
        record = Record(job.task, *answer, {"seed": job.seed, **where, **now()})
        append(folder / f"{job.task.suite}.jsonl", record)
        if stream is not None:
            end = f"failed, {answer.error}" if answer.error else f"{answer.seconds} s"
            print(f"{i}/{len(left)} {job.task.key}: {end}", file=stream, flush=True)
    known = _known(chosen, folder)
    return len(left), [known[task.key] for _, tasks in chosen for task in tasks]


def _known(
    chosen: Sequence[tuple[Suite, Sequence[Task]]], folder: Path
) -> dict[str, Record]:
    return outcomes(r for suite, _ in chosen for r in results(folder, suite))


def _finished(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Answer]]:
    """Jobs in the order in which they end.

    A process that dies takes all others with it. The first of what is left are then
    carried out one by one, until it is known which task it was.
    """
    left = {job.task.key: job for job in jobs}
    suspects = 0
    while left:
        some = list(left.values())[: 1 if suspects else None]
        try:
            with parallel_config("loky", inner_max_num_threads=1):
                pool = Parallel(
                    n_jobs=max(processes, 2),  # one would be this process
                    pre_dispatch=processes,
                    batch_size=1,
                    return_as="generator_unordered",
                )
            for key, answer in pool(delayed(_carry_out)(j, os.getpid()) for j in some):
                yield left.pop(key), answer
            suspects = max(suspects - 1, 0)
        except TerminatedWorkerError as error:
            if suspects:
                job = left.pop(some[0].task.key)
                yield job, Answer({}, f"the process died: {_in_a_line(error)}", 0.0)
            # As many were running, and as many may have ended without being heard.
            suspects = 0 if suspects else 2 * processes


def _carry_out(job: Job, parent: int) -> tuple[str, Answer]:
    """In another process, which ends with the one that writes, however that ends."""
    if _WATCH not in {thread.name for thread in threading.enumerate()}:
        watch = threading.Thread(target=_end_with, args=[parent], name=_WATCH)
        watch.daemon = True
        watch.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first
    os.environ.update(_ENVIRONMENT)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # of libraries
        return job.task.key, perform(job)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PATIENCE)
    os._exit(1)


def perform(job: Job) -> Answer:
    """Carry out a task; whatever it raises, SystemExit as well, is an answer."""
    start = time.perf_counter()
    figures: Figures = {}
    error = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = job.run(job.task, job.seed)
        # As they stand in a result file, where numbers are finite.
        figures = json.loads(json.dumps(found, default=_plain, allow_nan=False))
    except BaseException as problem:
        error = f"{type(problem).__name__}: {_in_a_line(problem)}".removesuffix(": ")
    return Answer(figures, error, round(time.perf_counter() - start, 3))


def _in_a_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return value.tolist()
    raise TypeError(f"a figure must be a number, text, list or dict; got {value!r}.")
