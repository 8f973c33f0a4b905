"""`kexpfam evaluate`: how good a model is on rows that it has not seen."""

from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

import click
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

from kexpfam._progress import Progress, ProgressBar
from kexpfam._typing import Array
from kexpfam.cli.fit import (
    TOLD_TO_THE_MODEL,
    new_model,
    require_target,
    table_options,
    training_table,
    wanted_columns,
)
from kexpfam.cli.model_files import (
    TableModel,
    TableRows,
    held_out_rows,
    load_table_model,
)
from kexpfam.cli.output import PICTURES, check_output, print_json, write_picture
from kexpfam.cli.readers import read_table
from kexpfam.cli.shared import (
    command,
    counted,
    force_option,
    is_watched,
    json_option,
    quiet_option,
    say,
    seed_option,
    shows_progress,
    stopping_at_once,
    unknown_option,
)
from kexpfam.metrics import Estimate, Evaluation, cross_evaluate, evaluate
from kexpfam.metrics.evaluation import FEWEST_TESTED, heading
from kexpfam.metrics.observations import estimate
from kexpfam.tables import Coding, Table, TableError

Item = TypeVar("Item")


@command(
    "evaluate",
    "kexpfam evaluate houses.kexpfam new_houses.csv",
    "kexpfam evaluate houses.csv --target price --cv 5 --plot calibration.png",
)
@click.argument("source", metavar="MODEL|DATA", type=click.Path())
@click.argument("held_out", metavar="[HELD_OUT]", type=click.Path(), required=False)
@click.option(
    "--cv",
    type=click.IntRange(min=2),
    help="Folds of a cross-validation, with a fresh fit for each.",
)
@table_options
@unknown_option
@seed_option
@click.option("--plot", type=click.Path(), help="Picture of the calibration.")
@force_option
@json_option
@quiet_option
def evaluate_command(
    source: str,
    held_out: str | None,
    cv: int | None,
    kind: str,
    unknown: Any,
    seed: int,
    plot: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **columns: Any,
) -> None:
    """Score predicted distributions by what was observed.

    Either a MODEL on a file of HELD_OUT rows that it was not fitted to, or, with --cv,
    a fresh fit of a table DATA by cross-validation.

    Log loss and CRPS are better if lower. Coverage is the share of rows in their
    intervals, and should be what the intervals promise. A small p of the PIT says that
    the distributions are not calibrated.
    """
    if plot is not None:
        check_output(plot, force, PICTURES)
    if cv is None and held_out is None:
        raise click.UsageError(
            "Give a model and a table that it has not seen, or a table with --target "
            "and --cv."
        )
    if cv is not None and held_out is not None:
        raise click.UsageError("--cv is for one table; there is no HELD_OUT then.")
    if cv is not None:
        require_target(columns["target"])
        law = {name: columns.pop(name) for name in TOLD_TO_THE_MODEL}
        rows = training_table(read_table(source, wanted_columns(columns)), **columns)
        result = _by_folds(rows, cv, new_model(kind, seed, **law), seed)
    else:
        assert held_out is not None
        _refuse_options_of_a_fit()
        found, target = load_table_model(source), columns["target"]
        weights, missing = columns["weights"], columns["missing"]
        _refuse_other_target(found, target)
        if found.is_joint:
            _refuse_for_joint(found, weights=weights, plot=plot)
            _joint(found, read_table(held_out), missing, as_json)
            return
        found.require_one_target()
        gaps = {"missing": missing, "unknown": unknown}
        table = read_table(held_out, found.wanted(target, weights))
        rows = held_out_rows(found, table, target, weights, marked=True, **gaps)
        result = _on_held_out(found, rows)
    if plot is not None:
        write_picture(plot, lambda: np.ravel(result.plot())[0].figure)
    if as_json:
        print_json(evaluation_numbers(result))
        return
    say(str(result))
    if plot is not None and not quiet:
        say(f"The picture is in {plot}")


def _refuse_options_of_a_fit() -> None:
    """Refuse what a model that is fitted would not follow."""
    ctx = click.get_current_context()
    told = ("features", "categorical", "ordered", "exclude", "kind", "seed")
    for name in (*told, *TOLD_TO_THE_MODEL):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = "--model" if name == "kind" else f"--{name}"
            raise click.UsageError(
                f"{option} is for a table with --cv, which is fitted anew; a model "
                f"keeps what it was fitted with: leave {option} out."
            )


def _refuse_other_target(found: TableModel, target: str | None) -> None:
    if target is None or found.coder is None or target == found.coder.target:
        return
    known = found.coder.target
    about = "a joint density, without a target" if known is None else f"about {known!r}"
    raise click.UsageError(
        f"--target {target}: {found.path} is {about}; leave --target out, or evaluate "
        f"a fit of {target!r} to a table with --cv."
    )


def _refuse_for_joint(found: TableModel, **given: str | None) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} is not for {found.path}, which is a joint density: its log "
                f"loss is all there is; leave --{name} out."
            )


def _by_folds(rows: TableRows, cv: int, model: Any, seed: int) -> Evaluation:
    assert rows.y is not None
    rows.tell()
    if cv > len(rows.X):
        raise TableError(f"--cv {cv} is more than {counted(len(rows.X), 'row')}.")
    model.set_params(verbose=False)  # the bar is that of the folds
    assert rows.table is not None
    folds = KFold(cv, shuffle=True, random_state=seed).split(rows.X)
    fresh = CodedFit(model, rows.coder)
    with (
        ProgressBar("cross-validation", shown=shows_progress()) as bar,
        stopping_at_once(),
    ):
        told, w = _told(folds, cv, bar), rows.weights
        return cross_evaluate(fresh, rows.table, rows.y, told, sample_weight=w)  # type: ignore[arg-type]  # rows of a table


class CodedFit(BaseEstimator):
    """A fit of tables that are coded as another, with means of y of their own."""

    def __init__(self, model: Any, coding: Coding) -> None:
        self.model = model
        self.coding = coding

    def fit(self, table: Table, y: Array, sample_weight: Array | None = None) -> Self:
        """Fit to the rows of a table."""
        Y = np.reshape(y, (len(table), 1))
        self.coding_ = self.coding.with_means_of(table, Y, sample_weight)
        X = self.coding_.training(table, Y, sample_weight)
        fresh = clone(self.model)
        fresh._told_kinds = self.coding_.kinds
        self.model_ = fresh.fit(X, y, sample_weight=sample_weight)
        return self

    def given(self, table: Table) -> Any:
        """Densities at the rows of a table."""
        return self.model_.given(self.coding_.transform(table, missing="impute").X)


def _told(items: Iterable[Item], total: int, tell: Progress | None) -> Iterator[Item]:
    """The items; tells how many of them are done with."""
    for done, item in enumerate(items, start=1):
        yield item
        if tell is not None:
            tell(done, total)


def _both(value: Estimate) -> dict[str, float]:
    return {"value": value.value, "standard_error": value.standard_error}


def evaluation_numbers(result: Evaluation) -> dict[str, Any]:
    """An evaluation for machines."""
    rows = len(result.pit)
    coverages = zip(
        result.confidence, result.coverage, result.hpd_coverage, strict=True
    )
    return {
        "rows": rows,
        "log_loss": _both(result.log_loss),
        "crps": _both(result.crps),
        "cde_loss": _both(result.cde_loss),
        "interval_score_90": _both(result.interval_score),
        "coverage": [
            {"nominal": level, "central": _both(central), "highest_density": _both(hpd)}
            for level, central, hpd in coverages
        ],
        "pit": {
            "distance": result.pit_uniformity.statistic,
            # a test of fewer rows could find next to nothing
            "p_value": result.pit_uniformity.pvalue if rows >= FEWEST_TESTED else None,
        },
    }


def _on_held_out(found: TableModel, rows: TableRows) -> Evaluation:
    assert rows.y is not None
    with ProgressBar("evaluating", shown=is_watched()) as bar:
        model = Counted(found.model, len(rows.X), bar)
        return evaluate(model, rows.X, rows.y, sample_weight=rows.weights)


class Counted:
    """A model that tells how many of some rows it has been asked about."""

    def __init__(self, model: Any, rows: int, tell: Progress | None) -> None:
        self._model, self._rows, self._tell = model, rows, tell
        self._done = 0

    def given(self, X: Array) -> Any:
        """Densities at some rows."""
        self._done += len(X)
        if self._tell is not None:
            self._tell(self._done, self._rows)
        return self._model.given(X)


def _joint(found: TableModel, table: Table, missing: Any, as_json: bool) -> None:
    coded = found.coder_for(table).complete(table, missing=missing)
    losses = -found.model.score_samples(coded.X)
    mean = estimate(losses, None)
    if as_json:
        print_json({"rows": len(losses), "log_loss": _both(mean)})
    else:
        say(heading(len(losses)))
        say(f"  {'joint log loss':20} {mean}")
