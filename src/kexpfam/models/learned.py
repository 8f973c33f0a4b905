"""What estimators have learned, as files hold it.

A stream that `KCEF.partial_fit` goes on with is written as rows, or as sums. Of each
fold's C one triangle is kept, row by row, which halves the file. Chart, base density,
kernel and seed of a stream of sums are those of the family solved from it, and are not
written again: `opened` takes them from there, so that the loaded stream and the loaded
family share them as the saved ones did.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.base_densities import RegressorModel
from kexpfam.blocks import Block
from kexpfam.errors import CannotSaveError
from kexpfam.kernels import SumOfProducts
from kexpfam.models.design import N_FOLDS, Design, Judges
from kexpfam.models.family import FittedFamily
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import Kept, LambdaRule, Running, Stream, Summed
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import Basis, Statistics

# Weights of an average sum to one, up to the rounding of many members.
_ROUNDING = 1e-6


@saved_fit(
    {"triangle": "t moderate", "b": "M moderate", "weight": "nonnegative moderate"}
)
@dataclass(frozen=True, eq=False)
class SavedFold:
    """Sums over the rows of a fold.

    Attributes:
        triangle: Lower triangle of C, row by row, (M (M + 1) / 2,).
        b: (M,).
        weight: Sum of the row weights.
    """

    triangle: Array
    b: Array
    weight: float

    def check_saved(self) -> None:
        """Refuse a triangle of another size, or of no sum of squares."""
        ends = np.cumsum(np.arange(1, len(self.b) + 1))  # of its rows
        if len(self.triangle) != ends[-1]:
            raise ValueError(f"array triangle of SavedFold has not {ends[-1]} numbers")
        if np.any(self.triangle[ends - 1] < 0):
            raise ValueError("array triangle has a negative diagonal")


@saved_fit(
    {
        "X": "m p moderate",
        "Y": "m d moderate",
        "spread": "d positive moderate divisor",
        "folds": f"{N_FOLDS} M",
        "judges": "p d",
        "neighbourhood": "p",
    }
)
@dataclass(frozen=True, eq=False)
class SavedSums:
    """Sums for a design, without what the family tells.

    Attributes:
        X: Conditions of the centres, (m, p).
        Y: Responses of the centres, (m, d).
        derivatives: Highest order of the derivatives in the basis.
        spread: Deviation of the responses in the coordinates of the kernel, (d,).
        folds: Sums over the rows of each fold.
        judges: Rows on which λ is judged.
        rule: How λ is found.
        sizes: Numbers of centres that are judged, few first.
        free: Whether any of them may be taken.
        settled: Whether λ and centres were judged together with the design.
        neighbourhood: Where the rows are that the design was chosen on.
    """

    X: Array
    Y: Array
    derivatives: int
    spread: Array
    folds: tuple[SavedFold, ...]
    judges: Judges
    rule: LambdaRule
    sizes: tuple[int, ...]
    free: bool
    settled: bool
    neighbourhood: Neighbourhood

    def check_saved(self) -> None:
        """Refuse sums that are not of the basis, and judges in other folds."""
        m, d = self.Y.shape
        if self.derivatives not in (0, 1, 2):
            raise ValueError("the basis has unknown functions")
        if len(self.folds[0].b) != m * (1 + d * self.derivatives):
            raise ValueError("array b of SavedFold is not of the basis")
        if not sum(fold.weight for fold in self.folds) > 0:
            raise ValueError("the sums are over no rows")
        if self.judges.folds.max() >= N_FOLDS:
            raise ValueError(f"the judges are not in {N_FOLDS} folds")
        if not self.sizes or self.sizes[0] <= 0 or self.sizes[-1] != m:
            raise ValueError(f"the numbers of centres do not end with {m}")
        if not all(first < second for first, second in pairwise(self.sizes)):
            raise ValueError("the numbers of centres are in disorder")

    def check_family(self, T: Any) -> None:
        """Refuse the sums of another basis than that of a fitted function."""
        m = len(T.Y)
        if not (np.array_equal(self.X[:m], T.X) and np.array_equal(self.Y[:m], T.Y)):
            raise ValueError("array X or Y of SavedSums has other centres than T")
        held = [part is not None for part in (T.zeroth, T.first, T.second)]
        if held != [order <= self.derivatives for order in range(3)]:
            raise ValueError("the basis of SavedSums has other functions than T")
        if m not in self.sizes:
            raise ValueError(f"T has {m} centres, which were not judged")


@saved_fit({"family": "p d", "neighbourhood": "p", "stream": "p d optional"})
@dataclass(frozen=True, eq=False)
class FittedModel:
    """What `KCEF` and `KEF` have learned.

    Attributes:
        family: The fitted family.
        neighbourhood: The rows behind `reliability`; None without conditions.
        stream: What `partial_fit` goes on with; None if it was not to be saved.
    """

    family: FittedFamily
    neighbourhood: Neighbourhood | None = None
    stream: Block | SavedSums | None = None

    @classmethod
    def of(
        cls, estimator: Any, family: FittedFamily, stream: Stream | None = None
    ) -> "FittedModel":
        """What an estimator has learned; a scikit-learn regressor cannot be saved."""
        if isinstance(family.chart.frame, RegressorModel):
            raise CannotSaveError(
                f"A model with base={estimator.base!r} cannot be saved: fitted "
                f"scikit-learn regressors have no file format that is safe to open. "
                f"Save the data and fit again."
            )
        neighbourhood = getattr(estimator, "neighbourhood_", None)
        return cls(family, neighbourhood, None if stream is None else closed(stream))

    def check_saved(self) -> None:
        """Refuse what is missing, or too much, with conditions or without."""
        if (self.neighbourhood is None) != (self.family.chart.p == 0):
            raise ValueError("the neighbourhood of x is missing")
        if self.stream is not None and not self.family.chart.p:
            raise ValueError("a family without conditions takes no more rows")
        if isinstance(self.stream, SavedSums):
            self.stream.check_family(self.family.T)


@saved_fit({"weight": "positive share", "family": "p d"})
@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member of an average, without what is told by its family.

    Attributes:
        weight: Its share.
        chart: Name of its chart.
        method: How it was fitted; "none" for a base density alone.
        held_out: Mean held-out log density.
        family: The fit to all rows.
    """

    weight: float
    chart: str
    method: str
    held_out: float
    family: FittedFamily

    def check_saved(self) -> None:
        """Refuse kernels that no member has."""
        kernel = self.family.T.kernel
        if not isinstance(kernel, SumOfProducts) or len(kernel.terms) != 1:
            raise ValueError("the kernel of a member is not one product")


@saved_fit(
    {
        "neighbourhood": "p",
        "members": "k p d=1",
        "best": "p d=1",
        "guard_weight": "nonnegative share",
        "n_candidates": "positive",
    }
)
@dataclass(frozen=True, eq=False)
class FittedAverage:
    """What `AutoKCEF` has learned.

    Attributes:
        members: Largest weight first.
        guard_weight: Weight of the guard.
        guard: Centre and scale of the guard.
        best: The best single family.
        best_method: How it was fitted.
        neighbourhood: The rows behind `reliability`.
        n_candidates: How many families competed.
        stopped: Why no more were tried.
    """

    members: tuple[FittedMember, ...]
    guard_weight: float
    guard: tuple[float, float]
    best: FittedFamily
    best_method: str
    neighbourhood: Neighbourhood
    n_candidates: int
    stopped: str

    def check_saved(self) -> None:
        """Refuse shares of something else than one, and what is no density."""
        total = sum(member.weight for member in self.members) + self.guard_weight
        if not abs(total - 1.0) < _ROUNDING:
            raise ValueError("the weights do not sum to one")
        if not self.guard[1] > 0:
            raise ValueError("the guard is not a density")
        if not len(self.neighbourhood.center):
            raise ValueError("an average has conditions")


def closed(stream: Stream) -> Block | SavedSums:
    """A stream as files hold it."""
    if isinstance(stream, Kept):
        return stream.rows
    assert isinstance(stream, Summed)
    running = stream.running
    design, basis = running.design, running.design.basis
    lower = _lower(basis.size)
    return SavedSums(
        basis.X,
        basis.Y,
        int(basis.derivatives),
        design.spread,
        tuple(SavedFold(own.C[lower], own.b, own.weight) for own in running.sums),
        running.judges,
        running.rule,
        running.sizes,
        running.free,
        running.settled,
        stream.neighbourhood,
    )


def opened(saved: Block | SavedSums, family: FittedFamily) -> Stream:
    """The stream that was saved with a family."""
    if isinstance(saved, Block):
        return Kept(saved)
    basis = Basis(family.T.kernel, saved.X, saved.Y, saved.derivatives)
    design = Design(family.chart, family.base, basis, saved.spread, family.seed)
    lower = _lower(basis.size)
    running = Running(
        design,
        tuple(_opened_fold(fold, lower) for fold in saved.folds),
        saved.judges,
        saved.rule,
        saved.sizes,
        saved.free,
        saved.settled,
    )
    return Summed(running, saved.neighbourhood)


def _lower(size: int) -> Mask:
    """Which entries of C are summed."""
    return np.tri(size, dtype=np.bool_)


def _opened_fold(fold: SavedFold, lower: Mask) -> Statistics:
    C = np.zeros(lower.shape, order="F")
    C[lower] = fold.triangle
    # Two folds without rows share an array in the file.
    return Statistics(C, fold.b.copy(), fold.weight)
