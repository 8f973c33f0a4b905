"""Log densities of held-out responses on shared nodes.

The density that is linear in the logarithm between nodes is what is evaluated, and the
trapezoidal sum, which is never below its integral, is what it is divided by: no density
integrates to more than one.
"""

from collections.abc import Sequence

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.partition import Nodes


def nodes_inside(
    bases: Sequence[BaseDensity], U: Array, reach: float, resolution: float
) -> Nodes:
    """Nodes fine near responses U (n, 1), within the support of the base densities.

    The ends of a bounded support are nodes; with nodes beyond them, a response between
    the last node inside and the end would have a neighbour where q0 is zero.
    """
    nodes = Nodes.covering(U, reach, resolution)
    supports = np.array([base.support(1)[0] for base in bases])
    low, high = supports[:, 0].min(), supports[:, 1].max()
    if low < nodes.points[0] and high > nodes.points[-1]:
        return nodes
    inside = nodes.points[(nodes.points > low) & (nodes.points < high)]
    ends = [np.array([end]) if np.isfinite(end) else np.zeros(0) for end in (low, high)]
    points = np.concatenate([ends[0], inside, ends[1]])
    return Nodes.trapezoidal(points)


def log_densities(nodes: Nodes, log_tilted: Array, u: Array) -> tuple[Array, Array]:
    """Log density of one response per row, and the mass of each node.

    Args:
        nodes: g nodes.
        log_tilted: Log q0 + T of each row at the nodes, (n, g); destroyed.
        u: The responses, (n,).

    Returns:
        Log densities (n,), −∞ where q0 vanishes at a neighbouring node, and masses
        (n, g) that sum to one.
    """
    rows = np.arange(len(u))
    left, share = nodes.interpolation(u)
    with np.errstate(invalid="ignore"):  # 0 · (−∞) outside the support of q0
        log_p = (1 - share) * log_tilted[rows, left]
        log_p += share * log_tilted[rows, left + 1]
    log_tilted += nodes.log_weights
    peak = log_tilted.max(axis=1)
    log_tilted -= peak[:, None]
    masses = np.exp(log_tilted, out=log_tilted)
    total = masses.sum(axis=1)
    masses /= total[:, None]
    log_p -= np.log(total) + peak
    return np.nan_to_num(log_p, nan=-np.inf, neginf=-np.inf, posinf=np.inf), masses
