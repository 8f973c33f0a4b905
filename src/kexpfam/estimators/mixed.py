"""Atoms and counts in y: an average for the rest, and probabilities beside it.

Where y has atoms, p(y|x) is a mixture: probabilities of the atoms and of none of them
that depend on x, and a density of the rows that are at none, which is an average like
any other. Counts are a mass function; see `counts.py`.
"""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from kexpfam._typing import Array, Indices
from kexpfam._validation import as_numbers
from kexpfam.data import ChangedSource, Rows, Source, distinct_rows
from kexpfam.distributions import MixedDensity
from kexpfam.errors import MeasureWarning
from kexpfam.estimators.saved import FittedAtoms
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection.discrete import (
    find_atoms,
    has_few_values,
    looks_counted,
    rounding_width,
)
from kexpfam.selection.probabilities import (
    ClassProbabilities,
    few_rows,
    fit_probabilities,
)
from kexpfam.selection.supports import ResponseBounds


@dataclass(frozen=True, eq=False)
class ResponseKind:
    """What kind of variable one column of y is."""

    atoms: Array  # Values with a probability of their own, increasing, (k,)
    counted: bool  # Whether it is a mass function, on whole numbers or few values
    rounding: float  # Width that y was rounded to; zero if it was not

    @classmethod
    def of(cls, rows: Rows, atoms: Any, counts: Any) -> "ResponseKind":
        """What is given, or found in the rows; what was found is said in a warning."""
        used = rows.weights > 0
        y, weights = rows.Y[used, 0] + 0.0, rows.weights[used]  # of -0.0 it makes 0.0
        width = rounding_width(y)
        if counts not in (True, False, None):
            raise ValueError(f"counts must be True, False or None, got {counts!r}.")
        if counts is None:
            counts = atoms is None and (looks_counted(y) or has_few_values(y))
            if counts:
                _tell_of_counts(y)
        elif counts and np.any(y != np.rint(y)):
            wrong = float(y[y != np.rint(y)][0])
            raise ValueError(
                f"counts=True is for whole numbers, and y has {wrong:g}; leave counts "
                f"out, or multiply y by a number that makes it whole."
            )
        if counts:
            return cls(np.empty(0), True, width)
        if atoms is None:
            found = find_atoms(y)
            _tell_of_atoms(y, weights, found)
            return cls(found, False, width)
        if isinstance(atoms, bool | str) and atoms is not False:
            raise ValueError(
                f"atoms must be None to look for them, False for none, or a list of "
                f"values, got {atoms!r}."
            )
        given = np.empty(0) if atoms is False else np.unique(as_numbers("atoms", atoms))
        if not np.all(np.isfinite(given)):
            raise ValueError(f"atoms must be finite numbers, got {atoms!r}.")
        return cls(given, False, width)


def _tell_of_atoms(y: Array, weights: Array, atoms: Array) -> None:
    if not len(atoms):
        return
    shares = [100.0 * weights[y == a].sum() / weights.sum() for a in atoms]
    said = " and ".join(
        f"{a:g} in {share:.3g} % of the rows"
        for a, share in zip(atoms, shares, strict=True)
    )
    warnings.warn(
        f"y is {said}: more often than a density allows, so there it has a probability "
        f"of its own, and log densities are with respect to such atoms too. "
        f"atoms=False (--atoms none) gives a density, atoms={atoms.tolist()} the same "
        f"without this message.",
        MeasureWarning,
        stacklevel=5,
    )


def _tell_of_counts(y: Array) -> None:
    values = np.unique(y)
    if len(values) == 2:
        said = (
            f"y has two values, {values[0]:g} and {values[1]:g}, which get "
            f"probabilities and no density; a classifier, such as those of "
            f"scikit-learn, is made for this"
        )
    elif not looks_counted(y):
        listed = ", ".join(f"{v:g}" for v in values[:-1])
        said = (
            f"y has {len(values)} values only, {listed} and {values[-1]:g}, so p(y|x) "
            f"is a mass function on these, and log densities are logs of probabilities"
        )
    else:
        said = (
            f"y are whole numbers, {len(values)} of them from {values[0]:g} to "
            f"{values[-1]:g}, so p(y|x) is a mass function, and log densities are logs "
            f"of probabilities"
        )
    warnings.warn(
        f"{said}. counts=False (--atoms none) gives a density, counts=True the same "
        f"without this message.",
        MeasureWarning,
        stacklevel=5,
    )


@dataclass(frozen=True, eq=False)
class AtomsAndRest:
    """Atoms with their probabilities, and an estimator of the rest."""

    values: Array  # Of the atoms, (k,)
    classes: ClassProbabilities  # Of each atom, and of the rest as the last
    rest: Any  # An AutoKCEF

    def saved(self, neighbourhood: Neighbourhood, rounding: float) -> FittedAtoms:
        """As files hold it."""
        return FittedAtoms(
            self.values, self.classes, self.rest._learned(), neighbourhood, rounding
        )

    @classmethod
    def of(cls, saved: FittedAtoms, rest: Any) -> "AtomsAndRest":
        """From a file, with an estimator of the rest that was revived."""
        return cls(saved.values, saved.classes, rest)

    def density(self, X: Array) -> MixedDensity:
        """The laws at validated conditions."""
        probabilities = self.classes.at(X)[:, :-1]
        return MixedDensity(self.values, probabilities, self.rest._density(X))


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
    estimator: Any,
    rows: Rows,
    atoms: Array,
    rng: np.random.Generator,
    source: Source | None = None,
    client: Any = None,
) -> AtomsAndRest:
    """Fit probabilities of atoms, and a clone of an estimator to the other rows.

    Rows are all there are, or a sample of those of a source.
    """
    y, used = rows.Y[:, 0], rows.weights > 0
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
    own = clone(estimator)
    own.set_params(atoms=False, counts=False, random_state=int(rng.integers(2**31)))
    own._told_kinds, own._limits = estimator._column_kinds, estimator._limits
    # An atom at an end of the rows is where the rest ends, too: a cap, or a floor.
    low, high = float(y[used].min()), float(y[used].max())
    own._ends = ResponseBounds(
        low if low in atoms else -math.inf,
        high if high in atoms else math.inf,
        likely=True,
    )
    if source is not None:
        change = partial(rows_without_atoms, atoms=tuple(atoms.tolist()))
        own.fit(ChangedSource(source, change), client=client)
        return AtomsAndRest(atoms, classes, own)
    weights = None if np.all(rows.weights == 1.0) else rows.weights[other]
    own.fit(rows.X[other], y[other], sample_weight=weights)
    return AtomsAndRest(atoms, classes, own)
