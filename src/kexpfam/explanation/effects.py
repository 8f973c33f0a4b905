"""Effects of a column: how a number of p(y|x) changes as one column does.

Accumulated local effects (Apley and Zhu 2020). With edges z_0 < ... < z_K among the
values of the column and rows N_k between z_{k−1} and z_k,

    a_k = a_{k−1} + mean over i in N_k of f(z_k, x_i,−j) − f(z_{k−1}, x_i,−j),

so that rows only ever get a value near their own, and the effect of a column is not
mixed with those of columns that go with it. The curve is moved so that its mean over
rows is that of f. Categories go along a line on which neighbours are alike in the other
columns, and rows of both neighbours are asked what changes from one to the other.

The density is not moved: p(y|x_j) is the mean of p(y|x) over rows with x_j near there.

References:
    Apley and Zhu, Visualizing the effects of predictor variables in black box
    supervised learning models, JRSS B 2020.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, Indices
from kexpfam._validation import as_generator, check_count
from kexpfam.display import BAND, mean_heights, whole_cells
from kexpfam.explanation.columns import ModelColumns, is_gap
from kexpfam.explanation.extrapolation import ExtrapolationTest
from kexpfam.explanation.functionals import ANY, Functional
from kexpfam.explanation.steps import Steps, steps_along
from kexpfam.metrics import Estimate
from kexpfam.tables import Column

# Bayesian bootstraps of the rows, for standard errors. So many give these to 7 %.
REPLICATES = 100

# Levels at which quantiles of many laws, together, are about those of their average.
EVEN_LEVELS = (np.arange(32) + 0.5) / 32

# Rows at each place of a density, on average: fewer make stripes. A guess.
ROWS_OF_MEAN = 15

# Where more than this share of the rows that take a step is unlike all rows, an effect
# is marked.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """How numbers of p(y|x) change along a column; `print` shows a table.

    Attributes:
        column: Its name.
        of: What of p(y|x) is shown.
        names: Names of the k curves, such as "mean", or "q0.05", "q0.5", "q0.95"; none
            of "density".
        places: Values of the column, (g,): numbers, moments, or categories in an order
            in which neighbours are alike.
        values: The effects, (g, k), around the mean over rows of what they are effects
            on; of "density" the mean of p(y|x) in each cell of y.
        standard_errors: Of the values, over rows, (g, k).
        n_near: How many rows each place rests on, (g,).
        extrapolated: Share of the rows that are unlike the data once they are moved, in
            the worse of the steps beside each place, (g,), by `ExtrapolationTest`; one
            where the sum of all steps is a number that no row has, by more than its
            band, as is so where columns go together and one of them goes on alone.
        y_edges: Edges of the cells of "density", (k + 1,); None of others.
        x_edges: Edges between which rows were averaged for "density", (g + 1,); None of
            others, and of categories.
        response: What y is called.
        limits: Between which the values always are: 0 and 1 of a probability, 0 and ∞
            of a standard deviation, the bounds of y of its quantiles. Sums of changes
            may leave them, and are cut there, as bands in pictures are.
        atoms: Values of y with a probability of their own, (m,), of "density".
    """

    column: str
    of: str
    names: tuple[str, ...]
    places: Column
    values: Array
    standard_errors: Array
    n_near: Indices
    extrapolated: Array
    y_edges: Array | None = None
    x_edges: Array | None = None
    response: str = "y"
    limits: tuple[float, float] = ANY
    atoms: Array = field(default_factory=lambda: np.empty(0))

    @property
    def is_categorical(self) -> bool:
        """Whether places are categories."""
        return bool(self.places.dtype.kind == "O")

    @property
    def is_extrapolated(self) -> Any:
        """Where most rows that are moved are unlike the data, (g,)."""
        return self.extrapolated > MOSTLY

    def to_frame(self) -> Any:
        """A frame of pandas: a row for each place."""
        pandas = needed("pandas", "to make a frame")
        return pandas.DataFrame(self.table())

    def table(self) -> dict[str, Column]:
        """Places, values and standard errors, by name of the column.

        Of "density", values are by cell of y, named after its middle.
        """
        names = self.names
        if self.y_edges is not None:
            middles = 0.5 * (self.y_edges[1:] + self.y_edges[:-1])
            names = tuple(f"p(y={y:.6g})" for y in middles)
        found: dict[str, Column] = {self.column: self.places}
        found |= dict(zip(names, self.values.T, strict=True))
        if self.y_edges is None:
            errors = [f"{name}_se" for name in names]
            found |= dict(zip(errors, self.standard_errors.T, strict=True))
        return found | {"rows": self.n_near, "extrapolated": self.extrapolated}

    def plot(self, ax: Any = None) -> Any:
        """Draw curves with bands of 95 %, or a heat map of the density.

        Hatched is where most rows that are moved are unlike the data.

        Args:
            ax: Where to draw; None for a new figure.

        Returns:
            An `EffectDisplay`.
        """
        from kexpfam.display import EffectDisplay

        return EffectDisplay(
            places=self.places,
            values=self.values,
            standard_errors=self.standard_errors,
            extrapolated=self.is_extrapolated,
            names=self.names,
            x_label=self.column,
            of=self.of,
            response=self.response,
            y_edges=self.y_edges,
            x_edges=self.x_edges,
            limits=self.limits,
            atoms=self.atoms,
        ).plot(ax)

    def __repr__(self) -> str:
        head = f"Effect of {self.column!r} on {self.of}"
        if self.y_edges is not None:
            g, h = self.values.shape
            return f"{head}: p(y|{self.column}) at {g} places, in {h} cells of y"
        lines = [
            head,
            "  ".join([f"{self.column:>14}", *(f"{n:>18}" for n in self.names)]),
        ]
        for place, own, errors, mark in zip(
            self.places,
            self.values,
            self.standard_errors,
            self.is_extrapolated,
            strict=True,
        ):
            shown = place if isinstance(place, str) else _plain(place)
            cells = [str(Estimate(v, e)) for v, e in zip(own, errors, strict=True)]
            words = ["extrapolated"] if mark else []
            lines.append(
                "  ".join([f"{shown:>14}", *(f"{c:>18}" for c in cells), *words])
            )
        return "\n".join(lines)


def _plain(place: Any) -> str:
    if isinstance(place, np.datetime64):
        return str(place.astype("M8[D]"))
    return f"{place:.4g}"


def effect(
    columns: ModelColumns,
    column: Any,
    X: Any,
    of: Any = "mean",
    *,
    bins: int = 20,
    max_rows: int = 500,
    random_state: Any = None,
) -> Effect:
    """How a number of p(y|x) changes along a column; see `KCEF.effect`."""
    if isinstance(X, str) or np.ndim(column) > 0:
        raise ValueError(
            f"column must be a name or a number, and X rows: effect(column, X), got "
            f"column of type {type(column).__name__} and X of {type(X).__name__}."
        )
    j = columns.index(column)
    most = check_count("max_rows", max_rows, least=2)
    count = check_count("bins", bins, least=1)
    functional = None if isinstance(of, str) and of == "density" else Functional.of(of)
    rng = as_generator(random_state)
    Z = columns.encode(X)
    columns.require_one_response("effect", Z)
    Z = Z[~is_gap(columns.values(j, Z))]
    Z = Z[rng.permutation(len(Z))[:most]]
    if functional is None:  # averages of a few rows are stripes
        count = min(count, max(2, len(Z) // ROWS_OF_MEAN))
    steps = steps_along(columns, j, Z, count)
    if functional is None:
        return _density_effect(columns, j, Z, steps)
    return _moved_effect(columns, j, Z, steps, functional, rng)


def _moved_effect(
    columns: ModelColumns,
    j: int,
    Z: Array,
    steps: Steps,
    functional: Functional,
    rng: np.random.Generator,
) -> Effect:
    n, m = len(Z), len(steps.rows)
    low, high = steps.moved(columns, j, Z)
    found = columns.evaluate(
        np.vstack([Z, low, high]), lambda p, _: functional.values(p)
    )
    limits = functional.limits or _bounds_of_y(columns, Z)
    f, differences = found[:n], found[n + m :] - found[n : n + m]

    def accumulated(weights: Array) -> Array:
        # Effects of quantiles are summed up one by one, and may cross: in order again
        # they are nearer to the truth (Chernozhukov, Fernandez-Val & Galichon 2010).
        summed = np.sort(steps.accumulated(f, differences, weights), axis=-1)
        return np.clip(summed, *limits)

    values = accumulated(np.ones(n))
    replicates = [accumulated(rng.exponential(size=n)) for _ in range(REPLICATES)]
    errors = np.std(replicates, axis=0, ddof=1)
    beyond = (values + BAND * errors < f.min(0)) | (values - BAND * errors > f.max(0))
    test = ExtrapolationTest.of(Z)
    unlike = [test.is_unlike(moved) for moved in (low, high)]
    at = np.concatenate([steps.index, steps.index + 1])
    return Effect(
        columns.names[j],
        functional.names[0] if len(functional.names) == 1 else "quantiles",
        functional.names,
        steps.places,
        values,
        errors,
        np.bincount(at, minlength=len(steps.places)),
        np.maximum(steps.worst_share(*unlike), beyond.any(axis=1)),
        response=columns.response,
        limits=limits,
    )


def _bounds_of_y(columns: ModelColumns, Z: Array) -> tuple[float, float]:
    """Between which y always is, as far as a density tells."""
    low, high = np.reshape(columns.densities(Z[:1]).support, 2)
    return float(low), float(high)


def _density_effect(
    columns: ModelColumns, j: int, Z: Array, steps: Steps, cells: int = 120
) -> Effect:
    """The mean of p(y|x) over the rows at each place, or between two of them."""
    # Quantiles of the average of all laws: far tails of a few need no room.
    own_quantiles = columns.evaluate(Z, lambda p, _: p.quantile(EVEN_LEVELS))
    low, high = np.quantile(own_quantiles, [0.005, 0.995])
    first = columns.densities(Z[:1])
    atoms: Array = getattr(first, "atoms", [np.empty(0)])[0]
    counted = getattr(first, "measure", "lebesgue") == "counting"
    grid = whole_cells(low, high) if counted else np.linspace(low, high, cells + 1)
    y_edges, own = mean_heights(
        grid, columns.evaluate(Z, lambda p, _: p.cdf(grid[None])), atoms
    )
    groups, places = steps.bins(Z)
    means = np.stack([own[groups == k].mean(axis=0) for k in range(len(places))])
    counts = np.bincount(groups[groups >= 0], minlength=len(places))
    errors = np.stack(
        [
            own[groups == k].std(axis=0) / np.sqrt(max(counts[k] - 1, 1))
            for k in range(len(places))
        ]
    )
    return Effect(
        columns.names[j],
        "density",
        (),
        places,
        means,
        errors,
        counts,
        np.zeros(len(places)),
        y_edges,
        None if steps.categorical else steps.places,
        columns.response,
        atoms=atoms,
    )
