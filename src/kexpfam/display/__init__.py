"""Pictures of densities, of their calibration, of pairs of columns and of graphs.

matplotlib is imported when something is drawn, never before.
"""

from kexpfam.display.calibration import plot_calibration, plot_coverage, plot_pit
from kexpfam.display.conditions import (
    FEW_NEAR,
    FEW_ROWS,
    few_near,
    near_note,
    rows_near,
    runs_of,
    typical_place,
)
from kexpfam.display.densities import ConditionalDensityDisplay, plot_densities
from kexpfam.display.differences import plot_differences
from kexpfam.display.explanations import (
    plot_averaged_density,
    plot_contributions,
    plot_effect,
    plot_importance,
)
from kexpfam.display.graph import GraphDisplay
from kexpfam.display.pairs import PairsDisplay
from kexpfam.display.theme import middle_cut, short_number

__all__ = [
    "FEW_NEAR",
    "FEW_ROWS",
    "ConditionalDensityDisplay",
    "GraphDisplay",
    "PairsDisplay",
    "few_near",
    "middle_cut",
    "near_note",
    "plot_averaged_density",
    "plot_calibration",
    "plot_contributions",
    "plot_coverage",
    "plot_densities",
    "plot_differences",
    "plot_effect",
    "plot_importance",
    "plot_pit",
    "rows_near",
    "runs_of",
    "short_number",
    "typical_place",
]
