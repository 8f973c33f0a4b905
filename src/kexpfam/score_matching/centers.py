"""Choice of the centres of a low-rank basis.

Five ways to choose m centres, all in *nested* order: the first k of them are a good
choice of k, so that smaller bases are the beginnings of larger ones.

- "uniform": random rows.
- "kmeans": means of clusters, in units of the lengthscales; first those that are large
  and far from the ones before.
- "leverage": random rows, those that a pilot basis explains least more often.
- "pivoted": each next row is the one that the rows before it explain least, by pivoted
  Cholesky factorisation of the kernel matrix. Best for the worst row: with few centres
  these are the outliers.
- "random_pivoted": each next row is drawn in proportion to what those before it leave
  unexplained, between the first and the last (randomly pivoted Cholesky).

All but the first look at about 10·m random rows, so that their cost does not grow with
the number of rows. Centres differ in what the kernel sees of them, and rows of weight
zero are not chosen.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from kexpfam._parallel import on_threads
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_choice
from kexpfam.kernels import JointKernel
from kexpfam.score_matching.gaussian_products import lengths_of

CENTER_METHODS = ("uniform", "kmeans", "leverage", "pivoted", "random_pivoted")


@dataclass(frozen=True)
class CenterSpec:
    """How much work is spent on centres."""

    # Rows that are looked at for each centre, and the numbers that a table of rows by
    # centres may have (half a GiB), below which their count is brought for large m
    candidates_per_center: int = 10
    table_numbers: int = 2**26
    # Lloyd's iterations: the last ones move centres by a small part of a lengthscale
    lloyd_iterations: int = 20
    # Random pivots that are proposed at once: enough for fast products, few enough for
    # most of them to be accepted
    pivot_block: int = 64
    # Size of the pilot basis at most, as its cost grows with the square, and what is
    # added to the diagonal of its kernel matrix, relative to it
    pilot: int = 1000
    pilot_jitter: float = 1e-10
    # Rows whose residuals a thread updates together
    rows_together: int = 2048
    # A residual this small relative to the kernel is rounding: a row with it is, to all
    # digits, a combination of the centres before it
    residual_floor: float = 64 * float(np.finfo(np.float64).eps)


CENTERS = CenterSpec()


def choose_centers(
    method: str,  # "uniform", "kmeans", "leverage", "pivoted" or "random_pivoted"
    kernel: JointKernel,  # The joint kernel K
    X: Array,  # Conditions of the rows, (n, p)
    Y: Array,  # Responses of the rows, (n, d)
    m: int,  # Number of centres; all distinct rows are returned if there are no more
    *,
    rng: np.random.Generator,  # For the rows looked at, and within a method
    # Row weights, (n,); None for equal ones. Clusters, leverage scores and random
    # pivots are weighted; otherwise only zero matters.
    weights: Array | None = None,
    spec: CenterSpec = CENTERS,  # How much work is spent
) -> tuple[Array, Array]:
    """Conditions (m, p) and responses (m, d) of centres of a basis, in nested order.

    Raises:
        ValueError: The method is not known, m is not positive, or no row has a positive
            weight.

    References:
        Alaoui and Mahoney (2015), Fast randomized kernel ridge regression with
        statistical guarantees; Harbrecht, Peters and Schneider (2012), On the low-rank
        approximation by the pivoted Cholesky decomposition; Chen, Epperly, Tropp and
        Webber (2025), Randomly pivoted Cholesky; Epperly, Tropp and Webber (2024),
        Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
        Cholesky.

    Example:
        >>> import numpy as np
        >>> from kexpfam.kernels import Constant, Gaussian, separable
        >>> Y = np.array([[0.0], [0.1], [5.0], [5.1]])
        >>> kernel = separable(Constant(), Gaussian(1.0))
        >>> rng = np.random.default_rng(0)
        >>> _, centers = choose_centers("pivoted", kernel, Y[:, :0], Y, 2, rng=rng)
        >>> bool(abs(centers[0, 0] - centers[1, 0]) > 4)
        True
    """
    check_choice("method", method, CENTER_METHODS)
    if m < 1:
        raise ValueError(f"m, the number of centres, must be at least 1, got {m}.")
    weights = np.ones(len(Y)) if weights is None else weights
    rows = np.concatenate([X, Y], axis=1)
    lengths = lengths_of(kernel, X.shape[1], Y.shape[1])
    # In units of the lengthscales: rows that the kernel does not tell apart are equal.
    scales = np.ones(rows.shape[1]) if lengths is None else 1.0 / lengths
    some = _candidates(rows * scales, weights, m, rng, spec)
    m = min(m, len(some))
    if method == "kmeans":
        centers = _kmeans(rows[some], scales, weights[some], m, rng, spec)
        return centers[:, : X.shape[1]], centers[:, X.shape[1] :]
    candidates = Candidates(kernel, X[some], Y[some], weights[some], spec)
    chosen = some[_choose_rows(method, candidates, m, rng)]
    return X[chosen], Y[chosen]


@dataclass(frozen=True)
class Candidates:
    """Distinct rows of positive weight, in random order."""

    kernel: JointKernel  # The joint kernel K
    X: Array  # Conditions, (N, p)
    Y: Array  # Responses, (N, d)
    weights: Array  # Row weights, (N,)
    spec: CenterSpec = CENTERS

    def columns(self, rows: Indices, part: slice = slice(None)) -> Array:
        """K of all rows, or of a part of them, and some of them, (N, k)."""
        X, Y = self.X[part], self.Y[part]
        return self.kernel.at(X, Y, self.X[rows], self.Y[rows]).partial(0, 0, 0, 0)

    def block(self, rows: Indices) -> Array:
        """K of some rows with each other, (k, k)."""
        X, Y = self.X[rows], self.Y[rows]
        return self.kernel.at(X, Y, X, Y).partial(0, 0, 0, 0)

    def diagonal(self, height: int = 100) -> Array:
        """K of each row with itself, (N,), on the diagonals of blocks of a few rows."""
        numbers = np.arange(len(self.Y))
        blocks = (numbers[k : k + height] for k in range(0, len(numbers), height))
        return np.concatenate([self.block(rows).diagonal() for rows in blocks])


def _candidates(
    points: Array, weights: Array, m: int, rng: np.random.Generator, spec: CenterSpec
) -> Indices:
    """Random rows of positive weight, all different; at least m, if so many exist."""
    positive = np.flatnonzero(weights > 0)
    if not len(positive):
        raise ValueError(
            "weights are zero at every row, so there is no row to choose as a centre; "
            "give at least one row a positive weight."
        )
    order = rng.permutation(positive)
    count = min(spec.candidates_per_center * m, max(2 * m, spec.table_numbers // m))
    some = _distinct(points, order[:count])
    if len(some) < m and count < len(order):
        some = _distinct(points, order)[:count]
    return some


def _distinct(points: Array, rows: Indices) -> Indices:
    """The first of each set of equal rows, in the order given."""
    _, first = np.unique(points[rows], axis=0, return_index=True)
    return rows[np.sort(first)]


def _choose_rows(
    method: str, candidates: Candidates, m: int, rng: np.random.Generator
) -> Indices:
    """Numbers of m candidates."""
    if method == "uniform":
        return np.arange(m)  # they are in random order already
    if method == "leverage":
        scores = leverage_scores(candidates, m)
        # The m first of N exponential waiting times with these rates: draws in
        # proportion, one after the other, without replacement.
        return np.argsort(rng.exponential(size=len(scores)) / scores)[:m]
    if method == "pivoted":
        pivots, _ = greedy_pivots(candidates, m)
    else:
        pivots, _ = random_pivots(candidates, m, rng)
    # Random rows where nothing but rounding was left for more pivots.
    rest = np.setdiff1d(np.arange(len(candidates.Y)), pivots)
    return np.append(pivots, rng.permutation(rest))[:m]


def greedy_pivots(
    candidates: Candidates,  # Rows
    m: int,  # Number of pivots; there are fewer if nothing but rounding is left
) -> tuple[Indices, Array]:
    """Rows with the largest residual of the kernel, (k,), and what is left, (N,)."""
    residual = candidates.diagonal()
    floor = candidates.spec.residual_floor * residual.max()
    L = np.empty((m, len(residual)))  # columns of the factor, as rows: contiguous
    pivots = np.empty(m, dtype=np.intp)
    for k in range(m):
        pivots[k] = pivot = int(np.argmax(residual))
        if residual[pivot] <= floor:
            return pivots[:k], residual
        column = candidates.columns(pivots[k : k + 1])[:, 0]
        column = column - L[:k, pivot] @ L[:k]
        L[k] = column / np.sqrt(residual[pivot])
        residual -= L[k] ** 2
        residual[pivot] = 0.0
    return pivots, residual


def random_pivots(
    candidates: Candidates, m: int, rng: np.random.Generator
) -> tuple[Indices, Array]:
    """Rows drawn one after the other in proportion to their weighted residuals.

    Rows are proposed in blocks, from the residuals at the start of a block. One is
    accepted with the share of its residual that those accepted before it have left.
    This gives the distribution of single draws at the speed of products of matrices
    (Epperly, Tropp and Webber 2024). Arguments and results are as in `greedy_pivots`.
    """
    residual = candidates.diagonal()
    floor = candidates.spec.residual_floor * residual.max()
    L = np.empty((m, len(residual)))
    pivots = np.empty(m, dtype=np.intp)
    size = candidates.spec.rows_together
    parts = [slice(first, first + size) for first in range(0, len(residual), size)]
    k = 0

    def update(part: slice) -> None:
        columns = candidates.columns(chosen, part).T - L[:k, chosen].T @ L[:k, part]
        L[rows, part] = solve_triangular(corner, columns, lower=True)
        residual[part] -= np.sum(L[rows, part] ** 2, axis=0)

    while k < m and residual.max() > floor:
        share = np.cumsum(candidates.weights * residual)
        draws = rng.random(candidates.spec.pivot_block) * share[-1]
        proposed = np.searchsorted(share, draws, side="right")
        proposed = np.minimum(proposed, len(share) - 1)
        block = candidates.block(proposed) - L[:k, proposed].T @ L[:k, proposed]
        # Residuals of this block are as accurate as those that are kept: one that is
        # rounding by either must not be proposed for ever.
        residual[proposed[block.diagonal() <= floor]] = 0.0
        accepted, corner = _accept(block, floor, m - k, rng)
        chosen = proposed[accepted]
        rows = slice(k, k + len(chosen))
        pivots[rows] = chosen
        if len(chosen):
            on_threads(update, parts)
        residual[residual <= floor] = 0.0
        residual[chosen] = 0.0
        k = rows.stop
    return pivots[:k], residual


def _accept(
    block: Array,  # Residual matrix of the proposed rows, (b, b)
    floor: float,  # Residuals that are rounding
    most: int,  # How many may be taken
    rng: np.random.Generator,  # Draws
) -> tuple[list[int], Array]:
    """Which of the proposed rows to take, and their Cholesky factor."""
    left, before = block.copy(), block.diagonal()
    accepted: list[int] = []
    columns = np.zeros(block.shape)
    for j, chance in enumerate(rng.random(len(block))):
        if len(accepted) < most and left[j, j] > max(chance * before[j], floor):
            column = left[:, j] / np.sqrt(left[j, j])
            left -= np.outer(column, column)
            columns[:, len(accepted)] = column
            accepted.append(j)
    return accepted, columns[accepted, : len(accepted)]


def leverage_scores(candidates: Candidates, m: int) -> Array:
    """Ridge leverage scores of the rows, from a pilot basis at the first ones, (N,).

    With features ψ of the pilot, K ≈ ψψᵀ, and the remainder r of the diagonal,

        score_a = w_a [ψ_aᵀ (Σ_b w_b ψ_bψ_bᵀ + μ)⁻¹ ψ_a + r_a/μ],

    where μ is such that the first terms sum to half the size of the pilot: it explains
    what it can, and the rest is left to rows that it does not know.
    """
    spec, m = candidates.spec, min(m, candidates.spec.pilot)
    w = candidates.weights / candidates.weights.mean()
    K = candidates.columns(np.arange(m))
    pilot = K[:m] + spec.pilot_jitter * np.trace(K[:m]) / m * np.eye(m)
    psi = solve_triangular(np.linalg.cholesky(pilot), K.T, lower=True).T
    values, vectors = np.linalg.eigh(psi.T @ (w[:, None] * psi))
    mu = _ridge_of_dimension(np.maximum(values, 0.0), m / 2)
    rotated = (psi @ vectors) ** 2
    remainder = np.maximum(candidates.diagonal() - rotated.sum(axis=1), 0.0)
    scores = w * (rotated @ (1.0 / (np.maximum(values, 0.0) + mu)) + remainder / mu)
    # A score is a share of a row in its own prediction.
    return np.clip(scores, np.finfo(float).tiny, 1.0)


def _ridge_of_dimension(values: Array, dimension: float) -> float:
    """μ with Σ e/(e + μ) equal to a dimension, by bisection of its logarithm."""
    low, high = 1e-12 * values[-1], values.sum() / dimension
    for _ in range(60):
        middle = np.sqrt(low * high)
        if np.sum(values / (values + middle)) > dimension:
            low = middle
        else:
            high = middle
    return float(high)


def _kmeans(
    rows: Array,  # (x, y), (N, p + d)
    scales: Array,  # Factors that make lengthscales one, (p + d,)
    w: Array,  # Row weights, (N,)
    m: int,
    rng: np.random.Generator,
    spec: CenterSpec,
) -> Array:
    """Means of m clusters, (m, p + d)."""
    # They take longer to import than all of kexpfam.
    from sklearn.cluster import kmeans_plusplus
    from sklearn.metrics import pairwise_distances_argmin

    points = rows * scales
    middle = points.mean(axis=0)  # an offset of the data must not cost digits
    if m == len(rows):
        return rows[farthest_first(points, w)]
    seed = int(rng.integers(2**31))
    centers, first = kmeans_plusplus(
        points, m, sample_weight=w, random_state=seed, n_local_trials=1
    )
    means, mass = rows[first], w[first]
    for _ in range(spec.lloyd_iterations):
        label = pairwise_distances_argmin(points - middle, centers - middle)
        mass = np.bincount(label, w, minlength=m)
        filled = mass > 0  # a centre without rows stays where it is
        for j in range(rows.shape[1]):
            sums = np.bincount(label, w * rows[:, j], minlength=m)
            means[filled, j] = sums[filled] / mass[filled]
        moved, centers = centers, means * scales
        if np.array_equal(moved, centers):
            break
    return means[farthest_first(centers, np.maximum(mass, w.min()))]


def farthest_first(points: Array, mass: Array) -> Indices:
    """An order in which each next point has the largest mass · distance².

    The distance is that to the nearest of the points before it. The first is the one
    nearest to the mean. Without the masses, outliers would come first.
    """
    mean = mass @ points / mass.sum()
    start = int(np.argmin(np.sum((points - mean) ** 2, axis=1)))
    order = [start]
    distance = np.full(len(points), np.inf)
    for _ in range(len(points) - 1):
        new = np.sum((points - points[order[-1]]) ** 2, axis=1)
        distance = np.minimum(distance, new)
        distance[order[-1]] = -1.0  # chosen, also if others lie on it
        order.append(int(np.argmax(mass * distance)))
    return np.array(order)
