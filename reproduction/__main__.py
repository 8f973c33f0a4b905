"""The command line: `python -m reproduction run`, `report` and `status`."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from reproduction.record import Suite, Task, outcomes
from reproduction.report import (
    SUITES,
    clock,
    length,
    parts,
    refresh_page,
    report,
    seconds_left,
)
from reproduction.runner import results
from reproduction.runner import run as run_tasks

_NEEDED = ("jax", "matplotlib", "optax")
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


def _suites(
    ctx: click.Context, param: click.Parameter, names: tuple[str, ...]
) -> list[Suite]:
    for name in names:
        _check_known("suite", name, SUITES)
    return [SUITES[name] for name in dict.fromkeys(names or SUITES)]


def _check_known(what: str, name: str, known: Sequence[str] | dict[str, Suite]) -> None:
    if name not in known:
        raise click.BadParameter(
            f"{what} {name!r} is not known; use one of {', '.join(known)}."
        )


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    """What all commands take."""
    for option in (
        click.option("--quick", is_flag=True, help="A few small tasks of each suite."),
        click.option(
            "--folder",
            type=click.Path(file_okay=False, path_type=Path),
            help="Of results.  [default: reproduction, quick: reproduction-quick]",
        ),
        click.argument("suites", metavar="[SUITE]...", nargs=-1, callback=_suites),
    ):
        command = option(command)
    return command


def _folder(folder: Path | None, *, quick: bool) -> Path:
    return folder or Path("reproduction-quick" if quick else "reproduction")


class _Commands(click.Group):
    """Shows errors of files as a sentence, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, FileNotFoundError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure every table and figure of the paper again.

    SUITE is table1, table2, table3, figure1, failure or rates; without one, all are
    meant. A run that was stopped goes on where it stood when it is started again.
    """


@main.command()
@_shared
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; cores if not set.")
@click.option("--splits", metavar="A:B", callback=_splits, help="Only A to B - 1.")
@click.option("--cases", multiple=True, metavar="NAME", help="Only this; repeatable.")
@click.option("--methods", multiple=True, metavar="NAME", help="Only this; repeatable.")
@click.option("--retry", is_flag=True, help="Run again what failed.")
def run(
    suites: list[Suite],
    quick: bool,
    folder: Path | None,
    jobs: int | None,
    splits: range | None,
    cases: tuple[str, ...],
    methods: tuple[str, ...],
    retry: bool,
) -> None:
    """Run tasks that are not done yet, and write <folder>/report.md."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"{' and '.join(missing)} must be installed; use "
            f"'pip install \".[plot,baselines]\"'."
        )
    chosen = [(s, _chosen(s, quick, splits, cases, methods)) for s in suites]
    every = [task for s in suites for task in (s.quick if quick else s.tasks)]
    for name in cases:
        _check_known("case", name, sorted({task.case for task in every}))
    for name in methods:
        _check_known("method", name, sorted({task.method for task in every}))
    if not any(tasks for _, tasks in chosen):
        raise click.UsageError("no task has this suite, split, method and case.")
    folder = _folder(folder, quick=quick)
    try:
        ran, records = run_tasks(
            chosen, folder, jobs=jobs, retry=retry, stream=sys.stderr
        )
    except KeyboardInterrupt:
        click.echo(
            f"Stopped. What is finished stays in {folder}; the same command goes on.",
            err=True,
        )
        raise click.exceptions.Exit(_INTERRUPTED) from None
    _write_report(folder, list(SUITES.values()))
    failures = [record for record in records if record.error is not None]
    click.echo(
        f"{len(records) - len(failures)} of {len(records)} tasks are done, "
        f"{len(failures)} failed; {ran} were run now."
    )
    if failures:
        error = str(failures[0].error).rstrip(".")  # most are sentences
        raise click.ClickException(
            f"{len(failures)} of {len(records)} tasks failed, first "
            f"{failures[0].task.key}: {error}. Use --retry to run them again."
        )


def _chosen(
    suite: Suite,
    quick: bool,
    splits: range | None,
    cases: tuple[str, ...],
    methods: tuple[str, ...],
) -> list[Task]:
    return [
        task
        for task in (suite.quick if quick else suite.tasks)
        if (splits is None or task.split in splits)
        and (not cases or task.case in cases)
        and (not methods or task.method in methods)
    ]


def _write_report(folder: Path, suites: Sequence[Suite]) -> None:
    page = folder / "report.md"
    measured = [suite for suite in suites if results(folder, suite)]
    page.write_text(report(folder, measured), encoding="utf-8")
    click.echo(f"The report is {page}.")


@main.command("report")
@_shared
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A page with markers to refresh, instead of <folder>/report.md.",
)
def report_command(
    suites: list[Suite], quick: bool, folder: Path | None, page: Path | None
) -> None:
    """Make tables and pictures of results; nothing is run."""
    folder = _folder(folder, quick=quick)
    if not any(results(folder, suite) for suite in suites):
        raise click.ClickException(
            f"there are no results in {folder}; use 'python -m reproduction run'."
        )
    if page is None:
        _write_report(folder, suites)
    else:
        content = parts(folder, suites) | {"length": length(folder, suites)}
        refresh_page(page, folder, content)


@main.command()
@_shared
def status(suites: list[Suite], quick: bool, folder: Path | None) -> None:
    """Say how far each suite is; nothing is run."""
    folder = _folder(folder, quick=quick)
    click.echo(f"{'suite':<10}{'done':>7}{'failed':>8}{'all':>7}{'CPU time left':>15}")
    for suite in suites:
        tasks = suite.quick if quick else suite.tasks
        found = outcomes(results(folder, suite))
        known = [found[task.key] for task in tasks if task.key in found]
        failed = sum(record.error is not None for record in known)
        rest = [task for task in tasks if task.key not in found]
        left = seconds_left(found.values(), rest) if rest else 0.0
        click.echo(
            f"{suite.name:<10}{len(known) - failed:>7}{failed:>8}{len(tasks):>7}"
            f"{'unknown' if left is None else clock(left):>15}"
        )


if __name__ == "__main__":
    main(prog_name="python -m reproduction")
