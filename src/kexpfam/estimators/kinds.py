"""Kinds of y: with atoms, counted, or neither; given by the user, or found in rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import as_numbers
from kexpfam.data import Rows
from kexpfam.errors import MeasureWarning
from kexpfam.selection.discrete import (
    find_atoms,
    has_few_values,
    looks_counted,
    rounding_width,
)


@dataclass(frozen=True, eq=False)
class ResponseKind:
    """What kind of variable one column of y is."""

    atoms: Array  # Values with a probability of their own, increasing, (k,)
    counted: bool  # Whether it is a mass function, on whole numbers or few values
    rounding: float  # Width that y was rounded to; zero if it was not
    told: bool = False  # Whether the user said that it is counted, or is not

    @classmethod
    def of(cls, rows: Rows, atoms: Any, counts: Any) -> "ResponseKind":
        """What is given, or found in the rows; what was found is said in a warning."""
        used = rows.weights > 0
        y, weights = rows.Y[used, 0] + 0.0, rows.weights[used]  # of -0.0 it makes 0.0
        width, told = rounding_width(y), counts is not None
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
            return cls(np.empty(0), True, width, told)
        if atoms is None:
            found = find_atoms(y)
            _tell_of_atoms(y, weights, found)
            return cls(found, False, width, told)
        if isinstance(atoms, bool | str) and atoms is not False:
            raise ValueError(
                f"atoms must be None to look for them, False for none, or a list of "
                f"values, got {atoms!r}."
            )
        given = np.empty(0) if atoms is False else np.unique(as_numbers("atoms", atoms))
        if not np.all(np.isfinite(given)):
            raise ValueError(f"atoms must be finite numbers, got {atoms!r}.")
        return cls(given, False, width, told)


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
