"""`kexpfam plot`: p(y|x) at some conditions, along a feature, and its calibration."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.explore import subject_of
from kexpfam.cli.fit import complete_columns
from kexpfam.cli.model_files import (
    TableModel,
    held_out_rows,
    load_table_model,
    numbered_rows,
)
from kexpfam.cli.output import PICTURES, check_output, write_picture
from kexpfam.cli.pictures import (
    condition,
    draw_along,
    draw_averaged,
    draw_densities,
)
from kexpfam.cli.readers import read_table
from kexpfam.cli.shared import (
    command,
    model_argument,
    optional_data_argument,
    output_option,
    row_options,
)
from kexpfam.metrics import evaluate
from kexpfam.tables import (
    Coding,
    DateFeature,
    NumberFeature,
    Table,
    TableError,
)
from kexpfam.tables.dates import days_of

Gaps = Mapping[str, Any]  # options about missing values and unknown categories


@command(
    "plot",
    "kexpfam plot houses.kexpfam houses.csv --along rooms -o rooms.png",
    "kexpfam plot houses.kexpfam --along rooms --at city=Rome -o rome.png",
    "kexpfam plot houses.kexpfam --at rooms=3,city=Rome --at rooms=5 -o two.svg",
    "kexpfam plot houses.kexpfam houses.csv --row 1 --row 7 -o rows.png",
    "kexpfam plot houses.kexpfam new.csv --kind calibration -o calibration.png",
)
@model_argument
@optional_data_argument
@output_option("picture.png", "A .png, .svg or .pdf file.")
@click.option(
    "--kind",
    type=click.Choice(["curve", "density", "calibration"]),
    help="Quantiles along a feature; densities at some rows; how often intervals hold "
    "what was observed. By default what the other options ask for, or else a curve.",
)
@click.option(
    "--along",
    shell_complete=complete_columns,
    help="The feature of a curve; by default the one that densities depend on most. "
    "The others are averaged over the rows most like it, of DATA or of those that the "
    "model remembers; with --at or --row they have these values, and the feature must "
    "be a number.",
)
@click.option(
    "--row",
    "numbers",
    type=click.IntRange(min=1),
    multiple=True,
    help="A row of DATA to draw the density of, counted from 1 below the header. May "
    "be repeated. With --along: one row, which has the values of the other features.",
)
@click.option(
    "--at",
    "places",
    multiple=True,
    help="Values of features, as rooms=3,city=Rome; the others are those of the "
    "nearest row of DATA, or typical without it. May be repeated to compare densities. "
    "With --along: where the other features are, once.",
)
@row_options
def plot_command(
    model: str,
    data: str | None,
    output: str,
    kind: str | None,
    along: str | None,
    numbers: tuple[int, ...],
    places: tuple[str, ...],
    force: bool,
    quiet: bool,
    **gaps: Any,
) -> None:
    """Draw the distribution of the target."""
    if kind is None:
        kind = "density" if (numbers or places) and along is None else "curve"
    _refuse_misfits(kind, along, numbers, places)
    check_output(output, force, PICTURES)
    found = load_table_model(model)
    found.require_one_target()
    table = None if data is None else read_table(data)
    if kind == "calibration":
        draw = _calibration(found, table, gaps)
    else:
        coder = _coder(found, table)
        if kind == "curve" and not (numbers or places):
            draw = _averaged(found, coder, table, along, gaps)
        elif kind == "curve":
            held = _values(places[0]) if places else {}
            feature = _feature_of_curve(coder, along, held)
            row = condition(coder, table, held)
            if numbers:
                row = numbered_rows(coder, table, numbers, gaps)
            draw = _curve(found, coder, table, feature, row)
        else:
            draw = _densities(found, coder, table, numbers, places, gaps)
    write_picture(output, draw)
    if not quiet:
        click.echo(f"The picture is in {output}")


def _refuse_misfits(
    kind: str, along: str | None, numbers: Sequence[int], places: Sequence[str]
) -> None:
    """Refuse options that the kind of picture would not follow."""
    given = {"--along": along is not None, "--row": numbers, "--at": places}
    unfit = {"calibration": ("--along", "--row", "--at"), "density": ("--along",)}
    meant = {"calibration": "all rows of DATA", "density": "densities at some places"}
    for option in unfit.get(kind, ()):
        if given[option]:
            raise click.UsageError(
                f"{option} is not for --kind {kind}, a picture of {meant[kind]}; leave "
                f"one of the two out."
            )
    if kind == "curve" and len(numbers) + len(places) > 1:
        raise click.UsageError(
            "A curve has the other features at one place; give one --row, or one --at "
            "such as --at rooms=3,city=Rome."
        )


def _coder(found: TableModel, table: Table | None) -> Coding:
    if found.coder is not None:
        return found.coder
    if table is None:
        raise TableError(
            f"{found.path} was saved without names; give DATA, whose columns these are."
        )
    return found.coder_for(table)


def _calibration(found: TableModel, table: Table | None, gaps: Gaps) -> Any:
    if table is None:
        raise click.UsageError("--kind calibration needs DATA with observations.")
    rows = held_out_rows(found, table, marked=True, **gaps)
    assert rows.y is not None
    result = evaluate(found.model, rows.X, rows.y)
    return lambda: np.ravel(result.plot())[0].figure


def _averaged(
    found: TableModel, coder: Coding, table: Table | None, along: str | None, gaps: Gaps
) -> Any:
    """The curve along a feature, averaged over rows like each of its values."""
    known = {f.name for f in coder.features}
    if along is not None:
        coder.feature(along)  # which refuses other names
    rows = table if table is not None and known <= set(table.names) else None
    if rows is None:
        subject = subject_of(found, None, {})
    else:
        how = {**gaps, "missing": gaps.get("missing") or "drop"}
        subject = subject_of(found, rows, how)
    return lambda: draw_averaged(subject, along)


def _feature_of_curve(
    coder: Coding, along: str | None, held: Mapping[str, str]
) -> NumberFeature | DateFeature:
    numeric = [f.name for f in coder.features if not f.categories]
    if along is None:
        free = [name for name in numeric if name not in held]
        if not free:
            raise TableError(
                f"No {'other ' if numeric else ''}feature is a number, so there is no "
                f"curve; say --kind density --at "
                f"{coder.features[0].name}={coder.features[0].typical} instead."
            )
        along = free[0]
    if along in held:
        raise click.UsageError(
            f"--at {along}={held[along]}: the curve runs along {along}, which has no "
            f"one value; leave it out of --at, or say --kind density without --along."
        )
    feature = coder.feature(along)
    if not isinstance(feature, NumberFeature | DateFeature):
        compared = " ".join(f"--at {along}={c}" for c in feature.categories[:2])
        raise TableError(
            f"{along!r} holds categories, and a curve needs numbers; say {compared} "
            f"instead."
        )
    return feature


def _curve(
    found: TableModel,
    coder: Coding,
    table: Table | None,
    feature: NumberFeature | DateFeature,
    row: Array,
) -> Any:
    dots = None
    if table is not None and coder.target in table.names:
        x = days_of(table.column(feature.name))
        x = table.numbers(feature.name) if x is None else x
        pairs = np.column_stack([x, table.numbers(str(coder.target))])
        dots = pairs[~np.isnan(pairs).any(axis=1)]
    return lambda: draw_along(found.model, coder, feature, dots, row)


def _densities(
    found: TableModel,
    coder: Coding,
    table: Table | None,
    numbers: Sequence[int],
    places: Sequence[str],
    gaps: Gaps,
) -> Any:
    conditions = [condition(coder, table, _values(text)) for text in places]
    labels = list(places)
    observed = [np.nan] * len(places)
    if table is not None and not (numbers or places):
        # As many as can be told apart.
        numbers = range(1, min(4, len(table)) + 1)
    if numbers:
        conditions.append(numbered_rows(coder, table, numbers, gaps))
        labels += [f"row {number}" for number in numbers]
        assert table is not None
        known = coder.target in table.names
        y = table.numbers(str(coder.target)) if known else np.full(len(table), np.nan)
        observed += [float(y[number - 1]) for number in numbers]
    if not conditions:
        conditions, labels = [condition(coder, table)], ["typical values"]
        observed = [np.nan]
    return lambda: draw_densities(
        found.model, coder, np.vstack(conditions), labels, np.array(observed)
    )


def _values(text: str) -> dict[str, str]:
    """Values from "rooms=3,city=Rome"."""
    values = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(
                f"--at {text!r}: write 'name=value', separated by commas."
            )
        values[name.strip()] = value
    return values
