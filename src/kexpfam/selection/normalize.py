"""Log densities of held-out responses on shared nodes.

The density that is linear in the logarithm between nodes is what is evaluated, and the
trapezoidal sum, which is never below its integral, is what it is divided by: no density
integrates to more than one.
"""

import numpy as np

from kexpfam._typing import Array
from kexpfam.partition import Nodes


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
