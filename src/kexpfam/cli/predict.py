"""`kexpfam predict` and `sample`: numbers and draws of p(y|x) for each row of a table.

A joint density has no rows to be asked about; `sample` draws whole rows of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam.cli.model_files import TableModel, load_table_model
from kexpfam.cli.output import TABLES, check_output, significant, write_columns
from kexpfam.cli.readers import joined_cells, read_table, table_blocks
from kexpfam.cli.shared import (
    STANDARD_OUTPUT,
    command,
    counted,
    data_argument,
    digits_option,
    is_watched,
    model_argument,
    note,
    optional_data_argument,
    row_options,
    seed_option,
    table_output_option,
)
from kexpfam.distributions import in_blocks
from kexpfam.tables import Coded, Table, TableError
from kexpfam.tables.columns import Column


def read_numbers(
    ctx: click.Context, param: click.Parameter, value: str
) -> tuple[float, ...]:
    """Numbers, from a text with commas."""
    try:
        numbers = tuple(float(text) for text in value.split(",") if text.strip())
    except ValueError:
        numbers = (np.nan,)
    if np.isnan(numbers).any():
        raise click.BadParameter(f"{value!r} are not numbers separated by commas.")
    return numbers


def read_levels(
    ctx: click.Context, param: click.Parameter, value: str
) -> tuple[float, ...]:
    """Probabilities strictly between 0 and 1, from a text with commas."""
    levels = read_numbers(ctx, param, value)
    if not all(0.0 < level < 1.0 for level in levels):
        raise click.BadParameter(f"{value!r} must lie between 0 and 1.")
    return levels


@command(
    "predict",
    "kexpfam predict houses.kexpfam new.csv -o predictions.csv",
    "kexpfam predict houses.kexpfam new.csv --quantiles 0.1,0.9 | head",
    "kexpfam predict houses.kexpfam new.csv --above 200,300 -o chances.csv",
    "kexpfam predict houses.kexpfam new.csv --hpd 0.9 -o out.parquet",
)
@model_argument
@data_argument
@table_output_option
@click.option(
    "--quantiles",
    callback=read_levels,
    default="0.05,0.5,0.95",
    show_default=True,
    help="Levels of the columns q0.05, q0.5, ...",
)
@click.option(
    "--interval",
    "intervals",
    callback=read_levels,
    default="",
    help="Intervals with as much probability below as above, as 0.9 or 0.5,0.9.",
)
@click.option(
    "--hpd",
    "regions",
    callback=read_levels,
    default="",
    help="The smallest sets with a probability; one or more intervals, as a text.",
)
@click.option(
    "--above",
    callback=read_numbers,
    default="",
    help="Probabilities P(y>T) of values above T, as 200 or 200,300.",
)
@click.option(
    "--density", is_flag=True, help="Log density of the target, which DATA then has."
)
@click.option("--with-data", is_flag=True, help="The columns of DATA come first.")
@digits_option
@row_options
def predict_command(
    model: str,
    data: str,
    output: str,
    density: bool,
    with_data: bool,
    digits: int,
    missing: Any,
    unknown: Any,
    force: bool,
    quiet: bool,
    **levels: tuple[float, ...],
) -> None:
    """Describe the distribution of the target for each row of DATA.

    The result has one line for each row, in their order: mean, median, std, mode, and
    quantiles, in six digits, or all in Parquet files. Lines of rows with missing values
    are empty, unless these are imputed.
    """
    check_output(output, force, TABLES)
    found = load_table_model(model)
    found.require_one_target()
    parts: list[dict[str, Column]] = []
    empty = rows = 0
    wanted = None if with_data else found.wanted()
    for table in table_blocks(data, wanted):
        coded, columns = _predicted(found, table, missing, unknown, density, levels)
        if not output.endswith(".parquet"):
            columns = _shortened(columns, digits)
        shown: dict[str, Column] = {}
        if with_data:
            shown |= dict(zip(table.names, table.columns, strict=True))
        for name, values in columns.items():
            key = f"predicted_{name}" if name in shown else name
            shown[key] = _in_rows(values, coded.rows, len(table))
        parts.append(shown)
        empty, rows = empty + len(table) - len(coded.rows), rows + len(table)
    if empty == rows:
        raise TableError(f"{data} has no complete row.")
    write_columns(output, _joined(parts))
    if empty:
        lines = counted(empty, "row")
        note(f"empty lines stand for {lines} with missing values.")
    if output != STANDARD_OUTPUT and not quiet:
        click.echo(f"{counted(rows, 'row')} written to {output}")


def _predicted(
    found: TableModel,
    table: Table,
    missing: Any,
    unknown: Any,
    density: bool,
    levels: Mapping[str, Any],
) -> tuple[Coded, dict[str, Column]]:
    """Which rows of a table are complete, and numbers of their densities."""
    coder = found.coder_for(table)
    coded = coder.transform(table, missing=missing, unknown=unknown, marked=True)
    if density and coder.target is None:
        raise TableError("--density needs the name of the target, which is not known.")
    # Where no row is complete, one row tells which columns there are.
    some = len(coded.rows) > 0
    X = coded.X if some else coder.row()
    y: Array | None = None
    if density:
        known = table.numbers(str(coder.target))[coded.rows]
        y = known if some else np.full(1, np.nan)
    with ProgressBar("predicting", shown=is_watched()) as bar:
        blocks = in_blocks(
            found.model.given,
            X,
            lambda p, rows: summaries(p, None if y is None else y[rows], **levels),
            n_jobs=getattr(found.model, "n_jobs", None),
            progress=bar,
            block_rows=found.model._block_rows(X),
        )
    columns = {
        name: np.concatenate([block[name] for block in blocks])[: len(coded.rows)]
        for name in blocks[0]
    }
    return coded, columns


def _joined(parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """Columns of several blocks of rows, one below the other."""
    if len(parts) == 1:
        return dict(parts[0])
    return {name: joined_cells([part[name] for part in parts]) for name in parts[0]}


def summaries(
    p: Any,
    y: Array | None = None,
    *,
    quantiles: Sequence[float] = (),
    intervals: Sequence[float] = (),
    regions: Sequence[float] = (),
    above: Sequence[float] = (),
) -> dict[str, Column]:
    """Columns that describe n densities: moments, quantiles at levels, regions.

    Responses y, (n,), NaN for none, are those whose log density is wanted.
    """
    columns: dict[str, Column] = {"mean": p.mean(), "median": p.median()}
    columns |= {"std": p.std(), "mode": p.mode()}
    if quantiles:
        found = p.quantile(quantiles)
        for level, values in zip(quantiles, found.T, strict=True):
            columns[f"q{level:.15g}"] = values
    for level in intervals:
        low, high = p.interval(level).T
        # As in `predict_frame`, which has one; of several, each says which it is.
        which = "" if len(intervals) == 1 else f"{level:.15g}"
        columns |= {f"low{which}": low, f"high{which}": high}
    for level in regions:
        ends = [
            significant(r, 6, s) for r, s in zip(p.hpd(level), p.std(), strict=True)
        ]
        texts = [" or ".join(f"{a:.15g} to {b:.15g}" for a, b in r) for r in ends]
        columns[f"hpd{level:.15g}"] = np.array(texts, dtype=object)
    for limit, values in zip(above, p.sf(np.array([above])).T, strict=True):
        columns[f"P(y>{limit:.15g})"] = values
    if y is not None:
        gaps = np.isnan(y)
        log_p = p.logpdf(np.where(gaps, columns["median"], y))
        columns["log_density"] = np.where(gaps, np.nan, log_p)
    return columns


def _shortened(columns: dict[str, Column], digits: int) -> dict[str, Column]:
    """Columns of `summaries` in so many digits, locations in as many as tell apart."""
    spread = columns["std"]
    located = ("mean", "median", "mode", "q", "low", "high")
    return {
        name: values
        if values.dtype.kind != "f"
        else significant(values, digits, spread if name.startswith(located) else np.inf)
        for name, values in columns.items()
    }


def _in_rows(values: Column, rows: Any, n: int) -> Column:
    """Values in their rows, and nothing in the others, (n,)."""
    if len(values) == n:
        return values
    empty: Column = np.full(n, np.nan if values.dtype.kind == "f" else "", values.dtype)
    empty[rows] = values
    return empty


@command(
    "sample",
    "kexpfam sample houses.kexpfam new.csv -n 100 -o draws.csv",
    "kexpfam sample houses.kexpfam new.csv -n 5 --seed 1 | head",
)
@model_argument
@optional_data_argument
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
@digits_option
@row_options
def sample_command(
    model: str,
    data: str | None,
    draws: int,
    seed: int,
    output: str,
    digits: int,
    force: bool,
    quiet: bool,
    **gaps: Any,
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
        drawn = found.model.sample(draws, random_state=seed)
        columns = dict(zip(found.names(), drawn.T, strict=True))
    elif data is None:
        raise click.UsageError("Missing argument 'DATA': draws are made for its rows.")
    else:
        columns = _draws(found, read_table(data, found.wanted()), draws, seed, gaps)
    if not output.endswith(".parquet"):
        columns = {name: _column(values, digits) for name, values in columns.items()}
    write_columns(output, columns)
    if output != STANDARD_OUTPUT and not quiet:
        count = counted(len(next(iter(columns.values()))), "draw")
        click.echo(f"{count} written to {output}")


def _column(values: Column, digits: int) -> Column:
    """Draws in so many digits; those of one column are told apart by its spread."""
    if values.dtype.kind != "f":
        return values
    return significant(values, digits, float(np.std(values)))


def _draws(
    found: TableModel, table: Table, draws: int, seed: int, gaps: dict[str, Any]
) -> dict[str, Column]:
    found.require_one_target()
    coded = found.coder_for(table).complete(table, marked=True, **gaps)
    if len(coded.rows) < len(table):
        left_out = counted(len(table) - len(coded.rows), "row")
        note(f"no draws are made for {left_out} with missing values.")
    return {
        "row": np.repeat(coded.rows + 1, draws),
        "draw": np.tile(np.arange(1, draws + 1), len(coded.rows)),
        "value": found.model.sample(coded.X, draws, random_state=seed).ravel(),
    }
