"""`kexpfam sample`: draws from p(y|x), or whole rows of a joint density."""

from typing import Any

import click
import numpy as np

from kexpfam.cli.guard import note
from kexpfam.cli.model_files import TableModel, load_table_model
from kexpfam.cli.options import (
    examples,
    force_option,
    missing_option,
    model_argument,
    quiet_option,
    seed_option,
    table_output_option,
    unknown_option,
)
from kexpfam.cli.output import STANDARD_OUTPUT, TABLES, check_output, write_columns
from kexpfam.cli.tables import Column, TableError, read_table


@click.command(
    epilog=examples(
        "kexpfam sample houses.kexpfam new.csv -n 100 -o draws.csv",
        "kexpfam sample houses.kexpfam new.csv -n 5 --seed 1 | head",
    )
)
@model_argument
@click.argument("data", type=click.Path(), required=False)
@click.option(
    "-n",
    "--draws",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Draws for each row.",
)
@seed_option
@table_output_option
@missing_option
@unknown_option
@force_option
@quiet_option
def sample(
    model: str,
    data: str | None,
    draws: int,
    seed: int,
    output: str,
    missing: Any,
    unknown: Any,
    force: bool,
    quiet: bool,
) -> None:
    """Draw values of the target for each row of DATA.

    The result has one line for each draw: the number of the row, from 1 and without
    the header, the number of the draw, and the value. A model of --joint draws whole
    rows, and needs no DATA.
    """
    check_output(output, force, TABLES)
    found = load_table_model(model)
    if found.is_joint and data is not None:
        raise click.UsageError(
            f"{model} is a joint density, which draws whole rows and takes no table; "
            f"leave {data} out."
        )
    if found.is_joint:
        columns = _joint(found, draws, seed)
    elif data is None:
        raise click.UsageError("Missing argument 'DATA': draws are made for its rows.")
    else:
        columns = _conditional(found, data, draws, seed, missing, unknown)
    write_columns(output, columns)
    if output != STANDARD_OUTPUT and not quiet:
        count = len(next(iter(columns.values())))
        click.echo(f"{count} draws written to {output}")


def _conditional(
    found: TableModel, data: str, draws: int, seed: int, missing: Any, unknown: Any
) -> dict[str, Column]:
    found.require_one_target()
    table = read_table(data)
    coding = found.coding_for(table)
    coded = coding.matrix(table, missing=missing, unknown=unknown)
    if not len(coded.rows):
        raise TableError(f"{data} has no complete row.")
    if len(coded.rows) < len(table):
        left_out = len(table) - len(coded.rows)
        note(f"{left_out} rows with missing values have no draws.")
    values = found.model.sample(coded.X, draws, random_state=seed)
    return {
        "row": np.repeat(coded.rows + 1, draws),
        "draw": np.tile(np.arange(1, draws + 1), len(coded.rows)),
        "value": values.ravel(),
    }


def _joint(found: TableModel, draws: int, seed: int) -> dict[str, Column]:
    rows = found.model.sample(draws, random_state=seed)
    if found.coding is not None:
        names = found.coding.columns
    else:
        plain = [f"column_{i + 1}" for i in range(rows.shape[1])]
        names = [str(n) for n in getattr(found.model, "feature_names_in_", plain)]
    return dict(zip(names, rows.T, strict=True))
