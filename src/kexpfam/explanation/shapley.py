"""Shapley values: what each column of a row adds to a number of p(y|x).

With v(S) the mean over rows b of a background of f(x_S, b_−S), columns S of the row and
the others of b, the share of column j is

    φ_j = Σ_{S without j} |S|! (k − |S| − 1)! / k! · (v(S ∪ j) − v(S)),

the mean over all orders of what j adds to those before it. Shares sum to f(x) minus the
mean of f over the background. Up to ten columns all subsets are evaluated; of more,
orders are drawn, each with its reverse, and the same number for each row of the
background, so that the sum stays exact.

References:
    Shapley, A value for n-person games, 1953.
    Lundberg and Lee, A unified approach to interpreting model predictions, NeurIPS
    2017.
    Mitchell, Cooper, Frank and Holmes, Sampling permutations for Shapley value
    estimation, JMLR 2022 (orders with their reverse).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import comb

from kexpfam._optional import needed
from kexpfam._typing import Array, Indices, Mask
from kexpfam._validation import as_generator, check_count
from kexpfam.display import short_number
from kexpfam.explanation.columns import ModelColumns, one_row
from kexpfam.explanation.functionals import Functional
from kexpfam.explanation.similarity import named_groups
from kexpfam.tables import Column

# Columns up to which all subsets are evaluated: a thousand for each row of the
# background.
MOST_EXACT = 10

# Densities that are evaluated for drawn orders, unless their number is given: about as
# many as for ten columns and a hundred rows.
EVALUATIONS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues:
    """What each column adds; `print` shows a table.

    Attributes:
        of: The number of p(y|x) that is explained.
        names: Of the columns, or of groups of them.
        row: Values of the columns in the row, as texts.
        values: What each adds, (k,).
        standard_errors: Of the values, because orders were drawn, (k,); zero if all
            subsets were evaluated.
        average: Mean over the background.
        prediction: The number at the row; the average plus all values.
        n_background: Rows of the background.
        exact: Whether all subsets were evaluated.
    """

    of: str
    names: tuple[str, ...]
    row: tuple[str, ...]
    values: Array
    standard_errors: Array
    average: float
    prediction: float
    n_background: int
    exact: bool

    @property
    def order(self) -> list[int]:
        """Columns from the largest value on, whatever its sign."""
        found: list[int] = np.argsort(-np.abs(self.values), kind="stable").tolist()
        return found

    def to_frame(self) -> Any:
        """A frame of pandas: a row for each column, the largest value first."""
        pandas = needed("pandas", "to make a frame")
        table = self.table()
        return pandas.DataFrame(
            {k: v for k, v in table.items() if k != "column"}, index=table["column"]
        )

    def table(self) -> dict[str, Column]:
        """Columns, their values in the row, and what they add, the largest first."""
        order = self.order
        return {
            "column": np.array(self.names, dtype=object)[order],
            "value": np.array(self.row, dtype=object)[order],
            "adds": self.values[order],
            "adds_se": self.standard_errors[order],
        }

    def plot(self, ax: Any = None, *, most: int = 12) -> Any:
        """Bars of what each column adds; returns the Axes.

        Args:
            ax: Where to draw; None for a new figure.
            most: How many columns are shown; the others are one bar.
        """
        from kexpfam.display import plot_contributions

        order = self.order
        shown, rest = order[:most], order[most:]
        labels = [f"{self.names[i]} = {self.row[i]}" for i in shown]
        values, errors = self.values[shown], self.standard_errors[shown]
        if rest:
            labels.append(f"{len(rest)} other columns")
            values = np.append(values, self.values[rest].sum())
            errors = np.append(errors, np.linalg.norm(self.standard_errors[rest]))
        ends = (self.average, self.prediction)
        return plot_contributions(labels, values, errors, ends, self.of, ax)

    def __repr__(self) -> str:
        how = "all subsets" if self.exact else "drawn orders"
        lines = [
            f"Why {self.of} is {short_number(self.prediction)}, and not "
            f"{short_number(self.average)}, the average of {self.n_background} rows "
            f"({how})"
        ]
        width = max(map(len, self.names))
        wide = max(map(len, self.row))
        for i in self.order:
            error = (
                "" if self.exact else f" ± {short_number(self.standard_errors[i], 2)}"
            )
            sign = "+" if self.values[i] >= 0 else ""
            lines.append(
                f"  {self.names[i]:{width}}  {self.row[i]:{wide}}  "
                f"{sign}{short_number(self.values[i])}{error}"
            )
        return "\n".join(lines)


def explain(
    columns: ModelColumns,
    x: Any,
    of: Any = "mean",
    *,
    background: Any = None,
    groups: Any = None,
    max_background: int = 100,
    n_permutations: int | None = None,
    random_state: Any = None,
) -> ShapleyValues:
    """Shapley values of a row; see `KCEF.explain`."""
    functional = Functional.of(of)
    if len(functional.names) > 1:
        raise ValueError(
            f"of must be one number, and {of!r} are {len(functional.names)}; say "
            f"of=0.95 for a quantile."
        )
    rng = as_generator(random_state)
    most = check_count("max_background", max_background, least=1)
    z = columns.encode(one_row(x))[0]
    columns.require_one_response("explain", z[None])
    B, weights = _background(columns, background)
    named = named_groups(columns, groups, B)
    if len(B) > most:
        chosen = rng.choice(len(B), most, replace=False)
        B, weights = B[chosen], weights[chosen]
    weights = weights / weights.sum()
    texts = [", ".join(columns.text(i, z) for i in own) for own in named.values()]
    columns = columns.grouped(named)
    # A column that has the same value in all rows adds nothing.
    differs = [bool(np.any(B[:, list(own)] != z[list(own)])) for own in columns.places]
    players = np.flatnonzero(differs).tolist()
    game = Game(columns, functional, z, B, weights, players)
    ends = game.worth(np.array([[False], [True]]) & np.ones(len(players), dtype=bool))
    exact = len(players) <= MOST_EXACT and n_permutations is None
    if exact:
        own, errors = _by_subsets(game)
    else:
        own, errors = _by_orders(game, ends, n_permutations, rng)
    values, standard_errors = np.zeros((2, len(columns.names)))
    values[players], standard_errors[players] = own, errors
    return ShapleyValues(
        functional.names[0],
        columns.names,
        tuple(texts),
        values,
        standard_errors,
        float(weights @ ends[0]),
        float(ends[1, 0]),
        len(B),
        exact,
    )


@dataclass(frozen=True, eq=False)
class Game:
    """What subsets of the columns of a row are worth, against a background.

    Attributes:
        columns: The model's.
        functional: The number that is explained.
        z: The coded row, (p,).
        B: Coded rows of the background, (m, p).
        weights: Of these rows, with sum one, (m,).
        players: Columns of the table that take part.
    """

    columns: ModelColumns
    functional: Functional
    z: Array
    B: Array
    weights: Array
    players: list[int]

    def worth(self, subsets: Mask) -> Array:
        """The number of subsets (s, k), with each row of the background, (s, m)."""
        s, m = len(subsets), len(self.B)
        return self._of(
            np.repeat(subsets, m, axis=0), np.tile(np.arange(m), s)
        ).reshape(s, m)

    def worth_beside(self, subsets: Mask) -> Array:
        """The number of subsets that each row has of its own, (m, s, k) -> (m, s)."""
        m, s, k = subsets.shape
        found = self._of(subsets.reshape(m * s, k), np.repeat(np.arange(m), s))
        return found.reshape(m, s)

    def _of(self, subsets: Mask, beside: Indices) -> Array:
        """f(x_S, b_−S) for pairs of a subset and a row of the background, (r,)."""
        taken = np.zeros((len(subsets), len(self.z)), dtype=bool)
        for player, own in zip(self.players, subsets.T, strict=True):
            taken[:, list(self.columns.places[player])] = own[:, None]
        Z = np.where(taken, self.z, self.B[beside])
        return self.columns.evaluate(Z, lambda p, _: self.functional.values(p))[:, 0]


def _by_subsets(game: Game) -> tuple[Array, Array]:
    """Shapley values by all subsets, and their errors, zero, (k,) each."""
    k = len(game.players)
    subsets = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)
    v = game.worth(subsets) @ game.weights
    sizes = subsets.sum(axis=1)
    found = np.zeros(k)
    for j in range(k):
        without = np.flatnonzero(~subsets[:, j])
        # |S|! (k − |S| − 1)! / k! = 1 / (k C(k − 1, |S|))
        shares = 1.0 / (k * comb(k - 1, sizes[without]))
        found[j] = shares @ (v[without | 1 << j] - v[without])
    return found, np.zeros(k)


def _by_orders(
    game: Game, ends: Array, pairs: int | None, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Shapley values by drawn orders and their reverses, and their errors, (k,) each.

    Each row of the background has so many pairs of orders. The error is that of these
    draws, the background being given.
    """
    k, m = len(game.players), len(game.B)
    if pairs is None:
        pairs = EVALUATIONS // (2 * k * m)
    # Two, to know how they differ.
    pairs = max(2, check_count("n_permutations", pairs, least=1))
    drawn = []
    for _ in range(pairs):
        rank = np.argsort(rng.random((m, k)), axis=1)
        both = _added(game, ends, rank) + _added(game, ends, k - 1 - rank)
        drawn.append(0.5 * both)
    every = np.stack(drawn)  # (pairs, m, k)
    spread = every.var(axis=0, ddof=1) / pairs
    errors = np.sqrt(game.weights**2 @ spread)
    return game.weights @ every.mean(axis=0), errors


def _added(game: Game, ends: Array, rank: Indices) -> Array:
    """What each column adds to those before it in the order of each row, (m, k)."""
    k = rank.shape[1]
    # The first s columns of an order, s = 1, ..., k − 1
    subsets = rank[:, None, :] < np.arange(1, k)[:, None]
    between = game.worth_beside(subsets)
    v = np.hstack([ends[0][:, None], between, ends[1][:, None]])
    found: Array = np.take_along_axis(np.diff(v, axis=1), rank, axis=1)
    return found


def _background(columns: ModelColumns, background: Any) -> tuple[Array, Array]:
    """Coded rows to compare with, and their weights."""
    if background is not None:
        B = columns.encode(background)
        return B, np.ones(len(B))
    if columns.background is None:
        raise ValueError(
            "background must be given: this model keeps no rows to compare with; pass "
            "some of those that it was fitted to."
        )
    return columns.background
