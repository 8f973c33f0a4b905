"""Are two samples from one distribution? The kernel two-sample test, by permutation.

If they are, every division of the pooled rows into two groups of these sizes is as
likely as the one observed, so that the p-value is exact for any number of rows. A
permuted statistic needs only sums of one kernel matrix over groups of rows, and those
of all permutations are one product of matrices.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.comparison.samples import kernel_for, sums_of_groups, thinned_samples
from kexpfam.kernels import Kernel


@dataclass(frozen=True, eq=False)
class MMDTestResult:
    """What `mmd_test` found.

    Attributes:
        p_value: Of the hypothesis that both samples have one distribution; small if
            they differ. The smallest possible is 1/(1 + n_permutations).
        statistic: Unbiased MMD²; may be negative.
        null: The statistics of the permutations, increasing, (n_permutations,).
        kernel: The kernel, which acts on the values as they were given.
    """

    p_value: float
    statistic: float
    null: Array
    kernel: Kernel

    def __str__(self) -> str:
        return (
            f"MMD² {self.statistic:.4g}, p = {self.p_value:.3g} for samples of one "
            f"distribution ({len(self.null)} permutations)"
        )


def mmd_test(
    first: ArrayLike,
    second: ArrayLike,
    *,
    kernel: Kernel | None = None,
    n_permutations: int = 500,
    max_rows: int | None = 20_000,
    random_state: RandomState = None,
) -> MMDTestResult:
    """Test whether two samples come from one distribution.

    p = (1 + #{permuted MMD² ≥ MMD²})/(1 + n_permutations): a test at level α rejects
    a true hypothesis with probability α at most, whatever the sizes.

    Args:
        first: Rows (m,) or (m, d), independent; arrays or frames.
        second: Rows (n,) or (n, d).
        kernel: A kernel of `kexpfam.kernels`; it acts on the values as they are, and a
            lengthscale "median" is the median distance of the pooled rows. None for a
            Gaussian with one lengthscale per column: the pooled standard deviation
            times the median distance in units of these.
        n_permutations: Permutations; they need 8 bytes for each and every row.
        max_rows: Samples with more rows are thinned to so many at random; None for
            all rows.
        random_state: Seed or Generator of the permutations and the thinning.

    Returns:
        The p-value, the statistic and its permutations.

    Raises:
        ValueError: Different columns, NaN or infinity, or fewer than two rows.

    References:
        A. Gretton, K. M. Borgwardt, M. J. Rasch, B. Schölkopf, A. Smola: A Kernel
        Two-Sample Test, JMLR 2012.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> one, other = rng.normal(size=(200, 2)), rng.normal(0.5, 1.0, size=(150, 2))
        >>> print(mmd_test(one, other, random_state=0))
        MMD² 0.07514, p = 0.002 for samples of one distribution (500 permutations)
    """
    check_count("n_permutations", n_permutations, least=1)
    rng = as_generator(random_state)
    X, Y = thinned_samples(max_rows, rng, least=2, first=first, second=second)
    kernel = kernel_for(kernel, np.concatenate([X, Y]))
    groups = divisions(len(X), len(Y), n_permutations, rng)
    return mmd_of_divisions(kernel, X, Y, groups)


def mmd_of_divisions(
    kernel: Kernel, X: Array, Y: Array, groups: Array
) -> MMDTestResult:
    """The test against divisions (m + n, 1 + count), of which the first is observed."""
    pooled = np.concatenate([X, Y])
    inside, rows = sums_of_groups(kernel, pooled, groups)
    # Inside the other group: everything, less the rows of this one and their columns.
    total = rows.sum()
    beside = rows @ groups
    outside = total - 2.0 * beside + inside
    m, n = len(X), len(Y)
    statistics = (
        inside / (m * (m - 1))
        + outside / (n * (n - 1))
        - 2.0 * (beside - inside) / (m * n)
    )
    observed, null = statistics[0], np.sort(statistics[1:])
    # The same division may come up twice, and its sums are rounded in different orders.
    # Statistics closer than this, as a share of the kernel's mean, are equal.
    rounding = 1e-12 * abs(total) / ((m + n) * (m + n - 1))
    as_large = np.count_nonzero(null >= observed - rounding)
    return MMDTestResult(
        p_value=(1 + as_large) / len(statistics),
        statistic=float(observed),
        null=null,
        kernel=kernel,
    )


def divisions(m: int, n: int, count: int, rng: np.random.Generator) -> Array:
    """Divisions of m + n rows into groups of m and n: as observed, then at random.

    Ones are the first group and zeros the second, (m + n, 1 + count).
    """
    observed = np.repeat([1.0, 0.0], [m, n])
    shuffled = rng.permuted(np.tile(observed, (count, 1)), axis=1)
    return np.column_stack([observed, shuffled.T])
