"""`kexpfam fit`: a model from a table: which columns, which rows, which estimator."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem

from kexpfam import KCEF, AutoKCEF, FactorizedDensity
from kexpfam._typing import Array
from kexpfam.cli.blocks import CodedBlocks, is_long, may_be_in_blocks, sampled_table
from kexpfam.cli.model_files import TableRows, table_rows
from kexpfam.cli.output import check_output, print_json
from kexpfam.cli.readers import Wanted, names_in_header, read_table
from kexpfam.cli.shared import (
    command,
    counted,
    data_argument,
    force_option,
    json_option,
    missing_option,
    note,
    output_option,
    quiet_option,
    say,
    seed_option,
    shows_progress,
    stopping_at_once,
    together,
)
from kexpfam.estimators.description import held_out_score
from kexpfam.tables import (
    Coding,
    Missing,
    Table,
    TableCoder,
    TableError,
    Told,
    number_feature,
)
from kexpfam.tables.columns import listed


def complete_columns(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the columns of the file that stands on the line already.

    Where several may be given as A,B the last of them is completed.
    """
    # Where an option has no value yet, click leaves the arguments as they are.
    words = [ctx.params.get("data"), ctx.params.get("source"), *ctx.args]
    files = [Path(w) for w in words if w and not str(w).endswith(".kexpfam")]
    names = next((names_in_header(path) for path in files if path.is_file()), [])
    whole = [name for name in names if name.startswith(incomplete)]
    if whole or param.name not in ("features", "exclude"):
        return [CompletionItem(name) for name in whole]
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}")
        for name in names
        if name.startswith(last) and name not in taken
    ]


# How a table is seen by a model that is to be fitted.
table_options = together(
    click.option(
        "--target",
        shell_complete=complete_columns,
        help="The column to explain, a number.",
    ),
    click.option(
        "--features",
        multiple=True,
        shell_complete=complete_columns,
        help="Columns that the target may depend on, as A,B or repeated; without "
        "it all others but the index of a pandas frame.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        shell_complete=complete_columns,
        help="A column that the target may not depend on, as A,B or repeated.",
    ),
    click.option(
        "--categorical",
        multiple=True,
        shell_complete=complete_columns,
        help="A column of categories, even if they are numbers. May be repeated.",
    ),
    click.option(
        "--ordered",
        multiple=True,
        help="A column of categories with an order, as size=S,M,L. May be repeated.",
    ),
    click.option(
        "--weights",
        shell_complete=complete_columns,
        help="Column with the weight of each row.",
    ),
    missing_option,
    click.option(
        "--time",
        type=click.FloatRange(min=0.0, min_open=True),
        help="Seconds after which the best model so far is taken.",
    ),
    click.option(
        "--model",
        "kind",
        type=click.Choice(["auto", "kcef"]),
        default="auto",
        show_default=True,
        help="An average of many densities, or the best single one.",
    ),
    click.option("--lower", type=float, help="No target is below this number."),
    click.option("--upper", type=float, help="No target is above this number."),
    click.option(
        "--atoms",
        type=click.Choice(["find", "none"]),
        default="find",
        show_default=True,
        help="Whether values that repeat, and counts, are looked for (--model auto).",
    ),
)

# Those of them that the model is told, not the table.
TOLD_TO_THE_MODEL = ("lower", "upper", "atoms", "time")


@command(
    "fit",
    "kexpfam fit houses.csv --target price",
    "kexpfam fit houses.csv --target price --features rooms,city -o houses.kexpfam",
    "kexpfam fit houses.csv --target price --missing drop --force",
    "kexpfam fit houses.csv --target price --exclude address,id",
)
@data_argument
@table_options
@click.option(
    "--joint",
    is_flag=True,
    help="Without a target: the joint density of all numeric columns.",
)
@click.option(
    "--censoring",
    shell_complete=complete_columns,
    help="A column that says of each target right, left or none (or 1, -1, 0).",
)
@seed_option
@output_option("model.kexpfam", "File of the model.")
@force_option
@json_option
@quiet_option
def fit_command(
    data: str,
    kind: str,
    joint: bool,
    censoring: str | None,
    seed: int,
    output: str,
    force: bool,
    as_json: bool,
    quiet: bool,
    **columns: Any,
) -> None:
    """Learn p(target | features) from the table DATA (.csv, .tsv or .parquet).

    Columns may be numbers, texts, dates, and have gaps. The model file remembers all
    that is needed to read other tables with the same columns.
    """
    if joint and columns["target"] is not None:
        raise click.UsageError("--joint is for all columns together, without --target.")
    if not joint:
        require_target(columns["target"])
    check_output(output, force)
    law = {name: columns.pop(name) for name in TOLD_TO_THE_MODEL}
    wanted = wanted_columns(columns | {"censoring": censoring})
    if censoring is not None:
        columns["exclude"] = (*columns["exclude"], censoring)
    given = columns | law | {"model": kind, "seed": seed}  # to be said again
    whole = joint or censoring is not None
    rows = None if whole else rows_in_blocks(data, wanted, columns)
    rows = rows or training_table(read_table(data, wanted), **columns)
    rows.tell()
    sides = None if censoring is None else _sides(rows, censoring)
    if kind == "kcef" or law["atoms"] == "none":
        _tell_of_few_values(rows)
    start = perf_counter()
    model = new_model(kind, seed, joint=joint, **law)
    if not joint:
        model._told_kinds = rows.coder.kinds  # of which trees make more
    model = fitted(model, rows, sides)
    seconds = perf_counter() - start
    if joint:
        model.save(output, extra=rows.coder.as_extra())
    else:
        model._adopt(TableCoder.of_coding(rows.coder))
        model.save(output)
    report = _report(model, rows, seconds, output)
    if report["stopped"] == "interrupted":
        note("interrupted; the model is the best of what was tried until then.")
    elif (report["stopped"] or "").startswith("the time budget"):
        note(f"{report['stopped']}.")
    if as_json:
        print_json(report)
    elif not quiet:
        usual = {"model": "auto", "seed": 0, "atoms": "find"}
        # Folds of `evaluate` would take limits for what was observed.
        again = None if censoring else _as_words(given, usual)
        _print(report, data, again)


def wanted_columns(chosen: Mapping[str, Any]) -> Wanted:
    """Which columns of a file a fit looks at, by its options.

    Example:
        >>> chosen = {"target": "y", "features": (), "exclude": ("id",)}
        >>> wanted_columns(chosen)(["id", "x", "y"])
        ['x', 'y']
    """

    def wanted(names: Sequence[str]) -> list[str]:
        listed = {
            option: {
                part.strip()
                for text in chosen.get(option, ())
                for part in ([text] if text in names else text.split(","))
            }
            for option in ("features", "exclude")
        }
        beside = {chosen.get(name) for name in ("target", "weights", "censoring")}
        asked = listed["features"] | beside
        if listed["features"]:
            return [name for name in names if name in asked]
        return [name for name in names if name not in listed["exclude"]]

    return wanted


def training_table(
    table: Table,
    *,
    target: str | None,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    ordered: Sequence[str] = (),
    weights: str | None = None,
    missing: Any = None,
) -> TableRows:
    """Choose columns and rows of a table for a fit.

    Without a target they are those of a joint density. Rows without a target teach
    nothing, and are left out whatever is said about missing values.
    """
    taken = [name for name in (target, weights) if name is not None]
    left_out = _listed_names(table, exclude)
    names = _feature_names(table, features, taken, left_out, joint=target is None)
    if target is None:
        policy: Missing = missing or "error"
        rows = table_rows(_joint_coding(table, names, policy), table, weights)
        _refuse_few(table, len(rows.X), gaps=policy == "drop" and rows.left_out > 0)
    else:
        policy = missing or "impute"
        told = Told(categorical, dict(map(_order, ordered)))
        rows = _learned_rows(table, names, target, weights, told, policy)
    unasked = table.index.difference(taken, names, left_out)
    if unasked and not features:
        said = f"The index of a pandas frame was left out: {listed(sorted(unasked))}."
        coder = replace(rows.coder, notes=(*rows.coder.notes, said))
        rows = replace(rows, coder=coder)
    return rows


def rows_in_blocks(
    path: str, wanted: Wanted, columns: Mapping[str, Any]
) -> TableRows | None:
    """A sample of the rows of a long file, and all of them in blocks; None of others.

    Nor where all rows have to be known together, for means of the target.
    """
    if not is_long(path):
        return None
    rows = training_table(sampled_table(path, wanted), **columns)
    if not may_be_in_blocks(rows.coder):
        return None
    blocks = CodedBlocks(path, wanted, rows.coder, columns["weights"])
    left_out, untold = blocks.left_out, blocks.without_target
    return replace(rows, blocks=blocks, left_out=left_out, without_target=untold)


def _learned_rows(
    table: Table,
    names: Sequence[str],
    target: str,
    weights: str | None,
    told: Told,
    policy: Missing,
) -> TableRows:
    """Rows with a target, and the coding that is learned from them."""
    told.check(table, names)
    y, n = table.numbers(target), len(table)
    untold = np.isnan(y)
    beside = [] if weights is None else [weights]
    needed = {"drop": [*names, *beside], "impute": beside, "error": []}[policy]
    gaps = [table.is_missing(name) for name in needed]
    kept = np.flatnonzero(~np.logical_or.reduce([untold, *gaps]))
    some = table[kept]
    w = None if weights is None else some.numbers(weights)
    _check_rows(some, y[kept], w, target, weights, policy, n)
    Y = y[kept, None]
    coding = Coding.learn(
        some, names, target, Y=Y, weights=w, told=told, missing=policy
    )
    if policy == "error":
        coding.transform(some, beside=beside)  # names the first gap
    X = coding.training(some, Y, w)
    left_out = n - len(kept)
    return TableRows(coding, X, Y[:, 0], w, left_out, int(untold.sum()), some)


def _check_rows(
    table: Table,
    y: Array,
    w: Array | None,
    target: str,
    weights: str | None,
    policy: Missing,
    all_rows: int,
) -> None:
    """Refuse rows that no density can be learned from."""
    _refuse_few(table, len(y), gaps=policy == "drop" and len(y) < all_rows)
    if np.ptp(y) == 0:
        raise TableError(
            f"{table.path}, column {target!r}: all values are {y[0]:g}, and a "
            f"constant has no density."
        )
    if w is not None and (np.any(w < 0) or not np.any(w > 0)):
        raise TableError(
            f"{table.path}, column {weights!r}: weights must not be negative, nor all "
            f"zero, got {w.min():g} to {w.max():g}."
        )


def _refuse_few(table: Table, n: int, *, gaps: bool, fewest: int = 5) -> None:
    """Refuse fewer rows than tell something about a density."""
    if n < fewest:
        raise TableError(
            f"{table.path} has {counted(n, 'complete row')}, and a density needs "
            f"{fewest} at least"
            f"{'; --missing impute keeps rows with gaps' if gaps else ''}."
        )


def _joint_coding(table: Table, names: Sequence[str], policy: Missing) -> Coding:
    """Columns of a joint density, all of them numbers."""
    for name in names:
        if not table.is_mostly_numbers(name):
            raise TableError(
                f"{table.path}, column {name!r} holds categories, which have no joint "
                f"density; leave it out of --features."
            )
        if table.is_missing(name).all():
            raise TableError(
                f"{table.path}, column {name!r} has no values; leave it out "
                f"({table.spelled('exclude', [name])})."
            )
    features = [replace(number_feature(table, name), gaps=False) for name in names]
    return Coding(tuple(features), None, policy, tuple(names))


def _order(text: str) -> tuple[str, list[str]]:
    """A column and its order from "size=S,M,L".

    Example:
        >>> _order("size=S, M,L")
        ('size', ['S', 'M', 'L'])
    """
    name, equals, levels = text.partition("=")
    if not equals or "," not in levels:
        raise click.UsageError(
            f"--ordered {text!r}: write the column and its values in their order, as "
            f"size=S,M,L."
        )
    return name.strip(), [level.strip() for level in levels.split(",")]


def _listed_names(table: Table, texts: Sequence[str]) -> list[str]:
    """Columns from texts such as "A,B", unless a column is called that."""
    names: list[str] = []
    for text in texts:
        names += [text] if text in table.names else map(str.strip, text.split(","))
    for name in names:
        table.column(name)
    return list(dict.fromkeys(names))


def _feature_names(
    table: Table,
    features: Sequence[str],
    taken: Sequence[str],
    left_out: Sequence[str],
    *,
    joint: bool,
) -> list[str]:
    """Columns that are conditions, or all of a joint density."""
    for name in taken:
        table.numbers(name)
    names = _listed_names(table, features)
    for name in taken:
        if name in names:
            raise TableError(f"{name!r} cannot be a feature too.")
    for name in [*taken, *names]:
        if name in left_out:
            raise TableError(f"{name!r} is asked for, and cannot be excluded too.")
    if not names:
        unwanted = [*taken, *left_out, *table.index]
        names = [name for name in table.names if name not in unwanted]
        if joint:
            names = [name for name in names if table.is_mostly_numbers(name)]
    if not names:
        raise TableError(
            f"{table.path} has no columns beside "
            f"{', '.join(map(repr, [*taken, *left_out]))}, and a model needs one "
            f"feature at least."
            if taken
            else f"{table.path} has no columns of numbers."
        )
    return names


def new_model(
    kind: str,
    seed: int,
    *,
    joint: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    atoms: str = "find",
    time: float | None = None,
) -> Any:
    """The estimator that "auto" or "kcef" stands for, not fitted."""
    if joint and not (lower is None and upper is None):
        raise click.UsageError("--lower and --upper are for one target, not --joint.")
    if joint and time is not None:
        raise click.UsageError("--time is for one target, not --joint.")
    law: dict[str, Any] = {"lower": lower, "upper": upper, "time_budget": time}
    if kind != "kcef" and atoms == "none":
        law["atoms"] = False
    single: Any = KCEF if kind == "kcef" else AutoKCEF
    single = single(random_state=seed, verbose=shows_progress(), **law)
    return FactorizedDensity(factor=single, random_state=seed) if joint else single


_SIDES = {
    **{name: name for name in ("right", "left", "none")},
    **{"1": "right", "-1": "left", "0": "none", "": "none"},
    **{"true": "right", "false": "none"},
}


def _sides(rows: TableRows, name: str) -> list[str]:
    """How the target of each row is censored, from a column of the table."""
    if rows.table is None:
        raise click.UsageError("--censoring is for one target, not --joint.")
    cells = [str(cell).strip().lower() for cell in rows.table.labels(name)]
    for row, cell in enumerate(cells):
        if cell not in _SIDES:
            raise TableError(
                f"{rows.table.place(row, name)}: {cell!r:.60} says nothing of "
                f"censoring; write right, left or none."
            )
    found = [_SIDES[cell] for cell in cells]
    note(f"{counted(sum(side != 'none' for side in found), 'row')} censored.")
    return found


def fitted(model: Any, rows: TableRows, censoring: Sequence[str] | None = None) -> Any:
    """The model, fitted; Ctrl-C ends the search, and the best so far is kept.

    A joint density has a search for each column, and Ctrl-C ends the program.
    """
    joint = rows.y is None
    data: Any = (rows.X,) if joint else (rows.X, rows.y)
    weights = rows.weights
    if rows.blocks is not None:  # of which the others are a sample
        data, weights = (rows.blocks,), None
    with stopping_at_once() if joint else contextlib.nullcontext():
        more = {} if censoring is None else {"censoring": censoring}
        model.fit(*data, sample_weight=weights, **more)
    # Whether someone watched is not part of the model.
    for part in [model, *getattr(model, "factors_", {}).values()]:
        if hasattr(part, "verbose"):
            part.set_params(verbose=False)
    return model


def require_target(target: str | None) -> None:
    """Complain about wrong usage, as click does, if there is no target."""
    if target is None:
        raise click.UsageError("Missing option '--target': which column to explain?")


def _tell_of_few_values(rows: TableRows) -> None:
    """A note, if the target seems to be a count or a grade."""
    # So few values, all of them whole, in so many rows: a guess, for a note only.
    few, many = 10, 30
    if rows.y is None or len(rows.y) < many:
        return
    values = np.unique(rows.y)
    if len(values) <= few and np.all(values == np.round(values)):
        note(
            f"{rows.coder.target} looks discrete, with {len(values)} different values "
            f"that are whole numbers; the density has bumps on these values, and says "
            f"little about what lies between them."
        )


def _as_words(given: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """Options as a shell reads them, without those that need not be given.

    Example:
        >>> _as_words({"target": "a b", "features": ("x,y",), "seed": 0}, {"seed": 0})
        "--target 'a b' --features x,y"
    """
    return " ".join(
        f"--{name} {shlex.quote(str(value))}"
        for name, values in given.items()
        if values is not None and values != usual.get(name)
        for value in (values if isinstance(values, tuple) else (values,))
    )


def _report(model: Any, rows: TableRows, seconds: float, output: str) -> dict[str, Any]:
    held_out, best = held_out_score(model)
    return {
        "model": output,
        "estimator": type(model).__name__,
        "target": rows.coder.target,
        "rows": rows.n,
        "rows_left_out": rows.left_out,
        "features": [
            {"name": f.name, "categories": list(f.categories) or None}
            for f in rows.coder.features
        ],
        "held_out_log_density": held_out,
        "best_member": best,
        "stopped": _stopped(model),
        "bounds": _bounds(model),
        "rounded_to": getattr(model, "rounding_", 0.0) or None,
        "atoms": getattr(model, "atoms_", np.empty(0)).tolist() or None,
        "members": len(model.members_) if getattr(model, "members_", None) else None,
        "seconds": seconds,
    }


def _bounds(model: Any) -> dict[str, Any] | None:
    """Where the target ends, and whether that is only likely; None for no bounds."""
    support = getattr(model, "support_", None)
    if support is None:
        return None
    likely = getattr(model, "beyond_", None) is not None
    ends = {"lower": support.lower, "upper": support.upper}
    known = {name: end if np.isfinite(end) else None for name, end in ends.items()}
    return {**known, "likely": likely}


def _stopped(model: Any) -> str | None:
    """Why the search of a model ended; None if there was none."""
    reason = getattr(getattr(model, "selection_", None), "reason", None)
    found: str | None = getattr(model, "stopped_", reason)
    return found


def _print(report: dict[str, Any], data: str, again: str | None) -> None:
    groups = {f["name"]: len(f["categories"] or ()) for f in report["features"]}
    words = [
        f"{name} ({counted(k, 'category')})" if k else name
        for name, k in groups.items()
    ]
    target, output = report["target"], shlex.quote(report["model"])
    data = shlex.quote(data)
    what = f"{'' if target is None else f'{target} | '}{', '.join(words)}"
    many = counted(report["rows"], "row")
    say(f"p({what}) from {many} in {report['seconds']:.1f} s")
    bounds = report["bounds"] or {}
    for end in ("lower", "upper"):
        if bounds.get(end) is not None:
            option = f"; --{end} {bounds[end]:g} says that it does"
            likely = f", it seems{option}" if bounds["likely"] else ""
            where = "begins" if end == "lower" else "ends"
            say(f"  {target} {where} at {bounds[end]:g}{likely}")
    if report["rounded_to"] is not None and not report["atoms"]:
        say(f"  {target} is rounded to {report['rounded_to']:g}")
    atoms = report["atoms"] or []
    if len(atoms) > 5:
        say("  a mass function on whole numbers")
    elif atoms:
        values = " and ".join(f"{value:g}" for value in atoms)
        say(f"  probabilities of {values}, and a density of what is beside them")
    elif report["members"]:
        say(
            f"  an average of {counted(report['members'], 'density')}; the best one "
            f"alone is built on: {report['best_member']}"
        )
    elif report["best_member"]:
        say(f"  one density, built on: {report['best_member']}")
    if report["held_out_log_density"] is not None:
        say(
            f"  mean log density of held-out rows {report['held_out_log_density']:.3f} "
            f"(of the best one; higher is better)"
        )
    say(f"  written to {output}")
    say("What to do next:")
    if target is None:
        say(f"  kexpfam sample {output} -n 100 -o draws.csv")
        return
    say(f"  kexpfam plot {output} {data} -o picture.png")
    say(f"  kexpfam predict {output} {data} -o predictions.csv")
    if again is not None:
        say(f"  kexpfam evaluate {data} {again} --cv 5")
