"""The failure case of the appendix: two modes whose masses change abruptly.

p(y|x) has two modes ten deviations apart; the upper one has 20 % of the mass for x < 0
and 80 % from there on. Score matching sees the shape of each mode and hardly how much
mass it has (docs/blindness.md). The paper's configuration stands beside three remedies.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kexpfam import KCEF
from kexpfam.datasets import make_failure
from kexpfam.errors import BlindnessWarning
from reproduction import pictures
from reproduction.methods import CONDITIONAL, PAPER
from reproduction.record import Figures, Record, Suite, Task
from reproduction.tables import (
    in_words,
    methods_of,
    paragraphs,
    repeats_of,
    rounded,
    table,
    values,
)

Array = NDArray[np.float64]

NAME = "failure"
LIKELIHOOD, BRIDGED = "KCEF, likelihood", "KCEF, bridged"
METHODS = (PAPER, LIKELIHOOD, BRIDGED, "AutoKCEF")
ROWS, TEST_ROWS, SPLITS = 400, 2000, 5

# Where masses are compared, and where p(y|x) is drawn.
CONDITIONS = np.linspace(-1.0, 1.0, 33)
RASTER_X, RASTER_Y = np.linspace(-1.0, 1.0, 41), np.linspace(-1.9, 1.9, 61)

# Nearer to the jump than this, masses are not held against a smooth fit.
CLEAR = 0.25


def estimator(method: str, seed: int) -> Any:
    """KCEF by likelihood or with a bridge, or an estimator that tables have too."""
    if method in {LIKELIHOOD, BRIDGED}:
        how = method.removeprefix("KCEF, ")
        return KCEF(fit_method=how, n_jobs=1, random_state=seed)
    return CONDITIONAL[method].make(seed)


def run(task: Task, seed: int, test_rows: int = TEST_ROWS) -> Figures:
    """Masses, likelihood of fresh rows, and of the first split what is drawn."""
    train = make_failure(ROWS, random_state=np.random.default_rng([seed, 0]))
    test = make_failure(test_rows, random_state=np.random.default_rng([seed, 1]))
    X, y = train.X[: task.rows], train.y[: task.rows]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BlindnessWarning)
        model = estimator(task.method, seed).fit(X, y)
    log_p = model.score_samples(test.X, test.y)
    true = 1.0 - test.cdf(CONDITIONS[:, None], 0.0)
    mass = np.asarray(model.given(CONDITIONS[:, None]).sf(0.0)).reshape(-1)
    error = np.abs(mass - true)
    found: Figures = {
        "rows": len(y),
        "nll": rounded(-float(log_p.mean())),
        "kl": rounded(float((test.log_density - log_p).mean())),
        "truth_nll": rounded(-float(test.log_density.mean())),
        "worst_mass_error": rounded(float(error[np.abs(CONDITIONS) >= CLEAR].max())),
        "mean_mass_error": rounded(float(error.mean())),
        "warned": any(issubclass(w.category, BlindnessWarning) for w in caught),
        "mass": _short(mass),
        "true_mass": _short(true),
    }
    return found if task.split else found | _pictured(model, X, y)


def _pictured(model: Any, X: Array, y: Array) -> Figures:
    """Training rows, and p(y|x) on the raster, one list of y for each x."""
    p = model.given(RASTER_X[:, None]).pdf(RASTER_Y[None])
    return {"x": _short(X[:, 0]), "y": _short(y), "raster": [_short(row) for row in p]}


def _short(numbers: Array) -> list[float]:
    return [round(float(number), 4) for number in numbers]


def show(records: Sequence[Record], folder: Path) -> str:
    """Markdown with a table over splits, and a picture of the first split."""
    drawn = [r for r in records if "raster" in r.figures]
    picture = f"![The failure case]({_draw(drawn, folder)})" if drawn else ""
    return paragraphs(picture, _caption(records), _table(records))


def _caption(records: Sequence[Record]) -> str:
    rows = max(r.figures["rows"] for r in records)
    truth = np.mean([r.figures["truth_nll"] for r in records])
    return (
        f"{rows} training rows, {TEST_ROWS} fresh ones, {repeats_of(records)} "
        "repetition(s), mean ± standard error; the truth's negative log-likelihood is "
        f"{truth:.3f}. Masses are those of the upper mode at {len(CONDITIONS)} values "
        f"of x; their largest error is taken over |x| ≥ {CLEAR}, away from the jump. "
        "“warns” says in how many fits a BlindnessWarning told the user. The picture "
        "has the first repetition. The paper shows this case as a limit of its method, "
        "without numbers."
    )


def _table(records: Sequence[Record]) -> str:
    rows = []
    for method in methods_of(records, METHODS):
        warned = values(records, method, "warned")
        names = ("nll", "kl", "worst_mass_error", "mean_mass_error")
        cells = [in_words(values(records, method, name)) for name in names]
        rows.append([method, *cells, f"{int(sum(warned))} of {len(warned)}"])
    head = ["", "NLL", "KL", "largest error of mass", "mean error of mass", "warns"]
    return table(head, rows)


def _draw(records: Sequence[Record], folder: Path) -> str:
    figure = pictures.new_figure(5.6)
    axes = figure.subplots(2, 3)
    first, masses = axes[0, 0], axes[1, 2]
    seen = records[0].figures
    first.scatter(seen["x"], seen["y"], s=5, color=pictures.BLACK, linewidths=0)
    first.set_title(f"{seen['rows']} rows", fontsize=10)
    first.set(xlim=(-1, 1), ylim=(RASTER_Y[0], RASTER_Y[-1]))
    for ax, method in zip([*axes[0, 1:], *axes[1, :2]], METHODS, strict=True):
        some = [r for r in records if r.task.method == method]
        if not some:
            ax.set_visible(False)
            continue
        _heat_map(ax, some[0])
        pen = pictures.pen(method) | {"markersize": 0}
        masses.plot(CONDITIONS, some[0].figures["mass"], label=method, **pen)
    masses.plot(CONDITIONS, seen["true_mass"], ":", color="0.15", lw=2, label="truth")
    masses.set(ylim=(-0.03, 1.03))
    masses.set_title("mass of the upper mode", fontsize=10)
    pictures.tidy(masses)
    for ax in axes[1]:
        ax.set_xlabel("x")
    for ax in axes[:, 0]:
        ax.set_ylabel("y")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return pictures.save(figure, folder, "failure.png")


def _heat_map(ax: Any, record: Record) -> None:
    p = np.array(record.figures["raster"]).T
    # The peak of a mode with all of the mass; darker is the same for all panels.
    top = 1.0 / (0.2 * np.sqrt(2.0 * np.pi))
    ax.pcolormesh(RASTER_X, RASTER_Y, p, cmap="Greys", vmin=0.0, vmax=top)
    method = record.task.method
    color = pictures.pen(method)["color"]
    ax.set_title(f"p(y|x), {method}", fontsize=10, color=color)


SUITE = Suite(
    name=NAME,
    title="The failure case: two far islands with abruptly changing masses",
    tasks=[Task(NAME, "islands", m, split) for m in METHODS for split in range(SPLITS)],
    quick=[Task(NAME, "islands", method, 0, 150) for method in METHODS],
    run=run,
    first_seed=600,
    show=show,
)
