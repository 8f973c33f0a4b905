"""Table 3 and figure 2: draws of joint densities beside the data they learned from.

One task fits one model to 90 % of a data set and records what it draws; the method
"data" records the rows held out. Tests and pictures are made of these records, so that
nothing is fitted twice. Columns are in units of their standard deviations.

The test is that of relative similarity (Bounliphone et al. 2016), whose null hypothesis
is MMD(data, Y) ≤ MMD(data, Z), and so is the paper's. With Y draws of the rival and Z
those of KCEF the p-value is small if draws of KCEF are closer to the held-out rows, and
near one if they are farther.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kexpfam import KEF
from kexpfam.comparison import RelativeTestResult, relative_mmd_test
from kexpfam.datasets import load_benchmark
from reproduction import pictures
from reproduction.methods import joint
from reproduction.protocol import joint_split
from reproduction.record import Figures, Record, Suite, Task
from reproduction.tables import paragraphs, repeats_of, rounded, table

Array = NDArray[np.float64]

NAME = "table3"
DATA = "data"
METHODS = (DATA, "KEF", "KCEF-F", "RNADE", "AutoKCEF-F")
CASES = ("red_wine", "parkinsons")
SPLITS = 5

# More than the 159 rows that red wine has held out: with so few draws of a model,
# another seed gives quite another p.
DRAWS = 600

# Rival and ours, and what the paper prints, which has p-values for KCEF only.
PAIRS: dict[tuple[str, str], dict[str, float]] = {
    ("KEF", "KCEF-F"): {"parkinsons": 0.524, "red_wine": 0.0008},
    ("RNADE", "KCEF-F"): {"parkinsons": 0.011, "red_wine": 0.326},
    ("KEF", "AutoKCEF-F"): {},
    ("RNADE", "AutoKCEF-F"): {},
}

# Columns of figure 2, from zero. Of red wine the paper has (x6, x7). Of Parkinsons it
# has (x15, x16), and there are fifteen columns: the last two are taken.
SHOWN = {"red_wine": (5, 6), "parkinsons": (13, 14)}


def run(task: Task, seed: int, count: int = DRAWS) -> Figures:
    """Draws of a model, or the rows held out."""
    train, test = joint_split(task.case, seed)
    train = train[: task.rows]
    if task.method == DATA:
        names = load_benchmark(task.case).feature_names
        return {"draws": _recorded(test[:count]), "columns": list(names)}
    start = time.perf_counter()
    single = task.method == "KEF"  # one family of all columns
    model = KEF(n_jobs=1, random_state=seed) if single else joint(task.method, seed)
    model.fit(train)
    fitting = time.perf_counter() - start
    # What KEF does on its own above two columns is importance sampling, which many
    # columns may be too much for; particles need no chains, and warn where they fail.
    options = {"sampler": "smc"} if single else {}
    draws = model.sample(count, random_state=seed, **options)
    return {
        "draws": _recorded(draws),
        "log_likelihood": rounded(float(model.score_samples(test).mean())),
        "training_rows": len(train),
        "fit_seconds": rounded(fitting),
        "draw_seconds": rounded(time.perf_counter() - start - fitting),
    }


def _recorded(rows: Array) -> list[list[float]]:
    """Five significant digits, which is more than a picture or a kernel sees."""
    return [[float(f"{number:.5g}") for number in row] for row in rows]


def show(records: Sequence[Record], folder: Path) -> str:
    """Markdown with p-values of all pairs, and scatter plots of the first split."""
    drawn = _draw(records, folder)
    picture = f"![Draws of each model]({drawn})" if drawn else ""
    return paragraphs(
        _caption(records),
        _p_values(records),
        _likelihoods(records),
        picture,
        _picture_caption() if drawn else "",
    )


def _caption(records: Sequence[Record]) -> str:
    counts = " and ".join(
        f"{repeats_of(r for r in records if r.task.case == case)} of {case}"
        for case in _cases(records)
    )
    return (
        f"Test of relative similarity with a held-out tenth as reference and {DRAWS} "
        f"draws of each model; splits: {counts}. The null hypothesis is "
        "MMD(data, first) ≤ MMD(data, second). **Small p: draws of the second "
        "model are closer to the data than those of the first; near one: farther.** "
        "The other way round p is one minus that. Ours is the median over splits, with "
        "the smallest and the largest; the paper gives one number. KEF is one "
        "family of all columns, drawn from by tempered sequential Monte Carlo; RNADE, "
        "our default network, stands for the paper's NADE. -F: along the full graph."
    )


def _cases(records: Sequence[Record]) -> list[str]:
    return [case for case in CASES if any(r.task.case == case for r in records)]


def relative_tests(
    records: Sequence[Record], case: str, first: str, second: str
) -> list[RelativeTestResult]:
    """The test on each split that has the data and both models."""
    found = []
    for split in sorted({r.task.split for r in records}):
        draws = {
            r.task.method: np.array(r.figures["draws"])
            for r in records
            if r.task.case == case and r.task.split == split
        }
        if {DATA, first, second} <= set(draws):
            found.append(relative_mmd_test(draws[DATA], draws[first], draws[second]))
    return found


def _p_values(records: Sequence[Record]) -> str:
    rows = []
    for case in _cases(records):
        for (first, second), printed in PAIRS.items():
            results = relative_tests(records, case, first, second)
            if not results:
                continue
            p = np.array([result.p_value for result in results])
            spread = f"{np.median(p):.3f}"
            if len(p) > 1:
                spread += f" ({p.min():.3f} to {p.max():.3f})"
            back = f"{np.median(1.0 - p):.3f}"
            mmd = [
                f"{np.mean([getattr(r, name) for r in results]):.4f}"
                for name in ("mmd_first", "mmd_second")
            ]
            counts = f"{np.sum(p < 0.05)} / {np.sum(p > 0.95)} / {len(p)}"
            said = str(printed.get(case, "–"))
            pair = f"{first}, {second}"
            rows.append([case, pair, said, spread, back, counts, *mmd])
    if not rows:
        return "No split has the data and two models yet."
    head = [
        "",
        "first, second",
        "published p",
        "our p",
        "other way round",
        "p < 0.05 / > 0.95 / splits",
        "MMD² of first",
        "MMD² of second",
    ]
    return table(head, rows)


def _likelihoods(records: Sequence[Record]) -> str:
    """Mean log-likelihood of the held-out rows, and how long fits took."""
    rows = []
    for case in _cases(records):
        for method in METHODS[1:]:
            some = [
                r for r in records if (r.task.case, r.task.method) == (case, method)
            ]
            scores = [r.figures["log_likelihood"] for r in some]
            finite = [score for score in scores if score is not None]
            if finite:
                seconds = np.mean([r.figures["fit_seconds"] for r in some])
                cells = [f"{np.mean(finite):.3f}", f"{seconds:.0f}"]
                rows.append([case, method, *cells])
    if not rows:
        return ""
    head = ["", "model", "held-out log-likelihood (standardised)", "seconds of a fit"]
    return table(head, rows)


def _picture_caption() -> str:
    return (
        "Figure 2, split 0, in standard deviations: x6 and x7 of red wine, and the "
        "last two of our fifteen columns of Parkinsons. The paper shows its x15 and "
        "x16, which our reading of the data does not have. Points outside the frames, "
        "which are those of the data, are not drawn; their share is written "
        "where it is not zero."
    )


def _draw(records: Sequence[Record], folder: Path) -> str | None:
    first = [r for r in records if r.task.split == 0]
    sets = {
        case: {r.task.method: r for r in first if r.task.case == case} for case in CASES
    }
    sets = {case: found for case, found in sets.items() if DATA in found}
    if not sets:
        return None
    figure = pictures.new_figure(0.5 + 2.0 * len(sets))
    axes = figure.subplots(len(sets), len(METHODS), squeeze=False)
    for line, (case, found) in zip(axes, sets.items(), strict=True):
        _scatter_row(line, case, found)
    return pictures.save(figure, folder, "figure2.png")


def _scatter_row(axes: Any, case: str, found: dict[str, Record]) -> None:
    reference = found[DATA].figures
    # Tables of tests may have fewer columns; the last two are always there.
    width = len(reference["columns"])
    columns = [min(c, width - 2 + i) for i, c in enumerate(SHOWN[case])]
    data = np.array(reference["draws"])[:, columns]
    margin = 0.08 * np.ptp(data, axis=0)
    low, high = data.min(axis=0) - margin, data.max(axis=0) + margin
    for ax, method in zip(axes, METHODS, strict=True):
        if method not in found:
            ax.set_visible(False)
            continue
        points = np.array(found[method].figures["draws"])[:, columns]
        color = pictures.pen(method)["color"]
        ax.scatter(*points.T, s=4, color=color, alpha=0.55, linewidths=0)
        outside = np.mean(np.any((points < low) | (points > high), axis=1))
        if outside > 0:
            ax.text(
                0.97, 0.95, f"{outside:.1%} outside", fontsize=7, color="0.35",
                ha="right", va="top", transform=ax.transAxes,
            )  # fmt: skip
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set_title(method, fontsize=9, color=color)
        ax.tick_params(labelsize=7)
        ax.set_xlabel(reference["columns"][columns[0]], fontsize=8)
        pictures.tidy(ax)
    label = f"{case.replace('_', ' ')}\n{reference['columns'][columns[1]]}"
    axes[0].set_ylabel(label, fontsize=8)


def _declared() -> list[Task]:
    """First splits first, so that a part of the run is worth something."""
    return [
        Task(NAME, case, method, split)
        for split in range(SPLITS)
        for case in CASES
        for method in METHODS
    ]


SUITE = Suite(
    name=NAME,
    title="Draws of joint densities: p-values of relative similarity, and figure 2",
    tasks=_declared(),
    quick=[Task(NAME, "red_wine", method, 0, 150) for method in METHODS],
    run=run,
    first_seed=400,
    show=show,
)
