"""A mixture of normal distributions with all answers known, times a constant."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special, stats

from kexpfam.base_densities import BaseDensity, GaussianBase


@dataclass(frozen=True, eq=False)
class KnownMixture:
    """n times the same unnormalised density c Σ_k w_k N(m_k, s_k² C)."""

    means: np.ndarray
    scales: np.ndarray
    shares: np.ndarray
    log_constant: float = 0.0
    correlation: float = 0.0
    n: int = 1
    base: BaseDensity = field(default_factory=lambda: GaussianBase(2.0))
    rounding: float = 1e-15

    def __len__(self):
        return self.n

    def rows(self, index):
        return replace(self, n=len(np.arange(self.n)[index]))

    @property
    def d(self):
        return self.means.shape[1]

    @property
    def responses(self):
        return self.means

    @property
    def covariances(self):
        r, eye = self.correlation, np.eye(self.d)
        return [s**2 * ((1 - r) * eye + r) for s in self.scales]

    def log_unnormalized(self, U):
        return self.log_constant + special.logsumexp(self._terms(U), axis=0)

    def gradient(self, U):
        shares = special.softmax(self._terms(U), axis=0)
        slopes = [
            -(U - m) @ np.linalg.inv(c)
            for m, c in zip(self.means, self.covariances, strict=True)
        ]
        return np.einsum("knq,knqi->nqi", shares, np.array(slopes))

    def on_grid(self, nodes):
        return self.log_unnormalized(np.broadcast_to(nodes, (self.n, *nodes.shape)))

    def _terms(self, U):
        parts = zip(self.means, self.covariances, self.shares, strict=True)
        flat = U.reshape(-1, self.d)
        return np.array(
            [
                np.log(w) + stats.multivariate_normal(m, c).logpdf(flat)
                for m, c, w in parts
            ]
        ).reshape(len(self.means), *U.shape[:2])


def modes_in_a_row(d, shares, sd=0.3, gap=8.0, **kwargs):
    """Modes along the first axis, `gap` standard deviations apart."""
    k = len(shares)
    means = np.zeros((k, d))
    means[:, 0] = gap * sd * (np.arange(k) - 0.5 * (k - 1))
    return KnownMixture(means, np.full(k, sd), np.array(shares), **kwargs)
