"""What competes by default: charts, and the grids of kernels and λ tried in them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kexpfam.base_densities import (
    Base,
    BaseDensity,
    GaussianBase,
    GaussianProcessBase,
    LinearBase,
    TransformedBase,
)
from kexpfam.kernels import Gaussian, Kernel, separable
from kexpfam.selection import Line

# Rows up to which charts are fitted again for every fold.
REFITTED_ROWS = 400

# Names of the charts without a regression: y standardised, and y made normal by its
# marginal distribution.
PLAIN = "normal"
GAUSSIANIZED = "Gaussianized"


@dataclass(frozen=True)
class KernelGrid:
    """Kernels and λ to try in a chart.

    Attributes:
        multiples_x: Lengthscales of x in median distances; a constant kernel of x is
            always tried too.
        lengthscales_y: Lengthscales of y, in deviations of the responses.
        relative_lams: λ·ℓ_y².
    """

    multiples_x: tuple[float, ...]
    lengthscales_y: tuple[float, ...]
    relative_lams: tuple[float, ...]


PLAIN_GRID = KernelGrid(
    (0.35, 0.8, 1.8), (0.35, 0.8, 1.8, 4.0), (1e-3, 1e-2, 1e-1, 1.0)
)
REGRESSION_GRID = KernelGrid((0.35, 1.2), (0.35, 0.8, 2.0), (1e-2, 1e-1, 1.0))
# λ of likelihood fits does not scale with the lengthscale, so these are λ themselves.
LIKELIHOOD_GRID = KernelGrid((0.8, 1.8), (0.35, 0.8), (1e-3, 1e-2))


@dataclass(frozen=True)
class ChartEntry:
    """A chart that takes part.

    Attributes:
        name: What a person calls it.
        base: Its base density.
        warp_x: Whether skewed columns of x are transformed.
        fewest_rows: It needs so many rows to be worth it beside others.
    """

    name: str
    base: Base
    warp_x: bool = False
    fewest_rows: int = 0


def is_marginal(entry: ChartEntry) -> bool:
    """Whether a chart is a transform of y without a regression."""
    base = entry.base
    return isinstance(base, TransformedBase) and isinstance(base.base, BaseDensity)


def default_entries() -> list[ChartEntry]:
    """The charts of `AutoKCEF`, and of a `KCEF` that chooses its base."""
    noise = GaussianBase(scale=1.0)
    process = GaussianProcessBase(noise)
    wide = GaussianProcessBase(noise, heteroscedastic=True)
    plain: list[tuple[str, Base]] = [
        ("Gaussian process", process),
        ("heteroscedastic", wide),
        ("Yeo-Johnson, Gaussian process", TransformedBase("yeo_johnson", process)),
        ("Yeo-Johnson, heteroscedastic", TransformedBase("yeo_johnson", wide)),
        ("linear", LinearBase(noise)),
    ]
    # A density estimate of few rows is no better than a normal one.
    gaussianized = TransformedBase("gaussianize", noise)
    entries = [
        ChartEntry(PLAIN, noise),
        ChartEntry(GAUSSIANIZED, gaussianized, fewest_rows=REFITTED_ROWS + 1),
    ]
    for name, base in plain:
        entries.append(ChartEntry(name, base))
        entries.append(ChartEntry(f"{name}, transformed x", base, warp_x=True))
    return entries


def lines_of(
    grid: KernelGrid, kernels_x: Sequence[Kernel], *, relative: bool = True
) -> Iterator[Line]:
    """All products of kernels of x with those of y, with their λ."""
    for kernel_x, ell in itertools.product(kernels_x, grid.lengthscales_y):
        unit = ell**2 if relative else 1.0
        lams = tuple(r / unit for r in grid.relative_lams)
        yield Line(separable(kernel_x, Gaussian(ell)), lams)
