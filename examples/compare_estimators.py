"""One loop over all estimators of p(y|x): scores, coverage, time and pictures.

Run with `python examples/compare_estimators.py [picture.png] [rows]`. The data are
simulated, so that the truth is known: two branches that cross, with noise of changing
width. Estimators whose library is not installed are left out, and named.
"""

# %% Data, with the density they come from
import sys
import warnings
from time import perf_counter
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from kexpfam import KCEF, AutoKCEF, metrics
from kexpfam.baselines import (
    LSCDE,
    ConditionalKDE,
    ConditionalMeanEmbedding,
    ConditionalRNADE,
    GaussianProcessDensity,
    KernelQuantileRegression,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.datasets import make_bimodal
from kexpfam.errors import MissingDependencyError

ESTIMATORS: dict[str, Any] = {
    "AutoKCEF": AutoKCEF(random_state=0),
    "KCEF": KCEF(random_state=0),
    "LSCDE": LSCDE(random_state=0),
    "ConditionalKDE": ConditionalKDE(random_state=0),
    "KernelQuantiles": KernelQuantileRegression(random_state=0),
    "MeanEmbedding": ConditionalMeanEmbedding(random_state=0),
    "ConditionalRNADE": ConditionalRNADE(random_state=0),
    "GaussianProcess": GaussianProcessDensity(random_state=0),
    "NGBoost": NGBoostDensity(random_state=0),
    "QuantileForest": QuantileForestDensity(random_state=0),
}


# %% One loop: the same four calls for each
def fit_and_judge(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> dict[str, tuple[Any, Any, float]]:
    """Fitted models, what they score on new rows, and seconds of the fit."""
    results: dict[str, tuple[Any, Any, float]] = {}
    for name, model in ESTIMATORS.items():
        start = perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(*train)
        except MissingDependencyError as error:
            print(f"{name} is left out: {error}")
            continue
        seconds = perf_counter() - start
        results[name] = model, metrics.evaluate(model, *test), seconds
    return results


# %% A table
def print_table(
    results: dict[str, tuple[Any, Any, float]], truth: tuple[float, float]
) -> None:
    print(f"\n{'':18}{'NLL':>8}{'CRPS':>9}{'coverage of 90 %':>19}{'fit, s':>9}")
    for name, (_, scores, seconds) in results.items():
        covered = scores.coverage[list(scores.confidence).index(0.9)].value
        print(
            f"{name:18}{scores.log_loss.value:8.3f}{scores.crps.value:9.4f}"
            f"{covered:19.2f}{seconds:9.2f}"
        )
    print(f"{'the truth':18}{truth[0]:8.3f}{'':9}{truth[1]:19.2f}")


# %% A picture of each density, side by side
def draw(
    results: dict[str, tuple[Any, Any, float]],
    data: tuple[np.ndarray, np.ndarray],
    truth: Any,
    path: str,
) -> None:
    x, y = np.linspace(-2, 2, 121), np.linspace(-3.6, 3.6, 181)
    log_p = truth.logpdf(np.repeat(x, 181)[:, None], np.tile(y, 121))
    panels = {"truth": np.exp(log_p).reshape(121, 181)}
    for name, (model, _, _) in results.items():
        panels[name] = model.given(x[:, None]).pdf(y[None, :])
    columns = 3
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(9.0, 2.5 * lines),
        sharex=True,
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    highest = np.quantile(panels["truth"], 0.995)
    for ax, (name, density) in zip(axes.flat, panels.items(), strict=False):
        ax.pcolormesh(x, y, density.T, cmap="Blues", vmin=0, vmax=highest)
        ax.plot(data[0][:, 0], data[1], ".", ms=1.5, color="#d94801", alpha=0.5)
        score = (
            "" if name == "truth" else f", NLL {results[name][1].log_loss.value:.2f}"
        )
        ax.set_title(name + score, fontsize=9)
        ax.set_ylim(y[0], y[-1])
    figure.supxlabel("x")
    figure.supylabel("y")
    figure.savefig(path, dpi=110)


# %% All of it
def main(path: str = "estimators.png", rows: str = "300") -> None:
    train = make_bimodal(int(rows), random_state=0)
    test = make_bimodal(1000, random_state=1)
    results = fit_and_judge((train.X, train.y), (test.X, test.y))
    levels = test.cdf(test.X, test.y)
    truth = -float(test.log_density.mean()), float(np.mean(abs(levels - 0.5) < 0.45))
    print_table(results, truth)
    matplotlib.use("Agg")
    draw(results, (train.X, train.y), train, path)
    print(f"\nThe picture is in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
