"""Penalised maximum likelihood, the twin of the low-rank score-matching fit."""

from kexpfam.likelihood.censored import (
    CensoredRows,
    censored_log_scores,
    censored_nodes,
    censored_objective,
    censored_path,
)
from kexpfam.likelihood.fit import NEWTON, fit_likelihood, likelihood_path
from kexpfam.likelihood.many_rows import SumsInMemory, expected_sums, observed_sums
from kexpfam.likelihood.objective import (
    NodeMatrices,
    PenalizedLikelihood,
    RowSums,
    quadrature_nodes,
)

__all__ = [
    "NEWTON",
    "CensoredRows",
    "NodeMatrices",
    "PenalizedLikelihood",
    "RowSums",
    "SumsInMemory",
    "censored_log_scores",
    "censored_nodes",
    "censored_objective",
    "censored_path",
    "expected_sums",
    "fit_likelihood",
    "likelihood_path",
    "observed_sums",
    "quadrature_nodes",
]
