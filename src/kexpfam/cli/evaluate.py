"""`kexpfam evaluate`: how good a model is on rows that it has not seen."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import click
import numpy as np
from sklearn.model_selection import KFold

from kexpfam._progress import Progress, ProgressBar
from kexpfam._typing import Array
from kexpfam.cli.fitting import (
    TrainingTable,
    new_model,
    require_target,
    tell_of_rows_left_out,
    training_table,
)
from kexpfam.cli.guard import is_watched, stopping_at_once
from kexpfam.cli.held_out import held_out_rows
from kexpfam.cli.model_files import TableModel, load_table_model
from kexpfam.cli.options import (
    examples,
    force_option,
    json_option,
    quiet_option,
    seed_option,
    table_options,
    unknown_option,
)
from kexpfam.cli.output import PICTURES, check_output, print_json, write_picture
from kexpfam.cli.tables import TableError, read_table
from kexpfam.metrics import Estimate, Evaluation, cross_evaluate
from kexpfam.metrics import evaluate as evaluate_model
from kexpfam.metrics.evaluation import FEWEST_TESTED, heading
from kexpfam.metrics.observations import estimate

Item = TypeVar("Item")

# Options that say how to fit, by the names of their parameters.
_OF_A_FIT = {
    "features": "--features",
    "categorical": "--categorical",
    "kind": "--model",
    "seed": "--seed",
}


@click.command(
    epilog=examples(
        "kexpfam evaluate houses.kexpfam new_houses.csv",
        "kexpfam evaluate houses.csv --target price --cv 5 --plot calibration.png",
    )
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
@click.pass_context
def evaluate(
    ctx: click.Context,
    source: str,
    held_out: str | None,
    cv: int | None,
    target: str | None,
    features: tuple[str, ...],
    categorical: tuple[str, ...],
    weights: str | None,
    missing: str | None,
    kind: str,
    unknown: Any,
    seed: int,
    plot: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Judge predicted distributions by what was observed.

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
        require_target(target)
        rows = training_table(
            read_table(source),
            target=target,
            features=features,
            categorical=categorical,
            weights=weights,
            missing=missing,
        )
        result = _by_folds(rows, cv, new_model(kind, seed), seed)
    else:
        assert held_out is not None
        _refuse_for_models(ctx)
        found = load_table_model(source)
        _refuse_other_target(found, target)
        if found.is_joint:
            _refuse_for_joint(found, weights=weights, plot=plot)
            _joint(found, held_out, missing, as_json)
            return
        result = _on_held_out(found, held_out, target, weights, missing, unknown)
    if plot is not None:
        write_picture(plot, lambda: _calibration(result))
    if as_json:
        print_json(as_numbers(result))
        return
    click.echo(str(result))
    if plot is not None and not quiet:
        click.echo(f"The picture is in {plot}")


def _refuse_for_models(ctx: click.Context) -> None:
    """Refuse options of a fit: a model that is fitted would not follow them."""
    for name, option in _OF_A_FIT.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{option} is for a table with --cv, which is fitted anew; a model "
                f"keeps what it was fitted with: leave {option} out."
            )


def _refuse_other_target(found: TableModel, target: str | None) -> None:
    if target is None or found.coding is None or target == found.coding.target:
        return
    known = found.coding.target
    about = "a joint density, without a target" if known is None else f"about {known!r}"
    raise click.UsageError(
        f"--target {target}: {found.path} is {about}; leave --target out, or judge a "
        f"fit of {target!r} to a table with --cv."
    )


def _refuse_for_joint(found: TableModel, **given: str | None) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} is not for {found.path}, which is a joint density: its log "
                f"loss is all there is; leave --{name} out."
            )


def _by_folds(rows: TrainingTable, cv: int, model: Any, seed: int) -> Evaluation:
    assert rows.y is not None
    tell_of_rows_left_out(rows)
    if cv > len(rows.X):
        raise TableError(f"--cv {cv} is more than the {len(rows.X)} rows.")
    model.set_params(verbose=False)  # the bar is that of the folds
    folds = KFold(cv, shuffle=True, random_state=seed).split(rows.X)
    with ProgressBar("cross-validation", shown=is_watched()) as bar, stopping_at_once():
        told = _told(folds, cv, bar)
        return cross_evaluate(model, rows.X, rows.y, told, sample_weight=rows.weights)


def _told(items: Iterable[Item], total: int, tell: Progress | None) -> Iterator[Item]:
    """The items; tells how many of them are done with."""
    for done, item in enumerate(items, start=1):
        yield item
        if tell is not None:
            tell(done, total)


def as_numbers(result: Evaluation) -> dict[str, Any]:
    """An evaluation for machines."""

    def both(value: Estimate) -> dict[str, float]:
        return {"value": value.value, "standard_error": value.standard_error}

    rows = len(result.pit)
    coverages = zip(
        result.confidence, result.coverage, result.hpd_coverage, strict=True
    )
    return {
        "rows": rows,
        "log_loss": both(result.log_loss),
        "crps": both(result.crps),
        "cde_loss": both(result.cde_loss),
        "interval_score_90": both(result.interval_score),
        "coverage": [
            {"nominal": level, "central": both(central), "highest_density": both(hpd)}
            for level, central, hpd in coverages
        ],
        "pit": {
            "distance": result.pit_uniformity.statistic,
            # a test of fewer rows could find next to nothing
            "p_value": result.pit_uniformity.pvalue if rows >= FEWEST_TESTED else None,
        },
    }


def _on_held_out(
    found: TableModel,
    held_out: str,
    target: str | None,
    weights: str | None,
    missing: Any,
    unknown: Any,
) -> Evaluation:
    found.require_one_target()
    rows = held_out_rows(found, read_table(held_out), target, weights, missing, unknown)
    with ProgressBar("evaluating", shown=is_watched()) as bar:
        model = Counted(found.model, len(rows.X), bar)
        return evaluate_model(model, rows.X, rows.y, sample_weight=rows.weights)


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


def _joint(found: TableModel, held_out: str, missing: Any, as_json: bool) -> None:
    table = read_table(held_out)
    coded = found.coding_for(table).matrix(table, missing=missing)
    if not len(coded.rows):
        raise TableError(f"{table.path} has no complete row.")
    losses = -found.model.score_samples(coded.X)
    mean = estimate(losses, None)
    if as_json:
        loss = {"value": mean.value, "standard_error": mean.standard_error}
        print_json({"rows": len(losses), "log_loss": loss})
    else:
        click.echo(heading(len(losses)))
        click.echo(f"  {'joint log loss':20} {mean}")


def _calibration(result: Evaluation) -> Any:
    return np.ravel(result.plot())[0].figure
