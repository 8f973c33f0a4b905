"""Which of two samples is closer to a reference? The test of relative similarity.

With Z the reference, X the first and Y the second sample, both squared distances are
U-statistics that share Z,

    MMD²(Z, X) = mean k(z, z′) + mean k(x, x′) − 2 mean k(z, x),

means over different rows. Where a distance is not zero its estimate is asymptotically
normal, so their difference is, too (Bounliphone et al., 2016); pairs of reference rows
cancel in it.

**The variance.** Hoeffding's decomposition writes an estimate as a sum over rows and
a sum over pairs, all uncorrelated. Over rows: 2/m Σ h(x) for the first sample, with
h(x) = E k(x, X′) − E k(x, Z), and 2/r Σ f(z) for the reference, with
f(z) = E k(z, Z′) − E k(z, X). Over pairs: what of k is left without its row and column
effects, k̃, with variances 2 v/(m(m − 1)) inside a sample and 4 v/(mr) between two. The
sums over rows decide as n grows, and are what the paper gives. The sums over pairs are
added because they are all that is left when a sample has the reference's distribution.

**Its estimate.** v is the residual mean square of k with additive row and column
effects. The variance of h among the rows contains v over the number of rows that each
expectation was taken over; without that it is unbiased. It may come out negative when
there is little to see, and is then taken for zero, which errs towards larger errors.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator
from kexpfam.comparison.samples import (
    PairSums,
    kernel_for,
    sums_between,
    sums_within,
    thinned_samples,
)
from kexpfam.kernels import Kernel


@dataclass(frozen=True, eq=False)
class RelativeTestResult:
    """What `relative_mmd_test` found.

    Attributes:
        p_value: Of H0: MMD(reference, first) ≤ MMD(reference, second). Small: `second`
            is significantly closer to the reference. Near one: `first` is.
        statistic: difference / standard_error, standard normal if both are as close.
        difference: mmd_first − mmd_second; positive if `second` is closer.
        mmd_first: Unbiased MMD² of reference and first; may be negative.
        mmd_second: Unbiased MMD² of reference and second.
        standard_error: Of the difference.
        covariance: Of (mmd_first, mmd_second), (2, 2).
        kernel: The kernel, which acts on the values as they were given.
        n_rows: Rows of reference, first and second that were compared.
    """

    p_value: float
    statistic: float
    difference: float
    mmd_first: float
    mmd_second: float
    standard_error: float
    covariance: Array
    kernel: Kernel
    n_rows: tuple[int, int, int]

    def __str__(self) -> str:
        level = 0.05  # at which one sample is said to be closer
        if self.p_value < level:
            said = "second is closer to the reference than first"
        elif 1.0 - self.p_value < level:
            said = "first is closer to the reference than second"
        else:
            said = "neither is significantly closer to the reference"
        return (
            f"{said}: MMD² {self.mmd_first:.4g} (first) and {self.mmd_second:.4g} "
            f"(second), difference {self.difference:.3g} ± {self.standard_error:.2g}, "
            f"p = {self.p_value:.3g} for first being at least as close"
        )


def relative_mmd_test(
    reference: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    kernel: Kernel | None = None,
    max_rows: int | None = 20_000,
    random_state: RandomState = None,
) -> RelativeTestResult:
    """Test whether `second` is closer to the reference than `first`.

    The null hypothesis is MMD(reference, first) ≤ MMD(reference, second), that `first`
    is at least as close. **A small p-value says that `second` is closer**; a p-value
    near one that `first` is. Closeness is what the kernel sees of it.

    The three samples must be independent of each other, and the rows of each among
    themselves; they may have different numbers of rows. For models: `reference` is
    data that neither was fitted to, `first` and `second` are draws. A Markov chain
    must be thinned.

    Args:
        reference: Rows (r,) or (r, d), at least four; arrays or frames.
        first: Rows (m,) or (m, d).
        second: Rows (n,) or (n, d).
        kernel: A kernel of `kexpfam.kernels`; it acts on the values as they are, and a
            lengthscale "median" is the median distance of reference rows. None for a
            Gaussian with one lengthscale per column: the reference's standard deviation
            times the median distance in units of these.
        max_rows: Samples with more rows are thinned to so many at random, since time
            grows with their square; None for all rows. Memory does not grow like that.
        random_state: Seed or Generator of the thinning; nothing else is random.

    Returns:
        The p-value with all that it follows from.

    Raises:
        ValueError: Different columns, NaN or infinity, or fewer than four rows.

    References:
        W. Bounliphone, E. Belilovsky, M. B. Blaschko, I. Antonoglou, A. Gretton: A Test
        of Relative Similarity For Model Selection in Generative Models, ICLR 2016.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> data = rng.normal(size=(500, 2))
        >>> far, near = rng.normal(0.5, 1.0, (400, 2)), rng.normal(0.1, 1.0, (600, 2))
        >>> result = relative_mmd_test(data, far, near)
        >>> result.p_value < 1e-6  # the second sample is closer
        True
    """
    samples = {"reference": reference, "first": first, "second": second}
    rng = as_generator(random_state)
    # Fewer rows leave no degree of freedom beside the effects of the rows.
    Z, X, Y = thinned_samples(max_rows, rng, least=4, **samples)
    kernel = kernel_for(kernel, Z)
    zz, xx, yy = (sums_within(kernel, sample) for sample in (Z, X, Y))
    zx, zy = sums_between(kernel, Z, X), sums_between(kernel, Z, Y)
    scale = max(abs(_mean(s)) for s in (zz, xx, yy, zx, zy))
    # The mean over the pairs of the reference is in both and cancels.
    own, other = (_mean(xx) - 2.0 * _mean(zx), _mean(yy) - 2.0 * _mean(zy))
    difference = own - other
    covariance = _covariance(zz, xx, yy, zx, zy)
    variance = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    error = math.sqrt(max(variance, 0.0))
    rounding = 1e-13 * scale  # differences and errors below this are none
    if abs(difference) <= rounding:
        statistic = 0.0  # equal samples, also where the error is zero
    elif error <= rounding:
        statistic = math.copysign(math.inf, difference)  # samples that do not vary
    else:
        statistic = difference / error
    return RelativeTestResult(
        p_value=float(ndtr(-statistic)),
        statistic=statistic,
        difference=difference,
        mmd_first=_mean(zz) + own,
        mmd_second=_mean(zz) + other,
        standard_error=error,
        covariance=covariance,
        kernel=kernel,
        n_rows=(len(Z), len(X), len(Y)),
    )


def _mean(sums: PairSums) -> float:
    """Mean of the kernel over the pairs, which are of different rows in one sample."""
    m, n = len(sums.rows), len(sums.columns)
    within = sums.rows is sums.columns
    return float(sums.rows.sum()) / (m * (m - 1) if within else m * n)


def _covariance(
    zz: PairSums, xx: PairSums, yy: PairSums, zx: PairSums, zy: PairSums
) -> Array:
    """Covariance of MMD²(Z, X) and MMD²(Z, Y), positive semidefinite, (2, 2)."""
    r, m, n = (len(sums.rows) for sums in (zz, xx, yy))
    v_zz, v_xx, v_yy = (_residual_within(sums) for sums in (zz, xx, yy))
    v_zx, v_zy = _residual_between(zx), _residual_between(zy)

    # Rows of the first and the second sample: each is in one of the distances.
    h_x = xx.rows / (m - 2) - zx.columns / r
    h_y = yy.rows / (n - 2) - zy.columns / r
    over_rows = np.diag(
        [
            max(0.0, h_x.var(ddof=1) - v_xx / (m - 2) - v_zx / r) / m,
            max(0.0, h_y.var(ddof=1) - v_yy / (n - 2) - v_zy / r) / n,
        ]
    )
    # Rows of the reference are in both.
    f = np.stack([zz.rows / (r - 2) - zx.rows / m, zz.rows / (r - 2) - zy.rows / n])
    noise = v_zz / (r - 2) + np.diag([v_zx / m, v_zy / n])
    over_rows += _semidefinite(np.cov(f) - noise) / r

    over_pairs = 2.0 * v_zz / (r * (r - 1)) + np.diag(
        [
            2.0 * v_xx / (m * (m - 1)) + 4.0 * v_zx / (r * m),
            2.0 * v_yy / (n * (n - 1)) + 4.0 * v_zy / (r * n),
        ]
    )
    return 4.0 * over_rows + over_pairs


def _residual_between(sums: PairSums) -> float:
    """Residual mean square of k with effects of rows and columns."""
    m, n = len(sums.rows), len(sums.columns)
    mean = _mean(sums)
    effects = np.sum((sums.rows / n - mean) ** 2) * n
    effects += np.sum((sums.columns / m - mean) ** 2) * m
    left = sums.squares - m * n * mean**2 - effects
    return max(0.0, float(left)) / ((m - 1) * (n - 1))


def _residual_within(sums: PairSums) -> float:
    """The same for the pairs i < j of one sample, each the sum of two effects."""
    m = len(sums.rows)
    mean = _mean(sums)
    # least squares: the effect of row i is (Σ_{j≠i} k_ij − (m − 1) mean) / (m − 2)
    effects = np.sum((sums.rows - (m - 1) * mean) ** 2) / (m - 2)
    left = 0.5 * (sums.squares - m * (m - 1) * mean**2) - effects
    return max(0.0, float(left)) / (0.5 * m * (m - 3))


def _semidefinite(matrix: Array) -> Array:
    """The closest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ root.T
