"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kexpfam.cli.guard import QUIET

Function = TypeVar("Function", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    r"""The end of a command's help.

    Example:
        >>> examples("kexpfam demo")
        '\x08\nExamples:\n  kexpfam demo'
    """
    # The first line, a backspace, tells click to keep the lines as they are.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def complete_columns(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the columns of the file that stands on the line already.

    Where several may be given as A,B the last of them is completed.
    """
    from kexpfam.cli.delimited import column_names

    # Where an option has no value yet, click leaves the arguments as they are.
    words = [ctx.params.get("data"), ctx.params.get("source"), *ctx.args]
    files = [Path(w) for w in words if w and not str(w).endswith(".kexpfam")]
    names = next((column_names(path) for path in files if path.is_file()), [])
    whole = [name for name in names if name.startswith(incomplete)]
    if whole or param.name != "features":
        return [CompletionItem(name) for name in whole]
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}")
        for name in names
        if name.startswith(last) and name not in taken
    ]


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value:
        ctx.meta[QUIET] = True
    return value


data_argument = click.argument("data", type=click.Path())
model_argument = click.argument("model", type=click.Path())
force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, callback=_be_quiet, help="No summary and no notes."
)
table_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True),
    default="-",
    help="A .csv, .tsv or .parquet file; - for standard output, the default.",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of all that is random."
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["drop", "impute"]),
    help="Leave rows with missing values out, or put in medians and most frequent "
    "categories.",
)
unknown_option = click.option(
    "--unknown",
    type=click.Choice(["error", "ignore"]),
    default="error",
    show_default=True,
    help="What to do about a category that was not seen at the fit.",
)


def table_options(function: Function) -> Function:
    """How a table is seen by a model that is to be fitted."""
    for option in (
        click.option(
            "--model",
            "kind",
            type=click.Choice(["auto", "kcef"]),
            default="auto",
            show_default=True,
            help="An average of many densities, or the best single one.",
        ),
        missing_option,
        click.option(
            "--weights",
            shell_complete=complete_columns,
            help="Column with the weight of each row.",
        ),
        click.option(
            "--categorical",
            multiple=True,
            shell_complete=complete_columns,
            help="A column of categories, even if they are numbers. May be repeated.",
        ),
        click.option(
            "--features",
            multiple=True,
            shell_complete=complete_columns,
            help="Columns that the target may depend on, as A,B or repeated; all "
            "others if it is not given.",
        ),
        click.option(
            "--target",
            shell_complete=complete_columns,
            help="The column to explain, a number.",
        ),
    ):
        function = option(function)
    return function
