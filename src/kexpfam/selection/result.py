"""What a search found, how it went, and why it stopped."""

from dataclasses import dataclass

from kexpfam.kernels import Kernel, SumOfProducts, separable
from kexpfam.selection.parameters import Bounds, Parameters, Penalty


@dataclass(frozen=True)
class Trial:
    """One set of hyperparameters and what it is worth.

    Attributes:
        parameters: The hyperparameters.
        value: The objective, with the penalty; smaller is better.
        penalty: How much of the value is the penalty.
    """

    parameters: Parameters
    value: float
    penalty: float = 0.0


@dataclass(frozen=True)
class SearchResult:
    """The best hyperparameters of a search.

    Attributes:
        kernel_x: Chosen kernel of x.
        kernel_y: Chosen kernel of y.
        best: The best trial.
        path: All trials, in the order they were made.
        active_bounds: Bounds that the best trial lies on, by name.
        reason: Why the search stopped.
        method: Name of the search.
        objective: "likelihood" (mean negative log density) or "score".
        n_folds: Number of folds.
        penalty: What was added to the objective, or None.
        bounds: Where parameters were allowed to be.
    """

    kernel_x: Kernel
    kernel_y: Kernel
    best: Trial
    path: tuple[Trial, ...]
    active_bounds: tuple[str, ...]
    reason: str
    method: str
    objective: str
    n_folds: int
    penalty: Penalty | None
    bounds: Bounds

    @property
    def regularization(self) -> float:
        """Chosen λ."""
        return self.best.parameters.regularization

    @property
    def value(self) -> float:
        """The objective of the best trial, with the penalty."""
        return self.best.value

    @property
    def kernel(self) -> SumOfProducts:
        """Chosen joint kernel."""
        return separable(self.kernel_x, self.kernel_y)

    def table(self, rows: int = 5) -> str:
        """The best trials, one in each line."""
        ranked = sorted(self.path, key=lambda trial: trial.value)[:rows]
        lines = [f"{'value':>10}  {'penalty':>8}  parameters"]
        lines += [
            f"{trial.value:10.5g}  {trial.penalty:8.3g}  {trial.parameters}"
            for trial in ranked
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        active = ", ".join(self.active_bounds) or "none"
        return "\n".join(
            [
                f"{self.method} by held-out {self.objective} in {self.n_folds} folds: "
                f"{self.value:.5g} after {len(self.path)} trials",
                f"  chosen: {self.best.parameters}",
                f"  stopped: {self.reason}",
                f"  bounds: {self.bounds}; active: {active}",
                f"  penalty: {self.penalty or 'none'}",
                *(f"  {line}" for line in self.table().splitlines()),
            ]
        )
