"""Joint densities to and from files: the graph in plain numbers, and its factors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.errors import CannotSaveError
from kexpfam.graphs.factorized import FactorizedDensity
from kexpfam.graphs.factors import Factor, is_conditional
from kexpfam.graphs.structure import Graph, Node, read_graph
from kexpfam.models import KCEF, KEF, AutoKCEF
from kexpfam.models.saving import save_factors


def save_density(model: FactorizedDensity, path: str | Path) -> None:
    """Write a fitted joint density.

    Raises:
        CannotSaveError: A factor is not of this library, or cannot be saved.
    """
    graph = model.graph_
    estimators = list(model.factors_.values())
    for node, estimator in zip(graph.nodes, estimators, strict=True):
        if not isinstance(estimator, KCEF | KEF | AutoKCEF):
            raise CannotSaveError(
                f"the factor of {node.label!r}, {type(estimator).__name__}, cannot be "
                f"saved: only KCEF, KEF and AutoKCEF have a file format that is safe "
                f"to open."
            )
    structure = {
        "names": [name if _is_plain(name) else c for c, name in enumerate(graph.names)],
        "nodes": [[list(node.columns), list(node.parents)] for node in graph.nodes],
        "exogenous": list(graph.exogenous),
    }
    names = getattr(model, "feature_names_in_", np.array([])).tolist()
    save_factors(estimators, structure, names, path)


def restored_density(
    structure: Any, feature_names: list[str], estimators: Sequence[Any]
) -> FactorizedDensity:
    """The density of a file, whose parameters say what its graph is.

    Raises:
        ValueError: The graph is none, or the factors do not fit it.
    """
    names = structure["names"]
    if not all(map(_is_plain, names)) or len(set(names)) != len(names):
        raise ValueError("names of columns are not different texts or numbers")
    if feature_names and feature_names != names:
        raise ValueError("feature names do not match the columns")
    positions = range(len(names))
    mapping = {tuple(child): list(above) for child, above in structure["nodes"]}
    exogenous = list(structure["exogenous"]) or None
    graph = read_graph(mapping, positions, exogenous)
    graph = Graph(tuple(names), _renamed(graph, names), graph.exogenous)
    if list(mapping) != [node.columns for node in graph.nodes]:
        raise ValueError("parents do not come first")
    pairs = list(zip(graph.nodes, estimators, strict=True))
    for node, estimator in pairs:
        _check_fit(node, estimator)
    model = FactorizedDensity(graph=mapping, exogenous=exogenous)
    model.n_features_in_ = len(positions)
    model.order_ = None
    if feature_names:
        model.feature_names_in_ = np.array(feature_names, dtype=object)
    return model._restore(graph, tuple(Factor(v, e) for v, e in pairs))


def _is_plain(name: Any) -> bool:
    """Whether a name of a column can be written as it is."""
    return isinstance(name, str | int) and not isinstance(name, bool)


def _renamed(graph: Graph, names: list[Any]) -> tuple[Node, ...]:
    return tuple(
        Node(v.columns, v.parents, ", ".join(str(names[c]) for c in v.columns))
        for v in graph.nodes
    )


def _check_fit(node: Node, estimator: Any) -> None:
    """Refuse a factor with other numbers of columns than its node."""
    if is_conditional(estimator):
        expected = (max(len(node.parents), 1), len(node.columns))
        found = (estimator.n_features_in_, estimator._response_columns)
    else:
        expected = (len(node.parents), len(node.columns))
        found = (0, estimator.n_features_in_)
    if expected != found:
        raise ValueError(f"the factor of {node.label!r} has other columns")
