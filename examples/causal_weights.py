"""The effect of a continuous dose that is given to those who need it.

    python examples/causal_weights.py [picture.png [rows [repetitions]]]

Severity raises the dose and worsens the outcome; a unit of the dose improves it by 1. A
regression of the outcome on the dose misses that. Weights p(t)/p(t|x) come near it. A
bootstrap of the whole procedure, weights included, says how sure one can be; copies of
a row may come to different folds, which makes it a little too sure.
"""

import sys

import matplotlib
import numpy as np

from kexpfam import KCEF
from kexpfam.causal import generalized_propensity_weights

EFFECT = 1.0


def make_rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Severity (n, 1), dose and outcome (n,)."""
    rng = np.random.default_rng(0)
    severity = rng.uniform(-1.5, 1.5, size=(n, 1))
    dose = 0.5 * severity[:, 0] + rng.gamma(3.0, 0.6, size=n)
    outcome = EFFECT * dose - 2.0 * severity[:, 0] + rng.normal(size=n)
    return severity, dose, outcome


def slopes(
    severity: np.ndarray,
    dose: np.ndarray,
    outcome: np.ndarray,
    *,
    verbose: bool = False,
) -> tuple[float, float]:
    """Naive and weighted."""
    found = generalized_propensity_weights(
        dose, severity, estimator=KCEF(select=None), random_state=0
    )
    if verbose:
        print(found)
    # polyfit squares its weights
    weighted = np.polyfit(dose, outcome, 1, w=np.sqrt(found.weights))[0]
    return float(np.polyfit(dose, outcome, 1)[0]), float(weighted)


def bootstrap(rows: tuple[np.ndarray, ...], repetitions: int) -> np.ndarray:
    """Slopes of rows drawn with replacement, (repetitions, 2)."""
    rng = np.random.default_rng(1)
    n = len(rows[0])
    found = []
    for _ in range(repetitions):
        index = rng.integers(n, size=n)
        found.append(slopes(*(column[index] for column in rows)))
    return np.array(found)


def draw(repeated: np.ndarray, path: str) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
    colours = ("#d95f02", "#1b9e77")
    for height, (column, name) in enumerate(
        zip(repeated.T, ("naive", "weighted"), strict=True)
    ):
        spread = np.linspace(-0.25, 0.25, len(column))
        ax.plot(column, height + spread, ".", color=colours[height], alpha=0.6, ms=5)
        ax.plot([column.mean()] * 2, [height - 0.33, height + 0.33], "k", lw=1.5)
        ax.text(column.mean(), height + 0.37, name, ha="center", color=colours[height])
    ax.axvline(EFFECT, color="0.5", lw=1, ls="--")
    ax.text(EFFECT, -0.62, " the effect", color="0.4", va="bottom")
    ax.set(yticks=[], ylim=(-0.65, 1.7), xlabel="slope of the outcome along the dose")
    ax.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(
    path: str = "causal_weights.png", rows: str = "500", repetitions: str = "40"
) -> None:
    data = make_rows(int(rows))
    naive, weighted = slopes(*data, verbose=True)
    repeated = bootstrap(data, int(repetitions))
    print("\nslope along the dose")
    for name, value, column in zip(
        ("naive", "weighted"), (naive, weighted), repeated.T, strict=True
    ):
        print(f"  {name:9}{value:6.2f} ± {column.std():.2f}")
    print(f"  {'effect':9}{EFFECT:6.2f}")
    draw(repeated, path)
    print(f"\nThe picture is in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
