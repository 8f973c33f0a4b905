"""Where score matching is blind, how it shows, and three ways out.

p(y|x) has two modes ten deviations apart, and their masses change abruptly at x = 0:
from 20 % in the upper one to 80 %. On each of them the gradient of log p is the same
whatever the masses are, so score matching hardly sees them. Counting does, likelihood
does, and so does score matching once a bridge connects them.

Run with `python examples/failure_case.py [picture.png] [rows]`.
"""

import sys
import warnings
from typing import Any

import matplotlib
import numpy as np

from kexpfam import KCEF, AutoKCEF
from kexpfam.datasets import ConditionalSimulation, make_failure
from kexpfam.errors import BlindnessWarning

CONDITIONS = np.array([[-0.8], [-0.4], [0.4], [0.8]])
GRID = np.linspace(-1.0, 1.0, 161)[:, None]
HEIGHTS = np.linspace(-1.9, 1.9, 191)
PENS = ["#d62728", "#1b7837", "#762a83", "#08519c"]

MODELS: dict[str, KCEF | AutoKCEF] = {
    "score matching": KCEF(fit_method="score", select=None),
    "likelihood": KCEF(fit_method="likelihood", random_state=0),
    "bridged": KCEF(fit_method="bridged", random_state=0),
    "AutoKCEF": AutoKCEF(random_state=0),
}


def upper_mass(truth: ConditionalSimulation, X: np.ndarray) -> np.ndarray:
    return 1.0 - truth.cdf(X, 0.0)


def fit_all(X: np.ndarray, y: np.ndarray) -> None:
    """Fit every model, and say what each warns of."""
    for name, model in MODELS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BlindnessWarning)
            model.fit(X, y)
        for warning in caught:
            print(f"{name} warns: {warning.message}\n")


def print_masses(truth: ConditionalSimulation) -> None:
    print("mass of the upper mode at x =", *(f"{x:8.1f}" for x in CONDITIONS[:, 0]))
    true = upper_mass(truth, CONDITIONS)
    print(f"{'truth':>29}", *(f"{mass:8.2f}" for mass in true))
    for name, model in MODELS.items():
        masses = model.given(CONDITIONS).sf(0.0)
        print(f"{name:>29}", *(f"{mass:8.2f}" for mass in masses))


def draw(truth: ConditionalSimulation, path: str) -> None:
    X, y = truth
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, 3, figsize=(11.5, 6.4), layout="constrained", sharex=True
    )
    (first, *rest), bottom = axes
    first.scatter(X[:, 0], y, s=6, color="0.25", linewidths=0)
    first.set(title=f"{len(y)} rows", ylabel="y", ylim=(HEIGHTS[0], HEIGHTS[-1]))
    panels = [rest[0], *bottom]
    for ax, (name, model), pen in zip(panels, MODELS.items(), PENS, strict=True):
        p: Any = model.given(GRID)
        ax.pcolormesh(GRID[:, 0], HEIGHTS, p.pdf(HEIGHTS[None]).T, cmap="Greys")
        ax.set_title(f"p(y|x), {name}", color=pen)
        rest[1].plot(GRID[:, 0], p.sf(0.0), color=pen, label=name)
    rest[1].plot(GRID[:, 0], upper_mass(truth, GRID), "k:", lw=2, label="truth")
    rest[1].set(title="mass of the upper mode", ylim=(-0.03, 1.03))
    rest[1].legend(frameon=False, fontsize=8, loc="lower right")
    bottom[0].set_ylabel("y")
    for ax in bottom:
        ax.set_xlabel("x")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(path: str = "failure_case.png", rows: str = "400") -> None:
    truth = make_failure(int(rows), random_state=0)
    fit_all(truth.X, truth.y)
    print_masses(truth)
    draw(truth, path)
    print(f"\nThe picture is in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
