"""`kexpfam predict`: numbers that describe p(y|x), one line for each row."""

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam.cli.guard import is_watched, note
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.options import (
    data_argument,
    examples,
    force_option,
    missing_option,
    model_argument,
    quiet_option,
    table_output_option,
    unknown_option,
)
from kexpfam.cli.output import STANDARD_OUTPUT, TABLES, check_output, write_columns
from kexpfam.cli.tables import Column, Table, TableError, read_table
from kexpfam.models.estimator import in_blocks


@dataclass(frozen=True)
class Wanted:
    """What is asked of each density.

    Attributes:
        quantiles: Levels.
        intervals: Probabilities of central intervals.
        regions: Probabilities of highest-density regions.
    """

    quantiles: tuple[float, ...]
    intervals: tuple[float, ...]
    regions: tuple[float, ...]


def read_levels(
    ctx: click.Context, param: click.Parameter, value: str
) -> tuple[float, ...]:
    """Probabilities strictly between 0 and 1, from a text with commas."""
    try:
        levels = tuple(float(text) for text in value.split(",") if text.strip())
    except ValueError:
        raise click.BadParameter(
            f"{value!r} are not numbers separated by commas."
        ) from None
    if not all(0.0 < level < 1.0 for level in levels):
        raise click.BadParameter(f"{value!r} must lie between 0 and 1.")
    return levels


@click.command(
    epilog=examples(
        "kexpfam predict houses.kexpfam new.csv -o predictions.csv",
        "kexpfam predict houses.kexpfam new.csv --quantiles 0.1,0.9 | head",
        "kexpfam predict houses.kexpfam new.csv --hpd 0.9 -o out.parquet",
    )
)
@model_argument
@data_argument
@table_output_option
@click.option(
    "--quantiles",
    callback=read_levels,
    default="0.05,0.5,0.95",
    show_default=True,
    help="Levels of the columns q05, q50, ...",
)
@click.option(
    "--interval",
    callback=read_levels,
    default="",
    help="Intervals with as much probability below as above, as 0.9 or 0.5,0.9.",
)
@click.option(
    "--hpd",
    callback=read_levels,
    default="",
    help="The smallest sets with a probability; one or more intervals, as a text.",
)
@click.option(
    "--density", is_flag=True, help="Log density of the target, which DATA then has."
)
@click.option("--with-data", is_flag=True, help="The columns of DATA come first.")
@missing_option
@unknown_option
@force_option
@quiet_option
def predict(
    model: str,
    data: str,
    output: str,
    quantiles: tuple[float, ...],
    interval: tuple[float, ...],
    hpd: tuple[float, ...],
    density: bool,
    with_data: bool,
    missing: Any,
    unknown: Any,
    force: bool,
    quiet: bool,
) -> None:
    """Describe the distribution of the target for each row of DATA.

    The result has one line for each row, in their order: mean, median, sd, mode, and
    quantiles. Lines of rows with missing values are empty, unless these are imputed.
    """
    check_output(output, force, TABLES)
    found = load_table_model(model)
    found.require_one_target()
    table = read_table(data)
    coding = found.coding_for(table)
    coded = coding.matrix(table, missing=missing, unknown=unknown)
    if not len(coded.rows):
        raise TableError(f"{data} has no complete row.")
    wanted = Wanted(quantiles, interval, hpd)
    y = _responses(table, coding.target, coded.rows) if density else None
    with ProgressBar("predicting", shown=is_watched()) as bar:
        blocks = in_blocks(
            found.model.given,
            coded.X,
            lambda p, rows: described(p, wanted, None if y is None else y[rows]),
            n_jobs=getattr(found.model, "n_jobs", None),
            progress=bar,
        )
    columns: dict[str, Column] = {}
    if with_data:
        columns |= dict(zip(table.names, table.columns, strict=True))
    for name in blocks[0]:
        key = f"predicted_{name}" if name in columns else name
        values = np.concatenate([block[name] for block in blocks])
        columns[key] = _spread(values, coded.rows, len(table))
    write_columns(output, columns)
    if len(coded.rows) < len(table):
        empty = len(table) - len(coded.rows)
        note(f"{empty} rows with missing values have empty lines.")
    if output != STANDARD_OUTPUT and not quiet:
        click.echo(f"{len(table)} rows written to {output}")


def described(p: Any, wanted: Wanted, y: Array | None = None) -> dict[str, Column]:
    """Columns that describe n densities.

    Args:
        p: The densities.
        wanted: What of them.
        y: Responses whose log density is wanted, (n,); NaN for none.
    """
    columns: dict[str, Column] = {
        "mean": p.mean(),
        "median": p.median(),
        "sd": p.std(),
        "mode": p.mode(),
    }
    if wanted.quantiles:
        found = p.ppf(np.array(wanted.quantiles)[None, :])
        for level, values in zip(wanted.quantiles, found.T, strict=True):
            columns[f"q{percent(level)}"] = values
    for level in wanted.intervals:
        low, high = p.interval(level).T
        columns |= {f"low{percent(level)}": low, f"high{percent(level)}": high}
    for level in wanted.regions:
        texts = [" or ".join(f"{a:.6g} to {b:.6g}" for a, b in r) for r in p.hpd(level)]
        columns[f"hpd{percent(level)}"] = np.array(texts, dtype=object)
    if y is not None:
        gaps = np.isnan(y)
        log_p = p.logpdf(np.where(gaps, columns["median"], y))
        columns["log_density"] = np.where(gaps, np.nan, log_p)
    return columns


def percent(level: float) -> str:
    """A probability in a name.

    Example:
        >>> percent(0.05), percent(0.5), percent(0.975), percent(0.025)
        ('05', '50', '97.5', '02.5')
    """
    whole, point, rest = f"{100 * level:.6g}".partition(".")
    return f"{whole:0>2}{point}{rest}"


def _responses(table: Table, target: str | None, rows: Any) -> Array:
    if target is None:
        raise TableError("--density needs the name of the target, which is not known.")
    return table.numbers(target)[rows]


def _spread(values: Column, rows: Any, n: int) -> Column:
    """Values in their rows, and nothing in the others, (n,)."""
    if len(values) == n:
        return values
    empty: Column = np.full(n, np.nan if values.dtype.kind == "f" else "", values.dtype)
    empty[rows] = values
    return empty
