"""Ctrl-C while the program is still importing its libraries.

That takes a second or more, and nothing of the program runs yet that could turn an
interrupt into an exit code. So the first import of this package looks whether it is the
program that is starting; a library, a notebook or a script of one's own is left alone.
"""

import os
import signal
import sys
from collections.abc import Sequence


def is_program(words: Sequence[str]) -> bool:
    """Whether words as in `sys.orig_argv` start `kexpfam`, as a script or module.

    Those of worker processes are their own.

    Example:
        >>> is_program(["python", "/usr/bin/kexpfam", "fit"])
        True
        >>> is_program(["python", "-m", "kexpfam"])
        True
        >>> is_program(["python", "-m", "pytest", "kexpfam"])
        False
    """
    script = os.path.basename(words[1]) if len(words) > 1 else ""
    return script in {"kexpfam", "kexpfam.exe"} or list(words[1:3]) == ["-m", "kexpfam"]


def end_quietly_while_importing() -> None:
    """Let Ctrl-C end the program at once, until `hear_interrupts` is called."""
    # A shell may have asked to ignore interrupts, as for `nohup`.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and is_program(sys.orig_argv):
        signal.signal(signal.SIGINT, _end)


def hear_interrupts() -> None:
    """Let Ctrl-C be an exception again, which the program knows how to handle."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    # An exception in the middle of an import may be caught there, or become another;
    # there is nothing to tidy up yet.
    os._exit(130)  # 128 + SIGINT, as shells have it


end_quietly_while_importing()
