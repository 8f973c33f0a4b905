"""Rows, folds and centres: what a search holds fixed."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.kernels import JointKernel
from kexpfam.score_matching import Basis, ScoreSample
from kexpfam.selection.held_out import Rows


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
    def rows(self) -> Rows:
        """The rows as `held_out_log_densities` takes them."""
        return Rows(self.sample.X, self.sample.Y, self.sample.weights, self.folds)

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
