"""What kind of variable y is: atoms, counts, and the width it was rounded to.

A density gives no value twice, but records are rounded, and then a value has about as
many rows as its neighbours. An atom has far more than any of them.
"""

import numpy as np

from kexpfam._typing import Array
from kexpfam.selection.spec import ATOMS, AtomsSpec


def find_atoms(y: Array, spec: AtomsSpec = ATOMS) -> Array:
    """Values that repeat far more than a density allows, increasing, (k,).

    A value is one if its rows are enough, are many times those of each of its
    neighbours (the nearest few values on either side that are not atoms themselves),
    and more than those of any other value. What is left must have many values. Many
    values that repeat as often as each other are heaping, as of records to .5 among
    some to .1, and not atoms.

    Args:
        y: Responses, (n,).
        spec: How many rows are enough.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.where(rng.random(300) < 0.2, 0.0, rng.normal(size=300))
        >>> find_atoms(y), find_atoms(rng.normal(size=300).round(1))
        (array([0.]), array([], dtype=float64))
    """
    nothing = np.empty(0)
    n = len(y)
    if n < spec.fewest_rows:
        return nothing
    values, counts = np.unique(y, return_counts=True)
    enough = max(spec.fewest_at, spec.least_share * n)
    if counts.max() < enough:
        return nothing
    atoms = np.zeros(len(values), dtype=bool)
    for j in np.argsort(-counts, kind="stable"):
        if counts[j] < enough:
            break
        others = ~atoms
        others[j] = False
        left = counts[:j][others[:j]][-spec.neighbours :]
        right = counts[j + 1 :][others[j + 1 :]][: spec.neighbours]
        beside = max(left.max(initial=0), right.max(initial=0))
        atoms[j] = counts[j] >= spec.times * beside
    # Values that stand out from their neighbours, but not from all others, are heaps.
    while np.any(
        heaps := atoms & (counts < spec.above * counts[~atoms].max(initial=0))
    ):
        atoms &= ~heaps
    rest = ~atoms
    plenty = np.count_nonzero(rest) >= spec.fewest_values
    some = counts[rest].sum() >= spec.fewest_rows // 2
    if not atoms.any() or atoms.sum() > spec.most or not (plenty and some):
        return nothing
    return values[atoms]


def looks_counted(y: Array, spec: AtomsSpec = ATOMS) -> bool:
    """Whether y (n,) are whole numbers from zero on, few of them, and many of each.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> looks_counted(rng.poisson(3.0, size=200) * 1.0)
        True
        >>> looks_counted(rng.normal(50.0, 20.0, size=200).round())
        False
    """
    if len(y) < spec.fewest_rows or y.min() < 0 or np.any(y != np.rint(y)):
        return False
    values, rows = np.unique(y, return_counts=True)
    several = 2 <= len(values) <= spec.most_counts
    # A single row that differs from all others tells of no kind.
    several &= bool(np.sort(rows)[-2:][0] >= spec.ties)
    several &= bool(values[-1] <= spec.largest_count)
    dense = len(values) >= 0.5 * (values[-1] - values[0] + 1.0)
    return bool(several and dense and len(y) >= spec.ties * len(values))


def has_few_values(y: Array, spec: AtomsSpec = ATOMS) -> bool:
    """Whether y (n,) has so few values, each with many rows, that no other is likely.

    The first and the last have rows enough to be ends, and not the tails of more.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> has_few_values(rng.choice([0.0, 1.0, 7.5], size=200))
        True
        >>> has_few_values(rng.normal(size=200).round())
        False
    """
    values, rows = np.unique(y, return_counts=True)
    if len(y) < spec.fewest_rows or not 2 <= len(values) <= spec.few_values:
        return False
    ends = min(rows[0], rows[-1])
    if np.ptp(values) <= 1e-6 * np.abs(values).max():  # one value, and rounding
        return False
    return bool(ends >= spec.ties and len(y) >= 2 * spec.ties * len(values))


def rounding_width(y: Array, spec: AtomsSpec = ATOMS) -> float:
    """The width that responses (n,) were rounded to, or zero if they were not.

    The largest of 1, 2, 5 and 2.5 times a power of ten that all values are multiples
    of, if there are as many as four digits of the largest, or values that repeat.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=200)
        >>> [rounding_width(v) for v in (y, y.round(1), (2 * y).round() / 2)]
        [0.0, 0.1, 0.5]
    """
    values = np.unique(y)
    largest = float(np.abs(values).max(initial=0.0))
    if len(values) < 2 or not largest > 0:
        return 0.0
    top = int(np.floor(np.log10(np.ptp(values)))) + 1
    for power in range(top, top - spec.digits, -1):
        for factor in (5.0, 2.5, 2.0, 1.0):
            # By a quotient of whole numbers, so that 0.1 is the double next to it.
            width = factor * 10.0**power if power >= 0 else factor / 10.0**-power
            multiples = values / width
            size = np.maximum(np.abs(multiples), 1.0)
            # Errors of arithmetic, which of large numbers must not be all there is.
            slack = np.minimum(1e-9 * size, 1e-3) + 4.0 * np.finfo(float).eps * size
            if slack.max() > 0.1:
                return 0.0
            if np.all(np.abs(multiples - np.rint(multiples)) <= slack):
                return width
    return 0.0
