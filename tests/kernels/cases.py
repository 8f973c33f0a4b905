"""The one list of kernels that feeds every kernel test, each with its oracle."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Matern,
    RationalQuadratic,
)
from tests.oracles import kernels as slow

# Lengthscales per column, in units of the test's lengthscale.
ARD = (0.7, 1.3, 2.0)


@dataclass(frozen=True)
class KernelCase:
    """A kernel and its oracle, both functions of the lengthscale.

    Attributes:
        name: Shown in the test's name.
        kernel: lengthscale -> kernel.
        oracle: lengthscale -> oracle.
        ard: Whether the lengthscale differs between columns.
    """

    name: str
    kernel: Callable[[object], Kernel]
    oracle: Callable[[object], slow.SlowKernel]
    ard: bool = False

    def build(self, ell: float, d: int) -> tuple[Kernel, slow.SlowKernel]:
        """Kernel and oracle for d columns."""
        lengths = tuple(ell * c for c in ARD[:d]) if self.ard else ell
        return self.kernel(lengths), self.oracle(lengths)


def _twice(ell):
    return tuple(2.0 * e for e in ell) if isinstance(ell, tuple) else 2.0 * ell


_PLAIN = [
    ("gaussian", Gaussian, slow.gaussian),
    *(
        (
            f"rational_quadratic_{alpha}",
            lambda ell, a=alpha: RationalQuadratic(ell, alpha=a),
            lambda ell, a=alpha: slow.rational_quadratic(ell, a),
        )
        for alpha in (0.5, 3.0)
    ),
    *(
        (
            f"matern_{nu}",
            lambda ell, nu=nu: Matern(ell, nu=nu),
            lambda ell, nu=nu: slow.matern(ell, nu),
        )
        for nu in (2.5, 3.5, 4.5)
    ),
    *(
        (
            f"inverse_multiquadric_{power}",
            lambda ell, p=power: InverseMultiquadric(ell, power=p),
            lambda ell, p=power: slow.inverse_multiquadric(ell, p),
        )
        for power in (0.5, 2.0)
    ),
    (
        "sum",
        lambda ell: Gaussian(ell) + Matern(_twice(ell), nu=2.5),
        lambda ell: slow.gaussian(ell) + slow.matern(_twice(ell), 2.5),
    ),
    (
        "product",
        lambda ell: RationalQuadratic(ell, alpha=2.0) * Matern(_twice(ell), nu=3.5),
        lambda ell: slow.rational_quadratic(ell, 2.0) * slow.matern(_twice(ell), 3.5),
    ),
    (
        "scaled",
        lambda ell: 2.5 * Gaussian(ell),
        lambda ell: slow.constant(2.5) * slow.gaussian(ell),
    ),
    (
        "shifted",
        lambda ell: InverseMultiquadric(ell) + 0.5,
        lambda ell: slow.inverse_multiquadric(ell, 0.5) + slow.constant(0.5),
    ),
    (
        "nested",
        lambda ell: (
            (Gaussian(ell) + 0.3) * (2.0 * Gaussian(_twice(ell)) + Gaussian(ell))
        ),
        lambda ell: (
            (slow.gaussian(ell) + slow.constant(0.3))
            * (slow.constant(2.0) * slow.gaussian(_twice(ell)) + slow.gaussian(ell))
        ),
    ),
]

CONSTANT = KernelCase(
    "constant", lambda ell: Constant(1.7), lambda ell: slow.constant(1.7)
)
PLAIN_CASES = [KernelCase(*case) for case in _PLAIN]
ARD_CASES = [KernelCase(f"{name}_ard", *rest, ard=True) for name, *rest in _PLAIN]
ALL_CASES = [CONSTANT, *PLAIN_CASES, *ARD_CASES]


def case_id(case: KernelCase) -> str:
    """What pytest prints."""
    return case.name


def points(d: int, ell: float = 1.0):
    """A (4, d) and B (3, d), read-only; two pairs share some or all coordinates.

    Their spread is √ell: several lengthscales for short ones, a fraction for long ones,
    and never so far that every kernel is zero.
    """
    rng = np.random.default_rng(100 + d)
    A, B = np.sqrt(ell) * rng.normal(size=(2, 4, d))
    B = B[:3]
    B[0] = A[0]  # coincident
    B[1, : d - 1] = A[1, : d - 1]  # on one axis, if d > 1
    A.flags.writeable = B.flags.writeable = False
    return A, B
