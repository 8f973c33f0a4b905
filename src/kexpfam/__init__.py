"""Whole distributions from data: kernel (conditional) exponential families.

p(y|x) = q0(y|x) exp T(x, y) / Z(x), T in a reproducing kernel Hilbert space, fitted by
score matching in closed form, normalised with a known error.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kexpfam import (
    _interrupts,  # noqa: F401 - before all slow imports, in which Ctrl-C may come
)

if TYPE_CHECKING:
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
# Where the names are that a user may import from here.
_HOMES = {
    "KCEF": "estimators",
    "KEF": "estimators",
    "AutoKCEF": "estimators",
    "FactorizedDensity": "graphs",
    "load": "io",
}
__all__ = ["KCEF", "KEF", "AutoKCEF", "FactorizedDensity", "load", *_ROOMS]  # noqa: PLE0604 - names all


def __getattr__(name: str) -> Any:
    """A room, or an estimator, that no import has needed so far."""
    if name in _ROOMS:
        return import_module(f"kexpfam.{name}")
    if name in _HOMES:
        found = getattr(import_module(f"kexpfam.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'kexpfam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
