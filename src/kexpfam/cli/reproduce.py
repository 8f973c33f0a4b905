"""`kexpfam reproduce`: measure the tables and figures of the paper again."""

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kexpfam.errors import KexpfamError
from kexpfam.experiments import suites
from kexpfam.experiments.ledger import outcomes
from kexpfam.experiments.progress import Pace, clock
from kexpfam.experiments.report import length, parts, refresh_page, report
from kexpfam.experiments.runner import Outcome, ledger_of
from kexpfam.experiments.runner import run as run_tasks
from kexpfam.experiments.suites import Choice

_INTERRUPTED = 130  # what shells say of a program that Ctrl-C ended


def _splits(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> range | None:
    """A:B is splits A to B - 1; either may be left out."""
    if value is None:
        return None
    first, colon, last = value.partition(":")
    try:
        chosen = range(int(first or 0), int(last) if last else sys.maxsize)
    except ValueError:
        chosen = range(0)
    if not colon or not chosen or chosen.start < 0:
        raise click.BadParameter(
            f"{value!r} is not a range of splits; 0:5 means the first five."
        )
    return chosen


def _folder(folder: Path | None, *, quick: bool) -> Path:
    return folder or Path("reproduction-quick" if quick else "reproduction")


_QUICK = click.option(
    "--quick", is_flag=True, help="A few small tasks of each suite, in minutes."
)
_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where results are.  [default: reproduction, quick: reproduction-quick]",
)
_SUITES = click.argument("names", metavar="[SUITE]...", nargs=-1)


def _running(command: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that run tasks."""
    for option in (
        click.option("--retry", is_flag=True, help="Run again what failed."),
        click.option(
            "--splits",
            metavar="A:B",
            callback=_splits,
            help="Splits A to B - 1 only, such as 0:5.",
        ),
        click.option(
            "--jobs", type=click.IntRange(min=1), help="Processes.  [default: cores]"
        ),
        _FOLDER,
        _QUICK,
    ):
        command = option(command)
    return command


class _Commands(click.Group):
    """Shows errors that say what to do as a sentence, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # such as `| head`, which click ends quietly
            raise
        except (KexpfamError, OSError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, invoke_without_command=True)
@_running
@click.pass_context
def reproduce(
    ctx: click.Context,
    quick: bool,
    folder: Path | None,
    jobs: int | None,
    splits: range | None,
    retry: bool,
) -> None:
    """Measure every table and figure of the paper again.

    Without a command, runs all suites and writes a report. A run that was stopped goes
    on where it stood when it is started again.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_misplaced(ctx)
        return
    folder = _folder(folder, quick=quick)
    choices = _choose(suites.NAMES, quick=quick, splits=splits)
    outcome = _carry_out(choices, folder, jobs=jobs, retry=retry)
    page = folder / "report.md"
    page.write_text(report(folder, suites.NAMES), encoding="utf-8")
    click.echo(f"The report is {page}.")
    _finish(outcome)


def _refuse_misplaced(ctx: click.Context) -> None:
    for name in ctx.params:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{name} must stand after '{ctx.invoked_subcommand}'."
            )


@reproduce.command()
@_SUITES
@_running
@click.option("--methods", multiple=True, metavar="NAME", help="Only this; repeatable.")
@click.option("--cases", multiple=True, metavar="NAME", help="Only this; repeatable.")
def run(
    names: tuple[str, ...],
    quick: bool,
    folder: Path | None,
    jobs: int | None,
    splits: range | None,
    retry: bool,
    methods: tuple[str, ...],
    cases: tuple[str, ...],
) -> None:
    """Run the tasks of suites, or some of them.

    SUITE is table1, table2, table3, figure1, failure or rates; without one,
    all are run. A dotted name is a module with a SUITE of your own.
    """
    choices = _choose(
        names or suites.NAMES, quick=quick, splits=splits, methods=methods, cases=cases
    )
    folder = _folder(folder, quick=quick)
    _finish(_carry_out(choices, folder, jobs=jobs, retry=retry))


def _choose(
    names: Sequence[str],
    *,
    quick: bool,
    splits: range | None,
    methods: Sequence[str] = (),
    cases: Sequence[str] = (),
) -> list[Choice]:
    """Chosen tasks; a choice of nothing is an error."""
    try:
        every = [suites.choose(name, quick=quick) for name in dict.fromkeys(names)]
        choices = [
            suites.choose(
                name, quick=quick, splits=splits, methods=methods, cases=cases
            )
            for name in dict.fromkeys(names)
        ]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    tasks = [task for choice in every for task in choice.tasks]
    _check_known("--methods", methods, {task.method for task in tasks})
    _check_known("--cases", cases, {task.case for task in tasks})
    if not any(choice.tasks for choice in choices):
        raise click.UsageError("no task has this suite, split, method and case.")
    return choices


def _check_known(option: str, given: Sequence[str], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise click.UsageError(
                f"{option} {name!r} is not known; use one of "
                f"{', '.join(sorted(known))}."
            )


def _carry_out(
    choices: Sequence[Choice], folder: Path, *, jobs: int | None, retry: bool
) -> Outcome:
    if missing := suites.missing_libraries(choices):
        raise click.ClickException(
            f"{' and '.join(missing)} must be installed for these tasks; "
            f"use '{suites.how_to_install(missing)}'."
        )
    try:
        return run_tasks(choices, folder, jobs=jobs, retry=retry, stream=sys.stderr)
    except KeyboardInterrupt:
        click.echo(
            f"Stopped. What is finished stays in {folder}; the same command goes on.",
            err=True,
        )
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _finish(outcome: Outcome) -> None:
    """Say what came of it; failures are an error."""
    total, failed = len(outcome.records), len(outcome.failures)
    if not failed:
        click.echo(f"{total} tasks are done, {outcome.ran} of them now.")
    else:
        first = outcome.failures[0]
        click.echo(
            f"{total - failed} of {total} tasks are done, {failed} failed; "
            f"{outcome.ran} were run now."
        )
        # Most errors are sentences that have their full stop.
        error = str(first.error).rstrip(".")
        raise click.ClickException(
            f"{failed} of {total} tasks failed, first "
            f"{first.task.key}: {error}. Use --retry to run them again."
        )


@reproduce.command("report")
@_SUITES
@_QUICK
@_FOLDER
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A page with markers to refresh, instead of <folder>/report.md.",
)
def report_command(
    names: tuple[str, ...], quick: bool, folder: Path | None, page: Path | None
) -> None:
    """Make tables and pictures of results; nothing is run."""
    folder = _folder(folder, quick=quick)
    choices = _choose(names or suites.NAMES, quick=quick, splits=None)
    found = [
        choice.name
        for choice in choices
        if ledger_of(folder, choice.suite.name).path.is_file()
    ]
    if not found:
        raise click.ClickException(
            f"there are no results in {folder}; run 'kexpfam reproduce run' first."
        )
    if page is None:
        page = folder / "report.md"
        page.write_text(report(folder, found), encoding="utf-8")
    else:
        content = parts(folder, found) | {"length": length(folder, found)}
        try:
            refresh_page(page, folder, content)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    click.echo(f"The report is {page}.")


@dataclass(frozen=True)
class _Status:
    """How far a suite is; seconds are of one core, None if nothing is known."""

    suite: str
    done: int
    failed: int
    tasks: int
    seconds_left: float | None


def _status(choice: Choice, folder: Path) -> _Status:
    found = outcomes(ledger_of(folder, choice.suite.name).records())
    errors = [found[task.key].error for task in choice.tasks if task.key in found]
    failed = sum(error is not None for error in errors)
    left = [task for task in choice.tasks if task.key not in found]
    return _Status(
        choice.suite.name,
        len(errors) - failed,
        failed,
        len(choice.tasks),
        Pace(found.values()).left(left) if left else 0.0,
    )


@reproduce.command()
@_SUITES
@_QUICK
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def status(
    names: tuple[str, ...], quick: bool, folder: Path | None, as_json: bool
) -> None:
    """Say how far each suite is; nothing is run."""
    folder = _folder(folder, quick=quick)
    choices = _choose(names or suites.NAMES, quick=quick, splits=None)
    found = [_status(choice, folder) for choice in choices]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(line) for line in found], indent=2))
        return
    click.echo(f"{'suite':<10}{'done':>7}{'failed':>8}{'all':>7}{'CPU time left':>15}")
    for line in found:
        left = "unknown" if line.seconds_left is None else clock(line.seconds_left)
        click.echo(
            f"{line.suite:<10}{line.done:>7}{line.failed:>8}{line.tasks:>7}{left:>15}"
        )
