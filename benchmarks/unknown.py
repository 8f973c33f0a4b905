"""What nobody knows of a row: do intervals there hold as often as they say?

Rows of laws whose answer is known, with a column that matters a lot, a little, or not
at all. At prediction its category is new, one more draw from the law of the categories,
or its number is missing where no number was at the fit. Each fresh row has a category
of its own. The column that is missing depends on another one, strongly or not at all.

    python benchmarks/unknown.py [--seeds 0 1 2]

writes `results/unknown.json`: how often central intervals held y, the mean over the
seeds with its standard error (most of which is in the few categories that there are).
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from record import write_result

from kexpfam import KCEF, AutoKCEF

LEVELS = (0.5, 0.8, 0.9)
NOISE, ROWS, FRESH = 0.5, 400, 300
# How much the column matters, as a multiple of the noise.
EFFECTS = (0.0, 1.0, 4.0)


def categories(rng: np.random.Generator, n: int, effects: np.ndarray) -> Any:
    """Rows with one of some categories; a fresh one each where there are n."""
    k, x = len(effects), rng.uniform(-1.0, 1.0, n)
    which = np.arange(n) if k == n else rng.integers(0, k, n)
    y = np.sin(3.0 * x) + NOISE * (effects[which] + rng.normal(size=n))
    names = [f"level {i}" if k < n else f"new {i}" for i in which]
    return pd.DataFrame({"x": x, "category": names}), y


def numbers(rng: np.random.Generator, n: int, effect: float, tie: float) -> Any:
    """Rows with a number that depends on another one; a third says nothing."""
    x, other, z = rng.normal(size=(3, n))
    value = tie * x + np.sqrt(1.0 - tie**2) * z
    y = np.tanh(x) + NOISE * (effect * value + rng.normal(size=n))
    return pd.DataFrame({"x": x, "value": value, "other": other}), y


def coverage(model: Any, train: Any, fresh: Any) -> list[float]:
    """Shares of fresh responses in the intervals of a model."""
    X, y = fresh
    ends = [0.5 + sign * 0.5 * level for level in LEVELS for sign in (-1, 1)]
    found = model.fit(*train).predict_quantiles(X, ends)
    inside = (y[:, None] >= found[:, ::2]) & (y[:, None] <= found[:, 1::2])
    return inside.mean(axis=0).tolist()


def case(kind: str, detail: float, effect: float, seed: int) -> tuple[Any, Any]:
    """Rows of a fit, and fresh ones with something unknown."""
    rng = np.random.default_rng([seed, int(10 * detail), int(10 * effect)])
    if kind == "categories":
        train = categories(rng, ROWS, effect * rng.normal(size=int(detail)))
        return train, categories(rng, FRESH, effect * rng.normal(size=FRESH))
    train = numbers(rng, ROWS, effect, detail)
    X, y = numbers(rng, FRESH, effect, detail)
    return train, (X.assign(value=np.nan), y)


def main() -> None:
    """Fit, ask, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    seeds = parser.parse_args().seeds
    kinds = [("categories", 40), ("gaps", 0.6), ("categories", 6)]
    found = []
    # An average is asked where the column matters most.
    for name, model, effects in (
        ("KCEF", KCEF, EFFECTS[::-1]),
        ("AutoKCEF", AutoKCEF, EFFECTS[-1:]),
    ):
        for kind, detail in kinds:
            for effect in effects:
                start, held = time.process_time(), []
                for seed in seeds:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        rows = case(kind, detail, effect, seed)
                        held.append(coverage(model(random_state=0), *rows))
                error = np.std(held, axis=0, ddof=1) / np.sqrt(len(seeds))
                found.append(
                    {
                        "model": name,
                        "unknown": kind,
                        "categories or tie": detail,
                        "effect": effect,
                        "coverage": np.mean(held, axis=0).round(3).tolist(),
                        "standard_error": error.round(3).tolist(),
                        "cpu_seconds": round(time.process_time() - start, 1),
                    }
                )
                print(found[-1], flush=True)
                result = {"levels": LEVELS, "seeds": seeds, "cases": found}
                write_result("unknown", result)


if __name__ == "__main__":
    main()
