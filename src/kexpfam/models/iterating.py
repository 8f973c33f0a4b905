"""Low-rank fits with so many centres that C is not formed: conjugate gradients.

λ is judged with as many centres as a direct solution affords, and then used with all
of them. Every iteration is one pass over the rows, in memory or block by block.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.blocks import Accumulator, Block, Source, distinct_prints, reduce_blocks
from kexpfam.models.design import Design
from kexpfam.score_matching import RowReduction, RowsInMemory, ScoreSample


@dataclass(frozen=True, eq=False)
class _Product(Accumulator[Array]):
    """Σ over rows of what one block adds to C·v, or to b if v is None.

    Attributes:
        design: The basis, and the chart of the rows.
        known_below: See `SumOfRows`.
        sample_seed: See `SumOfRows`.
        v: What C is applied to, (M,).
    """

    design: Design
    known_below: int
    sample_seed: int
    v: Array | None

    def start(self) -> Array:
        return np.zeros(self.design.basis.size)

    def add(self, state: Array, block: Block) -> Array:
        new = distinct_prints(block, self.sample_seed) >= np.uint64(self.known_below)
        block = Block(block.X[new], block.Y[new], block.weights[new])
        if not len(block):
            return state
        rows = RowsInMemory(self.design.basis, self.design.charted_block(block))
        part = rows.linear() if self.v is None else rows.apply(self.v)
        # Passes are for weights that sum to one; blocks have the weights they have.
        state += block.weights.sum() * part
        return state

    def combine(self, first: Array, second: Array) -> Array:
        first += second
        return first


@dataclass(frozen=True, eq=False)
class AllRows(RowReduction):
    """Rows of a sample in its chart, and all other rows of a source.

    Attributes:
        design: The basis, and the chart of the rows.
        sample: The rows of the sample, whose weights count them.
        source: All rows, or None if the sample is all.
        known_below: Rows with smaller fingerprints are in the sample.
        sample_seed: Seed of these fingerprints.
        weight: Sum of the weights of all rows.
        n_jobs: Threads; None for all cores.
        client: Dask client, or None.
    """

    design: Design
    sample: ScoreSample
    source: Source | None
    known_below: int
    sample_seed: int
    weight: float
    n_jobs: int | None = None
    client: Any = None

    def apply(self, v: Array) -> Array:
        return self._sum(self._known.apply(v), v)

    def linear(self) -> Array:
        return self._sum(self._known.linear(), None)

    def draw(self, count: int, rng: np.random.Generator) -> ScoreSample:
        return self._known.draw(count, rng)

    @property
    def _known(self) -> RowsInMemory:
        return RowsInMemory(self.design.basis, self.sample, self.n_jobs)

    def _sum(self, known: Array, v: Array | None) -> Array:
        total = float(self.sample.weights.sum()) * known
        if self.source is not None:
            product = _Product(self.design, self.known_below, self.sample_seed, v)
            total = total + reduce_blocks(
                self.source, product, n_jobs=self.n_jobs, client=self.client
            )
        return total / self.weight
