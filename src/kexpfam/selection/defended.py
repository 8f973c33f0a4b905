"""Weights of an average and its defensive component, chosen by held-out rows.

Training rows have held-out responses in the coordinates of the component; what is
validated is what is used.

Coordinates have no transform of y, behind which a t density may have no moments. Its
weight w and its width are those with the largest

    Σ_i ω_i log((1 − w) p_i + w t_i) + a log w + (c − a) log(1 − w) − v,

with p_i the held-out density of row i under the average of the members, t_i that under
the component, and c pseudo-rows, of which the component alone explains a. The last term
is about standard deviations. A component that hardly any row needs may be most of a
variance, and log densities do not know it: v is what the mean squared residual of
held-out rows says against the mean variance (`HeldOutLaws.variance_worth`). Weights of
members answer to it, too, if rows object to what they are by log densities alone.

What the component adds to the mean variance is little, unless residuals are larger than
that: what is defended against must not be most of what is said.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from kexpfam._heuristics import median_and_width
from kexpfam._typing import Array, Mask
from kexpfam.base_densities import StudentBase
from kexpfam.selection.averaging import average_weights
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.held_out_laws import HeldOutLaws
from kexpfam.selection.spec import DEFENSIVE, DefensiveSpec
from kexpfam.selection.validation import Validation


@dataclass(frozen=True, eq=False)
class Defence:
    """A defensive component that was chosen, with its weight."""

    coordinates: str  # Name of its coordinates
    base: StudentBase  # Its density there
    weight: float
    held_out: Array  # Its log density of the rows of the validation, (n,)

    def beside(self, log_p: Array) -> Array:
        """Held-out log densities (k, n), each of a mixture with this component."""
        return np.logaddexp(
            np.log1p(-self.weight) + log_p, np.log(self.weight) + self.held_out
        )


def defended_weights(
    validation: Validation,
    candidates: Sequence[Candidate],
    laws: HeldOutLaws | None = None,
    spec: DefensiveSpec = DEFENSIVE,
) -> tuple[Array, Defence]:
    """Weights of candidates, (k,), and the component that each was validated beside.

    If rows object to the variances of what is found, others are tried that may mend
    them: only candidates with thin tails, or only those with heavy ones, or all but
    those in coordinates that a member is in.
    """
    laws = laws or HeldOutLaws(validation)
    everyone = np.ones(len(candidates), dtype=bool)
    found = _defended(candidates, everyone, laws, spec)
    if found.variances >= -spec.objection:
        return found.weights, found.defence
    heavy = np.array(
        [np.isfinite(getattr(c.base, "tail_index", 0)) for c in candidates]
    )
    expert = np.array([c.base is None for c in candidates])
    names = np.array([c.coordinates for c in candidates])
    others = [~heavy | expert, heavy | expert]
    others += [names != name for name in dict.fromkeys(names[found.weights > 0])]
    tried = [_defended(candidates, some, laws, spec) for some in others if some.any()]
    best = max(tried, key=lambda one: one.total)
    found = best if best.total > found.total + spec.enough_nats else found
    return found.weights, found.defence


def held_out_masses(
    laws: HeldOutLaws,
    candidates: Sequence[Candidate],
    weights: Array,
    defence: Defence,
) -> Array:
    """PIT values of the rows under the average of fits without their fold, (n,).

    NaN where a fit has failed, or a base density alone has no distribution function.
    """
    kept = np.flatnonzero(weights)
    total = laws.mixed([candidates[int(k)] for k in kept], weights[kept])[:, 0]
    placed = laws.validation.coordinates[defence.coordinates]
    wide = defence.base.column_cdf(placed.U[:, 0], 0)
    return (1.0 - defence.weight) * total + defence.weight * wide


@dataclass(frozen=True, eq=False)
class _Defended:
    """Weights of all candidates beside a component, and what rows say of them."""

    weights: Array  # (k,)
    defence: Defence
    total: float  # What the component has the largest value of
    variances: float  # What of that is said of variances


def _defended(
    candidates: Sequence[Candidate], some: Mask, laws: HeldOutLaws, spec: DefensiveSpec
) -> _Defended:
    """An average of some of the candidates.

    Weights are found beside a component of middling weight and width first; the
    component is then chosen for them, and they are found again.
    """
    validation = laws.validation
    own = [candidates[int(k)] for k in np.flatnonzero(some)]
    log_p, row_weights = np.stack([c.held_out for c in own]), validation.weights
    totals = _totals(validation, candidates)
    best = max(totals, key=lambda name: totals[name])
    first = _defence(validation, best, spec.first_width, spec.first_weight, spec)
    weights = average_weights(own, first.beside(log_p), row_weights)
    # Coordinates of a member cost nothing more, if they are nearly as good.
    least = totals[best] - spec.same_nats * float(row_weights.sum())
    names = {own[int(k)].coordinates for k in np.flatnonzero(weights)}
    near = {k: total for k, total in totals.items() if k in names and total >= least}
    name = max(near or totals, key=lambda name: totals[name])
    objective = _Objective.of(own, weights, laws, name, spec)
    tried = itertools.product(spec.widths, spec.weights)
    defences = (_defence(validation, name, *one, spec) for one in tried)
    defence = objective.best(list(defences))
    weights = average_weights(own, defence.beside(log_p), row_weights)
    objective = _Objective.of(own, weights, laws, name, spec)
    everyone = np.zeros(len(candidates))
    everyone[some] = weights
    return _Defended(
        everyone, defence, objective.total(defence), objective.variances(defence)
    )


@dataclass(frozen=True, eq=False)
class _Objective:
    """What rows say of components beside an average of candidates."""

    laws: HeldOutLaws
    coordinates: str  # Those of the components, by name
    log_p: Array  # Held-out log densities of the average, (n,)
    mean: Array  # Its held-out means, (n,)
    variance: Array  # And variances
    spec: DefensiveSpec
    # Moments of components of some width
    _known: dict[StudentBase, tuple[Array, Array]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        candidates: Sequence[Candidate],
        weights: Array,
        laws: HeldOutLaws,
        coordinates: str,
        spec: DefensiveSpec,
    ) -> "_Objective":
        """With weights of the candidates, (k,)."""
        kept = np.flatnonzero(weights)
        members = [candidates[int(k)] for k in kept]
        log_p = np.stack([member.held_out for member in members])
        mixed = special.logsumexp(log_p, axis=0, b=weights[kept, None])
        _, mean, variance = laws.mixed(members, weights[kept]).T
        return cls(laws, coordinates, mixed, mean, variance, spec)

    def total(self, defence: Defence) -> float:
        """The sum above."""
        spec, w = self.spec, defence.weight
        rows = float(defence.beside(self.log_p) @ self.laws.validation.weights)
        others = spec.pseudo_rows - spec.explained_rows
        rows += spec.explained_rows * np.log(w) + others * np.log1p(-w)
        return rows + self.variances(defence)

    def variances(self, defence: Defence) -> float:
        """Its last term."""
        return self.laws.variance_worth(self.mean, self._widened(defence))

    def best(self, defences: Sequence[Defence]) -> Defence:
        """The largest sum among those with variances that are as they should be."""
        S, V = self.laws.mean_square(self.mean), self.laws.mean_of(self.variance)
        if not (np.isfinite([S, V]).all() and V > 0):
            return max(defences, key=self.total)
        widened = {d: self.laws.mean_of(self._widened(d)) for d in defences}
        most = max((1.0 + self.spec.most_added) * V, S, min(widened.values()))
        narrow = [d for d in defences if widened[d] <= most]
        return max(narrow, key=self.total)

    def _widened(self, defence: Defence) -> Array:
        """Variances of the average beside a component, (n,)."""
        w, (center, own) = defence.weight, self._moments(defence.base)
        wide = own + (1.0 - w) * np.square(center - self.mean)
        return (1.0 - w) * self.variance + w * wide

    def _moments(self, base: StudentBase) -> tuple[Array, Array]:
        """Means and variances of a component of y itself, (n,) each."""
        if base not in self._known:
            # Points of equal mass, as far apart as the standard deviation says.
            levels = (np.arange(self.spec.levels) + 0.5) / self.spec.levels
            u = base.column_quantile(levels, 0)
            middle = u.mean()
            u = middle + (u - middle) * base.column_std(0) / u.std()
            y = self.laws.at(self.coordinates, slice(0, len(self.mean)), u)
            self._known[base] = y.mean(axis=1), y.var(axis=1)
        return self._known[base]


def _totals(
    validation: Validation, candidates: Sequence[Candidate]
) -> dict[str, float]:
    """Coordinates of y itself: log density of all rows under base densities alone."""
    totals: dict[str, float] = {}
    for candidate in candidates:
        placed = validation.coordinates.get(candidate.coordinates)
        if candidate.method != "none" or placed is None:
            continue
        if placed.coordinates.transform is None:
            total = float(candidate.held_out @ validation.weights)
            known = totals.get(candidate.coordinates, -np.inf)
            totals[candidate.coordinates] = max(known, total)
    return totals


def _defence(
    validation: Validation, name: str, width: float, weight: float, spec: DefensiveSpec
) -> Defence:
    placed = validation.coordinates[name]
    center, scale = _middle(placed.U[:, 0], validation.weights)
    base = StudentBase(location=center, scale=width * scale, df=spec.df)
    log_t = base.log_density(placed.U) + placed.log_abs_det_jacobian
    return Defence(name, base, weight, log_t)


def _middle(u: Array, weights: Array) -> tuple[float, float]:
    """Median, and the scale that a normal density with these quartiles has.

    Where half of the values are the same, their standard deviation.
    """
    middle, scale = median_and_width(u, weights)
    if not scale > 0:
        mean = np.average(u, weights=weights)
        scale = float(np.sqrt(np.average((u - mean) ** 2, weights=weights)))
    return middle, scale
