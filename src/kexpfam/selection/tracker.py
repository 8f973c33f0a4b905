"""Keeps the trials of a search, tells its progress, and ends it well."""

import math
from collections.abc import Callable

from kexpfam._progress import ProgressBar
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Kernel
from kexpfam.selection.objectives import with_lengthscale
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.result import SearchResult, Trial

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
        """Why the search stopped: its own reason, or "interrupted" by Ctrl-C.

        Raises:
            KeyboardInterrupt: It came before the first trial was done.
        """
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
        """The best trial and how it was found.

        Raises:
            IllConditionedError: No trial has a finite value.
        """
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
