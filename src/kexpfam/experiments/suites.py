"""Suites by name, and the choice of some of their tasks."""

import importlib
import importlib.util
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kexpfam.experiments.task import Suite, Task

NAMES = ("table1", "table2", "table3", "figure1", "failure", "rates")

# The extra of this package that installs a library.
_EXTRAS = {"jax": "baselines", "optax": "baselines", "matplotlib": "plot"}

# Only networks are trained with these: other methods of the same suite do without.
_FOR_NETWORKS = {"jax", "optax"}


@dataclass(frozen=True)
class Choice:
    """A suite and the tasks of it that a person wants.

    Attributes:
        name: What `load_suite` takes.
        suite: The suite.
        tasks: The chosen tasks, in declared order.
    """

    name: str
    suite: Suite
    tasks: tuple[Task, ...]


def load_suite(name: str) -> Suite:
    """The suite of a name.

    Args:
        name: One of `NAMES`. A dotted name is a module with a SUITE of your own.

    Raises:
        ValueError: There is no such suite, or its declaration contradicts itself.

    Example:
        >>> load_suite("table9")
        Traceback (most recent call last):
            ...
        ValueError: suite 'table9' is not known; use one of table1, table2, ...
    """
    if name not in NAMES and "." not in name:
        raise ValueError(
            f"suite {name!r} is not known; use one of {', '.join(NAMES)}, or the "
            f"dotted name of a module with a SUITE of your own."
        )
    module = name if "." in name else f"kexpfam.experiments.{name}"
    try:
        suite: Suite = importlib.import_module(module).SUITE
    except ModuleNotFoundError as error:
        # What a module fails to import itself is another matter.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"suite {name!r} has no module {module}.") from error
    except AttributeError as error:
        raise ValueError(f"module {module} of suite {name!r} has no SUITE.") from error
    _check_tasks(suite, suite.tasks)
    _check_tasks(suite, suite.quick)
    return suite


def _check_tasks(suite: Suite, tasks: Sequence[Task]) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.suite != suite.name:
            raise ValueError(f"task {task.key} is declared by suite {suite.name!r}.")
        if task.key in seen:
            raise ValueError(f"suite {suite.name!r} declares {task.key} twice.")
        seen.add(task.key)


def choose(
    name: str,
    *,
    quick: bool = False,
    splits: range | None = None,
    cases: Collection[str] = (),
    methods: Collection[str] = (),
) -> Choice:
    """Some tasks of a suite.

    Args:
        name: What `load_suite` takes.
        quick: Whether to choose from the tasks of a quick run.
        splits: Numbers of splits to keep; None for all.
        cases: Cases to keep; empty for all.
        methods: Methods to keep; empty for all.
    """
    suite = load_suite(name)
    tasks = tuple(
        task
        for task in (suite.quick if quick else suite.tasks)
        if (splits is None or task.split in splits)
        and (not cases or task.case in cases)
        and (not methods or task.method in methods)
    )
    return Choice(name, suite, tasks)


def missing_libraries(choices: Iterable[Choice]) -> list[str]:
    """Libraries that chosen tasks need and that are not installed, by import name."""
    wanted: set[str] = set()
    for choice in choices:
        networks = any(task.method.startswith("RNADE") for task in choice.tasks)
        wanted |= {
            library
            for library in choice.suite.needs
            if choice.tasks and (networks or library not in _FOR_NETWORKS)
        }
    return sorted(name for name in wanted if importlib.util.find_spec(name) is None)


def how_to_install(libraries: Sequence[str]) -> str:
    """The command that installs some libraries.

    Example:
        >>> how_to_install(["jax", "matplotlib"])
        'pip install "kexpfam[baselines,plot]"'
    """
    extras = sorted({_EXTRAS[name] for name in libraries if name in _EXTRAS})
    parts = [f'"kexpfam[{",".join(extras)}]"'] if extras else []
    parts += [name for name in libraries if name not in _EXTRAS]
    return f"pip install {' '.join(parts)}"
