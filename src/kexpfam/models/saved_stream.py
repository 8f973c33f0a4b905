"""What `KCEF.partial_fit` goes on with, as a file holds it.

Of each fold's C one triangle is kept, row by row, which halves the file. Chart, base
density, kernel and seed of a stream of sums are those of the family solved from it, and
are not written again: `opened` takes them from there, so that the loaded stream and
the loaded family share them as the saved ones did.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.blocks import Block
from kexpfam.models.design import N_FOLDS, Design, Judges
from kexpfam.models.family import FittedFamily
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import LambdaRule, Running
from kexpfam.models.saved_checks import (
    height,
    length,
    require,
    require_lengths,
    require_moderate,
    require_shapes,
)
from kexpfam.models.stream import Kept, Stream, Summed
from kexpfam.score_matching import Basis, Statistics


@dataclass(frozen=True, eq=False)
class SavedRows:
    """Rows that are known one by one, in the units of the user.

    Attributes:
        X: (n, p).
        Y: (n, d).
        weights: (n,), not negative.
    """

    X: Array
    Y: Array
    weights: Array


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


@dataclass(frozen=True, eq=False)
class SavedJudges:
    """Rows on which λ is judged.

    Attributes:
        X: Conditions in the coordinates of the kernel, (k, p).
        U: Responses in these coordinates, (k, d).
        weights: (k,), not negative.
        log_slope: Log |du/dy| of each row, (k,).
        folds: Fold of each row, (k,).
        keys: Which rows are kept when there are more, (k,).
    """

    X: Array
    U: Array
    weights: Array
    log_slope: Array
    folds: Array
    keys: Array


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
    judges: SavedJudges
    rule: LambdaRule
    sizes: tuple[int, ...]
    free: bool
    settled: bool
    neighbourhood: Neighbourhood

    @property
    def size(self) -> int:
        """Number of functions in the basis, M."""
        m, d = self.Y.shape
        return m * (1 + d * self.derivatives)


SavedStream = SavedRows | SavedSums


def closed(stream: Stream) -> SavedStream:
    """A stream as files hold it."""
    if isinstance(stream, Kept):
        return SavedRows(stream.rows.X, stream.rows.Y, stream.rows.weights)
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
        _closed_judges(running.judges),
        running.rule,
        running.sizes,
        running.free,
        running.settled,
        stream.neighbourhood,
    )


def opened(saved: SavedStream, family: FittedFamily) -> Stream:
    """The stream that was saved, after `check_stream`."""
    if isinstance(saved, SavedRows):
        return Kept(Block(saved.X, saved.Y, saved.weights))
    basis = Basis(family.T.kernel, saved.X, saved.Y, saved.derivatives)
    design = Design(family.chart, family.base, basis, saved.spread, family.seed)
    lower = _lower(basis.size)
    running = Running(
        design,
        tuple(_opened_fold(fold, lower) for fold in saved.folds),
        _opened_judges(saved.judges),
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


def _closed_judges(judges: Judges) -> SavedJudges:
    return SavedJudges(
        judges.Z,
        judges.U,
        judges.weights,
        judges.log_slope,
        judges.folds.astype(np.float64),
        judges.keys,
    )


def _opened_judges(judges: SavedJudges) -> Judges:
    return Judges(
        judges.X,
        judges.U,
        judges.weights,
        judges.log_slope,
        judges.folds.astype(np.intp),
        judges.keys,
    )


def check_rows(rows: SavedRows) -> None:
    """As many responses and weights as conditions."""
    n = height(rows, "X")
    require(height(rows, "Y") == n, f"array Y of SavedRows has not {n} rows")
    require_shapes(rows, weights=(n,))
    _require_weights(rows)


def check_fold(fold: SavedFold) -> None:
    """A triangle as long as its b asks for, over rows of some weight or none."""
    size = length(fold, "b")
    require_shapes(fold, triangle=(size * (size + 1) // 2,))
    require_moderate(fold, "triangle", "b", "weight")
    require(fold.weight >= 0, "the weight of a fold is negative")
    # A sum of squares; row i of the triangle ends with its entry (i, i).
    diagonal = fold.triangle[np.cumsum(np.arange(1, size + 1)) - 1]
    require(np.all(diagonal >= 0), "array triangle has a negative diagonal")


def check_judges(judges: SavedJudges) -> None:
    """Rows in as many folds as there are sums."""
    k, d = height(judges, "X"), np.shape(judges.U)[-1:]
    require_shapes(judges, U=(k, *d))
    require_shapes(judges, weights=(k,), log_slope=(k,), folds=(k,), keys=(k,))
    require_moderate(judges, "X", "U", "weights", "log_slope", "keys")
    _require_weights(judges)
    known = np.isin(judges.folds, np.arange(N_FOLDS)).all()
    require(known, f"the judges are not in {N_FOLDS} folds")


def check_rule(rule: LambdaRule) -> None:
    """A known objective, and a positive λ."""
    known = rule.objective in ("likelihood", "score", None)
    require(known, "λ is judged by something unknown")
    require(rule.start is None or rule.start > 0, "λ of LambdaRule must be positive")


def check_sums(sums: SavedSums) -> None:
    """Sums and judges that are of the basis and its columns."""
    m, p, d = height(sums, "X"), sums.X.shape[1], length(sums, "spread")
    require_shapes(sums, Y=(m, d))
    require_shapes(sums.judges, X=(len(sums.judges.X), p), U=(len(sums.judges.U), d))
    require_moderate(sums, "X", "Y")
    require_lengths(sums, "spread")
    require(d and sums.derivatives in (0, 1, 2), "the basis has unknown functions")
    require(len(sums.folds) == N_FOLDS, f"there are not sums of {N_FOLDS} folds")
    for fold in sums.folds:
        require_shapes(fold, b=(sums.size,))
    total = sum(fold.weight for fold in sums.folds)
    require(total > 0, "the sums are over no rows")
    require(
        sums.sizes and sums.sizes[0] > 0 and sums.sizes[-1] == m,
        f"the numbers of centres do not end with {m}",
    )
    rising = all(first < second for first, second in pairwise(sums.sizes))
    require(rising, "the numbers of centres are in disorder")
    require(len(sums.neighbourhood.center) == p, "the neighbourhood is of other x")


def check_stream(saved: SavedStream, family: FittedFamily) -> None:
    """Rows or sums of the columns of a family, and sums of its basis."""
    p, d = family.chart.p, family.chart.d
    require(p, "a family without conditions takes no more rows")
    name = type(saved).__name__
    seen = saved.X.shape[1], saved.Y.shape[1]
    require(seen == (p, d), f"array X or Y of {name} has other columns")
    if isinstance(saved, SavedRows):
        return
    T, m = family.T, len(family.T.Y)
    leading = np.array_equal(saved.X[:m], T.X) and np.array_equal(saved.Y[:m], T.Y)
    require(leading, f"array X or Y of {name} has other centres than T")
    held = [part is not None for part in (T.zeroth, T.first, T.second)]
    wanted = [order <= saved.derivatives for order in range(3)]
    require(held == wanted, f"the basis of {name} has other functions than T")
    require(m in saved.sizes, f"T has {m} centres, which were not judged")


def _require_weights(owner: SavedRows | SavedJudges) -> None:
    name = type(owner).__name__
    require(np.all(owner.weights >= 0), f"weights of {name} must not be negative")
    require(owner.weights.sum() > 0, f"weights of {name} are all zero")
