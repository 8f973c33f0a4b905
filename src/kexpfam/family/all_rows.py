"""Fits to many rows: a design chosen on some of them, and sums over all.

1. A random sample of the rows is drawn, the same in whatever blocks they come.
2. On the sample everything is chosen that a small fit would choose: base density,
   kernel, a first λ. How many centres are worth their price is judged there too.
3. One more pass over all rows sums C and b (theory 16), fold by fold.
4. λ and the number of centres are judged again, with fits to all rows but a fold.

With so many centres that C is not formed, λ is judged with as many as a direct solution
affords, and then used with all of them. Conjugate gradients solve for the coefficients;
every iteration is one pass over the rows, in memory or block by block.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._parallel import on_threads, single_threaded_blas, thread_count
from kexpfam._progress import Progress
from kexpfam._typing import Array, Indices
from kexpfam.data import (
    Accumulator,
    Rows,
    RowSample,
    Source,
    distinct_hashes,
    reduce_blocks,
)
from kexpfam.kernels import JointKernel
from kexpfam.models.chart import Charted
from kexpfam.models.design import N_FOLDS, Design, FoldSums, Judges, SumOfRows
from kexpfam.models.family import FittedFamily, Limits, Options, TrainingRows
from kexpfam.models.running import LambdaRule, Running
from kexpfam.score_matching import (
    Basis,
    IterativeFit,
    RowReduction,
    RowsInMemory,
    ScoreSample,
    choose_centers,
    fit_iterative,
)


@dataclass(frozen=True, eq=False)
class Start:
    """What a sample of the rows has decided.

    Attributes:
        charted: The sample in its chart, in random order.
        rows: The same in the units of the user, and in the same order.
        kernel: The kernel.
        rule: How λ is found.
        seed: Of folds, centres and importance sampling.
        centers: Rows that are centres, if what was judged with them is to be fitted
            with λ as it is; None to choose centres, and their number.
    """

    charted: Charted
    rows: TrainingRows
    kernel: JointKernel
    rule: LambdaRule
    seed: int
    centers: Indices | None = None


def begin(start: Start, options: Options) -> Running:
    """A low-rank fit to the rows of the sample, with centres among them."""
    basis, sizes = _basis(start, options)
    design = Design.of(start.charted, basis, start.seed)
    charted = start.charted
    hashes = design.hashes_of(start.rows.X, start.rows.Y)
    sample = design.sample(charted.Z, charted.U, charted.weights)
    return Running(
        design,
        _sums(design, sample, design.folds_of(hashes), options.n_jobs),
        Judges.of(design, sample, charted.log_abs_det_jacobian, hashes),
        start.rule,
        sizes,
        free=options.n_components is None,
        settled=start.centers is not None,
    )


def _basis(start: Start, options: Options) -> tuple[Basis, tuple[int, ...]]:
    """The basis, and how many of its centres are judged."""
    charted, rows = start.charted, start.centers
    if rows is not None:
        Z, U = charted.Z[rows], charted.U[rows]
        return Basis(start.kernel, Z, U, int(options.derivatives)), (len(U),)
    wanted, affordable = options.n_components, affordable_centers(charted, options)
    if wanted is not None:
        wanted = min(wanted, len(charted.U))
    if wanted is not None and options.solver == "iterative":
        wanted = min(wanted, options.limits.most_centers)
    if wanted is not None and wanted > affordable:
        raise ValueError(
            f"n_components={wanted} needs more than memory_budget, "
            f"{options.memory_budget / 2**20:.0f} MiB, for sums over the rows; at most "
            f"{affordable} fit into it. Raise it, or use solver='iterative'."
        )
    most = min(options.limits.most_centers, affordable)
    limits = replace(options.limits, most_centers=most)
    sizes = component_sizes(len(charted.U), wanted, limits)
    with single_threaded_blas():  # many small products
        Z, U = choose_centers(
            options.centers,
            start.kernel,
            charted.Z,
            charted.U,
            sizes[-1],
            rng=np.random.default_rng(start.seed),
            weights=charted.weights,
        )
    basis = Basis(start.kernel, Z, U, int(options.derivatives))
    return basis, tuple(sorted({min(size, len(U)) for size in sizes}))


def iterated(
    start: Start,
    options: Options,
    lam: float,
    weight: float,
    source: Source | None = None,
    sampled: "SampledRows | None" = None,
) -> tuple[FittedFamily, IterativeFit]:
    """A fit with all centres that the user wants, by conjugate gradients.

    λ was judged with fewer. Without a source, the sample is all rows.
    """
    wanted = options.n_components or options.limits.most_centers
    # Passes over the rows need no sums: only the preconditioner, a single matrix.
    unlimited = replace(
        options,
        solver=None,
        n_components=wanted,
        memory_budget=N_FOLDS
        * (thread_count(options.n_jobs) + 2)
        * options.memory_budget
        // 3,
    )
    basis, _ = _basis(start, unlimited)
    design = Design.of(start.charted, basis, start.seed)
    charted = start.charted
    rows = AllRows(
        design,
        design.sample(charted.Z, charted.U, charted.weights),
        source,
        0 if sampled is None else sampled.known_below,
        0 if sampled is None else sampled.seed,
        weight,
        options.n_jobs,
        options.client,
    )
    fit = fit_iterative(basis, rows, lam, n_jobs=options.n_jobs)
    T = replace(fit.T, n_jobs=options.n_jobs)
    nan = float("nan")
    return FittedFamily(design.chart, design.base, T, lam, nan, start.seed), fit


def affordable_centers(charted: Charted, options: Options) -> int:
    """How many centres fit into the memory budget.

    Each thread has sums of its own for every fold; two more are the result and a copy.
    """
    groups = 1 + charted.U.shape[1] * int(options.derivatives)
    matrices = N_FOLDS * (thread_count(options.n_jobs) + 2)
    return max(1, math.isqrt(options.memory_budget // (8 * matrices)) // groups)


def component_sizes(n: int, wanted: int | None, limits: Limits) -> tuple[int, ...]:
    """Numbers of centres to judge with n rows, few first.

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


def with_all_rows(
    fits: Sequence[Running],
    source: Source,
    sampled: "SampledRows",
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    client: Any = None,
) -> list[Running]:
    """Fits to a sample of the rows, with the others added in one pass."""
    designs = tuple(running.design for running in fits)
    rest = SumOfRows(designs, sampled.known_below, sampled.seed)
    sums = reduce_blocks(source, rest, n_jobs=n_jobs, progress=progress, client=client)
    return [running.plus(own) for running, own in zip(fits, sums, strict=True)]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """A random sample of the rows of a source.

    Attributes:
        block: The rows, in random order.
        known_below: Exactly the rows with smaller row_hashes are in the sample.
        seed: Of the row_hashes.
        complete: Whether these are all rows.
    """

    block: Rows
    known_below: int
    seed: int
    complete: bool


def sample_rows(
    source: Source,
    size: int,
    seed: int,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    client: Any = None,
) -> SampledRows:
    """Draw a sample in one pass over the rows."""
    sample = reduce_blocks(
        source,
        RowSample(size + 1, seed),
        n_jobs=n_jobs,
        progress=progress,
        client=client,
    )
    if len(sample) <= size:
        return SampledRows(sample, 2**64 - 1, seed, True)
    # Of rows that are alike to the last one it is not known whether they are here.
    last = sample.hashes[-1]
    kept = int(np.searchsorted(sample.hashes, last))
    rows = slice(0, kept)
    block = Rows(sample.X[rows], sample.Y[rows], sample.weights[rows])
    return SampledRows(block, int(last), seed, False)


def _sums(
    design: Design, sample: ScoreSample, folds: Indices, n_jobs: int | None
) -> FoldSums:
    """Sums over rows in the chart of a design, one fold for each thread."""
    parts = [sample.part(np.flatnonzero(folds == k)) for k in range(N_FOLDS)]
    add, start = design.summation.add, design.summation.start
    with single_threaded_blas():
        return tuple(on_threads(lambda part: add(start(), part), parts, n_jobs))


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

    def add(self, state: Array, block: Rows) -> Array:
        new = distinct_hashes(block, self.sample_seed) >= np.uint64(self.known_below)
        block = Rows(block.X[new], block.Y[new], block.weights[new])
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
        known_below: Rows with smaller row_hashes are in the sample.
        sample_seed: Seed of these row_hashes.
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
