"""The protocols of the paper's tables: rows, units, losses, and printed numbers.

Columns are in units of the full data's mean and standard deviation (population), which
are units and not information: every estimator standardises again with what it is given
to learn from.

Table 1: for seed s rows are ordered by `numpy.random.default_rng(s).permutation(n)`,
the first floor(n/2) train and the rest tests. A figure is the mean negative log density
of the test half. Where a density can vanish a test row costs at most 20 nats; for the
others there is no floor. `benchmarks/` measures other methods the same way.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kexpfam.datasets import load_benchmark
from reproduction.record import Figures

Rows = NDArray[np.float64]

# A factor of a test row costs at most so many nats where a density can vanish.
FLOOR = -20.0

# Table 1 of the paper: mean negative log-likelihoods of KCEF, NADE and LSCDE.
_PRINTED = {
    "caution": (0.99, 4.12, 1.19),
    "ftcollinssnow": (1.46, 3.09, 1.56),
    "highway": (1.17, 11.02, 1.98),
    "heights": (1.27, 2.71, 1.30),
    "sniffer": (0.33, 1.51, 0.48),
    "snowgeese": (0.72, 2.90, 1.39),
    "GAGurine": (0.46, 1.66, 0.70),
    "geyser": (1.21, 1.43, 0.70),
    "topo": (0.67, 4.26, 0.83),
    "BostonHousing": (0.30, 3.46, 1.13),
    "CobarOre": (3.42, 4.70, 1.61),
    "engel": (0.18, 1.46, 0.76),
    "mcycle": (0.56, 2.24, 0.93),
    "BigMac2003": (0.59, 13.8, 1.63),
}
TABLE1: dict[str, dict[str, float]] = {
    name: dict(zip(("KCEF", "NADE", "LSCDE"), printed, strict=True))
    for name, printed in _PRINTED.items()
}

# "red_wine, distinct rows" and "parkinsons, by person": other readings of a set.
DISTINCT = ", distinct rows"
BY_PERSON = ", by person"


class Method(NamedTuple):
    """A conditional density estimator for Table 1.

    Attributes:
        make: The estimator of a seed; `fit(X, y)` gives what has `score_samples(X, y)`.
        can_vanish: Whether its density can be zero at a test row.
        description: What it is and how its parameters are chosen.
    """

    make: Callable[[int], Any]
    can_vanish: bool = False
    description: str = ""


class Split(NamedTuple):
    """Rows that train, and rows that test."""

    train: Rows
    test: Rows


def in_units(data: Rows) -> Rows:
    """Columns with mean zero and standard deviation one."""
    scaled: Rows = (data - data.mean(axis=0)) / data.std(axis=0)
    return scaled


def halves(data: Rows, seed: int) -> Split:
    """Half to train, the larger one to test if they differ."""
    mixed = data[np.random.default_rng(seed).permutation(len(data))]
    return Split(*np.split(mixed, [len(data) // 2]))


def nine_tenths(data: Rows, seed: int) -> Split:
    """A tenth of the rows to test, the rest to train."""
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


def losses(log_factors: Rows, *, vanishing: bool) -> Figures:
    """Means and extremes of negative log densities.

    Args:
        log_factors: Log density of each factor of each test row, (n, d); one column if
            there is only one.
        vanishing: Whether densities of the method can be zero, as those of LSCDE: then
            each factor costs at most 20 nats.
    """
    if np.any(np.isnan(log_factors)):
        raise ValueError(f"{np.isnan(log_factors).sum()} log densities are not numbers")
    floored = np.maximum(log_factors, FLOOR)
    judged = (floored if vanishing else log_factors).sum(axis=1)
    return {
        "nll": round(-float(judged.mean()), 6),
        "nll_floored": round(-float(floored.sum(axis=1).mean()), 6),
        "below_floor": int(np.sum(log_factors < FLOOR)),
        "worst": round(-float(judged.min()), 3),
    }


def measure(case: str, seed: int, method: Method, rows: int | None = None) -> Figures:
    """One split of Table 1: fit to one half of a set, judge on the other."""
    train, test = halves(in_units(load_benchmark(case).data), seed)
    train = train[:rows]
    start = time.perf_counter()
    model = method.make(seed).fit(train[:, :-1], train[:, -1])
    seconds = time.perf_counter() - start
    log_p = model.score_samples(test[:, :-1], test[:, -1])
    return {
        "train_rows": len(train),
        "test_rows": len(test),
        **losses(log_p[:, None], vanishing=method.can_vanish),
        "fit_seconds": round(seconds, 3),
    }
