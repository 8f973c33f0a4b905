"""`kexpfam fit`: a model from a table."""

import shlex
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import click

from kexpfam.cli.fitting import (
    TrainingTable,
    fitted,
    new_model,
    require_target,
    tell_of_few_values,
    tell_of_rows_left_out,
    training_table,
)
from kexpfam.cli.model_files import save_table_model
from kexpfam.cli.options import (
    data_argument,
    examples,
    force_option,
    json_option,
    quiet_option,
    seed_option,
    table_options,
)
from kexpfam.cli.output import check_output, print_json
from kexpfam.cli.tables import read_table


@click.command(
    epilog=examples(
        "kexpfam fit houses.csv --target price",
        "kexpfam fit houses.csv --target price --features rooms,city -o houses.kexpfam",
        "kexpfam fit houses.csv --target price --missing impute --force",
    )
)
@data_argument
@table_options
@click.option(
    "--joint",
    is_flag=True,
    help="Without a target: the joint density of all numeric columns.",
)
@seed_option
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="model.kexpfam",
    show_default=True,
    help="File of the model.",
)
@force_option
@json_option
@quiet_option
def fit(
    data: str,
    target: str | None,
    features: tuple[str, ...],
    categorical: tuple[str, ...],
    weights: str | None,
    missing: str | None,
    kind: str,
    joint: bool,
    seed: int,
    output: str,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn p(target | features) from the table DATA (.csv, .tsv or .parquet).

    Columns with texts are taken as categories. The model file remembers all that is
    needed to read other tables with the same columns.
    """
    if joint and target is not None:
        raise click.UsageError("--joint is for all columns together, without --target.")
    if not joint:
        require_target(target)
    check_output(output, force)
    rows = training_table(
        read_table(data),
        target=target,
        features=features,
        categorical=categorical,
        weights=weights,
        missing=missing,
    )
    tell_of_rows_left_out(rows)
    tell_of_few_values(rows)
    start = perf_counter()
    model = fitted(new_model(kind, seed, joint=joint), rows)
    seconds = perf_counter() - start
    save_table_model(output, model, rows.coding)
    report = _report(model, rows, seconds, output)
    if as_json:
        print_json(report)
    elif not quiet:
        again = _as_words(
            {"target": target, "weights": weights, "missing": missing},
            {"features": features, "categorical": categorical},
            {"model": (kind, "auto"), "seed": (seed, 0)},
        )
        _print(report, data, again)


def _as_words(
    single: Mapping[str, str | None],
    several: Mapping[str, Sequence[str]],
    defaults: Mapping[str, tuple[object, object]],
) -> str:
    """Options as a shell reads them, without those that were not given.

    Args:
        single: Options with a value, or None.
        several: Options that may be repeated.
        defaults: Options with their value and what it is if it is not given.

    Example:
        >>> _as_words({"target": "a b"}, {"features": ["x,y"]}, {"seed": (0, 0)})
        "--target 'a b' --features x,y"
    """
    pairs: list[tuple[str, object]] = [
        *((name, value) for name, value in single.items() if value is not None),
        *((name, value) for name, values in several.items() for value in values),
        *((name, value) for name, (value, usual) in defaults.items() if value != usual),
    ]
    return " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in pairs)


def _report(
    model: Any, rows: TrainingTable, seconds: float, output: str
) -> dict[str, Any]:
    held_out, best = _held_out(model)
    return {
        "model": output,
        "estimator": type(model).__name__,
        "target": rows.coding.target,
        "rows": len(rows.X),
        "rows_left_out": rows.left_out,
        "features": [
            {"name": f.name, "categories": list(f.categories) or None}
            for f in rows.coding.features
        ],
        "held_out_log_density": held_out,
        "best_member": best,
        "members": len(model.members_) if hasattr(model, "members_") else None,
        "seconds": seconds,
    }


def _held_out(model: Any) -> tuple[float | None, str | None]:
    """Mean held-out log density of the best family, and its base in words."""
    if hasattr(model, "members_"):
        best = max(model.members_, key=lambda member: member.held_out)
        return best.held_out, best.chart
    selection = getattr(model, "selection_", None)
    if selection is None or not hasattr(selection, "chosen"):
        return None, None
    return float(selection.chosen.mean(selection.weights)), selection.chosen.chart


def _print(report: dict[str, Any], data: str, again: str) -> None:
    features = [
        f"{f['name']} ({len(f['categories'])} categories)"
        if f["categories"]
        else f["name"]
        for f in report["features"]
    ]
    target, output = report["target"], shlex.quote(report["model"])
    data = shlex.quote(data)
    what = f"p({target} | {', '.join(features)})"
    if target is None:
        what = f"p({', '.join(features)})"
    click.echo(f"{what} from {report['rows']} rows in {report['seconds']:.1f} s")
    if report["members"]:
        click.echo(
            f"  an average of {report['members']} densities; the best one alone is "
            f"built on: {report['best_member']}"
        )
    elif report["best_member"]:
        click.echo(f"  one density, built on: {report['best_member']}")
    if report["held_out_log_density"] is not None:
        click.echo(
            f"  mean log density of held-out rows {report['held_out_log_density']:.3f} "
            f"(of the best one; higher is better)"
        )
    click.echo(f"  written to {output}")
    click.echo("What to do next:")
    if target is None:
        click.echo(f"  kexpfam sample {output} -n 100 -o draws.csv")
        return
    # A curve runs along a number.
    numeric = any(f["categories"] is None for f in report["features"])
    kind = "" if numeric else "--kind density "
    click.echo(f"  kexpfam plot {output} {data} {kind}-o picture.png")
    click.echo(f"  kexpfam predict {output} {data} -o predictions.csv")
    click.echo(f"  kexpfam evaluate {data} {again} --cv 5")
