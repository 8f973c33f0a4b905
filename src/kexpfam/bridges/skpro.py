"""Estimators of p(y|x) as probabilistic regressors of skpro.

`SkproRegressor` wraps any estimator of this package, and takes part in skpro's
pipelines, tuning and benchmarks. Its predictions are a `KexpfamDistribution`: what
`given(X)` returns, with rows and columns labelled as in the frame. Nothing is
approximated by draws: energy and norm come from quadrature.

This module needs skpro when it is imported, because its classes inherit from skpro's.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from kexpfam._optional import needed
from kexpfam._typing import Array
from kexpfam.estimators import KCEF, AutoKCEF
from kexpfam.metrics import cde_loss_values
from kexpfam.metrics.observations import Observations, integrate_rows

pd, _distributions, _regression = (
    needed(module, "for its regressor", "bridges")
    for module in ("pandas", "skpro.distributions.base", "skpro.regression.base")
)
BaseDistribution: Any = _distributions.BaseDistribution
BaseProbaRegressor: Any = _regression.BaseProbaRegressor


class KexpfamDistribution(BaseDistribution):
    """Densities of one variable as a distribution of skpro.

    Draws follow `numpy.random.seed`, as all of skpro's do; `density.rvs` takes a seed.

    Args:
        density: What `model.given(X)` returns, for one column of y; or a single
            density, which makes a scalar distribution.
        index: Labels of the rows; None for numbers.
        columns: Label of the column; None for 0.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.bridges.skpro import KexpfamDistribution
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([0.0, 2.0]), np.ones(2))
        >>> KexpfamDistribution(p, index=["a", "b"], columns=["y"]).mean().loc["b", "y"]
        np.float64(2.0)
    """

    _tags = {  # noqa: RUF012 - skpro's convention
        "authors": ["kexpfam developers"],
        "distr:measuretype": "continuous",
        "distr:paramtype": "nonparametric",
        "capabilities:exact": [
            "mean",
            "var",
            "energy",
            "pdfnorm",
            "pdf",
            "log_pdf",
            "cdf",
            "surv",
            "ppf",
        ],
        "capabilities:approx": [],
        "broadcast_init": "off",
    }

    def __init__(self, density: Any, index: Any = None, columns: Any = None) -> None:
        self.density = density
        if np.ndim(density.support) > 1:
            index = pd.RangeIndex(len(density)) if index is None else index
            columns = pd.RangeIndex(1) if columns is None else columns
        super().__init__(index=index, columns=columns)

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> Any:
        if np.ndim(rowidx) == np.ndim(colidx) == 0 and None not in (rowidx, colidx):
            return self._iat(rowidx, colidx)
        rows = np.arange(len(self))
        if rowidx is not None:
            rows = np.atleast_1d(rows[rowidx])
        columns = self.columns
        if colidx is not None:
            columns = columns[np.atleast_1d(np.arange(len(columns))[colidx])]
        return type(self)(self.density[rows], self.index[rows], columns)

    def _iat(self, rowidx: Any = None, colidx: Any = None) -> Any:
        if rowidx is None or colidx is None:
            raise ValueError("iat needs a row and a column.")
        return type(self)(self.density[int(rowidx)])

    def _pdf(self, x: Array) -> Array:
        return self.density.pdf(x)

    def _log_pdf(self, x: Array) -> Array:
        return self.density.logpdf(x)

    def _cdf(self, x: Array) -> Array:
        return self.density.cdf(x)

    def _surv(self, x: Array) -> Array:
        return self.density.sf(x)

    def _ppf(self, p: Array) -> Array:
        return self.density.ppf(p)

    def _mean(self) -> Array:
        return self._column(self.density.mean())

    def _var(self) -> Array:
        return self._column(self.density.var())

    def _energy_self(self) -> Array:
        """E|Y − Y'| = 2 ∫ F (1 − F)."""
        observed = self._beside(self.density.median())

        def within(t: Array) -> Array:
            below = observed.dense.cdf(t)
            return 2.0 * below * (1.0 - below)

        return self._column(integrate_rows(within, observed.edges))

    def _energy_x(self, x: Array) -> Array:
        """E|Y − x| = ∫ F below x and ∫ (1 − F) above it."""
        observed = self._beside(x)
        y = observed.y[:, None]

        def distance(t: Array) -> Array:
            below = observed.dense.cdf(t)
            return np.where(t < y, below, 1.0 - below)

        edges = np.sort(np.hstack([observed.edges, y]), axis=1)
        return self._column(integrate_rows(distance, edges))

    def pdfnorm(self, a: float = 2) -> Any:
        """∫ p(y)^a dy: by quadrature for a = 2, else as skpro does it, by draws."""
        if a != 2:
            return super().pdfnorm(a)
        middle = np.atleast_1d(self.density.median())
        points = middle[0] if self.ndim == 0 else middle
        squared = cde_loss_values(self.density, middle) + 2.0 * self.density.pdf(points)
        found = self._column(squared)
        if self.ndim == 0:
            return found
        return pd.DataFrame(found, index=self.index, columns=self.columns)

    def _sample(self, n_samples: int | None = None) -> Any:
        seed = np.random.randint(2**31)  # noqa: NPY002 - where skpro's users put a seed
        size = 1 if n_samples is None else n_samples
        draws = self.density.rvs(size, seed)
        if self.ndim == 0:
            return float(draws[0]) if n_samples is None else pd.DataFrame(draws)
        if n_samples is None:
            return pd.DataFrame(draws, index=self.index, columns=self.columns)
        blank = pd.DataFrame(index=self.index)
        index = pd.concat([blank] * size, keys=range(size)).index
        return pd.DataFrame(draws.T.reshape(-1, 1), index=index, columns=self.columns)

    def _beside(self, y: Any) -> Observations:
        return Observations.of(self.density, np.reshape(y, -1), "energy")

    def _column(self, values: Any) -> Any:
        """One number per row as a column; the number itself for a scalar."""
        if self.ndim == 0:
            return float(np.reshape(values, -1)[0])
        return np.reshape(values, (-1, 1))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Instances for skpro's checks."""
        from kexpfam.base_densities import GaussianBase, StudentBase
        from kexpfam.distributions import ClosedFormDensity

        rows = ClosedFormDensity(GaussianBase(1.0), np.arange(3.0), np.arange(1.0, 4.0))
        tails = ClosedFormDensity(StudentBase(1.0, df=5.0), np.zeros(1), np.ones(1))
        return [
            {"density": rows, "index": pd.Index([1, 2, 5]), "columns": pd.Index(["a"])},
            {"density": tails[0]},
        ]


class SkproRegressor(BaseProbaRegressor):
    """An estimator of p(y|x) as a probabilistic regressor of skpro.

    Args:
        estimator: Of one column of y, with `fit(X, y)` and `given(X)`; None for
            `AutoKCEF()`.

    Attributes:
        estimator_: The fitted estimator.

    Example:
        >>> import pandas as pd
        >>> from kexpfam import KCEF
        >>> from kexpfam.bridges.skpro import SkproRegressor
        >>> X = pd.DataFrame({"x": [k / 40 for k in range(40)]})
        >>> y = pd.DataFrame({"y": X["x"] ** 2 + 0.1 * (X.index % 3)})
        >>> model = SkproRegressor(KCEF(select=None)).fit(X, y)
        >>> model.predict_interval(X.head(3), coverage=0.9).shape
        (3, 2)
    """

    _tags = {  # noqa: RUF012 - skpro's convention
        "authors": ["kexpfam developers"],
        "capability:multioutput": False,
        "capability:missing": False,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> Self:
        base = AutoKCEF() if self.estimator is None else clone(self.estimator)
        self.estimator_ = base.fit(_named(X), y.iloc[:, 0].to_numpy())
        self._y_columns = y.columns
        return self

    def _predict(self, X: Any) -> Any:
        means = self.estimator_.given(_named(X)).mean()
        return pd.DataFrame(means, index=X.index, columns=self._y_columns)

    def _predict_proba(self, X: Any) -> Any:
        density = self.estimator_.given(_named(X))
        return KexpfamDistribution(density, index=X.index, columns=self._y_columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings that are quick to fit, for skpro's checks."""
        return [
            {"estimator": KCEF(select=None)},
            {"estimator": KCEF(select=None, regularization=0.1, standardize=False)},
        ]


def _named(X: Any) -> Any:
    """The frame, or its values if scikit-learn would refuse the names."""
    return X if all(isinstance(name, str) for name in X.columns) else X.to_numpy()
