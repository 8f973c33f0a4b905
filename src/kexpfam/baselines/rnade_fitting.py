"""From rows to a fitted RNADE: units, bounds of scales, and the size of the network."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import check_count, check_positive, spread_of
from kexpfam.baselines.rnade_density import FittedRNADE
from kexpfam.baselines.rnade_network import (
    average_log_density,
    initial_network,
    random_orders,
)
from kexpfam.baselines.rnade_training import Rows, Trained, Training, train
from kexpfam.baselines.rounding import rounding_scales
from kexpfam.errors import DegenerateDataError

# Fewer held-out rows than this say little, but of few rows not more than this share is
# held out.
_FEWEST_HELD_OUT = 50
_LARGEST_SHARE = 0.3


@dataclass(frozen=True)
class Plan:
    """What to fit.

    Attributes:
        units: Numbers of units of a hidden layer to choose from.
        components: Numbers of components to choose from.
        hidden_layers: How many.
        n_orders: How many orders densities are averaged over.
        least_scale: Lower bound of scales in standard deviations.
        held_out: Share of the rows that decides when to stop.
        cv: Folds, if there is something to choose.
        training: How to train.
    """

    units: tuple[int, ...]
    components: tuple[int, ...]
    hidden_layers: int
    n_orders: int
    least_scale: float
    held_out: float
    cv: int
    training: Training

    def __post_init__(self) -> None:
        check_count("hidden_layers", self.hidden_layers, least=1)
        check_count("n_orders", self.n_orders, least=1)
        check_count("cv", self.cv, least=2)
        check_positive("least_scale", self.least_scale)
        if not 0 < check_positive("held_out", self.held_out) < 1:
            raise ValueError(
                f"held_out must be a share between 0 and 1, got {self.held_out!r}."
            )


class Size(NamedTuple):
    """The size of a network: units of each hidden layer, components of a mixture."""

    units: int
    components: int


class SizeSelection(NamedTuple):
    """What cross-validation said about the sizes of the network.

    Attributes:
        sizes: Pairs (units, components).
        losses: Mean of −log p of rows left out, standardised, for each.
    """

    sizes: tuple[Size, ...]
    losses: Array


class Fit(NamedTuple):
    """All that fitting gives.

    Attributes:
        fitted: The density.
        size: Units and components used.
        trained: How training went.
        selection: None if there was one size only.
    """

    fitted: FittedRNADE
    size: Size
    trained: Trained
    selection: SizeSelection | None


def choices(name: str, value: object) -> tuple[int, ...]:
    """A count, or several to choose from.

    Raises:
        ValueError: It is something else.

    Example:
        >>> choices("units", 100), choices("units", [2, 10])
        ((100,), (2, 10))
    """
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if listed else (value,)  # type: ignore[arg-type]
    if not values:
        raise ValueError(f"{name} must not be empty.")
    return tuple(check_count(name, one, least=1) for one in values)


def fit_rows(
    name: str, Y: Array, Z: Array, weights: Array, plan: Plan, rng: np.random.Generator
) -> Fit:
    """Fit p(y|z), choosing the size of the network if there are several.

    Args:
        name: What Y is called in messages.
        Y: Responses, (n, d).
        Z: Standardised conditions, (n, p).
        weights: (n,); rows without weight are left out.
        plan: What to fit.
        rng: Of everything random.
    """
    center, scale = spread_of(name, Y, weights)
    if np.any(scale == 0):
        column = int(np.flatnonzero(scale == 0)[0])
        raise DegenerateDataError(
            f"{name} is constant in column {column}, so it has no density; remove the "
            f"column."
        )
    rows = Rows((Y - center) / scale, Z, weights).take(np.flatnonzero(weights > 0))
    least = np.maximum(plan.least_scale, rounding_scales(rows.U))
    orders = random_orders(Y.shape[1], plan.n_orders, rng)
    sizes = tuple(
        Size(*size) for size in itertools.product(plan.units, plan.components)
    )
    best, selection = sizes[0], None
    if len(sizes) > 1:
        losses = left_out_losses(rows, sizes, orders, least, plan, rng)
        selection = SizeSelection(sizes, losses)
        best = sizes[int(np.nanargmin(losses))]
    trained = fit_network(rows, best, least, plan, rng)
    fitted = FittedRNADE(trained.network, orders, least, center, scale)
    return Fit(fitted, best, trained, selection)


def fit_network(
    rows: Rows, size: Size, least: Array, plan: Plan, rng: np.random.Generator
) -> Trained:
    """Train one network, on all rows but a random share that says when to stop."""
    n, d = rows.U.shape
    count = max(plan.held_out * n, min(_FEWEST_HELD_OUT, _LARGEST_SHARE * n))
    held = min(max(1, round(count)), n - 1)
    if held < 1:
        raise DegenerateDataError(
            "RNADE needs at least two rows with a positive weight, one to learn from "
            "and one to say when to stop."
        )
    mixed = rng.permutation(n)
    network = initial_network(
        d, rows.Z.shape[1], size.units, plan.hidden_layers, size.components, rng
    )
    learned, judged = rows.take(mixed[held:]), rows.take(mixed[:held])
    return train(network, learned, judged, least, plan.training, rng)


def left_out_losses(
    rows: Rows,
    sizes: tuple[Size, ...],
    orders: Indices,
    least: Array,
    plan: Plan,
    rng: np.random.Generator,
) -> Array:
    """Mean of −log p over rows left out in turn, for each size."""
    n = len(rows.U)
    folds = np.array_split(rng.permutation(n), min(plan.cv, n // 2))
    seeds = rng.integers(2**32, size=len(folds))
    total = np.zeros(len(sizes))
    for fold, seed in zip(folds, seeds, strict=True):
        kept, left = rows.take(np.setdiff1d(np.arange(n), fold)), rows.take(fold)
        for i, size in enumerate(sizes):
            # The same seed for all sizes: their differences are what counts.
            own = np.random.default_rng(seed)
            network = fit_network(kept, size, least, plan, own).network
            log_p = average_log_density(network, left.U, left.Z, orders, least)
            total[i] -= left.weights @ log_p
    return total / rows.weights.sum()
