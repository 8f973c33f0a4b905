"""What looking for columns that matter gains, in nats of fresh rows.

p(y|x) has two modes whose distance depends on the last column of x; other columns say
nothing. `AutoKCEF` is fitted to all columns, with and without the search for those that
matter, and to the last column alone. The second problem is the last column of
`make_grid`, given all before it. Figures are mean log densities of 2000 fresh rows.
"""

from unittest import mock

import numpy as np
from record import write_result

from kexpfam import AutoKCEF
from kexpfam.datasets import make_grid

ROWS, TEST_ROWS, SEEDS = 1000, 2000, range(3)
COLUMNS = (2, 4, 8)


def shapes(n: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, size=(n, columns))
    side = rng.choice([-1.0, 1.0], size=n)
    return X, side * (1.0 + np.sin(6 * X[:, -1])) + 0.3 * rng.normal(size=n)


def grid(n: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    data = make_grid(n, columns + 1, random_state=np.random.default_rng([seed, n])).data
    return data[:, :-1], data[:, -1]


def score(train: tuple[np.ndarray, ...], test: tuple[np.ndarray, ...]) -> float:
    model = AutoKCEF(lower=-np.inf, atoms=False, n_jobs=1, random_state=0)
    return float(model.fit(*train).score(*test))


def measure(problem: str, columns: int, seed: int) -> dict[str, float]:
    make = {"shapes": shapes, "grid": grid}[problem]
    X, y = make(ROWS, columns, seed)
    X_new, y_new = make(TEST_ROWS, columns, seed)
    found = {"with the search": score((X, y), (X_new, y_new))}
    search = "kexpfam.selection.validation.relevant_lengthscales"
    with mock.patch(search, return_value=None):
        found["without"] = score((X, y), (X_new, y_new))
    found["last column alone"] = score((X[:, -1:], y), (X_new[:, -1:], y_new))
    return found


def main() -> None:
    result: dict[str, dict[str, float]] = {}
    for problem in ("shapes", "grid"):
        for columns in COLUMNS:
            found = [measure(problem, columns, seed) for seed in SEEDS]
            means = {
                name: round(float(np.mean([one[name] for one in found])), 4)
                for name in found[0]
            }
            result[f"{problem}, {columns} columns"] = means
            print(problem, columns, means, flush=True)
    settings = {"rows": ROWS, "test_rows": TEST_ROWS, "seeds": list(SEEDS)}
    print(write_result("relevance", {**settings, "mean_log_density": result}))


if __name__ == "__main__":
    main()
