"""Markov chains of n densities: where they start, and what is kept of them."""

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import check_count
from kexpfam.errors import SamplingWarning
from kexpfam.partition import UnnormalizedDensity, cells_holding
from kexpfam.sampling.diagnostics import SamplingReport
from kexpfam.sampling.interface import Chains, Run, Sampler
from kexpfam.sampling.programs import (
    SEGMENT,
    Programs,
    Recipe,
    Segment,
    Transition,
    Unconstrained,
    double_precision,
    library,
    programs_of,
)


@dataclass(frozen=True)
class MarkovChains(Sampler):
    """Chains of each density, moved by the transition of a subclass."""

    chains: int = 4  # Chains of each density; fewer if fewer draws are asked for
    warmup: int = 500  # Moves of each chain that adapt it and are thrown away
    draws: int | None = None  # Kept of each chain; None for 100, or more if needed
    thin: int = 1  # Moves per kept draw

    def __post_init__(self) -> None:
        for name in ("chains", "warmup", "thin"):
            check_count(name, getattr(self, name), least=1)
        if self.draws is not None:
            check_count("draws", self.draws, least=1)

    @property
    @abstractmethod
    def transition(self) -> Transition:
        """The move."""

    def lengths(self, size: int) -> tuple[int, int]:
        """Chains of each density and kept draws of each chain, for `size` draws."""
        chains = min(self.chains, size)
        each = -(-size // chains)
        if self.draws is None:  # and at least what diagnosis needs
            return chains, max(each, 100)
        if each > self.draws:
            raise ValueError(
                f"size={size} is more than the {self.chains} chains of {self.draws} "
                f"kept draws give; ask for at most {self.chains * self.draws}, raise "
                f"draws, or pass draws=None for chains that are as long as it takes."
            )
        return chains, self.draws

    def draw(
        self, target: UnnormalizedDensity, size: int, rng: np.random.Generator
    ) -> Run:
        n, d = len(target), target.d
        if not size or not n:
            return Run(np.empty((n, size, d)))
        chains, length = self.lengths(size)
        line = Unconstrained.of(target.base.support(d))
        recipe = Recipe(target.formula, line, self.transition, self.warmup, self.thin)
        start = line.from_support(starting_points(target, chains, rng))
        with double_precision():
            # Tracing and running need the same precision, so both happen in here.
            kept, divergent, acceptance = _run_blocks(
                recipe, target, start, length, rng
            )
        report = SamplingReport.of_chains(
            kept, divergent.sum(axis=(1, 2)), acceptance.mean(axis=(1, 2))
        )
        complaint = report.complaint()
        if complaint:
            # Points at the caller of `run`, not deeper.
            warnings.warn(complaint, SamplingWarning, stacklevel=4)
        chains_kept = Chains(kept, divergent > 0, acceptance)
        return Run(_taken(kept, size, rng), report, chains_kept)


def starting_points(
    target: UnnormalizedDensity,  # The densities
    chains: int,  # How many points for each
    rng: np.random.Generator,  # Source of randomness
) -> Array:
    """Responses of training rows near each x, moved a little, (n, chains, d)."""
    responses, weights = target.responses, target.nearness()
    # Where no row is near, all are as good.
    weights = weights + np.where(weights.max(axis=1) > 0, 0.0, 1.0)[:, None]
    levels = np.cumsum(weights, axis=1)
    wanted = rng.random((len(levels), chains)) * levels[:, -1:]
    below = np.column_stack([np.zeros(len(levels)), levels[:, :-1]])
    picked = responses[cells_holding(below, wanted)]
    std = np.maximum(responses.std(axis=0), np.finfo(float).tiny)
    # So far from a response that two chains that start from the same differ.
    return picked + 0.1 * std * rng.standard_normal(picked.shape)


def _run_blocks(
    recipe: Recipe,
    target: UnnormalizedDensity,
    start: Array,
    length: int,
    rng: np.random.Generator,
) -> Segment:
    """Kept draws (n, c, length, d), with divergences and acceptance of each."""
    jax = library("jax")
    n, chains, _ = start.shape
    programs, seed = programs_of(recipe), int(rng.integers(2**32))
    most = recipe.transition.most_steps
    segments = -(-length // SEGMENT)
    steps = rng.integers(1, most + 1, size=(segments, SEGMENT, recipe.thin))
    shared = jax.device_put(target.shared_parameters())
    row_parameters = target.row_parameters()
    # More chains that move together only wait for the slowest.
    height = min(max(1, 1024 // chains), _rounded(n))
    blocks = []
    for first in range(0, n, height):
        # The last block is filled up with copies, so that its shape is no new one.
        numbers = np.minimum(np.arange(first, first + height), n - 1)
        rows = jax.device_put(tuple(part[numbers] for part in row_parameters))
        keys = _keys(seed, numbers, chains, 1 + segments)
        block = _run_block(programs, (shared, rows), start[numbers], keys, steps)
        count = min(height, n - first)
        blocks.append(Segment(*(part[:count, :, :length] for part in block)))
    return _joined(blocks, axis=0)


def _run_block(
    programs: Programs,
    arrays: tuple[Any, Any],
    start: Array,
    keys: list[Any],
    steps: Indices,
) -> Segment:
    state, tuning = programs.warm_up(*arrays, start, keys[0])
    segments = []
    for key, numbers in zip(keys[1:], steps, strict=True):
        state, found = programs.advance(*arrays, state, tuning, key, numbers)
        segments.append(Segment(*map(np.asarray, found)))
    return _joined(segments, axis=2)


def _joined(segments: list[Segment], axis: int) -> Segment:
    return Segment(
        *(np.concatenate(part, axis) for part in zip(*segments, strict=True))
    )


def _keys(seed: int, numbers: Indices, chains: int, count: int) -> list[Any]:
    """Keys of so many programs, (rows, chains) each.

    A row's keys depend on its number only, not on the block it is in.
    """
    random, vmap = library("jax").random, library("jax").vmap
    root = random.key(seed)
    of_rows = vmap(lambda number: random.fold_in(root, number))(numbers)
    of_chains = vmap(lambda key: random.split(key, chains))(of_rows)
    fold = vmap(vmap(random.fold_in, (0, None)), (0, None))
    return [fold(of_chains, i) for i in range(count)]


def _rounded(n: int) -> int:
    """A number from n on, so that few shapes serve many n."""
    if n <= 4:
        return 4
    return 2 ** math.ceil(math.log2(n)) if n <= 64 else 64 * math.ceil(n / 64)


def _taken(kept: Array, size: int, rng: np.random.Generator) -> Array:
    """Of draws (n, c, length, d) as many as wanted, (n, size, d)."""
    n, chains, length, d = kept.shape
    each = -(-size // chains)
    # At even distances, the last draw included.
    at = length - 1 - np.arange(each)[::-1] * length // each
    flat = kept[:, :, at].swapaxes(1, 2).reshape(n, each * chains, d)
    order = np.argsort(rng.random((n, each * chains)), axis=1)[:, :size]
    return np.take_along_axis(flat, order[:, :, None], axis=1)
