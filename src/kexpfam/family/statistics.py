"""Sufficient statistics of low-rank score matching: C and b of every fold.

A `LowRankSpec` is chosen on some of the rows: coordinates, base density, kernel,
centres. All that the other rows then add is their share of C and b (theory 16), fold by
fold. So the rows can come in any order, in any blocks, from any number of machines, now
or later; they are added, merged, forgotten, and subtracted where a fold is held out.

The rows that the spec was chosen on take part with held-out residuals, so that no row
has helped to predict itself. The other rows have not helped by nature.
"""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from kexpfam._parallel import cached_property, on_threads, single_threaded_blas
from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import BaseDensity
from kexpfam.data import Accumulator, RowHashes, Rows, row_hashes
from kexpfam.family.coordinates import CoordinateRows, Coordinates
from kexpfam.family.cross_validation import CRITERIA, HeldOutProblem
from kexpfam.family.solvers import SCORE, weighted_score_sample
from kexpfam.kernels import JointKernel
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import Basis, ScoreSample, Statistics, Summation

N_FOLDS = 5

# Sums over the rows of each fold.
FoldSums = tuple[Statistics, ...]


@dataclass(frozen=True, eq=False)
class LowRankSpec:
    """A low-rank family without its coefficients: what C and b are sums for."""

    coordinates: Coordinates  # How rows get to where the kernel is
    base: BaseDensity  # q0 there
    basis: Basis  # Kernel functions; those of any first few centres are a basis too
    std: Array  # Standard deviation of the responses in these coordinates, (d,)
    seed: int  # Of the folds, and of importance sampling

    @classmethod
    def of(cls, rows: CoordinateRows, basis: Basis, seed: int) -> "LowRankSpec":
        """For the rows that it was chosen on."""
        _, std = mean_and_std("y", rows.U, rows.weights)
        return cls(rows.coordinates, rows.base, basis, std, seed)

    @cached_property
    def summation(self) -> Summation:
        """Adds rows to sums."""
        return Summation(self.basis)

    def sample(self, Z: Array, U: Array, weights: Array) -> ScoreSample:
        """What score matching needs to know of rows in the coordinates."""
        return weighted_score_sample(self.base, Z, U, weights, self.std)

    def start(self) -> FoldSums:
        """Sums over no rows."""
        return tuple(self.summation.start() for _ in range(N_FOLDS))

    def hashes_of(self, rows: Rows) -> RowHashes:
        """Hash of each row of the user, (n,), that units do not change.

        Standardised values that differ by rounding are the same: copies of a row must
        not be in different folds.
        """
        there, Y, grain = self.coordinates, rows.Y, 1e-7
        V = Y if there.transform is None else there.transform.forward(Y)
        V = (V - there.y_center) / there.y_scale
        with np.errstate(over="ignore"):
            Z, V = (np.rint(part / grain) for part in (there.standardized(rows.X), V))
        return row_hashes(Z, V, self.seed)

    def folds_of(self, hashes: RowHashes) -> Indices:
        """Fold of each row, (n,): its content decides, not its place."""
        return ((hashes >> np.uint64(32)) % np.uint64(N_FOLDS)).astype(np.intp)

    def add(self, sums: FoldSums, sample: ScoreSample, hashes: RowHashes) -> FoldSums:
        """Sums with more rows, whose arrays are written to."""
        folds = self.folds_of(hashes)
        order = np.argsort(folds, kind="stable")
        edges = np.searchsorted(folds[order], np.arange(N_FOLDS + 1))
        return tuple(
            self.summation.add(own, sample.part(order[edges[k] : edges[k + 1]]))
            for k, own in enumerate(sums)
        )

    def add_rows(self, sums: FoldSums, rows: Rows) -> FoldSums:
        """The same with rows of the user that have not helped to choose the spec."""
        Z, U, _ = self.coordinates.rows(rows)
        sample = self.sample(Z, U, rows.weights)
        return self.add(sums, sample, self.hashes_of(rows))

    def combine(self, first: FoldSums, second: FoldSums) -> FoldSums:
        """Sums over the rows of both; the arrays of the first are written to."""
        return tuple(map(self.summation.combine, first, second))

    def leading(self, centers: int) -> tuple[Basis, Indices]:
        """The basis of the first centres, and where its functions are in all."""
        basis = self.basis
        groups = np.arange(len(basis.orders))[:, None] * len(basis.Y)
        fewer = replace(basis, X=basis.X[:centers], Y=basis.Y[:centers])
        return fewer, (groups + np.arange(centers)).ravel()

    def agrees_with(self, other: "LowRankSpec") -> bool:
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
            and self.coordinates.equals(other.coordinates, mine.X)
        )


@dataclass(frozen=True, eq=False)
class SumOfRows(Accumulator[tuple[FoldSums, ...]]):
    """Sums for several specs in one pass over the rows."""

    specs: tuple[LowRankSpec, ...]

    def start(self) -> tuple[FoldSums, ...]:
        return tuple(spec.start() for spec in self.specs)

    def add(self, state: tuple[FoldSums, ...], block: Rows) -> tuple[FoldSums, ...]:
        pairs = zip(self.specs, state, strict=True)
        return tuple(spec.add_rows(sums, block) for spec, sums in pairs)

    def combine(
        self, first: tuple[FoldSums, ...], second: tuple[FoldSums, ...]
    ) -> tuple[FoldSums, ...]:
        triples = zip(self.specs, first, second, strict=True)
        return tuple(spec.combine(one, other) for spec, one, other in triples)


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
class ValidationRows:
    """Rows in coordinates on which fits without their fold are validated."""

    Z: Array  # (n, p)
    U: Array  # (n, d)
    weights: Array  # (n,)
    log_abs_det_jacobian: Array  # Log |du/dy| of each, (n,)
    folds: Indices  # Fold of each, (n,)
    # The rows with the smallest of these are kept, (n,): random numbers from their
    # hashes, larger for rows that are half forgotten
    keys: Array

    @classmethod
    def of(
        cls,
        spec: LowRankSpec,
        sample: ScoreSample,
        log_jacobian: Array,
        hashes: RowHashes,
    ) -> "ValidationRows":
        """Some of the rows of a sample."""
        keys = hashes.astype(np.float64) / 2.0**64
        rows = sample.X, sample.Y, sample.weights
        return cls(*rows, log_jacobian, spec.folds_of(hashes), keys)._kept()

    def plus(self, more: "ValidationRows") -> "ValidationRows":
        """Some of the rows of both."""
        names = [field.name for field in fields(self)]
        pairs = ([getattr(self, name), getattr(more, name)] for name in names)
        return ValidationRows(*map(np.concatenate, pairs))._kept()

    def forgetting(self, factor: float) -> "ValidationRows":
        """All rows count `factor` times as much, and are given up sooner."""
        weights, keys = self.weights * factor, self.keys / factor
        return replace(self, weights=weights, keys=keys)

    def emptied(self) -> "ValidationRows":
        """No rows."""
        return self._at(np.arange(0))

    def in_folds(self, spec: LowRankSpec) -> tuple[HeldOutProblem, Array]:
        """The rows sorted by fold, and their log Jacobians."""
        rows = self._at(np.lexsort((self.keys, self.folds)))
        edges = np.searchsorted(rows.folds, np.arange(N_FOLDS + 1)).tolist()
        nothing = np.empty_like(rows.U)  # the score is not asked for
        sample = ScoreSample(rows.Z, rows.U, rows.weights, nothing, nothing)
        reach = float(np.max(np.abs(spec.base.column_range(0))))
        folds = tuple(map(slice, edges[:-1], edges[1:]))
        problem = HeldOutProblem(sample, folds, np.arange(0), spec.base, reach)
        return problem, rows.log_abs_det_jacobian

    def _kept(self, most: int = 5000, most_of_several: int = 1000) -> "ValidationRows":
        # Several columns of y make the rows nodes of an integral, too.
        most = most if self.U.shape[1] == 1 else most_of_several
        if len(self.keys) <= most:
            return self
        return self._at(np.sort(np.argpartition(self.keys, most)[:most]))

    def _at(self, rows: Indices) -> "ValidationRows":
        parts = (getattr(self, field.name)[rows] for field in fields(self))
        return ValidationRows(*parts)


@saved_fit({"start": "positive"})
@dataclass(frozen=True)
class LambdaRule:
    """How λ is found."""

    objective: str | None  # Name of the criterion that validates λ; None if nothing
    # λ that was chosen with the spec, or given by the user; None for the untuned rule,
    # which knows the number of rows
    start: float | None
    given: bool = False  # Whether the user gave it, so that it stays

    def check_saved(self) -> None:
        """Refuse other objectives."""
        if self.objective not in (*CRITERIA, None):
            raise ValueError("λ is chosen by something unknown")

    def first(self, kernel: JointKernel, n: float) -> float:
        """λ for so many rows, if it is not validated."""
        return SCORE.untuned_lambda(kernel, n) if self.start is None else self.start

    def path(self, kernel: JointKernel, n: float) -> list[float]:
        """What to try: from ten times the first down, since more rows need less."""
        factors = [1.0] if self.given else 10.0 ** np.arange(1.0, -4.1, -0.5)
        return [self.first(kernel, n) * float(factor) for factor in factors]


@dataclass(frozen=True, eq=False)
class FoldStatistics:
    """C and b of each fold over all rows so far, and how λ is to be found."""

    spec: LowRankSpec
    sums: FoldSums
    validation: ValidationRows
    rule: LambdaRule
    sizes: tuple[int, ...]  # Numbers of centres to try, few first
    free: bool = True  # Whether any of them may be taken, or only the last
    # Whether λ and centres were chosen together with the spec, and no rows came since
    settled: bool = False

    @classmethod
    def sum(
        cls,
        placed: CoordinateRows,
        rows: Rows,
        basis: Basis,
        rule: LambdaRule,
        sizes: tuple[int, ...],
        *,
        seed: int,
        free: bool = True,
        settled: bool = False,
        n_jobs: int | None = None,
    ) -> "FoldStatistics":
        """Over the rows that a spec is chosen on, one fold for each thread."""
        spec = LowRankSpec.of(placed, basis, seed)
        hashes = spec.hashes_of(rows)
        folds = spec.folds_of(hashes)
        sample = spec.sample(placed.Z, placed.U, placed.weights)
        parts = [sample.part(np.flatnonzero(folds == k)) for k in range(N_FOLDS)]
        add, start = spec.summation.add, spec.summation.start
        with single_threaded_blas():
            sums = on_threads(lambda part: add(start(), part), parts, n_jobs)
        log_jacobian = placed.log_abs_det_jacobian
        validation = ValidationRows.of(spec, sample, log_jacobian, hashes)
        return cls(spec, tuple(sums), validation, rule, sizes, free, settled)

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows, as far as they are not forgotten."""
        return sum(own.weight for own in self.sums)

    def added(self, rows: Rows) -> "FoldStatistics":
        """With more rows, of which none has helped to choose the spec."""
        spec = self.spec
        Z, U, log_jacobian = spec.coordinates.rows(rows)
        sample, hashes = spec.sample(Z, U, rows.weights), spec.hashes_of(rows)
        more = ValidationRows.of(spec, sample, log_jacobian, hashes)
        sums = spec.add(spec.start(), sample, hashes)
        return replace(self.plus(sums), validation=self.validation.plus(more))

    def merged(self, other: "FoldStatistics") -> "FoldStatistics":
        """With the rows of another one, of the same spec."""
        if not self.spec.agrees_with(other.spec):
            raise ValueError(
                "The models do not share coordinates, kernel and centres, so their "
                "sums cannot be added; make both with `emptied()` of one model."
            )
        validation = self.validation.plus(other.validation)
        return replace(self.plus(other.sums), validation=validation)

    def emptied(self) -> "FoldStatistics":
        """The same spec without rows."""
        sums, validation = self.spec.start(), self.validation.emptied()
        return replace(self, sums=sums, validation=validation, settled=False)

    def forgetting(self, factor: float) -> "FoldStatistics":
        """All rows so far count `factor` times as much."""
        sums = tuple(own * factor for own in self.sums)
        validation = self.validation.forgetting(factor)
        return replace(self, sums=sums, validation=validation, settled=False)

    def plus(self, more: FoldSums) -> "FoldStatistics":
        """With sums over other rows."""
        sums = tuple(map(operator.add, self.sums, more))
        return replace(self, sums=sums, settled=False)

    def limited(self, sizes: Sequence[int]) -> "FoldStatistics":
        """Only some numbers of centres, and no more centres than the last."""
        basis, index = self.spec.leading(sizes[-1])
        return replace(
            self,
            spec=replace(self.spec, basis=basis),
            sums=tuple(own.of_functions(index) for own in self.sums),
            sizes=tuple(sizes),
        )

    @property
    def lambda_path(self) -> list[float]:
        """Values of λ to try."""
        return self.rule.path(self.spec.basis.kernel, self.weight)

    def coefficients(self, lam: float, size: int) -> tuple[Basis, Array]:
        """The basis of the first centres, and α of (16) from all rows."""
        basis, index = self.spec.leading(size)
        total = functools.reduce(operator.add, self.sums)
        return basis, total.of_functions(index).solve(basis.gram(), lam)
