"""Are masses of isolated components right by default, and what does that cost?

Components stand side by side, `separation` standard deviations apart, and move with x:

    y = x₁ + 0.4·separation·c + 0.4 ε,    c in {0, 1} or {0, 1, 2},  x in [−2, 2]ᵖ

With "constant" masses the upper component has `mass`; with "varying" ones its logit is
that plus x₁; with "three" components the middle one has 1 − mass, the upper one 0.7 of
the rest. Mean absolute errors are those of the masses of all components at 200 fresh x,
beside a logistic regression that is told which component each row is of, which no
density estimator knows. Log losses are those of 2,000 fresh rows, times CPU seconds.

Single errors are mostly chance, the regression's as well: what is compared are sums
over cases and seeds, in "groups". "Losses" there are of the cases where all were run.
Times are beside those of score matching: "time" beside a `KCEF`, "time_of_own" of an
average beside the same average by score matching alone.

Crossing lines: y = ±1.5 x + 2 ε, both signs alike, x uniform on [−5, 5], 800 rows.

The check: how often `check_isolated_components` finds components, and calls masses
wrong, if it is given the true densities, or ones whose masses are off by 0.05.

    python benchmarks/masses.py [--quick] [--largest 20000] [--seeds 3] [--more]

writes `results/masses.json` (not with --quick) after every case and seed, so that a run
may be stopped; with --more what is there is kept, and only the rest is run.
"""

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import special
from sklearn.linear_model import LogisticRegression

from kexpfam import KCEF, AutoKCEF
from kexpfam.family import check_isolated_components
from kexpfam.family.isolated_components import MassCheck

STD = 0.4


@dataclass(frozen=True)
class Case:
    """One simulated truth."""

    rows: int
    columns: int = 1
    kind: str = "constant"  # Or "varying", "three"
    mass: float = 0.7
    separation: float = 10.0

    def masses(self, X: np.ndarray) -> np.ndarray:
        """Of each component, (n, k)."""
        if self.kind == "three":
            shares = np.array([0.3 * self.mass, 1.0 - self.mass, 0.7 * self.mass])
            return np.tile(shares, (len(X), 1))
        slope = 1.0 if self.kind == "varying" else 0.0
        upper = special.expit(special.logit(self.mass) + slope * X[:, 0])
        return np.stack([1.0 - upper, upper], axis=1)

    def draw(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and the component of each row."""
        rng = np.random.default_rng([seed, n])
        X = rng.uniform(-2.0, 2.0, size=(n, self.columns))
        below = np.cumsum(self.masses(X), axis=1)
        c = np.sum(rng.random((n, 1)) > below[:, :-1], axis=1)
        y = X[:, 0] + STD * self.separation * c + STD * rng.normal(size=n)
        return X, y, c

    def found_masses(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Masses of the components by a fitted density, cut in the middle of gaps."""
        density, k = model.given(X), self.masses(X[:1]).shape[1]
        cuts = X[:, :1] + STD * self.separation * (np.arange(k - 1) + 0.5)
        below = density.cdf(cuts)
        edges = np.zeros((len(X), 1)), np.ones((len(X), 1))
        return np.diff(np.concatenate([edges[0], below, edges[1]], axis=1), axis=1)


MODELS: dict[str, Callable[[], Any]] = {
    "score": lambda: KCEF(fit_method="score", random_state=0, n_jobs=1),
    "KCEF": lambda: KCEF(random_state=0, n_jobs=1),
    "AutoKCEF": lambda: AutoKCEF(random_state=0, n_jobs=1),
    "AutoKCEF by score": lambda: AutoKCEF(likelihood=False, random_state=0, n_jobs=1),
    "likelihood": lambda: KCEF(fit_method="likelihood", random_state=0, n_jobs=1),
}
# The grid of fits by likelihood alone takes minutes with more rows and columns.
LIKELIHOOD_ROWS = 600


def measure(case: Case, seed: int) -> dict[str, dict[str, float]]:
    """Errors, log losses and times of all methods."""
    X, y, c = case.draw(case.rows, seed)
    fresh_X, fresh_y, _ = case.draw(2000, seed + 1000)
    some = fresh_X[:200]
    truth = case.masses(some)
    logistic = np.zeros_like(truth)
    told = LogisticRegression(max_iter=1000).fit(X, c)
    logistic[:, told.classes_] = told.predict_proba(some)
    found = {"logistic": {"mae": float(np.abs(logistic - truth).mean())}}
    for name, make in MODELS.items():
        large = case.rows > LIKELIHOOD_ROWS or case.columns > 1
        if name == "likelihood" and large:
            continue
        start = time.process_time()
        model = make().fit(X, y)
        spent = time.process_time() - start
        masses = case.found_masses(model, some)
        found[name] = {
            "mae": float(np.abs(masses - truth).mean()),
            "log_loss": -float(model.score(fresh_X, fresh_y)),
            "seconds": spent,
        }
    return found


def crossing_lines(seed: int, n: int = 800) -> dict[str, float]:
    """Log losses where two lines cross."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(-5.0, 5.0, size=n)
        return x[:, None], rng.choice([-1.5, 1.5], n) * x + 2.0 * rng.normal(size=n)

    rows, fresh = (
        draw(np.random.default_rng([seed, k]), m) for k, m in ((0, n), (1, 20_000))
    )
    x, y = fresh[0][:, 0], fresh[1]
    parts = [-0.5 * ((y - s * x) / 2.0) ** 2 for s in (-1.5, 1.5)]
    log_p = np.logaddexp(*parts) - np.log(2.0 * 2.0 * np.sqrt(2.0 * np.pi))
    found = {"truth": -float(log_p.mean())}
    for name in ("score", "KCEF", "AutoKCEF"):
        found[name] = -float(MODELS[name]().fit(*rows).score(*fresh))
    return found


def cases(largest: int) -> list[Case]:
    """Rows, columns and kinds; then masses and separations."""
    kinds = list(itertools.product((1, 5), ("varying", "constant", "three")))
    found = [Case(n, *kind) for n in (100, 600) for kind in kinds]
    shapes = [(0.5, 4.0), (0.95, 20.0), (0.5, 20.0), (0.95, 4.0)]
    found += [Case(600, mass=mass, separation=apart) for mass, apart in shapes]
    found += [Case(2000, *kind) for kind in kinds]
    found += [Case(20_000, 1, "varying"), Case(20_000, 5, "constant")]
    return [case for case in found if case.rows <= largest]


def check(
    n: int,
    separation: float,
    wrong: float,
    repetitions: int,
    *,
    mass: float = 0.7,
    slope: float = 1.0,
) -> dict[str, float]:
    """How often components are found, and masses called wrong.

    The check is given as many rows as after a fit, and neighbours in x as a kernel with
    a median lengthscale has them.
    """
    found = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        x = rng.uniform(-2.0, 2.0, size=n)
        upper = special.expit(special.logit(mass) + slope * x)
        u = x + separation * (rng.random(n) < upper) + rng.normal(size=n)
        x, upper, u = (part[: MassCheck().enough_rows] for part in (x, upper, u))
        nodes = np.linspace(u.min() - 1.0, u.max() + 1.0, 150)
        z = nodes - x[:, None]
        off = np.clip(upper + wrong, 1e-3, 1.0 - 1e-3)[:, None]
        parts = [np.log1p(-off) - 0.5 * z**2, np.log(off) - 0.5 * (z - separation) ** 2]
        some = np.linspace(0, len(x) - 1, 20).astype(int)
        near = np.exp(-0.5 * ((x[some][:, None] - x) / 0.9) ** 2)
        report = check_isolated_components(
            nodes, np.logaddexp(*parts), u, neighbours=near, index=some
        )
        found.append((report.found, report.suspicious))
    shares = np.mean(found, axis=0)
    return {
        "rows": n,
        "separation": separation,
        "wrong": wrong,
        "mass": mass,
        "slope": slope,
        "repetitions": repetitions,
        "found": float(shares[0]),
        "suspicious": float(shares[1]),
    }


def checks(scale: float = 1.0) -> list[dict[str, float]]:
    """One mode, touching modes, isolated ones with right and with wrong masses."""
    few, many = int(200 * scale), int(100 * scale)
    found = [check(300, apart, 0.0, few) for apart in (0.0, 2.0, 3.0, 4.0)]
    found += [check(5000, apart, 0.0, many) for apart in (0.0, 3.0, 10.0)]
    found += [check(100, 10.0, 0.0, few)]
    found += [check(5000, 10.0, 0.05, many)]
    found += [check(5000, 10.0, 0.05, many, mass=0.5, slope=0.0)]
    return found


def groups(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ratios of sums over cases and seeds: errors, losses, times."""

    def total(own: list[dict[str, Any]], name: str, key: str) -> float:
        return float(sum(run[name][key] for run in own))

    wanted = [("all", runs)]
    for key in ("rows", "columns", "kind", "mass", "separation"):
        for value in dict.fromkeys(run[key] for run in runs):
            own = [run for run in runs if run[key] == value]
            wanted += [(f"{key} {value}", own)]
    found = []
    for label, own in wanted:
        group: dict[str, Any] = {"group": label, "runs": len(own)}
        both = [run for run in own if "likelihood" in run]
        for name in ("KCEF", "AutoKCEF"):
            error = total(own, name, "mae") / total(own, "logistic", "mae")
            seconds = total(own, name, "seconds") / total(own, "score", "seconds")
            group[name] = {"mae_ratio": round(error, 3), "time": round(seconds, 2)}
            own_score = f"{name} by score"
            if own_score in own[0]:
                seconds = total(own, name, "seconds") / total(own, own_score, "seconds")
                group[name]["time_of_own"] = round(seconds, 2)
            if both:
                loss = total(both, name, "log_loss")
                loss -= total(both, "likelihood", "log_loss")
                group[name]["loss_above_likelihood"] = round(loss / len(both), 4)
        found.append(group)
    return found


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few cases, no file")
    parser.add_argument("--largest", type=int, default=20_000, help="rows at most")
    parser.add_argument("--seeds", type=int, default=2, help="data sets of each case")
    parser.add_argument("--more", action="store_true", help="keep what is there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # score fits say that they are blind
    grid = cases(options.largest)
    seeds = options.seeds
    if options.quick:
        grid, seeds = [Case(100), Case(600), Case(600, 1, "three")], 1
    result: dict[str, Any] = {"checks": [], "crossing": [], "runs": []}
    if options.more:
        known = json.loads((RESULTS / "masses.json").read_text())["result"]
        result = {key: known[key] for key in result}
    result["seeds"] = seeds
    for seed in range(seeds):
        if len(result["crossing"]) <= seed:
            result["crossing"].append(rounded(crossing_lines(seed)))
            print("crossing lines", result["crossing"][-1], flush=True)
        for case in grid if seed == 0 else [c for c in grid if c.rows <= 2000]:
            which = {**asdict(case), "seed": seed}
            if any(which.items() <= run.items() for run in result["runs"]):
                continue
            run = {name: rounded(part) for name, part in measure(case, seed).items()}
            result["runs"].append({**which, **run})
            result["groups"] = groups(result["runs"])
            print(case, seed, run, flush=True)
            if not options.quick:
                write_result("masses", result)
    if not result["checks"]:
        result["checks"] = checks(0.1 if options.quick else 1.0)
    print(*result["checks"], sep="\n", flush=True)
    if not options.quick:
        write_result("masses", result)


if __name__ == "__main__":
    main()
