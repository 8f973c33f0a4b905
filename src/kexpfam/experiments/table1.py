"""Table 1: negative log-likelihood of fourteen R data sets, y given x.

Half of the rows train, the other half tests; figures are means over twenty splits, in
units of the standard deviation of y. Seeds 200 to 219: those before were looked at when
the estimators were designed. LSCDE's densities can vanish: there a test row costs at
most 20 nats, for the others there is no floor.

Where twenty splits leave it to chance whether the best printed column is reached,
AutoKCEF has eighty more, in a table of their own.
"""

from collections.abc import Sequence
from pathlib import Path

from kexpfam.experiments.losses import losses
from kexpfam.experiments.methods import CONDITIONAL, conditional
from kexpfam.experiments.published import SETS, TABLE1
from kexpfam.experiments.splits import conditional_split
from kexpfam.experiments.summary import table
from kexpfam.experiments.tables import (
    Sample,
    at_or_below,
    best_methods,
    cell,
    largest,
    samples,
)
from kexpfam.experiments.task import Figures, Record, Suite, Task

FIRST_SEED, SPLITS = 200, 20
QUICK_SETS, QUICK_SPLITS = ("caution", "topo", "CobarOre", "mcycle"), 2

# Sets that on the first twenty splits missed the best printed column, or reached it by
# less than two standard errors.
CLOSE = ("ftcollinssnow", "highway", "heights", "topo", "engel", "mcycle")
MANY_SPLITS = 100


def seed(task: Task) -> int:
    """The seed of a split."""
    return FIRST_SEED + task.split


def run(task: Task) -> Figures:
    """Fit to one half, judge on the other."""
    train, test = conditional_split(task.case, seed(task)).limited(task.rows)
    model = conditional(task.method, seed(task)).fit(train[:, :-1], train[:, -1])
    log_p = model.score_samples(test[:, :-1], test[:, -1])
    found = losses(log_p[:, None], vanishing=task.method == "LSCDE")
    return {"train_rows": len(train), "test_rows": len(test), **found}


def show(records: Sequence[Record], folder: Path) -> str:
    """The table, with the printed columns beside ours, and close rows once more."""
    first = [record for record in records if record.task.split < SPLITS]
    found = samples(first, "nll")
    worst = samples(first, "worst")
    rows = []
    reached = compared = 0
    for name in SETS:
        methods = found.get(name, {})
        if not methods:
            continue
        printed = TABLE1[name]
        best = best_methods(methods)
        ours = [
            cell(methods.get(m), bold=m in best, expected=SPLITS) for m in CONDITIONAL
        ]
        if "AutoKCEF" in methods:
            compared += 1
            reached += at_or_below(methods["AutoKCEF"], min(printed.values()))
        paper = [f"{printed[m]:.2f}" for m in ("KCEF", "NADE", "LSCDE")]
        rows.append([name, *paper, *ours, largest(worst[name].get("AutoKCEF"))])
    header = ["set", "paper: KCEF", "NADE", "LSCDE"]
    header += [f"ours: {next(iter(CONDITIONAL))}", *list(CONDITIONAL)[1:]]
    summary = (
        f"AutoKCEF at or below the best printed column (to its two decimals): "
        f"{reached} of {compared}."
    )
    parts = [table([*header, "worst row of AutoKCEF"], rows), summary]
    if len(first) < len(records):
        parts.append(_close_rows(found, samples(records, "nll")))
    return "\n\n".join(parts)


def _close_rows(
    first: dict[str, dict[str, Sample]], every: dict[str, dict[str, Sample]]
) -> str:
    """Means of AutoKCEF over many splits, where a few decide nothing."""
    rows = []
    for name in CLOSE:
        many = every.get(name, {}).get("AutoKCEF")
        if many is None or len(many.values) <= SPLITS:
            continue
        printed = min(TABLE1[name].values())
        later = {k: loss for k, loss in many.values.items() if k >= SPLITS}
        parts = (first[name]["AutoKCEF"], Sample(later), many)
        cells = [cell(sample, digits=3) for sample in parts]
        distance = (many.mean - printed) / many.standard_error
        rows.append(
            [name, f"{printed:.2f}", *cells, str(len(many.values)), f"{distance:+.1f}"]
        )
    header = ["set", "best printed", f"splits 0 to {SPLITS - 1}", "the others", "all"]
    return "\n\n".join(
        [
            "AutoKCEF on more splits, for the rows that were missed or reached by less "
            "than two standard errors:",
            table([*header, "splits", "all − printed, standard errors"], rows),
        ]
    )


SUITE = Suite(
    name="table1",
    title="Table 1: y given x, fourteen R data sets",
    tasks=[
        Task("table1", name, method, split)
        for name in SETS
        for method in CONDITIONAL
        for split in range(SPLITS)
    ]
    + [
        Task("table1", name, "AutoKCEF", split)
        for name in CLOSE
        for split in range(SPLITS, MANY_SPLITS)
    ],
    quick=[
        Task("table1", name, method, split)
        for name in QUICK_SETS
        for method in CONDITIONAL
        for split in range(QUICK_SPLITS)
    ],
    run=run,
    seed=seed,
    show=show,
    needs=("jax", "optax"),
)
