"""Rows, folds and centres: what a search holds fixed.

What depends on rows and centres is made for a panel of about a thousand rows at a time
and summed, so that no matrix of all rows exists: memory is bounded by panels times
threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kexpfam._parallel import on_threads, single_threaded_blas, thread_count
from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.kernels import JointKernel
from kexpfam.score_matching import Basis, ScoreSample
from kexpfam.selection.held_out import FoldedRows

# Rows of a panel; few enough for the caches, and enough for products at full speed.
ROW_BLOCK = 1024

Result = TypeVar("Result")


@dataclass(frozen=True)
class HeldOutProblem:
    """Prepared rows in folds, the centres of low-rank fits, and the base density.

    Attributes:
        sample: Rows in the coordinates of the kernel, sorted by fold. Their weights
            need not sum to one.
        folds: Rows of each fold, as slices that follow each other.
        centers: Rows that are centres of the low-rank basis.
        base: q0, not needed by the score.
        reach: Densities are normalised from −reach to reach, at least.
        derivatives: Whether the basis holds derivatives of the kernel too.
    """

    sample: ScoreSample
    folds: tuple[slice, ...]
    centers: Indices
    base: BaseDensity
    reach: float
    derivatives: bool = True

    @property
    def rows(self) -> FoldedRows:
        """The rows as `log_densities_by_score` takes them."""
        return FoldedRows(self.sample.X, self.sample.Y, self.sample.weights, self.folds)

    @property
    def rows_of_folds(self) -> list[Indices]:
        """Numbers of the rows of each fold."""
        return [np.arange(fold.start, fold.stop) for fold in self.folds]

    @property
    def mean_weights(self) -> Array:
        """Row weights that sum to one, (n,)."""
        return self.sample.weights / self.sample.weights.sum()

    def basis(self, kernel: JointKernel) -> Basis:
        """The low-rank basis of a kernel."""
        sample, centers = self.sample, self.centers
        return Basis(kernel, sample.X[centers], sample.Y[centers], self.derivatives)

    def part(self, rows: slice) -> ScoreSample:
        """Some of the rows."""
        return self.sample.part(rows)


@dataclass(frozen=True)
class Panel:
    """Some rows of one fold.

    Attributes:
        fold: Number of the fold.
        rows: Numbers of the rows.
    """

    fold: int
    rows: Indices


def row_blocks_of(folds: Sequence[Indices], height: int = ROW_BLOCK) -> list[Panel]:
    """The rows of each fold in panels of at most `height` rows.

    Example:
        >>> import numpy as np
        >>> blocks = row_blocks_of([np.arange(5), np.arange(2)], 3)
        >>> [len(block.rows) for block in blocks]
        [3, 2, 2]
    """
    return [
        Panel(fold, rows[start : start + height])
        for fold, rows in enumerate(folds)
        for start in range(0, len(rows), height)
    ]


def over_row_blocks(
    work: Callable[[Panel], Result], panels: Sequence[Panel], n_jobs: int | None
) -> list[Result]:
    """Results of all panels in their order; few rows are not shared out."""
    rows = sum(len(panel.rows) for panel in panels)
    threads = max(1, min(thread_count(n_jobs), rows // ROW_BLOCK))
    # The products inside a panel are too small to share among BLAS threads.
    with single_threaded_blas():
        return on_threads(work, panels, threads)
