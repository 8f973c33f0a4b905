"""What a low-rank fit settles before it sums over rows, and the sums.

A `Design` is chosen on some of the rows: chart, base density, kernel, centres. All that
the other rows then add is their share of C and b (theory 16), fold by fold. So the rows
can come in any order, in any blocks, from any number of machines, now or later.

The rows that the design was chosen on take part with held-out residuals, so that no row
has helped to predict itself. The other rows have not helped by nature.
"""

import functools
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import spread_of
from kexpfam.base_densities import BaseDensity
from kexpfam.blocks import Accumulator, Block, distinct_prints, fingerprints
from kexpfam.linalg import one_of_many_threads
from kexpfam.models.chart import Chart, Charted
from kexpfam.models.solvers import weighted_sample
from kexpfam.score_matching import Basis, ScoreSample, Statistics, Summation
from kexpfam.selection import Rows

N_FOLDS = 5

# Rows that judge, at most.
MOST_JUDGES = 5000

# Sums over the rows of each fold.
FoldSums = tuple[Statistics, ...]


@dataclass(frozen=True, eq=False)
class Design:
    """A low-rank family without its coefficients.

    Attributes:
        chart: How rows get into the coordinates of the kernel.
        base: q0 in these coordinates.
        basis: Kernel functions, those of any first few centres a smaller basis.
        spread: Deviation of the responses in these coordinates, (d,).
        seed: Of the folds, and of importance sampling.
    """

    chart: Chart
    base: BaseDensity
    basis: Basis
    spread: Array
    seed: int

    @classmethod
    def of(cls, charted: Charted, basis: Basis, seed: int) -> "Design":
        """For rows in a chart."""
        _, spread = spread_of("y", charted.U, charted.weights)
        return cls(charted.chart, charted.base, basis, spread, seed)

    @functools.cached_property
    def summation(self) -> Summation:
        """Adds rows to sums."""
        return Summation(self.basis)

    def sample(self, Z: Array, U: Array, weights: Array) -> ScoreSample:
        """What score matching needs to know of rows in the chart."""
        return weighted_sample(self.base, Z, U, weights, self.spread)

    def start(self) -> FoldSums:
        """Sums over no rows."""
        return tuple(self.summation.start() for _ in range(N_FOLDS))

    def folds_of(self, X: Array, Y: Array) -> Indices:
        """Fold of each row of the user, (n,): its content decides, not its place."""
        prints = fingerprints(X, Y, self.seed) >> np.uint64(32)
        return (prints % np.uint64(N_FOLDS)).astype(np.intp)

    def add(self, sums: FoldSums, sample: ScoreSample, folds: Indices) -> FoldSums:
        """Sums with more rows, whose arrays are written to."""
        order = np.argsort(folds, kind="stable")
        edges = np.searchsorted(folds[order], np.arange(N_FOLDS + 1))
        return tuple(
            self.summation.add(own, sample.part(order[edges[k] : edges[k + 1]]))
            for k, own in enumerate(sums)
        )

    def charted_block(self, block: Block) -> ScoreSample:
        """Rows of the user that have not helped to choose the design."""
        Z = self.chart.conditions(block.X)
        U = self.chart.coordinates(Z).to_kernel(block.Y[:, None])[:, 0]
        return self.sample(Z, U, block.weights)

    def add_block(self, sums: FoldSums, block: Block) -> FoldSums:
        """Sums with such rows, whose arrays are written to."""
        folds = self.folds_of(block.X, block.Y)
        return self.add(sums, self.charted_block(block), folds)

    def combine(self, first: FoldSums, second: FoldSums) -> FoldSums:
        """Sums over the rows of both; the arrays of the first are written to."""
        return tuple(map(self.summation.combine, first, second))

    def agrees_with(self, other: "Design") -> bool:
        """Whether sums for the other are sums for this one."""
        mine, theirs = self.basis, other.basis
        return self is other or (
            mine.kernel == theirs.kernel
            and np.array_equal(mine.X, theirs.X)
            and np.array_equal(mine.Y, theirs.Y)
            and self.seed == other.seed
        )


@dataclass(frozen=True, eq=False)
class SumOfRows(Accumulator[tuple[FoldSums, ...]]):
    """Sums for several designs in one pass over the rows.

    Attributes:
        designs: What to sum for.
        known_below: Rows with a smaller fingerprint are left out: the designs were
            chosen on them.
        sample_seed: Seed of these fingerprints.
    """

    designs: tuple[Design, ...]
    known_below: int
    sample_seed: int

    def start(self) -> tuple[FoldSums, ...]:
        return tuple(design.start() for design in self.designs)

    def add(self, state: tuple[FoldSums, ...], block: Block) -> tuple[FoldSums, ...]:
        new = distinct_prints(block, self.sample_seed) >= np.uint64(self.known_below)
        if not new.all():
            block = Block(block.X[new], block.Y[new], block.weights[new])
        if not len(block):
            return state
        with one_of_many_threads():
            return tuple(
                design.add_block(sums, block)
                for design, sums in zip(self.designs, state, strict=True)
            )

    def combine(
        self, first: tuple[FoldSums, ...], second: tuple[FoldSums, ...]
    ) -> tuple[FoldSums, ...]:
        return tuple(
            design.combine(one, other)
            for design, one, other in zip(self.designs, first, second, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Judges:
    """Rows in a chart on which fits without their fold are judged.

    Attributes:
        rows: Sorted by fold, in the coordinates of the kernel.
        log_slope: Log |du/dy| of each, (n,).
    """

    rows: Rows
    log_slope: Array

    @classmethod
    def of(cls, charted: Charted, folds: Indices) -> "Judges":
        """The first few of these rows, which come in random order."""
        few = slice(0, MOST_JUDGES)
        order = np.argsort(folds[few], kind="stable")
        edges = np.searchsorted(folds[few][order], np.arange(N_FOLDS + 1))
        slices = tuple(slice(int(edges[k]), int(edges[k + 1])) for k in range(N_FOLDS))
        rows = Rows(charted.Z[order], charted.U[order], charted.weights[order], slices)
        return cls(rows, charted.log_slope[order])
