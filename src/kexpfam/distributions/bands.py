"""Error bars of a density itself: how else p(y) might be, given other rows.

Replicates are fits to the same rows with random weights, standard exponential ones: the
Bayesian bootstrap. Their densities at a point vary as those of fits to other rows
would, to first order. Where a density is an average p = Σ w_c p_c, its components vary
about it, too, and nobody knows which of them is right. By the law of total variance
both are added. Square roots of densities have errors that are nearly the same
everywhere, and are hardly skewed, so the band is that of

    √p ± t_{B−1} (var_b √p_b + Σ w_c (√p_c − √p)²)^½

for B replicates. It holds at each y for itself. What all fits have wrong in common,
such as a step that is smoothed, is not in it.

References:
    Rubin, The Bayesian bootstrap, Annals of Statistics 1981.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from kexpfam._parallel import cached_property
from kexpfam._typing import Array


class Band(NamedTuple):
    """A pointwise band of densities.

    Attributes:
        y: Where, (n, q), or (q,) for a single density.
        lower: Lower ends of the band of p(y), the same shape.
        upper: Upper ends.
    """

    y: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Replicates:
    """What the uncertainty of n densities is told from.

    Attributes:
        components: Densities that they are an average of, each at n conditions.
        weights: Weights of these, (k,).
        fits: The densities of each replicate at conditions.
        X: The conditions, (n, p).
    """

    components: Sequence[Any]
    weights: Array
    fits: Callable[[Array], Sequence[Any]]
    X: Array

    def rows(self, index: Any) -> "Replicates":
        """Of some of the densities."""
        parts = [part._rows(index, single=False) for part in self.components]
        return Replicates(parts, self.weights, self.fits, self.X[index])

    def root_std(self, Y: Array, p: Array) -> Array:
        """Standard deviation of √p, from points and densities, (n, q, d) -> (n, q)."""
        roots = [np.exp(0.5 * fit._log_pdf(Y)) for fit in self._densities]
        sampling = np.var(roots, axis=0, ddof=1)
        terms = np.stack([part._log_pdf(Y) for part in self.components])
        weights = self.weights[:, None, None]
        total = special.logsumexp(terms, axis=0, b=weights)
        # In units of √p, which a map of PIT values changes for all of them alike; where
        # p is zero there is nothing.
        gaps = terms - np.where(np.isneginf(total), 0.0, total)
        between = (weights * np.square(np.exp(0.5 * gaps) - 1.0)).sum(axis=0)
        return np.sqrt(sampling + between * p)

    def factor(self, level: float) -> float:
        """How many standard deviations a band reaches to either side."""
        return float(stats.t(len(self._densities) - 1).ppf(0.5 * (1.0 + level)))

    @cached_property
    def _densities(self) -> Sequence[Any]:
        return self.fits(self.X)
