"""Models beside each other on the same rows: paired differences of their scores.

Rows that are hard for one model are hard for others, too, so that differences row by
row vary less than those of means over rows that have nothing to do with each other.

Log losses are comparable only for densities with respect to the same measure: one with
atoms and one without have log densities of different things. Such differences are not
formed. CRPS compares distribution functions, whatever their densities are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import check_choice, check_weights
from kexpfam.data import observed_beside
from kexpfam.metrics.evaluation import blocks_of_rows, heading
from kexpfam.metrics.measures import measure_in_words, measure_of
from kexpfam.metrics.observations import Estimate, estimate, finite_numbers
from kexpfam.metrics.scores import crps_values, log_loss_values

# Names of scores, as in tables and pictures.
_WORDS = {"log_loss": "log loss", "crps": "CRPS"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several models on the same rows; `print` shows a table.

    Attributes:
        names: Names of the models; others are compared with the first.
        values: Scores of each row, "log_loss" and, for one column of y, "crps", each
            (models, n).
        measures: What the densities of each model are with respect to, by `measure_of`.
        sample_weight: Weight of each row, (n,).
    """

    names: tuple[str, ...]
    values: Mapping[str, Array]
    measures: tuple[Any, ...]
    sample_weight: Array

    def score(self, name: str, metric: str = "log_loss") -> Estimate:
        """Mean score of a model, with its standard error."""
        return estimate(self._rows(name, metric), self.sample_weight)

    def difference(
        self, name: str, other: str | None = None, metric: str = "log_loss"
    ) -> Estimate:
        """Mean of the differences row by row, with its standard error.

        Args:
            name: A model.
            other: The one whose scores are subtracted; None for the first.
            metric: "log_loss" or "crps".

        Returns:
            It is negative if `name` is the better.

        Raises:
            ValueError: An unknown name or score, or log losses with respect to
                different measures.
        """
        other = self.names[0] if other is None else other
        first, second = self._rows(name, metric), self._rows(other, metric)
        if metric == "log_loss" and not self._same_measure(name, other):
            raise ValueError(
                f"log losses of {name!r} and {other!r} are not comparable: their "
                f"densities are with respect to different measures, "
                f"{measure_in_words(*self._measure(name))} and "
                f"{measure_in_words(*self._measure(other))}; compare 'crps'."
            )
        # Where both are infinite, neither is better.
        both = np.isinf(first) & (first == second)
        gaps = np.where(both, 0.0, first) - np.where(both, 0.0, second)
        return estimate(gaps, self.sample_weight)

    def plot(self, axes: Any = None) -> Any:
        """Draw differences from the first model with 95 % intervals; returns the Axes.

        Args:
            axes: One Axes for each score; None for a new figure.
        """
        from kexpfam.display import plot_differences

        panels = {_WORDS[metric]: self._differences(metric) for metric in self.values}
        return plot_differences(self.names, panels, axes)

    def __str__(self) -> str:
        header = [""]
        columns = [list(self.names)]
        for metric in self.values:
            header += [_WORDS[metric], f"minus {self.names[0]}"]
            columns.append([str(self.score(name, metric)) for name in self.names])
            gaps = self._differences(metric)[1:]
            columns.append(
                ["", *("other measure" if gap is None else str(gap) for gap in gaps)]
            )
        widths = [max(map(len, column)) for column in columns]
        widths = [max(w, len(h)) for w, h in zip(widths, header, strict=True)]
        lines = [heading(len(self.sample_weight))]
        for cells in [header, *zip(*columns, strict=True)]:
            padded = (f"{c:{w}}" for c, w in zip(cells, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
        if len(self.names) != len(self._of_one_measure()):
            lines.append(
                "Densities are with respect to different measures, so that log losses "
                "are not comparable."
            )
        return "\n".join(lines)

    def _differences(self, metric: str) -> list[Estimate | None]:
        """Differences from the first of all; None where there is none."""
        comparable = self.names if metric == "crps" else self._of_one_measure()
        return [
            self.difference(name, metric=metric) if name in comparable else None
            for name in self.names
        ]

    def _of_one_measure(self) -> list[str]:
        """Those with the measure of the first."""
        first = self.names[0]
        return [name for name in self.names if self._same_measure(name, first)]

    def _same_measure(self, name: str, other: str) -> bool:
        return bool(self._measure(name) == self._measure(other))

    def _measure(self, name: str) -> Any:
        return self.measures[self.names.index(name)]

    def _rows(self, name: str, metric: str) -> Array:
        check_choice("name", name, self.names)
        check_choice("metric", metric, self.values)
        return self.values[metric][self.names.index(name)]


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> Comparison:
    """Compare models on rows that none of them was fitted to, pair by pair.

    Standard errors take rows as independent, and models as given: how they would vary
    with other training rows is not in them.

    Args:
        models: Anything fitted with `given(X)`, by name; the first is the one that the
            others are compared with.
        X: Conditions, (n, p).
        y: Observations, (n,), or names of columns of X; of several columns, (n, d), log
            losses only.
        sample_weight: Weight of each row; only ratios matter.

    Returns:
        Scores and differences, with standard errors.

    Raises:
        ValueError: No models, lengths that differ, or NaN.

    References:
        Diebold and Mariano, Comparing predictive accuracy, JBES 1995.

    Example:
        >>> from kexpfam import KCEF
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(400, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=400)
        >>> train, test = slice(200), slice(200, None)
        >>> models = {
        ...     "chosen": KCEF().fit(x[train], y[train]),
        ...     "smooth": KCEF(regularization=10.0).fit(x[train], y[train]),
        ... }
        >>> result = compare(models, x[test], y[test])
        >>> result.difference("smooth").value > 0
        True
    """
    values = finite_numbers(observed_beside(X, y))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not models:
        raise ValueError("models must hold one at least, by name, got none.")
    if len(X) != len(values):
        raise ValueError(
            f"X and y must have as many rows, got {len(X)} and {len(values)}."
        )
    found = [_scores(model, X, values) for model in models.values()]
    metrics = found[0][0]
    return Comparison(
        tuple(map(str, models)),
        {name: np.stack([scores[name] for scores, _ in found]) for name in metrics},
        tuple(measure for _, measure in found),
        check_weights(sample_weight, len(values)),
    )


def _scores(model: Any, X: Any, y: Array) -> tuple[dict[str, Array], Any]:
    """Scores of each row, by name, and the measure of the densities."""
    functions = {"log_loss": log_loss_values}
    if y.ndim == 1:
        functions["crps"] = crps_values
    parts: dict[str, list[Array]] = {name: [] for name in functions}
    measure = None
    for rows, conditions in blocks_of_rows(X, len(y)):
        p = model.given(conditions)
        measure = measure_of(p)
        for name, function in functions.items():
            parts[name].append(function(p, y[rows]))
    return {name: np.concatenate(part) for name, part in parts.items()}, measure
