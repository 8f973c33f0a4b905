"""Experts: whatever is a candidate of an average beside the families of this package.

An average needs of a member the log densities that it gives to training rows it has not
seen, and the densities `given(X)`. Kernel families are one kind of member; whatever can
`fit(X, y)`, and whose `given` returns densities of `kexpfam.distributions`, is another.
A regressor says nothing of densities, but what it predicts can be a summary of x, on
which families are fitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from kexpfam._typing import Array
from kexpfam.data import Rows
from kexpfam.distributions import OneColumnDensity
from kexpfam.errors import CannotSaveError
from kexpfam.family import RowsBeyond
from kexpfam.family.cross_validation import LOWEST_LOG_DENSITY
from kexpfam.selection.mixtures import MixtureExpert
from kexpfam.summaries import LearnedSummary

# Kinds of our own that can be named: kernel families on x, on a learned summary, and a
# mixture of regressions.
FAMILIES, SUMMARIES, MIXTURES = "families", "summaries", "mixtures"
OWN = frozenset({FAMILIES, SUMMARIES, MIXTURES})


@dataclass(frozen=True)
class ExpertSpec:
    """The candidates of an average, beside the null model.

    Example:
        >>> from kexpfam.baselines import ConditionalKDE
        >>> who = ExpertSpec.of(["families", ConditionalKDE()])
        >>> who.families, who.summaries, who.estimators
        (True, False, {'ConditionalKDE': ConditionalKDE()})
    """

    families: bool  # Kernel families on x
    summaries: bool  # And on the summary of x that this package would learn
    mixtures: bool  # Mixtures of regressions
    estimators: dict[str, Any]  # Densities of the user's, by name
    given_summaries: dict[str, LearnedSummary]  # Summaries of the user's, by name

    @classmethod
    def of(cls, experts: Sequence[Any] | Mapping[str, Any] | None) -> "ExpertSpec":
        """What `AutoKCEF(experts=)` says.

        Raises:
            TypeError: Something there can be no expert.
        """
        named = set()
        if isinstance(experts, Sequence) and not isinstance(experts, str):
            named = {e for e in experts if isinstance(e, str)} & OWN
            experts = [e for e in experts if not isinstance(e, str) or e not in named]
        own = named or OWN
        estimators, given = {}, {}
        for name, expert in named_experts(experts).items():
            if isinstance(expert, LearnedSummary):
                given[name] = expert
            elif hasattr(expert, "given"):
                estimators[name] = expert
            else:
                given[name] = LearnedSummary(location=expert)
        return cls(
            FAMILIES in own, SUMMARIES in own, MIXTURES in own, estimators, given
        )

    def require_saveable(self, members: Sequence[str] = ()) -> None:
        """Refuse what files cannot hold, with or without a weight.

        Args:
            members: Names of estimators that have one.

        Raises:
            CannotSaveError: An expert is an estimator or a regressor.
        """
        unsafe = [*members, *self.estimators]
        for name, summary in self.given_summaries.items():
            if not isinstance(summary.location, str) or summary.law is not None:
                unsafe.append(name)
        for name in unsafe:
            raise CannotSaveError(
                f"An average with the expert {name!r} cannot be saved: estimators of "
                f"other kinds, also as a parameter, have no file format that is safe "
                f"to open. Fit without it, or save the best family, best_, unless that "
                f"is on what a regressor of yours predicts."
            )


def named_experts(experts: Sequence[Any] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Experts by name: that of their class, with a number if it occurs before."""
    if experts is None:
        return {}
    if isinstance(experts, str) or not isinstance(experts, Sequence | Mapping):
        raise TypeError(
            f"experts must be a list of estimators such as "
            f"[kexpfam.baselines.ConditionalKDE()], or a mapping of their names to "
            f"them; got {experts!r}."
        )
    if isinstance(experts, Mapping):
        named = dict(experts)
    else:
        named = {}
        for expert in experts:
            kind = type(expert).__name__
            count = sum(name.split(" ")[0] == kind for name in named)
            named[f"{kind} {count + 1}" if count else kind] = expert
    for name, expert in named.items():
        if not _is_able(expert):
            raise TypeError(
                f"experts must be estimators with fit(X, y) and given(X), such as "
                f"kexpfam.baselines.ConditionalKDE(), regressors of scikit-learn, "
                f"LearnedSummary(), or in a list the names {FAMILIES!r}, "
                f"{SUMMARIES!r} and {MIXTURES!r}; got {expert!r} for {name!r}."
            )
    return named


def _is_able(expert: Any) -> bool:
    """Whether something can be an expert."""
    if isinstance(expert, LearnedSummary):
        return True
    if isinstance(expert, type) or not hasattr(expert, "fit"):
        return False
    predicts = hasattr(expert, "predict") and not is_classifier(expert)
    return predicts or hasattr(expert, "given")


def check_weights_for(experts: Mapping[str, Any], weights: Array) -> None:
    """Refuse weights that an expert cannot take, before any work is done."""
    whole = np.array_equal(np.rint(weights), weights)
    for name, expert in experts.items():
        if not whole and not has_fit_parameter(expert, "sample_weight"):
            raise ValueError(
                f"The expert {name!r} takes no sample_weight in fit, so weights of "
                f"rows must be whole numbers; leave it out, or leave sample_weight out."
            )


def fit_expert(expert: Any, rows: Rows, others: RowsBeyond | None = None) -> Any:
    """A copy of an expert, fitted to rows; repeated ones if it takes no weights.

    Rows that these are a sample of are seen by a mixture of ours only: an estimator of
    the user's has rows in memory.
    """
    if isinstance(expert, MixtureExpert):
        return expert.refitted(rows, others)
    copy, X, y, weights = clone(expert), rows.X, rows.Y[:, 0], rows.weights
    if has_fit_parameter(copy, "sample_weight"):
        return copy.fit(X, y, sample_weight=weights)
    counts = np.rint(weights).astype(int)
    return copy.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))


def cross_fitted(
    name: str, expert: Any, rows: Rows, folds: Sequence[slice]
) -> tuple[Array, Array]:
    """Log density of, and mass below each row under fits without its fold, (n,) each.

    Masses are NaN where there are none.
    """
    log_p, below = np.empty(len(rows)), np.empty(len(rows))
    for fold in folds:
        rest = rows[np.delete(np.arange(len(rows)), fold)]
        density = fit_expert(expert, rest).given(rows.X[fold])
        if not isinstance(density, OneColumnDensity):
            raise TypeError(
                f"given(X) of the expert {name!r} must return densities of one column "
                f"of kexpfam.distributions, got {type(density).__name__}; wrap it in "
                f"an estimator whose given returns such."
            )
        if density.measure != "lebesgue":
            raise TypeError(
                f"given(X) of the expert {name!r} has atoms, whose log densities are "
                f"not in the units of others; fit it with atoms=False."
            )
        log_p[fold] = density.logpdf(rows.Y[fold, 0])
        below[fold] = density.cdf(rows.Y[fold, 0])
    if np.isposinf(log_p).any():
        raise ValueError(
            f"The expert {name!r} gives a row an infinite density, which is none; "
            f"leave it out, or widen it."
        )
    log_p = np.nan_to_num(log_p, nan=LOWEST_LOG_DENSITY)
    return np.maximum(log_p, LOWEST_LOG_DENSITY), below
