"""Whole distributions from data: kernel (conditional) exponential families.

p(y|x) = q0(y|x) exp T(x, y) / Z(x), T in a reproducing kernel Hilbert space, fitted by
score matching in closed form, normalised with a known error.
"""

from importlib import import_module
from types import ModuleType

from kexpfam import (
    _interrupts,  # noqa: F401 - before all slow imports, in which Ctrl-C may come
)
from kexpfam.estimators import KCEF, KEF, AutoKCEF
from kexpfam.graphs import FactorizedDensity
from kexpfam.io import load

__version__ = "0.1.0.dev0"

# What a user may call; rooms that are not listed are the library's own.
_ROOMS = (
    "base_densities",
    "baselines",
    "bridges",
    "causal",
    "comparison",
    "conformal",
    "data",
    "datasets",
    "display",
    "distributions",
    "errors",
    "explanation",
    "graphs",
    "kernels",
    "metrics",
    "pipeline",
    "sampling",
    "selection",
    "summaries",
    "tables",
)
__all__ = ["KCEF", "KEF", "AutoKCEF", "FactorizedDensity", "load", *_ROOMS]  # noqa: PLE0604 - names all


def __getattr__(name: str) -> ModuleType:
    """A room that no import has needed so far."""
    if name in _ROOMS:
        return import_module(f"kexpfam.{name}")
    raise AttributeError(f"module 'kexpfam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
