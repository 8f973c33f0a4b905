"""Experts: any estimator of p(y|x) as a member of an average.

An average needs of a member the log densities that it gives to training rows it has not
seen, and the densities `given(X)`. Kernel families are one kind of member; whatever can
`fit(X, y)`, and whose `given` returns densities of `kexpfam.distributions`, is another.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kexpfam._typing import Array
from kexpfam.data import Rows
from kexpfam.distributions import OneColumnDensity


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
        able = hasattr(expert, "fit") and hasattr(expert, "given")
        if not able or isinstance(expert, type):
            raise TypeError(
                f"experts must be estimators with fit(X, y) and given(X), such as "
                f"kexpfam.baselines.ConditionalKDE(); got {expert!r} for {name!r}."
            )
    return named


def check_weights_for(experts: Mapping[str, Any], weights: Array) -> None:
    """Refuse weights that an expert cannot take, before any work is done."""
    whole = np.array_equal(np.rint(weights), weights)
    for name, expert in experts.items():
        if not whole and not has_fit_parameter(expert, "sample_weight"):
            raise ValueError(
                f"The expert {name!r} takes no sample_weight in fit, so weights of "
                f"rows must be whole numbers; leave it out, or leave sample_weight out."
            )


def fit_expert(expert: Any, rows: Rows) -> Any:
    """A copy of an expert, fitted to rows; repeated ones if it takes no weights."""
    copy, X, y, weights = clone(expert), rows.X, rows.Y[:, 0], rows.weights
    if has_fit_parameter(copy, "sample_weight"):
        return copy.fit(X, y, sample_weight=weights)
    counts = np.rint(weights).astype(int)
    return copy.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))


def cross_fitted(
    name: str, expert: Any, rows: Rows, folds: Sequence[slice], lowest: float = -1e4
) -> Array:
    """Log density of each row under fits without its fold, (n,)."""
    log_p = np.empty(len(rows))
    for fold in folds:
        rest = rows[np.delete(np.arange(len(rows)), fold)]
        density = fit_expert(expert, rest).given(rows.X[fold])
        if not isinstance(density, OneColumnDensity):
            raise TypeError(
                f"given(X) of the expert {name!r} must return densities of one column "
                f"of kexpfam.distributions, got {type(density).__name__}; wrap it in "
                f"an estimator whose given returns such."
            )
        log_p[fold] = density.logpdf(rows.Y[fold, 0])
    if np.isposinf(log_p).any():
        raise ValueError(
            f"The expert {name!r} gives a row an infinite density, which is none; "
            f"leave it out, or widen it."
        )
    return np.maximum(np.nan_to_num(log_p, nan=lowest, neginf=lowest), lowest)
