"""Cells of tables: means with standard errors, and who is best beyond chance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from kexpfam.experiments.summary import mean_and_error
from kexpfam.experiments.task import Record

# Two-sided level of the paired test that puts figures in bold.
LEVEL = 0.05


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
    """A figure by case and method, from the tasks that have it.

    Example:
        >>> from kexpfam.experiments.task import Record, Task
        >>> done = Record(Task("t", "a", "m", 0), {"nll": 1.5}, None, 0.1, {})
        >>> samples([done], "nll")["a"]["m"].mean
        1.5
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        if figure in record.figures:
            task = record.task
            by_split = found.setdefault(task.case, {}).setdefault(task.method, {})
            by_split[task.split] = record.figures[figure]
    return {
        case: {method: Sample(by_split) for method, by_split in methods.items()}
        for case, methods in found.items()
    }


def paired_p_value(first: Sample, second: Sample) -> float:
    """Two-sided p-value of a t-test on the splits that both have.

    One if these are fewer than two, or if nothing differs.

    Example:
        >>> low = Sample({0: 1.0, 1: 1.1, 2: 0.9})
        >>> high = Sample({0: 2.0, 1: 2.2, 2: 2.1})
        >>> paired_p_value(low, high) < 0.01
        True
    """
    shared = sorted(set(first.values) & set(second.values))
    difference = np.array([first.values[k] - second.values[k] for k in shared])
    if len(shared) < 2 or not np.any(difference):
        return 1.0
    error = difference.std(ddof=1) / np.sqrt(len(shared))
    # Differences that are equal but for rounding leave no doubt.
    t = abs(difference.mean()) / max(error, np.finfo(float).tiny)
    return float(2.0 * stats.t.sf(t, len(shared) - 1))


def best_methods(methods: Mapping[str, Sample]) -> set[str]:
    """The method with the smallest mean, and those that do not differ from it.

    By a two-sided paired t-test at 5 %, as in the paper. The best is one of those with
    the most splits: a mean over a few easy ones is no achievement. Others are judged on
    the splits that they share with it, two at least.

    Example:
        >>> low = Sample({0: 1.0, 1: 1.1, 2: 0.9})
        >>> near = Sample({0: 1.1, 1: 1.0, 2: 1.0})
        >>> high = Sample({0: 2.0, 1: 2.2, 2: 2.1})
        >>> sorted(best_methods({"low": low, "near": near, "high": high}))
        ['low', 'near']
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
    shared = sorted(set(sample.values) & set(best.values))
    if len(shared) < 2:
        return False
    difference = np.mean([sample.values[k] - best.values[k] for k in shared])
    return bool(difference <= 0) or paired_p_value(sample, best) >= LEVEL


def cell(
    sample: Sample | None,
    *,
    bold: bool = False,
    expected: int | None = None,
    digits: int = 2,
) -> str:
    """A mean with its standard error; the number of splits if not as expected.

    Example:
        >>> cell(Sample({0: 1.0, 1: 1.5}), bold=True, expected=20)
        '**1.25** ± 0.25 (2)'
    """
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
    """Whether a mean, to two decimals, is not above what was printed.

    Example:
        >>> at_or_below(Sample({0: 0.564}), 0.56)
        True
    """
    return round(sample.mean, 2) <= printed


def largest(sample: Sample | None) -> str:
    """The largest value of all splits, with one decimal."""
    return "" if sample is None else f"{max(sample.values.values()):.1f}"
