"""Tables of the documentation, made from the result files of the benchmarks.

    python docs/tables.py

writes them between the markers of the pages; a test compares the pages with the files.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from reproduction.protocol import TABLE1  # noqa: E402 - found by the line above
from reproduction.record import read  # noqa: E402
from reproduction.report import refresh_page  # noqa: E402
from reproduction.table2 import TABLE2  # noqa: E402
from reproduction.tables import (  # noqa: E402
    Sample,
    at_or_below,
    cell,
    samples,
    table,
)

RESULTS = DOCS.parent / "benchmarks" / "results"
REPRODUCTION = DOCS.parent / "reproduction"

# Published figures that stand in no result file. Mean negative log densities in the
# units of the tables; the page says what is known of their protocols.
DEEP_RNADE = {"red_wine": 8.76, "white_wine": 9.67}
FOUNDATION = {"power": (2.28, 2.54), "diamonds": (6.68, 7.72)}

PAGES = {
    "decisions/0043-how-long-the-way-is.md": ("house",),
    "explorer.md": ("answers",),
    "limits.md": ("spread", "band", "unknown"),
    "kinds_of_y.md": ("rounding", "measures"),
    "rivals.md": ("log_loss", "larger_tables", "speed", "many_rows"),
    "scale.md": ("bounds", "growth"),
    "state_of_the_field.md": ("field_conditional", "field_joint", "field_tables"),
    "tutorials/million_rows.md": ("scale",),
}

# Of the error of √p, in the result file.
_PARTS = ("std of √p in the band", "std of √p between fits", "bias of √p")

# Names in the result files, and in the table.
RIVALS = {
    "ngboost_stopped": "NGBoost, stopped",
    "ngboost": "NGBoost",
    "catboost": "CatBoost",
    "xgb_distribution": "XGB Distribution",
    "spline_flow": "spline flow",
    "bart": "BART",
    "quantile_forest": "quantile forest",
    "mixture_network": "mixture network",
    "gaussian_process": "Gaussian process",
    "kernel_density": "kernel density",
    "lscde": "LSCDE",
    "iid_normal": "one normal",
}


def result(name: str) -> Any:
    """What a benchmark has found."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["result"]


def log_loss() -> str:
    """Mean negative log density of each method on each set, and how often it wins."""
    own = samples(read(RESULTS / "selection.jsonl"), "nll")
    return _losses("set", own, samples(read(RESULTS / "rivals.jsonl"), "nll_floored"))


def larger_tables() -> str:
    """The same on tables with given splits, with at most 3,000 training rows."""
    found = read(RESULTS / "tables.jsonl")
    records = [r for r in found if r.figures.get("train_rows", np.inf) <= 3000]
    return _losses("table", samples(records, "nll"), samples(records, "nll_floored"))


Losses = Mapping[str, Mapping[str, Sample]]


def _losses(what: str, own: Losses, rivals: Losses) -> str:
    """A row for each set, a column for each method; the smallest mean is marked."""
    names = [r for r in RIVALS if any(r in methods for methods in rivals.values())]
    rows, better = [], {name: [0, 0] for name in names}
    for name, methods in own.items():
        ours = methods["AutoKCEF"].values
        means = [float(np.mean(list(ours.values())))]
        cells = [f"{means[0]:.2f}"]
        for rival in names:
            cell, mean, verdict = _beside(ours, rivals[name].get(rival))
            means.append(mean)
            cells.append(cell)
            better[rival][0] += verdict is True
            better[rival][1] += verdict is not None
        best = int(np.nanargmin(means))
        cells[best] = f"**{cells[best]}**"
        rows.append([name, *cells])
    counts = [f"{won} of {sets}" for won, sets in better.values()]
    rows.append(["*AutoKCEF better*", "", *counts])
    return table([what, "AutoKCEF", *(RIVALS[name] for name in names)], rows)


def _beside(
    ours: Mapping[int, float], rival: Sample | None
) -> tuple[str, float, bool | None]:
    """A rival's mean with its number of splits, and whether ours is smaller there."""
    if rival is None:
        return "", np.nan, None
    pairs = [(loss, ours[k]) for k, loss in rival.values.items() if k in ours]
    if not pairs:
        return "", np.nan, None
    theirs, mine = np.mean(pairs, axis=0)
    few = "" if len(pairs) == len(ours) else f" ({len(pairs)})"
    return f"{theirs:.2f}{few}", float(theirs), bool(mine < theirs)


def speed() -> str:
    """Fit times beside NGBoost's."""
    rows = [
        [f"{int(n):,}", *(f"{part['seconds'][name]:.1f} s" for name in _TIMED)]
        for n, part in result("selection_time").items()
    ]
    return table(["rows", *_TIMED], rows)


_TIMED = ("NGBoost", "KCEF", "AutoKCEF")


# From so many processes on two cores on, times tell how long they waited.
_BUSY = 4.0


def bounds() -> str:
    """Fits, predictions and imports beside what they cannot do without."""
    rows = []
    for one in result("speed").values():
        if not isinstance(one, dict):
            continue
        aim = f"{one['aim_ratio']:g}" if "aim_ratio" in one else ""
        aim = f"{1000 * one['aim_seconds']:g} ms" if "aim_seconds" in one else aim
        busy = "seconds" in one and one["load_at_start"] > _BUSY
        told = {k: v for k, v in one.items() if not busy or k.startswith("cpu")}
        times = [
            f"{1000 * told[name]:.3g} ms" if name in told else ""
            for name in ("seconds", "cpu_seconds")
        ]
        ratios = [f"{told[k]:.3g}" if k in told else "" for k in ("ratio", "cpu_ratio")]
        rows.append([one["what"], *times, *ratios, aim])
    head = ["what", "time", "processor time", "ratio", "of processor times", "aim"]
    return table(head, rows)


def growth() -> str:
    """How time grows along four axes, with exponents."""
    names = {
        "rows": "rows",
        "columns": "columns of x",
        "centres": "centres",
        "predictions": "rows of prediction",
    }
    rows = []
    for axis, methods in result("growth").items():
        for method, one in methods.items():
            sizes, seconds = one["sizes"], one["cpu_seconds"]
            middle = len(sizes) // 2
            rows.append(
                [
                    f"{names[axis]}, {method}",
                    *(
                        f"{seconds[k]:.3g} s at {sizes[k]:,}"
                        for k in (0, middle, len(sizes) - 1)
                    ),
                    *(f"{one['exponents'][k]:.2f}" for k in ("all", "upper half")),
                ]
            )
    head = ["what grows", "smallest", "middle", "largest", "exponent", "upper half"]
    return table(head, rows)


def many_rows() -> str:
    """One fit of each method to 100,000 rows."""
    found = result("scale_rivals")
    rows = [
        [
            f"{name} ({one['what']})",
            f"{one['fit_seconds']:.0f} s",
            f"{one['log_density']:.3f}",
            f"{one['divergence']:.3f} ± {one['divergence_error']:.3f}",
        ]
        for name, one in found["methods"].items()
    ]
    head = ["method", "fit", "log p of fresh rows", "KL to the truth"]
    return table(head, rows)


_KINDS = {"settled": "kernels given, 1000 centres", "chosen": "everything chosen"}


def scale() -> str:
    """Seconds and memory of fits to many rows."""
    rows = [
        [
            f"{fit['n']:,}",
            _KINDS[fit["kind"]],
            f"{fit['seconds']:.0f} s",
            f"{fit['peak_above_start_mib']:.0f} MiB",
        ]
        for fit in result("scale")["memory"]["fits"]
    ]
    return table(["rows", "what", "fit", "memory above the start"], rows)


def answers() -> str:
    """How long the explorer's answers take."""
    found = result("explorer")
    rows = [
        [name, f"{one['median_ms']:.0f} ms", f"{one['largest_ms']:.0f} ms"]
        for name, one in found.items()
        if isinstance(one, dict)
    ]
    what = (
        f"An average of {found['members']} densities, fitted to {found['rows']} rows; "
        f"whole requests, {found['answers']} of each kind, on two cores at a load of "
        f"{found['load_average']:.1f}:"
    )
    return f"{what}\n\n{table(['question', 'median', 'slowest'], rows)}"


def band() -> str:
    """How often bands of densities hold the truth, and what they do not know of."""
    rows = []
    for size, laws in result("band").items():
        for law, one in laws.items():
            if "coverage" not in one:
                continue
            cells = [
                f"{one['coverage'][level]:.2f} ± {error:.2f}"
                for level, error in one["standard errors"].items()
            ]
            parts = [f"{one[name]:.3f}" for name in _PARTS]
            what, _, *model = size.split(", ")
            what += f", `{model[0]}`" if model else ""
            rows.append([what, law, str(one["fits"]), *cells, *parts])
    levels = ["50 %", "80 %", "90 %", "95 %"]
    parts = ["std of √p in the band", "between fits", "bias"]
    return table(["from", "law", "fits", *levels, *parts], rows)


def spread() -> str:
    """Standard deviations beside errors, and how uniform PIT values are, on tables."""
    few, many = result("table_calibration").values()
    rows = [
        [
            name,
            f"{one['test rows']:,}",
            f"{one['std / error']:.2f} ± {one['standard error']:.2f}",
            *(
                f"{of[name][key]:.3f}" if name in of else ""
                for of in (few, many)
                for key in ("PIT distance", "by chance")
            ),
        ]
        for name, one in few.items()
    ]
    head = ["table", "test rows", "std / error", "PIT distance", "by chance"]
    found = table([*head, "from 5,000 rows", "by chance"], rows)
    right = sum(one["within 5 %"] for one in few.values())
    far = [
        f"{name} ({one['test rows']:,} test rows, by chance {one['by chance']:.3f})"
        for name, one in many.items()
        if one["PIT distance"] > 0.03  # what was aimed at
    ]
    said = (
        f"`std` is right to 5 % and one standard error on {right} of {len(few)} "
        f"tables. From 5,000 rows the distance is at most 0.03 on "
        f"{len(many) - len(far)} of {len(many)}, and more on {' and '.join(far)}."
    )
    return f"{found}\n\n{said}"


def unknown() -> str:
    """How often intervals hold y where a column of x is not known."""
    kinds = {"categories": "new category of {:g}", "gaps": "first gap"}
    rows = [
        [
            f"`{one['model']}`",
            kinds[one["unknown"]].format(one["categories or tie"]),
            f"{one['effect']:g}",
            *(
                f"{held:.2f} ± {error:.2f}"
                for held, error in zip(
                    one["coverage"], one["standard_error"], strict=True
                )
            ),
        ]
        for one in result("unknown")["cases"]
    ]
    return table(["model", "unknown", "effect", "50 %", "80 %", "90 %"], rows)


def measures() -> str:
    """Log loss on laws of many kinds beside their own families, and false alarms."""
    found = result("measures")
    rows = [
        [
            name,
            f"{one['log loss']:.3f}",
            f"{one['log loss of the family']:.3f}",
            f"{one['difference']:+.3f}",
            f"{100 * one['impossible mass']:.2f} %",
            f"{100 * one['error of the share']:.1f}" if "atoms" in one else "",
        ]
        for name, one in found["laws"].items()
    ]
    head = ["law", "`AutoKCEF`", "its family", "difference", "impossible mass"]
    alarms = found["false alarms"]
    counts = alarms["samples with atoms"]
    said = (
        f"In {alarms['samples']} samples of {alarms['rows']} rows of each of "
        f"{len(counts)} continuous laws, some of them rounded, "
        f"{sum(counts.values())} had an atom."
    )
    return f"{table([*head, 'error of the atom, points'], rows)}\n\n{said}"


def field_conditional() -> str:
    """Ours beside the best printed column of the paper's fourteen sets."""
    found = samples(read(REPRODUCTION / "table1.jsonl"), "nll")
    rows, reached = [], 0
    for name, printed in TABLE1.items():
        methods, best = found[name], min(printed, key=lambda key: printed[key])
        ours = methods["AutoKCEF"]
        reached += at_or_below(ours, printed[best])
        count = str(len(ours.values))
        ours_printed = [f"{printed[best]:.2f} ({best})", cell(ours), count]
        rows.append([name, *ours_printed, *(cell(methods.get(m)) for m in _RELATED)])
    head = ["set", "published, best column", "AutoKCEF", "splits", *_RELATED.values()]
    said = (
        f"AutoKCEF at or below the best published column, to two decimals, over all "
        f"its splits: {reached} of {len(rows)}."
    )
    return f"{table(head, rows)}\n\n{said}"


# Methods of Table 1 that its paper names as related work, in the words of a page.
_RELATED = {
    "LSCDE": "our LSCDE",
    "RNADE": "our RNADE",
    "KQR": "quantile regression",
    "CME": "mean embedding",
}


def field_joint() -> str:
    """Joint densities of the wines: networks, and families along orders."""
    found = samples(read(REPRODUCTION / "table2.jsonl"), "nll")
    orders = result("joint_orders")
    rows = []
    for name, published in DEEP_RNADE.items():
        losses = {
            k: Sample(
                {i: one[k]["loss"] for i, one in enumerate(orders[name].values())}
            )
            for k in ("1 orders", "8 orders")
        }
        splits = str(len(orders[name]))
        printed = TABLE2[name]
        rows.append(
            [
                name,
                f"{min(printed['KCEF-F'], printed['KCEF-M']):.2f}",
                f"{printed['RNADE']:.2f}",
                f"{published:.2f}",
                cell(found[name]["RNADE"]),
                *(cell(sample) for sample in losses.values()),
                splits,
            ]
        )
    head = ["set", "KCEF, printed", "NADE, printed", "deep RNADE, published"]
    return table(
        [*head, "our RNADE", "AutoKCEF, one order", "AutoKCEF, 8 orders", "splits"],
        rows,
    )


def field_tables() -> str:
    """Tables with published figures of foundation models, at full size."""
    records = [r for r in read(RESULTS / "tables.jsonl") if r.task.rows is None]
    own, theirs = samples(records, "nll"), samples(records, "nll_floored")
    names = [r for r in RIVALS if any(r in methods for methods in theirs.values())]
    rows = [
        [
            name,
            f"{model:.2f}",
            f"{other:.2f}",
            cell(own[name]["AutoKCEF"]),
            str(len(own[name]["AutoKCEF"].values)),
            *(cell(theirs[name].get(rival)) for rival in names),
        ]
        for name, (model, other) in FOUNDATION.items()
    ]
    head = ["table", "foundation model, published", "best other, published", "AutoKCEF"]
    return table([*head, "splits", *(RIVALS[name] for name in names)], rows)


def rounding() -> str:
    """Nats that are lost beside a law whose rows were rounded, and were before."""
    found = result("rounding")
    now, before = found["nats lost"], found["nats lost before"]
    rows = []
    for name, losses in now.items():
        kind, law = name.split(", ")
        cells = [
            f"{np.mean(own):.3f} ({np.mean(before[name][width]):.3f})"
            for width, own in losses.items()
        ]
        rows.append([f"`{kind}`", law, *cells])
    widths = next(iter(now.values()))
    names = ["not rounded" if w == "0" else f"to {w}" for w in widths]
    return table(["", "law", *names], rows)


# What was aimed at when the way of a fit was drawn, `None` where nothing was.
AIMS = {
    "lines": 34_000,
    "modules": 170,
    "constants": 250,
    "names defined twice": 0,
    "functions": 220,
    "comprehensions and lambdas": None,
    "modules entered": 32,
    "rooms": 10,
    "changes of file": 80,
    "classes": 6,
}


def house() -> str:
    """Sizes of the package and of the way of a fit, at three commits."""
    columns = []
    for found in result("house").values():
        walk = dict(found["KCEF"])
        walk["modules entered"] = walk.pop("modules")
        walk["classes"] = len(walk["classes"])
        columns.append({**found, **walk})
    rows = [
        [name, *(f"{c[name]:,}" for c in columns), "" if aim is None else f"{aim:,}"]
        for name, aim in AIMS.items()
    ]
    return table(["", *(f"`{name}`" for name in result("house")), "aim"], rows)


def refresh(docs: Path = DOCS) -> None:
    """Write all tables into their pages."""
    for page, names in PAGES.items():
        content = {name: globals()[name]() for name in names}
        refresh_page(docs / page, docs, content)


if __name__ == "__main__":
    refresh()
