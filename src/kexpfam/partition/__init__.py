"""Log normalisers, always with an error estimate.

One dimension: adaptive quadrature on panels. Two: tensor quadrature. More: importance
sampling, and tempered sequential Monte Carlo where it fails. Densities are known here
only as functions.
"""

from kexpfam.partition.importance import (
    ImportanceEstimate,
    Proposal,
    estimate_partition,
    make_proposal,
    pareto_tail_index,
)
from kexpfam.partition.nodes import Nodes
from kexpfam.partition.panels import (
    PanelDensity,
    integrate_panels,
    panel_rule,
    panels_holding,
    starting_edges,
)
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
    "Formula",
    "ImportanceEstimate",
    "Nodes",
    "PanelDensity",
    "Proposal",
    "RowLogDensity",
    "TemperedEstimate",
    "TensorDensity",
    "UnnormalizedDensity",
    "estimate_partition",
    "generators",
    "integrate_panels",
    "integrate_tensor",
    "invert_series",
    "make_proposal",
    "panel_rule",
    "panels_holding",
    "pareto_tail_index",
    "resample_move",
    "series_at",
    "series_slopes",
    "starting_edges",
    "temper",
]
