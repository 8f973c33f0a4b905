"""A base density of a transformed variable."""

from collections.abc import Callable
from dataclasses import dataclass

from kexpfam._heuristics import robust_scaling
from kexpfam._typing import Array
from kexpfam.base_densities.interface import (
    Base,
    BaseDensity,
    ConditionalBase,
    MonotoneTransform,
)
from kexpfam.base_densities.tails import Composed, fit_arcsinh
from kexpfam.base_densities.transforms import (
    fit_gaussianize,
    fit_yeo_johnson,
)
from kexpfam.persistence import saved_value


def _fit_gaussianize(Y: Array, weights: Array) -> MonotoneTransform:
    """`fit_gaussianize`, behind an arcsinh if there are far values in some column.

    A bandwidth that suits these would leave nothing of the others.
    """
    if not robust_scaling(Y, weights)[2].any():
        return fit_gaussianize(Y, weights)
    first = fit_arcsinh(Y, weights)
    return Composed(first, fit_gaussianize(first.forward(Y), weights))


_FITTED: dict[str, Callable[[Array, Array], MonotoneTransform]] = {
    "yeo_johnson": fit_yeo_johnson,
    "gaussianize": _fit_gaussianize,
    "arcsinh": fit_arcsinh,
}


@saved_value
@dataclass(frozen=True)
class TransformedBase(Base):
    """Let kernel and base density act on v = t(y), standardised, instead of y.

    For one column of y that is skewed, heavy-tailed, or crowded in places. Densities
    and all that follows from them are still those of y.

    Attributes:
        transform: "yeo_johnson" (a power chosen by likelihood), "gaussianize" (Φ⁻¹ of a
            kernel estimate of the distribution function), "arcsinh" (for tails so
            heavy that moments say nothing), or a transform of the standardised y.
        base: The base density of v; None for N(0, 2²). Bounds are those of y, in its
            units.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KEF
        >>> data = np.random.default_rng(0).lognormal(size=(300, 1))
        >>> p = KEF(base=TransformedBase("yeo_johnson")).fit(data).distribution()
        >>> bool(p.sf(p.ppf(0.99)) - 0.01 < 1e-9)
        True
    """

    transform: str | MonotoneTransform = "yeo_johnson"
    base: BaseDensity | ConditionalBase | None = None

    def __post_init__(self) -> None:
        known = isinstance(self.transform, str) and self.transform in _FITTED
        if not known and not isinstance(self.transform, MonotoneTransform):
            raise ValueError(
                f"transform must be {' or '.join(map(repr, _FITTED))}, or a "
                f"MonotoneTransform, got {self.transform!r}."
            )
        if not isinstance(self.base, BaseDensity | ConditionalBase | None):
            raise TypeError(
                f"base must be a base density such as GaussianBase(scale=2.0), or "
                f"None; got {self.base!r}."
            )

    @property
    def is_conditional(self) -> bool:
        return self.base is not None and self.base.is_conditional

    def fitted(self, Y: Array, weights: Array) -> MonotoneTransform:
        """The transform for these standardised responses, (n, d)."""
        if isinstance(self.transform, MonotoneTransform):
            return self.transform
        return _FITTED[self.transform](Y, weights)
