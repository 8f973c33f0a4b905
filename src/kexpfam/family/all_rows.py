"""Fits to many rows: a spec chosen on some of them, and sums over all.

1. A random sample of the rows is drawn, the same in whatever blocks they come.
2. On the sample everything is chosen that a small fit would choose: base density,
   kernel, a first λ, centres.
3. One more pass over all rows sums C and b (theory 16), fold by fold.
4. λ and the number of centres are chosen again, with fits to all rows but a fold.

With so many centres that C is not formed, λ is chosen with as many as a direct solution
affords, and then used with all of them. Conjugate gradients solve for the coefficients;
every iteration is one pass over the rows, in memory or block by block.

Fits by likelihood have no such sums: each step of Newton's method is one pass, in which
gradients are summed; Hessians are those of the sample.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kexpfam._parallel import cached_property, single_threaded_blas, thread_count
from kexpfam._progress import Progress
from kexpfam._typing import Array, Indices
from kexpfam.data import (
    Accumulator,
    ChangedSource,
    Rows,
    RowSample,
    Sample,
    Source,
    distinct_hashes,
    reduce_blocks,
)
from kexpfam.family.coordinates import CoordinateRows, Coordinates
from kexpfam.family.family import FittedFamily, solve
from kexpfam.family.solvers import Solver, penalized_likelihood
from kexpfam.family.spec import Limits, Spec
from kexpfam.family.statistics import (
    N_FOLDS,
    FoldStatistics,
    LambdaRule,
    LowRankSpec,
    SumOfRows,
)
from kexpfam.kernels import JointKernel
from kexpfam.likelihood import NodeMatrices, RowSums, expected_sums, observed_sums
from kexpfam.score_matching import (
    Basis,
    IterativeFit,
    RowReduction,
    RowsInMemory,
    ScoreSample,
    choose_centers,
    fit_iterative,
)

S = TypeVar("S")


def sum_statistics(
    placed: CoordinateRows,
    rows: Rows,
    kernel: JointKernel,
    rule: LambdaRule,
    spec: Spec,
    *,
    seed: int,
    centers: Indices | None = None,
) -> FoldStatistics:
    """C and b over rows in memory, with centres among them.

    Args:
        placed: The rows in coordinates.
        rows: The same in the units of the user, and in the same order.
        kernel: The kernel.
        rule: How λ is found.
        spec: What the user wants.
        seed: Of folds, centres and importance sampling.
        centers: Rows that are centres, if what was validated with them is to be fitted
            with λ as it is; None to choose centres, and their number.
    """
    if centers is None:
        basis, sizes = _basis(placed, kernel, spec, seed)
    else:
        Z, U = placed.Z[centers], placed.U[centers]
        basis, sizes = Basis(kernel, Z, U, int(spec.derivatives)), (len(U),)
    return FoldStatistics.sum(
        placed,
        rows,
        basis,
        rule,
        sizes,
        seed=seed,
        free=spec.n_components is None,
        settled=centers is not None,
        n_jobs=spec.n_jobs,
    )


def _basis(
    placed: CoordinateRows, kernel: JointKernel, spec: Spec, seed: int
) -> tuple[Basis, tuple[int, ...]]:
    """The basis, and numbers of its centres to try."""
    wanted, affordable = spec.n_components, affordable_centers(placed, spec)
    if wanted is not None:
        wanted = min(wanted, len(placed))
    if wanted is not None and spec.solver == "iterative":
        wanted = min(wanted, spec.limits.most_centers)
    if wanted is not None and wanted > affordable:
        raise ValueError(
            f"n_components={wanted} needs more than memory_budget, "
            f"{spec.memory_budget / 2**20:.0f} MiB, for sums over the rows; at most "
            f"{affordable} fit into it. Raise it, or use solver='iterative'."
        )
    most = min(spec.limits.most_centers, affordable)
    sizes = component_sizes(
        len(placed), wanted, replace(spec.limits, most_centers=most)
    )
    with single_threaded_blas():  # many small products
        Z, U = choose_centers(
            spec.centers,
            kernel,
            placed.Z,
            placed.U,
            sizes[-1],
            rng=np.random.default_rng(seed),
            weights=placed.weights,
        )
    basis = Basis(kernel, Z, U, int(spec.derivatives))
    return basis, tuple(sorted({min(size, len(U)) for size in sizes}))


def affordable_centers(placed: CoordinateRows, spec: Spec) -> int:
    """How many centres fit into the memory budget.

    Each thread has sums of its own for every fold; two more are the result and a copy.
    """
    groups = 1 + placed.U.shape[1] * int(spec.derivatives)
    matrices = N_FOLDS * (thread_count(spec.n_jobs) + 2)
    return max(1, math.isqrt(spec.memory_budget // (8 * matrices)) // groups)


def component_sizes(n: int, wanted: int | None, limits: Limits) -> tuple[int, ...]:
    """Numbers of centres to try with n rows, few first.

    Example:
        >>> component_sizes(3000, None, Limits())
        (128, 256, 512, 1024)
        >>> component_sizes(3000, 100, Limits())
        (50, 100)
    """
    if wanted is not None:
        count = min(wanted, n)
        return tuple(sorted({max(1, count // 2), count}))
    most = limits.most_centers
    sizes = [min(limits.fewest_centers, most, n)]
    while 2 * sizes[-1] <= min(most, n // limits.rows_per_center):
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


@dataclass(frozen=True, eq=False)
class SampledRows:
    """A random sample of the rows of a source."""

    rows: Rows  # In random order
    known_below: int  # Exactly the rows with smaller hashes are in the sample
    seed: int  # Of the hashes
    complete: bool  # Whether these are all rows
    low: Array  # Smallest responses of all rows, (d,)
    high: Array  # Largest
    weight: float  # Sum of the weights of all rows


class _Seen(NamedTuple):
    sample: Sample
    low: Array
    high: Array
    weight: float


@dataclass(frozen=True)
class _SampleAndRange(Accumulator[_Seen]):
    """A sample of the rows, and the range of the responses of all."""

    rows: RowSample

    def start(self) -> _Seen:
        return _Seen(self.rows.start(), np.array([np.inf]), np.array([-np.inf]), 0.0)

    def add(self, state: _Seen, block: Rows) -> _Seen:
        sample = self.rows.add(state.sample, block)
        low = np.minimum(state.low, block.Y.min(axis=0))
        high = np.maximum(state.high, block.Y.max(axis=0))
        return _Seen(sample, low, high, state.weight + float(block.weights.sum()))

    def combine(self, first: _Seen, second: _Seen) -> _Seen:
        return _Seen(
            self.rows.combine(first.sample, second.sample),
            np.minimum(first.low, second.low),
            np.maximum(first.high, second.high),
            first.weight + second.weight,
        )


def sample_rows(source: Source, size: int, seed: int, **work: Any) -> SampledRows:
    """Draw a sample in one pass over the rows; `work` is for `reduce_blocks`."""
    seen = reduce_blocks(source, _SampleAndRange(RowSample(size + 1, seed)), **work)
    sample, known = seen.sample, (seen.low, seen.high, seen.weight)
    if len(sample) <= size:
        return SampledRows(sample, 2**64 - 1, seed, True, *known)
    # Of rows that are alike to the last one it is not known whether they are here.
    last = sample.hashes[-1]
    kept = slice(0, int(np.searchsorted(sample.hashes, last)))
    rows = Rows(sample.X[kept], sample.Y[kept], sample.weights[kept])
    return SampledRows(rows, int(last), seed, False, *known)


@dataclass(frozen=True, eq=False)
class RowsBeyond:
    """A source, and the sample of it that everything is chosen on."""

    source: Source
    sampled: SampledRows
    n_jobs: int | None = None  # Threads that pass over the rows; None for all cores
    client: Any = None  # A Dask client that does so, or None

    def sum_of_all(self, what: Accumulator[S]) -> S:
        """A sum over all rows, those of the sample among them."""
        work = {"n_jobs": self.n_jobs, "client": self.client}
        return reduce_blocks(self.source, what, **work)

    def sum(self, what: Accumulator[S], progress: Progress | None = None) -> S:
        """A sum over the rows that are not in the sample."""
        known = self.sampled.known_below, self.sampled.seed
        rest = ChangedSource(self.source, functools.partial(_new_rows, known=known))
        work = {"n_jobs": self.n_jobs, "client": self.client}
        return reduce_blocks(rest, what, progress=progress, **work)


def _new_rows(block: Rows, known: tuple[int, int]) -> Rows:
    """The rows of a block that are not in the sample, by its largest hash and seed."""
    below, seed = known
    new = distinct_hashes(block, seed) >= np.uint64(below)
    return block if new.all() else block[new]


def with_all_rows(
    fits: Sequence[FoldStatistics],
    beyond: RowsBeyond,
    progress: Progress | None = None,
) -> list[FoldStatistics]:
    """Statistics of a sample of the rows, with the others added in one pass."""
    sums = beyond.sum(SumOfRows(tuple(stats.spec for stats in fits)), progress)
    return [stats.plus(own) for stats, own in zip(fits, sums, strict=True)]


def solve_iteratively(
    placed: CoordinateRows,
    stats: FoldStatistics,
    spec: Spec,
    lam: float,
    beyond: RowsBeyond | None = None,
) -> tuple[FittedFamily, IterativeFit]:
    """A fit with all centres that the user wants, by conjugate gradients.

    λ was chosen with the fewer centres of the statistics, or together with centres that
    are settled. These are all rows, or there are others beyond them.
    """
    wanted = spec.n_components or spec.limits.most_centers
    # Passes over the rows need no sums: only the preconditioner, a single matrix.
    matrices = N_FOLDS * (thread_count(spec.n_jobs) + 2)
    budget = matrices * spec.memory_budget // 3
    free = replace(spec, solver=None, n_components=wanted, memory_budget=budget)
    basis, seed = stats.spec.basis, stats.spec.seed
    if not stats.settled:
        basis, _ = _basis(placed, basis.kernel, free, seed)
    low_rank = LowRankSpec.of(placed, basis, seed)
    sample = low_rank.sample(placed.Z, placed.U, placed.weights)
    rows = AllRows(low_rank, sample, beyond, stats.weight, spec.n_jobs)
    fit = fit_iterative(basis, rows, lam, n_jobs=spec.n_jobs)
    T = replace(fit.T, n_jobs=spec.n_jobs)
    nan = float("nan")
    return FittedFamily(low_rank.coordinates, low_rank.base, T, lam, nan, seed), fit


@dataclass(frozen=True, eq=False)
class _Product(Accumulator[Array]):
    """Σ over rows of what one block adds to C·v, or to b if v is None."""

    spec: LowRankSpec
    v: Array | None  # What C is applied to, (M,)

    def start(self) -> Array:
        return np.zeros(self.spec.basis.size)

    def add(self, state: Array, block: Rows) -> Array:
        Z, U, _ = self.spec.coordinates.rows(block)
        sample = self.spec.sample(Z, U, block.weights)
        rows = RowsInMemory(self.spec.basis, sample)
        part = rows.linear() if self.v is None else rows.apply(self.v)
        # Passes are for weights that sum to one; blocks have the weights they have.
        state += block.weights.sum() * part
        return state

    def combine(self, first: Array, second: Array) -> Array:
        first += second
        return first


@dataclass(frozen=True, eq=False)
class AllRows(RowReduction):
    """Rows of a sample in its coordinates, and all other rows of a source."""

    spec: LowRankSpec
    sample: ScoreSample  # The rows of the sample, whose weights count them
    beyond: RowsBeyond | None  # The others; None if the sample is all
    weight: float  # Sum of the weights of all rows
    n_jobs: int | None = None

    def apply(self, v: Array) -> Array:
        return self._sum(self._known.apply(v), v)

    def linear(self) -> Array:
        return self._sum(self._known.linear(), None)

    def draw(self, count: int, rng: np.random.Generator) -> ScoreSample:
        return self._known.draw(count, rng)

    @property
    def _known(self) -> RowsInMemory:
        return RowsInMemory(self.spec.basis, self.sample, self.n_jobs)

    def _sum(self, known: Array, v: Array | None) -> Array:
        total = float(self.sample.weights.sum()) * known
        if self.beyond is not None:
            total = total + self.beyond.sum(_Product(self.spec, v))
        return total / self.weight


def solve_with_others(
    placed: CoordinateRows,
    kernel: JointKernel | None,
    lam: float,
    centers: Indices | None,
    beyond: RowsBeyond | None,
    *,
    solver: Solver,
    seed: int,
    n_jobs: int | None,
    given: bool = False,
) -> tuple[FittedFamily, float | None]:
    """The fit to rows, and to others beyond them if the solver can pass over these.

    Args:
        placed: The rows in coordinates.
        kernel: The kernel; None for the base density alone.
        lam: λ for the rows. For all it is smaller in proportion to their weight.
        centers: Rows at which the basis is; None for an exact fit.
        beyond: Where the other rows are; None if there are none.
        solver: How to fit.
        seed: Of the family.
        n_jobs: Threads.
        given: Whether λ is what the user gave, and stays.

    Returns:
        The family, and what all weigh that it was fitted to; None if these are the
        rows.
    """
    if beyond is None or not solver.passes or kernel is None:
        family = solve(
            placed,
            kernel,
            lam,
            seed=seed,
            centers=centers,
            n_jobs=n_jobs,
            solver=solver,
        )
        return family, None
    assert centers is not None
    basis = Basis(kernel, placed.Z[centers], placed.U[centers], derivatives=False)
    others = SourceSums(basis, placed.coordinates, beyond)
    own = float(placed.weights.sum())
    weight = own + float(others.observed[0])
    lam = lam if given else lam * own / weight
    T = penalized_likelihood(placed, basis, lam, beyond.n_jobs, [others])
    nan = float("nan")
    return FittedFamily(placed.coordinates, placed.base, T, lam, nan, seed), weight


@dataclass(frozen=True, eq=False)
class SourceSums(RowSums):
    """Sums over the rows of a source that are not in its sample."""

    basis: Basis
    coordinates: Coordinates
    beyond: RowsBeyond

    @cached_property
    def observed(self) -> Array:
        return self._sum(None, None)

    def expected(self, parts: NodeMatrices, alpha: Array) -> Array:
        return self._sum(parts.without_conditions(), alpha)

    def _sum(self, parts: NodeMatrices | None, alpha: Array | None) -> Array:
        return self.beyond.sum(
            _LikelihoodSum(self.basis, self.coordinates, parts, alpha)
        )


@dataclass(frozen=True, eq=False)
class _LikelihoodSum(Accumulator[Array]):
    """What `SourceSums` are: observed ones without α, expected ones with it."""

    basis: Basis
    coordinates: Coordinates
    parts: NodeMatrices | None  # On whose nodes densities are normalised
    alpha: Array | None

    def start(self) -> Array:
        return np.zeros(1 + self.basis.size)

    def add(self, state: Array, block: Rows) -> Array:
        if self.parts is None or self.alpha is None:
            Z, U, _ = self.coordinates.rows(block)
            state += observed_sums(self.basis, Z, U, block.weights)
        else:
            Z = self.coordinates.conditions(block.X)
            state += expected_sums(self.basis, self.parts, Z, block.weights, self.alpha)
        return state

    def combine(self, first: Array, second: Array) -> Array:
        first += second
        return first
