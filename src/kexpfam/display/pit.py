"""Calibration as displays: PIT with a band for all of it at once, and by region of x.

The PIT of a row, F(y|x), is uniform on [0, 1] if the densities are right. A band that
holds at each point for itself is left somewhere by most calibrated models; the one here
holds the whole curve with its probability. By region of x the same values tell where
densities are wrong, and in which way.
"""

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import binom, norm

from kexpfam._typing import Array, ArrayLike, Mask
from kexpfam._validation import as_numbers, check_count, check_probability, check_share
from kexpfam.display.along import column_relevance
from kexpfam.display.condition_rows import ConditionRows
from kexpfam.display.theme import THEME, pyplot, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Rows whose densities are held in memory at the same time.
_BLOCK = 2000


def pit_values(estimator: Any, X: Any, y: Any) -> Array:
    """F(y|x) of each row, (n,); in the jump of an atom drawn evenly, with a fixed seed.

    Args:
        estimator: A fitted model with `given`, of one column of y.
        X: Conditions, (n, p), an array or a frame.
        y: What was observed, (n,).
    """
    rows = ConditionRows.of(estimator, X)
    values = np.asarray(y, dtype=float).ravel()
    if len(values) != len(rows):
        raise ValueError(f"y must have {len(rows)} rows like X, got {len(values)}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("y contains NaN or infinity; remove these rows.")
    uniform = np.random.default_rng(0).random(len(values))
    found = np.empty(len(values))
    for start in range(0, len(values), _BLOCK):
        own = np.arange(start, min(start + _BLOCK, len(values)))
        p = rows.given(own)
        found[own] = p.cdf(values[own])
        if getattr(p, "measure", "lebesgue") != "lebesgue":
            found[own] -= uniform[own] * p.pmf(values[own])
    return np.clip(found, 0.0, 1.0)


def simultaneous_band(
    n: int, points: Array, level: float = 0.95, *, draws: int = 2000
) -> Array:
    """Shares between which the whole curve of n uniform values lies, (k,) -> (2, k).

    At each point the band is that of a binomial share, with a level so high that a
    curve is inside everywhere with the given one; it is found by simulation.

    References:
        Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity.

    Example:
        >>> band = simultaneous_band(100, np.array([0.5]))
        >>> band[:, 0].tolist()  # one point needs no more than its own level
        [0.4, 0.6]
    """
    rng = np.random.default_rng(0)
    cells = np.diff(np.concatenate([[0.0], points, [1.0]]))
    counts = np.cumsum(rng.multinomial(n, cells, size=draws)[:, :-1], axis=1)
    tails = np.minimum(
        binom.cdf(counts, n, points), binom.sf(counts - 1, n, points)
    ).min(axis=1)
    # A little less, since it is the probability of one of the counts.
    tail = (1.0 - 1e-9) * float(np.quantile(tails, 1.0 - level, method="lower"))
    return np.stack([binom.ppf(tail, n, points), binom.isf(tail, n, points)]) / n


@dataclass(kw_only=True, eq=False, repr=False)
class PITDisplay:
    """Distribution function of PIT values less that of uniform ones, with a band.

    Above zero: more low values than there should be, so densities lie too high there.
    A wave that rises first and falls below: too narrow; the other way: too wide.

    Args:
        pit: Values of F(y|x), (n,).
        level: Probability with which the whole curve is inside the band if the
            densities are right.

    Attributes:
        inside_: Whether it is.
        ax_: The Axes drawn on.
        figure_: The figure that holds them.
        line_: The curve.
        band_: The band.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> display = PITDisplay.from_predictions(np.random.default_rng(0).random(200))
        >>> display.inside_
        True
    """

    pit: Array
    level: float = 0.95
    inside_: bool = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    line_: Any = field(init=False)
    band_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        level: float = 0.95,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the PIT values of a fitted model on rows, best ones it has not seen."""
        return cls.from_predictions(pit_values(estimator, X, y), level=level, ax=ax)

    @classmethod
    def from_predictions(
        cls, pit: ArrayLike, *, level: float = 0.95, ax: "Axes | None" = None
    ) -> Self:
        """Draw PIT values, such as those of `metrics.pit`, (n,)."""
        values = as_numbers("pit", pit)
        if values.ndim != 1 or not len(values):
            raise ValueError(
                f"pit must be a flat list, (n,), got shape {values.shape}."
            )
        check_probability("pit", values)
        return cls(pit=values, level=check_share("level", level)).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        points = np.arange(1, 100) / 100
        low, high = simultaneous_band(len(self.pit), points, self.level)
        share = np.searchsorted(np.sort(self.pit), points, side="right") / len(self.pit)
        self.inside_ = bool(np.all((share >= low) & (share <= high)))
        ends = np.concatenate([[0.0], points, [1.0]])
        below, above, curve = (
            np.concatenate([[0.0], c - points, [0.0]]) for c in (low, high, share)
        )
        look: dict[str, Any] = {"color": "0.87", "linewidth": 0}
        words = f"{self.level:.0%} band of the whole curve"
        self.band_ = ax.fill_between(ends, below, above, label=words, **look)
        ax.axhline(0.0, color="0.35", linewidth=1.0, linestyle=(0, (4, 2)))
        color = THEME.blue if self.inside_ else THEME.orange
        told = "inside" if self.inside_ else "outside"
        (self.line_,) = ax.plot(
            ends, curve, color=color, label=f"{len(self.pit)} rows: {told}"
        )
        ax.set(xlim=(0, 1), xlabel="PIT, F(y|x)", ylabel="observed − expected share")
        ax.margins(y=0.25)
        ax.legend(frameon=False, loc="upper right")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class RegionCalibrationDisplay:
    """Where densities are wrong: PIT values by region of a column of x.

    Rows are parted by the values of a column into regions of as many rows each, and
    their PIT values into fifths. Cells with more rows than there should be are orange,
    with fewer violet. Much orange at both ends: densities are too narrow there; in the
    middle: too wide; at the top only: too low. A frame is around cells that chance does
    not explain, with 95 % for all of them together.

    Args:
        observed: Rows in each cell, regions by fifths, (r, b).
        names: Of the regions, (r,).
        x_label: Name of the column.

    Attributes:
        z_: How many standard errors each cell is from what it should be, (r, b).
        wrong_: Cells that chance does not explain, (r, b).
        ax_: The Axes drawn on.
        figure_: The figure that holds them.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> rng = np.random.default_rng(0)
        >>> x, pit = rng.random(400), rng.random(400)
        >>> pit[x > 0.8] **= 3  # too low: these densities lie too high
        >>> display = RegionCalibrationDisplay.from_predictions(x[:, None], pit)
        >>> display.wrong_.any(axis=1).nonzero()[0].tolist()
        [5]
    """

    observed: Array
    names: tuple[str, ...]
    x_label: str = "x"
    z_: Array = field(init=False)
    wrong_: Mask = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        along: int | str | None = None,
        regions: int = 6,
        ax: "Axes | None" = None,
    ) -> Self:
        """Compute the PIT values of a fitted model on rows and draw them by region.

        Args:
            estimator: A fitted model with `given`, of one column of y.
            X: Conditions, (n, p), best of rows that it has not seen.
            y: What was observed, (n,).
            along: The column, by name or number; None for the one that densities
                depend on most.
            regions: How many, of columns of numbers; each category is one.
            ax: Where to draw; None for a new figure.
        """
        rows = ConditionRows.of(estimator, X)
        if along is None:
            along = int(np.argmax(column_relevance(rows, len(rows.names))))
        pit = pit_values(estimator, X, y)
        return cls.from_predictions(X, pit, along=along, regions=regions, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        pit: ArrayLike,
        *,
        along: int | str = 0,
        regions: int = 6,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw PIT values, (n,), of rows, (n, p)."""
        rows = ConditionRows.of(None, X)
        column = rows.place(along)
        u = as_numbers("pit", pit)
        check_probability("pit", u)
        if u.shape != (len(rows),):
            raise ValueError(f"pit must be one per row, {len(rows)}, got {u.shape}.")
        check_count("regions", regions, least=1)
        part, names = _parts(rows, column, regions)
        fifth = np.minimum((5.0 * u).astype(int), 4)
        observed = np.zeros((len(names), 5))
        known = part >= 0
        np.add.at(observed, (part[known], fifth[known]), 1.0)
        return cls(observed=observed, names=names, x_label=rows.names[column]).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        plt = pyplot()
        from matplotlib.patches import Rectangle

        r, b = self.observed.shape
        expected = self.observed.sum(axis=1, keepdims=True) / b
        error = np.sqrt(np.maximum(expected, 1e-9) * (1.0 - 1.0 / b))
        self.z_ = (self.observed - expected) / error
        # So far is none of all these cells by chance, with 95 %.
        far = float(norm.isf(0.025 / (r * b)))
        self.wrong_ = np.abs(self.z_) > far
        if ax is None:
            width = min(11.0, 2.6 + 0.95 * r)
            _, ax = plt.subplots(figsize=(width, 3.4), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        edges = np.arange(r + 1) - 0.5
        mesh = ax.pcolormesh(
            edges, np.linspace(0, 1, b + 1), self.z_.T, cmap="PuOr_r", vmin=-4, vmax=4
        )
        for i, j in zip(*np.nonzero(self.wrong_), strict=True):
            look: dict[str, Any] = {"fill": False, "edgecolor": "k", "linewidth": 1.6}
            ax.add_patch(
                Rectangle((i - 0.46, j / b + 0.01), 0.92, 1 / b - 0.02, **look)
            )
        ax.set_xticks(np.arange(r), self.names, fontsize=8)
        ax.set(xlabel=self.x_label, ylabel="PIT, F(y|x)", yticks=np.linspace(0, 1, 6))
        bar = ax.figure.colorbar(mesh, ax=ax, label="standard errors", extend="both")
        bar.outline.set(edgecolor="0.6", linewidth=0.6)
        return self


def _parts(
    rows: ConditionRows, column: int, regions: int
) -> tuple[Any, tuple[str, ...]]:
    """The region of each row, −1 if not known, (n,), and names of the regions."""
    seen, categories = rows.positions(column), rows.categories(column)
    known = np.isfinite(seen)
    if categories:
        return np.where(known, seen, -1).astype(int), categories
    edges = np.unique(np.quantile(seen[known], np.linspace(0, 1, regions + 1)))
    inner = edges[1:-1]
    part = np.where(known, np.searchsorted(inner, seen, side="right"), -1)
    if rows.is_date(column):
        texts = [str(np.datetime64(int(edge), "D")) for edge in edges]
    else:
        texts = [short_number(edge, 3) for edge in edges]
    ends = list(itertools.pairwise(texts)) or [(texts[0], texts[0])]
    return part.astype(int), tuple(f"{a} –\n{b}" for a, b in ends)
