"""Draws of samplers for ArviZ: its summaries, diagnoses and plots.

Markov chains come in the order in which they moved, with what each move reported.
Draws without chains (independent ones, those of tempered particles, and those of an
average whose families have chains of their own) come as one chain, for which ArviZ has
no R̂.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array
from kexpfam.sampling import Run


def to_arviz(run: Run, *, name: str = "y", columns: Sequence[str] | None = None) -> Any:
    """Draws of `p.run(...)` as ArviZ holds them.

    That is a `DataTree` of xarray since ArviZ 1.0, an `arviz.InferenceData` before.

    Args:
        run: What `run` of a density returned.
        name: Name of the variable.
        columns: Names of the columns of y, if it has several.

    Returns:
        The group `posterior` has the draws, with the dimensions chain, draw, density
        (unless there is one) and column (unless there is one); the attribute `report`
        of the whole says how sampling went. If there were chains, the group
        `sample_stats` has `diverging` and `acceptance_rate` of each move.

    Raises:
        MissingDependencyError: ArviZ is not installed.
    """
    arviz = needed("arviz", "to hand draws over to it", "bridges")
    draws = _all_axes(run)
    n, d = draws.shape[2:]
    if columns is not None and len(columns) != d:
        raise ValueError(
            f"columns must have {d} name(s), one per column of y, got {list(columns)}."
        )
    # Names of the axes after those that ArviZ names itself.
    sizes = {"density": n, "column": d}
    kept = [axis for axis, size in sizes.items() if size > 1]
    dropped = tuple(axis for axis in (2, 3) if draws.shape[axis] == 1)
    groups = {"posterior": {name: np.squeeze(draws, dropped)}}
    if run.chains is not None:
        figures: dict[str, Any] = {
            "diverging": run.chains.divergent,
            "acceptance_rate": run.chains.acceptance,
        }
        groups["sample_stats"] = {
            key: np.squeeze(_chains_first(value), (2,) if n == 1 else ())
            for key, value in figures.items()
        }
    labels = {
        "density": np.arange(n),
        "column": np.arange(d) if columns is None else columns,
    }
    of_moves = kept[:1] if n > 1 else []
    # Since ArviZ 1.0 groups are one argument, and not one each; attributes likewise.
    new = int(arviz.__version__.partition(".")[0]) >= 1
    report = {"report": "independent draws" if run.report is None else str(run.report)}
    return arviz.from_dict(
        *([groups] if new else []),
        **({} if new else groups),
        coords={axis: labels[axis] for axis in kept},
        dims={name: kept, "diverging": of_moves, "acceptance_rate": of_moves},
        attrs={"/": report} if new else report,
    )


def _all_axes(run: Run) -> Array:
    """Draws (chains, draws, n, d)."""
    if run.chains is not None:
        return _chains_first(run.chains.draws)
    draws = run.draws[..., None] if run.columns == 1 else run.draws
    return _chains_first(draws.reshape(-1, 1, *draws.shape[-2:]))


def _chains_first(values: Array) -> Array:
    """(n, chains, draws, ...) -> (chains, draws, n, ...)."""
    return np.moveaxis(values, 0, 2)
