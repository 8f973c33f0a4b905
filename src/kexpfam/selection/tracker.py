"""The trials of a search while it runs, what it found, and why it stopped."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from kexpfam._progress import ProgressBar
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Kernel, SumOfProducts, separable
from kexpfam.selection.parameters import Bounds, Parameters, Penalty, with_lengthscale


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


# Called after each trial with the trials done, their total, and the best value so far.
Progress = Callable[[int, int, float], None]


class Tracker:
    """The trials of one search while it runs.

    Attributes:
        trials: All trials so far.
    """

    def __init__(
        self, method: str, total: int, progress: Progress | None, *, verbose: bool
    ) -> None:
        """Take the name of the search, its trials, and who wants to know of them."""
        self.trials: list[Trial] = []
        self._method = method
        self._total = total
        self._progress = progress
        self._verbose = verbose
        self._bar: ProgressBar | None = None

    @property
    def best(self) -> Trial:
        """The trial with the smallest value."""
        return min(self.trials, key=lambda trial: trial.value)

    @property
    def worst(self) -> float:
        """The largest finite value so far, or zero."""
        values = [trial.value for trial in self.trials]
        return max(filter(math.isfinite, values), default=0.0)

    def record(
        self, parameters: Parameters, value: float, penalty: float = 0.0
    ) -> None:
        """Add a trial and tell of it; what is not a number is infinitely bad."""
        value = math.inf if math.isnan(value) else float(value)
        self.trials.append(Trial(parameters, value, penalty))
        for listener in (self._bar, self._progress):
            if listener is not None:
                listener(len(self.trials), self._total, self.best.value)

    def run(self, search: Callable[[], str]) -> str:
        """Why the search stopped: its own reason, or "interrupted" by Ctrl-C."""
        with ProgressBar(self._method, shown=self._verbose) as self._bar:
            try:
                return search()
            except KeyboardInterrupt:
                if not self.trials:
                    raise
                return "interrupted"

    def result(
        self,
        kernels: tuple[Kernel, Kernel],
        objective: str,
        n_folds: int,
        bounds: Bounds,
        penalty: Penalty | None,
        reason: str,
    ) -> SearchResult:
        """The best trial and how it was found."""
        best = self.best
        if not math.isfinite(best.value):
            raise IllConditionedError(
                f"The {self._method} found no hyperparameters that can be fitted, in "
                f"{len(self.trials)} trials; allow a larger regularization or fewer "
                f"centres."
            )
        chosen = best.parameters
        return SearchResult(
            kernel_x=with_lengthscale(kernels[0], chosen.lengthscale_x),
            kernel_y=with_lengthscale(kernels[1], chosen.lengthscale_y),
            best=best,
            path=tuple(self.trials),
            active_bounds=bounds.active(chosen),
            reason=reason,
            method=self._method,
            objective=objective,
            n_folds=n_folds,
            penalty=penalty,
            bounds=bounds,
        )
