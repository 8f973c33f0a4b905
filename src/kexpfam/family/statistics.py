"""What a low-rank fit settles before it sums over rows, and the sums.

A `Design` is chosen on some of the rows: chart, base density, kernel, centres. All that
the other rows then add is their share of C and b (theory 16), fold by fold. So the rows
can come in any order, in any blocks, from any number of machines, now or later.

The rows that the design was chosen on take part with held-out residuals, so that no row
has helped to predict itself. The other rows have not helped by nature.
"""

import functools
from dataclasses import dataclass, fields, replace

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import BaseDensity
from kexpfam.data import (
    Accumulator,
    RowHashes,
    Rows,
    distinct_hashes,
    row_hashes,
)
from kexpfam.models.chart import Chart, Charted
from kexpfam.models.solvers import weighted_sample
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import Basis, ScoreSample, Statistics, Summation
from kexpfam.selection import FoldedRows

N_FOLDS = 5

# Rows that judge, at most; fewer if y has several columns, where they are nodes of an
# integral too.
MOST_JUDGES = 5000
MOST_JUDGES_OF_SEVERAL = 1000

# Standardised values that differ by less than this are the same to a fold: rounding
# must not put copies of a row into different ones.
_GRAIN = 1e-7

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
        _, spread = mean_and_std("y", charted.U, charted.weights)
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

    def hashes_of(self, X: Array, Y: Array) -> RowHashes:
        """Fingerprint of each row of the user, (n,), that units do not change."""
        chart = self.chart
        V = Y if chart.transform is None else chart.transform.forward(Y)
        V = (V - chart.y_center) / chart.y_scale
        with np.errstate(over="ignore"):
            Z, V = (np.rint(part / _GRAIN) for part in (chart.conditions(X), V))
        return row_hashes(Z, V, self.seed)

    def folds_of(self, hashes: RowHashes) -> Indices:
        """Fold of each row, (n,): its content decides, not its place."""
        return ((hashes >> np.uint64(32)) % np.uint64(N_FOLDS)).astype(np.intp)

    def add(self, sums: FoldSums, sample: ScoreSample, folds: Indices) -> FoldSums:
        """Sums with more rows, whose arrays are written to."""
        order = np.argsort(folds, kind="stable")
        edges = np.searchsorted(folds[order], np.arange(N_FOLDS + 1))
        return tuple(
            self.summation.add(own, sample.part(order[edges[k] : edges[k + 1]]))
            for k, own in enumerate(sums)
        )

    def charted_block(self, block: Rows) -> ScoreSample:
        """Rows of the user that have not helped to choose the design."""
        Z = self.chart.conditions(block.X)
        U = self.chart.coordinates(Z).to_kernel(block.Y[:, None])[:, 0]
        return self.sample(Z, U, block.weights)

    def add_block(self, sums: FoldSums, block: Rows) -> FoldSums:
        """Sums with such rows, whose arrays are written to."""
        folds = self.folds_of(self.hashes_of(block.X, block.Y))
        return self.add(sums, self.charted_block(block), folds)

    def combine(self, first: FoldSums, second: FoldSums) -> FoldSums:
        """Sums over the rows of both; the arrays of the first are written to."""
        return tuple(map(self.summation.combine, first, second))

    def agrees_with(self, other: "Design") -> bool:
        """Whether sums for the other are sums for this one."""
        if self is other:
            return True
        mine, theirs = self.basis, other.basis
        return (
            mine.kernel == theirs.kernel
            and int(mine.derivatives) == int(theirs.derivatives)
            and np.array_equal(mine.X, theirs.X)
            and np.array_equal(mine.Y, theirs.Y)
            and self.seed == other.seed
            and self.base == other.base
            and _same_chart(self.chart, other.chart, mine.X)
        )


def _same_chart(one: Chart, other: Chart, Z: Array) -> bool:
    """Whether two charts are alike, to all bits, at some conditions of the kernel."""
    if one is other:
        return True
    names = ("x_center", "x_scale", "y_center", "y_scale", "support")
    same = all(np.array_equal(getattr(one, k), getattr(other, k)) for k in names)
    same = same and one.transform == other.transform
    same = same and one.x_transform == other.x_transform
    if not same:
        return False
    here, there = one.coordinates(Z), other.coordinates(Z)
    return np.array_equal(here.location, there.location) and np.array_equal(
        here.scale, there.scale
    )


@dataclass(frozen=True, eq=False)
class SumOfRows(Accumulator[tuple[FoldSums, ...]]):
    """Sums for several designs in one pass over the rows.

    Attributes:
        designs: What to sum for.
        known_below: Rows with a smaller row_hash are left out: the designs were
            chosen on them.
        sample_seed: Seed of these row_hashes.
    """

    designs: tuple[Design, ...]
    known_below: int
    sample_seed: int

    def start(self) -> tuple[FoldSums, ...]:
        return tuple(design.start() for design in self.designs)

    def add(self, state: tuple[FoldSums, ...], block: Rows) -> tuple[FoldSums, ...]:
        new = distinct_hashes(block, self.sample_seed) >= np.uint64(self.known_below)
        if not new.all():
            block = Rows(block.X[new], block.Y[new], block.weights[new])
        if not len(block):
            return state
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


@saved_fit(
    {
        "Z": "n p moderate",
        "U": "n d moderate",
        "weights": "n moderate nonnegative some",
        "log_abs_det_jacobian": "n moderate",
        "folds": "n whole nonnegative",
        "keys": "n moderate",
    },
    name="SavedJudges",
    names={"Z": "X", "log_abs_det_jacobian": "log_slope"},
)
@dataclass(frozen=True, eq=False)
class Judges:
    """Rows in a chart on which fits without their fold are judged.

    Attributes:
        Z: Conditions in the coordinates of the kernel, (n, p).
        U: Responses in these coordinates, (n, d).
        weights: (n,).
        log_abs_det_jacobian: Log |du/dy| of each, (n,).
        folds: Fold of each, (n,).
        keys: The rows with the smallest of these are kept, (n,): random numbers from
            their row_hashes, larger for rows that are half forgotten.
    """

    Z: Array
    U: Array
    weights: Array
    log_abs_det_jacobian: Array
    folds: Indices
    keys: Array

    @classmethod
    def of(
        cls,
        design: Design,
        sample: ScoreSample,
        log_abs_det_jacobian: Array,
        hashes: RowHashes,
    ) -> "Judges":
        """Some of these rows."""
        everyone = cls(
            sample.X,
            sample.Y,
            sample.weights,
            log_abs_det_jacobian,
            design.folds_of(hashes),
            hashes.astype(np.float64) / 2.0**64,
        )
        return everyone._kept()

    @classmethod
    def of_block(cls, design: Design, block: Rows) -> "Judges":
        """Some rows of the user that have not helped to choose the design."""
        sample = design.charted_block(block)
        points = block.Y[:, None]
        log_volume = design.chart.coordinates(sample.X).log_volume(points)
        log_abs_det_jacobian = -np.broadcast_to(log_volume, (len(block), 1))[:, 0]
        hashes = design.hashes_of(block.X, block.Y)
        return cls.of(design, sample, log_abs_det_jacobian, hashes)

    def plus(self, more: "Judges") -> "Judges":
        """Some of the rows of both."""
        names = [field.name for field in fields(self)]
        pairs = ([getattr(self, name), getattr(more, name)] for name in names)
        return Judges(*map(np.concatenate, pairs))._kept()

    def forgetting(self, factor: float) -> "Judges":
        """All rows count `factor` times as much, and are given up sooner."""
        weights, keys = self.weights * factor, self.keys / factor
        return replace(self, weights=weights, keys=keys)

    def emptied(self) -> "Judges":
        """No rows."""
        return self._at(np.arange(0))

    @property
    def in_folds(self) -> tuple[FoldedRows, Array]:
        """The rows sorted by fold, and their log slopes."""
        judges = self._at(np.lexsort((self.keys, self.folds)))
        edges = np.searchsorted(judges.folds, np.arange(N_FOLDS + 1)).tolist()
        slices = tuple(slice(edges[k], edges[k + 1]) for k in range(N_FOLDS))
        rows = FoldedRows(judges.Z, judges.U, judges.weights, slices)
        return rows, judges.log_abs_det_jacobian

    def _kept(self) -> "Judges":
        most = MOST_JUDGES if self.U.shape[1] == 1 else MOST_JUDGES_OF_SEVERAL
        if len(self.keys) <= most:
            return self
        return self._at(np.sort(np.argpartition(self.keys, most)[:most]))

    def _at(self, rows: Indices) -> "Judges":
        return Judges(*(getattr(self, field.name)[rows] for field in fields(self)))
