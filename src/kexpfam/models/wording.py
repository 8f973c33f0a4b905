"""Kernels and base densities in a few words, for tables that people read."""

import numpy as np

from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.kernels import Constant, Gaussian, JointKernel, SumOfProducts

# Lengthscales that are shown of a kernel with one per column.
_SHOWN = 4


def short(value: object) -> str:
    """A kernel or base density with its numbers rounded.

    Example:
        >>> short(Gaussian((0.123456, 2.0))), short(StudentBase(0.85, df=5.0))
        ('Gaussian(0.12, 2)', 't(5)')
    """
    if isinstance(value, Gaussian):
        ell = np.atleast_1d(np.asarray(value.lengthscale, dtype=float))
        shown = ", ".join(f"{length:.2g}" for length in ell[:_SHOWN])
        return f"Gaussian({shown}{', ...' if len(ell) > _SHOWN else ''})"
    if isinstance(value, GaussianBase) and np.ndim(value.scale) == 0:
        return f"N(0, {value.scale:.2g}²)"
    if isinstance(value, StudentBase):
        return f"t({value.df:.2g})"
    return "constant" if isinstance(value, Constant) else repr(value)


def kernel_in_words(kernel: JointKernel | None) -> str:
    """A joint kernel as products of its parts.

    Example:
        >>> from kexpfam.kernels import separable
        >>> kernel_in_words(separable(Constant(), Gaussian(0.5)))
        'constant x Gaussian(0.5)'
    """
    if kernel is None:
        return "none"
    if not isinstance(kernel, SumOfProducts):
        return repr(kernel)
    return " + ".join(f"{short(kx)} x {short(ky)}" for kx, ky in kernel.terms)
