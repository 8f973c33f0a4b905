"""Kernels that are tried: those of a grid, as far as the user left them open."""

from typing import Any

from kexpfam.kernels import MEDIAN, Gaussian, Kernel, LengthScale
from kexpfam.selection.spec import KernelGrid
from kexpfam.selection.validation import Validation


def is_open(kernel: Kernel | None) -> bool:
    """Whether a kernel has a lengthscale that was not given."""
    if kernel is None:
        return True
    lengths: list[LengthScale] = []

    def note(lengthscale: LengthScale) -> LengthScale:
        lengths.append(lengthscale)
        return lengthscale

    kernel.map_lengthscales(note)
    return MEDIAN in lengths


def open_kernels_x(validation: Validation, name: str, grid: KernelGrid) -> list[Kernel]:
    """The kernel of x that was given, or those to try in some coordinates."""
    given = validation.spec.kernel_x
    if given is not None and not is_open(given):
        return [given]
    kernels = validation.kernels_x(name, grid)
    if given is None:
        return kernels
    radial = [kernel for kernel in kernels if isinstance(kernel, Gaussian)]
    return [_with_lengthscale(given, kernel.lengthscale) for kernel in radial]


def open_kernels_y(grid: KernelGrid, given: Kernel | None) -> list[Kernel]:
    """The kernel of y that was given, or those to try."""
    if given is not None and not is_open(given):
        return [given]
    if given is None:
        return [Gaussian(ell) for ell in grid.lengthscales_y]
    return [_with_lengthscale(given, ell) for ell in grid.lengthscales_y]


def _with_lengthscale(kernel: Kernel, lengthscale: Any) -> Kernel:
    """A kernel whose open lengthscales are filled in; given ones are kept."""
    return kernel.map_lengthscales(
        lambda current: lengthscale if current == MEDIAN else current
    )
