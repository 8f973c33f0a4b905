"""Tasks, what they find, and the suites that declare them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Numbers and texts that a task finds, as they stand in a result file.
Figures = dict[str, Any]


@dataclass(frozen=True, order=True)
class Task:
    """One method on one split of one case: what is done, or not, as a whole.

    Attributes:
        suite: Name of its suite.
        case: A data set, or a setting such as "d=3, n=200".
        method: Who is measured.
        split: Number of the split or repetition, from zero.
        rows: Training rows, at most; None for all. Quick runs have few.

    Example:
        >>> Task("table1", "geyser", "AutoKCEF", 3).key
        'table1/geyser/AutoKCEF/3'
    """

    suite: str
    case: str
    method: str
    split: int
    rows: int | None = None

    @property
    def key(self) -> str:
        """What tells it from other tasks."""
        limit = "" if self.rows is None else f"/{self.rows} rows"
        return f"{self.suite}/{self.case}/{self.method}/{self.split}{limit}"

    @property
    def content(self) -> dict[str, Any]:
        """As it stands in a result file."""
        return {
            "suite": self.suite,
            "case": self.case,
            "method": self.method,
            "split": self.split,
            "rows": self.rows,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Task":
        """The task that some content stands for; other entries are left alone."""
        return cls(
            content["suite"],
            content["case"],
            content["method"],
            content["split"],
            content["rows"],
        )


@dataclass(frozen=True)
class Record:
    """A line of a result file: a task and what came of it.

    Attributes:
        task: The task.
        figures: What was found; empty if the task failed.
        error: Why it failed, or None.
        seconds: How long it took.
        origin: Seed, versions, machine, commit and date.
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
        name: What a person types.
        title: What it is, in a line.
        tasks: All tasks of the full run, in the order of the result file.
        quick: The few tasks of a quick run.
        run: Carries out one task. Called in a process of its own with one BLAS thread;
            whatever it raises is recorded as a failure.
        seed: The seed that a task uses, which is recorded.
        show: Makes Markdown of records, and pictures in a folder.
        needs: Libraries that are optional otherwise.
    """

    name: str
    title: str
    tasks: Sequence[Task]
    quick: Sequence[Task]
    run: Callable[[Task], Figures]
    seed: Callable[[Task], int]
    show: Callable[[Sequence[Record], Path], str]
    needs: tuple[str, ...] = ()
