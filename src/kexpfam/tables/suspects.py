"""Columns that cannot help, and columns that tell too much.

A constant, a number that counts rows, and texts that are all different say nothing of
rows to come. A column of which y is a function, to rounding, is often y in other
clothes: a leak.
"""

import re

import numpy as np

from kexpfam._typing import Array
from kexpfam.tables.columns import Table
from kexpfam.tables.dates import days_of

# Names that programs give to row numbers when they write or read a table.
_ROW_NAME = re.compile(
    r"(unnamed: ?\d+|row[ _.]?(names?|ids?|numbers?|nr|no|index)|\.?id|index|)", re.I
)


def why_useless(table: Table, name: str, *, grouped: bool, few: int = 5) -> str | None:
    """Why a column cannot help, in words that follow its name; None if it may.

    Args:
        table: The rows of a fit.
        name: The column.
        grouped: Whether it is to be taken as categories in any case.
        few: Rows from which on texts that are all different are identifiers.

    Example:
        >>> table = Table("a", ("id", "x"), (np.arange(3.0), np.ones(3)))
        >>> why_useless(table, "id", grouped=False)
        'counts rows'
        >>> why_useless(table, "x", grouped=False)
        'is always 1'
    """
    gaps = table.is_missing(name)
    if gaps.all():
        return "has no values"
    if table.is_number(name) and not grouped:
        values = table.numbers(name)
        if np.ptp(values[~gaps]) == 0 and not gaps.any():
            return f"is always {values[0]:g}"
        return "counts rows" if _counts_rows(name, values) else None
    labels = table.labels(name)[~gaps].tolist()
    kinds = set(labels)
    if len(kinds) == 1 and not gaps.any():
        return f"is always {labels[0]:.40}"
    if len(kinds) < len(labels) or len(labels) < few or table.is_mostly_numbers(name):
        return None
    # Dates may all differ; what looks like one is refused with a sentence.
    dated = days_of(table.column(name)) is not None or table.disguised(name)
    return None if dated and not grouped else "has another value in every row"


def _counts_rows(name: str, values: Array) -> bool:
    """Whether numbers are those of rows: whole, all different, and called so."""
    if not _ROW_NAME.fullmatch(name.strip()) or np.any(values != np.rint(values)):
        return False
    if len(np.unique(values)) < len(values):
        return False
    # An index may be a measurement, unless it is without a hole.
    return name.lower() != "index" or np.ptp(values) == len(values) - 1


def fixes_response(values: Array, y: Array, *, groups: bool, fewest: int = 30) -> bool:
    """Whether y is a function of a column, up to rounding.

    Numbers: a monotone function, of thirty different values at least. Categories: y is
    the same in all rows of each, which are two or more on average.

    Args:
        values: Numbers, without NaN, or numbers of categories, (n,).
        y: Responses, (n,).
        groups: Whether they are categories.
        fewest: With fewer rows nothing is said.

    Example:
        >>> x = np.linspace(0.0, 5.0, 40)
        >>> fixes_response(x, np.exp(x).round(1), groups=False)
        True
        >>> fixes_response(x, np.sin(x), groups=False)
        False
    """
    if len(y) < fewest or np.ptp(y) == 0 or np.ptp(values) == 0:
        return False
    # A part of many rows tells as much.
    some = np.linspace(0, len(y) - 1, min(len(y), 20_000)).astype(int)
    values, y = values[some], y[some]
    if groups:
        kinds, first = np.unique(values, return_inverse=True)
        low, high = np.full(len(kinds), np.inf), np.full(len(kinds), -np.inf)
        np.minimum.at(low, first, y)
        np.maximum.at(high, first, y)
        return 2 * len(kinds) <= len(y) and bool(np.all(high == low))
    if len(np.unique(values)) < fewest or len(np.unique(y)) < fewest:
        return False
    # Either may be rounded: rows with the same number are taken in the order of y.
    both = (y[np.lexsort((y, x))] for x in (values, -values))
    return any(bool(np.all(np.diff(in_order) >= 0)) for in_order in both)
