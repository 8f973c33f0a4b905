"""p(y|x) along one column of x, the others as they are in rows like these.

At a value v of the column the distribution functions of rows near v are averaged,

    F(y | v) ≈ Σ_i l_i(v) F(y | x_i),

each row being as it is: with l_i the weights of local linear regression on x_ij, so
that what changes along the neighbourhood is not blurred, and the ends are not bent. No
row is moved, so that none is asked for that could not occur: of columns that go
together one cannot be changed alone. It is also what dots of (x_ij, y_i) may be
compared with. Categories, and numbers that have few values with many rows of each, are
averaged over rows of their own.

Averages are read off a grid of y that all densities share.

References:
    Fan and Gijbels, Local polynomial modelling and its applications, 1996.
    Chernozhukov, Fernandez-Val and Galichon, Quantile and probability curves without
    crossing, Econometrica 2010 (distribution functions put in order).
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array, Indices, Mask
from kexpfam.display.conditions import FEW_ROWS, runs_of


class MovableRows(Protocol):
    """Rows of conditions, of which a column can be put to other values.

    Values are positions on an axis: numbers, days, or 0, 1, ... for categories.
    """

    def __len__(self) -> int:
        """How many rows there are."""

    def positions(self, column: int) -> Array:
        """Where the rows are in a column, NaN where that is not known, (n,)."""

    def given(
        self, rows: Indices, column: int | None = None, positions: Array | None = None
    ) -> Any:
        """Densities at some rows, (m,), with a column put to positions, (m,)."""


class ShownRows(MovableRows, Protocol):
    """Rows of which a column can be an axis."""

    def categories(self, column: int) -> tuple[str, ...]:
        """Its categories in their order; none for numbers."""

    def unlike(self, rows: Indices) -> Mask:
        """Which of some rows are unlike those of the fit, as far as is known, (m,)."""


@dataclass(frozen=True)
class AlongSpec:
    """How many densities are averaged, and on what grid."""

    places: int = 200  # along a column of numbers
    values: int = 32  # up to so many values of a column, each is a place,
    rows_of_value: int = 8  # if three of four have so many rows
    rows: int = 1000  # that stand for all, evenly spaced along the column
    span: float = 0.07  # share of these near each place: more blur what is steep
    reach: float = (
        0.03  # of the range of the column: values so near are near in any case
    )
    least: int = 20  # rows near a place, unless there are fewer
    of_value: int = 64  # rows of each category, or of each of few values
    cut: float = 1.0  # per cent of rows beyond either end of a column of numbers
    cells: int = 320  # of y
    tail_cells: int = 40  # beyond what is shown, so that means are right
    near_share: float = 0.06  # of the range of a column: rows that are so far are near
    near_rows: float = (
        4.5  # and so many of rows that are evenly spread, if these are few
    )
    strip: float = 0.02  # of a picture: narrower strips are not hatched
    compared: int = 60  # rows by which columns are told apart


ALONG = AlongSpec()
_NO_ATOMS: Array = np.empty(0)


@dataclass(frozen=True, eq=False)
class AveragedDensities:
    """Averages of p(y|x) at places along a column.

    Attributes:
        places: Values of the column, (g,), or 0, 1, ... for categories.
        edges: Of cells of y, (h + 1,), increasing; of whole numbers if y is counted.
        cdf: Distribution functions at the edges, (g, h + 1).
        shown: Which edges a picture shows; the others are tails.
        few: Where hardly any rows are near, (g,).
        counted: Whether each cell is a whole number.
    """

    places: Array
    edges: Array
    cdf: Array
    shown: slice
    few: Mask
    counted: bool = False

    def quantiles(self, levels: Array) -> Array:
        """Quantiles at levels, (g, k): straight lines inside a cell."""
        if self.counted:
            cell = [np.searchsorted(own[1:-1], levels) for own in self.cdf]
            return (0.5 * (self.edges[1:] + self.edges[:-1]))[np.array(cell)]
        return np.array([np.interp(levels, own, self.edges) for own in self.cdf])

    def mean(self) -> Array:
        """Means, (g,), of what is inside the grid."""
        masses = np.diff(self.cdf)
        middle = 0.5 * (self.edges[1:] + self.edges[:-1])
        return masses @ middle / masses.sum(axis=1)

    def heights(self, seen: Array, atoms: Array = _NO_ATOMS) -> tuple[Array, Array]:
        """Edges that are shown, (k + 1,), and mean densities between them, (g, k).

        Args:
            seen: Values of y that are shown, too, as far as they are within half of the
                range of the others: a line that is far off at few places would leave
                no room for the rest.
            atoms: Values with a probability of their own, (m,).
        """
        first, last = self.shown.start, self.shown.stop
        if seen.size:
            low, high = self.edges[first], self.edges[last - 1]
            room = 0.5 * (high - low)
            seen = np.clip(seen, low - room, high + room)
            ends = np.searchsorted(self.edges, [seen.min(), seen.max()])
            first = max(0, min(first, int(ends[0]) - 1))
            last = min(len(self.edges), max(last, int(ends[1]) + 1))
        edges, cdf = self.edges[first:last], self.cdf[:, first:last]
        return mean_heights(edges, cdf, _NO_ATOMS if first else atoms)


def mean_heights(edges: Array, cdf: Array, atoms: Array) -> tuple[Array, Array]:
    """Edges of cells of y, and mean densities in them, of distribution functions.

    Args:
        edges: Between which densities are averaged, (h + 1,).
        cdf: Distribution functions there, (g, h + 1).
        atoms: Values with a probability of their own, (m,). One at the lowest edge, as
            of claims that are often zero, has a cell below it to be seen in.

    Example:
        >>> edges, cdf = np.array([0.0, 1.0, 2.0]), np.array([[0.5, 0.75, 1.0]])
        >>> mean_heights(edges, cdf, np.zeros(1))
        (array([-1.,  0.,  1.,  2.]), array([[0.5 , 0.25, 0.25]]))
    """
    if np.any(atoms == edges[0]):
        edges = np.insert(edges, 0, 2.0 * edges[0] - edges[1])
        cdf = np.insert(cdf, 0, 0.0, axis=1)
    return edges, np.diff(cdf) / np.diff(edges)


def whole_cells(low: float, high: float) -> Array:
    """Edges of cells of one whole number each, from low to high."""
    return np.arange(np.floor(low), np.ceil(high) + 2.0) - 0.5


def averaged_along(
    rows: ShownRows,
    column: int,
    y: Array | None = None,
    ends: tuple[float, float] | None = None,
    spec: AlongSpec = ALONG,
    *,
    alone: bool = False,
) -> AveragedDensities:
    """Average p(y|x) over rows like those at each place along a column.

    Args:
        rows: The conditions.
        column: Which of them varies.
        y: Values that should be seen in a picture, (m,); None for none.
        ends: Range of a column of numbers; None for that of nearly all rows.
        spec: How much is computed.
        alone: Whether there are no other columns, so that there is nothing to average.
    """
    seen = rows.positions(column)
    known = np.flatnonzero(np.isfinite(seen))
    if not len(known):
        raise ValueError("The column that varies has no values in these rows.")
    categories = rows.categories(column)
    low, high = ends or _most(seen[known], spec.cut)
    inside = seen[known][(seen[known] >= low) & (seen[known] <= high)]
    values, counts = np.unique(inside, return_counts=True)
    with single_threaded_blas():
        edges, shown, counted = _grid(rows, known, y, spec)
        own = 1 < len(values) <= spec.values
        own = own and float(np.percentile(counts, 25)) >= spec.rows_of_value
        if categories or own:
            places = np.arange(len(categories), dtype=float) if categories else values
            few = np.array([np.sum(seen == place) < FEW_ROWS for place in places])
            chosen, weights = _of_values(places, seen, known, spec)
        else:
            places = np.linspace(low, high, spec.places)
            few = _few(places, seen[known], spec)
            chosen, weights = _near(places, seen, known, spec)
        if alone:
            which = np.full(len(places), known[0])
            cdf = np.asarray(rows.given(which, column, places).cdf(edges[None]))
        else:
            cdf = weights @ np.asarray(rows.given(chosen).cdf(edges[None]))
            # Weights of lines may be negative: in order, and no probabilities beyond 1.
            cdf = np.sort(np.clip(cdf, 0.0, 1.0), axis=1)
            few |= np.clip(weights, 0.0, None) @ rows.unlike(chosen) > 0.5
            if not (categories or own):
                few = _without_strips(few, spec)
    return AveragedDensities(places, edges, cdf, shown, few, counted)


def _most(seen: Array, cut: float) -> tuple[float, float]:
    """Ends of nearly all values; the outermost would leave little room for others."""
    low, high = (float(v) for v in np.percentile(seen, [cut, 100.0 - cut]))
    if low == high:
        low, high = float(seen.min()), float(seen.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _few(places: Array, seen: Array, spec: AlongSpec) -> Mask:
    """Where along a column of numbers hardly any row is near, (g,)."""
    share = max(spec.near_share, spec.near_rows / len(seen))
    reach = share * float(np.ptp(np.percentile(seen, [1, 99])))
    ordered = np.sort(seen)
    right = np.searchsorted(ordered, places + reach, side="right")
    few = right - np.searchsorted(ordered, places - reach) < FEW_ROWS
    for first, last in runs_of(~few):  # no slits between two stretches
        few[first:last] |= places[last - 1] - places[first] < 0.5 * reach
    return few


def _without_strips(few: Mask, spec: AlongSpec) -> Mask:
    """Marks of places along a column, (g,), without those of a few places."""
    found = few.copy()
    for first, last in runs_of(few):
        found[first:last] = last - first > spec.strip * len(few)
    return found


def _of_values(
    places: Array, seen: Array, known: Indices, spec: AlongSpec
) -> tuple[Indices, Array]:
    """Rows of each place, (m,), and their weights there, (g, m)."""
    rng = np.random.default_rng(0)
    parts = []
    for place in places:
        own = np.flatnonzero(seen == place)
        # A category without rows is tried at rows of any.
        parts.append(rng.permutation(own if len(own) else known)[: spec.of_value])
    at = np.repeat(np.arange(len(places)), [len(own) for own in parts])
    weights = (at == np.arange(len(places))[:, None]).astype(float)
    return np.concatenate(parts), weights / weights.sum(axis=1, keepdims=True)


def _near(
    places: Array, seen: Array, known: Indices, spec: AlongSpec
) -> tuple[Indices, Array]:
    """Rows that stand for all, (m,), and their weights at each place, (g, m)."""
    order = known[np.argsort(seen[known], kind="stable")]
    some = np.unique(np.linspace(0, len(order) - 1, spec.rows).round().astype(int))
    chosen = order[some]
    near = max(spec.least, int(spec.span * len(chosen)))
    reach = spec.reach * float(np.ptp(np.percentile(seen[known], [1, 99])))
    return chosen, local_linear_weights(places, seen[chosen], near, reach)


def local_linear_weights(
    places: Array, x: Array, near: int, least: float = 0.0
) -> Array:
    """Weights of values at x, (m,), whose sum is a local linear fit at places, (g, m).

    Tricube weights, as in loess, reach half again as far as the `near` nearest: of
    values that repeat, many may be as far as the farthest of these, and count. They
    reach so far at least.

    Example:
        >>> x = np.array([0.0, 1.0, 2.0, 4.0])
        >>> weights = local_linear_weights(np.array([0.5, 3.0]), x, near=3)
        >>> (weights @ (1.0 + 2.0 * x)).round(6)
        array([2., 7.])
    """
    offset = x - places[:, None]
    distance = np.abs(offset)
    last = min(near, len(x)) - 1
    farthest = np.partition(distance, last, axis=1)[:, last : last + 1]
    reach = np.maximum(1.5 * farthest, least)
    # Without any reach, those at the place itself are all.
    K = np.clip(1.0 - (distance / np.where(reach > 0, reach, 1.0)) ** 3, 0.0, None) ** 3
    K = np.where((reach > 0) | (distance == 0), K, 0.0)
    # theory of weighted least squares: l = K (s2 − s1 d) / (s0 s2 − s1²)
    s0, s1, s2 = ((K * offset**k).sum(axis=1, keepdims=True) for k in range(3))
    determinant = s0 * s2 - s1**2
    # Where nearly all neighbours have one value there is no line to be seen.
    straight = determinant > 1e-3 * s0 * s2
    line = K * (s2 - s1 * offset) / np.where(straight, determinant, 1.0)
    return np.where(straight, line, K / s0)


def _grid(
    rows: ShownRows, known: Indices, y: Array | None, spec: AlongSpec
) -> tuple[Array, slice, bool]:
    """Edges of cells of y, which of them are shown, and whether y is counted."""
    some = known[:: max(1, len(known) // spec.compared)]
    p = rows.given(some)
    ends = p.quantile([0.0005, 0.01, 0.99, 0.9995])
    inner = np.percentile(ends[:, 1], 5), np.percentile(ends[:, 2], 95)
    data = [] if y is None or not len(y) else [float(np.min(y)), float(np.max(y))]
    low, high = min([inner[0], *data]), max([inner[1], *data])
    if getattr(p, "measure", "") == "counting":
        edges = whole_cells(float(ends.min()), float(ends.max()))
        first, last = np.searchsorted(edges, [low - 0.5, high + 0.5])
        return edges, slice(max(0, first), last + 1), True
    room = 0.02 * (high - low) or 0.5 * max(1.0, abs(low))
    support = p.support
    low = max(low - room, float(support[:, 0].min()))
    high = min(high + room, float(support[:, 1].max()))
    bottom, top = min(float(ends[:, 0].min()), low), max(float(ends[:, 3].max()), high)
    core = np.linspace(low, high, spec.cells + 1)
    # Cells of the tails become longer with the distance.
    growth = np.linspace(0.0, 1.0, spec.tail_cells + 1)[1:] ** 2
    below = (low - growth * (low - bottom))[::-1] if bottom < low else np.empty(0)
    above = high + growth * (top - high) if top > high else np.empty(0)
    shown = slice(len(below), len(below) + len(core))
    return np.concatenate([below, core, above]), shown, False


def column_relevance(rows: MovableRows, columns: int, spec: AlongSpec = ALONG) -> Array:
    """How much p(y|x) depends on each column, as a share of all, (p,).

    The square distance ∫ (F − F')² dy between the distribution functions at a row and
    at the same row with the column taken from another one, on average over some rows:
    quick, needs no y, and marginal, so that of columns that say the same each may seem
    to matter.
    """
    rng = np.random.default_rng(0)
    # Rows may be in the order of their values: another one is one drawn at random.
    some = rng.permutation(len(rows))[: spec.compared]
    other = np.roll(some, 1)
    with single_threaded_blas():
        p = rows.given(some)
        ends = p.quantile([0.02, 0.98])
        y = np.linspace(ends[:, 0].min(), ends[:, 1].max(), 64)[None]
        before = p.cdf(y)
        found = np.zeros(columns)
        for j in range(columns):
            positions = rows.positions(j)[other]
            moved = np.flatnonzero(np.isfinite(positions))
            if len(moved):
                after = rows.given(some[moved], j, positions[moved]).cdf(y)
                found[j] = np.sum((after - before[moved]) ** 2) / len(moved)
    return found / found.sum() if found.any() else found
