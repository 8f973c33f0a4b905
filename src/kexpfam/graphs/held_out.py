"""Log densities of rows that a factor has not seen, and what its parents are worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import shared_out
from kexpfam._typing import Array, Indices
from kexpfam.graphs.factors import fit_factor, seeded
from kexpfam.graphs.structure import Node


@dataclass(frozen=True, eq=False)
class FactorGains:
    """What conditioning on parents gains on rows that were not seen, in nats per row.

    Attributes:
        labels: The nodes.
        gains: Mean of log p(y_v|parents) − log p(y_v), (k,); not a number for roots.
        errors: Standard errors of the gains, (k,).
        scores: Mean of log p(y_v|parents), of log p(y_v) for roots, (k,).

    Example:
        >>> print(FactorGains(("a", "b"), np.array([np.nan, 0.5]),
        ...                   np.array([np.nan, 0.02]), np.array([-1.4, -0.9])))
        node  held-out log density  gained by its parents
        a                   -1.400
        b                   -0.900  +0.500 ± 0.020
    """

    labels: tuple[str, ...]
    gains: Array
    errors: Array
    scores: Array

    @property
    def total(self) -> float:
        """The gain over independent columns."""
        return float(np.nansum(self.gains))

    def by_label(self) -> dict[str, dict[str, float]]:
        """Gains and errors of nodes with parents, as a picture takes them."""
        inner = [i for i, gain in enumerate(self.gains) if not np.isnan(gain)]
        return {
            "gains": {self.labels[i]: float(self.gains[i]) for i in inner},
            "gain_errors": {self.labels[i]: float(self.errors[i]) for i in inner},
        }

    def __str__(self) -> str:
        width = max(4, *(len(label) for label in self.labels))
        lines = [f"{'node':<{width}}  held-out log density  gained by its parents"]
        rows = zip(self.labels, self.scores, self.gains, self.errors, strict=True)
        for label, score, gain, error in rows:
            gained = "" if np.isnan(gain) else f"  {gain:+.3f} ± {error:.3f}"
            lines.append(f"{label:<{width}}  {score:>20.3f}{gained}")
        return "\n".join(lines)


def dealt_folds(n: int, cv: int, rng: np.random.Generator) -> list[Indices]:
    """Rows of each fold."""
    return [np.sort(fold) for fold in np.array_split(rng.permutation(n), cv)]


def held_out(
    tasks: Sequence[tuple[Node, Any]],
    Y: Array,
    folds: list[Indices],
    n_jobs: int | None,
    rng: np.random.Generator | None = None,
) -> list[Array]:
    """Log density of each row under each factor, fitted without the row's fold.

    Args:
        tasks: Nodes, and the estimators of their factors.
        Y: Rows of the whole table, (n, d).
        folds: Rows of each fold.
        n_jobs: Processes.
        rng: Seeds of estimators without one.
    """
    calls = [
        (node, seeded(estimator, rng), Y, fold)
        for node, estimator in tasks
        for fold in folds
    ]
    results = shared_out(_fold_log_density, calls, n_jobs, prefer="processes")
    flat = [log_p for some in results for log_p in some]
    found = []
    for i in range(len(tasks)):
        log_p = np.empty(len(Y))
        for fold, part in zip(folds, flat[i * len(folds) :], strict=False):
            log_p[fold] = part
        found.append(log_p)
    return found


def _fold_log_density(node: Node, estimator: Any, Y: Array, fold: Indices) -> Array:
    kept = np.setdiff1d(np.arange(len(Y)), fold, assume_unique=True)
    factor, _ = fit_factor(node, estimator, Y[kept], None)
    return factor.log_density(Y[fold])


def mean_and_error(values: Array) -> tuple[float, float]:
    """Mean over rows, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
