"""The family: rows in coordinates, statistics, solvers, cross-validation."""

from kexpfam.family.all_rows import (
    RowsBeyond,
    SampledRows,
    sample_rows,
    solve_iteratively,
    solve_with_others,
    sum_statistics,
    with_all_rows,
)
from kexpfam.family.blindness import check_masses
from kexpfam.family.components import (
    Components,
    choose_components,
    narrowed,
    solve_statistics,
)
from kexpfam.family.coordinates import (
    CoordinateRows,
    Coordinates,
    SharedProcesses,
    fit_coordinates,
    refitted,
    transformed_response,
    unskewed,
)
from kexpfam.family.cross_validation import (
    CRITERIA,
    HeldOutProblem,
    LogDensities,
    RowLaws,
    RowScores,
    cross_validated,
    equal_folds,
    moments_on_nodes,
    nodes_inside,
)
from kexpfam.family.family import FittedFamily, given_base, resolve_kernel, solve
from kexpfam.family.isolated_components import (
    IsolatedComponents,
    check_isolated_components,
    component_std,
)
from kexpfam.family.solvers import (
    SCORE,
    SOLVERS,
    Criterion,
    chosen_centers,
    weighted_score_sample,
)
from kexpfam.family.spec import Limits, Spec
from kexpfam.family.statistics import (
    N_FOLDS,
    FoldStatistics,
    LambdaRule,
    LowRankSpec,
    ValidationRows,
)

__all__ = [
    "CRITERIA",
    "N_FOLDS",
    "SCORE",
    "SOLVERS",
    "Components",
    "CoordinateRows",
    "Coordinates",
    "Criterion",
    "FittedFamily",
    "FoldStatistics",
    "HeldOutProblem",
    "IsolatedComponents",
    "LambdaRule",
    "Limits",
    "LogDensities",
    "LowRankSpec",
    "RowLaws",
    "RowScores",
    "RowsBeyond",
    "SampledRows",
    "SharedProcesses",
    "Spec",
    "ValidationRows",
    "check_isolated_components",
    "check_masses",
    "choose_components",
    "chosen_centers",
    "component_std",
    "cross_validated",
    "equal_folds",
    "fit_coordinates",
    "given_base",
    "moments_on_nodes",
    "narrowed",
    "nodes_inside",
    "refitted",
    "resolve_kernel",
    "sample_rows",
    "solve",
    "solve_iteratively",
    "solve_statistics",
    "solve_with_others",
    "sum_statistics",
    "transformed_response",
    "unskewed",
    "weighted_score_sample",
    "with_all_rows",
]
