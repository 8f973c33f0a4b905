"""Tables from pipes: `-` for standard input, and named pipes.

Readers look at the first line, choose a way, and begin again; a pipe can be read once.
So what comes out of it is kept in a temporary file first. Other things that are no
files, such as terminals and disks, have no end, or nobody who writes, and are refused.
"""

import functools
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from kexpfam.tables import Table, TableError

STANDARD_INPUT = "-"
# Names of standard input, by which it would be opened once more.
_ALSO_STANDARD = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")

# How files begin whose kind a name would tell, and the name.
_BEGINNINGS = {b"PAR1": "table.parquet", b"\x1f\x8b": "table.csv.gz"}


def from_pipes(read: Callable[..., Table]) -> Callable[..., Table]:
    """Let a function that reads files read pipes, too."""

    @functools.wraps(read)
    def opened(path: str | Path, *asked: Any, **options: Any) -> Table:
        if not is_pipe(str(path)):
            return read(path, *asked, **options)
        standard = str(path) in {STANDARD_INPUT, *_ALSO_STANDARD}
        name = "standard input" if standard else str(path)
        with tempfile.TemporaryDirectory() as folder:
            if standard:
                copy = _kept(sys.stdin.buffer, name, Path(folder))
            else:
                with open(path, "rb") as pipe:
                    copy = _kept(pipe, name, Path(folder))
            try:
                return replace(read(copy, *asked, **options), path=name)
            except TableError as error:
                text = str(error).replace(str(copy), name)
                raise TableError(text) from error

    return opened


def is_pipe(path: str) -> bool:
    """Whether a path leads to a pipe; TableError if to what is no file either."""
    if path == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.closed:
            raise TableError("Standard input, -, is closed; give the name of a file.")
        if sys.stdin.isatty():
            raise TableError(
                "Standard input, -, is the terminal; pipe a table into it, or give the "
                "name of a file."
            )
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False  # the reader says that there is no such file
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise TableError(
            f"{path} is a device, not a file; give the name of a file, or - for "
            f"standard input."
        )
    return stat.S_ISFIFO(mode)


def _kept(pipe: BinaryIO, name: str, folder: Path) -> Path:
    """What comes out of a pipe, in a file whose name tells its kind."""
    start = pipe.read(4096)
    kinds = [kind for magic, kind in _BEGINNINGS.items() if start.startswith(magic)]
    if not kinds and b"\0" in start:  # before a disk is filled with it
        raise TableError(
            f"{name} is binary, not a table in text; send CSV in UTF-8, or Parquet."
        )
    # A named pipe may say that it is separated by tabs.
    own = f"table{Path(name).suffix}"
    copy = folder / (kinds[0] if kinds else own if own != "table" else "table.csv")
    with copy.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(pipe, file)
    return copy
