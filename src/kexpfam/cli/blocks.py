"""Parquet files of very many rows, which a fit reads block by block.

A sample of rows tells what the columns are, and is held in memory; by its coding every
block is coded when it is read. The sample has the first row of each gap and category,
so that no block has anything that it has not. A column of means of y is the exception:
means would have seen y of some of the rows that are fitted, so such a table is held in
memory as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Indices, Mask
from kexpfam.cli.readers import Wanted, joined_blocks, row_groups, table_blocks
from kexpfam.data import Part, Rows, Source
from kexpfam.data.rows import checked
from kexpfam.tables import Coded, Coding, EncodedFeature, Table

# From so many rows on an average is chosen on a sample in any case, and a sample has
# as many of them.
MANY_ROWS = 100_000
# Rows with a new category are in the sample until a column has so many: more than are
# columns of their own, or an order.
MOST_CATEGORIES = 200


def is_long(path: str, many: int = MANY_ROWS) -> bool:
    """Whether a file is to be read block by block: Parquet with so many rows."""
    return sum(row_groups(path)) > many


def sampled_table(
    path: str, wanted: Wanted, size: int = MANY_ROWS, *, chunk: int = 50_000
) -> Table:
    """Rows drawn from a file, and the first with each gap and category."""
    n = sum(row_groups(path))
    drawn = np.random.default_rng(0).choice(n, min(size, n), replace=False)
    parts, start, known = [], 0, dict[str, set[str]]()
    for block in table_blocks(path, wanted, chunk=chunk):
        inside = drawn[(drawn >= start) & (drawn < start + len(block))] - start
        new = [_first_rows(block, name, known) for name in wanted(block.names)]
        parts.append(block[np.unique(np.concatenate([inside, *new])).astype(np.intp)])
        start += len(block)
    return joined_blocks(parts)


def _first_rows(block: Table, name: str, known: dict[str, set[str]]) -> Indices:
    """Rows of a block with the first gap, and the first of each category."""
    seen = known.setdefault(name, set())
    gaps = np.flatnonzero(block.is_missing(name))[:1]
    found = [] if "" in seen else gaps.tolist()
    seen.update([""] if found else [])
    if not block.is_number(name) and len(seen) <= MOST_CATEGORIES:
        labels, first = np.unique(block.labels(name).astype(str), return_index=True)
        pairs = list(zip(labels.tolist(), first.tolist(), strict=True))
        found += [row for label, row in pairs[:MOST_CATEGORIES] if label not in seen]
        seen.update(labels.tolist())
    return np.array(found, dtype=np.intp)


@dataclass(frozen=True)
class _CodedPart(Part):
    """A row group of a file."""

    path: str
    wanted: Wanted
    group: int
    coding: Coding
    weights: str | None
    rows: int

    def tables(self) -> Iterator[tuple[Table, Mask, Coded]]:
        """Blocks of rows, which of them have no response, and those that are used."""
        assert self.coding.target is not None
        beside = [] if self.weights is None else [self.weights]
        blocks = table_blocks(self.path, self.wanted, chunk=self.rows, group=self.group)
        for table in blocks:
            untold = np.isnan(table.numbers(self.coding.target))
            yield (
                table,
                untold,
                self.coding.transform(table, also=untold, beside=beside),
            )

    def read(self) -> Iterator[Rows]:
        for table, _, coded in self.tables():
            assert self.coding.target is not None
            Y = table.numbers(self.coding.target)[coded.rows, None]
            weights = None
            if self.weights is not None:
                weights = table.numbers(self.weights)[coded.rows]
            block = checked(coded.X, Y, weights, self._place)
            if len(block):
                yield block

    def _place(self, argument: str, row: int, column: int) -> str:
        name = self.weights if argument == "sample_weight" else argument
        return f"{self.path}, row group {self.group + 1}, column {name!r}"


class CodedBlocks(Source):
    """Rows of a Parquet file as a coding has them.

    Args:
        path: The file.
        wanted: Which of its columns are read.
        coding: What becomes of them.
        weights: Column of the weights of rows, or None.
        rows: Most rows of a block.
    """

    feature_names = None

    def __init__(
        self,
        path: str,
        wanted: Wanted,
        coding: Coding,
        weights: str | None = None,
        *,
        rows: int = 50_000,
    ) -> None:
        self.n_features, self.n_responses = len(coding.columns), 1
        self.rows_per_block = rows
        groups = range(len(row_groups(path)))
        self._parts = [
            _CodedPart(path, wanted, group, coding, weights, rows) for group in groups
        ]
        self.n_rows, self.left_out, self.without_target = 0, 0, 0
        for part in self._parts:
            for table, untold, coded in part.tables():
                self.n_rows += len(coded.rows)
                self.left_out += len(table) - len(coded.rows)
                self.without_target += int(untold.sum())

    @property
    def parts(self) -> Sequence[Part]:
        return self._parts


def may_be_in_blocks(coding: Coding) -> bool:
    """Whether codes of a row do not depend on its response."""
    return not any(isinstance(f, EncodedFeature) for f in coding.features)
