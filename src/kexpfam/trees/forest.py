"""Many regression trees as a few arrays, and their predictions.

A tree is the list of its nodes level by level. Every split has two children, so its
j-th split in this order has the children 2j + 1 and 2j + 2 of that tree, and nothing
but the feature of each node has to be kept to know the shape: −1 is a leaf. Thresholds
are kept for splits only, and values for leaves only.

A row goes to the left child where x ≤ threshold. Prediction walks many rows down one
tree, level by level, each step a few gathers of NumPy: there a leaf is its own child.
Values are added tree after tree, so that the bits of a prediction do not depend on the
rows beside it, or on the number of threads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kexpfam._parallel import cached_property, on_threads, thread_count
from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit

# Pairs of a row and a tree that take a step together: their nodes, values and places
# (40 bytes each) should stay in the second cache. 8,000 to 30,000 are equally fast.
_LANES = 16384
# Pairs that have arrived are looked for at every eighth level, and taken out when they
# are half of all: looking and moving cost more than a few steps.
_LEVELS, _FINISHED = 8, 1 / 2
# Leaves that are compressed together.
_LEAF_BLOCK = 100_000


class _Nodes(NamedTuple):
    """All nodes as a walk needs them, leaves too; they are their own left child.

    What a step needs of a node is one number, since fetching it takes longest: from the
    left its left child (the right one is the next); how far the rank of its threshold,
    among those of its column, is below the largest that is counted; whether NaN goes
    left; and the column. Of a value it is counted how many thresholds are below it. If
    they are more than the rank of the node's, the sum of both is carried over into the
    child, which becomes the right one.
    """

    packed: NDArray[np.int64]
    # Columns that are looked at, each with its thresholds, increasing
    thresholds: tuple[tuple[int, NDArray[np.floating]], ...]
    column_bits: int
    rank_bits: int  # As many ones are the rank of leaves, and of NaN
    leaf: NDArray[np.int32]  # Row in the values of a leaf

    def shifted(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ranks where they are added to nodes."""
        return ranks << (1 + self.column_bits)

    @property
    def missing(self) -> int:
        """The rank of NaN, and of leaves."""
        return (1 << self.rank_bits) - 1


@saved_fit(
    {
        "roots": "t int32 nonnegative",
        "feature": "N int16 int32",
        "threshold": "s float32 float64 unbounded",
        "missing_left": "s uint8 share",
        "values": "l r float32 float64",
        "offset": "k",
        "components": "r k optional",
        "n_features": "positive",
        "scale": "positive",
    },
    shared=True,
)
@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees: offset + scale · Σ_t values of the leaf of x in tree t.

    X is compared with thresholds in their precision: single, as scikit-learn's forests
    do, or double, as its boosting does.
    """

    roots: NDArray[np.int32]  # First node of each tree, (t,)
    feature: NDArray[np.signedinteger]  # Column that a node looks at; −1: leaf, (N,)
    threshold: NDArray[np.floating]  # Of each split, (s,)
    missing_left: NDArray[np.uint8]  # Whether NaN goes left at a split, (s,)
    values: NDArray[np.floating]  # Of each leaf, or its scores on components, (l, r)
    offset: Array  # Added to all predictions, (k,)
    n_features: int  # Columns of X, p
    scale: float = 1.0  # Of values; 1/t of their unit for a mean of trees
    components: Array | None = None  # What scores are multiplied by, (r, k)

    @property
    def n_outputs(self) -> int:
        """Number of columns that are predicted, k."""
        return len(self.offset)

    @property
    def n_trees(self) -> int:
        """Number of trees, t."""
        return len(self.roots)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, about the size in a file."""
        parts = vars(self).values()
        return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """Predictions at the rows of X, (n, k).

        Args:
            X: Conditions, (n, p); NaN where a value is missing.
            n_jobs: Number of threads; None for all cores.

        Raises:
            ValueError: X has other columns than the forest was grown on.

        Example:
            >>> from kexpfam.trees import fit_forest
            >>> rng = np.random.default_rng(0)
            >>> X = rng.uniform(-1, 1, size=(200, 2))
            >>> Y = np.sign(X)
            >>> forest = fit_forest(X, Y, np.ones(200), rng, trees=50).forest
            >>> forest.predict(np.array([[0.5, -0.5]])).round(1)
            array([[ 1., -1.]])
        """
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have the {self.n_features} columns that the forest was grown "
                f"on, got shape {X.shape}."
            )
        if not len(X):
            return np.empty((0, self.n_outputs))
        _ = self._nodes  # made once, before threads ask for it
        rows = min(_LANES, math.ceil(len(X) / thread_count(n_jobs)))
        blocks = [X[start : start + rows] for start in range(0, len(X), rows)]
        sums = np.concatenate(on_threads(self._sums, blocks, n_jobs)) * self.scale
        if self.components is None:
            return self.offset + sums
        # Not by BLAS, whose bits depend on the number of rows.
        return self.offset + np.einsum("nr,rk->nk", sums, self.components)

    def compressed(self, components: int, predictions: Array | None = None) -> "Forest":
        """The forest whose predictions vary along a few principal components only.

        Leaves then hold scores on components instead of values: files are smaller if
        there are many outputs. With mean μ and components C of predictions, what was f
        becomes μ + (f − μ) CᵀC. Components of leaf values tell little of predictions if
        leaves are small: give predictions, held-out ones if you have them, as
        `ForestFit.compressed` does.

        Args:
            components: Number of principal components that are kept, r.
            predictions: Predictions whose components are kept, (m, k); None for those
                of leaf values.

        Raises:
            ValueError: There are not more outputs than components, or it is compressed.

        Example:
            >>> from kexpfam.trees import fit_forest
            >>> rng = np.random.default_rng(0)
            >>> X = rng.uniform(size=(200, 1))
            >>> Y = X ** [1, 2, 3, 4]
            >>> forest = fit_forest(X, Y, np.ones(200), rng, trees=20).forest
            >>> small = forest.compressed(3, forest.predict(X))
            >>> bool(np.abs(small.predict(X) - forest.predict(X)).max() < 0.01)
            True
        """
        if self.components is not None or not 0 < components < self.n_outputs:
            raise ValueError(
                f"components must be between 1 and {self.n_outputs - 1}, for values "
                f"that are not compressed yet; got {components}."
            )
        if predictions is None:
            leaf, gram = _moments(self.values)
            mean = self.offset + self.scale * self.n_trees * leaf
        else:
            mean, gram = _moments(predictions)
        C = np.linalg.eigh(gram)[1][:, : -components - 1 : -1].T
        return replace(
            self,
            values=np.concatenate(
                [(V @ C.T).astype(self.values.dtype) for V in _in_blocks(self.values)]
            ),
            offset=projected(self.offset, mean, C),
            components=np.ascontiguousarray(C),
        )

    def first(self, trees: int) -> "Forest":
        """The sum of the first trees only; without any it is one leaf of value 0.

        Example:
            >>> from kexpfam.trees import fit_boosting
            >>> rng = np.random.default_rng(0)
            >>> X, y = rng.normal(size=(100, 1)), rng.normal(size=100)
            >>> forest = fit_boosting(X, y, np.ones(100), rng, rounds=9).forest
            >>> forest.first(0).predict(X[:1]) == forest.offset
            array([[ True]])
        """
        if trees == 0:
            leaf = np.full(1, -1, dtype=self.feature.dtype)
            zero = np.zeros_like(self.values[:1])
            return replace(self.first(1), feature=leaf, values=zero).first(1)
        ends = np.append(self.roots, self.feature.size)
        nodes = int(ends[trees])
        splits = int(np.count_nonzero(self.feature[:nodes] >= 0))
        return replace(
            self,
            roots=self.roots[:trees],
            feature=self.feature[:nodes],
            threshold=self.threshold[:splits],
            missing_left=self.missing_left[:splits],
            values=self.values[: nodes - splits],
        )

    def _sums(self, X: Array) -> Array:
        """Sums over trees of the values of leaves, (n, r)."""
        flat, missing = self._flat(X)
        total = np.zeros((len(X), self.values.shape[1]))
        trees = max(1, _LANES // len(X))
        for start in range(0, self.n_trees, trees):
            roots = self.roots[start : start + trees]
            for leaves in self._leaves(flat, missing, roots):
                total += self.values.take(leaves, axis=0)
        return total

    def _flat(self, X: Array) -> tuple[NDArray[np.int64], bool]:
        """How many thresholds of its column each value is above, and if there is NaN.

        In the precision of thresholds, and row after row.
        """
        with np.errstate(over="ignore"):  # beyond single precision it is infinite
            X = np.asarray(X, dtype=self.threshold.dtype)
        nodes, ranks = self._nodes, np.zeros(X.shape, dtype=np.int64)
        for column, values in nodes.thresholds:
            ranks[:, column] = np.searchsorted(values, X[:, column])
        missing = np.isnan(X)
        ranks[missing] = nodes.missing
        return nodes.shifted(ranks).ravel(), bool(missing.any())

    def _leaves(
        self, flat: NDArray[np.int64], missing: bool, roots: NDArray[np.int32]
    ) -> Indices:
        """Leaf of each row in trees with these roots, (trees, n)."""
        nodes, n = self._nodes, flat.size // self.n_features
        column_mask, above_column = (1 << nodes.column_bits) - 1, 1 << nodes.column_bits
        no_number = nodes.shifted(np.array(nodes.missing, dtype=np.int64))
        node = np.repeat(roots.astype(np.intp), n)
        first = np.tile(np.arange(0, flat.size, self.n_features), len(roots))
        lane, found = np.arange(node.size), np.empty(node.size, dtype=np.intp)
        level = 0
        while lane.size:
            packed = nodes.packed.take(node)
            place = packed & column_mask
            place += first
            x = flat.take(place)
            if missing:
                x[(x == no_number) & (packed & above_column > 0)] = 0
            packed += x
            packed >>= 1 + nodes.column_bits + nodes.rank_bits
            child = packed
            level += 1
            if level % _LEVELS == 0:
                going = child != node
                left = np.count_nonzero(going)
                if left <= (1 - _FINISHED) * lane.size:
                    arrived = ~going
                    found[lane[arrived]] = nodes.leaf.take(child[arrived])
                    lane, child, first = lane[going], child[going], first[going]
            node = child
        return found.reshape(len(roots), n)

    @cached_property
    def _nodes(self) -> _Nodes:
        is_leaf = self.feature < 0
        split = np.flatnonzero(~is_leaf)
        left = np.arange(self.feature.size, dtype=np.int64)
        left[split] = self._left_children(split)
        rank = np.zeros(split.size, dtype=np.int64)
        column, thresholds = self.feature[split].astype(np.int64), []
        order = np.argsort(column, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(column[order])) + 1):
            values, rank[mine] = np.unique(self.threshold[mine], return_inverse=True)
            thresholds += [(int(column[mine[0]]), values)] if mine.size else []
        most = max((values.size for _, values in thresholds), default=0)
        rank_bits = (1 + most).bit_length()
        column_bits = (self.n_features - 1).bit_length()
        if self.feature.size.bit_length() + rank_bits + column_bits > 62:
            raise ValueError(
                f"The trees have {self.feature.size} nodes that look at "
                f"{self.n_features} columns, more than a walk can count; grow fewer."
            )
        packed = left << rank_bits
        packed[split] |= (1 << rank_bits) - 1 - rank
        packed <<= 1 + column_bits
        packed[split] |= (self.missing_left.astype(np.int64) << column_bits) | column
        leaf = np.cumsum(is_leaf, dtype=np.int32) - np.int32(1)
        return _Nodes(packed, tuple(thresholds), column_bits, rank_bits, leaf)

    def _left_children(self, split: Indices) -> Indices:
        """Of all splits; the j-th of a tree has its nodes 2j + 1 and 2j + 2."""
        sizes = np.diff(self.roots, append=self.feature.size)
        root = np.repeat(self.roots.astype(np.int64), sizes)[split]
        before = np.searchsorted(split, self.roots)
        number = np.arange(split.size) - np.repeat(
            before, np.diff(before, append=split.size)
        )
        return root + 2 * number + 1

    def check_saved(self) -> None:
        """Refuse arrays that are no trees: walks end, and stay inside the arrays."""
        split = np.flatnonzero(self.feature >= 0)
        if np.any(self.feature >= self.n_features) or np.any(self.feature < -1):
            raise ValueError("a node of Forest looks at a column that is not there")
        if self.threshold.size != split.size or np.isnan(self.threshold).any():
            raise ValueError("threshold of Forest does not fit its splits")
        if self.values.shape[0] != self.feature.size - split.size:
            raise ValueError("values of Forest do not fit its leaves")
        if self.components is None and self.values.shape[1] != self.n_outputs:
            raise ValueError("values of Forest do not fit its outputs")
        sizes = np.diff(self.roots, append=self.feature.size)
        splits = np.diff(np.searchsorted(split, self.roots), append=split.size)
        if self.roots[0] != 0 or np.any(sizes != 2 * splits + 1):
            raise ValueError("roots of Forest do not fit its nodes")
        # Children come after their parent, so that there is no way back.
        if np.any(self._left_children(split) <= split):
            raise ValueError("a node of Forest is its own child")


@dataclass(frozen=True, eq=False)
class ForestFit:
    """Trees fitted to all rows, and what trees without a row predict there."""

    forest: Forest
    held_out: Array  # Out-of-bag or cross-fitted predictions of training rows, (n, k)
    importances: Array  # Mean decrease in impurity, sums to 1 or is all zero, (p,)

    def compressed(self, components: int) -> "ForestFit":
        """Forest and held-out predictions on components of the latter."""
        forest = self.forest.compressed(components, self.held_out)
        C = forest.components
        assert C is not None
        held_out = projected(self.held_out, self.held_out.mean(axis=0), C)
        return replace(self, forest=forest, held_out=held_out)


def projected(f: Array, mean: Array, C: Array) -> Array:
    """μ + (f − μ) CᵀC, what is left of f on components C around a mean μ."""
    return mean + (f - mean) @ C.T @ C


def _in_blocks(V: NDArray[np.floating]) -> Iterator[NDArray[np.floating]]:
    return (V[i : i + _LEAF_BLOCK] for i in range(0, len(V), _LEAF_BLOCK))


def _moments(V: NDArray[np.floating]) -> tuple[Array, Array]:
    """Mean of rows, and the sum of their squares around it."""
    mean: Array = np.mean(V, axis=0, dtype=np.float64)
    gram = np.zeros((mean.size, mean.size))
    for block in _in_blocks(V):
        centred = block - mean
        gram += centred.T @ centred
    return mean, gram


class Tree(NamedTuple):
    """One tree, its nodes level by level."""

    feature: NDArray[np.signedinteger]  # −1: leaf, (N,)
    threshold: NDArray[np.floating]  # Of splits
    missing_left: NDArray[np.uint8]  # Of splits
    nodes: Indices  # Number that each node had before


def tree_of(
    feature: NDArray[np.signedinteger],  # Of each node, any order, root first
    threshold: NDArray[np.floating],
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    missing_left: NDArray[np.integer],
    is_leaf: NDArray[np.bool_],
) -> Tree:
    """A tree whose nodes are numbered in some order."""
    levels, level = [], np.zeros(1, dtype=np.intp)
    while level.size:
        levels.append(level)
        splits = level[~is_leaf[level]]
        children = np.empty((splits.size, 2), dtype=np.intp)
        children[:, 0], children[:, 1] = left[splits], right[splits]
        level = children.ravel()
    nodes = np.concatenate(levels)
    splits = nodes[~is_leaf[nodes]]
    narrow = np.int16 if feature.max(initial=0) < 2**15 else np.int32
    return Tree(
        np.where(is_leaf, -1, feature)[nodes].astype(narrow),
        threshold[splits],
        missing_left[splits].astype(np.uint8),
        nodes,
    )


def forest_of(
    trees: Sequence[Tree],
    values: Sequence[NDArray[np.floating]],  # Of the leaves of each tree, (l, k)
    offset: Array,
    n_features: int,
    scale: float,
) -> Forest:
    """A forest of trees; ValueError if they have too many nodes together."""
    sizes = [tree.feature.size for tree in trees]
    if sum(sizes) >= 2**31:
        raise ValueError(
            f"The trees have {sum(sizes)} nodes, and a forest at most {2**31 - 1}; "
            f"grow fewer trees, or larger leaves."
        )
    return Forest(
        roots=np.cumsum([0, *sizes[:-1]], dtype=np.int32),
        feature=np.concatenate([tree.feature for tree in trees]),
        threshold=np.concatenate([tree.threshold for tree in trees]),
        missing_left=np.concatenate([tree.missing_left for tree in trees]),
        values=np.concatenate(values),
        offset=offset,
        n_features=n_features,
        scale=scale,
    )
