"""The pictures of `kexpfam plot`, drawn with the library's own displays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.coding import Coding, Feature
from kexpfam.display import ConditionalDensityDisplay

# Dots of a picture; more are a blot, and slow to open.
_MOST_DOTS = 5000

# Other features that are named in a title.
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class Along:
    """A model as a function of one feature, all others being fixed.

    Attributes:
        model: The model of all features.
        row: Where the others are, (1, p).
        column: The one that varies.
        name: Its name.
    """

    model: Any
    row: Array
    column: int
    name: str

    @property
    def feature_names_in_(self) -> list[str]:
        """As estimators have it."""
        return [self.name]

    def given(self, Z: Array) -> Any:
        """Densities at values of the feature, (g, 1)."""
        X = np.repeat(self.row, len(Z), axis=0)
        X[:, self.column] = Z[:, 0]
        return self.model.given(X)


def draw_along(
    model: Any, coding: Coding, feature: Feature, row: Array, dots: Array | None
) -> Any:
    """Heat map, quantiles and mean along a feature; returns the figure.

    Args:
        model: A fitted model.
        coding: How it sees tables.
        feature: A feature that is a number.
        row: Where the other features are, (1, p).
        dots: Observed pairs of feature and target, (n, 2), or None.
    """
    column = coding.columns.index(feature.name)
    along = Along(model, row, column, feature.name)
    ends = np.array([[feature.low], [feature.high]])
    y = None
    if dots is not None and len(dots):
        chosen = np.random.default_rng(0).permutation(len(dots))[:_MOST_DOTS]
        ends, y = dots[chosen, :1], dots[chosen, 1]
    display = ConditionalDensityDisplay.from_estimator(along, ends, y)
    axes = display.ax_
    mean = along.given(display.x[:, None]).mean()
    axes.plot(display.x, mean, color="k", linewidth=1.2, linestyle=":", label="mean")
    axes.legend(frameon=False, loc="best")
    others = [f for f in coding.features if f.name != feature.name]
    seen = "; dots: all rows" if others and y is not None else ""
    axes.set(ylabel=coding.target or "y", title=f"{_at(coding, others, row)}{seen}")
    axes.title.set_fontsize(9)
    display.colorbar_.set_label(f"p({coding.target or 'y'} | features)")
    return display.figure_


def draw_densities(
    model: Any, coding: Coding, X: Array, labels: Sequence[str], observed: Array
) -> Any:
    """Curves of p(y|x) at some conditions; returns the figure.

    Args:
        model: A fitted model.
        coding: How it sees tables.
        X: Conditions, (n, p).
        labels: A name for each.
        observed: What was observed there, drawn as a dot; NaN for nothing, (n,).
    """
    p = model.given(X)
    axes = p.plot(label=list(labels))
    seen = ~np.isnan(observed)
    if seen.any():
        heights = p.pdf(np.where(seen, observed, p.median()))
        axes.plot(observed[seen], heights[seen], "ko", markersize=5, label="observed")
        axes.legend(frameon=False)
    names = ", ".join(f.name for f in coding.features[:_MOST_NAMED])
    more = ", ..." if len(coding.features) > _MOST_NAMED else ""
    axes.set(
        xlabel=coding.target or "y", title=f"p({coding.target or 'y'} | {names}{more})"
    )
    return axes.figure


def _at(coding: Coding, others: Sequence[Feature], row: Array) -> str:
    """Where the other features are, in a title."""
    if not others:
        return ""
    cells = dict(zip(coding.columns, row[0], strict=True))
    shown = ", ".join(f"{f.name} = {_cell(f, cells)}" for f in others[:_MOST_NAMED])
    return f"at {shown}{', ...' if len(others) > _MOST_NAMED else ''}"


def _cell(feature: Feature, cells: Mapping[str, float]) -> str:
    """A value as a person writes it, from the columns of X."""
    if not feature.categories:
        return format(cells[feature.name], ".4g")
    pairs = zip(feature.categories, feature.columns, strict=True)
    # An unknown category that is ignored is none of them.
    return next((c for c, column in pairs if cells[column]), "none of the known")
