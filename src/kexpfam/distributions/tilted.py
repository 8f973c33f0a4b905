"""Densities that are made from unnormalised ones in the coordinates of the kernel."""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from kexpfam._typing import Array
from kexpfam.distributions.coordinates import ResponseCoordinates
from kexpfam.distributions.interface import Density
from kexpfam.errors import IllConditionedError
from kexpfam.partition import UnnormalizedDensity
from kexpfam.sampling import Run, Sampler


class TiltedDensities(Density):
    """Densities made from q0(u) exp T(x, u): known up to log Z(x), in coordinates u."""

    _tilted: UnnormalizedDensity
    _coordinates: ResponseCoordinates

    @abstractmethod
    def _log_density(self, U: Array) -> Array:
        """Log densities in the coordinates u, (n, q, d) -> (n, q)."""

    @property
    def _n(self) -> int:
        return len(self._tilted)

    @property
    def _d(self) -> int:
        return self._tilted.d

    @property
    def _ends(self) -> Array:
        return np.broadcast_to(self._coordinates.support, (self._n, self._d, 2))

    def _log_pdf(self, Y: Array) -> Array:
        log_p = self._log_density(self._coordinates.to_kernel(Y))
        return log_p - self._coordinates.log_volume(Y)

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        run = sampler.draw(self._tilted, size, rng)
        chains = run.chains
        if chains is not None:
            n, d = self._n, self._d
            flat = self._coordinates.to_user(chains.draws.reshape(n, -1, d))
            chains = replace(chains, draws=flat.reshape(chains.draws.shape))
        draws = self._coordinates.to_user(run.draws)
        return replace(run, draws=draws, chains=chains)

    def _gradient(self, Y: Array) -> Array:
        slope = self._tilted.gradient(self._coordinates.to_kernel(Y))
        return self._coordinates.gradient(slope, Y)


def refuse_overflow(log_partition: Array) -> None:
    """Refuse densities whose log Z, (n,), is no number.

    Raises:
        IllConditionedError: There are some.
    """
    wrong = ~np.isfinite(log_partition)
    if wrong.any():
        raise IllConditionedError(
            f"log Z(x) is no number for row {int(np.argmax(wrong))} of X: numbers of "
            f"the model overflow there. Leave rows out that are far from all others, "
            f"in X and at the fit."
        )
