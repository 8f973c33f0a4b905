"""Conditional base densities q0(y|x): a noise density around a regression.

With y = μ(x) + σ(x)·u, the kernel acts on the residual u, and the exponential family
models the shape of p(u|x) instead of the course of the mean. This is theory (13): the
joint kernel K((x, y), (x', y')) = k_X(x, x') k_Y(u(x, y), u(x', y')) with the base
density q0(y|x) = noise(u)/σ(x).

Residuals of the rows a regression was fitted on are too small. So the training
residuals come from cross-fitting: each row is predicted by a regression that has not
seen it. New x are predicted by the regression fitted on all rows.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kexpfam._typing import Array, Indices
from kexpfam.base_densities.fixed import GaussianBase
from kexpfam.base_densities.interface import Base, BaseDensity

# E log|u| of a standard normal u: turns a mean log residual into a log deviation.
_LOG_ABS_NORMAL = -0.6351814227307391

# The log scale may leave the range of its training predictions by this much, so that
# extrapolation does not produce absurd widths.
_LOG_SCALE_MARGIN = 0.5

# A regression that interpolates even held-out rows leaves rounding errors only.
_SMALLEST_UNIT = 1e-12


class Frame(ABC):
    """Where the residual's origin is, and its unit, at each x."""

    @abstractmethod
    def at(self, X: Array) -> tuple[Array, Array]:
        """Location μ(x) and scale σ(x) > 0 at each row, (n, d) each."""


@dataclass(frozen=True)
class CrossFit:
    """A conditional base fitted to data.

    Attributes:
        frame: Location and scale at any x.
        residuals: Cross-fitted residuals of the training rows, (n, d).
        log_scale: Held-out log scale of each training row, (n, d): the row's held-out
            location is Y − residuals·exp(log_scale), and its held-out log density is
            the noise's at the residual minus the sum of its log scales.
    """

    frame: Frame
    residuals: Array
    log_scale: Array


class ConditionalBase(Base):
    """A base density that depends on x through a location and a scale."""

    noise: BaseDensity

    @property
    def is_conditional(self) -> bool:
        return True

    @abstractmethod
    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        """Fit location and scale, and compute residuals that do not deceive."""


@dataclass(frozen=True, eq=False)
class StandardResiduals:
    """Held-out residuals in units of their own deviation."""

    values: Array  # Mean zero and unit deviation, (n, d)
    log_scale: Array  # Held-out log scale, the unit included, (n, d)
    center: Array  # Mean of the residuals before, (d,)
    unit: Array  # Their deviation, (d,)


def standard_residuals(
    Y: Array,  # Responses, (n, d)
    location: Array,  # Held-out locations, (n, d)
    log_scale: Array,  # Held-out log scales, (n, d)
    weights: Array,  # Row weights, (n,)
) -> StandardResiduals:
    """Residuals of held-out locations and log scales, standardised."""
    raw = (Y - location) * np.exp(-log_scale)
    center = np.average(raw, axis=0, weights=weights)
    unit = np.sqrt(np.average((raw - center) ** 2, axis=0, weights=weights))
    unit = np.maximum(unit, _SMALLEST_UNIT)
    return StandardResiduals(
        (raw - center) / unit, log_scale + np.log(unit), center, unit
    )


def require_unbounded(noise: BaseDensity) -> None:
    """Refuse noise whose support would move with the location.

    Raises:
        ValueError: The support has an end.
    """
    if np.isfinite(noise.support(1)).any():
        raise ValueError(
            f"noise={noise!r} has a bounded support, which a moving location "
            f"would carry along; use an unbounded density here."
        )


@dataclass(frozen=True)
class LocationScaleBase(ConditionalBase):
    """Noise around any scikit-learn regressor: y = μ(x) + σ(x)·u, u ~ noise.

    Attributes:
        regressor: Predicts the location; None for a ridge regression.
        scale_regressor: Predicts log|y − μ(x)|; None for a constant scale.
        noise: Density of the residual u, in units of the residuals' deviation.
        cv: Folds of the cross-fitting.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = 3 * x[:, 0] + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> model = KCEF(base=LocationScaleBase(LinearRegression()))
        >>> model.fit(x, y).predict([[0.5]]).round(1)
        array([1.5])
    """

    regressor: Any = None
    scale_regressor: Any = None
    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))
    cv: int = 5

    def __post_init__(self) -> None:
        if self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {self.cv!r}.")
        require_unbounded(self.noise)

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        fewest = max(self.cv, 4)  # a regression needs two rows, whichever fold is out
        if len(Y) < fewest:
            raise ValueError(
                f"LocationScaleBase(cv={self.cv}) needs at least {fewest} rows, got "
                f"{len(Y)}; lower cv or use an unconditional base."
            )
        folds = rng.permutation(len(Y)) % self.cv
        location, held_out = self._cross_predict(
            _default(self.regressor), X, Y, weights, folds
        )
        errors = Y - held_out
        if self.scale_regressor is None:
            log_scale, held_out_scale = None, np.zeros_like(errors)
        else:
            tiny = 1e-3 * np.sqrt(np.average(errors**2, axis=0, weights=weights))
            target = np.log(np.abs(errors) + tiny) - _LOG_ABS_NORMAL
            log_scale, held_out_scale = self._cross_predict(
                self.scale_regressor, X, target, weights, folds
            )
            low, high = held_out_scale.min(axis=0), held_out_scale.max(axis=0)
        residuals = errors / np.exp(held_out_scale)
        unit = np.sqrt(np.average(residuals**2, axis=0, weights=weights))
        unit = np.maximum(unit, _SMALLEST_UNIT)
        if log_scale is None:
            frame = RegressionFrame(location, None, unit, np.zeros((2, Y.shape[1])))
        else:
            bounds = np.stack([low - _LOG_SCALE_MARGIN, high + _LOG_SCALE_MARGIN])
            frame = RegressionFrame(location, log_scale, unit, bounds)
        return CrossFit(frame, residuals / unit, held_out_scale + np.log(unit))

    def _cross_predict(
        self, regressor: Any, X: Array, Y: Array, weights: Array, folds: Indices
    ) -> tuple[Any, Array]:
        """The regressor fitted on all rows, and each row's held-out prediction."""
        held_out = np.empty_like(Y)
        for k in range(self.cv):
            train, test = folds != k, folds == k
            fitted = _fit(regressor, X[train], Y[train], weights[train])
            held_out[test] = _predict(fitted, X[test], Y.shape[1])
        return _fit(regressor, X, Y, weights), held_out


@dataclass(frozen=True)
class RegressionFrame(Frame):
    """Location and log scale predicted by fitted regressors.

    Attributes:
        location: Fitted regressor of the location.
        log_scale: Fitted regressor of the log scale, or None.
        unit: Factor of the scale, (d,).
        log_scale_bounds: Where the log scale is clipped, (2, d).
    """

    location: Any
    log_scale: Any
    unit: Array
    log_scale_bounds: Array

    def at(self, X: Array) -> tuple[Array, Array]:
        d = len(self.unit)
        location = _predict(self.location, X, d)
        if self.log_scale is None:
            return location, np.broadcast_to(self.unit, location.shape)
        log_scale = np.clip(_predict(self.log_scale, X, d), *self.log_scale_bounds)
        return location, np.exp(log_scale) * self.unit


def _default(regressor: Any) -> Any:
    if regressor is not None:
        return regressor
    # Imported here because it is slow to import and rarely the one that is used.
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=np.logspace(-3, 3, 13))


def _fit(regressor: Any, X: Array, Y: Array, weights: Array) -> Any:
    target = Y[:, 0] if Y.shape[1] == 1 else Y
    if has_fit_parameter(regressor, "sample_weight"):
        return clone(regressor).fit(X, target, sample_weight=weights)
    return clone(regressor).fit(X, target)


def _predict(regressor: Any, X: Array, d: int) -> Array:
    return np.asarray(regressor.predict(X), dtype=float).reshape(len(X), d)
