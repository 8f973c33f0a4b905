"""How far a run is, and how long the rest may take."""

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import TextIO

from kexpfam.experiments.task import Record, Task

_WIDTH = 20
_Kind = tuple[str, str, str, int | None]


def _kind(task: Task) -> _Kind:
    return (task.suite, task.case, task.method, task.rows)


class Pace:
    """Seconds that tasks take, judged by tasks of the same kind that are done.

    Where no task of the same suite, case, method and rows is done, the mean of all
    others stands in for it.

    Example:
        >>> pace = Pace()
        >>> pace.left([Task("table1", "geyser", "KCEF", 1)]) is None
        True
        >>> pace.add(Record(Task("table1", "geyser", "KCEF", 0), {}, None, 2.5, {}))
        >>> pace.left([Task("table1", "geyser", "KCEF", 1)])
        2.5
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Take what is known from before."""
        self._seconds: dict[_Kind, list[float]] = defaultdict(list)
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Learn from a task; failures say nothing, they may come at once."""
        if record.error is None:
            self._seconds[_kind(record.task)].append(record.seconds)

    def left(self, tasks: Iterable[Task]) -> float | None:
        """Seconds of one core that tasks will take; None if nothing is known."""
        means = {kind: sum(s) / len(s) for kind, s in self._seconds.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        return sum((means.get(_kind(task), usual) for task in tasks), 0.0)


class Progress:
    """One line on a terminal; elsewhere a line for each task that is done.

    Args:
        tasks: What is to be done.
        pace: What is known about how long tasks take.
        jobs: Processes at a time.
        stream: Where to write; None for nowhere.
    """

    def __init__(
        self, tasks: Iterable[Task], pace: Pace, jobs: int, stream: TextIO | None
    ) -> None:
        self._left = {task.key: task for task in tasks}
        self._total = len(self._left)
        self._running: dict[str, float] = {}
        self._failed = 0
        self._pace = pace
        self._jobs = jobs
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._start = time.monotonic()

    def started(self, task: Task) -> None:
        """A task has begun."""
        self._running[task.key] = time.monotonic()
        self.refresh()

    def finished(self, record: Record) -> None:
        """A task has ended, well or not."""
        key = record.task.key
        self._running.pop(key, None)
        self._left.pop(key, None)
        self._pace.add(record)
        self._failed += record.error is not None
        if self._stream is not None and not self._terminal:
            end = (
                f"failed, {record.error}" if record.error else f"{record.seconds:.1f} s"
            )
            self._stream.write(f"{self._done()} {key}: {end}\n")
            self._stream.flush()
        self.refresh()

    def refresh(self) -> None:
        """Draw the line again, on a terminal."""
        if self._stream is None or not self._terminal:
            return
        filled = _WIDTH * (self._total - len(self._left)) // max(self._total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        line = f"[{bar}] {self._done()}{self._now()}"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r{line[:width]}\033[K")
        self._stream.flush()

    def close(self) -> None:
        """End the line."""
        if self._stream is not None and self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def _done(self) -> str:
        return f"{self._total - len(self._left)}/{self._total}"

    def _now(self) -> str:
        """Time, failures, and what is running, the oldest of it by name."""
        parts = [clock(time.monotonic() - self._start)]
        if (left := self._rest()) is not None:
            parts.append(f"about {clock(left)} left")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._running:
            others = len(self._running) - 1
            parts.append(next(iter(self._running)) + (f" +{others}" if others else ""))
        return "".join(f", {part}" for part in parts)

    def _rest(self) -> float | None:
        """Seconds until the end, if processes share the work evenly."""
        now = time.monotonic()
        rest = self._pace.left(
            task for key, task in self._left.items() if key not in self._running
        )
        for key, start in self._running.items():
            whole = self._pace.left([self._left[key]])
            if rest is not None and whole is not None:
                rest += max(whole - (now - start), 0.0)
        return None if rest is None else rest / self._jobs


def clock(seconds: float) -> str:
    """A time that is easy to read.

    Example:
        >>> clock(75), clock(7325)
        ('1:15', '2:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
