"""Weights of an average: rules compared on the same candidates, fitted once.

For every table and split an `AutoKCEF` validates its candidates; every rule gives them
weights; the members of all rules are fitted to all training rows, and each average is
judged on the test rows. In the columns with "forest" a forest with a t density takes
part as an expert: one that errs differently.

    python benchmarks/weights.py                tables and the paper's small sets
    python benchmarks/weights.py --cases airfoil:0 geyser:0 --rows 3000
    python benchmarks/weights.py --report       the table from the result file

KEXPFAM_DATA has to name the folder of the paper's sets, with regression tables and
their masks of test rows in its subfolder `tables`. A run adds its cases to
`results/weights.json`. A split of a small set is that of `table1.py`: half of the rows
to train, dealt by its number.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from record import RESULTS, write_result
from scipy import special
from sklearn.base import BaseEstimator

from kexpfam import AutoKCEF
from kexpfam.base_densities import StudentBase
from kexpfam.data import Rows, TrainingRows, in_row_order
from kexpfam.datasets import load_benchmark
from kexpfam.distributions import ClosedFormDensity
from kexpfam.estimators.experts import cross_fitted, fit_expert
from kexpfam.estimators.members import fit_to_all_rows
from kexpfam.estimators.trials import try_families
from kexpfam.selection import Candidate
from kexpfam.selection.averaging import (
    average_weights,
    prior_weights,
    representatives,
    tempered_weights,
    without_negligible,
)
from kexpfam.selection.defended import defended_weights
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.spec import PLAIN
from kexpfam.selection.validation import Validation
from reproduction.protocol import TABLE1, halves, in_units
from reproduction.tables import table

Array = NDArray[np.float64]

TABLES = ("airfoil", "power", "sml", "skillcraft", "autompg", "elevators", "stock")
SMALL = tuple(name for name in TABLE1 if name != "heights")
CASES = [f"{name}:{split}" for split in (0, 1) for name in TABLES]
CASES += [f"{name}:{split}" for split in range(3) for name in SMALL]

KINDS = ("", " with forest")


class Forest(BaseEstimator):
    """A forest's prediction, and a t density around it that is as wide everywhere."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit with out-of-bag residuals."""
        from sklearn.ensemble import ExtraTreesRegressor

        self.forest_ = ExtraTreesRegressor(
            200, bootstrap=True, oob_score=True, random_state=0
        ).fit(X, y)
        # A few rows may be in all bags.
        left = np.abs(y - np.nan_to_num(self.forest_.oob_prediction_, nan=np.mean(y)))
        # The median of |t| with five degrees of freedom is 0.73.
        self.scale_ = max(float(np.median(left)) / 0.73, 1e-6 * float(np.std(y)))
        return self

    def given(self, X: Any) -> ClosedFormDensity:
        """Densities at conditions."""
        scale = np.full(len(X), self.scale_)
        noise = StudentBase(scale=1.0, df=5.0)
        return ClosedFormDensity(noise, self.forest_.predict(X), scale)


def tempered(candidates: list[Candidate], held_out: Array, rows: Array) -> Array:
    """The rule before stacking: two families of each group, by tempered weights."""
    weights = tempered_weights(held_out, prior_weights(candidates, PLAIN), rows)
    return without_negligible(representatives(candidates, weights, 2), 0.005)


RULES: dict[str, Callable[..., Array]] = {
    "tempered": tempered,
    "stacked": average_weights,
}


def load(case: str, rows: int) -> tuple[Array, Array]:
    """Training and test rows, y last."""
    name, split = case.split(":")
    if name in TABLE1:
        return halves(in_units(load_benchmark(name).data), int(split))
    folder = Path(os.environ["KEXPFAM_DATA"], "tables")
    data = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",")
    masks = np.loadtxt(folder / f"{name}_test_mask.csv.gz", delimiter=",")
    test = masks[:, int(split)] == 1
    train = np.random.default_rng(int(split)).permutation(data[~test])
    return train[:rows], data[test]


class Average:
    """Candidates of an average and of the forest, validated; members when asked for."""

    def __init__(self, train: Array, test: Array) -> None:
        spec = AutoKCEF(n_jobs=1)._spec()
        rows = Rows(train[:, :-1], train[:, -1:], np.ones(len(train)))
        training = TrainingRows.of(in_row_order(rows), shuffled=True)
        rng = np.random.default_rng(0)
        self._validation = Validation.of(training, spec.family, rng)
        try_families(self._validation, spec.experts, spec.coordinates, likelihood=None)
        self._spec = spec.family
        self._X, self._y = test[:, :-1], test[:, -1]
        validated, folds = self._validation.rows, self._validation.folds
        log_p, _ = cross_fitted("forest", Forest(), validated, folds)
        expert = Candidate("forest", None, None, np.inf, "expert", log_p)
        self.candidates = [*self._validation.candidates, expert]
        self.weights = validated.weights
        # All rules have the defensive component of the default one.
        _, self._defence = defended_weights(self._validation, self.candidates)
        log_p = np.stack([c.held_out for c in self.candidates])
        self.held_out = self._defence.beside(log_p)
        placed = self._validation.final(self._defence.coordinates)
        component = DefensiveComponent(placed.coordinates, self._defence.base)
        self._defensive = component.density(self._X).logpdf(self._y)
        self._tested: dict[int, Array] = {}

    def tested(self, k: int) -> Array:
        """Log density of the test rows under a candidate fitted to all rows."""
        if k not in self._tested:
            candidate, validation = self.candidates[k], self._validation
            if candidate.method == "expert":
                density: Any = fit_expert(Forest(), validation.all_rows).given(self._X)
            else:
                (family,), _ = fit_to_all_rows(
                    validation, [candidate], self._spec, 0, None
                )
                Z = family.coordinates.conditions(self._X)
                there = family.coordinates.at(Z)
                density = family.closed_form(there) or family.normalized(Z, there)
            self._tested[k] = density.logpdf(self._y)
        return self._tested[k]

    def loss(self, weights: Array) -> float:
        """Mean negative log density of the test rows under an average."""
        kept = np.flatnonzero(weights)
        shares = np.log(weights[kept] * (1.0 - self._defence.weight))
        parts = [
            share + self.tested(int(k)) for share, k in zip(shares, kept, strict=True)
        ]
        parts.append(np.log(self._defence.weight) + self._defensive)
        return -float(special.logsumexp(np.stack(parts), axis=0).mean())


def measured(case: str, rows: int) -> dict[str, Any]:
    """Loss on test rows and number of members under each rule, and its milliseconds."""
    train, test = load(case, rows)
    average = Average(train, test)
    found: dict[str, Any] = {"rows": len(train), "candidates": len(average.candidates)}
    for kind in KINDS:
        some = slice(None) if kind else slice(-1)
        for rule, weigh in RULES.items():
            start = time.perf_counter()
            weights = weigh(
                average.candidates[some], average.held_out[some], average.weights
            )
            spent = 1e3 * (time.perf_counter() - start)
            found[rule + kind] = {
                "nll": round(average.loss(weights), 4),
                "members": int(np.count_nonzero(weights)),
                "milliseconds": round(spent, 1),
            }
    return found


def report(result: dict[str, Any]) -> str:
    """Losses and members by case."""
    columns = [rule + kind for kind in KINDS for rule in RULES]
    lines = [
        [case, str(found["rows"])]
        + [f"{found[c]['nll']:.3f} ({found[c]['members']})" for c in columns]
        for case, found in result.items()
    ]
    return table(["case", "rows", *(f"{c} (members)" for c in columns)], lines)


def main() -> None:
    """Measure cases, and add them to the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="NAME:SPLIT")
    parser.add_argument("--rows", type=int, default=3000, help="at most, of tables")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    path = RESULTS / "weights.json"
    result = json.loads(path.read_text())["result"] if path.exists() else {}
    for case in [] if options.report else options.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result[case] = measured(case, options.rows)
        print(case, json.dumps(result[case]), flush=True)
        write_result("weights", result)
    print(report(result))


if __name__ == "__main__":
    main()
