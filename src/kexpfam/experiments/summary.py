"""What suites ask of records: values of a case, means with errors.

Pictures and texts are made of any part of a run, so that nothing here minds records
that are missing.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kexpfam.experiments.task import Record

# Digits of figures in result files.
_DIGITS = 6


def rounded(value: float) -> float | None:
    """A number as it stands in a result file; None where it is not finite.

    Example:
        >>> rounded(0.123456789), rounded(float("-inf"))
        (0.123457, None)
    """
    return round(float(value), _DIGITS) if math.isfinite(value) else None


def succeeded(records: Iterable[Record]) -> list[Record]:
    """Records of tasks that did not fail."""
    return [record for record in records if record.error is None]


def values(records: Iterable[Record], method: str, name: str) -> list[float]:
    """A figure of all records of a method that have it."""
    found = (r.figures.get(name) for r in records if r.task.method == method)
    return [float(value) for value in found if value is not None]


def in_order(found: Iterable[str], declared: Sequence[str]) -> list[str]:
    """Those of the declared names that were found, in the order of declaration.

    Example:
        >>> in_order({"b", "a"}, ("a", "c", "b"))
        ['a', 'b']
    """
    present = set(found)
    return [name for name in declared if name in present]


def mean_and_error(found: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error, which is zero for a single value.

    Example:
        >>> mean_and_error([1.0, 3.0])
        (2.0, 1.0)
    """
    mean = float(np.mean(found))
    if len(found) == 1:
        return mean, 0.0
    return mean, float(np.std(found, ddof=1) / math.sqrt(len(found)))


def in_words(found: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard error, as a table has it; a dash where there is nothing.

    Example:
        >>> in_words([1.0, 3.0]), in_words([0.5]), in_words([])
        ('2.000 ± 1.000', '0.500', '–')
    """
    if not found:
        return "–"
    mean, error = mean_and_error(found)
    if len(found) == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first column on the left and the others on the right.

    Example:
        >>> print(table(["n", "KL"], [["50", "0.1"]]))
        | n | KL |
        | :-- | --: |
        | 50 | 0.1 |
    """
    marks = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *rows))


def paragraphs(*parts: str) -> str:
    """Markdown of the parts that are not empty."""
    return "\n\n".join(part for part in parts if part) + "\n"
