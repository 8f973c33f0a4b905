"""Scores and calibration of densities: how good p(y|x) is on rows held out.

Metrics are functions of densities and observations, `crps(model.given(X), y)`;
`evaluate(model, X, y)` computes all of them. `METRICS` says which way each points.
"""

from kexpfam.metrics.calibration import (
    Uniformity,
    coverage,
    hpd_coverage,
    hpd_values,
    pit,
    pit_distance,
    pit_uniformity,
)
from kexpfam.metrics.evaluation import (
    METRICS,
    Evaluation,
    Metric,
    cross_evaluate,
    evaluate,
)
from kexpfam.metrics.measures import measure_of, warn_if_measures_differ
from kexpfam.metrics.observations import Estimate
from kexpfam.metrics.paired import Comparison, compare
from kexpfam.metrics.scores import (
    cde_loss,
    cde_loss_values,
    censored_log_loss,
    censored_log_loss_values,
    crps,
    crps_values,
    interval_score,
    interval_score_values,
    log_loss,
    log_loss_values,
    pinball_loss,
    pinball_loss_values,
)

__all__ = [
    "METRICS",
    "Comparison",
    "Estimate",
    "Evaluation",
    "Metric",
    "Uniformity",
    "cde_loss",
    "cde_loss_values",
    "censored_log_loss",
    "censored_log_loss_values",
    "compare",
    "coverage",
    "cross_evaluate",
    "crps",
    "crps_values",
    "evaluate",
    "hpd_coverage",
    "hpd_values",
    "interval_score",
    "interval_score_values",
    "log_loss",
    "log_loss_values",
    "measure_of",
    "pinball_loss",
    "pinball_loss_values",
    "pit",
    "pit_distance",
    "pit_uniformity",
    "warn_if_measures_differ",
]
