"""What tables have in their cells: means with errors, and who is best beyond chance.

Pictures and texts are made of any part of a run, so that nothing here minds records
that are missing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from reproduction.record import Record

# Digits of figures in result files.
_DIGITS = 6

# Two-sided level of the paired test that puts figures in bold.
LEVEL = 0.05


def rounded(value: float) -> float | None:
    """A number as it stands in a result file; None where it is not finite."""
    return round(float(value), _DIGITS) if math.isfinite(value) else None


def values(records: Iterable[Record], method: str, name: str) -> list[float]:
    """A figure of all records of a method that have it."""
    found = (r.figures.get(name) for r in records if r.task.method == method)
    return [float(value) for value in found if value is not None]


def methods_of(records: Iterable[Record], declared: Sequence[str]) -> list[str]:
    """Those of the declared methods that were measured, in the order of declaration."""
    present = {record.task.method for record in records}
    return [name for name in declared if name in present]


def repeats_of(records: Iterable[Record]) -> int:
    """The number of different splits."""
    return len({record.task.split for record in records})


def mean_and_error(found: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error, which is zero for a single value."""
    mean = float(np.mean(found))
    if len(found) == 1:
        return mean, 0.0
    return mean, float(np.std(found, ddof=1) / math.sqrt(len(found)))


def in_words(found: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard error, as a table has it; a dash where there is nothing."""
    if not found:
        return "–"
    mean, error = mean_and_error(found)
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if len(found) > 1 else "")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first column on the left and the others on the right."""
    marks = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *rows))


def paragraphs(*parts: str) -> str:
    """Markdown of the parts that are not empty."""
    return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Sample:
    """A figure on several splits.

    Attributes:
        values: Figure by split.
    """

    values: Mapping[int, float]

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return mean_and_error(list(self.values.values()))[0]

    @property
    def standard_error(self) -> float:
        """Standard deviation of the mean; zero for one split.

        Splits share rows: this is not the error of new data.
        """
        return mean_and_error(list(self.values.values()))[1]


def samples(records: Iterable[Record], figure: str) -> dict[str, dict[str, Sample]]:
    """A figure by case and method, from the tasks that have it."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        if record.figures.get(figure) is not None:
            task = record.task
            by_split = found.setdefault(task.case, {}).setdefault(task.method, {})
            by_split[task.split] = record.figures[figure]
    return {
        case: {method: Sample(by_split) for method, by_split in methods.items()}
        for case, methods in found.items()
    }


def differences(first: Sample, second: Sample) -> np.ndarray:
    """First minus second on the splits that both have."""
    shared = sorted(set(first.values) & set(second.values))
    return np.array([first.values[k] - second.values[k] for k in shared])


def paired_p_value(first: Sample, second: Sample) -> float:
    """Two-sided p-value of a t-test on the splits that both have.

    One if these are fewer than two, or if nothing differs.
    """
    difference = differences(first, second)
    if len(difference) < 2 or not np.any(difference):
        return 1.0
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    # Differences that are equal but for rounding leave no doubt.
    t = abs(difference.mean()) / max(error, np.finfo(float).tiny)
    return float(2.0 * stats.t.sf(t, len(difference) - 1))


def best_methods(methods: Mapping[str, Sample]) -> set[str]:
    """The method with the smallest mean, and those that do not differ from it.

    By a two-sided paired t-test at 5 %, as in the paper. The best is one of those with
    the most splits: a mean over a few easy ones is no achievement. Others are judged on
    the splits that they share with it, two at least.
    """
    if not methods:
        return set()
    most = max(len(sample.values) for sample in methods.values())
    complete = [name for name, sample in methods.items() if len(sample.values) == most]
    best = min(complete, key=lambda name: methods[name].mean)
    return {best} | {
        name for name, sample in methods.items() if _is_as_good(sample, methods[best])
    }


def _is_as_good(sample: Sample, best: Sample) -> bool:
    difference = differences(sample, best)
    if len(difference) < 2:
        return False
    return bool(difference.mean() <= 0) or paired_p_value(sample, best) >= LEVEL


def cell(
    sample: Sample | None,
    *,
    bold: bool = False,
    expected: int | None = None,
    digits: int = 2,
) -> str:
    """A mean with its standard error; the number of splits if not as expected."""
    if sample is None:
        return ""
    mean = f"{round(sample.mean, digits) + 0.0:.{digits}f}"  # no minus before zero
    text = f"**{mean}**" if bold else mean
    if len(sample.values) > 1:
        text += f" ± {sample.standard_error:.{digits}f}"
    if expected is not None and len(sample.values) != expected:
        text += f" ({len(sample.values)})"
    return text


def at_or_below(sample: Sample, printed: float) -> bool:
    """Whether a mean, to two decimals, is not above what was printed."""
    return round(sample.mean, 2) <= printed
