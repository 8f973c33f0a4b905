"""Pictures of densities, of their calibration, of pairs of columns and of graphs.

matplotlib is imported when something is drawn, never before.
"""

from kexpfam.display.along import (
    ALONG,
    AveragedDensities,
    ShownRows,
    averaged_along,
    column_relevance,
    mean_heights,
    whole_cells,
)
from kexpfam.display.calibration import plot_calibration, plot_coverage, plot_pit
from kexpfam.display.conditions import (
    EXTRAPOLATION,
    UNLIKE,
    extrapolated,
    rows_near,
    runs_of,
    typical_place,
)
from kexpfam.display.curves import plot_densities
from kexpfam.display.densities import (
    ConditionalDensityDisplay,
    averaged_title,
    dots_along,
)
from kexpfam.display.differences import plot_differences
from kexpfam.display.explanations import (
    BAND,
    ContributionsDisplay,
    EffectDisplay,
    ImportanceDisplay,
    of_response,
)
from kexpfam.display.graph import GraphDisplay
from kexpfam.display.html import (
    densities_in_html,
    html_bar,
    html_box,
    html_heading,
    html_notes,
    html_quiet,
    html_table,
    pit_strip,
)
from kexpfam.display.pairs import PairsDisplay
from kexpfam.display.pit import (
    PITDisplay,
    RegionCalibrationDisplay,
    pit_values,
    simultaneous_band,
)
from kexpfam.display.summaries import densities_in_words
from kexpfam.display.theme import middle_cut, short_number

__all__ = [
    "ALONG",
    "BAND",
    "EXTRAPOLATION",
    "UNLIKE",
    "AveragedDensities",
    "ConditionalDensityDisplay",
    "ContributionsDisplay",
    "EffectDisplay",
    "GraphDisplay",
    "ImportanceDisplay",
    "PITDisplay",
    "PairsDisplay",
    "RegionCalibrationDisplay",
    "ShownRows",
    "averaged_along",
    "averaged_title",
    "column_relevance",
    "densities_in_html",
    "densities_in_words",
    "dots_along",
    "extrapolated",
    "html_bar",
    "html_box",
    "html_heading",
    "html_notes",
    "html_quiet",
    "html_table",
    "mean_heights",
    "middle_cut",
    "of_response",
    "pit_strip",
    "pit_values",
    "plot_calibration",
    "plot_coverage",
    "plot_densities",
    "plot_differences",
    "plot_pit",
    "rows_near",
    "runs_of",
    "short_number",
    "simultaneous_band",
    "typical_place",
    "whole_cells",
]
