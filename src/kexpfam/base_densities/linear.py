"""Noise around a straight line whose log width is a straight line, too."""

from dataclasses import dataclass, field

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities.fixed import GaussianBase
from kexpfam.base_densities.interface import BaseDensity
from kexpfam.base_densities.location_scale import (
    ConditionalBase,
    CrossFit,
    Frame,
    require_unbounded,
    standard_residuals,
)
from kexpfam.persistence import saved_fit, saved_value
from kexpfam.regression import LinearLocationScale, fit_linear

# Fewer rows leave folds with nothing to fit.
_FEWEST_ROWS = 4


@saved_value
@dataclass(frozen=True)
class LinearBase(ConditionalBase):
    """Noise around a linear mean, with a log scale that is linear as well.

    Attributes:
        noise: Density of the residual u, in units of the residuals' deviation.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = 3 * x[:, 0] + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> KCEF(base=LinearBase()).fit(x, y).predict([[0.5]]).round(1)
        array([1.5])
    """

    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))

    def __post_init__(self) -> None:
        require_unbounded(self.noise)

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        if len(Y) < _FEWEST_ROWS:
            raise ValueError(
                f"LinearBase needs at least {_FEWEST_ROWS} rows, got {len(Y)}; use an "
                f"unconditional base such as GaussianBase(scale=2.0)."
            )
        fits = [fit_linear(X, column, weights, rng) for column in Y.T]
        location = np.column_stack([fit.held_out_location for fit in fits])
        log_scale = np.column_stack([fit.held_out_log_scale for fit in fits])
        residuals = standard_residuals(Y, location, log_scale, weights)
        frame = LinearFrame(
            tuple(fit.model for fit in fits), residuals.center, residuals.unit
        )
        return CrossFit(frame, residuals.values, residuals.log_scale)


@saved_fit({"models": "d p", "center": "d", "unit": "d positive"})
@dataclass(frozen=True, eq=False)
class LinearFrame(Frame):
    """Linear location and log scale, one pair per column of y.

    Attributes:
        models: One per column, (d,).
        center: Mean of the residuals before they were centred, (d,).
        unit: Their deviation, (d,).
    """

    models: tuple[LinearLocationScale, ...]
    center: Array
    unit: Array

    def at(self, X: Array) -> tuple[Array, Array]:
        parts = [model.at(X) for model in self.models]
        location = np.column_stack([location for location, _ in parts])
        scale = np.exp(np.column_stack([log_scale for _, log_scale in parts]))
        return location + self.center * scale, self.unit * scale
