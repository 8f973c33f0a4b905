"""How rows are divided into those that train and those that test.

Columns are in units of the full data's mean and standard deviation (population), which
are units and not information: every estimator standardises again with what it is given
to learn from.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kexpfam.datasets import load_benchmark

Rows = NDArray[np.float64]

# "red_wine, distinct rows" and "parkinsons, by person": other readings of a set.
DISTINCT = ", distinct rows"
BY_PERSON = ", by person"


class Split(NamedTuple):
    """Rows that train, and rows that test."""

    train: Rows
    test: Rows

    def limited(self, rows: int | None) -> "Split":
        """The same test with so many training rows, at most."""
        return self if rows is None else Split(self.train[:rows], self.test)


def in_units(data: Rows) -> Rows:
    """Columns with mean zero and standard deviation one.

    Example:
        >>> in_units(np.array([[1.0], [3.0]])).ravel().tolist()
        [-1.0, 1.0]
    """
    scaled: Rows = (data - data.mean(axis=0)) / data.std(axis=0)
    return scaled


def halves(data: Rows, seed: int) -> Split:
    """Half to train, the larger one to test if they differ.

    Example:
        >>> train, test = halves(np.arange(5.0)[:, None], 0)
        >>> len(train), len(test)
        (2, 3)
    """
    mixed = data[np.random.default_rng(seed).permutation(len(data))]
    return Split(*np.split(mixed, [len(data) // 2]))


def nine_tenths(data: Rows, seed: int) -> Split:
    """A tenth of the rows to test, the rest to train.

    Example:
        >>> train, test = nine_tenths(np.arange(25.0)[:, None], 0)
        >>> len(train), len(test)
        (23, 2)
    """
    mixed = data[np.random.default_rng(seed).permutation(len(data))]
    test, train = np.split(mixed, [len(data) // 10])
    return Split(train, test)


def nine_tenths_of(groups: NDArray[np.int64], data: Rows, seed: int) -> Split:
    """Whole groups to test, as many as give a tenth of the rows or just less.

    One group is tested at least. Rows are mixed afterwards, for limits on their number.
    """
    rng = np.random.default_rng(seed)
    names, sizes = np.unique(groups, return_counts=True)
    order = rng.permutation(len(names))
    tested = max(1, int(np.searchsorted(np.cumsum(sizes[order]), len(data) / 10)))
    test = np.isin(groups, names[order[:tested]])
    return Split(rng.permutation(data[~test]), rng.permutation(data[test]))


def conditional_split(case: str, seed: int) -> Split:
    """Half of a set for Table 1, y in the last column."""
    return halves(in_units(load_benchmark(case).data), seed)


def joint_split(case: str, seed: int) -> Split:
    """Nine tenths of a set for Table 2, or of another reading of it.

    Equal rows are counted once in "... , distinct rows"; in "... , by person" nobody is
    in both parts.
    """
    name = case.removesuffix(DISTINCT).removesuffix(BY_PERSON)
    loaded = load_benchmark(name)
    if case.endswith(DISTINCT):
        return nine_tenths(in_units(np.unique(loaded.data, axis=0)), seed)
    if case.endswith(BY_PERSON):
        if loaded.groups is None:
            raise ValueError(f"rows of {name} do not come from persons.")
        return nine_tenths_of(loaded.groups, in_units(loaded.data), seed)
    return nine_tenths(in_units(loaded.data), seed)
