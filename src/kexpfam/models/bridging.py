"""Bridged fits that compete: judged by the log density that is left of the mixture.

The mixture of rows and draws is fitted without one fold after another, like any other
rows. What is left of its density without the bridge is normalised, and what that says
about the rows themselves is what counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.distributions import Bridge
from kexpfam.models.chart import Charted
from kexpfam.models.solvers import (
    BRIDGE_DRAWS,
    BRIDGE_SHARE,
    bridged_centers,
    bridged_rows,
)
from kexpfam.selection import Candidate, HeldOutProblem, Line, tilted


def bridged_in_folds(
    charted: Charted, centers: Indices, folds: Sequence[slice]
) -> tuple[Charted, Indices, tuple[slice, ...]]:
    """Rows and draws sorted by fold, with centres and folds among them."""
    n = len(charted.U)
    mixed = bridged_rows(charted)
    copies = n * np.arange(1 + BRIDGE_DRAWS)[:, None]
    order = np.concatenate([(copies + np.arange(n)[fold]).ravel() for fold in folds])
    place = np.argsort(order)
    sizes = (1 + BRIDGE_DRAWS) * np.array([fold.stop - fold.start for fold in folds])
    ends = np.cumsum(sizes)
    sorted_folds = tuple(
        slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)
    )
    mixed = replace(
        mixed,
        Z=mixed.Z[order],
        U=mixed.U[order],
        weights=mixed.weights[order],
        log_slope=mixed.log_slope[order],
    )
    return mixed, place[bridged_centers(centers, n)], sorted_folds


def bridged_candidates(
    chart: str, log_slope: Array, problem: HeldOutProblem, line: Line
) -> Iterator[Candidate]:
    """Families of one chart, fitted to rows with a bridge, one for each λ.

    Args:
        chart: Name of the chart.
        log_slope: Log |du/dy| of its rows without the bridge, sorted by fold.
        problem: Rows and draws of `bridged_in_folds`.
        line: Kernel and values of λ.
    """
    bridge = Bridge(BRIDGE_SHARE, problem.base)
    rows = _own_rows(problem.folds)
    slope = np.zeros(len(problem.sample.Y))
    # The bridge is the base density, so that log q0 on the nodes is log m.
    for candidate in tilted(chart, problem, slope, [line], remainder=bridge.log_rest):
        log_p = candidate.held_out[rows] + log_slope
        yield replace(candidate, method="bridged", held_out=log_p)


def _own_rows(folds: Sequence[slice]) -> Array:
    """Where the rows are among rows and draws: at the beginning of each fold."""
    sizes = [(fold.stop - fold.start) // (1 + BRIDGE_DRAWS) for fold in folds]
    return np.concatenate(
        [fold.start + np.arange(size) for fold, size in zip(folds, sizes, strict=True)]
    )
