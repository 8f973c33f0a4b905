"""λ and the number of centres, from sums over all rows.

The sums of each fold are subtracted from the total, so that a fit without it costs one
small Cholesky factorisation for each λ, however many rows there are. The first centres
of a basis are a basis too, whose sums are among those of the whole one: half as many
centres can be judged at no price, and whether more of them would help can be told.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array, Indices
from kexpfam.errors import IllConditionedError
from kexpfam.models.design import Design, FoldSums, Judges
from kexpfam.score_matching import Basis, Statistics, Summation
from kexpfam.selection import Normalizer, judged_log_densities

# λ to try, in multiples of the one chosen with fewer rows: more rows need less.
LAM_FACTORS = tuple(10.0 ** np.arange(1.0, -4.1, -0.5))

# Fewer centres are taken if they lose no more than this, in nats per row.
TOLERANCE = 0.002

# Systems up to this size are factorised by one thread, in 50 ms or less: on a busy
# machine threads of BLAS wait for each other for longer than that.
_SMALL = 2000


@dataclass(frozen=True)
class ComponentTrial:
    """The best fit with some number of centres.

    Attributes:
        n_components: Number of centres.
        regularization: The λ that was best with them.
        merit: Mean held-out log density, or minus the held-out score.
        error: Its standard error; NaN for the score.
    """

    n_components: int
    regularization: float
    merit: float
    error: float


@dataclass(frozen=True, eq=False)
class Components:
    """How many centres a low-rank fit has, and whether more of them would help.

    Attributes:
        trials: What was judged, few centres first.
        chosen: The one that was taken.
        gain: What the larger half of the most centres that were judged gained, in nats
            per row.
        gain_error: Standard error of that.
    """

    trials: tuple[ComponentTrial, ...]
    chosen: ComponentTrial
    gain: float
    gain_error: float

    @property
    def more_would_help(self) -> bool:
        """Whether the last doubling gained more than tolerance and chance."""
        most = self.trials[-1].n_components
        worth = self.gain > max(TOLERANCE, 2.0 * np.nan_to_num(self.gain_error))
        return bool(self.chosen.n_components == most and worth)

    def __str__(self) -> str:
        lines = [f"{'centres':>8}  {'held out':>9}  {'± error':>8}  regularization"]
        for trial in self.trials:
            mark = "  <- taken" if trial is self.chosen else ""
            lines.append(
                f"{trial.n_components:8d}  {trial.merit:9.4f}  {trial.error:8.4f}  "
                f"{trial.regularization:.3g}{mark}"
            )
        if len(self.trials) > 1:
            lines.append(
                f"the last doubling gained {self.gain:.4f} ± {self.gain_error:.4f}: "
                f"more centres would {'' if self.more_would_help else 'hardly '}help"
            )
        return "\n".join(lines)


def choose_components(
    design: Design,
    sums: FoldSums,
    judges: Judges,
    *,
    objective: str,
    lams: Sequence[float],
    sizes: Sequence[int],
    free: bool = True,
) -> Components | None:
    """Judge numbers of centres, few first, and λ by what is held out.

    If not free, only the last number may be taken. None if some fold is empty, or if no
    fit succeeds.
    """
    if min(own.weight for own in sums) <= 0 or not len(judges.keys):
        return None  # so few rows that a fold has none
    full = [Summation.finished(own) for own in sums]
    R = design.basis.gram()
    merits_of: _Merits = _judging_folds
    share = np.array([own.weight for own in sums])
    share = share / share.sum()
    if objective == "likelihood":
        share, merits_of = _judging_rows(design, judges)
    judged: list[_Judged] = []
    for size in sizes:
        index = leading_functions(design.basis, size)
        parts = [own.of_functions(index) for own in full]
        near = lams
        if judged:  # within an order of magnitude of the best with fewer centres
            near = [lam for lam in lams if 0.09 < lam / judged[-1].lam < 11.0]
        with single_threaded_blas() if len(index) <= _SMALL else nullcontext():
            merits = merits_of(parts, R[np.ix_(index, index)], size, near)
        judged.append(_Judged.of(size, merits, near, share))
        if free and len(judged) > 1 and judged[-1].mean < judged[-2].mean + TOLERANCE:
            break  # more would not help either
    return _chosen(judged, share, free)


def leading_functions(basis: Basis, centers: int) -> Indices:
    """Which functions of a basis are at its first centres."""
    groups = np.arange(len(basis.orders))[:, None] * len(basis.Y)
    return (groups + np.arange(centers)).ravel()


def leading_basis(basis: Basis, centers: int) -> Basis:
    """The basis of the first centres."""
    return replace(basis, X=basis.X[:centers], Y=basis.Y[:centers])


# Merit of each held-out unit under fits without its fold, (l, units), from the sums of
# each fold, R, the number of centres and the values of λ.
_Merits = Callable[[list[Statistics], Array, int, Sequence[float]], Array]


def _judging_rows(design: Design, judges: Judges) -> tuple[Array, _Merits]:
    """Shares of rows, and their log densities."""
    reach = float(np.max(np.abs(design.base.column_range(0))))
    rows, log_abs_det_jacobian = judges.in_folds
    normalizer = Normalizer.of(design.basis, rows, design.base, reach)

    def merits(
        parts: list[Statistics], R: Array, size: int, lams: Sequence[float]
    ) -> Array:
        leading = normalizer.leading(size)
        return (
            judged_log_densities(leading, parts, R, rows.folds, lams)
            + log_abs_det_jacobian
        )

    return rows.weights / rows.weights.sum(), merits


def _judging_folds(
    parts: list[Statistics], R: Array, size: int, lams: Sequence[float]
) -> Array:
    """Minus the score-matching losses of the folds, ½αᵀCα + bᵀα."""
    total = functools.reduce(operator.add, parts)
    found = np.full((len(lams), len(parts)), -np.inf)
    for k, own in enumerate(parts):
        rest = total - own
        for j, lam in enumerate(lams):
            with suppress(IllConditionedError):
                alpha = rest.solve(R, lam)
                loss = 0.5 * alpha @ own.C @ alpha + own.b @ alpha
                found[j, k] = -loss / own.weight
    return found


@dataclass(frozen=True, eq=False)
class _Judged:
    """The best λ with some number of centres, and the merit of every unit with it."""

    size: int
    lam: float
    mean: float
    merit: Array

    @classmethod
    def of(
        cls, size: int, merits: Array, lams: Sequence[float], share: Array
    ) -> "_Judged":
        means = np.nan_to_num(merits @ share, nan=-np.inf, neginf=-np.inf)
        k = int(np.argmax(means))
        return cls(size, float(lams[k]), float(means[k]), merits[k])


def _chosen(judged: list[_Judged], share: Array, free: bool) -> Components | None:
    trials = tuple(
        ComponentTrial(one.size, one.lam, one.mean, _standard_error(one.merit, share))
        for one in judged
    )
    top = max(one.mean for one in judged)
    if not np.isfinite(top):
        return None
    good = [trial for trial in trials if trial.merit >= top - TOLERANCE]
    chosen = good[0] if free else trials[-1]
    gain = np.zeros(len(share))
    if len(judged) > 1:
        gain = judged[-1].merit - judged[-2].merit
    error = _standard_error(gain, share)
    return Components(trials, chosen, float(gain @ share), error)


def _standard_error(values: Array, share: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.sqrt(share**2 @ (values - values @ share) ** 2))
