"""How sampling went, in the figures that people look at."""

from dataclasses import dataclass

from kexpfam._typing import Array


@dataclass(frozen=True, eq=False)
class SamplingReport:
    """Diagnosis of the draws from n densities of d columns.

    Attributes:
        r_hat: Rank-normalised split R̂ of each column, (n, d); 1 is perfect.
        effective_sample_size: Effective number of draws of each column, (n, d).
        divergences: Divergent transitions of each density, (n,).
        acceptance: Mean acceptance rate, (n,).
    """

    r_hat: Array
    effective_sample_size: Array
    divergences: Array
    acceptance: Array
