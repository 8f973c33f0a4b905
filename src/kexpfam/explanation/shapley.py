"""Shapley values: what each column of a row adds to a number of p(y|x).

With v(S) the mean over rows b of a background of f(x_S, b_−S), columns S of the row and
the others of b, the share of column j is

    φ_j = Σ_{S without j} |S|! (k − |S| − 1)! / k! · (v(S ∪ j) − v(S)),

the mean over all orders of what j adds to those before it. Shares sum to f(x) minus the
mean of f over the background. All subsets are evaluated where they are few; else orders
are drawn, each with its reverse, and the same number for each row of the background, so
that the sum stays exact.

Errors are those of drawing orders and, where the background is some of more rows, of
drawing these: with own_b the share beside row b, a part m/N of N rows, and pairs of
orders as the second stage, they are the square root of

    (1 − m/N) Σ_b w_b² (own_b − φ_j)² m/(m − 1) + (m/N) Σ_b w_b² s_b² / pairs.

References:
    Shapley, A value for n-person games, 1953.
    Lundberg and Lee, A unified approach to interpreting model predictions, NeurIPS
    2017.
    Cochran, Sampling techniques, 1977 (samples in two stages).
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
from kexpfam.display import of_response, short_number
from kexpfam.explanation.columns import ModelColumns, one_row
from kexpfam.explanation.functionals import Functional
from kexpfam.explanation.similarity import named_groups
from kexpfam.tables import Column

# Columns up to which all subsets are evaluated if their rows are few, and if all are
# asked for: a thousand, and 65,000, for each row of the background.
MOST_EXACT, MOST_SUBSETS = 10, 16

# Densities that are evaluated at most, unless n_permutations says else. So many take
# about a second; their errors are then mostly those of the background.
EVALUATIONS = 16_000


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues:
    """What each column adds; `print` shows a table.

    Attributes:
        of: The number of p(y|x) that is explained.
        names: Of the columns, or of groups of them.
        row: Values of the columns in the row, as texts.
        values: What each adds, (k,).
        standard_errors: Of the values, (k,), because rows of the background and orders
            were drawn; zero if all of both were taken.
        average: Mean over the background.
        prediction: The number at the row; the average plus all values.
        n_background: Rows of the background.
        exact: Whether all subsets were evaluated.
        response: What y is called.
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
    response: str = "y"

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
        """Bars of what each column adds; returns a `ContributionsDisplay`.

        Args:
            ax: Where to draw; None for a new figure.
            most: How many columns are shown; the others, if several, are one bar.
        """
        from kexpfam.display import ContributionsDisplay

        order = self.order
        if len(order) == most + 1:  # one other needs no more room than all others
            most += 1
        shown, rest = order[:most], order[most:]
        # Of a group the values are in the table.
        labels = [
            self.names[i] if ", " in self.row[i] else f"{self.names[i]} = {self.row[i]}"
            for i in shown
        ]
        values, errors = self.values[shown], self.standard_errors[shown]
        if rest:
            labels.append(f"{len(rest)} other columns")
            values = np.append(values, self.values[rest].sum())
            errors = np.append(errors, np.linalg.norm(self.standard_errors[rest]))
        return ContributionsDisplay(
            labels=labels,
            values=values,
            standard_errors=errors,
            average=self.average,
            prediction=self.prediction,
            of=of_response(self.of, self.response),
        ).plot(ax)

    def __repr__(self) -> str:
        how = "all subsets" if self.exact else "drawn orders"
        lines = [
            f"Why {of_response(self.of, self.response)} is "
            f"{short_number(self.prediction)}, and not "
            f"{short_number(self.average)}, the average of {self.n_background} rows "
            f"({how})"
        ]
        width = max(map(len, self.names))
        wide = max(map(len, self.row))
        for i in self.order:
            own = self.standard_errors[i]
            error = f" ± {short_number(own, 2)}" if own > 0 else ""
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
    n_permutations: int | str | None = None,
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
    drawn_share = min(1.0, most / len(B))
    if len(B) > most:
        chosen = rng.choice(len(B), most, replace=False)
        B, weights = B[chosen], weights[chosen]
    weights = weights / weights.sum()
    texts = [", ".join(columns.text(i, z) for i in own) for own in named.values()]
    columns = columns.grouped(named)
    # Which columns of each row are not those of z. One that never differs adds nothing.
    differs = np.stack(
        [np.any(B[:, list(own)] != z[list(own)], axis=1) for own in columns.places],
        axis=1,
    )
    players = np.flatnonzero(differs.any(axis=0)).tolist()
    game = Game(columns, functional, z, B, weights, players)
    ends = game.worth(np.array([[False], [True]]) & np.ones(len(players), dtype=bool))
    exact = _takes_all(n_permutations, differs[:, players])
    if exact:
        own, within = _by_subsets(game)
    else:
        own, within = _by_orders(game, ends, n_permutations, rng)
    values, standard_errors = np.zeros((2, len(columns.names)))
    values[players] = weights @ own
    standard_errors[players] = _errors(own, within, weights, drawn_share)
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
        columns.response,
    )


def _takes_all(wanted: Any, differs: Mask) -> bool:
    """Whether all subsets are evaluated, where rows differ in columns, (m, k)."""
    k = differs.shape[1]
    if isinstance(wanted, str) and wanted == "all":
        if k > MOST_SUBSETS:
            raise ValueError(
                f"n_permutations='all' is for {MOST_SUBSETS} columns at most, and "
                f"{k} differ from the background; give a number, or groups."
            )
        return True
    # A column that is the same in a row makes no other row: 2^d are left.
    subsets = np.sum(2.0 ** differs.sum(axis=1))
    return wanted is None and k <= MOST_EXACT and bool(subsets <= EVALUATIONS)


def _errors(own: Array, within: Array, weights: Array, drawn_share: float) -> Array:
    """Standard errors of values, (k,), of which each row has its own, (m, k).

    Args:
        own: What columns add beside each row of the background.
        within: Variances of these, because orders were drawn, (m, k).
        weights: Of the rows, (m,).
        drawn_share: Share of the rows that there are of the background.
    """
    m, squares = len(own), weights[:, None] ** 2
    between = np.sum(squares * (own - weights @ own) ** 2, axis=0) * m / max(m - 1, 1)
    found: Array = np.sqrt(
        (1.0 - drawn_share) * between + drawn_share * np.sum(squares * within, axis=0)
    )
    return found


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
        """The number of subsets that rows have of their own, (r, m, s, k) to (r, m, s).

        There are r sets of s subsets for each of m rows.
        """
        r, m, s, k = subsets.shape
        beside = np.tile(np.repeat(np.arange(m), s), r)
        return self._of(subsets.reshape(r * m * s, k), beside).reshape(r, m, s)

    def _of(self, subsets: Mask, beside: Indices) -> Array:
        """f(x_S, b_−S) for pairs of a subset and a row of the background, (r,)."""
        taken = np.zeros((len(subsets), len(self.z)), dtype=bool)
        for player, own in zip(self.players, subsets.T, strict=True):
            taken[:, list(self.columns.places[player])] = own[:, None]
        Z = np.where(taken, self.z, self.B[beside])
        found = self.columns.evaluate_once(
            Z, lambda p, _: self.functional.values(p), np.zeros(len(Z), dtype=int)
        )
        return found[:, 0]


def _by_subsets(game: Game) -> tuple[Array, Array]:
    """What columns add beside each row by all subsets, and variances, zero, (m, k)."""
    k = len(game.players)
    subsets = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)
    v, sizes = game.worth(subsets), subsets.sum(axis=1)
    found = np.zeros((len(game.B), k))
    for j in range(k):
        without = np.flatnonzero(~subsets[:, j])
        # |S|! (k − |S| − 1)! / k! = 1 / (k C(k − 1, |S|))
        shares = 1.0 / (k * comb(k - 1, sizes[without]))
        found[:, j] = shares @ (v[without | 1 << j] - v[without])
    return found, np.zeros_like(found)


def _by_orders(
    game: Game, ends: Array, pairs: Any, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The same by drawn orders and their reverses, and variances of that, (m, k).

    Each row of the background has so many pairs of orders.
    """
    k, m = len(game.players), len(game.B)
    if pairs is None:
        pairs = EVALUATIONS // (2 * k * m)
    # Two, to know how they differ.
    pairs = max(2, check_count("n_permutations", pairs, least=1))
    drawn = []
    for part in np.array_split(np.arange(pairs), -(-pairs * m * k // EVALUATIONS)):
        rank = np.argsort(rng.random((len(part), m, k)), axis=2)
        both = _added(game, ends, rank) + _added(game, ends, k - 1 - rank)
        drawn.append(0.5 * both)
    every = np.concatenate(drawn)  # (pairs, m, k)
    return every.mean(axis=0), every.var(axis=0, ddof=1) / pairs


def _added(game: Game, ends: Array, rank: Indices) -> Array:
    """What columns add to those before them in orders of each row, (pairs, m, k)."""
    k = rank.shape[-1]
    # The first s columns of an order, s = 1, ..., k − 1
    subsets = rank[:, :, None, :] < np.arange(1, k)[:, None]
    between = game.worth_beside(subsets)
    first, last = (np.broadcast_to(e[:, None], (*rank.shape[:2], 1)) for e in ends)
    v = np.concatenate([first, between, last], axis=2)
    found: Array = np.take_along_axis(np.diff(v, axis=2), rank, axis=2)
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
