"""Estimators whose sizes are small ones, so that few rows are many."""


def limited(estimator, limits):
    """The estimator, with other sizes from where on a fit is made in another way."""
    estimator._limits = limits
    return estimator
