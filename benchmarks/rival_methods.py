"""Other methods for p(y|x), behind one interface.

`METHODS[name].make(seed).fit(X, y)` gives a density whose `score_samples(X, y)` is the
log density of each row, (n,), in the units of the y that was passed. Each fit
standardises with the mean and standard deviation of its own training rows and nothing
else. Most are the baselines of `kexpfam.baselines`; a normal that ignores x, ridge
regression with a normal error and a mixture density network are written here.

Figures in `results/rivals.jsonl` that are older than `kexpfam.baselines` were measured
with implementations of the same methods that stood here: LSCDE and the kernel density
had other grids and bounds, 12 x 11 widths and penalties, and widths from 0.02 to 50.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import record  # noqa: F401 - after it, reproduction is found
from rival_network import fit_mixture_network

from kexpfam.baselines import (
    LSCDE,
    ConditionalKDE,
    GaussianProcessDensity,
    NGBoostDensity,
    QuantileForestDensity,
)
from reproduction.protocol import Method

Array = np.ndarray
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


class Density(Protocol):
    """A fitted p(y|x)."""

    def score_samples(self, X: Array, y: Array) -> Array:
        """Log density of each row, (n,)."""


@dataclass(frozen=True)
class ConditionalNormal:
    """N(y; m(x), s(x)²); `moments` maps X to m and s, both (n,)."""

    moments: Callable[[Array], tuple[Array, Array]]

    def score_samples(self, X: Array, y: Array) -> Array:
        mean, std = self.moments(X)
        return -0.5 * ((y - mean) / std) ** 2 - np.log(std) - _LOG_ROOT_TWO_PI


@dataclass(frozen=True)
class Standardized:
    """A density of standardised (x, y) in the units before."""

    inner: Density
    center: Array
    scale: Array

    def score_samples(self, X: Array, y: Array) -> Array:
        X = (X - self.center[:-1]) / self.scale[:-1]
        y = (y - self.center[-1]) / self.scale[-1]
        return self.inner.score_samples(X, y) - np.log(self.scale[-1])


@dataclass(frozen=True)
class Rival:
    """An estimator that is fitted to rows of mean 0 and standard deviation 1."""

    fit_standardized: Callable[[Array, Array, int], Density]
    seed: int

    def fit(self, X: Array, y: Array) -> Density:
        rows = np.column_stack([X, y])
        center, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale == 0] = 1.0  # a column that is constant in the training half
        rows = (rows - center) / scale
        inner = self.fit_standardized(rows[:, :-1], rows[:, -1], self.seed)
        return Standardized(inner, center, scale)


def rival(
    description: str,
    fit_standardized: Callable[[Array, Array, int], Density],
    *,
    can_vanish: bool = False,
) -> Method:
    """A method of the protocol."""
    return Method(lambda seed: Rival(fit_standardized, seed), can_vanish, description)


def fit_iid_normal(X: Array, y: Array, seed: int) -> Density:
    mean, std = y.mean(), y.std(ddof=1)
    return ConditionalNormal(lambda X: (np.full(len(X), mean), np.full(len(X), std)))


def fit_ridge_normal(X: Array, y: Array, seed: int) -> Density:
    from sklearn.linear_model import RidgeCV

    penalties = np.logspace(-3, 3, 25)
    model = RidgeCV(penalties, store_cv_results=True).fit(X, y)
    # Squared leave-one-out residuals: training residuals are far too small where the
    # rows are hardly more than the columns.
    errors = model.cv_results_[:, np.flatnonzero(penalties == model.alpha_)[0]]
    std = np.sqrt(errors.mean())
    return ConditionalNormal(lambda X: (model.predict(X), np.full(len(X), std)))


def fitted_by(make: Callable[[int], Any]) -> Callable[[Array, Array, int], Density]:
    """Fits of an estimator that is made from a seed."""
    return lambda X, y, seed: make(seed).fit(X, y)


METHODS = {
    "iid_normal": rival("one normal distribution for all x", fit_iid_normal),
    "ridge_normal": rival(
        "ridge regression, penalty and variance from leave-one-out residuals",
        fit_ridge_normal,
    ),
    "gaussian_process": rival(
        "scikit-learn, constant * RBF (one lengthscale a column) + white noise, "
        "marginal likelihood, 2 restarts",
        fitted_by(lambda seed: GaussianProcessDensity(random_state=seed)),
    ),
    "ngboost": rival(
        "normal, the package's defaults: 500 trees",
        fitted_by(lambda seed: NGBoostDensity(n_estimators=500, random_state=seed)),
    ),
    "ngboost_stopped": rival(
        "normal, trees (at most 2000) by early stopping after 20 rounds on 20 % of "
        "the rows, refitted on all rows",
        fitted_by(lambda seed: NGBoostDensity(random_state=seed)),
    ),
    "mixture_network": rival(
        "mixture density network, 3 normals, 10 tanh units beside a linear map, weight "
        "decay by 5-fold likelihood, average of 5",
        fit_mixture_network,
    ),
    "quantile_forest": rival(
        "leaf weights of 200 trees on training responses, smoothed by a Gaussian; "
        "its width and the smallest leaf (1, 5, 10, 20) by out-of-bag likelihood",
        fitted_by(lambda seed: QuantileForestDensity(random_state=seed)),
        can_vanish=True,
    ),
    "kernel_density": rival(
        "conditional kernel density, Gaussian kernels, one width a column by "
        "leave-one-out likelihood",
        fitted_by(lambda seed: ConditionalKDE(random_state=seed)),
        can_vanish=True,
    ),
    "lscde": rival(
        "least-squares conditional density (Sugiyama et al., 2010), 100 centres, "
        "width and penalty by 5-fold likelihood",
        fitted_by(lambda seed: LSCDE(random_state=seed)),
        can_vanish=True,
    ),
}
