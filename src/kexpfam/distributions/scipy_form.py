"""One density of one variable as a frozen distribution of `scipy.stats`.

SciPy brings the interface that other code knows (`kstest`, `expect`, `interval`,
`rvs(size=(2, 3))`); every number comes from the density, none from SciPy's numerical
fallbacks, except moments above the second.
"""

from typing import Any

import numpy as np
from scipy import stats

from kexpfam._typing import Array


class ScipyDensity(stats.rv_continuous):
    """What is frozen: a family of one, without shape parameters.

    Args:
        density: A single density of one variable.
        options: What `rv_continuous` takes.
    """

    def __init__(self, density: Any, **options: Any) -> None:
        self._density = density
        low, high = density.support
        options = {"a": float(low), "b": float(high), "name": "kexpfam"} | options
        super().__init__(**options)

    def _updated_ctor_param(self) -> dict[str, Any]:
        # Freezing makes another one from its own arguments.
        return {**super()._updated_ctor_param(), "density": self._density}

    def _at(self, method: str, x: Array) -> Array:
        """A method of the density at points of any shape."""
        points = np.asarray(x, dtype=float)
        return np.reshape(getattr(self._density, method)(points.ravel()), points.shape)

    def _pdf(self, x: Array) -> Array:
        return self._at("pdf", x)

    def _logpdf(self, x: Array) -> Array:
        return self._at("logpdf", x)

    def _cdf(self, x: Array) -> Array:
        return self._at("cdf", x)

    def _sf(self, x: Array) -> Array:
        return self._at("sf", x)

    def _ppf(self, q: Array) -> Array:
        return self._at("ppf", q)

    def _isf(self, q: Array) -> Array:
        return self._at("ppf", 1.0 - np.asarray(q))

    def _stats(self) -> tuple[Any, Any, None, None]:
        # SciPy works out skewness and kurtosis from higher moments if they are asked.
        return self._density.mean(), self._density.var(), None, None

    def _munp(self, n: int) -> Any:
        # SciPy would integrate over the whole line at once and may miss the mass.
        return self.expect(lambda y: y**n)

    def _entropy(self) -> Any:
        return self._density.entropy()

    def _rvs(self, *, size: Any = None, random_state: Any = None) -> Any:
        shape = () if size is None else tuple(np.atleast_1d(size))
        draws = self._density.rvs(int(np.prod(shape, dtype=int)), random_state)
        return np.reshape(draws, shape)[()]


def frozen(density: Any) -> Any:
    """A single density of one variable as a frozen distribution."""
    return ScipyDensity(density).freeze()
