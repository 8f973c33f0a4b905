"""Conformal intervals at work: coverage over many repetitions, whatever the model.

    python examples/conformal_intervals.py [repetitions [picture.png]]

Each repetition draws new rows, fits, calibrates, and counts how many fresh rows lie in
the 90 % intervals: those of the density itself, and the conformal ones around it. One
of the models is far too sure of itself on purpose.
"""

import sys

import numpy as np

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.conformal import ConformalDensity
from kexpfam.datasets import make_skewed

COVERAGE = 0.9

MODELS = {
    "untuned": KCEF(select=None),
    # The base density has half the width of the data, and λ keeps the fit near it.
    "too sure": KCEF(select=None, base=GaussianBase(0.5), regularization=10.0),
}


def covered(ends: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])))


def main(repetitions: str = "20", picture: str | None = None) -> None:
    print(f"{'':12}{'density':>18}{'conformal':>18}")
    shares = {}
    for name, model in MODELS.items():
        found = []
        for seed in range(int(repetitions)):
            X, y = make_skewed(200, random_state=seed)
            X_new, y_new = make_skewed(500, random_state=10_000 + seed)
            conformal = ConformalDensity(model, random_state=seed).fit(X, y)
            plain = conformal.estimator_.predict_interval(X_new, COVERAGE)
            calibrated = conformal.predict_interval(X_new, COVERAGE)
            found.append([covered(plain, y_new), covered(calibrated, y_new)])
        mean = np.mean(found, axis=0)
        error = np.std(found, axis=0) / np.sqrt(len(found))
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
        print(f"{name:12}{cells[0]:>18}{cells[1]:>18}")
        shares[f"{name}:\ndensity"], shares[f"{name}:\nconformal"] = np.transpose(found)
    print(
        f"\nAsked for was {COVERAGE}; the mean of the conformal column has to reach it."
    )
    if picture is not None:
        draw(shares, picture)


def draw(shares: dict[str, np.ndarray], picture: str) -> None:
    """The share of fresh rows in the intervals, a point for each repetition."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 3))
    for k, values in enumerate(shares.values()):
        ax.plot(values, np.full(len(values), k), "o", ms=5, alpha=0.5)
        ax.plot([values.mean()] * 2, [k - 0.3, k + 0.3], "k-", lw=2)
    ax.axvline(COVERAGE, color="k", ls="--", lw=1)
    ax.set_yticks(range(len(shares)), list(shares))
    ax.invert_yaxis()
    ax.set_xlabel(f"share of fresh rows in the intervals ({COVERAGE:.0%} asked for)")
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:3])
