"""All metrics at once, and which way each of them points."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from kexpfam._typing import Array, ArrayLike, Indices
from kexpfam._validation import check_weights
from kexpfam.data import observed_beside
from kexpfam.metrics.calibration import (
    Uniformity,
    central_values,
    coverage,
    hpd_coverage,
    hpd_values,
    pit,
    pit_distance,
    pit_uniformity,
)
from kexpfam.metrics.measures import warn_if_measures_differ
from kexpfam.metrics.observations import (
    Estimate,
    Observations,
    check_open,
    estimate,
    finite_numbers,
)
from kexpfam.metrics.scores import (
    cde_loss,
    cde_loss_values,
    crps,
    crps_values,
    interval_score,
    interval_score_values,
    log_loss,
    log_loss_values,
    pinball_loss,
)

# Confidence of the intervals that are scored.
_INTERVAL = 0.9

# With fewer rows the table has no test of the PIT: it could find next to nothing.
FEWEST_TESTED = 5


@dataclass(frozen=True)
class Metric:
    """A metric and its direction.

    Attributes:
        name: The name of the function.
        function: Takes (p, y, *, sample_weight=None) and returns a number.
        direction: "lower" or "higher" is better, or "calibration": nearer the target.
        target: What a calibrated model gets; None for other directions.
    """

    name: str
    function: Callable[..., Any]
    direction: Literal["lower", "higher", "calibration"]
    target: float | None = None

    def badness(self, value: float) -> float:
        """The value turned so that lower is better, to rank models.

        Example:
            >>> METRICS["coverage"].badness(0.8) > METRICS["coverage"].badness(0.95)
            True
        """
        if self.target is not None:
            return abs(value - self.target)
        return -value if self.direction == "higher" else value


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("log_loss", log_loss, "lower"),
            Metric("crps", crps, "lower"),
            Metric("cde_loss", cde_loss, "lower"),
            Metric("pinball_loss", pinball_loss, "lower"),
            Metric("interval_score", interval_score, "lower"),
            Metric("coverage", coverage, "calibration", 0.9),
            Metric("hpd_coverage", hpd_coverage, "calibration", 0.9),
            Metric("pit_distance", pit_distance, "calibration", 0.0),
        )
    }
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good densities are on some rows; `print` shows a table.

    Attributes:
        log_loss: Mean of −log p(y|x).
        crps: Mean continuous ranked probability score.
        cde_loss: Mean of ∫p² − 2p(y|x).
        interval_score: Mean score of the central 90 % intervals.
        confidence: Nominal coverages, (k,).
        coverage: Observed coverage of central intervals, one for each.
        hpd_coverage: Observed coverage of highest-density regions, one for each.
        pit_uniformity: Kolmogorov-Smirnov test of the values of `pit`.
        pit: F(y) of each row, (n,).
        hpd_values: P(p(Y) ≥ p(y)) of each row, (n,).
        sample_weight: Weight of each row, (n,).
    """

    log_loss: Estimate
    crps: Estimate
    cde_loss: Estimate
    interval_score: Estimate
    confidence: Array
    coverage: tuple[Estimate, ...]
    hpd_coverage: tuple[Estimate, ...]
    pit_uniformity: Uniformity
    pit: Array
    hpd_values: Array
    sample_weight: Array

    def plot(self, axes: Any = None) -> Any:
        """Draw the PIT histogram and the coverage curve; returns both Axes.

        Args:
            axes: Two Axes to draw on; None for a new figure.
        """
        from kexpfam.display import plot_calibration

        return plot_calibration(
            self.pit, self.hpd_values, axes, sample_weight=self.sample_weight
        )

    def __str__(self) -> str:
        scores = {
            "log loss": self.log_loss,
            "CRPS": self.crps,
            "CDE loss": self.cde_loss,
            f"interval score {_INTERVAL:.0%}": self.interval_score,
        }
        lines = [
            heading(len(self.pit)),
            *(f"  {name:20} {score}" for name, score in scores.items()),
            f"coverage{'':14} {'central':18} highest density",
        ]
        rows = zip(self.confidence, self.coverage, self.hpd_coverage, strict=True)
        lines += [
            f"  {f'{level:.4g}':20} {central!s:18} {hpd}"
            for level, central, hpd in rows
        ]
        test = self.pit_uniformity
        if len(self.pit) >= FEWEST_TESTED:
            lines.append(
                f"PIT uniform?{'':10} distance {test.statistic:.3g}, "
                f"p = {test.pvalue:.2g}"
            )
        return "\n".join(lines)


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    confidence: ArrayLike = (0.5, 0.8, 0.9, 0.95),
) -> Evaluation:
    """Evaluate a model of one column of y on rows that it was not fitted to.

    Args:
        model: Anything fitted with `given(X)`.
        X: Conditions, (n, p).
        y: Observations, (n,), or the name of their column in X.
        sample_weight: Weight of each row; only ratios matter.
        confidence: Nominal coverages to look at, strictly between 0 and 1.

    Returns:
        All numbers, with standard errors.

    Raises:
        ValueError: Several columns of y, lengths that differ, NaN, or levels out of
            range.

    Example:
        >>> from kexpfam import KCEF
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(400, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=400)
        >>> result = evaluate(KCEF().fit(x[:200], y[:200]), x[200:], y[200:])
        >>> result.crps.value < 0.2
        True
    """
    values, weights, levels = _checked(X, y, sample_weight, confidence)
    return _summary(metric_rows(model, X, values), weights, levels)


def cross_evaluate(
    model: Any,
    X: Array,
    y: ArrayLike,
    folds: Iterable[tuple[Indices, Indices]],
    *,
    sample_weight: ArrayLike | None = None,
    confidence: ArrayLike = (0.5, 0.8, 0.9, 0.95),
) -> Evaluation:
    """Evaluate a way to fit by cross-validation: every row by a fit without it.

    A `MeasureWarning` says if some folds found atoms or counts in y and others did not.
    Standard errors take rows as independent; that the fits share rows is not in them.

    Args:
        model: An estimator, which is cloned and fitted anew for each fold.
        X: Conditions, (n, p).
        y: Observations, (n,).
        folds: Rows to fit to and rows to score, as the `split` of scikit-learn's
            splitters gives them. Rows that are never scored do not count.
        sample_weight: Weight of each row, in fits and means.
        confidence: Nominal coverages to look at, strictly between 0 and 1.

    Returns:
        All numbers, with standard errors; rows are in the order of the folds.

    Example:
        >>> from kexpfam import KCEF
        >>> from sklearn.model_selection import KFold
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(90, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=90)
        >>> result = cross_evaluate(KCEF(select=None), x, y, KFold(3).split(x))
        >>> result.pit.shape
        (90,)
    """
    values, weights, levels = _checked(X, y, sample_weight, confidence)
    found, order, kinds = [], [], {}
    for train, test in folds:
        given = None if sample_weight is None else weights[train]
        fitted = clone(model).fit(X[train], values[train], sample_weight=given)
        found.append(metric_rows(fitted, X[test], values[test]))
        order.append(test)
        kinds[f"fold {len(order)}"] = fitted.given(X[test][:1])
    if not order:
        raise ValueError("folds must hold one pair of rows at least, got none.")
    warn_if_measures_differ(kinds)
    return _summary(np.hstack(found), weights[np.concatenate(order)], levels)


def heading(n: int) -> str:
    """The line above means of n rows; one row has no standard error.

    Example:
        >>> heading(1)
        '1 row (lower is better)'
    """
    if n == 1:
        return "1 row (lower is better)"
    return f"{n} rows (mean ± standard error; lower is better)"


def _checked(
    X: Any, y: ArrayLike, sample_weight: ArrayLike | None, confidence: ArrayLike
) -> tuple[Array, Array, Array]:
    values = finite_numbers(observed_beside(X, y))
    n = len(values)
    if len(X) != n:
        raise ValueError(f"X and y must have as many rows, got {len(X)} and {n}.")
    levels = check_open("confidence", confidence)
    return values, check_weights(sample_weight, n), levels


def blocks_of_rows(
    X: Any, n: int, block_rows: int = 1024
) -> Iterator[tuple[slice, Any]]:
    """Some of n rows at a time: which, and their conditions, array or frame."""
    for start in range(0, n, block_rows):
        rows = slice(start, start + block_rows)
        yield rows, X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def metric_rows(model: Any, X: Any, y: Array, *, block_rows: int = 1024) -> Array:
    """What the metrics need of each row, one line each, (6, n).

    They are taken in blocks: integrals need some thousand numbers per row.
    """
    blocks, rng = [], np.random.default_rng(0)  # of draws at atoms
    for rows, conditions in blocks_of_rows(X, len(y), block_rows):
        observed = Observations.of(model.given(conditions), y[rows], "evaluate")
        at = observed.y
        block = (
            log_loss_values(observed, at),
            crps_values(observed, at),
            cde_loss_values(observed, at),
            interval_score_values(observed, at, _INTERVAL),
            pit(observed, at, random_state=rng),
            hpd_values(observed, at, random_state=rng),
        )
        blocks.append(np.stack(block))
    return np.hstack(blocks)


def _summary(rows: Array, weights: Array, levels: Array) -> Evaluation:
    log_losses, crps_, cde_losses, intervals, pits, hpds = rows
    central = central_values(pits)
    return Evaluation(
        log_loss=estimate(log_losses, weights),
        crps=estimate(crps_, weights),
        cde_loss=estimate(cde_losses, weights),
        interval_score=estimate(intervals, weights),
        confidence=levels,
        coverage=tuple(estimate(1.0 * (central <= a), weights) for a in levels),
        hpd_coverage=tuple(estimate(1.0 * (hpds <= a), weights) for a in levels),
        pit_uniformity=pit_uniformity(pits, sample_weight=weights),
        pit=pits,
        hpd_values=hpds,
        sample_weight=weights,
    )
