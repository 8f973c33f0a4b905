"""What trees would gain by splitting categories at each node, in nats.

    python benchmarks/native_categories.py [--splits 0 1 2] [--rows 600]

Extremely randomised trees, grown by a few lines of NumPy so that only the splits of
categories differ, are fitted to rows of the diamonds (log price), of the flights
(arrival delay with and without the delay of departure), and of a law where what a
category of twelve does depends on the signs of two numbers, so that its mean says
nothing. They predict as many other rows. At each node every column offers one threshold
that is uniform in its range; the best is taken, and leaves hold one row at least, as
`summaries` has them. Trees see

- "means": what they see today, coded columns (zeros and ones, or shrunk held-out means
  of y) with the held-out means of each group of zeros and ones beside them;
- "ordered": the former, and each column of categories as such, its categories in the
  order of their means of y in the node (Fisher 1958);
- "ordered, few": likewise, for columns of at most a dozen categories;
- "random": as "ordered", in random order, so that a threshold is a random subset;
- "shuffled": as "random", but categories are those of other rows, and say nothing: what
  is gained by splits that are more random alone.

A category that is not in a node goes to its larger side. Figures are nats a row, log of
the ratio of root mean squared errors, positive where it is better than "means". Rows of
a split are drawn without replacement, with the split as seed. Needs `KEXPFAM_DATA` with
tables, and pandas.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from record import write_result
from tree_views import read

from kexpfam._typing import Array, Indices
from kexpfam.errors import TableWarning
from kexpfam.summaries import ColumnKinds
from kexpfam.summaries.views import TreeView
from kexpfam.tables import Coding, as_table

TREES = 60
TABLES = ("diamonds", "flights", "flights without dep_delay", "signs of categories")
# How the categories of a node are put in order: means in it, and a generator
Order = Callable[[Array, np.random.Generator], Array]
ORDERS: dict[str, Order] = {
    "ordered": lambda means, _: means,
    "random": lambda means, rng: rng.random(means.shape),
}


@dataclass(frozen=True)
class Tree:
    """A tree of nodes: a mean, or a column with the rows that go to the left."""

    mean: float
    column: int = -1  # Of numbers first, then of categories
    threshold: float = 0.0
    left_categories: Any = None  # (k,) booleans of a column of categories
    left: "Tree | None" = None
    right: "Tree | None" = None

    def predict(self, X: Array, C: Indices, out: Array, rows: Indices) -> None:
        """Fill in the predictions of some rows."""
        if self.left is None or self.right is None:
            out[rows] = self.mean
            return
        p = X.shape[1]
        if self.column < p:
            goes = X[rows, self.column] <= self.threshold
        else:
            goes = self.left_categories[C[rows, self.column - p]]
        self.left.predict(X, C, out, rows[goes])
        self.right.predict(X, C, out, rows[~goes])


def grown(
    X: Array,
    C: Indices,
    k: Indices,
    y: Array,
    order: Order | None,
    rng: np.random.Generator,
) -> Tree:
    """A tree of numbers (n, p) and categories (n, c), with k of each column."""
    n, p = X.shape
    mean = float(y.mean())
    if n < 2 or np.ptp(y) == 0:
        return Tree(mean)
    columns, ranks = [X], []
    for j in range(C.shape[1] if order is not None else 0):
        assert order is not None
        sizes = np.bincount(C[:, j], minlength=k[j])
        sums = np.bincount(C[:, j], y, minlength=k[j])
        found = order(sums / np.maximum(sizes, 1), rng)
        place = np.full(k[j], np.inf)
        there = np.flatnonzero(sizes)
        place[there[np.argsort(found[there])]] = np.arange(len(there))
        ranks.append(place)
        columns.append(place[C[:, j], None])
    Z = np.hstack(columns)
    low, high = Z.min(axis=0), Z.max(axis=0)
    varies = np.flatnonzero(high > low)
    if not len(varies):
        return Tree(mean)
    threshold = rng.uniform(low[varies], high[varies])
    goes = Z[:, varies] <= threshold
    sizes = goes.sum(axis=0)
    sums = (y - mean) @ goes
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = sums**2 * (1.0 / sizes + 1.0 / (n - sizes))
    gain[(sizes == 0) | (sizes == n)] = -1.0
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return Tree(mean)
    column, own = int(varies[best]), goes[:, best]
    categories = None
    if column >= p:
        place = ranks[column - p]
        larger_left = 2 * int(own.sum()) >= n
        categories = np.where(
            np.isfinite(place), place <= threshold[best], larger_left
        ).astype(bool)
    parts = [grown(X[i], C[i], k, y[i], order, rng) for i in (own, ~own)]
    return Tree(mean, column, float(threshold[best]), categories, *parts)


def error(
    X: Array, new: Array, C: Indices, new_C: Indices, y: Array, y_new: Array, how: str
) -> float:
    """Log root mean squared error of a forest on new rows."""
    rng, order = np.random.default_rng(0), ORDERS.get(how)
    k = np.maximum(C.max(axis=0), new_C.max(axis=0)) + 1
    total, out = np.zeros(len(new)), np.empty(len(new))
    for _ in range(TREES):
        tree = grown(X, C, k, y, order, rng)
        tree.predict(new, new_C, out, np.arange(len(new)))
        total += out
    return 0.5 * float(np.log(np.mean((total / TREES - y_new) ** 2)))


def drawn(name: str, split: int, rows: int) -> tuple[pd.DataFrame, Array]:
    """Twice as many rows of a table, and their responses."""
    if name == "signs of categories":
        rng = np.random.default_rng(split)
        table = pd.DataFrame(rng.normal(size=(2 * rows, 4)), columns=list("abcd"))
        category = rng.integers(12, size=2 * rows)
        table["category"] = [f"c{j}" for j in category]
        sign = np.sign(table["a"]) * np.sign(table["b"])
        effect = np.linspace(-1.5, 1.5, 12)[category]
        y = effect * sign + 0.5 * table["c"] + 0.5 * rng.normal(size=2 * rows)
        return table, y.to_numpy()
    table, target = read(name.split(" ", maxsplit=1)[0])
    some = table.sample(2 * rows, random_state=split).reset_index(drop=True)
    if name.endswith("without dep_delay"):
        some = some.drop(columns=["dep_delay", "dep_time"])
    return some, some.pop(target).to_numpy(float)


def compared(name: str, split: int, rows: int) -> dict[str, Any]:
    """Gains of all ways on one split."""
    table, y = drawn(name, split, rows)
    y_new, y = y[rows:], y[:rows]
    coding = Coding.learn(table[:rows], Y=y[:, None])
    X = coding.training(as_table(table[:rows]), y[:, None])
    new = coding.transform(table[rows:]).X
    kinds = ColumnKinds(groups=(coding.kinds or ColumnKinds()).groups)
    view, seen = TreeView.fit(kinds, X, y[:, None], np.ones(rows))
    new_seen = view.at(new)
    texts = [c for c in table if table[c].dtype.kind not in "biuf" and c != "time_hour"]
    codes = [pd.factorize(table[c].astype(str))[0] for c in texts]
    C = np.stack(codes, axis=1)
    old, fresh = C[:rows], C[rows:]
    other = np.random.default_rng(split).permutation(C)
    few = np.flatnonzero(C.max(axis=0) < 12)
    plain = error(seen, new_seen, old, fresh, y, y_new, "means")
    errors = {
        "ordered": error(seen, new_seen, old, fresh, y, y_new, "ordered"),
        "ordered, few": error(
            seen, new_seen, old[:, few], fresh[:, few], y, y_new, "ordered"
        ),
        "random": error(seen, new_seen, old, fresh, y, y_new, "random"),
        "shuffled": error(
            seen, new_seen, other[:rows], other[rows:], y, y_new, "random"
        ),
    }
    gains = {how: round(plain - own, 4) for how, own in errors.items()}
    return {"table": name, "split": split, "rows": rows, **gains}


def main() -> None:
    """Compare, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=600)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", TableWarning)  # of categories that are new
    cases = []
    for name in TABLES:
        for split in chosen.splits:
            cases.append(compared(name, split, chosen.rows))
            print(cases[-1], flush=True)
    write_result("native_categories", {"trees": TREES, "cases": cases})


if __name__ == "__main__":
    main()
