"""A text progress bar, without dependencies."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

# Called with how many parts are done, and how many there are.
Progress = Callable[[int, int], None]


class ProgressBar:
    r"""Draws how far some work is on standard error, if that is a terminal.

    It is there from the beginning. Elsewhere, in a log file or a notebook's pipe, only
    the last line is written: one for each stage.

    Example:
        >>> import io
        >>> stream = io.StringIO()
        >>> with ProgressBar("coarse grid", stream=stream) as bar:
        ...     bar(1, 2, 0.71)
        ...     bar(2, 2, 0.53)
        >>> stream.getvalue()
        'coarse grid: 2 of 2, best 0.53\n'
    """

    def __init__(
        self, label: str, *, shown: bool = True, stream: TextIO | None = None
    ) -> None:
        """Take the name of what is going on, whether to show it, and where."""
        self._label = label
        self._shown = shown
        self._stream = sys.stderr if stream is None else stream
        self._last = ""

    def __enter__(self) -> Self | None:
        # Without a bar nobody has to work out what it would show.
        if not self._shown:
            return None
        self._draw(0, 1, self._label)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._last:
            start = "\r\033[K" if self._stream.isatty() else ""
            self._stream.write(f"{start}{self._last}\n")
            self._stream.flush()

    def __call__(self, done: int, total: int, best: float | None = None) -> None:
        """Show that so many of so many are done, and the best value so far."""
        value = "" if best is None else f", best {best:.5g}"
        self._draw(done, total, f"{self._label}: {done} of {total}{value}")

    def _draw(self, done: int, total: int, line: str) -> None:
        self._last = line
        if self._stream.isatty():
            filled = 30 * done // max(total, 1)
            bar = "#" * filled + "." * (30 - filled)
            self._stream.write(f"\r[{bar}] {line}\033[K")
            self._stream.flush()
