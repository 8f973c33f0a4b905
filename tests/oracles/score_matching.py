"""The exact estimator by loops over rows and coordinates, from DESIGN.md section 4.

With row weights w and direction weights g the objective (1) reads

    J(T) = Σ_a w_a Σ_i [½ g_ai (∂_iT)² + g_ai ∂_i²T + m_ai ∂_iT](x_a, y_a) + λ/2 ‖T‖²

where m = g′ + g ∂log q0 (and w = 1/n, g = 1, m = ∂log q0 in the text). Setting its
gradient in the RKHS to zero gives T = −ξ/λ + Σ β_ai ∂_iK_a, β_ai = −w_a g_ai ∂_iT/λ,
that is λβ + D G β = D h/λ with D = diag(w g): equation (3) times 1/n, but not
symmetric, and solved here as it stands.
"""

from dataclasses import dataclass

import numpy as np

from tests.oracles.kernels import SlowKernel, partials


@dataclass(frozen=True)
class SlowJoint:
    """Σ_t k_X,t(x, x') k_Y,t(y, y')."""

    terms: tuple[tuple[SlowKernel, SlowKernel], ...]

    def partials(self, x, y, x2, y2, i, j):
        """∂_iʳ∂'_jˢK, [r, s]."""
        total = np.zeros((3, 3))
        for kx, ky in self.terms:
            similarity = float(np.real(kx.value(np.asarray(x), np.asarray(x2))))
            total += similarity * partials(ky, y, y2, i, j)[0]
        return total


def joint_partials(joint, X, Y, X2, Y2):
    """Derivatives at all pairs, [a, b, i, j, r, s]."""
    d = Y.shape[1]
    out = np.empty((len(Y), len(Y2), d, d, 3, 3))
    for a, b, i, j in np.ndindex(*out.shape[:4]):
        out[a, b, i, j] = joint.partials(X[a], Y[a], X2[b], Y2[b], i, j)
    return out


@dataclass(frozen=True)
class SlowFit:
    """T = Σ_b Σ_i [first_bi ∂_i + second_bi ∂_i²] K((x_b, y_b), ·)."""

    joint: object
    X: np.ndarray
    Y: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def derivatives(self, X, Y):
        """T (q,), ∂_jT (q, d) and ∂_j²T (q, d) at points."""
        q, d = Y.shape
        value, gradient, curvature = np.zeros(q), np.zeros((q, d)), np.zeros((q, d))
        P = joint_partials(self.joint, X, Y, self.X, self.Y)
        for a in range(q):
            for b in range(len(self.Y)):
                for i in range(d):
                    one, two = self.first[b, i], self.second[b, i]
                    value[a] += one * P[a, b, 0, i, 0, 1] + two * P[a, b, 0, i, 0, 2]
                    for j in range(d):
                        gradient[a, j] += one * P[a, b, j, i, 1, 1]
                        gradient[a, j] += two * P[a, b, j, i, 1, 2]
                        curvature[a, j] += one * P[a, b, j, i, 2, 1]
                        curvature[a, j] += two * P[a, b, j, i, 2, 2]
        return value, gradient, curvature

    def squared_norm(self):
        """‖T‖² as a quadratic form in the Gram matrix of ∂_iK_b and ∂_i²K_b."""
        n, d = self.Y.shape
        P = joint_partials(self.joint, self.X, self.Y, self.X, self.Y)
        total = 0.0
        for a, b, i, j in np.ndindex(n, n, d, d):
            total += self.first[a, i] * P[a, b, i, j, 1, 1] * self.first[b, j]
            total += self.first[a, i] * P[a, b, i, j, 1, 2] * self.second[b, j]
            total += self.second[a, i] * P[a, b, i, j, 2, 1] * self.first[b, j]
            total += self.second[a, i] * P[a, b, i, j, 2, 2] * self.second[b, j]
        return total


def system(joint, X, Y, weights, gsm_linear, gsm_weights):
    """G (nd, nd) and h (n, d) of equations (2) and (3)."""
    n, d = Y.shape
    P = joint_partials(joint, X, Y, X, Y)
    G, h = np.zeros((n * d, n * d)), np.zeros((n, d))
    for a, b, i, j in np.ndindex(n, n, d, d):
        G[a * d + i, b * d + j] = P[a, b, i, j, 1, 1]
        # h_ai = ∂_iξ(a), ξ = Σ_b w_b Σ_j [m_bj ∂'_jK + g_bj ∂'_j²K]
        h[a, i] += weights[b] * gsm_linear[b, j] * P[a, b, i, j, 1, 1]
        h[a, i] += weights[b] * gsm_weights[b, j] * P[a, b, i, j, 1, 2]
    return G, h


def slow_fit(joint, X, Y, weights, gsm_linear, gsm_weights, lam) -> SlowFit:
    n, d = Y.shape
    G, h = system(joint, X, Y, weights, gsm_linear, gsm_weights)
    D = (weights[:, None] * gsm_weights).ravel()
    left = lam * np.eye(n * d) + D[:, None] * G
    beta = np.linalg.solve(left, D * h.ravel() / lam).reshape(n, d)
    return SlowFit(
        joint,
        X,
        Y,
        first=beta - weights[:, None] * gsm_linear / lam,
        second=-weights[:, None] * gsm_weights / lam,
    )


def slow_loss(gradient, curvature, weights, gsm_linear, gsm_weights):
    """The objective (1) without its penalty, from ∂T and ∂²T at the rows, (n, d)."""
    total = 0.0
    for a in range(len(weights)):
        for i in range(gradient.shape[1]):
            term = 0.5 * gsm_weights[a, i] * gradient[a, i] ** 2
            term += (
                gsm_weights[a, i] * curvature[a, i] + gsm_linear[a, i] * gradient[a, i]
            )
            total += weights[a] * term
    return total
