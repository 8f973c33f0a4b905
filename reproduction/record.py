"""Results, and where they come from: one JSON line for each task.

A line is written as a whole and is on the disk before the next task is counted as done:
a run that is killed, at whatever moment, leaves whole lines and at most one torn one at
the end, which counts for nothing and is cut off by the next run.

Every result, here and in `benchmarks/`, says the same of its origin: when it was
finished, the commit and whether files differed from it, versions and machine.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kexpfam

ROOT = Path(__file__).parents[1]

_LIBRARIES = ("kexpfam", "numpy", "scipy", "scikit-learn", "jax", "optax")
_SOURCES = ("src", "reproduction/*.py", "benchmarks/*.py")

# Numbers and texts that a task finds, as they stand in a result file.
Figures = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One method on one split of one case: what is done, or not, as a whole.

    Attributes:
        suite: Name of its suite.
        case: A data set, or a setting such as "d=3, n=200".
        method: Who is measured.
        split: Number of the split or repetition, from zero.
        rows: Training rows, at most; None for all. Quick runs have few.
    """

    suite: str
    case: str
    method: str
    split: int
    rows: int | None = None

    @property
    def key(self) -> str:
        """What tells it from other tasks, such as table1/geyser/KCEF/3."""
        limit = "" if self.rows is None else f"/{self.rows} rows"
        return f"{self.suite}/{self.case}/{self.method}/{self.split}{limit}"


@dataclass(frozen=True)
class Record:
    """A line of a result file: a task and what came of it.

    Attributes:
        task: The task.
        figures: What was found; empty if the task failed.
        error: Why it failed, or None.
        seconds: How long it took.
        origin: Seed, and what `origin` says.
    """

    task: Task
    figures: Figures
    error: str | None
    seconds: float
    origin: Mapping[str, Any]


@dataclass(frozen=True)
class Suite:
    """A table or figure: what is measured, and how it is shown.

    Attributes:
        name: What a person types, and the name of its result file.
        title: What it is, in a line.
        tasks: All tasks of the full run, in the order of tables.
        run: Carries out one task with a seed, in a process with one BLAS thread.
            Whatever it raises is recorded as a failure.
        first_seed: The seed of split 0; each split has the next.
        show: Makes Markdown of records without failures, and pictures in a folder.
        quick: The few tasks of a quick run.
    """

    name: str
    title: str
    tasks: Sequence[Task]
    run: Callable[[Task, int], Figures]
    first_seed: int
    show: Callable[[Sequence[Record], Path], str]
    quick: Sequence[Task] = ()


def to_line(record: Record) -> str:
    """A record as a line of a result file; a number that is not finite is an error."""
    content = {
        "key": record.task.key,
        **asdict(record.task),
        "seed": record.origin["seed"],
        "figures": record.figures,
        "error": record.error,
        "seconds": record.seconds,
        **record.origin,
    }
    # ASCII only: texts of errors may hold what no encoding has.
    return json.dumps(content, allow_nan=False)


def _of_line(line: bytes) -> Record:
    content = json.loads(line)
    del content["key"]
    task = Task(*(content.pop(name) for name in Task.__dataclass_fields__))
    figures, error, seconds = map(content.pop, ("figures", "error", "seconds"))
    return Record(task, figures, error, seconds, origin=content)


def read(path: Path) -> list[Record]:
    """All records of a file, none if it does not exist.

    Raises:
        ValueError: A line that is not the last is damaged.
    """
    if not path.exists():
        return []
    found = []
    # What follows the last end of a line was torn off by a kill.
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            found.append(_of_line(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"line {number} of {path} is damaged ({error!r}); delete this line and "
                f"its task will be run again."
            ) from error
    return found


def append(path: Path, record: Record) -> None:
    """Write a record after the last whole line; on return it is on the disk."""
    line = f"{to_line(record)}\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in {b"", b"\n"}:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def outcomes(records: Iterable[Record]) -> dict[str, Record]:
    """One record for each key: the first success, else the last failure."""
    found: dict[str, Record] = {}
    for record in records:
        known = found.get(record.task.key)
        if known is None or known.error is not None:
            found[record.task.key] = record
    return found


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder; None if it fails or is not there."""
    try:
        answer = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=folder
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def commit(folder: Path = ROOT) -> str | None:
    """The commit that is checked out, or None without git or a repository."""
    return _git(folder, "rev-parse", "--short", "HEAD")


def versions(libraries: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """Versions of those distributions that are installed; none is imported for it."""
    found = {}
    for library in libraries:
        try:
            found[library] = (
                kexpfam.__version__
                if library == "kexpfam"  # a source tree on the path is not installed
                else importlib.metadata.version(library)
            )
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    # On Linux, `platform` knows the architecture only.
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return " ".join((names or [platform.processor()])[0].split()) or platform.machine()


def now() -> dict[str, str]:
    """When a result was finished."""
    return {"finished": datetime.now(UTC).isoformat(timespec="seconds")}


def origin(
    libraries: Iterable[str] = _LIBRARIES, folder: Path = ROOT
) -> dict[str, Any]:
    """When and where a result comes from, as it stands in a result file.

    Args:
        libraries: Distributions whose versions matter.
        folder: The checkout, whose sources may differ from the commit.
    """
    return {
        **now(),
        "commit": commit(folder),
        "uncommitted": bool(_git(folder, "status", "--porcelain", "--", *_SOURCES)),
        "versions": versions(libraries),
        "machine": {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
    }
