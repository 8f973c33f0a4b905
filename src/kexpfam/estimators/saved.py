"""What estimators have learned, as files hold it.

A stream that `KCEF.partial_fit` goes on with is written as rows, or as sums. Of each
fold's C one triangle is kept, row by row, which halves the file. Coordinates, base
density, kernel and seed of a stream of sums are those of the family solved from it, and
are not written again: `opened` takes them from there, so that the loaded stream and the
loaded family share them as the saved ones did.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.base_densities import RegressorModel
from kexpfam.data import Rows
from kexpfam.distributions import SupportMap, UnitMap
from kexpfam.errors import CannotSaveError
from kexpfam.estimators.replicates import Replicate
from kexpfam.estimators.streams import KeptRows, Stream, SummedRows
from kexpfam.family import (
    N_FOLDS,
    FittedFamily,
    FoldStatistics,
    LambdaRule,
    LowRankSpec,
    ValidationRows,
)
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import Basis, Statistics
from kexpfam.selection.counts import CountRegression
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.mixtures import FittedMixture
from kexpfam.selection.probabilities import ClassProbabilities
from kexpfam.selection.spec import SUPPORT

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
        "X": "m q moderate",
        "Y": "m d moderate",
        "std": "d positive moderate divisor",
        "folds": f"{N_FOLDS} M",
        "validation": "p=q d",
        "neighbourhood": "p",
    },
    names={"std": "spread", "validation": "judges"},
)
@dataclass(frozen=True, eq=False)
class SavedSums:
    """Statistics, without what the family tells."""

    X: Array  # Conditions of the centres, (m, p)
    Y: Array  # Responses of the centres, (m, d)
    derivatives: int  # Highest order of the derivatives in the basis
    std: Array  # Of the responses in the coordinates of the kernel, (d,)
    folds: tuple[SavedFold, ...]  # Sums over the rows of each fold
    validation: ValidationRows  # Rows that choose λ
    rule: LambdaRule  # How it is found
    sizes: tuple[int, ...]  # Numbers of centres to try, few first
    free: bool  # Whether any of them may be taken
    settled: bool  # Whether λ and centres were chosen together with the spec
    neighbourhood: Neighbourhood  # Of the rows that the spec was chosen on

    def check_saved(self) -> None:
        """Refuse sums that are not of the basis, and rows in other folds."""
        m, d = self.Y.shape
        if self.derivatives not in (0, 1, 2):
            raise ValueError("the basis has unknown functions")
        if len(self.folds[0].b) != m * (1 + d * self.derivatives):
            raise ValueError("array b of SavedFold is not of the basis")
        if not sum(fold.weight for fold in self.folds) > 0:
            raise ValueError("the sums are over no rows")
        if self.validation.folds.max() >= N_FOLDS:
            raise ValueError(f"the validation rows are not in {N_FOLDS} folds")
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
            raise ValueError(f"T has {m} centres, which were not tried")


@saved_fit(
    {
        "family": "p d",
        "neighbourhood": "p",
        "stream": "p d optional",
        "support": "optional",
        "replicates": "B p d optional",
    }
)
@dataclass(frozen=True, eq=False)
class FittedModel:
    """What `KCEF` and `KEF` have learned.

    Attributes:
        family: The fitted family.
        neighbourhood: The rows behind `reliability`; None without conditions.
        stream: What `partial_fit` goes on with; None if it was not to be saved.
        support: The map of y to the line; None without bounds.
        replicates: Fits that bands are from; None without.
    """

    family: FittedFamily
    neighbourhood: Neighbourhood | None = None
    stream: Rows | SavedSums | None = None
    support: SupportMap | None = None
    replicates: tuple[FittedFamily, ...] | None = None

    @classmethod
    def of(
        cls, estimator: Any, family: FittedFamily, stream: Stream | None = None
    ) -> "FittedModel":
        """What an estimator has learned; a scikit-learn regressor cannot be saved."""
        if isinstance(family.coordinates.location_scale, RegressorModel):
            raise CannotSaveError(
                f"A model with base={estimator.base!r} cannot be saved: fitted "
                f"scikit-learn regressors have no file format that is safe to open. "
                f"Save the data and fit again."
            )
        neighbourhood = getattr(estimator, "neighbourhood_", None)
        support = getattr(estimator, "support_", None)
        kept = None if stream is None else closed(stream)
        return cls(family, neighbourhood, kept, support, estimator.replicates_ or None)

    def check_saved(self) -> None:
        """Refuse what is missing, or too much, with conditions or without."""
        if (self.neighbourhood is None) != (self.family.coordinates.p == 0):
            raise ValueError("the neighbourhood of x is missing")
        if self.stream is not None and not self.family.coordinates.p:
            raise ValueError("a family without conditions takes no more rows")
        if self.support is not None and self.family.d > 1:
            raise ValueError("bounds are for one column of y")
        if self.replicates and (len(self.replicates) == 1 or self.family.d > 1):
            raise ValueError("there is one replicate, or one of several columns of y")
        if isinstance(self.stream, SavedSums):
            self.stream.check_family(self.family.T)


@saved_fit(
    {"weight": "positive share", "family": "p d"}, names={"coordinates": "chart"}
)
@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member of an average, without what is told by its family."""

    weight: float  # Its share
    coordinates: str  # Name of its coordinates
    method: str  # How it was fitted; "none" for a base density alone
    held_out: float  # Mean held-out log density
    family: FittedFamily  # The fit to all rows

    def check_saved(self) -> None:
        """Refuse kernels that no member has."""
        if not self.family.T.kernel.products:
            raise ValueError("the kernel of a member is not a sum of products")


@saved_fit(
    {
        "neighbourhood": "p",
        "members": "s p d=1",  # none beside a mixture of regressions
        "best": "p d=1",
        "defensive_weight": "nonnegative share",
        "n_candidates": "positive",
        "calibration": "optional",
        "replicates": "B p optional",
        "support": "optional",
        "beyond": "optional",
        "rounding": "nonnegative",
        "mixture": "p optional",
        "beyond_weight": "nonnegative share",
    },
    names={"defensive_weight": "guard_weight", "defensive": "guard"},
)
@dataclass(frozen=True, eq=False)
class FittedAverage:
    """What `AutoKCEF` has learned."""

    members: tuple[FittedMember, ...]  # Largest weight first
    defensive_weight: float
    # The defensive component; in older files its centre and scale, the same at all x
    defensive: DefensiveComponent | tuple[float, float]
    best: FittedFamily  # The best single family
    best_method: str  # How it was fitted
    neighbourhood: Neighbourhood  # The rows behind `reliability`
    n_candidates: int  # How many were tried
    stopped: str  # Why no more were
    calibration: UnitMap | None = None  # Of PIT values; None if there is none
    replicates: tuple[Replicate, ...] | None = None  # Fits that bands are from
    support: SupportMap | None = None  # Of y to the line; None without bounds
    beyond: DefensiveComponent | None = None  # Beside bounds that are only likely
    rounding: float = 0.0  # Width that y was rounded to
    mixture: FittedMixture | None = None  # Of regressions, if that is a member
    beyond_weight: float = SUPPORT.beyond  # Mass of that; older files have none

    def check_saved(self) -> None:
        """Refuse shares of something else than one, and what is no density."""
        total = sum(member.weight for member in self.members) + self.defensive_weight
        total += 0.0 if self.mixture is None else self.mixture.weight
        if not abs(total - 1.0) < _ROUNDING:
            raise ValueError("the weights do not sum to one")
        counts = [len(replicate.families) for replicate in self.replicates or ()]
        if len(counts) == 1 or any(count != len(self.members) for count in counts):
            raise ValueError("there is one replicate, or one with other members")
        if isinstance(self.defensive, tuple) and not self.defensive[1] > 0:
            raise ValueError("the defensive component is not a density")
        p = len(self.neighbourhood.center)
        if not p:
            raise ValueError("an average has conditions")
        others = [self.defensive_component, self.beyond or self.defensive_component]
        if any(component.coordinates.p != p for component in others):
            raise ValueError("the defensive component has other conditions")

    @property
    def defensive_component(self) -> DefensiveComponent:
        """The defensive component, whatever the file has."""
        if isinstance(self.defensive, DefensiveComponent):
            return self.defensive
        p = len(self.neighbourhood.center)
        return DefensiveComponent.everywhere(p, *self.defensive)


@saved_fit(
    {"values": "k", "neighbourhood": "p", "rest": "p", "rounding": "nonnegative"}
)
@dataclass(frozen=True, eq=False)
class FittedAtoms:
    """What `AutoKCEF` has learned of y with atoms."""

    values: Array  # Of the atoms
    classes: ClassProbabilities  # Of each of them, and of the rest as the last
    rest: FittedAverage  # The density of the rest
    neighbourhood: Neighbourhood  # Of all rows
    rounding: float = 0.0  # Width that y was rounded to

    def check_saved(self) -> None:
        """Refuse atoms in disorder, and probabilities of others."""
        if np.any(np.diff(self.values) <= 0):
            raise ValueError("array values of FittedAtoms does not increase")
        if len(self.classes.shares) != len(self.values) + 1:
            raise ValueError("the probabilities are not those of the atoms")
        _check_columns(self.neighbourhood, self.classes)


@saved_fit(
    {
        "values": "k",
        "weights": "m nonnegative share",
        "seen": "c",
        "neighbourhood": "p",
        "classes": "optional",
        "rest": "p optional",
        "rounding": "nonnegative",
    }
)
@dataclass(frozen=True, eq=False)
class FittedCounts:
    """What `AutoKCEF` has learned of counts."""

    values: Array  # Whole numbers with a probability
    weights: Array  # Of the members that follow
    regressions: tuple[CountRegression, ...]
    seen: Array  # Values that classes are of
    held_out: float  # Mean held-out log probability
    neighbourhood: Neighbourhood
    classes: ClassProbabilities | None = None
    rest: FittedAverage | None = None  # The density of y + u
    rounding: float = 0.0  # Width that y was rounded to

    def check_saved(self) -> None:
        """Refuse values that are no counts, and weights of other members."""
        members = len(self.regressions)
        whole = np.arange(len(self.values)) + np.rint(self.values[0])
        few = not members and self.rest is None and np.all(np.diff(self.values) > 0)
        if not few and not np.array_equal(whole, self.values):
            raise ValueError("array values of FittedCounts are no counts")
        members += (self.classes is not None) + (self.rest is not None)
        if len(self.weights) != members or abs(self.weights.sum() - 1.0) > _ROUNDING:
            raise ValueError("the weights are not those of the members")
        if not np.all(np.isin(self.seen, self.values)):
            raise ValueError("array seen of FittedCounts has other values")
        if self.classes is not None and len(self.classes.shares) != len(self.seen):
            raise ValueError("the probabilities are of other values")
        _check_columns(self.neighbourhood, self.classes, *self.regressions)


def _check_columns(neighbourhood: Neighbourhood, *parts: Any) -> None:
    """Refuse parts that look at other columns of x."""
    p = len(neighbourhood.center)
    for part in parts:
        if part is not None and part.p not in (p, None):
            raise ValueError("a part has other conditions")


@saved_fit({"columns": "k"})
@dataclass(frozen=True, eq=False)
class FittedColumns:
    """What `AutoKCEF` has learned of several columns of y."""

    # Each given x and the columns before it
    columns: tuple[FittedAverage | FittedAtoms | FittedCounts, ...]
    names: tuple[str | int, ...]  # Of the columns of y

    def check_saved(self) -> None:
        """Refuse columns whose conditions are not x and the columns before them."""
        counts = [len(column.neighbourhood.center) for column in self.columns]
        expected = list(range(counts[0], counts[0] + len(counts)))
        if len(counts) < 2 or counts != expected or len(self.names) != len(counts):
            raise ValueError("the columns of y do not follow each other")


def closed(stream: Stream) -> Rows | SavedSums:
    """A stream as files hold it."""
    if isinstance(stream, KeptRows):
        return stream.rows
    assert isinstance(stream, SummedRows)
    stats, basis = stream.statistics, stream.statistics.spec.basis
    lower = _lower(basis.size)
    return SavedSums(
        basis.X,
        basis.Y,
        int(basis.derivatives),
        stats.spec.std,
        tuple(SavedFold(own.C[lower], own.b, own.weight) for own in stats.sums),
        stats.validation,
        stats.rule,
        stats.sizes,
        stats.free,
        stats.settled,
        stream.neighbourhood,
    )


def opened(saved: Rows | SavedSums, family: FittedFamily) -> Stream:
    """The stream that was saved with a family."""
    if isinstance(saved, Rows):
        return KeptRows(saved)
    basis = Basis(family.T.kernel, saved.X, saved.Y, saved.derivatives)
    spec = LowRankSpec(family.coordinates, family.base, basis, saved.std, family.seed)
    lower = _lower(basis.size)
    statistics = FoldStatistics(
        spec,
        tuple(_opened_fold(fold, lower) for fold in saved.folds),
        saved.validation,
        saved.rule,
        saved.sizes,
        saved.free,
        saved.settled,
    )
    return SummedRows(statistics, saved.neighbourhood)


def _lower(size: int) -> Mask:
    """Which entries of C are saved."""
    return np.tri(size, dtype=np.bool_)


def _opened_fold(fold: SavedFold, lower: Mask) -> Statistics:
    C = np.zeros(lower.shape)
    C[lower] = fold.triangle
    C += np.tril(C, -1).T
    # Two folds without rows share an array in the file.
    return Statistics(C, fold.b.copy(), fold.weight)
