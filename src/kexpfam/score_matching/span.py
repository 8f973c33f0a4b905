"""Score matching in the span of a basis, however close to singular its Gram matrix is.

The exact minimiser (3) is a sum of ∂_iK and ∂_i²K at the rows, so that it lies in the
span of `Basis(kernel, X, Y, derivatives=2)` at all rows. The normal equations (16) do
not find it there: they need a jitter on R, and products of features square the
condition. Here functions of the span have coordinates in an orthonormal basis ψ = Wᵀφ,
WᵀRW = I, in which the system of (16) is

    (Σ_a w_a Σ_i g_ai ∂_iψ ∂_iψᵀ + λI) ζ = −Wᵀb,   α = Wζ,                          (22)

well-conditioned whatever R is. Two things decide the accuracy. ∂_iψ is formed before
products are taken: WᵀCW from C would have errors of eps/ε for the smallest eigenvalue ε
of R, here they are eps/√ε. And functions of a norm below rounding are dropped, which
changes T by no more than that.

The other basis that contains the minimiser, ∂_iK at the rows and ξ̂ itself, has nd + 1
functions instead of (2d + 1)n. It is not used, because ξ̂ depends on q0 and on the
weights: it would have to change with each fold and base density, and T = αᵀφ would no
longer be a sum over centres with free coefficients.
"""

import numpy as np

from kexpfam._typing import Array
from kexpfam.linalg import RIDGE_FLOOR, ridge_cholesky
from kexpfam.score_matching.expansion import KernelExpansion
from kexpfam.score_matching.low_rank import Basis
from kexpfam.score_matching.objective import ScoreSample

# Rows whose features are held at once: enough for the products to be fast.
_ROWS = 1024


def fit_in_span(
    basis: Basis, sample: ScoreSample, lam: float, *, n_jobs: int | None = None
) -> KernelExpansion:
    """Minimise the penalised objective over the span of a basis, without jitter.

    Slower than `fit_low_rank` by an eigendecomposition and a second product with the
    features. Worth it where the basis contains what is looked for and digits count:
    with derivatives=2 at all rows the result is that of `fit_exact`.

    Args:
        basis: The functions; they may be linearly dependent.
        sample: Training rows.
        lam: Regulariser λ > 0.
        n_jobs: Threads that evaluate the result; None for all cores.

    Raises:
        IllConditionedError: λ is too small for double precision.

    Example:
        >>> import numpy as np
        >>> from kexpfam.kernels import Constant, Gaussian, separable
        >>> Y = np.linspace(-1.0, 1.0, 5)[:, None]
        >>> sample = ScoreSample(np.empty((5, 0)), Y, np.full(5, 0.2), -Y, Y**0)
        >>> kernel = separable(Constant(), Gaussian(1.0))
        >>> basis = Basis(kernel, sample.X, sample.Y, derivatives=2)
        >>> fit_in_span(basis, sample, 0.1).value(sample.X, sample.Y).round(4)
        array([0.874 , 0.8672, 0.7408, 0.8672, 0.874 ])
    """
    W = whitening(basis.exact_gram())
    C, b = _whitened_statistics(basis, sample, W)
    remedy = f"raise regularization (now {lam:.3g}) or use fewer components"
    zeta = ridge_cholesky(C, lam, remedy=remedy).solve(-b)
    return basis.expansion(W @ zeta, n_jobs)


def whitening(R: Array) -> Array:
    """W with WᵀRW = I, (M, k), on the directions of R that are not zero to rounding."""
    # Functions of unit norm, as derivatives are larger than the kernel by powers of
    # 1/ℓ; those that are zero, derivatives of a constant kernel, stay so.
    norms = np.sqrt(R.diagonal())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    values, vectors = np.linalg.eigh(scale[:, None] * R * scale)
    kept = values > RIDGE_FLOOR * values[-1]
    return scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))


def _whitened_statistics(
    basis: Basis, sample: ScoreSample, W: Array
) -> tuple[Array, Array]:
    """Matrix and minus the right-hand side of (22), without λ: (k, k) and (k,)."""
    k = W.shape[1]
    C, b = np.zeros((k, k)), np.zeros(k)
    weights = sample.weights / sample.weights.sum()
    for start in range(0, len(sample.Y), _ROWS):
        rows = slice(start, start + _ROWS)
        pairs = basis.pairs(sample.X[rows], sample.Y[rows])
        for i in range(sample.Y.shape[1]):
            F = basis.features(pairs, 1, i) @ W
            diffusion = weights[rows] * sample.diffusion[rows, i]
            b += (weights[rows] * sample.drift[rows, i]) @ F
            b += (diffusion @ basis.features(pairs, 2, i)) @ W
            C += F.T @ (diffusion[:, None] * F)
    return C, b
