"""Rows of Dask arrays and Dask data frames.

A part is a partition: what Dask computes as one. How many rows it has may be unknown
until it is computed, and may be none. Partitions of X, y and weights belong together in
their order.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam._typing import Array
from kexpfam.blocks.block import Block, Part, Source, as_columns, checked
from kexpfam.blocks.columns import Columns, choose_columns
from kexpfam.blocks.memory import BLOCK_ROWS


@dataclass(frozen=True)
class Layout:
    """How the pieces of a computed partition are X, y and weights.

    Attributes:
        rows: Most rows of a block.
        columns: Which columns of a data frame are what; None for arrays.
        y_inside: Whether y is in the same frame as X, and no piece of its own.
        weighted: Whether the last piece is weights.
    """

    rows: int
    columns: Columns | None
    y_inside: bool
    weighted: bool

    def blocks(self, number: int, pieces: Sequence[Any]) -> Iterator[Block]:
        """The blocks of partition `number`."""
        X, Y, weights = self._arrays(pieces)
        if not len(X) == len(Y) == (len(X) if weights is None else len(weights)):
            raise ValueError(
                f"y and sample_weight must have as many rows as X, but in partition "
                f"{number} X has {len(X)} and y {len(Y)}."
            )
        for start in range(0, len(X), self.rows):
            rows = slice(start, start + self.rows)
            block = checked(
                as_columns("X", X[rows]),
                as_columns("y", Y[rows]),
                None
                if weights is None
                else as_columns("sample_weight", weights[rows])[:, 0],
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
    """One partition.

    Attributes:
        pieces: Delayed objects: X, or a frame with all, then what is not in it.
        layout: What the pieces are.
        number: Which partition.
    """

    pieces: tuple[Any, ...]
    layout: Layout
    number: int

    def read(self) -> Iterator[Block]:
        import dask

        yield from self.layout.blocks(self.number, dask.compute(*self.pieces))


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
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        features: Sequence[str] | None,
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
        self.n_responses = len(chosen.responses) if y_inside else _width(y)
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


def _width(frame: Any) -> int:
    return len(frame.columns) if frame.ndim == 2 else 1
