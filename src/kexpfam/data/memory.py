"""How much memory there is to use, how much is used, and the rows that fit into it.

A budget is counted above what the process held before the work began. Blocks of rows
take a small part of it: most is left to the sums that are made of them.
"""

import re
import sys
from pathlib import Path

from kexpfam.data.rows import BLOCK_ROWS

# Bytes above what the process held at the start, unless told otherwise.
DEFAULT_BUDGET = 2**30


def parse_memory(value: int | str) -> int:
    """Bytes that a whole number, or a text with a unit, stands for.

    Example:
        >>> parse_memory("1 GiB"), parse_memory("500MB")
        (1073741824, 500000000)
    """
    number = 0
    if isinstance(value, str):
        text = value.strip().lower()
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt]?|[kmgt]i)b)?", text):
            prefix = match[2] or ""
            base = 1024 if prefix.endswith("i") else 1000
            number = int(float(match[1]) * base ** " kmgt".index(prefix[:1] or " "))
    elif not isinstance(value, bool) and hasattr(value, "__index__"):
        number = int(value)
    if number <= 0:
        raise ValueError(
            f"memory_budget must be a positive number of bytes or a text like "
            f"'1 GiB' or '500 MB', got {value!r}."
        )
    return number


def block_rows(n_columns: int, memory_budget: int, n_threads: int) -> int:
    """Rows of one block, so that one for each thread fits well into the budget.

    Columns are those of X, y and weights together.
    """
    # A guess: a block is held as it was read, as float64, checked, and cut once more.
    row_bytes = 4 * 8 * max(n_columns, 1)
    # Blocks of all threads together take at most an eighth of the budget.
    fitting = memory_budget // (8 * max(n_threads, 1) * row_bytes)
    return int(max(1, min(BLOCK_ROWS, fitting)))


def peak_resident() -> int | None:
    """Most bytes that this process has held in memory; None where it is not known.

    Example:
        >>> peak_resident() is None or peak_resident() > 2**20
        True
    """
    # On Linux not from getrusage, where a process starts with the peak of its parent.
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        status = ""
    if match := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE):
        return 1024 * int(match[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def resident_now() -> int | None:
    """Bytes that this process holds in memory; None where it is not known.

    Example:
        >>> resident_now() is None or resident_now() > 2**20
        True
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (ImportError, OSError):  # anything but Linux
        return None
    return pages * resource.getpagesize()
