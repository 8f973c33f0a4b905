"""Whole distributions from data: kernel (conditional) exponential families.

p(y|x) = q0(y|x) exp T(x, y) / Z(x), T in a reproducing kernel Hilbert space, fitted by
score matching in closed form, normalised with a known error.
"""

from kexpfam import (
    _interrupts,  # noqa: F401 - before all slow imports, in which Ctrl-C may come
    base_densities,
    comparison,
    datasets,
    errors,
    graphs,
    kernels,
    metrics,
    sampling,
    selection,
)
from kexpfam.graphs import FactorizedDensity
from kexpfam.io import load
from kexpfam.models import KCEF, KEF, AutoKCEF

__version__ = "0.1.0.dev0"

__all__ = [
    "KCEF",
    "KEF",
    "AutoKCEF",
    "FactorizedDensity",
    "base_densities",
    "comparison",
    "datasets",
    "errors",
    "graphs",
    "kernels",
    "load",
    "metrics",
    "sampling",
    "selection",
]
