"""How tempering went, in the figures that say whether to trust it."""

from dataclasses import dataclass

from kexpfam._typing import Array, Indices


@dataclass(frozen=True, eq=False)
class TemperingReport:
    """Diagnosis of the draws from n densities by tempered sequential Monte Carlo.

    Attributes:
        log_partition: log Z in the coordinates of the kernel, (n,).
        log_partition_error: Its standard error, (n,).
        levels: Temperatures between base density and target, (n,).
        acceptance: Acceptance rate of the moves at the target, (n,).
        ancestors: How many of the first particles have descendants among the last,
            (n,).
    """

    log_partition: Array
    log_partition_error: Array
    levels: Indices
    acceptance: Array
    ancestors: Indices

    def __str__(self) -> str:
        n = len(self.levels)
        if not n:
            return "no densities"
        return (
            f"{n} densities, up to {self.levels.max()} levels; acceptance "
            f"{self.acceptance.min():.2f} or more, {self.ancestors.min()} ancestors or "
            f"more, standard error of log Z up to {self.log_partition_error.max():.3f}"
        )
