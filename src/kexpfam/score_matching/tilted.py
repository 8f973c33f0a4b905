"""q0(u) exp T(x, u) at given conditions: the family before it is normalised."""

from dataclasses import dataclass

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, namespace_of
from kexpfam.base_densities import BaseDensity
from kexpfam.kernels import JointKernel
from kexpfam.score_matching.expansion import ConditionedExpansion, KernelExpansion


@dataclass(frozen=True)
class TiltedFormula:
    """log q0(u) + T(x, u) for given centres and coefficients: theory (1) and (3)."""

    base: BaseDensity  # q0
    kernel: JointKernel  # The joint kernel of T
    present: tuple[bool, ...]  # Whether T has ∂, ∂² and K itself

    def at(
        self, shared: tuple[Array, ...], row: tuple[Array, ...], u: Array
    ) -> tuple[Array, Array]:
        X, Y, *rest = shared
        given = iter(rest)
        first, second, zeroth = (next(given) if has else None for has in self.present)
        T = KernelExpansion(self.kernel, X, Y, first, second, zeroth)
        point = u[None]
        pairs = self.kernel.at_rows(tuple(part[None] for part in row), point, X, Y)
        columns = [T.contract(pairs, 1, j)[0] for j in range(Y.shape[1])]
        log_p = _tilted(self.base.log_density(point), T.contract(pairs, 0, 0))[0]
        slope = self.base.grad_log_density(point)[0]
        return log_p, slope + namespace_of(u).stack(columns)


@dataclass(frozen=True)
class TiltedDensity:
    """n unnormalised densities in the coordinates of the kernel, theory (1)."""

    base: BaseDensity  # q0
    T: KernelExpansion  # The fitted function
    X: Array  # The conditions, (n, p)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def d(self) -> int:
        return self.T.Y.shape[1]

    @cached_property
    def rounding(self) -> float:
        """Absolute rounding error of T, whose terms may cancel."""
        ell = min(self.T.kernel.resolution, 1.0)
        squares = sum(np.sum((c / ell**r) ** 2) for r, _, c in self.T.derivatives)
        return 4.0 * float(np.finfo(float).eps * np.sqrt(squares))

    @property
    def responses(self) -> Array:
        return self.T.Y

    @property
    def same_rows(self) -> bool:
        """Whether T does not depend on the conditions."""
        return self.T.kernel.constant_in_x

    def rows(self, index: Array | slice) -> "TiltedDensity":
        return TiltedDensity(self.base, self.T, self.X[index])

    def on_grid(self, nodes: Array) -> Array:
        log_p = self._conditioned.on_nodes(nodes)
        log_p += self.base.log_density(nodes)
        return log_p

    def log_unnormalized(self, U: Array) -> Array:
        log_q0 = self.base.log_density(U.reshape(-1, self.d)).reshape(U.shape[:2])
        return _tilted(log_q0, self._conditioned.value(U))

    def gradient(self, U: Array) -> Array:
        slope = self.base.grad_log_density(U.reshape(-1, self.d)).reshape(U.shape)
        return slope + self._conditioned.gradient(U)

    @property
    def formula(self) -> "TiltedFormula":
        T = self.T
        present = tuple(c is not None for c in (T.first, T.second, T.zeroth))
        return TiltedFormula(self.base, T.kernel, present)

    def shared_parameters(self) -> tuple[Array, ...]:
        """Centres and coefficients of T."""
        T = self.T
        parts = (T.X, T.Y, T.first, T.second, T.zeroth)
        return tuple(part for part in parts if part is not None)

    def row_parameters(self) -> tuple[Array, ...]:
        """What T needs to know of each x."""
        return self._conditioned.row_parameters

    def nearness(self) -> Array:
        return self.T.kernel.nearness(self.row_parameters(), self.T.X)

    @cached_property
    def _conditioned(self) -> ConditionedExpansion:
        return ConditionedExpansion(self.T, self.X)


def _tilted(log_q0: Array, T: Array) -> Array:
    # Outside the support, and at infinity, q0 is zero whatever T is.
    xp = namespace_of(log_q0, T)
    return xp.where(xp.isneginf(log_q0), -np.inf, log_q0 + T)
