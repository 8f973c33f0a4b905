"""Counts in y: a mass function on whole numbers, averaged over several kinds of it.

Members are Poisson and negative binomial regressions; if values are few, probabilities
of each; if they are not, a density of y + u, u uniform between −½ and ½, whose mass
between k − ½ and k + ½ is the probability of k. That is an average like any other.
Weights maximise the log probability of rows that members have not seen, and one that
gives other values than those of the fit a probability has some: none is impossible.

Of the density it is log p(y + u) that is held out, on average no more than the log of
the mass: it is not flattered.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from kexpfam._row_order import row_order
from kexpfam._typing import Array
from kexpfam.data import Rows
from kexpfam.distributions import MixedDensity
from kexpfam.estimators.kinds import ResponseKind
from kexpfam.estimators.laws import AverageSpec, FitAverage, Law, child_of
from kexpfam.estimators.saved import FittedCounts
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection.counts import CountRegression, fit_counts, table_of_counts
from kexpfam.selection.discrete import looks_counted
from kexpfam.selection.probabilities import (
    ClassProbabilities,
    few_rows,
    fit_probabilities,
)
from kexpfam.selection.spec import COUNTS, CountsSpec
from kexpfam.selection.stacking import is_hopeless, stacked_without_hopeless
from kexpfam.selection.supports import ResponseBounds, given_bounds


@dataclass(frozen=True, eq=False)
class CountLaw(Law):
    """A mass function of counts given x."""

    values: Array  # Whole numbers with a probability, (k,)
    weights: Array  # Of the regressions, the classes and the density, (m,)
    regressions: tuple[CountRegression, ...]
    classes: ClassProbabilities | None  # Of the first values
    seen: Array  # The values that classes are of, (c,)
    rest: Any  # An Average of y + u; None if there is none
    held_out: float  # Mean held-out log probability
    neighbourhood: Neighbourhood
    rounding: float

    @property
    def average(self) -> Any:
        return self.rest

    @classmethod
    def of(cls, saved: FittedCounts, rest: Any) -> "CountLaw":
        """From a file, with the average of the rest."""
        return cls(
            saved.values,
            saved.weights,
            saved.regressions,
            saved.classes,
            saved.seen,
            rest,
            saved.held_out,
            saved.neighbourhood,
            saved.rounding,
        )

    def saved(self) -> FittedCounts:
        return FittedCounts(
            self.values,
            self.weights,
            self.regressions,
            self.seen,
            self.held_out,
            self.neighbourhood,
            self.classes,
            None if self.rest is None else self.rest.saved(),
            self.rounding,
        )

    def density(self, X: Array) -> MixedDensity:
        n, k = len(X), len(self.values)
        total, parts = np.zeros((n, k)), iter(self.weights)
        for regression in self.regressions:
            weight = next(parts)
            if weight > 0:
                total += weight * np.exp(regression.log_pmf(X, self.values))
        if self.classes is not None:
            places = np.searchsorted(self.values, self.seen)
            total[:, places] += next(parts) * self.classes.at(X)
        if self.rest is not None:
            edges = np.append(self.values - 0.5, self.values[-1] + 0.5)
            below = self.rest.density(X).cdf(edges[None])
            total += next(parts) * np.maximum(np.diff(below, axis=1), 0.0)
        # What is beyond the table, next to nothing, goes to where the rest is.
        return MixedDensity(self.values, total / total.sum(axis=1, keepdims=True))


def fit_count_law(
    rows: Rows,
    kind: ResponseKind,
    spec: AverageSpec,
    rng: np.random.Generator,
    fit_average: FitAverage,
    tuning: CountsSpec = COUNTS,
) -> CountLaw:
    """Fit a mass function, and an average for the density of y + u."""
    used = few_rows(rows.weights, rng)
    X, y, weights = rows.X[used], rows.Y[used, 0], rows.weights[used]
    seen = np.unique(rows.Y[rows.weights > 0, 0])
    bounds = given_bounds(spec.lower, spec.upper) or ResponseBounds()
    # Two values, or a few that are no counts, have probabilities and nothing else.
    listed = len(seen) == 2 and seen[1] - seen[0] == 1.0
    if not kind.told:
        listed |= not looks_counted(rows.Y[rows.weights > 0, 0])
    values = seen
    if not listed:
        values = table_of_counts(seen, bounds.lower, bounds.upper, tuning)
    regressions: list[CountRegression] = []
    log_p: list[Array] = []
    if seen[0] >= 0 and not listed:
        regressions, found = fit_counts(X, y, weights, rng)
        log_p += list(found)
    classes = rest = None
    if len(seen) <= tuning.most_classes or not regressions:
        labels = np.searchsorted(seen, y)
        classes, own = fit_probabilities(X, labels, weights, len(seen), rng)
        log_p.append(own)
    # Classes know nothing of values that were not seen: someone else must.
    others = len(values) > len(seen)
    hopeless = is_hopeless(np.stack(log_p), weights, tuning.hopeless)
    wanted = others and bool(np.all(hopeless[: len(regressions)]))
    known = np.arange(len(y))
    if not listed and (wanted or len(seen) >= tuning.fewest_for_density):
        unbounded = not np.isfinite(bounds.lower) and seen[0] < 0
        beside = replace(
            spec,
            lower=None if unbounded else values[0] - 0.5,
            upper=values[-1] + 0.5 if np.isfinite(bounds.upper) else None,
        )
        child = child_of(rng)
        jittered = y + rng.uniform(-0.5, 0.5, size=len(y))
        order = row_order(weights, X, jittered)
        rest = fit_average(
            Rows(X[order], jittered[order, None], weights[order]), beside, child
        )
        numbers, own = rest.held_out
        known = order[numbers]
        log_p = [part[known] for part in log_p]
        log_p.append(own)
    table, some = np.stack(log_p), weights[known]
    # Some per cent of Poisson laws add much to the variance of counts that vary less.
    beyond = np.full(len(table), others)
    if classes is not None:
        beyond[len(regressions)] = False
    found = stacked_without_hopeless(
        table, some, tuning.stacked_pseudo_rows, tuning.hopeless, beyond
    )
    mixed = special.logsumexp(table, axis=0, b=found[:, None])
    return CountLaw(
        values,
        found,
        tuple(regressions),
        classes,
        seen,
        rest,
        float(np.average(mixed, weights=weights[known])),
        Neighbourhood.of(rows.X, rows.weights),
        kind.rounding,
    )
