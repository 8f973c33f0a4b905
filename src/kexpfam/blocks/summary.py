"""How many rows there are, what they weigh, and between which values they lie."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.blocks.block import Accumulator, Block


@dataclass(frozen=True)
class Summary:
    """What is known about the rows of a source after reading it once.

    Attributes:
        n_rows: Number of rows whose weight is not zero.
        total_weight: Sum of their weights.
        X_min: (p,) smallest value of each column; +inf without rows.
        X_max: (p,) largest value of each column; -inf without rows.
        Y_min: (d,)
        Y_max: (d,)
    """

    n_rows: int
    total_weight: float
    X_min: Array
    X_max: Array
    Y_min: Array
    Y_max: Array


@dataclass(frozen=True)
class RowCount(Accumulator[Summary]):
    """Counts and ranges.

    Attributes:
        n_features: Columns of X.
        n_responses: Columns of y.

    Example:
        >>> count = RowCount(1, 1)
        >>> block = Block(np.array([[3.0], [5.0]]), np.zeros((2, 1)), np.ones(2))
        >>> count.add(count.start(), block).X_max
        array([5.])
    """

    n_features: int
    n_responses: int

    def start(self) -> Summary:
        p, d = self.n_features, self.n_responses
        return Summary(
            0,
            0.0,
            np.full(p, np.inf),
            np.full(p, -np.inf),
            np.full(d, np.inf),
            np.full(d, -np.inf),
        )

    def add(self, state: Summary, block: Block) -> Summary:
        rows = Summary(
            len(block),
            float(block.weights.sum()),
            block.X.min(axis=0),
            block.X.max(axis=0),
            block.Y.min(axis=0),
            block.Y.max(axis=0),
        )
        return self.combine(state, rows)

    def combine(self, first: Summary, second: Summary) -> Summary:
        return Summary(
            first.n_rows + second.n_rows,
            first.total_weight + second.total_weight,
            np.minimum(first.X_min, second.X_min),
            np.maximum(first.X_max, second.X_max),
            np.minimum(first.Y_min, second.Y_min),
            np.maximum(first.Y_max, second.Y_max),
        )
