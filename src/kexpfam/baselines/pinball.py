"""Several quantiles at once by the pinball loss with a ridge penalty, not crossing.

    minimise  Σ_t [ Σ_i s_i ρ_t(y_i − f_t(x_i)) + λ/2 ‖w_t‖² ],   f_t = w_t·φ + b_t,
    subject to f_1(x_i) ≤ f_2(x_i) ≤ ... at all rows,

with ρ_t(r) = max(τ_t r, (τ_t − 1) r) and shares s_i with sum one (Takeuchi et al.
2006). It is solved by alternating directions: values z_ti at the rows beside f_t(x_i),
and multipliers of their differences. Both steps are exact. That of f is a ridge
regression, a product with one singular value decomposition whatever λ is. That of z
goes row by row, and because

    ρ_t(y − z) = τ_t (y − z) + max(z − y, 0),

all levels have the same second part: the step is an isotonic regression of the shifted
values over the levels, followed by one threshold.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kexpfam._typing import Array


class Quantiles(NamedTuple):
    """Functions f_t = w_t·φ + b_t, one for each level.

    Attributes:
        coefficients: w, (r, t).
        intercepts: b, (t,).
        steps: How many were taken.
        converged: Whether both residuals are below the tolerance.
    """

    coefficients: Array
    intercepts: Array
    steps: int
    converged: bool

    def at(self, features: Array) -> Array:
        """Values at rows with these features, (n, t); they may cross."""
        return features @ self.coefficients + self.intercepts


@dataclass(frozen=True)
class Effort:
    """When to stop.

    Attributes:
        tolerance: Of both residuals, in standard deviations of y.
        most_steps: How many at most.
    """

    tolerance: float = 1e-5
    most_steps: int = 20_000


def isotonic(values: Array) -> Array:
    """The closest values that do not decrease along each row, (n, t) -> (n, t).

    The largest over beginnings a of the smallest over ends b of the means from a to b,
    which for a few columns is faster than pooling.

    Example:
        >>> isotonic(np.array([[1.0, 3.0, 2.0], [1.0, 2.0, 3.0]]))
        array([[1. , 2.5, 2.5],
               [1. , 2. , 3. ]])
    """
    wrong = np.any(np.diff(values, axis=1) < 0, axis=1)
    if not wrong.any():
        return values
    some = values[wrong]
    total = np.concatenate([np.zeros((len(some), 1)), np.cumsum(some, axis=1)], axis=1)
    best = np.full(some.shape, -np.inf)
    for a in range(some.shape[1]):
        means = (total[:, a + 1 :] - total[:, a, None]) / np.arange(
            1, some.shape[1] - a + 1
        )
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        best[:, a:] = np.maximum(best[:, a:], least)
    found = values.copy()
    found[wrong] = best
    return found


class PinballRidge:
    """The problem of some rows of positive share, decomposed once for all λ."""

    def __init__(self, features: Array, y: Array, shares: Array) -> None:
        self._y, self._root = y[:, None], np.sqrt(shares)[:, None]
        self._shares = shares
        self._center = shares @ features
        self._U, self._s, self._Vt = linalg.svd(
            self._root * (features - self._center), full_matrices=False
        )

    def path(
        self, levels: Array, lams: Array, effort: Effort | None = None
    ) -> list[Quantiles]:
        """Functions for each λ, each begun where the one before ended.

        Example:
            >>> x = np.linspace(-1, 1, 50)[:, None]
            >>> line = PinballRidge(x, 3 * x[:, 0], np.full(50, 0.02))
            >>> line.path(np.array([0.5]), np.array([1e-6]))[0].coefficients.round(3)
            array([[3.]])
        """
        start = np.quantile(self._y, levels)
        state = np.tile(start, (len(self._y), 1)), np.zeros((len(self._y), len(start)))
        found = []
        for lam in lams:
            solved, state = self._solved(levels, float(lam), state, effort or Effort())
            found.append(solved)
        return found

    def _solved(
        self, levels: Array, lam: float, state: tuple[Array, Array], effort: Effort
    ) -> tuple[Quantiles, tuple[Array, Array]]:
        z, u = state
        # Steps longer than one, which theory allows up to two, take fewer of them.
        stretch = 1.6
        rho, step, adapted, converged = 2.0, 0, 10, False
        while step < effort.most_steps and not converged:
            step += 1
            penalty = lam / rho
            mean, inner = self._inner(z - u)
            gain = self._s**2 / (self._s**2 + penalty)
            f = mean + (self._U @ (gain[:, None] * inner)) / self._root
            moved = stretch * f + (1.0 - stretch) * z
            before, z = z, _threshold(moved + u, self._y, levels, rho)
            u = u + moved - z
            apart, shift = self._size(f - z), rho * self._size(z - before)
            converged = max(apart, shift) < effort.tolerance
            if step == adapted and not converged:
                # Both residuals alike: neither side waits for the other. Ever more
                # rarely, because what adapts for ever need not converge.
                factor = float(np.clip(np.sqrt(apart / max(shift, 1e-300)), 0.2, 5.0))
                rho, u, adapted = rho * factor, u / factor, int(1.5 * adapted) + 1
        scale = self._s / (self._s**2 + penalty)
        coefficients = self._Vt.T @ (scale[:, None] * inner)
        intercepts = mean - self._center @ coefficients
        return Quantiles(coefficients, intercepts, step, converged), (z, u)

    def _inner(self, values: Array) -> tuple[Array, Array]:
        """Means (t,), and what is left in the directions of the features, (r, t)."""
        mean = self._shares @ values
        return mean, self._U.T @ (self._root * (values - mean))

    def _size(self, values: Array) -> float:
        """The largest root mean square of a level."""
        return float(np.sqrt((self._shares @ values**2).max()))


def _threshold(values: Array, y: Array, levels: Array, rho: float) -> Array:
    """Argmin over z, not decreasing, of Σ_t ρ_t(y − z_t) + rho/2 (z_t − v_t)²."""
    w = isotonic(values + levels / rho)
    return np.where(w > y + 1.0 / rho, w - 1.0 / rho, np.minimum(w, y))
