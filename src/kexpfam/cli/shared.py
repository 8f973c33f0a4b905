"""What all commands share: their options, notes, and errors in one sentence.

Errors that a user can do something about become a line on standard error and exit code
1; wrong usage is click's exit code 2; Ctrl-C is 130. `KEXPFAM_DEBUG=1` shows where an
error came from. Warnings of the library become lines that begin with "Note:".
"""

import contextlib
import errno
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click

from kexpfam.errors import KexpfamError

STANDARD_OUTPUT = "-"

# In a context's `meta`: whether notes and progress are unwelcome.
QUIET = "kexpfam.quiet"


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Turn errors and warnings of the library and of the system into sentences."""
    said: set[str] = set()

    def show_once(message: Any, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # Said to programmers who pass arrays; here names were matched already.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show_once
        try:
            yield
        except (KeyboardInterrupt, Stopped):
            click.echo("Interrupted; nothing was written.", err=True)
            raise click.exceptions.Exit(128 + signal.SIGINT) from None
        except (
            *(ValueError, OSError, ArithmeticError, MemoryError, KexpfamError),
            RuntimeError,  # of a thread that cannot be started
        ) as e:
            known = isinstance(e, KexpfamError) or _lacks_memory(e)
            if isinstance(e, RuntimeError) and not known:
                raise
            debugging = os.environ.get("KEXPFAM_DEBUG", "") not in ("", "0")
            if getattr(e, "errno", None) == errno.EPIPE or debugging:
                raise  # click ends quietly if nobody reads on
            raise click.ClickException(printable(_sentence(e))) from e


class Stopped(BaseException):
    """Ctrl-C, in a form that no search takes for a wish to end with the best so far."""


@contextlib.contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let Ctrl-C end the program, and not only the search that is running.

    An interrupted search ends with what it has, which is of use where one model is
    fitted; where many are, whoever interrupts one wants none of the others.
    """

    def stop(number: int, frame: object) -> None:
        raise Stopped

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread only
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def note(text: str) -> None:
    """Say something on standard error that is no result."""
    if not _is_quiet():
        say(f"Note: {text}", err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print a line; what names of others hold does nothing to a terminal."""
    click.echo(printable(text), err=err)


def printable(text: str) -> str:
    r"""A text whose control characters are written as Python writes them.

    Example:
        >>> print(printable("a\x1b[31mb"))
        a\x1b[31mb
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def is_watched() -> bool:
    """Whether standard error is a terminal, and progress is welcome."""
    return sys.stderr.isatty() and shows_progress()


def shows_progress() -> bool:
    """Whether progress is welcome: a bar on a terminal, a line each stage elsewhere.

    That is for fits, which may take minutes; all else is quiet unless it is watched.
    """
    return not _is_quiet()


def counted(n: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "row"), counted(2, "row"), counted(0, "category")
        ('1 row', '2 rows', '0 categories')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n} {noun if n == 1 else many}"


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def _lacks_memory(error: BaseException) -> bool:
    """Whether memory was missing, be it for the stack of a thread."""
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)


def _sentence(error: BaseException) -> str:
    if _lacks_memory(error):
        return "There is not enough memory; use fewer rows."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    text = " ".join(str(error).split()) or f"{type(error).__name__}."
    # Names of columns may be as long as a file; a sentence is not.
    return re.sub(r"\S{500,}", lambda found: f"{found[0][:80]}...", text)


def examples(*lines: str) -> str:
    """The end of a command's help."""
    # The first line, a backspace, tells click to keep the lines as they are.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def command(name: str, *lines: str) -> Callable[[Any], click.Command]:
    """A command whose help ends with examples."""
    return click.command(name, epilog=examples(*lines))


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value:
        ctx.meta[QUIET] = True
    return value


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order in which help shows them."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def output_option(default: str, words: str) -> Callable[[Any], Any]:
    """Where the result goes."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(allow_dash=True),
        default=default,
        show_default=default != STANDARD_OUTPUT,
        help=words,
    )


data_argument = click.argument("data", type=click.Path())
optional_data_argument = click.argument("data", type=click.Path(), required=False)
model_argument = click.argument("model", type=click.Path())
force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, callback=_be_quiet, help="No summary and no notes."
)
table_output_option = output_option(
    STANDARD_OUTPUT,
    "A .csv, .tsv or .parquet file; - for standard output, the default.",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of all that is random."
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["drop", "impute", "error"]),
    help="Leave rows with missing values out; or put in medians and most frequent "
    "categories, and tell the model where, as at a fit by default; or stop at one.",
)
digits_option = click.option(
    "--digits",
    type=click.IntRange(min=1, max=17),
    default=6,
    show_default=True,
    help="Significant digits in text; narrow distributions far from zero have more. 17 "
    "are all.",
)
unknown_option = click.option(
    "--unknown",
    type=click.Choice(["error", "ignore"]),
    default="ignore",
    show_default=True,
    help="What to do about a category that was not seen at the fit: stop, or take it "
    "as none of those that were.",
)
# Of commands that show a model the rows of a table.
row_options = together(missing_option, unknown_option, force_option, quiet_option)
