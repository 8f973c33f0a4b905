"""The defensive component of an average: no response is impossible.

It is a t density with three degrees of freedom in coordinates that candidates are
fitted in: around the location that a regression has at x, some multiple of its scale
wide. So it is narrow where the members are, and hardly widens what is said about y,
where a component over the whole range of y would double the standard deviation of sharp
densities. Training rows have held-out responses in these coordinates; what is validated
is what is used.

Coordinates have no transform of y, behind which a t density may have no moments. Its
weight w and its width are those with the largest

    Σ_i ω_i log((1 − w) p_i + w t_i) + a log w + (c − a) log(1 − w),

with p_i the held-out density of row i under the average of the members, t_i that under
the component, and c pseudo-rows, of which the component alone explains a.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._heuristics import median_and_width
from kexpfam._typing import Array
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.family import Coordinates
from kexpfam.persistence import saved_fit
from kexpfam.selection.averaging import average_weights
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.spec import DEFENSIVE, DefensiveSpec
from kexpfam.selection.validation import Validation


@saved_fit({"coordinates": "p d=1"})
@dataclass(frozen=True, eq=False)
class DefensiveComponent:
    """A t density in some coordinates, around their location at x."""

    coordinates: Coordinates
    base: StudentBase

    def check_saved(self) -> None:
        """Refuse coordinates that have moved responses in another way."""
        if self.coordinates.transform is not None:
            raise ValueError("the defensive component has a transform of y")

    @classmethod
    def everywhere(cls, p: int, center: float, scale: float) -> "DefensiveComponent":
        """The same at all x (n, p): what averages in older files have."""
        coordinates = Coordinates(
            np.zeros(p),
            np.ones(p),
            np.array([center]),
            np.array([scale]),
            support=np.array([[-np.inf, np.inf]]),
        )
        return cls(coordinates, StudentBase(scale=0.85, df=5.0))

    def density(self, X: Array) -> ClosedFormDensity:
        """Densities at conditions (n, p)."""
        there = self.coordinates.at(self.coordinates.conditions(X))
        return self.at(there.location[:, 0], there.scale[:, 0])

    def at(self, location: Array, scale: Array) -> ClosedFormDensity:
        """Densities with some location and scale of u = 0, (n,) each."""
        return ClosedFormDensity(self.base, location, scale)


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
    spec: DefensiveSpec = DEFENSIVE,
) -> tuple[Array, Defence]:
    """Weights of candidates, (k,), and the component that each was validated beside.

    Weights are found beside a component of middling weight and width first; the
    component is then chosen for them, and they are found again.
    """
    log_p = np.stack([c.held_out for c in candidates])
    row_weights = validation.weights
    totals = _totals(validation, candidates)
    best = max(totals, key=lambda name: totals[name])
    first = _defence(validation, best, spec.first_width, spec.first_weight, spec)
    weights = average_weights(candidates, first.beside(log_p), row_weights)
    kept = np.flatnonzero(weights)
    mixed = special.logsumexp(log_p[kept], axis=0, b=weights[kept, None])
    # Coordinates of a member cost nothing more, if they are nearly as good.
    least = totals[best] - spec.same_nats * float(row_weights.sum())
    names = {candidates[int(k)].coordinates for k in kept}
    near = {k: total for k, total in totals.items() if k in names and total >= least}
    name = max(near or totals, key=lambda name: totals[name])
    found = _chosen(validation, name, mixed, spec)
    return average_weights(candidates, found.beside(log_p), row_weights), found


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


def _chosen(
    validation: Validation, name: str, mixed: Array, spec: DefensiveSpec
) -> Defence:
    """Width and weight beside a mixture with held-out log densities (n,)."""
    best, most = None, -np.inf
    others = spec.pseudo_rows - spec.explained_rows
    for width in spec.widths:
        for weight in spec.weights:
            found = _defence(validation, name, width, weight, spec)
            total = float(found.beside(mixed) @ validation.weights)
            total += spec.explained_rows * np.log(weight) + others * np.log1p(-weight)
            if total > most:
                best, most = found, total
    assert best is not None
    return best


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
