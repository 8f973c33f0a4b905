"""Progress of long work on standard error, if a person is looking at it."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from kexpfam._typing import Array
from kexpfam.cli.guard import QUIET
from kexpfam.distributions import BLOCK_ROWS
from kexpfam.linalg import one_of_many_threads, single_threaded_blas, thread_count

Item = TypeVar("Item")


def is_watched() -> bool:
    """Whether standard error is a terminal, and progress is welcome."""
    context = click.get_current_context(silent=True)
    quiet = context is not None and bool(context.meta.get(QUIET))
    return sys.stderr.isatty() and not quiet


@contextlib.contextmanager
def progress(
    items: Iterable[Item], label: str, length: int
) -> Iterator[Iterable[Item]]:
    """The items, with a bar that shows how many have been taken."""
    if not is_watched():
        yield items
        return
    with click.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
        yield bar


@dataclass(frozen=True, eq=False)
class Counted:
    """A model that tells how many rows it has been asked about.

    Attributes:
        model: The model.
        tell: Takes a number of rows.
    """

    model: Any
    tell: Callable[[int], None]

    def given(self, X: Array) -> Any:
        """Densities at some rows."""
        self.tell(len(X))
        return self.model.given(X)


@contextlib.contextmanager
def counted(model: Any, rows: int, label: str) -> Iterator[Any]:
    """The model, with a bar that shows how many of the rows it was asked about."""
    if not is_watched():
        yield model
        return
    with click.progressbar(length=rows, label=label, file=sys.stderr) as bar:
        yield Counted(model, bar.update)


def in_blocks(
    model: Any, X: Array, work: Callable[[Any, slice], Item], label: str
) -> list[Item]:
    """What `work` makes of the densities of some rows at a time, on all cores.

    Args:
        model: A fitted estimator.
        X: Conditions, (n, p).
        work: Takes densities and which rows they are of.
        label: What the bar says.
    """
    blocks = [
        slice(start, min(start + BLOCK_ROWS, len(X)))
        for start in range(0, len(X), BLOCK_ROWS)
    ]

    def result(rows: slice) -> Item:
        with one_of_many_threads():
            return work(model.given(X[rows]), rows)

    threads = min(thread_count(getattr(model, "n_jobs", None)), len(blocks))
    if threads <= 1:
        with progress(blocks, label, len(blocks)) as some:
            return [work(model.given(X[rows]), rows) for rows in some]
    with (
        single_threaded_blas(),
        ThreadPoolExecutor(threads) as executor,
        progress(executor.map(result, blocks), label, len(blocks)) as results,
    ):
        return list(results)
