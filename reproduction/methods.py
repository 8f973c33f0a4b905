"""Who is measured: estimators by the names that tables use.

"-F" is the full graph, every column given all before it, "-M" the Markov graph, every
column given the one before it; "-F8" is an average over eight orders. Tasks run side by
side, so that each has one thread.
"""

import math
from typing import Any

from kexpfam import KCEF, AutoKCEF, FactorizedDensity
from kexpfam.base_densities import GaussianBase
from kexpfam.baselines import (
    LSCDE,
    RNADE,
    ConditionalMeanEmbedding,
    ConditionalRNADE,
    KernelQuantileRegression,
)
from kexpfam.selection import PaperGrid
from reproduction.protocol import Method

PAPER = "KCEF, paper's configuration"
# The same on the grid of the authors' code, by held-out score and by likelihood.
NARROW_SCORE = "KCEF, narrow grid, score"
NARROW_LIKELIHOOD = "KCEF, narrow grid, likelihood"
PAPER_RNADE = "RNADE, paper's grid"

# Who is measured on joint densities, in the order of tables.
JOINT = (
    "AutoKCEF-F",
    "AutoKCEF-M",
    "KCEF-F",
    "KCEF-M",
    "LSCDE-F",
    "LSCDE-M",
    "RNADE",
)

_GRAPHS = {"F": "full", "M": "markov"}


def paper_kcef(
    seed: int, *, select: str = "score", grid: PaperGrid | None = None
) -> KCEF:
    """N(0, 2²) base, exact fit, held-out score on the paper's grid of 20 x 20."""
    return KCEF(
        base=GaussianBase(scale=2.0),
        select=select,
        search=grid or PaperGrid(),
        n_jobs=1,
        random_state=seed,
    )


CONDITIONAL = {
    # A density, as the others have, whatever y looks like
    "AutoKCEF": Method(
        lambda seed: AutoKCEF(lower=-math.inf, atoms=False, n_jobs=1, random_state=seed)
    ),
    "KCEF": Method(lambda seed: KCEF(n_jobs=1, random_state=seed)),
    PAPER: Method(paper_kcef),
    NARROW_SCORE: Method(lambda seed: paper_kcef(seed, grid=PaperGrid.narrow())),
    NARROW_LIKELIHOOD: Method(
        lambda seed: paper_kcef(seed, select="likelihood", grid=PaperGrid.narrow())
    ),
    "LSCDE": Method(lambda seed: LSCDE(random_state=seed), can_vanish=True),
    "RNADE": Method(lambda seed: ConditionalRNADE.paper(random_state=seed)),
    "KQR": Method(lambda seed: KernelQuantileRegression(n_jobs=1, random_state=seed)),
    "CME": Method(lambda seed: ConditionalMeanEmbedding(n_jobs=1, random_state=seed)),
}


def joint(method: str, seed: int) -> Any:
    """An estimator of a joint density: RNADE, or a method along a graph.

    RNADE has two layers of 100 units and ten components; "RNADE, paper's grid" chooses
    the size of one layer by cross-validation, which takes sixty times as many fits.
    """
    if method == "RNADE":
        return RNADE(random_state=seed)
    if method == PAPER_RNADE:
        return RNADE.paper(random_state=seed)
    name, _, graph = method.rpartition("-")
    factor = CONDITIONAL[name].make(seed)
    # The first column has no condition: KCEF is KEF there, and the others are fitted
    # with a constant one.
    root = None if name == "KCEF" else factor
    return FactorizedDensity(
        graph=_GRAPHS[graph[0]],
        factor=factor,
        root=root,
        orders=int(graph[1:] or 1),
        random_state=seed,
    )
