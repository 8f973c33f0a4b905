"""Arrays in memory or mapped from a file, read block by block.

Pages of a mapped file that were touched count as memory of the process until the system
takes them back. Blocks are copies, so the pages are handed back as soon as a block is
copied: the system keeps them in its own cache as long as it has room.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from kexpfam._typing import ArrayLike
from kexpfam.data.rows import BLOCK_ROWS, Part, Rows, Source, converted


@dataclass(frozen=True)
class ArrayPart(Part):
    """One block of rows, not yet copied or converted."""

    X: Any  # (n, p)
    y: Any  # (n,) or (n, d)
    sample_weight: Any  # (n,) or None
    start: int  # number of its first row in the whole

    def read(self) -> Iterator[Rows]:
        block = converted(self.X, self.y, self.sample_weight, self._place)
        for array in (self.X, self.y, self.sample_weight):
            _release_pages(array)
        if len(block):
            yield block

    def _place(self, name: str, row: int, column: int) -> str:
        inside = "" if name == "sample_weight" else f", column {column}"
        return f"row {self.start + row}{inside}"


class ArraySource(Source):
    """Rows of NumPy arrays, in particular of `numpy.memmap`s larger than memory.

    Args:
        X: (n, p).
        y: (n,) or (n, d).
        sample_weight: (n,), or None for ones.
        rows: Rows of a block.

    Raises:
        ValueError: The shapes do not fit together.

    Example:
        >>> source = ArraySource(np.zeros((20_000, 2)), np.zeros(20_000))
        >>> [len(block) for part in source.parts for block in part.read()]
        [8192, 8192, 3616]
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        rows: int = BLOCK_ROWS,
    ) -> None:
        # asanyarray, because a memmap has to stay one.
        self._X, self._y = np.asanyarray(X), np.asanyarray(y)
        self._weights = None if sample_weight is None else np.asanyarray(sample_weight)
        self.rows_per_block = rows
        if self._X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, rows and columns, got shape "
                f"{self._X.shape}."
            )
        self.n_rows, self.n_features = self._X.shape
        if self._y.ndim not in (1, 2) or len(self._y) != self.n_rows:
            raise ValueError(
                f"y must have as many rows as X, {self.n_rows}, and one or two "
                f"dimensions, got shape {self._y.shape}."
            )
        if self._weights is not None and self._weights.shape != (self.n_rows,):
            raise ValueError(
                f"sample_weight must have shape ({self.n_rows},), one weight per row, "
                f"got {self._weights.shape}."
            )
        self.n_responses = 1 if self._y.ndim == 1 else self._y.shape[1]
        self.feature_names = None

    @property
    def parts(self) -> Sequence[ArrayPart]:
        assert self.n_rows is not None
        parts, weights = [], self._weights
        for start in range(0, self.n_rows, self.rows_per_block):
            rows = slice(start, start + self.rows_per_block)
            some = None if weights is None else weights[rows]
            parts.append(ArrayPart(self._X[rows], self._y[rows], some, start))
        return parts


def _release_pages(array: Any) -> None:
    """Hand the pages of a mapped array back to the system, where it knows how.

    Only mappings shared with their file: of a private one (mode "c") the pages hold
    changes that are nowhere else.
    """
    mapping = array
    while mapping is not None and not isinstance(mapping, mmap.mmap):
        if isinstance(mapping, np.memmap) and mapping.mode == "c":
            return
        mapping = getattr(mapping, "base", None)
    if mapping is None or array.size == 0 or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    low, high = (end - start for end in byte_bounds(array))
    first = low // mmap.PAGESIZE * mmap.PAGESIZE
    mapping.madvise(mmap.MADV_DONTNEED, first, high - first)
