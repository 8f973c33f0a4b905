"""Minimisation within bounds that does not leap."""

from collections.abc import Callable

import numpy as np
from scipy import optimize

from kexpfam._typing import Array

# Projected gradients below this end a refinement: log lengthscales are then known to
# far better than the held-out objective can tell them apart.
_FLAT = 1e-5


def descend(
    evaluate: Callable[[Array], tuple[float, Array]],
    origin: Array,
    box: list[tuple[float, float]],
    tolerance: float,
) -> optimize.OptimizeResult:
    """Minimise by L-BFGS-B from the origin, with a first step of at most one.

    Within bounds on all variables, L-BFGS-B first tries a whole gradient step, which
    from a bad start ends in a corner. Dividing the objective by the size of its first
    gradient makes that step one unit of log lengthscale.
    """
    first = evaluate(origin)
    scale = 1.0 / max(1.0, float(np.abs(first[1]).max()))

    def scaled(z: Array) -> tuple[float, Array]:
        value, slope = evaluate(z) if np.any(z != origin) else first
        return scale * value, scale * slope

    options = {"maxfun": 10**6, "ftol": tolerance * scale, "gtol": _FLAT * scale}
    return optimize.minimize(
        scaled, origin, jac=True, method="L-BFGS-B", bounds=box, options=options
    )
