"""Log normalisers, always with an error estimate.

One dimension: adaptive quadrature on cells. Two: tensor quadrature. More: importance
sampling, and tempered sequential Monte Carlo where it fails. Densities are known here
only as functions.
"""

from kexpfam.partition.cells import (
    CellDensity,
    cell_nodes,
    cell_rule,
    cells_holding,
)
from kexpfam.partition.importance import (
    ImportanceEstimate,
    estimate_partition,
    make_proposal,
    pareto_tail_index,
)
from kexpfam.partition.line import (
    LineDensity,
    first_cells,
    integrate_line,
    starting_edges,
)
from kexpfam.partition.nodes import Nodes
from kexpfam.partition.series import invert_series, series_at, series_slopes
from kexpfam.partition.tempered import (
    TemperedEstimate,
    generators,
    resample_move,
    temper,
)
from kexpfam.partition.tensor import RowLogDensity, TensorDensity, integrate_tensor
from kexpfam.partition.unnormalized import Formula, UnnormalizedDensity

__all__ = [
    "CellDensity",
    "Formula",
    "ImportanceEstimate",
    "LineDensity",
    "Nodes",
    "RowLogDensity",
    "TemperedEstimate",
    "TensorDensity",
    "UnnormalizedDensity",
    "cell_nodes",
    "cell_rule",
    "cells_holding",
    "estimate_partition",
    "first_cells",
    "generators",
    "integrate_line",
    "integrate_tensor",
    "invert_series",
    "make_proposal",
    "pareto_tail_index",
    "resample_move",
    "series_at",
    "series_slopes",
    "starting_edges",
    "temper",
]
