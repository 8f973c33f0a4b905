"""Files of results, one JSON line for each task that was carried out.

A line is written as a whole and is on the disk before the next task is counted as done:
a run that is killed, at whatever moment, leaves whole lines and at most one torn one at
the end, which counts for nothing. While a run writes, it holds a lock that the kernel
takes back when the process is gone.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kexpfam.errors import ResultFileError
from kexpfam.experiments.task import Record, Task

_ORIGIN = ("finished", "commit", "uncommitted", "versions", "machine")


def to_line(record: Record) -> str:
    """A record as a line of a result file, without its end.

    Raises:
        ValueError: A number is not finite.

    Example:
        >>> origin = dict.fromkeys(("seed", *_ORIGIN))
        >>> task = Task("table1", "geyser", "KCEF", 3)
        >>> to_line(Record(task, {"loss": 0.5}, None, 1.5, origin))[:55]
        '{"key": "table1/geyser/KCEF/3", "suite": "table1", "cas'
    """
    content = {
        "key": record.task.key,
        **record.task.content,
        "seed": record.origin["seed"],
        "figures": record.figures,
        "error": record.error,
        "seconds": record.seconds,
        **{name: record.origin[name] for name in _ORIGIN},
    }
    # ASCII only: texts of errors may hold what no encoding has.
    return json.dumps(content, allow_nan=False)


def of_line(line: str) -> Record:
    """The record that a line stands for.

    Raises:
        ValueError: It stands for none.
    """
    content = json.loads(line)
    try:
        return Record(
            Task.of(content),
            content["figures"],
            content["error"],
            content["seconds"],
            {name: content[name] for name in ("seed", *_ORIGIN)},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{error} is not as it should be") from error


def outcomes(records: Iterable[Record]) -> dict[str, Record]:
    """One record for each key: the first success, else the last failure."""
    found: dict[str, Record] = {}
    for record in records:
        known = found.get(record.task.key)
        if known is None or known.error is not None:
            found[record.task.key] = record
    return found


def in_order(records: Iterable[Record], tasks: Sequence[Task]) -> list[Record]:
    """One record for each key, declared tasks first, others after them by key."""
    keys_in_order = dict.fromkeys(task.key for task in tasks)  # the first place counts
    place = {key: i for i, key in enumerate(keys_in_order)}
    found = outcomes(records)
    keys = sorted(found, key=lambda key: (place.get(key, len(place)), key))
    return [found[key] for key in keys]


class Ledger:
    """The result file of a suite.

    Args:
        path: The file. It need not exist.

    Example:
        >>> Ledger(Path("nowhere.jsonl")).records()
        []
    """

    def __init__(self, path: Path) -> None:
        """Take the path, and leave the file alone."""
        self.path = path
        self._held: IO[bytes] | None = None

    def records(self) -> list[Record]:
        """All records, in the order of the file.

        Raises:
            ResultFileError: A line is not a record.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        # What follows the last end of a line was torn off by a kill.
        lines = content.split(b"\n")[:-1]
        return [self._record(i, line) for i, line in enumerate(lines, start=1)]

    def _record(self, number: int, line: bytes) -> Record:
        try:
            return of_line(line.decode())
        except ValueError as error:
            raise ResultFileError(
                f"line {number} of {self.path} is damaged ({error}); delete this line "
                f"and its task will be run again."
            ) from error

    def append(self, record: Record) -> None:
        """Write a record; on return it is on the disk.

        Raises:
            ValueError: A number is not finite. Nothing is written then.
        """
        line = f"{to_line(record)}\n".encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            _cut_torn_line(file)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def sort(self, tasks: Sequence[Task]) -> None:
        """Put the file in the order of tasks, with one record for each key.

        Records of other tasks are kept, at the end. A kill leaves the file as it was,
        or as it shall be.
        """
        records = in_order(self.records(), tasks)
        text = "".join(f"{to_line(record)}\n" for record in records).encode()
        if not self.path.exists() or text == self.path.read_bytes():
            return
        partial = self.path.with_suffix(".partial")
        with open(partial, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            # The lock belongs to a file, not to its name: take it along, and let go of
            # the former file when the new one is in its place, not before.
            held = (
                None if self._held is None else os.fdopen(os.dup(file.fileno()), "rb")
            )
        try:
            if held is not None:
                _lock(held)
            os.replace(partial, self.path)
        except BaseException:
            if held is not None:
                held.close()
            raise
        if self._held is not None:
            self._held.close()
            self._held = held

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing; the file is made if there is none.

        Raises:
            ResultFileError: Another run is writing.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._held = self._take()
        try:
            yield
        finally:
            self._held.close()
            self._held = None

    def _take(self) -> IO[bytes]:
        while True:
            file = open(self.path, "ab+")  # noqa: SIM115 - open as long as the lock
            if not _lock(file):
                file.close()
                raise ResultFileError(
                    f"{self.path} is being written by another run; wait until it has "
                    f"ended, or choose another folder."
                )
            # Another run may have put a sorted file in its place in the meantime.
            if _same_file(file, self.path):
                return file
            file.close()


def _lock(file: IO[Any]) -> bool:
    """Whether the lock of a file could be had."""
    if sys.platform == "win32":  # two runs at once are the person's own care there
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems of clusters have no locks
        return True
    return True


def _same_file(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _cut_torn_line(file: IO[bytes]) -> None:
    """Cut off what follows the last end of a line."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read() == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
