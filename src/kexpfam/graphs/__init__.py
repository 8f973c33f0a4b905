"""Joint densities along directed acyclic graphs."""

from kexpfam.graphs.evidence import Imputation, WeightedDraws
from kexpfam.graphs.factorized import FactorizedDensity
from kexpfam.graphs.held_out import FactorGains, OrderProposal, propose_order
from kexpfam.graphs.orders import ColumnOrder
from kexpfam.graphs.structure import Graph, Node

__all__ = [
    "ColumnOrder",
    "FactorGains",
    "FactorizedDensity",
    "Graph",
    "Imputation",
    "Node",
    "OrderProposal",
    "WeightedDraws",
    "propose_order",
]
