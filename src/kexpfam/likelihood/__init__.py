"""Penalised maximum likelihood, the twin of the low-rank score-matching fit."""

from kexpfam.likelihood.fit import fit_likelihood, likelihood_path
from kexpfam.likelihood.objective import PenalizedLikelihood, quadrature_nodes

__all__ = [
    "PenalizedLikelihood",
    "fit_likelihood",
    "likelihood_path",
    "quadrature_nodes",
]
