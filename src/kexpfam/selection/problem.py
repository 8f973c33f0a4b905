"""Rows, folds and centres: what a search holds fixed."""

import itertools
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

    @classmethod
    def make(
        cls,
        sample: ScoreSample,
        base: BaseDensity,
        n_folds: int,
        rng: np.random.Generator,
        *,
        n_centers: int | None = None,
        reach: float | None = None,
        derivatives: bool = True,
    ) -> "HeldOutProblem":
        """Rows shuffled into folds of equal size, with random rows as centres.

        Args:
            sample: Rows in any order.
            base: q0 in the coordinates of the kernel.
            n_folds: Number of folds, 2 to n.
            rng: Shuffles the rows and draws the centres.
            n_centers: Number of centres; None for all rows.
            reach: How far densities are normalised; None for the range of the base.
            derivatives: Whether the basis holds derivatives of the kernel too.

        Raises:
            ValueError: There are fewer rows than folds, or fewer than two folds.
        """
        n = len(sample.Y)
        if not 2 <= n_folds <= n:
            raise ValueError(
                f"n_folds must lie between 2 and the number of rows ({n}), got "
                f"{n_folds}."
            )
        order = rng.permutation(n)
        edges = np.linspace(0, n, n_folds + 1).astype(int)
        folds = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(edges))
        chosen = np.arange(n)
        if n_centers is not None and n_centers < n:
            chosen = np.sort(rng.choice(n, n_centers, replace=False))
        if reach is None:
            reach = float(np.max(np.abs(base.column_range(0))))
        return cls(sample.part(order), folds, chosen, base, reach, derivatives)

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
