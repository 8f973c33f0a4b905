"""Atoms in y: probabilities beside an average for the rest.

Where y has atoms, p(y|x) is a mixture: probabilities of the atoms and of none of them
that depend on x, and a density of the rows that are at none, which is an average like
any other. Counts are a mass function; see `counts.py`.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.data import ChangedSource, Rows, Source, distinct_rows, in_row_order
from kexpfam.distributions import MixedDensity
from kexpfam.estimators.kinds import ResponseKind
from kexpfam.estimators.laws import AverageSpec, FitAverage, Law, child_of
from kexpfam.estimators.saved import FittedAtoms
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection.probabilities import (
    ClassProbabilities,
    few_rows,
    fit_probabilities,
)
from kexpfam.selection.supports import ResponseBounds


@dataclass(frozen=True, eq=False)
class AtomsAndRest(Law):
    """Atoms with their probabilities, and the average of the rest."""

    values: Array  # Of the atoms, (k,)
    classes: ClassProbabilities  # Of each atom, and of the rest as the last
    rest: Any  # An Average
    neighbourhood: Neighbourhood  # Of all rows
    rounding: float

    @property
    def average(self) -> Any:
        return self.rest

    def density(self, X: Array) -> MixedDensity:
        probabilities = self.classes.at(X)[:, :-1]
        return MixedDensity(self.values, probabilities, self.rest.density(X))

    @classmethod
    def of(cls, saved: FittedAtoms, rest: Any) -> "AtomsAndRest":
        """From a file, with the average of the rest."""
        return cls(
            saved.values, saved.classes, rest, saved.neighbourhood, saved.rounding
        )

    def saved(self) -> FittedAtoms:
        return FittedAtoms(
            self.values,
            self.classes,
            self.rest.saved(),
            self.neighbourhood,
            self.rounding,
        )


def places_of_atoms(y: Array, atoms: Array) -> Indices:
    """Which atom each response is, (n,); their number for none of them.

    Example:
        >>> places_of_atoms(np.array([0.0, 0.3, 50.0]), np.array([0.0, 50.0]))
        array([0, 2, 1])
    """
    place = np.searchsorted(atoms, y)
    there = atoms[np.minimum(place, len(atoms) - 1)] == y
    return np.where(there, place, len(atoms))


def rows_without_atoms(rows: Rows, atoms: tuple[float, ...]) -> Rows:
    """The rows whose response is none of the atoms."""
    return rows[places_of_atoms(rows.Y[:, 0], np.array(atoms)) == len(atoms)]


def fit_atoms(
    rows: Rows,
    kind: ResponseKind,
    spec: AverageSpec,
    rng: np.random.Generator,
    fit_average: FitAverage,
    source: Source | None = None,
) -> AtomsAndRest:
    """Fit probabilities of atoms, and an average to the other rows.

    Rows are all there are, or a sample of those of a source.
    """
    atoms, y, used = kind.atoms, rows.Y[:, 0], rows.weights > 0
    labels = places_of_atoms(y, atoms)
    there = labels < len(atoms)
    some = few_rows(rows.weights, rng)
    kept, totals = distinct_rows(
        rows.X[some], labels[some, None].astype(float), rows.weights[some]
    )
    kept = some[kept]
    classes, _ = fit_probabilities(
        rows.X[kept], labels[kept], totals, len(atoms) + 1, rng
    )
    other = used & ~there
    if np.count_nonzero(other) < 2 or np.ptp(y[other]) == 0:
        raise ValueError(
            f"{np.count_nonzero(other)} rows of y are at none of the atoms "
            f"{atoms.tolist()}, or all have one value, which is too little for a "
            f"density; use counts=True for whole numbers, or other atoms."
        )
    # An atom at an end of the rows is where the rest ends, too: a cap, or a floor.
    low, high = float(y[used].min()), float(y[used].max())
    ends = ResponseBounds(
        low if low in atoms else -math.inf,
        high if high in atoms else math.inf,
        likely=True,
    )
    others: Rows | Source = in_row_order(rows[other])
    if source is not None:
        change = partial(rows_without_atoms, atoms=tuple(atoms.tolist()))
        others = ChangedSource(source, change)
    rest = fit_average(others, replace(spec, ends=ends), child_of(rng))
    near = Neighbourhood.of(rows.X, rows.weights)
    return AtomsAndRest(atoms, classes, rest, near, kind.rounding)
