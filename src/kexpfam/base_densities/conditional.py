"""Noise around a location-scale model: q0(y|x) = noise((y − μ(x))/σ(x))/σ(x).

The location is a straight line, whose log width is a straight line, too, a Gaussian
process, or whatever a regressor of scikit-learn predicts. Leave-one-out predictions of
a Gaussian process come in closed form, so its training residuals are honest at the
price of a single fit; the others are fitted again without each fold. Columns of y are
independent regressions, but for those of scikit-learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kexpfam._typing import Array, Indices
from kexpfam.base_densities.fixed import GaussianBase
from kexpfam.base_densities.interface import (
    BaseDensity,
    ConditionalBase,
    CrossFit,
    LocationScaleModel,
)
from kexpfam.persistence import saved_fit, saved_value
from kexpfam.regression import (
    GaussianProcessFit,
    LinearLocationScale,
    LogScale,
    Process,
    fit_gaussian_process,
    fit_heteroscedastic,
    fit_linear,
    offsets_of,
)

# A regression that interpolates even held-out rows leaves rounding errors only.
_SMALLEST_UNIT = 1e-12
# A process is worth more than a straight line if it gains so many nats in total.
ENOUGH_NATS = 3.0


def standard_residuals(
    Y: Array,  # Responses, (n, d)
    location: Array,  # Held-out locations, (n, d)
    log_scale: Array,  # Held-out log scales, (n, d)
    weights: Array,  # Row weights, (n,)
) -> tuple[Array, Array, Array, Array]:
    """Residuals of mean zero and unit std, their log scales, and that mean and std."""
    raw = (Y - location) * np.exp(-log_scale)
    center = np.average(raw, axis=0, weights=weights)
    unit = np.sqrt(np.average((raw - center) ** 2, axis=0, weights=weights))
    unit = np.maximum(unit, _SMALLEST_UNIT)
    return (raw - center) / unit, log_scale + np.log(unit), center, unit


def _require_rows(who: str, n: int) -> None:
    """Refuse so few rows that they say nothing about noise and course separately."""
    if n < 4:
        raise ValueError(
            f"{who} needs at least 4 rows, got {n}; use an unconditional base such as "
            f"GaussianBase(scale=2.0)."
        )


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

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        _require_rows("LinearBase", len(Y))
        fits = [fit_linear(X, y, weights, rng) for y in Y.T]
        residuals, log_scale, center, unit = standard_residuals(
            Y,
            np.column_stack([fit.held_out_location for fit in fits]),
            np.column_stack([fit.held_out_log_scale for fit in fits]),
            weights,
        )
        model = LinearModel(tuple(fit.model for fit in fits), center, unit)
        return CrossFit(model, residuals, log_scale)


@saved_fit(
    {"models": "d p", "center": "d", "unit": "d positive"},
    name="LinearFrame",
)
@dataclass(frozen=True, eq=False)
class LinearModel(LocationScaleModel):
    """Linear location and log scale, one pair per column of y."""

    models: tuple[LinearLocationScale, ...]  # One per column, (d,)
    center: Array  # Mean of the residuals before they were centred, (d,)
    unit: Array  # Their standard deviation, (d,)

    def at(self, X: Array) -> tuple[Array, Array]:
        location, scale = np.empty((2, len(X), len(self.models)))
        for i, model in enumerate(self.models):
            location[:, i], log_scale = model.at(X)
            scale[:, i] = np.exp(log_scale)
        return location + self.center * scale, self.unit * scale


@saved_value
@dataclass(frozen=True)
class WithinComponentsBase(ConditionalBase):
    """Noise of several components around a location that moves them together.

    y minus the offset of the component that a row is of has a linear mean, or one by a
    Gaussian process if that predicts it better. The residual has all components; its
    unit is the standard deviation of all of them together. For one column of y.

    Attributes:
        noise: Density of the residual u, in units of the residuals' deviation.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 1, size=(200, 1))
        >>> y = x[:, 0] + rng.choice([0.0, 3.0], 200) + 0.3 * rng.normal(size=200)
        >>> model = KCEF(base=WithinComponentsBase(), random_state=0).fit(x, y)
        >>> slope = np.diff(model.predict_quantiles([[0.0], [1.0]], [0.25])[:, 0])
        >>> slope.round()
        array([1.])
    """

    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        if Y.shape[1] > 1:
            raise ValueError(
                f"WithinComponentsBase is for one column of y, got {Y.shape[1]}; use "
                f"LinearBase or GaussianProcessBase."
            )
        _require_rows("WithinComponentsBase", len(Y))
        inner = Y - offsets_of(X, Y[:, 0], weights)[:, None]
        linear, process = (
            base.cross_fit(X, inner, weights, rng)
            for base in (LinearBase(self.noise), GaussianProcessBase(self.noise))
        )
        # Held-out residuals have unit std, so that log scales tell who predicts better.
        gain = weights @ (linear.log_scale - process.log_scale)[:, 0]
        fit = process if gain > ENOUGH_NATS else linear
        location = inner - fit.residuals * np.exp(fit.log_scale)
        residuals, log_scale, center, unit = standard_residuals(
            Y, location, fit.log_scale, weights
        )
        old = fit.model
        assert isinstance(old, LinearModel | GaussianProcessModel)
        model = replace(
            old, center=old.center + old.unit * center, unit=old.unit * unit
        )
        return CrossFit(model, residuals, log_scale)


@saved_value
@dataclass(frozen=True)
class GaussianProcessBase(ConditionalBase):
    """Noise around a Gaussian process with a lengthscale for each column of x.

    Attributes:
        noise: Density of the residual u, in units of the residuals' deviation.
        heteroscedastic: Let the width of the noise depend on x.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> KCEF(base=GaussianProcessBase()).fit(x, y).predict([[1.5]]).round(1)
        array([1.])
    """

    noise: BaseDensity = field(default_factory=lambda: GaussianBase(scale=1.5))
    heteroscedastic: bool = False

    def cross_fit(
        self,
        X: Array,
        Y: Array,
        weights: Array,
        rng: np.random.Generator,
        # What `fit_processes` found for these rows, so that bases with constant and
        # with varying noise can share it; None to fit them
        processes: Sequence[GaussianProcessFit] | None = None,
    ) -> CrossFit:
        fits = fit_processes(X, Y, weights) if processes is None else processes
        if self.heteroscedastic:
            pairs = zip(fits, Y.T, strict=True)
            fits = [fit_heteroscedastic(fit, X, y, weights, rng) for fit, y in pairs]
        residuals, log_scale, center, unit = standard_residuals(
            Y,
            np.column_stack([fit.held_out_mean for fit in fits]),
            0.5 * np.log(np.column_stack([fit.response_variance for fit in fits])),
            weights,
        )
        model = GaussianProcessModel(
            tuple(fit.process for fit in fits),
            tuple(fit.log_scale for fit in fits),
            center,
            unit,
        )
        return CrossFit(model, residuals, log_scale)


@saved_fit(
    {"processes": "d p", "log_scales": "d p", "center": "d", "unit": "d positive"},
    name="GaussianProcessFrame",
)
@dataclass(frozen=True, eq=False)
class GaussianProcessModel(LocationScaleModel):
    """Location and scale predicted by Gaussian processes, one per column of y."""

    processes: tuple[Process, ...]  # One per column, (d,)
    log_scales: tuple[LogScale | None, ...]  # Of the noise, None if constant, (d,)
    center: Array  # Mean of the residuals before they were centred, (d,)
    unit: Array  # Their standard deviation, (d,)

    def at(self, X: Array) -> tuple[Array, Array]:
        location, variance = np.empty((2, len(X), len(self.processes)))
        columns = zip(self.processes, self.log_scales, strict=True)
        for i, (process, log_scale) in enumerate(columns):
            mean, variance[:, i] = process.predict(X)
            noise = np.full(len(X), process.noise_variance)
            if log_scale is not None:
                noise *= np.exp(2.0 * log_scale.at(X, mean))
            location[:, i] = mean
            variance[:, i] += noise
        std = np.sqrt(variance)
        return location + self.center * std, self.unit * std


def fit_processes(
    X: Array,  # Conditions, (n, p)
    Y: Array,  # Responses, (n, d)
    weights: Array,  # Row weights, (n,)
    *,
    # Fits of similar data, one per column, where the search begins
    start: Sequence[GaussianProcessFit] | None = None,
    # Further such fits, whose optima are tried beside the one that is found
    similar: Sequence[Sequence[GaussianProcessFit]] = (),
    max_iterations: int = 40,  # Of each search at most
) -> tuple[GaussianProcessFit, ...]:
    """A Gaussian process with constant noise for each column of Y."""
    _require_rows("A Gaussian process base", len(Y))
    fits = []
    for i, y in enumerate(Y.T):
        fits.append(
            fit_gaussian_process(
                X,
                y,
                weights=weights,
                start=None if start is None else start[i].process.hyperparameters,
                similar=[other[i].process.hyperparameters for other in similar],
                max_iterations=max_iterations,
            )
        )
    return tuple(fits)


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
        super().__post_init__()

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
        regressor = self.regressor
        if regressor is None:
            # Imported here because it is slow to import and rarely the one in use.
            from sklearn.linear_model import RidgeCV

            regressor = RidgeCV(alphas=np.logspace(-3, 3, 13))
        location, held_out = self._cross_predict(regressor, X, Y, weights, folds)
        errors = Y - held_out
        log_scale, held_out_scale = None, np.zeros_like(errors)
        if self.scale_regressor is not None:
            tiny = 1e-3 * np.sqrt(np.average(errors**2, axis=0, weights=weights))
            # −E log|u| of a standard normal u makes a log residual a log deviation.
            target = np.log(np.abs(errors) + tiny) + 0.6351814227307391
            log_scale, held_out_scale = self._cross_predict(
                self.scale_regressor, X, target, weights, folds
            )
        residuals = errors / np.exp(held_out_scale)
        unit = np.sqrt(np.average(residuals**2, axis=0, weights=weights))
        unit = np.maximum(unit, _SMALLEST_UNIT)
        # The log scale may leave the range of its training predictions by this much,
        # so that extrapolation does not produce absurd widths.
        margin = 0.5
        bounds = np.stack(
            [held_out_scale.min(axis=0) - margin, held_out_scale.max(axis=0) + margin]
        )
        model = RegressorModel(location, log_scale, unit, bounds)
        return CrossFit(model, residuals / unit, held_out_scale + np.log(unit))

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
class RegressorModel(LocationScaleModel):
    """Location and log scale predicted by fitted regressors of scikit-learn."""

    location: Any  # Fitted regressor of the location
    log_scale: Any  # Fitted regressor of the log scale, or None
    unit: Array  # Factor of the scale, (d,)
    log_scale_bounds: Array  # Where the log scale is clipped, (2, d)

    def at(self, X: Array) -> tuple[Array, Array]:
        d = len(self.unit)
        location = _predict(self.location, X, d)
        if self.log_scale is None:
            return location, np.broadcast_to(self.unit, location.shape)
        log_scale = np.clip(_predict(self.log_scale, X, d), *self.log_scale_bounds)
        return location, np.exp(log_scale) * self.unit


def _fit(regressor: Any, X: Array, Y: Array, weights: Array) -> Any:
    target = Y[:, 0] if Y.shape[1] == 1 else Y
    if has_fit_parameter(regressor, "sample_weight"):
        return clone(regressor).fit(X, target, sample_weight=weights)
    return clone(regressor).fit(X, target)


def _predict(regressor: Any, X: Array, d: int) -> Array:
    return np.asarray(regressor.predict(X), dtype=float).reshape(len(X), d)
