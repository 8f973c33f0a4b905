"""Centres: properties that every method has, and oracles of each."""

import numpy as np
import pytest
from scipy import optimize

from kexpfam.kernels import Constant, Gaussian, JointKernel, Matern, separable
from kexpfam.score_matching import Basis, ScoreSample, choose_centers, fit_exact
from kexpfam.score_matching.centers import (
    Candidates,
    CenterSpec,
    farthest_first,
    greedy_pivots,
    leverage_scores,
    random_pivots,
)
from tests.oracles.span import whitening
from tests.tolerances import MINIMISER, ROUNDING, SOLVE, STANDARD_ERRORS, assert_close

METHODS = ["uniform", "kmeans", "leverage", "pivoted", "random_pivoted"]
KERNEL = separable(Gaussian(0.8), Gaussian(0.7))

every_method = pytest.mark.parametrize("method", METHODS)


def rows(n=200, p=2, d=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.normal(size=(n, d))


def choose(method, X, Y, m, kernel=KERNEL, seed=1, **options):
    rng = np.random.default_rng(seed)
    return choose_centers(method, kernel, X, Y, m, rng=rng, **options)


def joined(X, Y):
    return np.concatenate([X, Y], axis=1)


def is_row(points, rows):
    return (points[:, None] == rows[None]).all(axis=2).any(axis=1)


@every_method
@pytest.mark.parametrize("p", [0, 1, 3])
def test_m_distinct_centres_have_the_columns_of_the_rows(method, p):
    X, Y = rows(p=p, d=2)
    kernel = KERNEL if p else separable(Constant(), Gaussian(0.5))
    CX, CY = choose(method, X, Y, 15, kernel)
    assert CX.shape == (15, p)
    assert CY.shape == (15, 2)
    assert len(np.unique(joined(CX, CY), axis=0)) == 15


@pytest.mark.parametrize("method", sorted({*METHODS} - {"kmeans"}))
def test_centres_are_rows(method):
    X, Y = rows()
    assert is_row(joined(*choose(method, X, Y, 20)), joined(X, Y)).all()


@every_method
def test_as_many_centres_as_rows_are_all_rows(method):
    X, Y = rows(30)
    for m in (30, 50):
        found = joined(*choose(method, X, Y, m))
        expected = joined(X, Y)
        np.testing.assert_array_equal(
            found[np.lexsort(found.T)], expected[np.lexsort(expected.T)]
        )


@every_method
def test_one_centre_is_a_row_or_the_mean_of_all(method):
    X, Y = rows(30)
    CX, CY = choose(method, X, Y, 1)
    expected = joined(X, Y)
    if method == "kmeans":  # ten rows are looked at for each centre
        all_looked_at = CenterSpec(candidates_per_center=30)
        CX, CY = choose(method, X, Y, 1, spec=all_looked_at)
        expected = expected.mean(axis=0, keepdims=True)
        assert_close(joined(CX, CY), expected)
    else:
        assert is_row(joined(CX, CY), expected).all()


@every_method
def test_duplicates_among_the_rows_give_no_duplicate_centres(method):
    X, Y = rows(12)
    X, Y = np.tile(X, (20, 1)), np.tile(Y, (20, 1))
    for m, expected in ((8, 8), (50, 12)):
        found = joined(*choose(method, X, Y, m))
        assert len(found) == expected
        assert len(np.unique(found, axis=0)) == expected


@every_method
def test_rare_distinct_rows_are_found_among_many_duplicates(method):
    """Ten of two thousand rows differ: a random subset alone would hold a few."""
    X, Y = np.zeros((2000, 1)), np.zeros((2000, 1))
    Y[:10, 0] = np.arange(1.0, 11.0)
    few = CenterSpec(candidates_per_center=2)
    found = joined(*choose(method, X, Y, 11, spec=few))
    assert len(np.unique(found, axis=0)) == 11


@every_method
def test_rows_of_weight_zero_are_never_chosen(method):
    X, Y = rows(100)
    Y[50:] += 100.0
    weights = np.append(np.ones(50), np.zeros(50))
    for m in (20, 80):
        _, CY = choose(method, X, Y, m, weights=weights)
        assert len(CY) == min(m, 50)
        assert CY.max() < 50.0


@every_method
def test_the_same_seed_gives_the_same_centres(method):
    X, Y = rows()
    for one, other in zip(
        choose(method, X, Y, 20), choose(method, X, Y, 20), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", ["uniform", "pivoted", "random_pivoted"])
def test_fewer_centres_are_the_first_of_more(method):
    """Of the same candidates; 10 times m is more than the rows in both cases."""
    X, Y = rows(60)
    few, more = (joined(*choose(method, X, Y, m)) for m in (10, 25))
    np.testing.assert_array_equal(few, more[:10])


@every_method
def test_the_first_centres_are_as_good_as_a_choice_of_so_many(method):
    X, Y = rows(400)
    first, own = [], []
    for seed in range(5):
        half = [array[:20] for array in choose(method, X, Y, 40, seed=seed)]
        first.append(unexplained(*half, X, Y))
        own.append(unexplained(*choose(method, X, Y, 20, seed=seed), X, Y))
    # Means of large clusters near those of small ones: k-means is nearly nested only.
    assert np.mean(first) < 1.15 * np.mean(own)


def unexplained(CX, CY, X, Y, kernel=KERNEL):
    """Mean of K(a, a) that the span of K(c, ·) leaves, by a least-squares solve."""
    K = kernel.at(X, Y, CX, CY).partial(0, 0, 0, 0)
    R = kernel.at(CX, CY, CX, CY).partial(0, 0, 0, 0)
    return np.mean(1.0 - np.sum((K @ whitening(R)) ** 2, axis=1))


def slow_pivots(K, m):
    """Diagonal steps of elimination on the whole matrix."""
    K, pivots = K.copy(), []
    for _ in range(m):
        pivot = int(np.argmax(K.diagonal()))
        pivots.append(pivot)
        K = K - np.outer(K[:, pivot], K[pivot]) / K[pivot, pivot]
        K[pivot], K[:, pivot] = 0.0, 0.0
    return pivots, K.diagonal()


@pytest.mark.parametrize("kernel", [KERNEL, separable(Matern(1.0, nu=0.5), Gaussian())])
def test_pivots_and_residual_equal_elimination_on_the_whole_matrix(kernel):
    X, Y = rows(60)
    K = kernel.at(X, Y, X, Y).partial(0, 0, 0, 0)
    # Rows with a kernel of their own, so that no two diagonal entries tie.
    scaled = _Scaled(kernel, 1.0 + 0.3 * np.sin(np.arange(60)))
    factor = np.outer(scaled.factor, scaled.factor)
    index = np.arange(60.0)[:, None]
    candidates = Candidates(scaled, np.append(X, index, axis=1), Y, np.ones(60))
    pivots, residual = greedy_pivots(candidates, 25)
    expected, left = slow_pivots(K * factor, 25)
    assert pivots.tolist() == expected
    assert_close(residual, left, SOLVE, scale=1.0)


class _Scaled(JointKernel):
    """c(x) c(x') K, where the last column of x is the number of the row."""

    def __init__(self, kernel, factor):
        self.kernel, self.factor = kernel, factor

    def at(self, X, Y, X2, Y2, empty=np.empty):
        pairs = self.kernel.at(X[:, :-1], Y, X2[:, :-1], Y2)
        left, right = (self.factor[x[:, -1].astype(int)] for x in (X, X2))
        value = pairs.partial(0, 0, 0, 0) * np.outer(left, right)

        class Pairs:
            def partial(self, *orders):
                return value

        return Pairs()


@pytest.mark.parametrize("block", [1, 5, 64])
def test_residual_of_random_pivots_is_that_of_elimination(block):
    X, Y = rows(60)
    spec = CenterSpec(pivot_block=block)
    candidates = Candidates(KERNEL, X, Y, np.ones(60), spec)
    pivots, residual = random_pivots(candidates, 25, np.random.default_rng(0))
    assert len(set(pivots)) == 25
    K = KERNEL.at(X, Y, X, Y).partial(0, 0, 0, 0)
    inverse = np.linalg.inv(K[np.ix_(pivots, pivots)])
    left = K - K[:, pivots] @ inverse @ K[pivots]
    assert_close(residual, left.diagonal(), SOLVE, scale=1.0)


def test_random_pivots_end_at_rounding():
    X, Y = rows(100, p=0)
    candidates = Candidates(separable(Constant(), Gaussian(5.0)), X, Y, np.ones(100))
    pivots, residual = random_pivots(candidates, 50, np.random.default_rng(0))
    assert len(pivots) < 20
    assert residual.max() < 1e-13


def test_random_pivots_are_drawn_in_proportion_to_the_residual():
    """The second of two pivots, over many draws, against the residual of the first."""
    X, Y = rows(6)
    # Three of them are alike, so that one of these explains most of the others: what is
    # proposed together is then mostly refused.
    X[3:], Y[3:] = X[3] + 0.2 * X[3:], Y[3] + 0.2 * Y[3:]
    weights = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0])
    K = KERNEL.at(X, Y, X, Y).partial(0, 0, 0, 0)
    candidates = Candidates(KERNEL, X, Y, weights, CenterSpec(pivot_block=8))
    rng = np.random.default_rng(0)
    pairs, draws = np.zeros((6, 6)), 800
    for _ in range(draws):
        (a, b), _ = random_pivots(candidates, 2, rng)
        pairs[a, b] += 1
    left = weights * (1.0 - K**2)  # of the kernel with ones on its diagonal
    expected = left / left.sum(axis=1, keepdims=True)
    expected *= (weights / weights.sum())[:, None]
    error = np.sqrt(expected * (1.0 - expected) / draws)
    assert (np.abs(pairs / draws - expected) <= STANDARD_ERRORS * error + 1e-12).all()


def test_pivots_end_at_rounding_and_uniform_rows_fill_up():
    """A smooth kernel of one column has about ten functions in 14 digits."""
    X, Y = rows(100, p=0)
    kernel = separable(Constant(), Gaussian(5.0))
    pivots, residual = greedy_pivots(Candidates(kernel, X, Y, np.ones(100)), 50)
    assert len(pivots) < 20
    assert residual.max() < 1e-13
    found = joined(*choose("pivoted", X, Y, 50, kernel))
    assert len(np.unique(found, axis=0)) == 50


def test_the_same_response_at_other_conditions_is_one_centre_of_a_constant_kernel():
    X, Y = rows(40)
    Y = np.round(Y)
    kernel = separable(Constant(), Gaussian(1.0))
    for method in METHODS:
        _, CY = choose(method, X, Y, 40, kernel)
        assert len(CY) == len(np.unique(Y))


def test_leverage_scores_of_a_full_pilot_are_those_of_the_matrix():
    X, Y = rows(30)
    w = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    found = leverage_scores(Candidates(KERNEL, X, Y, w), 30)
    K = KERNEL.at(X, Y, X, Y).partial(0, 0, 0, 0)
    root = np.sqrt(w / w.mean())
    weighted = root[:, None] * K * root
    values = np.linalg.eigvalsh(weighted)
    # Half of the functions count.
    mu = optimize.brentq(lambda mu: np.sum(values / (values + mu)) - 15.0, 1e-6, 1e3)
    expected = np.diag(weighted @ np.linalg.inv(weighted + mu * np.eye(30)))
    # The pilot has a jitter of 1e-10, and eigenvalues from 1e-4 on.
    assert_close(found, expected, MINIMISER)


def test_rows_far_from_all_others_have_the_largest_leverage():
    X, Y = rows(100)
    Y[7] = 30.0
    scores = leverage_scores(Candidates(KERNEL, X[::-1], Y[::-1], np.ones(100)), 20)
    assert np.argmax(scores) == 92
    assert (scores > 0).all()
    assert (scores <= 1).all()


def test_means_of_clusters_are_a_fixed_point_of_lloyds_iteration():
    # Twenty rows for each of eight centres, so that all rows are looked at
    spec = CenterSpec(lloyd_iterations=1000, candidates_per_center=20)
    X, Y = rows(150)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    centers = joined(*choose("kmeans", X, Y, 8, weights=weights, spec=spec))
    all_rows = joined(X, Y)
    scale = np.array([1 / 0.8, 1 / 0.8, 1 / 0.7])
    for c in range(8):
        squares = [np.sum(((all_rows - k) * scale) ** 2, axis=1) for k in centers]
        own = np.argmin(squares, axis=0) == c
        mean = weights[own] @ all_rows[own] / weights[own].sum()
        assert_close(centers[c], mean, ROUNDING)


def test_lengthscales_decide_which_columns_separate_clusters():
    """Two groups far apart in x, one lengthscale in x that does not see them."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [10.0]], 50, axis=0)
    Y = np.tile([[0.0], [1.0]], (50, 1)) + 0.01 * rng.normal(size=(100, 1))
    by_y = choose("kmeans", X, Y, 2, separable(Gaussian(1e3), Gaussian(0.1)))
    by_x = choose("kmeans", X, Y, 2, separable(Gaussian(0.1), Gaussian(1e3)))
    raw = choose("kmeans", X, Y, 2, _Scaled(KERNEL, None))
    assert_close(np.sort(by_y[1][:, 0]), [0.0, 1.0], 0.02)
    assert_close(np.sort(by_x[0][:, 0]), [0.0, 10.0], 1e-9)
    assert_close(np.sort(raw[0][:, 0]), [0.0, 10.0], 1e-9)


def test_farthest_first_equals_loops_and_visits_every_point():
    rng = np.random.default_rng(0)
    points, mass = rng.normal(size=(30, 2)), rng.uniform(1.0, 5.0, 30)
    order = farthest_first(points, mass)
    assert sorted(order) == list(range(30))
    for k in range(1, 30):
        nearest = [
            mass[a] * min(np.sum((points[a] - points[b]) ** 2) for b in order[:k])
            for a in order[k:]
        ]
        assert nearest[0] == pytest.approx(max(nearest))
    assert sorted(farthest_first(np.zeros((4, 2)), np.ones(4))) == [0, 1, 2, 3]


def projection_error(CX, CY, T):
    """‖T − PT‖/‖T‖ for the projection P on the span of K(c, ·): ⟨K_c, T⟩ = T(c)."""
    W = whitening(Basis(T.kernel, CX, CY, 0).exact_gram())
    explained = np.sum((W.T @ T.value(CX, CY)) ** 2)
    return np.sqrt(1.0 - explained / T.squared_norm())


@pytest.mark.parametrize("method", ["kmeans", "pivoted", "random_pivoted"])
def test_chosen_centres_explain_more_of_the_exact_fit_than_random_rows(method):
    """Where m functions are nearly enough; with fewer, pivots are outliers."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 1))
    Y = np.sin(X) + 0.5 * rng.normal(size=(300, 1))
    sample = ScoreSample(X, Y, np.full(300, 1 / 300), -Y / 2.0, np.ones((300, 1)))
    kernel = separable(Gaussian(1.0), Gaussian(1.0))
    T = fit_exact(kernel, sample, 0.01).T
    uniform, chosen = (
        np.mean(
            [
                projection_error(*choose(name, X, Y, 60, kernel, seed=s), T)
                for s in range(5)
            ]
        )
        for name in ("uniform", method)
    )
    assert chosen < 0.8 * uniform


def test_candidates_are_limited_whatever_the_number_of_rows():
    """A kernel that counts the rows that it sees."""
    sizes = []

    class Counting(JointKernel):
        def at(self, X, Y, X2, Y2, empty=np.empty):
            sizes.append(len(Y))
            return KERNEL.at(X, Y, X2, Y2, empty)

    choose("pivoted", *rows(5000), 10, Counting())
    assert max(sizes) == 100


@pytest.mark.parametrize(
    ("m", "table", "looked_at"),
    [(10, 2**26, 100), (10, 500, 50), (10, 100, 20), (100, 2**26, 1000)],
)
def test_a_table_of_rows_by_centres_has_no_more_numbers_than_it_may(
    m, table, looked_at
):
    """Ten rows for each centre, fewer where the table is full, two of each at least."""
    spec = CenterSpec(table_numbers=table)
    sizes = []

    class Counting(JointKernel):
        def at(self, X, Y, X2, Y2, empty=np.empty):
            sizes.append(len(Y))
            return KERNEL.at(X, Y, X2, Y2, empty)

    choose("pivoted", *rows(2000), m, Counting(), spec=spec)
    assert max(sizes) == looked_at


@pytest.mark.parametrize(
    ("method", "m", "weights", "message"),
    [
        ("best", 5, None, r"method must be one of 'uniform', .*, got 'best'"),
        ("uniform", 0, None, r"m, the number of centres, must be at least 1, got 0"),
        ("uniform", 5, np.zeros(200), r"weights are zero at every row"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(method, m, weights, message):
    X, Y = rows()
    with pytest.raises(ValueError, match=message):
        choose(method, X, Y, m, weights=weights)
