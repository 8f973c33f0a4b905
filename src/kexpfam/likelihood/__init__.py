"""Penalised maximum likelihood, the twin of the low-rank score-matching fit."""

from kexpfam.likelihood.fit import LikelihoodFit, fit_likelihood, held_out_log_densities
from kexpfam.likelihood.objective import PenalizedLikelihood, quadrature_nodes

__all__ = [
    "LikelihoodFit",
    "PenalizedLikelihood",
    "fit_likelihood",
    "held_out_log_densities",
    "quadrature_nodes",
]
