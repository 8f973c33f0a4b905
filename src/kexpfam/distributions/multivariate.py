"""Densities of two and more variables.

Two variables are normalised by tensor quadrature, more by importance sampling, or by
tempered particles where that is unreliable; which one was used, and how well it went,
can be asked.
"""

import warnings
from typing import Any, Self

import numpy as np
from scipy import optimize

from kexpfam._typing import Array
from kexpfam._validation import check_choice
from kexpfam.distributions.coordinates import ResponseCoordinates
from kexpfam.distributions.interface import SeveralColumns
from kexpfam.distributions.tilted import TiltedDensities, refuse_overflow
from kexpfam.errors import NormalizationWarning
from kexpfam.partition import (
    ImportanceEstimate,
    RowLogDensity,
    TemperedEstimate,
    TensorDensity,
    UnnormalizedDensity,
    estimate_partition,
    first_cells,
    generators,
    integrate_tensor,
    make_proposal,
    resample_move,
    temper,
)

# What `normalize` may be told to do.
PARTITIONS = ("auto", "importance", "smc")

Estimate = TensorDensity | ImportanceEstimate | TemperedEstimate


class MultivariateDensity(TiltedDensities, SeveralColumns):
    """n densities of d ≥ 2 variables."""

    def __init__(
        self,
        tilted: UnnormalizedDensity,
        coordinates: ResponseCoordinates,
        partition: Estimate,
        *,
        single: bool = False,
    ) -> None:
        """Use `normalize` to build one from unnormalised densities."""
        self._tilted = tilted
        self._coordinates = coordinates
        self._partition = partition
        self._single = single

    @classmethod
    def normalize(
        cls,
        tilted: UnnormalizedDensity,
        coordinates: ResponseCoordinates,
        resolution: float,
        seed: int,
        *,
        single: bool = False,
        method: str = "auto",
    ) -> Self:
        """Normalise densities.

        Args:
            tilted: The unnormalised densities.
            coordinates: How to get to the user's units.
            resolution: Smallest feature of log p.
            seed: Of all draws, so that results do not depend on the call.
            single: Whether the leading axis is dropped.
            method: "auto", "importance" or "smc".
        """
        check_partition(method)
        partition: Estimate
        if method == "smc":
            partition = _tempered(tilted, seed)
        elif method == "importance":
            partition = _importance(tilted, seed)
            _warn_of_importance(partition, "normalise by partition='smc', ")
        elif tilted.d == 2:
            partition = _quadrature(tilted, resolution)
        else:
            partition = _importance(tilted, seed)
            # Of many densities it would cost each about a hundred importance estimates,
            # and of few only, a row's log Z would depend on how many are asked for.
            if single and np.any(partition.unreliable):
                partition = _tempered(tilted, seed)
            else:
                _warn_of_importance(partition)
        refuse_overflow(partition.log_partition)
        return cls(tilted, coordinates, partition, single=single)

    @property
    def log_partition(self) -> Array:
        return self._out(self._partition.log_partition)

    @property
    def log_partition_error(self) -> Array:
        return self._out(self._partition.error)

    @property
    def partition_method(self) -> Any:
        """How log Z was found: "quadrature", "importance" or "smc".

        A text if it is a single density, else an array of them, (n,).
        """
        name = self._partition.method
        return name if self._single else np.full(self._n, name)

    @property
    def effective_draws(self) -> Array | None:
        """Effective sample size behind log Z; None if it is from quadrature.

        For tempered particles so many independent draws as would have the same error.
        """
        found = self._partition.effective_draws
        return None if found is None else self._out(found)

    @property
    def tail_index(self) -> Array | None:
        """Pareto k̂ of the importance weights; None if log Z is from quadrature.

        Not a number where it is from tempered particles.
        """
        found = self._partition.tail_index
        return None if found is None else self._out(found)

    def mean(self) -> Array:
        if self._tilted.base.tail_index <= 1:
            return self._out(np.full_like(self._coordinates.location, np.nan))
        return self._out(self._coordinates.to_user(self._partition.mean[:, None])[:, 0])

    def cov(self) -> Array:
        """Covariance matrix, (n, d, d); not a number where it does not exist."""
        if self._tilted.base.tail_index <= 2:
            d = self._tilted.d
            return self._out(np.full((len(self._tilted), d, d), np.nan))
        scale = self._coordinates.scale
        return self._out(
            self._partition.covariance * scale[:, :, None] * scale[:, None, :]
        )

    def std(self) -> Array:
        if self._tilted.base.tail_index <= 2:
            return self._out(np.full_like(self._coordinates.location, np.inf))
        variance = np.diagonal(self._partition.covariance, axis1=1, axis2=2)
        return self._out(np.sqrt(variance) * self._coordinates.scale)

    def mode(self) -> Array:
        """Where the density is largest, climbing from the best of many points."""
        bounds = self._tilted.base.support(self._tilted.d)
        peaks = np.empty((len(self._tilted), self._tilted.d))
        starts = self._starts()
        for r in range(len(peaks)):
            row = self._tilted.rows(slice(r, r + 1))
            best = optimize.minimize(
                lambda u, row=row: (
                    -float(row.log_unnormalized(u[None, None])[0, 0]),
                    -row.gradient(u[None, None])[0, 0],
                ),
                starts[r],
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
            )
            peaks[r] = best.x
        return self._out(self._coordinates.to_user(peaks[:, None])[:, 0])

    def entropy(self) -> Array:
        entropy = self._partition.log_partition - self._partition.log_mean
        return self._out(entropy + self._coordinates.log_scale)

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        # By quadrature for d = 2; by resample-move above, which is as good as the
        # weights, or the particles, behind it.
        partition = self._partition
        if isinstance(partition, TensorDensity):
            u = partition.sample(_row_log_density(self._tilted), size, rng)
        elif isinstance(partition, ImportanceEstimate):
            tilted = self._tilted
            u = resample_move(
                tilted.log_unnormalized,
                tilted.gradient,
                partition.draws,
                partition.weights,
                size,
                rng,
            )
        else:  # as many moves as after importance sampling
            rngs = generators(rng, self._n)
            u = partition.sample(self._tilted, size, rngs, moves=20)
        return self._coordinates.to_user(u)

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(
            self._tilted.rows(index),
            self._coordinates.rows(index),
            self._partition.rows(index),
            single=single,
        )

    def _log_density(self, U: Array) -> Array:
        log_z = self._partition.log_partition[:, None]
        if not U.size:
            return np.zeros(U.shape[:2])
        # Points shared by all rows are one matrix product.
        if len(U) > 1 and U.shape[1] > 1 and np.all(U[:1] == U):
            return self._tilted.on_grid(U[0]) - log_z
        return self._tilted.log_unnormalized(U) - log_z

    def _starts(self) -> Array:
        """A good point of each row to climb from, (n, d)."""
        partition = self._partition
        if isinstance(partition, TemperedEstimate):
            best = self._tilted.log_unnormalized(partition.draws).argmax(axis=1)
            return partition.draws[np.arange(self._n), best]
        if isinstance(partition, ImportanceEstimate):
            candidates = partition.draws
        else:
            axes = [
                np.unique(np.append(e, (e[1:] + e[:-1]) / 2)) for e in partition.edges
            ]
            candidates = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        return candidates[self._tilted.on_grid(candidates).argmax(axis=1)]


def check_partition(method: object) -> None:
    """Refuse what is no way to normalise."""
    check_choice("partition", method, PARTITIONS)


def _row_log_density(tilted: UnnormalizedDensity) -> RowLogDensity:
    def log_density(rows: slice, nodes: Array) -> Array:
        return tilted.rows(rows).on_grid(nodes)

    return log_density


def _quadrature(tilted: UnnormalizedDensity, resolution: float) -> TensorDensity:
    if len(tilted) > 1 and tilted.same_rows:
        one = _quadrature(tilted.rows(slice(0, 1)), resolution)
        return one.rows(np.zeros(len(tilted), dtype=int))
    # Coarser than in one dimension, since nodes multiply; refinement does the rest.
    first, second = (first_cells(tilted, i, 2.0 * resolution) for i in (0, 1))
    density = integrate_tensor(
        _row_log_density(tilted),
        len(tilted),
        (first[0], second[0]),
        extend=(first[1], second[1]),
        tail_index=tilted.base.tail_index,
    )
    worst = float(np.max(density.error, initial=0.0))
    if worst > 1e-4:
        warnings.warn(
            f"log Z(x) is known to {worst:.1e} only: the densities have peaks too "
            f"narrow for the quadrature. Raise regularization or the lengthscale of y.",
            NormalizationWarning,
            stacklevel=4,
        )
    return density


def _importance(tilted: UnnormalizedDensity, seed: int) -> ImportanceEstimate:
    proposal = make_proposal(
        tilted.base.log_density,
        lambda n, rng: tilted.base.sample(n, tilted.d, rng),
        tilted.responses,
        8192,  # the error of log Z is about 1/√(effective draws)
        np.random.default_rng(seed),
    )
    return estimate_partition(tilted.on_grid(proposal.draws), proposal)


def _warn_of_importance(estimate: ImportanceEstimate, way: str = "") -> None:
    if not np.any(estimate.unreliable):
        return
    n, bad = len(estimate.unreliable), int(estimate.unreliable.sum())
    warnings.warn(
        f"log Z(x) by importance sampling is unreliable for {bad} of {n} densities: "
        f"effective draws down to {estimate.effective_draws.min():.0f} of "
        f"{len(estimate.draws)}, "
        f"Pareto k up to {estimate.tail_index.max():.2f} (0.7 is the limit). Raise "
        f"regularization, {way}or model the columns one after another "
        f"(FactorizedDensity).",
        NormalizationWarning,
        stacklevel=5,
    )


def _tempered(tilted: UnnormalizedDensity, seed: int) -> TemperedEstimate:
    # The same seed for each, so that no density depends on the others asked for.
    rngs = [np.random.default_rng(seed) for _ in range(len(tilted))]
    estimate = temper(tilted, rngs)
    if np.any(estimate.unreliable):
        warnings.warn(
            f"log Z(x) by tempered particles is unreliable for "
            f"{int(estimate.unreliable.sum())} of {len(tilted)} densities: standard "
            f"error up to {estimate.error.max():.2f}, down to "
            f"{estimate.ancestors.min()} distinct ancestors, acceptance down to "
            f"{estimate.acceptance.min():.2f}. Raise regularization, or model the "
            f"columns one after another.",
            NormalizationWarning,
            stacklevel=5,
        )
    return estimate
