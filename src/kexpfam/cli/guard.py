"""What a person sees when something is wrong: one sentence, and no traceback.

Errors that a user can do something about become a line on standard error and exit code
1; wrong usage is click's exit code 2; Ctrl-C is 130. `KEXPFAM_DEBUG=1` shows where an
error came from. Warnings of the library become lines that begin with "Note:".
"""

import contextlib
import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import click

from kexpfam.errors import KexpfamError

# In a context's `meta`: whether notes and progress are unwelcome.
QUIET = "kexpfam.quiet"

INTERRUPTED = 130  # 128 + SIGINT, as shells have it

# Said to programmers who pass arrays; here names were matched already.
_NOT_FOR_HERE = "X does not have valid feature names"


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Turn errors and warnings into sentences.

    Raises:
        click.ClickException: In place of errors of the library and of the system.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", message=_NOT_FOR_HERE)
        warnings.showwarning = _Notes()
        try:
            yield
        except (KeyboardInterrupt, Stopped):
            click.echo("Interrupted; nothing was written.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (KexpfamError, ValueError, OSError, ArithmeticError) as error:
            if getattr(error, "errno", None) == errno.EPIPE or _debugging():
                raise  # click ends quietly if nobody reads on
            raise click.ClickException(_sentence(error)) from error
        except MemoryError as error:
            if _debugging():
                raise
            raise click.ClickException(
                "There is not enough memory; use fewer rows."
            ) from error


class Stopped(BaseException):
    """Ctrl-C, in a form that no search takes for a wish to end with the best so far."""


@contextlib.contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let Ctrl-C end the program, and not only the search that is running.

    In a program of one's own an interrupted search ends with what it has; whoever
    interrupts a command wants no file.

    Raises:
        Stopped: Ctrl-C was pressed.
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
        click.echo(f"Note: {text}", err=True)


def is_watched() -> bool:
    """Whether standard error is a terminal, and progress is welcome."""
    return sys.stderr.isatty() and not _is_quiet()


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


class _Notes:
    """Shows each warning once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Any, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in self._said:
            self._said.add(text)
            note(text)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _debugging() -> bool:
    return os.environ.get("KEXPFAM_DEBUG", "") not in ("", "0")
