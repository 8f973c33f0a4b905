"""Carries out tasks in processes and writes down what comes of each at once.

Each process has one task at a time and one BLAS thread. What is in a result file
already is not run again, so that a run which was stopped, by whatever it was, goes on
where it stood.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from kexpfam.errors import KexpfamError
from kexpfam.experiments import provenance
from kexpfam.experiments.ledger import Ledger, outcomes
from kexpfam.experiments.progress import Pace, Progress
from kexpfam.experiments.suites import Choice
from kexpfam.experiments.task import Record, Task

# As many processes as cores: each must be content with one thread.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

# Seconds between two drawings of the time, when nothing else happens.
_REFRESH = 1.0

# Seconds that an idle process may take to end.
_PATIENCE = 5.0


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        ran: Number of tasks that this run carried out.
        records: One record for each chosen task, from this run or from before.
    """

    ran: int
    records: tuple[Record, ...]

    @property
    def failures(self) -> tuple[Record, ...]:
        """Records of tasks that failed, in this run or before."""
        return tuple(record for record in self.records if record.error is not None)


def ledger_of(folder: Path, name: str) -> Ledger:
    """The ledger of a suite in a folder."""
    return Ledger(folder / f"{name}.jsonl")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    choices: Sequence[Choice],
    folder: Path,
    *,
    jobs: int | None = None,
    retry: bool = False,
    stream: TextIO | None = None,
) -> Outcome:
    """Carry out chosen tasks that are not in the result files yet.

    Args:
        choices: Suites and their chosen tasks.
        folder: Where result files are, `<suite>.jsonl` each.
        jobs: Processes at a time; None for as many as there are cores.
        retry: Whether tasks that failed are run again.
        stream: Where progress is shown; None for nowhere.

    Returns:
        What came of all chosen tasks.

    Raises:
        ResultFileError: A result file is damaged, or another run writes to it.
    """
    with ExitStack() as stack:
        ledgers = {c.suite.name: ledger_of(folder, c.suite.name) for c in choices}
        for ledger in ledgers.values():
            stack.enter_context(ledger.locked())
        known = [record for ledger in ledgers.values() for record in ledger.records()]
        done = {
            key
            for key, record in outcomes(known).items()
            if record.error is None or not retry
        }
        jobs_left = [
            _Job(choice.name, task, choice.suite.seed(task))
            for choice in choices
            for task in choice.tasks
            if task.key not in done
        ]
        if jobs_left:
            count = min(jobs or available_cores(), len(jobs_left))
            tasks = [job.task for job in jobs_left]
            progress = Progress(tasks, Pace(known), count, stream)
            try:
                _Pool(jobs_left, ledgers, progress, count).work()
            finally:
                progress.close()
        return _outcome(choices, ledgers, len(jobs_left))


def _outcome(
    choices: Sequence[Choice], ledgers: Mapping[str, Ledger], ran: int
) -> Outcome:
    """Sort the files and read what they say of the chosen tasks."""
    records = []
    for choice in choices:
        ledger = ledgers[choice.suite.name]
        ledger.sort([*choice.suite.tasks, *choice.suite.quick])
        found = outcomes(ledger.records())
        records += [found[task.key] for task in choice.tasks]
    return Outcome(ran, tuple(records))


@dataclass(frozen=True)
class _Job:
    """A task, the name that loads its suite, and its seed."""

    name: str
    task: Task
    seed: int


class _Worker:
    """A process, and the task that it has at the moment."""

    def __init__(self, events: "queue.SimpleQueue[tuple[_Worker, str | None]]") -> None:
        self.job: _Job | None = None
        self.is_ready = False
        self.since = time.monotonic()
        # Not the terminal: what libraries print would tear the progress line.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kexpfam.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            # The same modules as here, wherever they were found.
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
            # Ctrl-C is for the run, which ends its processes itself.
            process_group=0 if os.name == "posix" else None,
        )
        self._events = events
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it died while it wrote
                self._events.put((self, line))
        self._events.put((self, None))

    def give(self, job: _Job) -> None:
        """Hand over a task."""
        self.job = job
        self.since = time.monotonic()
        request = {"name": job.name, "task": job.task.content}
        assert self._process.stdin is not None
        # If it has died, the listener says so in a moment.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def obituary(self) -> str:
        """How it ended, which it has."""
        status = self._process.wait()
        if status < 0:
            return f"the process ended with signal {-status}"
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return f"the process ended with status {status}{last}"

    def end(self, *, kill: bool) -> None:
        """End the process, at once or after its task."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if kill:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # which tells it to end
        try:
            self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._process.stdout.close()
        self._printed.close()


class _Pool:
    """Processes that share out tasks in the order in which they were declared."""

    def __init__(
        self,
        jobs: Iterable[_Job],
        ledgers: Mapping[str, Ledger],
        progress: Progress,
        count: int,
    ) -> None:
        self._waiting = deque(jobs)
        self._ledgers = ledgers
        self._progress = progress
        self._count = count
        self._origin = provenance.origin()
        self._events: queue.SimpleQueue[tuple[_Worker, str | None]] = (
            queue.SimpleQueue()
        )
        self._workers: list[_Worker] = []

    def work(self) -> None:
        """Carry out all tasks; on any exception all processes are ended first."""
        is_done = False
        try:
            for _ in range(self._count):
                self._workers.append(_Worker(self._events))
            while self._waiting or any(worker.job for worker in self._workers):
                try:
                    worker, line = self._events.get(timeout=_REFRESH)
                except queue.Empty:
                    self._progress.refresh()
                    continue
                self._react(worker, None if line is None else json.loads(line))
            is_done = True
        finally:
            for worker in self._workers:
                worker.end(kill=not is_done)

    def _react(self, worker: _Worker, answer: dict[str, Any] | None) -> None:
        if answer is None:
            self._bury(worker)
            return
        if worker.job is not None:
            self._write(worker.job, answer)
            worker.job = None
        worker.is_ready = True
        if self._waiting:
            worker.give(job := self._waiting.popleft())
            self._progress.started(job.task)

    def _bury(self, worker: _Worker) -> None:
        """Write down what a dead process leaves undone, and replace it."""
        error = worker.obituary()
        worker.end(kill=True)
        self._workers.remove(worker)
        if not worker.is_ready:
            raise KexpfamError(
                f"a process that carries out tasks did not start: {error}."
            )
        if worker.job is not None:
            seconds = round(time.monotonic() - worker.since, 3)
            answer = {"figures": {}, "error": error, "seconds": seconds}
            self._write(worker.job, answer)
        if self._waiting:
            self._workers.append(_Worker(self._events))

    def _write(self, job: _Job, answer: Mapping[str, Any]) -> None:
        origin = {
            "seed": job.seed,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **self._origin,
        }
        record = Record(
            job.task, answer["figures"], answer["error"], answer["seconds"], origin
        )
        self._ledgers[job.task.suite].append(record)
        self._progress.finished(record)
