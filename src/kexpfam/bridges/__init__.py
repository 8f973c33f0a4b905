"""Densities in the forms that other libraries expect.

`to_scipy`, `to_qp` and `to_arviz` import what they need when they are called. The
regressor for skpro has to inherit from skpro's own, so it is imported by name:
`from kexpfam.bridges.skpro import SkproRegressor`. So is `scoringbench`.
"""

from kexpfam.bridges.arviz import to_arviz
from kexpfam.bridges.densities import to_qp, to_scipy

__all__ = ["to_arviz", "to_qp", "to_scipy"]
