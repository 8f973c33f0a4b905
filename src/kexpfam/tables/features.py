"""Columns of tables as conditions: how each kind of column becomes numbers, and back.

A number is one column of X. Of categories each has a column of zeros and ones while
they are few; many have one column, the mean of y, and one of its spread where that
differs. Ordered categories are one column of
ranks. A date is year, month, weekday, hour and a trend, as far as these vary. Where a
column had gaps at the fit, a further column says where they are, and the typical value
is put in.
"""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.persistence import saved_fit
from kexpfam.summaries import (
    differ,
    held_out_codes,
    log_deviations,
    shrunk_means,
)
from kexpfam.tables.columns import (
    TRUTHS,
    Column,
    Table,
    TableError,
    as_number,
    label_of,
    listed,
    nearest,
)
from kexpfam.tables.dates import (
    as_moments,
    day_of_text,
    days_of,
    parts_of_dates,
    text_of_day,
)

# Categories that have a column each; above, all have one. A guess: so many are the
# months of a year, and a kernel of a dozen columns still sees the others.
MOST_ONE_HOT = 12
# Rows that a category needs for a mean of its own. A guess: means of fewer are shrunk
# to nearly nothing.
FEWEST_OF_A_CATEGORY = 5


@dataclass(frozen=True, eq=False)
class Cells:
    """What a column of a table has become."""

    X: Array  # columns of X, (n, k)
    gaps: Mask  # where the value is missing, (n,)
    strange: Mask  # where it is no category that was seen at the fit, (n,)


class Feature(ABC):
    """A column of conditions, as it was at the fit."""

    name: str
    gaps: bool  # whether values were missing at the fit, so that a column says where
    categories: tuple[str, ...]  # what may be chosen, in order; none for numbers
    typical: Any  # median, or most frequent category

    @property
    def takes_gaps(self) -> bool:
        """Whether the fit has seen what a missing value means."""
        return self.gaps

    @property
    def levels(self) -> Array:
        """Its cells in X at each of the categories, (k, width)."""
        return np.array([self.cells(category) for category in self.categories])

    @property
    @abstractmethod
    def parts(self) -> list[str]:
        """Names of its columns in X, but for the one that says what is missing."""

    @property
    def columns(self) -> list[str]:
        """Names of its columns in X."""
        return [*self.parts, *([f"{self.name} is missing"] if self.gaps else [])]

    @abstractmethod
    def code(self, table: Table) -> Cells:
        """Its cells in X for the rows of a table."""

    @abstractmethod
    def cells(self, value: Any) -> list[float]:
        """Its cells in X for a number or a category."""

    @abstractmethod
    def values(self, cells: Array) -> Column:
        """Numbers, moments or categories that cells of X stand for, (n, k) -> (n,)."""

    def value(self, cells: Array) -> float | str:
        """The number or category that some cells of X stand for, (k,)."""
        found = self.values(cells[None, :])[0]
        return str(found) if self.categories else float(found)

    @property
    def moved(self) -> list[int]:
        """Which of its cells a curve along it moves: all, unless some turn too fast."""
        return list(range(len(self.columns)))

    def text(self, value: float | str) -> str:
        """A number or category as people write it."""
        return value if isinstance(value, str) else f"{value:.4g}"

    def read(self, text: str) -> float | str:
        """The number or category that a text stands for."""
        if not self.categories:
            value = TRUTHS.get(text.strip(), as_number(text.strip()))
            if value is None:
                raise TableError(f"{self.name}={text!r} is not a number.")
            return value
        label = label_of(text.strip())
        place = int(places_of(np.array([label]), self.categories)[0])
        if place == len(self.categories):
            raise TableError(unknown_category(label, self))
        return self.categories[place]

    def check_saved(self) -> None:
        """Refuse typical values that the column cannot have."""
        known = self.typical in self.categories
        if not known and (self.categories or isinstance(self.typical, str)):
            raise ValueError("a typical category is none")

    def _found(self, parts: Array, gaps: Mask, strange: Mask | None = None) -> Cells:
        columns = [parts, gaps[:, None]] if self.gaps else [parts]
        none = np.zeros(len(gaps), dtype=bool)
        X = np.hstack(columns).astype(float)
        return Cells(X, gaps, none if strange is None else strange)

    def _known(self, parts: list[float]) -> list[float]:
        return [*parts, 0.0] if self.gaps else parts


@saved_fit()
@dataclass(frozen=True)
class NumberFeature(Feature):
    """A column of numbers."""

    name: str
    typical: float
    low: float  # smallest number
    high: float  # largest number
    gaps: bool = False
    categories = ()

    @property
    def parts(self) -> list[str]:
        return [self.name]

    def code(self, table: Table) -> Cells:
        gaps = table.is_missing(self.name)
        numbers = np.where(gaps, self.typical, table.numbers(self.name))
        return self._found(numbers[:, None], gaps)

    def cells(self, value: Any) -> list[float]:
        return self._known([float(value)])

    def values(self, cells: Array) -> Column:
        return _with_gaps(self, cells[:, 0], cells, np.nan)


@saved_fit()
@dataclass(frozen=True)
class CategoryFeature(Feature):
    """A few categories, each a column of zeros and ones."""

    name: str
    categories: tuple[str, ...]
    typical: str
    gaps: bool = False

    @property
    def parts(self) -> list[str]:
        return [f"{self.name}={c}" for c in self.categories]

    def code(self, table: Table) -> Cells:
        labels, gaps = table.labels(self.name), table.is_missing(self.name)
        if not self.gaps:
            labels = np.where(gaps, self.typical, labels)
        places = places_of(labels, self.categories)
        one_hot = places[:, None] == np.arange(len(self.categories))
        return self._found(one_hot, gaps, ~one_hot.any(axis=1) & ~gaps)

    def cells(self, value: Any) -> list[float]:
        return self._known([float(c == value) for c in self.categories])

    def values(self, cells: Array) -> Column:
        names = np.array(self.categories, dtype=object)
        chosen = names[np.argmax(cells[:, : len(names)], axis=1)]
        return _with_gaps(self, chosen, cells, "")


@saved_fit()
@dataclass(frozen=True)
class OrderedFeature(Feature):
    """Categories with an order: one column of ranks, 0 for the first."""

    name: str
    categories: tuple[str, ...]
    typical: str
    gaps: bool = False

    @property
    def parts(self) -> list[str]:
        return [self.name]

    def code(self, table: Table) -> Cells:
        labels, gaps = table.labels(self.name), table.is_missing(self.name)
        found = places_of(labels, self.categories)
        unknown = found == len(self.categories)
        found[unknown] = self.categories.index(self.typical)
        return self._found(found[:, None].astype(float), gaps, unknown & ~gaps)

    def cells(self, value: Any) -> list[float]:
        return self._known([float(self.categories.index(value))])

    def values(self, cells: Array) -> Column:
        most = len(self.categories) - 1
        places = np.clip(np.rint(cells[:, 0]), 0, most).astype(int)
        names = np.array(self.categories, dtype=object)[places]
        return _with_gaps(self, names, cells, "")


@saved_fit({"codes": "k d", "other": "d"})
@dataclass(frozen=True, eq=False)
class EncodedFeature(Feature):
    """Many categories as one column: shrunk means of y, or shares of rows without y.

    Where categories differ in how far y is from its mean, a further column has the
    shrunk means of the log of that. Rare categories, and those that were not there at
    the fit, share one number.
    """

    name: str
    categories: tuple[str, ...]  # that are not rare
    typical: str
    codes: Array  # of each of them, (k, d)
    other: Array  # of all others, (d,)
    missing: tuple[float, ...] = ()  # of gaps, if there were some at the fit, d numbers
    rare: tuple[str, ...] = ()  # others that were there at the fit
    what: str = "mean of y"  # that codes are
    spread: bool = False  # whether the second half of them are log deviations
    gaps = False  # a gap is a category of its own

    def check_saved(self) -> None:
        """Refuse codes that are not of the categories."""
        super().check_saved()
        if self.codes.shape[0] != len(self.categories):
            raise ValueError("the codes are not of the categories")
        if len(self.missing) not in (0, len(self.other)):
            raise ValueError("the code of gaps is something else")

    @property
    def takes_gaps(self) -> bool:
        return bool(self.missing)

    @property
    def parts(self) -> list[str]:
        whats = [self.what, "spread of y"] if self.spread else [self.what]
        d = len(self.other) // len(whats)
        numbers = [""] if d == 1 else [f" {j + 1}" for j in range(d)]
        return [f"{self.name}: {what}{number}" for what in whats for number in numbers]

    def code(self, table: Table) -> Cells:
        labels, gaps = table.labels(self.name), table.is_missing(self.name)
        places = places_of(labels, self.categories)
        gap = np.array(self.missing) if self.missing else self.other
        every = np.vstack([self.codes, self.other, gap])
        k = len(self.categories)
        places[gaps] = k + 1
        new = places == k
        new[new] = places_of(labels[new], self.rare) == len(self.rare)
        return self._found(every[places], gaps, new)

    def cells(self, value: Any) -> list[float]:
        cells: list[float] = self.codes[self.categories.index(value)].tolist()
        return cells

    def with_means_of(self, table: Table, Y: Array, weights: Array) -> "EncodedFeature":
        """The same categories, with means of y (n, d) of other rows."""
        groups, k = groups_of(table, self.name, self.categories)
        codes = _codes(groups, k, Y, weights, self.spread)
        gap = tuple(map(float, codes[-1])) if self.missing else ()
        return replace(self, codes=codes[:-2], other=codes[-2], missing=gap)

    def held_out(self, table: Table, Y: Array, weights: Array) -> Array:
        """Codes of the rows of a fit, by the other parts of the rows."""
        groups, k = groups_of(table, self.name, self.categories)
        means = held_out_codes(groups, k, Y, weights)
        if not self.spread:
            return means
        far = log_deviations(groups, k, Y, weights)
        return np.hstack([means, held_out_codes(groups, k, far, weights)])

    def values(self, cells: Array) -> Column:
        """The nearest category: several may share a number."""
        distances = np.abs(cells[:, None, :] - self.codes[None]).sum(axis=2)
        return np.array(self.categories, dtype=object)[np.argmin(distances, axis=1)]


@saved_fit()
@dataclass(frozen=True)
class DateFeature(Feature):
    """Dates or times of day: what of them varied at the fit."""

    name: str
    told: tuple[str, ...]  # names of parts, as `parts_of_dates` has them
    typical: float  # days since 1970, as all other numbers here
    low: float
    high: float
    gaps: bool = False
    categories = ()

    def check_saved(self) -> None:
        """Refuse parts that dates do not have."""
        super().check_saved()
        if not set(self.told) <= parts_of_dates(np.zeros(1), 0.0).keys():
            raise ValueError("dates have no such parts")

    @property
    def parts(self) -> list[str]:
        return [f"{self.name}: {part}" for part in self.told]

    def code(self, table: Table) -> Cells:
        days, gaps = days_of(table.column(self.name)), table.is_missing(self.name)
        if days is None:
            labels = table.labels(self.name).tolist()
            row = next(i for i, t in enumerate(labels) if t and day_of_text(t) is None)
            raise TableError(
                f"{table.place(row, self.name)}: {labels[row]!r:.60} is not a date "
                f"such as 2024-01-31."
            )
        return self._found(self._parts(np.where(gaps, self.typical, days)), gaps)

    def cells(self, value: Any) -> list[float]:
        cells: list[float] = self._parts(np.array([float(value)]))[0].tolist()
        return self._known(cells)

    def values(self, cells: Array) -> Column:
        return _with_gaps(
            self, as_moments(self._days(cells)), cells, np.datetime64("NaT", "us")
        )

    def value(self, cells: Array) -> float | str:
        return float(self._days(cells[None, :])[0])

    @property
    def moved(self) -> list[int]:
        whole = super().moved
        if self.high - self.low < 60.0:
            return whole
        # Over months, a curve through all weekdays and hours is a ribbon.
        fast = [part.startswith(("weekday", "hour")) for part in self.told]
        return [i for i in whole if i >= len(fast) or not fast[i]]

    def text(self, value: float | str) -> str:
        return text_of_day(float(value))

    def read(self, text: str) -> float | str:
        day = day_of_text(text.strip())
        if day is None:
            raise TableError(f"{self.name}={text!r} is not a date such as 2024-01-31.")
        return day

    def _parts(self, days: Array) -> Array:
        found = parts_of_dates(days, self.low)
        return np.column_stack([found[part] for part in self.told])

    def _days(self, cells: Array) -> Array:
        """Days since 1970 that cells stand for, (n, k) -> (n,)."""
        if "days" in self.told:
            return self.low + cells[:, self.told.index("days")]
        # All on one day: times of day, of which a sine or a cosine may be constant.
        found = parts_of_dates(np.array([self.typical]), self.low)
        sine, cosine = (
            cells[:, self.told.index(part)] if part in self.told else found[part]
            for part in ("hour sin", "hour cos")
        )
        return np.floor(self.typical) + np.arctan2(sine, cosine) / (2.0 * np.pi) % 1.0


def places_of(labels: Column, categories: tuple[str, ...]) -> Indices:
    """Which of the categories each label is; their number for none of them, (n,).

    True and False may be spelled in another way than in the categories, also 1 and 0.

    Example:
        >>> places_of(np.array(["1", "TRUE", "False"]), ("False", "True", "maybe"))
        array([1, 1, 0])
    """
    known = {label: i for i, label in enumerate(categories)}
    truths = {TRUTHS[label]: i for label, i in known.items() if label in TRUTHS}
    if set(categories) == {"0", "1"}:
        truths = {float(label): i for label, i in known.items()}
    for label, value in ({"1": 1.0, "0": 0.0} | TRUTHS).items():
        if value in truths:
            known.setdefault(label, truths[value])
    others = len(categories)
    found = [known.get(label, others) for label in labels.tolist()]
    return np.array(found, dtype=np.intp)


def number_feature(table: Table, name: str, advice: str = "") -> NumberFeature:
    """A column of numbers as a feature; errors may end with advice."""
    values = table.numbers(name, advice)
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    gaps = bool(np.isnan(values).any())
    return NumberFeature(name, float(np.nanmedian(values)), *ends, gaps)


def date_feature(name: str, days: Array) -> DateFeature | None:
    """A column of dates, in days since 1970, as a feature; None if they are all one."""
    known = days[~np.isnan(days)]
    low, high = float(known.min()), float(known.max())
    parts = parts_of_dates(known, low)
    if np.floor(low) == np.floor(high):
        parts.pop("days")
    # Sines of half a turn are not exactly zero.
    told = tuple(part for part, values in parts.items() if np.ptp(values) > 1e-9)
    typical = float(np.median(known))
    gaps = len(known) < len(days)
    return DateFeature(name, told, typical, low, high, gaps) if told else None


def ordered_feature(
    table: Table, name: str, order: tuple[str, ...], told: bool
) -> OrderedFeature:
    """Categories with an order as a feature; all that occur have to be in it."""
    labels = table.labels(name)
    places = places_of(labels, order)
    odd = (places == len(order)) & ~table.is_missing(name)
    if odd.any():
        row = int(np.argmax(odd))
        raise TableError(
            f"{table.place(row, name)}: {str(labels[row])!r:.60} is not in the order "
            f"{'that was told' if told else 'of its type'}, {listed(order)}; add it."
        )
    known = places[places < len(order)]
    typical = order[int(np.median(known))] if len(known) else order[0]
    return OrderedFeature(name, order, typical, len(known) < len(places))


def group_feature(
    name: str, table: Table, Y: Array | None, weights: Array
) -> CategoryFeature | EncodedFeature | None:
    """Categories without an order: one-hot while they are few."""
    gaps = table.is_missing(name)
    rows = Counter(table.labels(name)[~gaps].tolist())
    kinds = sorted(rows)
    typical = max(kinds, key=rows.__getitem__)  # the first of several
    if len(kinds) <= MOST_ONE_HOT:
        return CategoryFeature(name, tuple(kinds), typical, bool(gaps.any()))
    names = tuple(kind for kind in kinds if rows[kind] >= FEWEST_OF_A_CATEGORY)
    rare = tuple(kind for kind in kinds if rows[kind] < FEWEST_OF_A_CATEGORY)
    if not names:
        return None
    groups, k = groups_of(table, name, names)
    what = "mean of y" if Y is not None else "share of rows"
    shares = np.bincount(groups, weights, minlength=k) / weights.sum()
    codes, spread = shares[:, None], False
    if Y is not None:
        spread = differ(groups, k, log_deviations(groups, k, Y, weights), weights)
        codes = _codes(groups, k, Y, weights, spread)
        if not np.any(np.ptp(codes, axis=0) > 0):
            return None
    missing = tuple(map(float, codes[-1])) if gaps.any() else ()
    return EncodedFeature(
        name, names, typical, codes[:-2], codes[-2], missing, rare, what, spread
    )


def _codes(groups: Indices, k: int, Y: Array, weights: Array, spread: bool) -> Array:
    """Shrunk means of y, and of log deviations from these if wished, (k, d or 2d)."""
    means = shrunk_means(groups, k, Y, weights)
    if not spread:
        return means
    far = log_deviations(groups, k, Y, weights)
    return np.hstack([means, shrunk_means(groups, k, far, weights)])


def groups_of(table: Table, name: str, kept: tuple[str, ...]) -> tuple[Indices, int]:
    """Which group each row is in, (n,): a category, the others, or the gaps."""
    groups = places_of(table.labels(name), kept)
    groups[table.is_missing(name)] = len(kept) + 1
    return groups, len(kept) + 2


def unknown_category(label: str, feature: Feature) -> str:
    """A sentence on a category that was not seen at the fit."""
    return (
        f"{label!r:.60} is not a category of {feature.name!r} that the model has seen"
        f"{nearest(label, feature.categories)}; these are "
        f"{listed(feature.categories)}."
    )


def _with_gaps(feature: Feature, values: Column, cells: Array, gap: Any) -> Column:
    """Values, and what stands for a gap where the last column of cells says so."""
    if not feature.gaps:
        return values
    return np.where(cells[:, -1] > 0.5, gap, values)
