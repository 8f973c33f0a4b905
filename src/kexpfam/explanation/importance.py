"""Importance of columns: what of the density is lost without them.

Without the columns J a law is the average of p(y|x) over values of x_J that go with the
rest of x,

    p(y|x_−J) = E[p(y|x_J, x_−J) | x_−J] ≈ 1/R Σ_r p(y|x_J^(r), x_−J),

with values x_J^(r) of other rows: of similar ones (conditional) or of any (marginal).
What is reported is how much less its log density of held-out rows is than that of
p(y|x), how much greater its CRPS, and how much wider its 90 % intervals. If the model
is right, the first is the information that x_J has of y beyond the other columns, in
nats. On average it is too large for a finite R, by Jensen's inequality.

References:
    Fisher, Rudin and Dominici, All models are wrong, but many are useful: learning a
    variable's importance, JMLR 2019.
    Poole, Ozair, van den Oord, Alemi and Tucker, On variational bounds of mutual
    information, ICML 2019 (the leave-one-out upper bound).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import as_generator, check_choice, check_count, check_weights
from kexpfam.data import observed_beside
from kexpfam.explanation.averaged_laws import AveragedLaws
from kexpfam.explanation.columns import ModelColumns, exchanged
from kexpfam.explanation.similarity import (
    marginal_donors,
    named_groups,
    similar_donors,
)
from kexpfam.metrics import Estimate
from kexpfam.metrics.observations import estimate, finite_numbers

KINDS = ("conditional", "marginal")

# Scores, and what tables and pictures call their losses.
SCORES = {
    "log_density": "log density lost",
    "crps": "CRPS gained",
    "width": "90 % interval wider by",
}

_MODEL_SCORES = {"log_density": "log density", "crps": "CRPS", "width": "90 % width"}

# Rows that are exchanged with each other; of more, so many are drawn. A guess: leaves
# are small enough then, and trees are grown in milliseconds.
POOL_ROWS = 5000

# Of a loss: what is less is the rounding of an average of equal laws.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """What is lost without columns, the most important first; `print` shows a table.

    Attributes:
        names: Of columns or groups of columns.
        columns: The columns of each.
        losses: By kind, "conditional" or "marginal", and by score, "log_density",
            "crps" and "width": an estimate for each name, with its standard error over
            rows and exchanges. Several columns of y have "log_density" only.
        scores: The scores of the model with all columns.
        n_rows: How many rows were looked at.
        n_repeats: How many exchanges were averaged.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    losses: Mapping[str, Mapping[str, tuple[Estimate, ...]]]
    scores: Mapping[str, Estimate]
    n_rows: int
    n_repeats: int

    def loss(
        self, name: str, score: str = "log_density", kind: str = "conditional"
    ) -> Estimate:
        """What is lost without a column, or without the group that it is in.

        Raises:
            ValueError: An unknown name, score or kind.
        """
        own = [
            i for i, n in enumerate(self.names) if name == n or name in self.columns[i]
        ]
        for label, value, known in (
            ("name", name, self.names if not own else [name]),
            ("score", score, list(self.scores)),
            ("kind", kind, list(self.losses)),
        ):
            check_choice(label, value, known)
        return self.losses[kind][score][own[0]]

    def to_frame(self) -> Any:
        """A frame of pandas: a row for each name, a column for each number."""
        pandas = needed("pandas", "to make a frame")
        return pandas.DataFrame(self.table(), index=list(self.names))

    def table(self) -> dict[str, Array]:
        """Losses and their standard errors, by names of columns, in order."""
        found = {}
        for kind, by_score in self.losses.items():
            for score, losses in by_score.items():
                name = f"{score}_{kind}"
                found[name] = np.array([loss.value for loss in losses])
                errors = [loss.standard_error for loss in losses]
                found[f"{name}_se"] = np.array(errors)
        return found

    def plot(self, axes: Any = None, *, most: int = 12) -> Any:
        """Bars of what is lost, with standard errors; an `ImportanceDisplay`.

        Args:
            axes: One Axes for each score; None for a new figure.
            most: How many names are shown, from the most important on.
        """
        from kexpfam.display import ImportanceDisplay

        panels = {
            SCORES[score]: {k: self.losses[k][score][:most] for k in self.losses}
            for score in self.scores
        }
        return ImportanceDisplay(names=self.names[:most], panels=panels).plot(axes)

    def __repr__(self) -> str:
        with_all = ", ".join(
            f"{words} {self.scores[score]}"
            for score, words in _MODEL_SCORES.items()
            if score in self.scores
        )
        rows = "row" if self.n_rows == 1 else "rows"
        lines = [
            f"Without a column, of {self.n_rows} {rows} "
            f"({self.n_repeats} exchanges; with all: {with_all})"
        ]
        header = [""]
        columns = [list(self.names)]
        for score in self.scores:
            header += [SCORES[score], "(marginal)"]
            columns += [[str(loss) for loss in self.losses[k][score]] for k in KINDS]
        widths = [
            max(len(h), *map(len, c)) for h, c in zip(header, columns, strict=True)
        ]
        for cells in [header, *zip(*columns, strict=True)]:
            padded = (f"{c:{w}}" for c, w in zip(cells, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)


def importance(
    columns: ModelColumns,
    X: Any,
    y: Any,
    *,
    groups: Any = "auto",
    n_repeats: int = 10,
    max_rows: int = 200,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
) -> Importance:
    """What is lost without columns; see `KCEF.importance`."""
    Y = finite_numbers(observed_beside(X, y))
    Y = Y[:, 0] if Y.ndim == 2 and Y.shape[1] == 1 else Y
    Z = columns.encode(X)
    if len(Y) != len(Z):
        raise ValueError(f"y must have {len(Z)} rows like X, got {len(Y)}.")
    if len(Z) < 4:
        raise ValueError(
            f"X must have 4 rows at least, to exchange values between them, got "
            f"{len(Z)}."
        )
    repeats = check_count("n_repeats", n_repeats, least=1)
    most = check_count("max_rows", max_rows, least=1)
    weights = check_weights(sample_weight, len(Z))
    rng = as_generator(random_state)
    pool = rng.permutation(len(Z))[: max(POOL_ROWS, most)]
    Z, named = Z[pool], named_groups(columns, groups, Z[pool])
    n = min(most, len(Z))
    weights, laws = weights[pool[:n]], AveragedLaws.of(columns, Z[:n], Y[pool[:n]])
    with_all = laws.losses(Z[None, :n])
    found: dict[str, dict[str, list[Estimate]]] = {
        kind: {score: [] for score in with_all} for kind in KINDS
    }
    for members in named.values():
        coded = columns.coded(members)
        for kind in KINDS:
            moved = without_columns(Z, coded, kind, repeats, n, rng)
            for score, losses in laws.losses(moved).items():
                lost = losses - with_all[score]
                lost[np.abs(lost) < ROUNDING * np.abs(with_all[score])] = 0.0
                found[kind][score].append(estimate(lost, weights))
    return _sorted(columns, named, found, _means(with_all, weights), n, repeats)


def without_columns(
    Z: Array,
    coded: Sequence[int],
    kind: str,
    repeats: int,
    n: int,
    rng: np.random.Generator,
) -> Array:
    """The first n rows with some columns of other rows, `repeats` times, (R, n, p)."""
    rows = np.arange(n)
    donors = [
        similar_donors(Z, coded, rng)
        if kind == "conditional"
        else marginal_donors(len(Z), rng)
        for _ in range(repeats)
    ]
    return np.stack([exchanged(Z, rows, own[:n], coded) for own in donors])


def _means(losses: Mapping[str, Array], weights: Array) -> dict[str, Estimate]:
    """Scores of the model; a log density is better if higher."""
    return {
        score: estimate(-values if score == "log_density" else values, weights)
        for score, values in losses.items()
    }


def _sorted(
    columns: ModelColumns,
    named: Mapping[str, list[int]],
    found: Mapping[str, Mapping[str, list[Estimate]]],
    scores: Mapping[str, Estimate],
    n: int,
    repeats: int,
) -> Importance:
    """The result, with what matters most first."""
    first = [-loss.value for loss in found["conditional"]["log_density"]]
    order, names = np.argsort(first, kind="stable").tolist(), list(named)
    return Importance(
        tuple(names[i] for i in order),
        tuple(tuple(columns.names[j] for j in named[names[i]]) for i in order),
        {
            kind: {score: tuple(own[i] for i in order) for score, own in by.items()}
            for kind, by in found.items()
        },
        scores,
        n,
        repeats,
    )
