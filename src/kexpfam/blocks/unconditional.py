"""Rows that are the data themselves, for densities without a condition.

Sources call the columns they read X. For p(y) these are the responses, and there are no
conditions. So the blocks of a source without responses are turned round: what was X
becomes Y, and X has no column. A sum over them is turned round instead of the source,
so that every kind of source is read as it would be otherwise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kexpfam.blocks.block import Accumulator, Block, Part, S, Source


class UnconditionalSource(Source):
    """The rows of another source, as responses without a condition.

    Args:
        rows: A source whose y has no columns.

    Raises:
        ValueError: It has some.

    Example:
        >>> import numpy as np
        >>> from kexpfam.blocks import ArraySource
        >>> data = np.arange(6.0).reshape(3, 2)
        >>> source = UnconditionalSource(ArraySource(data, data[:, :0]))
        >>> source.n_features, source.n_responses
        (0, 2)
    """

    def __init__(self, rows: Source) -> None:
        if rows.n_responses:
            raise ValueError(
                f"X must be a source without columns of y, which are not modelled "
                f"here, got one with {rows.n_responses}."
            )
        self.rows = rows
        self.n_features, self.n_responses = 0, rows.n_features
        self.feature_names = None
        self.n_rows, self.rows_per_block = rows.n_rows, rows.rows_per_block

    @property
    def parts(self) -> Sequence[Part]:
        return [_TurnedPart(part) for part in self.rows.parts]


@dataclass(frozen=True)
class _TurnedPart(Part):
    """A part of the other source."""

    part: Part

    def read(self) -> Iterator[Block]:
        return map(turned, self.part.read())


@dataclass(frozen=True)
class OfTurnedBlocks(Accumulator[S]):
    """A sum over the blocks of an `UnconditionalSource`, from those of its rows.

    Attributes:
        accumulator: The sum.
    """

    accumulator: Accumulator[S]

    def start(self) -> S:
        return self.accumulator.start()

    def add(self, state: S, block: Block) -> S:
        return self.accumulator.add(state, turned(block))

    def combine(self, first: S, second: S) -> S:
        return self.accumulator.combine(first, second)


def turned(block: Block) -> Block:
    """A block whose X is the Y of another, and has no columns of its own."""
    return Block(block.X[:, :0], block.X, block.weights)
