"""Score matching in the span of a basis, however close to singular its Gram matrix is.

The exact minimiser (3) is a sum of ∂_iK and ∂_i²K at the rows, so that it lies in the
span of `Basis(kernel, X, Y, derivatives=2)` at all rows. The normal equations (16) do
not find it there: they need a jitter on R, and products of features square the
condition. Here functions of the span have coordinates in an orthonormal basis ψ = Wᵀφ,
WᵀRW = I, in which the system of (16) is

    (Σ_a w_a Σ_i g_ai ∂_iψ ∂_iψᵀ + λI) ζ = −Wᵀb,   α = Wζ,

well-conditioned whatever R is. Two things decide the accuracy. ∂_iψ is formed before
products are taken: WᵀCW from C would have errors of eps/ε for the smallest eigenvalue ε
of R, here they are eps/√ε. And functions of a norm below rounding are dropped, which
changes T by no more than that.
"""

import numpy as np

from kexpfam._linalg import RIDGE_FLOOR


def fit_in_span(basis, sample, lam):
    """Minimise the penalised objective over the span of a basis, without jitter."""
    W = whitening(basis.exact_gram())
    C, b = np.zeros((W.shape[1], W.shape[1])), np.zeros(W.shape[1])
    weights = sample.weights / sample.weights.sum()
    pairs = basis.pairs(sample.X, sample.Y)
    for i in range(sample.Y.shape[1]):
        F = basis.features(pairs, 1, i) @ W
        gsm_weights = weights * sample.gsm_weights[:, i]
        b += (weights * sample.gsm_linear[:, i]) @ F
        b += (gsm_weights @ basis.features(pairs, 2, i)) @ W
        C += F.T @ (gsm_weights[:, None] * F)
    zeta = np.linalg.solve(C + lam * np.eye(len(C)), -b)
    return basis.expansion(W @ zeta)


def whitening(R):
    """W with WᵀRW = I, (M, k), on the directions of R that are not zero to rounding."""
    # Functions of unit norm, as derivatives are larger than the kernel by powers of
    # 1/ℓ; those that are zero, derivatives of a constant kernel, stay so.
    norms = np.sqrt(R.diagonal())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    values, vectors = np.linalg.eigh(scale[:, None] * R * scale)
    kept = values > RIDGE_FLOOR * values[-1]
    return scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
