"""Sums over the rows of a source as a graph of Dask tasks.

One task reads a partition into a sum of its own. Sums are then combined eight by eight,
in their order, so that no process holds more than a few of them and the result does not
depend on which task came first.

The accumulator is a task too, whose result the others need: so Dask sends it to each
process once, and has it anew when the processes that hold it are lost, which it has not
if it is scattered. Whatever else is lost with a process is computed again from the
partitions.
"""

import functools
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kexpfam._optional import needed
from kexpfam._parallel import (
    one_of_many_threads,
    single_threaded_blas,
    thread_count,
)
from kexpfam._progress import Progress
from kexpfam.blocks.block import Accumulator, Block, Part, S, Source
from kexpfam.blocks.dask_rows import DaskPart, DaskSource, Layout

# Sums that one task combines: more would take more memory at once, fewer more tasks.
FAN_IN = 8

_PART = "kexpfam-part"


def reduce_on_dask(
    source: Source,
    accumulator: Accumulator[S],
    *,
    n_jobs: int | None,
    progress: Progress | None,
    client: Any,
) -> S:
    """The sum over all parts, computed by a client or the scheduler Dask would use."""
    needed("dask", "to use a cluster")
    client = _current_client() if client is None else client
    parts = source.parts
    if not parts:
        return accumulator.start()
    if client is not None:
        return _on_client(parts, accumulator, progress, client)
    graph = _graph(parts, accumulator)
    options = {} if n_jobs is None else {"num_workers": thread_count(n_jobs)}
    with single_threaded_blas(), _told(progress, len(parts)):
        return graph.delayed().compute(**options)


def uses_dask(source: Source, client: Any) -> bool:
    """Whether a sum over a source is computed by Dask."""
    return client is not None or isinstance(source, DaskSource)


def _current_client() -> Any:
    """The client that Dask itself would use now, or None."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    distributed = sys.modules.get("distributed")
    known = distributed is not None and isinstance(owner, distributed.Client)
    return owner if known else None


@dataclass(frozen=True)
class _Graph:
    """Tasks by key, in the form that every version of Dask understands.

    Attributes:
        tasks: All of them, with those that the partitions are made by.
        states: Keys of the sums of the parts.
        total: Key of the sum of these.
    """

    tasks: dict[Any, Any]
    states: list[str]
    total: str

    def delayed(self) -> Any:
        """The total, to be computed."""
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        graph = HighLevelGraph.from_collections(self.total, self.tasks)
        return Delayed(self.total, graph, layer=self.total)


def _graph(parts: Sequence[Part], accumulator: Accumulator[S]) -> _Graph:
    run = uuid.uuid4().hex
    shared = f"kexpfam-accumulator-{run}"
    # A call, and not a value, which Dask might copy into each task that needs it.
    tasks: dict[Any, Any] = {shared: (functools.partial(_same, accumulator),)}
    states = [f"{_PART}-{run}-{number}" for number in range(len(parts))]
    below: dict[int, Any] = {}  # graphs of partitions, which have most in common
    for key, part in zip(states, parts, strict=True):
        if not isinstance(part, DaskPart):
            tasks[key] = (_accumulate_part, shared, part)
            continue
        below.update((id(piece.dask), piece.dask) for piece in part.pieces)
        pieces = [piece.key for piece in part.pieces]
        tasks[key] = (_accumulate_pieces, shared, part.layout, part.number, *pieces)
    for graph in below.values():
        tasks.update(graph)
    level, depth = states, 0
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [f"kexpfam-sum-{run}-{depth}-{i}" for i in range(len(groups))]
        tasks |= {
            key: (_combine, shared, group)
            for key, group in zip(level, groups, strict=True)
        }
        depth += 1
    return _Graph(tasks, states, level[0])


def _same(value: Any) -> Any:
    return value


def _accumulate_pieces(
    accumulator: Accumulator[S], layout: Layout, number: int, *pieces: Any
) -> S:
    return _accumulate(accumulator, layout.blocks(number, pieces))


def _accumulate_part(accumulator: Accumulator[S], part: Part) -> S:
    return _accumulate(accumulator, part.read())


def _accumulate(accumulator: Accumulator[S], blocks: Iterable[Block]) -> S:
    with single_threaded_blas(), one_of_many_threads():
        return functools.reduce(accumulator.add, blocks, accumulator.start())


def _combine(accumulator: Accumulator[S], states: Sequence[S]) -> S:
    # From an empty sum: the others are results of tasks, which may be needed again if
    # this one is lost, so they must not be changed.
    with single_threaded_blas():
        return functools.reduce(accumulator.combine, states, accumulator.start())


def _on_client(
    parts: Sequence[Part],
    accumulator: Accumulator[S],
    progress: Progress | None,
    client: Any,
) -> S:
    import dask

    graph = _graph(parts, accumulator)
    # Megabytes are expected of an accumulator, and sent once: no reason to warn.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        result, *futures = client.get(
            graph.tasks, [graph.total, *graph.states], sync=False
        )
    pending = {future.key: future for future in futures}
    del futures
    try:
        _watch(pending, progress, client)
        return result.result()
    except BaseException:
        # A traceback may keep the futures alive, so they are given up explicitly.
        # Parts are not cancelled but released: the scheduler cannot cancel a task whose
        # dependents nobody holds (an assertion in distributed 2026.8).
        result.cancel()
        for future in pending.values():
            future.release()
        raise


def _watch(pending: dict[str, Any], progress: Progress | None, client: Any) -> None:
    """Follow the sums of the parts until all are computed, or one failed.

    A sum whose future is held stays in the memory of its process, so each is let go as
    soon as it is known to be computed.
    """
    from distributed import as_completed

    total = len(pending)
    completed = as_completed(list(pending.values()), loop=client.loop)
    for done, future in enumerate(completed, start=1):
        del pending[future.key]
        if future.status != "finished":
            return  # the result says why
        if progress is not None:
            progress(done, total)


@contextmanager
def _told(progress: Progress | None, total: int) -> Iterator[None]:
    """Progress of the schedulers of this machine, which call back in this thread."""
    from dask.callbacks import Callback

    done = 0

    def after(key: Any, *_: Any) -> None:
        nonlocal done
        if progress is not None and str(key).startswith(_PART):
            done += 1
            progress(done, total)

    with Callback(posttask=after):
        yield
