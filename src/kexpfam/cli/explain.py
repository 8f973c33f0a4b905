"""`kexpfam explain`: which columns matter, what one does, why a row is what it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.fit import complete_columns
from kexpfam.cli.model_files import (
    TableModel,
    held_out_rows,
    load_table_model,
    numbered_rows,
)
from kexpfam.cli.output import (
    PICTURES,
    TABLES,
    check_output,
    significant,
    write_columns,
    write_picture,
)
from kexpfam.cli.readers import read_table
from kexpfam.cli.shared import (
    command,
    data_argument,
    digits_option,
    model_argument,
    row_options,
    seed_option,
)
from kexpfam.explanation import Explained, ModelColumns
from kexpfam.tables import Coding, Table
from kexpfam.tables.columns import Column


@dataclass(frozen=True, eq=False)
class CodedTable(Explained):
    """A model of rows that are coded already, with the names of a table's columns."""

    model: Explained
    coding: Coding

    def _columns(self) -> ModelColumns:
        plain = self.model._columns()
        names = [feature.name for feature in self.coding.features]
        return ModelColumns.of(
            names,
            self.coding,
            np.asarray,
            plain.densities,
            background=plain.background,
            response=self.coding.target or plain.response,
            n_jobs=plain.n_jobs,
        )


@command(
    "explain",
    "kexpfam explain houses.kexpfam new_houses.csv",
    "kexpfam explain houses.kexpfam new_houses.csv -o importance.png",
    "kexpfam explain houses.kexpfam houses.csv --column area --of std -o area.png",
    "kexpfam explain houses.kexpfam houses.csv --row 7 --of 0.9",
    "kexpfam explain houses.kexpfam houses.csv --row 7 --of 'P(y>300)' -o row7.csv",
)
@model_argument
@data_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="A picture (.png, .svg, .pdf) or a table (.csv, .tsv, .parquet); without it a "
    "table is printed.",
)
@click.option(
    "--column",
    shell_complete=complete_columns,
    help="Show the effect of a column, averaged over the rows of DATA.",
)
@click.option(
    "--row",
    "number",
    type=click.IntRange(min=1),
    help="Explain a row of DATA, counted from 1 below the header, by Shapley values "
    "against training rows.",
)
@click.option(
    "--of",
    help="With --column or --row: mean (the default), median, std, width of the 90 % "
    "interval, P(y>2.5), or the level of a quantile such as 0.9; with --column also "
    "quantiles or density.",
)
@click.option(
    "--separate",
    is_flag=True,
    help="Look at each column alone, also where several are collinear.",
)
@click.option(
    "--target", shell_complete=complete_columns, help="If the model does not know it."
)
@seed_option
@digits_option
@row_options
def explain_command(
    model: str,
    data: str,
    output: str | None,
    column: str | None,
    number: int | None,
    of: str | None,
    separate: bool,
    target: str | None,
    seed: int,
    digits: int,
    force: bool,
    quiet: bool,
    **gaps: Any,
) -> None:
    """Say which columns of MODEL matter, on rows of DATA that it has not seen.

    The table has what is lost without a column, or without columns that are collinear:
    log density, CRPS, and narrowness of 90 % intervals. Values are exchanged between
    similar rows, which tells what a column adds to the others, and between any
    (marginal).
    """
    _refuse_misfits(column, number, of, separate, target)
    if output is not None:
        check_output(output, force, (*PICTURES, *TABLES))
    found = load_table_model(model)
    found.require_one_target()
    table = read_table(data)
    if column is None and number is None:
        rows = held_out_rows(found, table, target, **gaps)
        asked = CodedTable(found.model, rows.coder)
        groups = None if separate else "auto"
        result: Any = asked.importance(
            rows.X, rows.y, groups=groups, sample_weight=rows.weights, random_state=seed
        )
    else:
        result = _of_column_or_row(
            found, table, column, number, _wanted(of), seed, gaps
        )
    if output is None:
        click.echo(str(result))
        return
    if Path(output).suffix.lower() in PICTURES:
        write_picture(output, lambda: result.plot().figure_)
    else:
        write_columns(output, _columns_of(result, digits))
    if not quiet:
        click.echo(f"The explanation is in {output}")


def _of_column_or_row(
    found: TableModel,
    table: Table,
    column: str | None,
    number: int | None,
    of: Any,
    seed: int,
    gaps: Mapping[str, Any],
) -> Any:
    coder = found.coder_for(table)
    asked = CodedTable(found.model, coder)
    if number is not None:
        row: Array = numbered_rows(coder, table, [number], gaps)
        return asked.explain(row, of, random_state=seed)
    return asked.effect(column, coder.complete(table, **gaps).X, of, random_state=seed)


def _refuse_misfits(
    column: str | None,
    number: int | None,
    of: str | None,
    separate: bool,
    target: str | None,
) -> None:
    """Refuse options that would not be followed."""
    if column is not None and number is not None:
        raise click.UsageError(
            "--column and --row are different explanations; leave one of them out."
        )
    alone = column is None and number is None
    if alone and of is not None:
        raise click.UsageError(
            f"--of {of} is for --column or --row; importance has three scores of its "
            f"own: leave --of out."
        )
    for option, given in (("--separate", separate), ("--target", target)):
        if given and not alone:
            raise click.UsageError(
                f"{option} is for the importance of all columns; leave it out."
            )


def _wanted(of: str | None) -> Any:
    """What is asked for: a word, or a number as the level of a quantile."""
    try:
        return float(of or "mean")
    except ValueError:
        return of or "mean"


def _columns_of(result: Any, digits: int) -> dict[str, Column]:
    """A result as columns of a file."""
    table: dict[str, Column] = dict(result.table())
    if hasattr(result, "losses"):
        table = {"column": np.array(result.names, dtype=object), **table}
    for name, values in table.items():
        if values.dtype.kind == "M":
            table[name] = np.datetime_as_string(values, unit="D").astype(object)
        elif values.dtype.kind == "f":
            table[name] = significant(values, digits)
    return table
