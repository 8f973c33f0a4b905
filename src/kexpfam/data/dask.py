"""Rows of Dask arrays and Dask data frames, and sums over them as a graph of tasks.

A part is a partition: what Dask computes as one. How many rows it has may be unknown
until it is computed, and may be none. Partitions of X, y and weights belong together in
their order.

One task reads a partition into a sum of its own. Sums are then combined eight by eight,
in their order, so that no process holds more than a few of them and the result does not
depend on which task came first.

The accumulator is a task too, whose result the others need: so Dask sends it to each
process once, and has it anew when the processes that hold it are lost, which it has not
if it is scattered. Whatever else is lost with a process is computed again from the
partitions.
"""

import functools
import math
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam._parallel import one_of_many_threads, single_threaded_blas, thread_count
from kexpfam._progress import Progress
from kexpfam._typing import Array
from kexpfam.data.rows import (
    BLOCK_ROWS,
    Accumulator,
    Part,
    Rows,
    S,
    Source,
    converted,
)
from kexpfam.data.tables import Columns, choose_columns


@dataclass(frozen=True)
class Layout:
    """How the pieces of a computed partition are X, y and weights."""

    rows: int  # most rows of a block
    columns: Columns | None  # which columns of a data frame are what; None for arrays
    y_inside: bool  # whether y is in the same frame as X, and no piece of its own
    weighted: bool  # whether the last piece is weights

    def blocks(self, number: int, *pieces: Any) -> Iterator[Rows]:
        """The blocks of partition `number`."""
        X, Y, weights = self._arrays(pieces)
        if not len(X) == len(Y) == (len(X) if weights is None else len(weights)):
            raise ValueError(
                f"y and sample_weight must have as many rows as X, but in partition "
                f"{number} X has {len(X)} and y {len(Y)}."
            )
        for start in range(0, len(X), self.rows):
            rows = slice(start, start + self.rows)
            block = converted(
                X[rows],
                Y[rows],
                None if weights is None else weights[rows],
                functools.partial(self._place, number, start),
            )
            if len(block):
                yield block

    def _arrays(self, pieces: Sequence[Any]) -> tuple[Any, Any, Any]:
        if self.columns is None:
            return pieces[0], pieces[1], pieces[2] if self.weighted else None
        frame, chosen = pieces[0], self.columns
        X = _numbers(frame[list(chosen.features)])
        Y = _numbers(frame[list(chosen.responses)] if self.y_inside else pieces[1])
        if chosen.weight is not None:
            return X, Y, _numbers(frame[chosen.weight])
        return X, Y, _numbers(pieces[-1]) if self.weighted else None

    def _place(self, number: int, start: int, name: str, row: int, column: int) -> str:
        if self.columns is None or (name == "y" and not self.y_inside):
            text = "" if name == "sample_weight" else f", column {column}"
        else:
            text = self.columns.inside(name, column)
        return f"row {start + row} of partition {number}{text}"


def _numbers(frame: Any) -> Array:
    # na_value, because missing values of nullable columns are no numbers at all.
    try:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Columns must hold real numbers only: {error}.") from error


@dataclass(frozen=True)
class DaskPart(Part):
    """One partition."""

    pieces: tuple[Any, ...]  # delayed: X, or a frame with all, then what is not in it
    layout: Layout
    number: int  # which partition

    def read(self) -> Iterator[Rows]:
        import dask

        yield from self.layout.blocks(self.number, *dask.compute(*self.pieces))


class DaskSource(Source):
    """Rows of Dask arrays, or of Dask data frames.

    Args:
        X: A Dask array (n, p), or a Dask data frame.
        y: For an array: an array, which is split like X. For a frame: the name of a
            column or several, or a Dask series or frame with the same partitions.
        sample_weight: In the same form; None for ones.
        features: Names of the columns of a frame to use as X; None for all numeric ones
            that are neither y nor weights.
        rows: Most rows of a block.

    Raises:
        ValueError: Names that do not exist, or partitions that do not fit together.
    """

    _kind: tuple[Columns | None, bool, bool]  # as in Layout

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        features: Sequence[str] | None = None,
        rows: int = BLOCK_ROWS,
    ) -> None:
        needed("dask", "to read Dask collections")
        self.feature_names = None
        self.n_rows = None
        self.rows_per_block = rows
        if is_dask_frame(X):
            self._from_frame(X, y, sample_weight, features)
        else:
            self._from_arrays(X, y, sample_weight)

    @property
    def parts(self) -> Sequence[DaskPart]:
        layout = Layout(self.rows_per_block, *self._kind)
        return [
            DaskPart(pieces, layout, number)
            for number, pieces in enumerate(self._pieces)
        ]

    def _from_arrays(self, X: Any, y: Any, sample_weight: Any) -> None:
        import dask

        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, rows and columns, got {X.ndim}."
            )
        X = X.rechunk({1: -1})
        y = _aligned("y", y, X, (1, 2))
        arrays = [X, y]
        if sample_weight is not None:
            arrays.append(_aligned("sample_weight", sample_weight, X, (1,)))
        self.n_features = X.shape[1]
        self.n_responses = 1 if y.ndim == 1 else y.shape[1]
        self.n_rows = None if math.isnan(X.shape[0]) else X.shape[0]
        self._kind = None, False, sample_weight is not None
        # Together, so that what X and y are both made from is computed once.
        arrays = dask.optimize(*arrays)
        delayed = [array.to_delayed(optimize_graph=False).ravel() for array in arrays]
        self._pieces = list(zip(*delayed, strict=True))

    def _from_frame(
        self, X: Any, y: Any, sample_weight: Any, features: Sequence[str] | None
    ) -> None:
        from pandas.api.types import is_numeric_dtype

        y_inside, weighted = not is_dask_frame(y), is_dask_frame(sample_weight)
        if X.ndim != 2:
            raise ValueError("X must be a data frame, got a series; use to_frame().")
        chosen = choose_columns(
            list(X.columns),
            {name for name, kind in X.dtypes.items() if is_numeric_dtype(kind)},
            y=y if y_inside else (),
            sample_weight=None if weighted else sample_weight,
            features=features,
        )
        frames = [X[list(chosen.all)]]
        frames += [] if y_inside else [_matching("y", y, X)]
        frames += [_matching("sample_weight", sample_weight, X)] if weighted else []
        self.n_features = len(chosen.features)
        self.n_responses = len(chosen.responses)
        if not y_inside:
            self.n_responses = len(y.columns) if y.ndim == 2 else 1
        self.feature_names = tuple(str(name) for name in chosen.features)
        self._kind = chosen, y_inside, weighted
        self._pieces = list(zip(*(f.to_delayed() for f in frames), strict=True))


def is_dask_frame(value: Any) -> bool:
    """Whether it is a Dask data frame or series."""
    return is_instance(value, "dask.dataframe", "DataFrame", "Series")


def is_dask_array(value: Any) -> bool:
    """Whether it is a Dask array."""
    return is_instance(value, "dask.array", "Array")


def _aligned(name: str, values: Any, X: Any, ndims: tuple[int, ...]) -> Any:
    """The values as a Dask array whose chunks are the row chunks of X."""
    import dask.array as da

    if is_dask_frame(values):
        values = values.to_dask_array()
    if not is_dask_array(values):
        values = np.asanyarray(values)
    if values.ndim not in ndims:
        raise ValueError(
            f"{name} must have {' or '.join(map(str, ndims))} dimensions, got "
            f"{values.ndim}."
        )
    unknown = [math.isnan(array.shape[0]) for array in (X, values)]
    if not any(unknown):
        if values.shape[0] != X.shape[0]:
            raise ValueError(
                f"{name} must have as many rows as X, {X.shape[0]}, got "
                f"{values.shape[0]}."
            )
        chunks = (X.chunks[0], *values.shape[1:])
        if is_dask_array(values):
            return values.rechunk(chunks)
        return da.from_array(values, chunks=chunks)
    if not is_dask_array(values) or values.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"{name} must be a Dask array of {X.numblocks[0]} row chunks like X, "
            f"because their sizes are not known; call compute_chunk_sizes() on both."
        )
    return values.rechunk({1: -1}) if values.ndim == 2 else values


def _matching(name: str, frame: Any, X: Any) -> Any:
    same = frame.npartitions == X.npartitions
    if same and frame.known_divisions and X.known_divisions:
        same = tuple(frame.divisions) == tuple(X.divisions)
    if not same:
        raise ValueError(
            f"{name} must have the partitions of X, {X.npartitions} with the same "
            f"divisions; take it from the same frame, or give the name of a column."
        )
    return frame


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
        with _lost_in_words(client):
            return _on_client(parts, accumulator, progress, client)
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    tasks, _, total = _graph(parts, accumulator)
    graph = HighLevelGraph.from_collections(total, tasks)
    options = {} if n_jobs is None else {"num_workers": thread_count(n_jobs)}
    with single_threaded_blas(), _told(progress, len(parts)):
        return Delayed(total, graph, layer=total).compute(**options)


@contextmanager
def _lost_in_words(client: Any) -> Iterator[None]:
    """What to do where the scheduler is gone: Dask says which of its tasks were."""
    try:
        yield
    except Exception as error:
        if client.status == "running":
            raise
        raise ConnectionError(
            "The connection to the Dask scheduler was lost while rows were read, so "
            "that nothing was fitted; start the cluster again, make a new client, and "
            "fit again."
        ) from error


def _current_client() -> Any:
    """The client that Dask itself would use now, or None."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    distributed = sys.modules.get("distributed")
    known = distributed is not None and isinstance(owner, distributed.Client)
    return owner if known else None


def _graph(
    parts: Sequence[Part], accumulator: Accumulator[S]
) -> tuple[dict[Any, Any], list[str], str]:
    """Tasks by key, in the form that every version of Dask understands.

    They are followed by the keys of the sums of the parts, and that of their sum.
    """
    run = uuid.uuid4().hex
    shared = f"kexpfam-accumulator-{run}"
    # A call, and not a value, which Dask might copy into each task that needs it.
    tasks: dict[Any, Any] = {shared: (functools.partial(_same, accumulator),)}
    states = [f"kexpfam-part-{run}-{number}" for number in range(len(parts))]
    below: dict[int, Any] = {}  # graphs of partitions, which have most in common
    for key, part in zip(states, parts, strict=True):
        if not isinstance(part, DaskPart):
            tasks[key] = (_accumulate, shared, part.read)
            continue
        below.update((id(piece.dask), piece.dask) for piece in part.pieces)
        pieces = [piece.key for piece in part.pieces]
        read = functools.partial(part.layout.blocks, part.number)
        tasks[key] = (_accumulate, shared, read, *pieces)
    for graph in below.values():
        tasks.update(graph)
    # More at once would take more memory, and fewer more tasks.
    fan_in = 8
    level, depth = states, 0
    while len(level) > 1:
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = [f"kexpfam-sum-{run}-{depth}-{i}" for i in range(len(groups))]
        tasks |= {
            key: (_combine, shared, group)
            for key, group in zip(level, groups, strict=True)
        }
        depth += 1
    return tasks, states, level[0]


def _same(value: Any) -> Any:
    return value


def _accumulate(
    accumulator: Accumulator[S], read: Callable[..., Iterator[Rows]], *pieces: Any
) -> S:
    with single_threaded_blas(), one_of_many_threads():
        return functools.reduce(accumulator.add, read(*pieces), accumulator.start())


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

    tasks, states, total = _graph(parts, accumulator)
    # Megabytes are expected of an accumulator, and sent once: no reason to warn.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        result, *futures = client.get(tasks, [total, *states], sync=False)
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
        if progress is not None and str(key).startswith("kexpfam-part-"):
            done += 1
            progress(done, total)

    with Callback(posttask=after):
        yield
