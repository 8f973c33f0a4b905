"""What every Gaussian process here can do, however it is conditioned on its rows."""

from abc import ABC, abstractmethod

from kexpfam._typing import Array
from kexpfam.regression.marginal_likelihood import Hyperparameters
from kexpfam.regression.scaling import Scaling

# A latent variance is not below this share of the response's variance.
SMALLEST_VARIANCE = 1e-12


class Process(ABC):
    """A Gaussian process given its training rows, for predictions anywhere."""

    hyperparameters: Hyperparameters
    x_scaling: Scaling
    y_scaling: Scaling

    @property
    def lengthscales(self) -> Array:
        """Lengthscale of each column of x, in the units of x, (p,)."""
        return self.hyperparameters.lengthscales * self.x_scaling.scale

    @property
    def noise_variance(self) -> float:
        """Noise variance of a row of weight one, in squared units of y."""
        scale = float(self.y_scaling.scale[0])
        return self.hyperparameters.noise_variance * scale**2

    @abstractmethod
    def mean(self, X: Array) -> Array:
        """Mean of the response at conditions in the units of the data, (m,)."""

    @abstractmethod
    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean of the response and variance of that mean, without noise, (m,) each.

        Args:
            X: Conditions in the units of the training data, (m, p).
        """
