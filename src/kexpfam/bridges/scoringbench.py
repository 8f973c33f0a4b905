"""Estimators of p(y|x) for ScoringBench, which compares densities by many scores.

ScoringBench asks a model for `fit`, `predict` and `predict_distribution`, and reads a
prediction as probabilities of bins. Bins of a row here reach over all but a millionth
of its mass, finer where most of it is, and their probabilities are differences of the
distribution function: exact, with atoms where y has some.

ScoringBench is no package to be installed by name, so its classes are used where it is
found, and otherwise a plain container with the same fields is returned.
"""

import importlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from kexpfam._typing import Array
from kexpfam._validation import check_count
from kexpfam.estimators import AutoKCEF

# Where ScoringBench has had its container of a prediction.
_HOMES = ("scoringbench.univariate.wrappers.base", "scoringbench.wrappers.base")

# Mass of each tail beyond the bins, and beyond those of even width.
_TAIL, _RIM = 1e-6, 1e-3

# Bins of a tail, which has the mass between the two.
_TAIL_BINS = 8


@dataclass(frozen=True, eq=False)
class BinnedPrediction:
    """Probabilities of bins, a row for each density."""

    probas: Array  # Probability of each bin, (n, k); rows sum to one
    bin_edges: Array  # Ends of the bins, (n, k + 1)
    bin_midpoints: Array  # (n, k)
    mean: Array  # Of each density, (n,)
    train_range: tuple[float, float]  # Of the y that was fitted


class ScoringBenchWrapper:
    """An estimator of this package under the interface of ScoringBench's models.

    Args:
        estimator: Any that estimates p(y|x) for one column of y; None for `AutoKCEF()`.
        n_bins: Bins of one prediction.

    Attributes:
        estimator_: What was fitted.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> from kexpfam.bridges.scoringbench import ScoringBenchWrapper
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(80, 1))
        >>> y = X[:, 0] + rng.normal(size=80)
        >>> model = ScoringBenchWrapper(KCEF(select=None), n_bins=100).fit(X, y)
        >>> p = model.predict_distribution(X[:3])
        >>> p.probas.shape, p.bin_edges.shape
        ((3, 100), (3, 101))
    """

    def __init__(self, estimator: Any = None, n_bins: int = 200) -> None:
        self.estimator, self.n_bins = estimator, n_bins

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a copy of the estimator to rows."""
        least = 4 * _TAIL_BINS
        self.n_bins = check_count("n_bins", self.n_bins, least=least)
        estimator = AutoKCEF() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.fit(X, y)
        known = np.asarray(y, dtype=float).ravel()
        known = known[np.isfinite(known)]
        self._train_range = float(known.min()), float(known.max())
        return self

    def predict(self, X: Any) -> Array:
        """Means, (n,)."""
        return self.estimator_.predict(X)

    def predict_distribution(self, X: Any) -> Any:
        """Probabilities of bins for each row of X.

        Returns:
            ScoringBench's `DistributionPrediction` where it can be imported, and
            otherwise a `BinnedPrediction`.
        """
        density = self.estimator_.given(X)
        edges = self._edges(density)
        below = np.array(density.cdf(edges))
        # What is beyond the bins is counted with the outermost.
        below[:, 0], below[:, -1] = 0.0, 1.0
        probas = np.maximum(np.diff(below, axis=1), 0.0)
        probas /= probas.sum(axis=1, keepdims=True)
        mean = np.asarray(density.mean())
        theirs = _container()
        if theirs is not None:
            return theirs.from_histogram(
                edges,
                probas,
                mean=mean,
                train_range=self._train_range,
                is_grid_native=True,
            )
        middles = 0.5 * (edges[:, 1:] + edges[:, :-1])
        return BinnedPrediction(probas, edges, middles, mean, self._train_range)

    def _edges(self, density: Any) -> Array:
        """Ends of bins, of even width but for the tails, (n, k + 1)."""
        tail = np.geomspace(_TAIL, _RIM, _TAIL_BINS + 1)
        lower, upper = density.quantile(tail), density.quantile(1.0 - tail[::-1])
        inner = self.n_bins - 2 * _TAIL_BINS
        middle = np.linspace(lower[:, -1], upper[:, 0], inner + 1, axis=1)
        edges = np.hstack([lower[:, :-1], middle, upper[:, 1:]])
        # Atoms that are quantiles are inside a bin, and no two ends at the same place.
        least = 1e-9 * max(self._train_range[1] - self._train_range[0], 1e-290)
        edges += least * np.arange(1, edges.shape[1] + 1)
        edges[:, 0] -= 2.0 * least
        return edges


def _container() -> Any:
    """ScoringBench's own container of a prediction; None where it is not installed."""
    for home in _HOMES:
        try:
            found = importlib.import_module(home).DistributionPrediction
        except ImportError:
            continue
        if hasattr(found, "from_histogram"):
            return found
    return None
