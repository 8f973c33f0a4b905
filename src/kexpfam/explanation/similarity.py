"""Which columns go together, and which rows are alike in all columns but some.

Columns of which each tells the other are not told apart by a model, nor by anybody who
looks at it, so importance is that of the group. And a column has to be exchanged
between rows that could have had each other's value: in a tree that predicts it from the
other columns, rows of one leaf are such. The tree is grown on other rows than those
that it sorts into leaves: on the same rows it makes leaves of equal values out of
noise.

References:
    Strobl, Boulesteix, Kneib, Augustin and Zeileis, Conditional variable importance for
    random forests, BMC Bioinformatics 2008.
    Molnar, König, Bischl and Casalicchio, Model-agnostic feature importance and effects
    with dependent features: a conditional subgroup approach, Data Mining and Knowledge
    Discovery 2023.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform
from scipy.stats import rankdata

from kexpfam._typing import Array, Indices
from kexpfam.explanation.columns import ModelColumns

# Average rank correlation from which columns are one group. A guess: at 0.8 each
# explains two thirds of the other's variance.
GROUPED_FROM = 0.8

# Rows in a leaf of those that a tree is grown on, and about as many in its other half.
# A guess: fewer make exchanges more alike, and further repetitions bring little.
LEAF_ROWS = 10


def dependence(Z: Array, places: Sequence[Sequence[int]]) -> Array:
    """How far columns tell each other, from 0 to 1, (k, k).

    Of two columns of numbers it is |Spearman's rank correlation|. Of several coded ones
    it is the root of the share of variance of their ranks that the others explain
    linearly (Stewart and Love's redundancy, adjusted for their number), averaged over
    both directions.

    Args:
        Z: Coded rows, (n, p).
        places: The columns of Z of each of k columns.

    Example:
        >>> x = np.arange(8.0)
        >>> dependence(np.column_stack([x, x**3, x % 2]), [[0], [1], [2]]).round(2)
        array([[1.  , 1.  , 0.22],
               [1.  , 1.  , 0.22],
               [0.22, 0.22, 1.  ]])
    """
    C = _rank_correlations(Z)
    k = len(places)
    found = np.eye(k)
    for a in range(k):
        for b in range(a):
            both = _explained(C, places[a], places[b], len(Z))
            both += _explained(C, places[b], places[a], len(Z))
            found[a, b] = found[b, a] = np.sqrt(0.5 * both)
    return found


def collinear_groups(D: Array, from_: float = GROUPED_FROM) -> list[list[int]]:
    """Columns that are collinear, by average linkage of `dependence`.

    Example:
        >>> D = np.array([[1.0, 0.1, 0.95], [0.1, 1.0, 0.1], [0.95, 0.1, 1.0]])
        >>> collinear_groups(D)
        [[0, 2], [1]]
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(D) == 1:
        return [[0]]
    distances = np.clip(1.0 - D, 0.0, None)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average")
    labels = fcluster(tree, 1.0 - from_, "distance")
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(groups)


def named_groups(columns: ModelColumns, groups: Any, Z: Array) -> dict[str, list[int]]:
    """Columns that are looked at together, by name of the group.

    Args:
        columns: The model's.
        groups: "auto" for those that are collinear in Z; None for each alone; or names
            of columns by name of the group, the others being alone.
        Z: Coded rows, (n, p).
    """
    if groups is None:
        return {name: [i] for i, name in enumerate(columns.names)}
    if isinstance(groups, str) and groups == "auto":
        found = collinear_groups(dependence(Z, columns.places))
        return {" + ".join(columns.names[i] for i in own): own for own in found}
    if not isinstance(groups, Mapping):
        raise ValueError(
            f"groups must be 'auto', None, or names of columns by name of the group, "
            f"as {{'size': ['area', 'rooms']}}, got {groups!r}."
        )
    told = {str(g): [columns.index(c) for c in own] for g, own in groups.items()}
    used = [i for own in told.values() for i in own]
    twice = [columns.names[i] for i in set(used) if used.count(i) > 1]
    if twice or not all(told.values()):
        what = f"{twice[0]!r} twice" if twice else "a group without columns"
        raise ValueError(f"groups must have each column once at most, got {what}.")
    alone = {name: [i] for i, name in enumerate(columns.names) if i not in used}
    if set(alone) & set(told):
        raise ValueError(
            f"groups must not be called like columns outside of them, got "
            f"{min(set(alone) & set(told))!r}."
        )
    return told | alone


def marginal_donors(n: int, rng: np.random.Generator) -> Indices:
    """For each of n rows another one, at random, (n,); all are taken once."""
    return cycled(np.zeros(n, dtype=int), rng)


def similar_donors(
    Z: Array, columns: Sequence[int], rng: np.random.Generator
) -> Indices:
    """For each row another one that is like it but in some columns, (n,).

    Args:
        Z: Coded rows, (n, p).
        columns: The columns of Z that are to be exchanged.
        rng: Halves and exchanges are drawn from it.
    """
    # Slow to import, and of no use to who only fits.
    from sklearn.tree import DecisionTreeRegressor

    others = np.setdiff1d(np.arange(Z.shape[1]), columns)
    n = len(Z)
    if not len(others) or n < 4:
        return marginal_donors(n, rng)
    T = _standardized_ranks(Z[:, list(columns)])
    halves = np.array_split(rng.permutation(n), 2)
    found = np.empty(n, dtype=np.intp)
    for rows, grown_on in (halves, halves[::-1]):
        tree = DecisionTreeRegressor(
            min_samples_leaf=min(LEAF_ROWS, len(grown_on)),
            random_state=int(rng.integers(2**31)),
        )
        tree.fit(Z[np.ix_(grown_on, others)], T[grown_on])
        leaves = tree.apply(Z[np.ix_(rows, others)])
        found[rows] = rows[cycled(leaves, rng)]
    return found


def cycled(groups: Indices, rng: np.random.Generator) -> Indices:
    """For each row the next in a random order of its group, (n,).

    So no row has itself, and each is taken once. A row that is alone in its group joins
    the group before, in the order of the groups: leaves are numbered so that neighbours
    in a tree follow each other.

    Example:
        >>> cycled(np.array([0, 0, 1, 1]), np.random.default_rng(0))
        array([1, 0, 3, 2])
    """
    n = len(groups)
    order = np.lexsort((rng.random(n), groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
    sizes = np.diff(starts, append=n)
    starts = starts[(sizes > 1) | (starts == 0)]
    if len(starts) > 1 and starts[1] == 1:  # a first row that is alone joins the next
        starts = np.delete(starts, 1)
    following = np.arange(1, n + 1)
    following[np.append(starts[1:], n) - 1] = starts
    found = np.empty(n, dtype=np.intp)
    found[order] = order[following]
    return found


def _standardized_ranks(Z: Array) -> Array:
    """Ranks with mean zero and standard deviation one; constants are zero."""
    ranks = rankdata(Z, axis=0)
    ranks -= ranks.mean(axis=0)
    std = ranks.std(axis=0)
    return ranks / np.where(std > 0, std, 1.0)


def _rank_correlations(Z: Array) -> Array:
    R = _standardized_ranks(Z)
    return R.T @ R / len(Z)


def _explained(C: Array, a: Sequence[int], b: Sequence[int], n: int) -> float:
    """Share of the variance of columns a that columns b explain, adjusted."""
    total = np.trace(C[np.ix_(a, a)])
    if not total > 0 or not np.trace(C[np.ix_(b, b)]) > 0:
        return 0.0  # a constant tells nothing, and nothing is told of it
    cross, own = C[np.ix_(a, b)], C[np.ix_(b, b)]
    inverse = np.linalg.pinv(own, rcond=1e-8, hermitian=True)
    share = float(np.clip(np.trace(cross @ inverse @ cross.T) / total, 0.0, 1.0))
    used = np.linalg.matrix_rank(own, tol=1e-8, hermitian=True)
    # As R² is adjusted, but so that one column is not: its share is Spearman's ρ².
    free = n - used - 1
    return max(0.0, 1.0 - (1.0 - share) * (n - 2) / free) if free > 0 else 0.0
