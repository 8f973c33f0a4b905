"""RNADE: real-valued neural autoregressive density estimation, joint and conditional.

References:
    Uria, Murray and Larochelle, RNADE: The Real-valued Neural Autoregressive
    Density-estimator, NeurIPS 2013; A Deep and Tractable Density Estimator, ICML 2014
    (all orders at once); Uria et al., Neural Autoregressive Distribution Estimation,
    JMLR 2016.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._typing import Array, ArrayLike, Indices, RandomState
from kexpfam._validation import (
    as_generator,
    check_count,
    check_positive,
)
from kexpfam.baselines.rnade_network import (
    FittedRNADE,
    average_log_density,
    initial_network,
    random_orders,
)
from kexpfam.baselines.rnade_training import (
    Trained,
    Training,
    train,
)
from kexpfam.baselines.standardized import (
    StandardizedEstimator,
    mean_and_positive_std,
    rounding_scales,
)
from kexpfam.data import Rows, complete_numbers, conditional_rows, modelled_rows
from kexpfam.distributions import Density
from kexpfam.errors import DegenerateDataError
from kexpfam.estimators.base import DensityEstimator
from kexpfam.sampling import Sampler


class SizeSelection(NamedTuple):
    """What cross-validation said about the sizes of the network.

    Attributes:
        sizes: Pairs (units, components).
        losses: Mean of −log p of rows left out, standardised, for each.
    """

    sizes: tuple[tuple[int, int], ...]
    losses: Array


class _RNADEOptions(BaseEstimator):
    """Constructor and learned attributes of both estimators."""

    fitted_: FittedRNADE
    orders_: Indices
    least_scale_: Array
    selection_: SizeSelection | None

    def __init__(
        self,
        *,
        hidden_layers: int = 2,
        units: int | Sequence[int] = 100,
        components: int | Sequence[int] = 10,
        n_orders: int = 8,
        least_scale: float = 1e-3,
        learning_rate: float = 3e-3,
        batch_size: int = 64,
        max_epochs: int = 1000,
        patience: int = 30,
        held_out: float = 0.1,
        weight_decay: float = 0.1,
        gradient_clip: float = 10.0,
        cv: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.hidden_layers = hidden_layers
        self.units = units
        self.components = components
        self.n_orders = n_orders
        self.least_scale = least_scale
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.held_out = held_out
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.cv = cv
        self.random_state = random_state

    @classmethod
    def paper(cls, **options: Any) -> Self:
        """The small networks of the paper on conditional exponential families.

        One hidden layer; 2, 10 or 100 units and 1, 2, 5 or 10 components, chosen by
        cross-validation on the training rows.

        Args:
            **options: Other arguments of the constructor.
        """
        sizes = {"units": (2, 10, 100), "components": (1, 2, 5, 10)}
        return cls(**{"hidden_layers": 1, **sizes, **options})

    def _training(self) -> Training:
        """How to train; all other options are checked as well."""
        for name, least in (("hidden_layers", 1), ("n_orders", 1), ("cv", 2)):
            check_count(name, getattr(self, name), least=least)
        check_positive("least_scale", self.least_scale)
        if not 0 < check_positive("held_out", self.held_out) < 1:
            raise ValueError(
                f"held_out must be a share between 0 and 1, got {self.held_out!r}."
            )
        decay = self.weight_decay
        return Training(
            check_positive("learning_rate", self.learning_rate),
            check_count("batch_size", self.batch_size, least=1),
            check_count("max_epochs", self.max_epochs, least=0),
            check_count("patience", self.patience, least=1),
            0.0 if decay == 0 else check_positive("weight_decay", decay),
            check_positive("gradient_clip", self.gradient_clip),
        )

    def _fit_rows(self, rows: Rows, center: Array, scale: Array) -> Self:
        """Fit p(y|z) to standardised rows (z, u), with mean and std of y."""
        training, rng = self._training(), as_generator(self.random_state)
        options = _choices("units", self.units), _choices("components", self.components)
        sizes = tuple(itertools.product(*options))
        rows = rows[rows.weights > 0]
        self.least_scale_ = np.maximum(self.least_scale, rounding_scales(rows.Y))
        self.orders_ = random_orders(len(center), self.n_orders, rng)
        best, self.selection_ = sizes[0], None
        if len(sizes) > 1:
            losses = self._left_out_losses(rows, sizes, training, rng)
            self.selection_ = SizeSelection(sizes, losses)
            best = sizes[int(np.nanargmin(losses))]
        trained = self._trained(rows, best, training, rng)
        self.fitted_ = FittedRNADE(
            trained.network, self.orders_, self.least_scale_, center, scale
        )
        self.units_, self.components_ = best
        self.train_loss_ = trained.train_loss
        self.held_out_loss_ = trained.held_out_loss
        self.n_iter_, self.best_epoch_ = len(trained.train_loss), trained.best_epoch
        return self

    def _trained(
        self,
        rows: Rows,
        size: tuple[int, int],
        training: Training,
        rng: np.random.Generator,
    ) -> Trained:
        """One network, fitted to all rows but a random share that says when to stop."""
        n, d = rows.Y.shape
        # Fewer than 50 say little, but of few rows not more than 0.3 are held out.
        count = max(self.held_out * n, min(50, 0.3 * n))
        held = min(max(1, round(count)), n - 1)
        if held < 1:
            raise DegenerateDataError(
                "RNADE needs at least two rows with a positive weight, one to learn "
                "from and one to say when to stop."
            )
        mixed, (units, components) = rng.permutation(n), size
        network = initial_network(
            d, rows.X.shape[1], units, self.hidden_layers, components, rng
        )
        learned, held_out = rows[mixed[held:]], rows[mixed[:held]]
        return train(network, learned, held_out, self.least_scale_, training, rng)

    def _left_out_losses(
        self,
        rows: Rows,
        sizes: tuple[tuple[int, int], ...],
        training: Training,
        rng: np.random.Generator,
    ) -> Array:
        """Mean of −log p over rows left out in turn, for each size."""
        n = len(rows)
        folds = np.array_split(rng.permutation(n), min(self.cv, n // 2))
        seeds = rng.integers(2**32, size=len(folds))
        total = np.zeros(len(sizes))
        for fold, seed in zip(folds, seeds, strict=True):
            kept, left = rows[np.setdiff1d(np.arange(n), fold)], rows[fold]
            for i, size in enumerate(sizes):
                # The same seed for all sizes: their differences are what counts.
                own = np.random.default_rng(seed)
                network = self._trained(kept, size, training, own).network
                log_p = average_log_density(
                    network, left.Y, left.X, self.orders_, self.least_scale_
                )
                total[i] -= left.weights @ log_p
        return total / rows.weights.sum()


def _choices(name: str, value: object) -> tuple[int, ...]:
    """A count, or several to choose from."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if listed else (value,)  # type: ignore[arg-type]
    if not values:
        raise ValueError(f"{name} must not be empty.")
    return tuple(check_count(name, one, least=1) for one in values)


class RNADE(_RNADEOptions, DensityEstimator):
    """A joint density p(y) from one network that predicts any column from any others.

    p(y) is the average over `n_orders` orders o of the columns of Π_i p(y_o(i) |
    y_o(<i)), each factor a mixture of normals whose parameters are outputs of the
    network. It integrates to one. Columns are standardised; results are in the data's
    units. Needs JAX and Optax to fit: `pip install "kexpfam[baselines]"`.

    Args:
        hidden_layers: How many.
        units: Rectified linear units of each; several to choose by cross-validation.
        components: Normal components of each factor; several to choose.
        n_orders: Orders that are averaged; all of them if there are no more.
        least_scale: Components are not narrower than this, in standard deviations of
            their column, nor, in a column with tied values, than what rounding to steps
            of the size seen gives: without a bound, likelihood grows forever by
            spikes on ties.
        learning_rate: Of Adam; a tenth of it once held-out rows do not gain any more.
        batch_size: Rows of a step; of few rows, a fifth of them or less.
        max_epochs: Passes over the rows, at most; of few rows, several passes count as
            one, of 15 steps. 0 leaves the network as it starts, untrained.
        patience: Epochs without gain before steps are shortened, and then before the
            end.
        held_out: Share of the rows that decides when to stop, and which parameters are
            kept; of few rows up to three tenths, so that they are 50.
        weight_decay: Shrinkage of weights; 0 for none.
        gradient_clip: Gradients are shortened to this length.
        cv: Folds that choose `units` and `components`, if there are several.
        random_state: Seed of start, batches and orders; the same seed gives the same
            numbers.

    Attributes:
        fitted_: Network and units, `FittedRNADE`.
        orders_: Orders that are averaged, (r, d).
        least_scale_: Bound of scales of each column in standard deviations, (d,).
        units_: Units used.
        components_: Components used.
        selection_: Losses of the sizes tried, `SizeSelection`; None if there was one.
        train_loss_: Loss of each epoch, in standardised units.
        held_out_loss_: −log p of held-out rows before training and after each epoch.
        best_epoch_: The epoch whose network is kept.
        n_iter_: Epochs of training.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> a = rng.normal(size=(300, 1))
        >>> Y = np.hstack([a, a**2 + 0.3 * rng.normal(size=(300, 1))])
        >>> model = RNADE(units=20, max_epochs=40, random_state=0).fit(Y)
        >>> model.sample(2, random_state=0).shape
        (2, 2)
        >>> log_p = model.score_samples([[1.0, 1.0], [1.0, -1.0]])
        >>> bool(log_p[0] > log_p[1] + 3)
        True
    """

    def fit(
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y) to the rows of X, (n, d).

        Args:
            X: The data; scikit-learn's name for it.
            y: Ignored; present because scikit-learn passes it.
            sample_weight: What each row counts in the loss.
        """
        rows = modelled_rows(self, X, sample_weight)
        center, scale = mean_and_positive_std("X", rows.Y, rows.weights)
        rows = Rows(rows.X, (rows.Y - center) / scale, rows.weights)
        return self._fit_rows(rows, center, scale)

    def distribution(self) -> Any:
        """The fitted distribution, with density, draws and moments.

        For one column a mixture of normals with distribution function, quantiles and
        all else.
        """
        check_is_fitted(self)
        return self.fitted_.density(np.empty((1, 0)), single=True)

    def score_samples(self, X: ArrayLike) -> Array:
        """Log p of each row, (n,)."""
        check_is_fitted(self)
        data = complete_numbers(self, X)
        return self.fitted_.log_density(data, np.empty((len(data), 0)))

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Independent draws, (n_samples, d), each in an order at random."""
        n_samples = check_count("n_samples", n_samples)
        draws = self.distribution().rvs(n_samples, random_state, sampler)
        return draws.reshape(n_samples, self.n_features_in_)


class ConditionalRNADE(_RNADEOptions, StandardizedEstimator):
    """A conditional density p(y|x) from the network of `RNADE`, which always sees x.

    For one column of y this is a mixture density network. For several, p(y|x) is the
    average over orders of its columns, as in `RNADE`; it has densities, draws, moments
    and entropy then, but no gradient and no mode.

    Arguments and attributes are those of `RNADE`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(300, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=300)
        >>> model = ConditionalRNADE(
        ...     units=20, components=2, max_epochs=150, random_state=0
        ... ).fit(x, y)
        >>> p = model.given([[0.5]])
        >>> bool(p.cdf(1.0)[0] > 0.4)
        True
    """

    # One thread over blocks of rows: products of matrices use the cores already.
    n_jobs: int | None = 1

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows (x, y).

        Args:
            X: Conditions, (n, p).
            y: Responses, (n,) or (n, d).
            sample_weight: What each row counts in the loss.
        """
        rows = self._standardized(conditional_rows(self, X, y, sample_weight))
        return self._fit_rows(rows, self.y_center_, self.y_scale_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _response_columns(self) -> int:
        return len(self.fitted_.center)

    def _density(self, X: Array) -> Density:
        return self.fitted_.density(self._scaled(X))
