"""`kexpfam explore`: a local page with sliders, or a report in one file."""

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from kexpfam.cli.model_files import TableModel, load_table_model
from kexpfam.cli.output import OutputError, check_output
from kexpfam.cli.readers import read_table
from kexpfam.cli.shared import command, counted, model_argument, note, row_options
from kexpfam.explorer import (
    ConditionalView,
    ExplorerServer,
    JointSubject,
    JointView,
    Subject,
    controls_of,
    remembered_rows,
    report,
)
from kexpfam.persistence import replacing
from kexpfam.tables import Coding, NumberFeature, Table, TableError


@command(
    "explore",
    "kexpfam explore houses.kexpfam --data houses.csv",
    "kexpfam explore houses.kexpfam --data new.csv --export report.html",
)
@model_argument
@click.option(
    "--data",
    type=click.Path(),
    help="Rows to compare with; ranges of the sliders are theirs.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen; any port that is free by default.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--export",
    type=click.Path(),
    help="Write a report with the main pictures instead, one .html file.",
)
@row_options
def explore_command(
    model: str,
    data: str | None,
    port: int,
    no_browser: bool,
    export: str | None,
    force: bool,
    quiet: bool,
    **gaps: Any,
) -> None:
    """Open a page where p(target | features) follows sliders.

    The page is served by this program, to this computer only, under an address that
    holds a secret; it asks nobody else for anything. Ctrl-C ends it.
    """
    if export is not None:
        check_output(export, force, (".html", ".htm"))
    found = load_table_model(model)
    table = None if data is None else read_table(data)
    view = view_of(found, table, **gaps)
    if export is not None:
        with replacing(export) as temporary:
            Path(temporary).write_text(report(view), encoding="utf-8")
        if not quiet:
            click.echo(f"The report is in {export}")
        return
    _serve(view, port, no_browser, quiet)


def _serve(
    view: ConditionalView | JointView, port: int, no_browser: bool, quiet: bool
) -> None:
    try:
        server = ExplorerServer(view, port)
    except OSError as error:
        raise OutputError(
            f"Port {port} of this computer cannot be used ({error.strerror}); choose "
            f"another with --port, or leave it out."
        ) from error
    with server:
        click.echo(f"The page is at {server.address}")
        if not quiet:
            click.echo("Ctrl-C ends it.", err=True)
        if not no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo(err=True)


def view_of(
    found: TableModel, table: Table | None, **gaps: Any
) -> ConditionalView | JointView:
    """What the page shows of a model and a table; `gaps` as in `transform`."""
    if found.is_joint:
        return JointView(_joint_subject(found, table, gaps.get("missing")))
    found.require_one_target()
    return ConditionalView(subject_of(found, table, gaps))


def subject_of(
    found: TableModel, table: Table | None, gaps: Mapping[str, Any]
) -> Subject:
    """A model and a table, or the rows that the model remembers, with controls."""
    title = Path(found.path).name
    if table is None:
        X, coder = remembered_rows(found.model), found.coder
        if X is None:
            raise TableError(
                "This model does not remember the range of its features; say --data."
            )
        if coder is None:
            names = found.names("x")
            plain = [NumberFeature(name, 0.0, 0.0, 1.0) for name in names]
            coder = Coding(tuple(plain), None)
        none = np.empty((0, X.shape[1])), np.empty(0), np.empty(0, dtype=int)
        controls = controls_of(coder, X)
        return Subject(found.model, controls, coder.target or "y", title, *none)
    coder = _coder(found, table)
    coded = coder.transform(table, **gaps)
    kept = coder.known(coded.X)
    X, rows = coded.X[kept], coded.rows[kept]
    if not len(rows):
        raise TableError(f"{table.path} has no complete row.")
    if len(rows) < len(table):
        left_out = counted(len(table) - len(rows), "row")
        note(f"left out {left_out} with missing or unknown values.")
    y = np.full(len(table), np.nan)
    if coder.target in table.names:
        y = table.numbers(str(coder.target))
    return Subject(
        found.model,
        controls_of(coder, X),
        coder.target or "y",
        title,
        X,
        y[rows],
        rows + 1,
        Path(table.path).name,
    )


def _coder(found: TableModel, table: Table) -> Coding:
    """The coder; without one, a column that is no feature must be the target."""
    names = getattr(found.model, "feature_names_in_", None)
    if found.coder is not None:
        return found.coder
    if names is None and len(table.names) == found.model.n_features_in_ + 1:
        return found.coder_for(table, table.names[-1])
    others = [n for n in table.names if names is not None and n not in names]
    return found.coder_for(table, others[0] if len(others) == 1 else None)


def _joint_subject(
    found: TableModel, table: Table | None, missing: Any
) -> JointSubject:
    model, title = found.model, Path(found.path).name
    if not hasattr(model, "graph_"):
        raise TableError(
            f"{found.path} is a density without conditions, and the page needs some, "
            f"or a graph of columns."
        )
    if table is None:
        none = np.empty((0, model.n_features_in_))
        return JointSubject(model, tuple(found.names()), title, none)
    if (columns := getattr(model, "_columns", None)) is not None:
        rows = columns.rows(table)
        kept = ~np.isnan(rows).any(axis=1)
        if not kept.any():
            raise TableError(f"{table.path} has no complete row.")
        if not kept.all():
            note(f"left out {counted(int((~kept).sum()), 'row')} with missing values.")
        source = Path(table.path).name
        return JointSubject(model, columns.names, title, rows[kept], source)
    coder = found.coder_for(table)
    X, source = coder.complete(table, missing=missing).X, Path(table.path).name
    return JointSubject(model, tuple(coder.columns), title, X, source)
