"""Rows of folds in panels, worked through by several threads.

What depends on rows and centres is made for about a thousand rows at a time and summed,
so that no matrix of all rows exists: memory is bounded by panels times threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from kexpfam._typing import Indices
from kexpfam.linalg import one_of_many_threads, single_threaded_blas, thread_count

# Rows of a panel; few enough for the caches, and enough for products at full speed.
PANEL_ROWS = 1024

Result = TypeVar("Result")


@dataclass(frozen=True)
class Panel:
    """Some rows of one fold.

    Attributes:
        fold: Number of the fold.
        rows: Numbers of the rows.
    """

    fold: int
    rows: Indices


def panels_of(folds: Sequence[Indices], height: int = PANEL_ROWS) -> list[Panel]:
    """The rows of each fold in panels of at most `height` rows.

    Example:
        >>> import numpy as np
        >>> [len(panel.rows) for panel in panels_of([np.arange(5), np.arange(2)], 3)]
        [3, 2, 2]
    """
    return [
        Panel(fold, rows[start : start + height])
        for fold, rows in enumerate(folds)
        for start in range(0, len(rows), height)
    ]


def over_panels(
    work: Callable[[Panel], Result], panels: Sequence[Panel], n_jobs: int | None
) -> list[Result]:
    """Results of all panels in their order, whatever the number of threads.

    Args:
        work: What to do with a panel; it may not write to what others read.
        panels: The panels.
        n_jobs: Threads; None for all cores. Few rows are not shared out.
    """
    rows = sum(len(panel.rows) for panel in panels)
    threads = min(thread_count(n_jobs), rows // PANEL_ROWS)
    # The products inside a panel are too small to share among BLAS threads.
    with single_threaded_blas():
        if threads <= 1:
            return [work(panel) for panel in panels]

        def alone(panel: Panel) -> Result:
            with one_of_many_threads():
                return work(panel)

        with ThreadPoolExecutor(threads) as executor:
            return list(executor.map(alone, panels))
