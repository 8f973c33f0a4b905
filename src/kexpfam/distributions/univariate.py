"""Densities of one variable: everything from one quadrature.

It is a quadrature in the coordinates u of the kernel. If these are not affine in y,
mode and highest-density region of y come from cells in y, on which the same
polynomials are evaluated; so do moments and entropy, unless the cells are cut wherever
y is not smooth in u, which is possible if that is the same in all rows.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._roots import bracketed_roots
from kexpfam._typing import Array, Indices, Mask
from kexpfam.distributions.coordinates import ResponseCoordinates
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.regions import highest_density_regions
from kexpfam.distributions.tabulation import Quadrature
from kexpfam.distributions.tilted import TiltedDensities, refuse_overflow
from kexpfam.errors import NormalizationWarning
from kexpfam.partition import (
    CellDensity,
    LineDensity,
    UnnormalizedDensity,
    first_cells,
    integrate_line,
)
from kexpfam.sampling import Run, Sampler, warn_of_other_masses

# Rows that are normalised together; their cells are shared with all others.
BLOCK_ROWS = 1024
# A moment of y behind a transform that is mostly made by so little of the mass is not
# there: no rows have told of it. A lognormal y has its mean with a log standard
# deviation up to 4.9, and its variance up to 2.4.
OUTERMOST = 1e-6


class UnivariateDensity(TiltedDensities, OneColumnDensity):
    """n densities of one variable, normalised by adaptive quadrature."""

    def __init__(
        self,
        tilted: UnnormalizedDensity,
        coordinates: ResponseCoordinates,
        line: LineDensity,
        *,
        single: bool = False,
        cut: bool = False,
    ) -> None:
        """Use `normalize` to build one from unnormalised densities.

        `cut` says that the cells have edges wherever y is not smooth in u.
        """
        self._tilted = tilted
        self._coordinates = coordinates
        self._line = line
        self._single = single
        self._cut = cut

    @classmethod
    def normalize(
        cls,
        tilted: UnnormalizedDensity,
        coordinates: ResponseCoordinates,
        resolution: float,
        *,
        single: bool = False,
    ) -> Self:
        """Normalise densities; `resolution` is the smallest feature of log p."""
        line = _integrate(tilted, resolution, coordinates.shared_breaks())
        refuse_overflow(line.log_partition)
        worst = float(np.max(line.error, initial=0.0))
        printed = 1e-6  # an error above this would show in a printed figure
        if worst > printed:
            known = f"to {worst:.1e} only" if np.isfinite(worst) else "hardly at all"
            warnings.warn(
                f"log Z(x) is known {known} for "
                f"{int(np.sum(line.error > printed))} of {len(line.error)} "
                f"densities: they have spikes too narrow to resolve. Raise "
                f"regularization or the lengthscale of y.",
                NormalizationWarning,
                stacklevel=3,
            )
        cut = coordinates.shared
        return cls(tilted, coordinates, line, single=single, cut=cut)

    @property
    def log_partition(self) -> Array:
        return self._out(self._line.log_partition)

    @property
    def log_partition_error(self) -> Array:
        return self._out(self._line.error)

    @property
    def partition_method(self) -> Any:
        """How log Z was found: "quadrature"; once per density unless it is single."""
        return "quadrature" if self._single else np.full(self._n, "quadrature")

    def mean(self) -> Array:
        if self._tilted.base.tail_index <= 1:
            return self._out(np.full(self._n, np.nan))
        if not self._affine:
            mean = self._expectation(lambda y: y)
            return self._out(np.where(self._has_moment(1), mean, np.nan))
        return self._out(self._to_user(self._u_mean[:, None])[:, 0])

    def std(self) -> Array:
        if self._tilted.base.tail_index <= 2:
            return self._out(np.full(self._n, np.inf))
        if not self._affine:
            mean = self._expectation(lambda y: y)[:, None]
            # In units of the quartiles, since squares of 1e160 overflow.
            quartiles = self._ppf(np.tile([0.25, 0.75], (self._n, 1)))
            unit = float(np.diff(quartiles).max(initial=np.finfo(float).tiny))
            variance = self._expectation(lambda y: ((y - mean) / unit) ** 2)
            known = self._has_moment(2)
            return self._out(np.where(known, unit * np.sqrt(variance), np.inf))
        centered = self._line.cells.nodes - self._u_mean[:, None, None]
        return self._out(np.sqrt(self._line.cells.integral(centered**2)) * self._scale)

    def mode(self) -> Array:
        if not self._n:
            return np.empty(0)
        if not self._affine:
            return self._out(self._peaks(self._user_cells))
        peak = self._line.log_density.reshape(self._n, -1).argmax(axis=1)
        edges, inner = self._line.edges, self._line.cells.nodes.ravel()
        nodes = np.concatenate([edges[:1], inner, edges[-1:]])
        u = _stationary_points(
            lambda u: self._tilted.gradient(u[:, None, None])[:, 0, 0],
            nodes[peak],
            nodes[peak + 2],
        )
        return self._out(self._to_user(u[:, None])[:, 0])

    def entropy(self) -> Array:
        # A log density of −inf has density zero, and 0 log 0 = 0.
        log_p = np.maximum(self._line.log_density, -1e300)
        entropy = -self._line.cells.integral(log_p) + self._coordinates.log_scale
        transform = self._coordinates.transform
        if transform is not None:
            entropy -= self._expectation(
                lambda y: transform.log_abs_det_jacobian(y[..., None])[..., 0]
            )
        return self._out(entropy)

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._line.cells.cdf(self._to_kernel(y, rows), rows)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._line.cells.sf(self._to_kernel(y, rows), rows)

    def _ppf(self, levels: Array) -> Array:
        return self._to_user(self._line.cells.ppf(levels))

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        run = super()._run(sampler, size, rng)
        warn_of_other_masses(self._cdf(run.draws[..., 0]), run.report)
        return run

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        return self._ppf(rng.random((self._n, size)))[..., None]

    def _regions(self, confidence: float) -> list[Array]:
        if not self._affine:
            return highest_density_regions(self._user_cells, confidence)
        edges = np.broadcast_to(self._line.edges, (self._n, len(self._line.edges)))
        in_u = CellDensity(edges, self._line.cells.density)
        regions = highest_density_regions(in_u, confidence)
        counts = np.array([len(region) for region in regions], dtype=int)
        row = np.repeat(np.arange(self._n), counts)
        together = self._to_user(np.concatenate([*regions, np.empty((0, 2))]), row)
        return np.split(together, np.cumsum(counts))[:-1]

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        low, high = self._line.cells.around(levels, rows)
        return self._to_user(low, rows), self._to_user(high, rows)

    def _about(self, levels: Array, rows: Indices | None = None) -> Array:
        return self._to_user(self._line.cells.about(levels, rows), rows)

    def _breaks(self) -> Array:
        transform, ends = self._coordinates.transform, self._coordinates.support[0]
        breaks = np.empty(0) if transform is None else transform.column_breaks(0)
        return np.append(breaks, ends[np.isfinite(ends)])

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        pdf = np.maximum(self._line.cells.pdf(self._to_kernel(y, rows), rows), 0.0)
        return pdf * np.exp(-self._coordinates_of(rows).log_volume(y[..., None]))

    def _tail_and_pdf(
        self, y: Array, rows: Indices, upper: Mask
    ) -> tuple[Array, Array]:
        there, Y = self._coordinates.rows(rows), y[:, None, None]
        u = there.to_kernel(Y)[:, 0, 0]
        mass, pdf = self._line.cells.tail_and_pdf(u, rows, upper)
        return mass, np.maximum(pdf, 0.0) * np.exp(-there.log_volume(Y)[:, 0])

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(
            self._tilted.rows(index),
            self._coordinates.rows(index),
            self._line.rows(index),
            single=single,
            cut=self._cut,
        )

    def _log_density(self, U: Array) -> Array:
        log_p, accurate = self._line.logpdf(U[..., 0])
        row, column = np.nonzero(~accurate)
        if len(row):
            rest = self._tilted.rows(row).log_unnormalized(U[row, column, None])
            log_p[row, column] = rest[:, 0] - self._line.log_partition[row]
        return log_p

    @property
    def _affine(self) -> bool:
        return self._coordinates.transform is None

    def _expectation(self, values: Callable[[Array], Array]) -> Array:
        """Expectation of a function of y, (n, q) -> (n, q), (n,)."""
        if self._cut and self._n:
            nodes = self._line.cells.nodes
            first = self._coordinates.rows([0])
            found = values(first.to_user(nodes.reshape(1, -1, 1))[..., 0])
            return self._line.cells.integral(found.reshape(-1, *nodes.shape))
        return self._moment_nodes.integral(values(self._moment_nodes.nodes))

    def _has_moment(self, order: int) -> Mask:
        """Whether most of E|y − median|^order is not from outermost tails, (n,).

        Tails of y behind a logarithm are exponentials of those of u: with polynomial
        ones no moment exists, and numbers are those of the last cells, at 1e12 times
        the width of the data. With normal ones all do, but may be as far from any row.
        """
        levels = [0.5 * OUTERMOST, 0.25, 0.5, 0.75, 1.0 - 0.5 * OUTERMOST]
        points = self._ppf(np.tile(levels, (self._n, 1)))
        low, first, middle, third, high = points.T[:, :, None]
        unit = np.maximum(third - first, np.finfo(float).tiny)

        def size(y: Array) -> Array:
            return (np.abs(y - middle) / unit) ** order

        whole = self._expectation(size)
        inner = self._expectation(lambda y: size(y) * ((y >= low) & (y <= high)))
        return inner >= 0.5 * whole

    @cached_property
    def _user_cells(self) -> CellDensity:
        return self._tabulated()

    @cached_property
    def _moment_nodes(self) -> Quadrature:
        return self._quadrature(np.empty(0))

    @property
    def _scale(self) -> Array:
        return self._coordinates.scale[:, 0]

    @cached_property
    def _u_mean(self) -> Array:
        return self._line.cells.integral(self._line.cells.nodes)

    def _coordinates_of(self, rows: Indices | None) -> ResponseCoordinates:
        return self._coordinates if rows is None else self._coordinates.rows(rows)

    def _to_user(self, u: Array, rows: Indices | None = None) -> Array:
        return self._coordinates_of(rows).to_user(u[..., None])[..., 0]

    def _to_kernel(self, y: Array, rows: Indices | None = None) -> Array:
        return self._coordinates_of(rows).to_kernel(y[..., None])[..., 0]


def _stationary_points(
    slope: Callable[[Array], Array],  # One point per row, (n,) -> (n,)
    low: Array,  # Left ends, (n,)
    high: Array,  # Right ends, (n,)
) -> Array:
    """The zero of d log p between two points around a peak, one per row.

    If the slope does not change sign the peak is at an end, which happens at the edge
    of a bounded support.
    """
    f_low, f_high = slope(low), slope(high)
    bracketed = (f_low > 0) & (f_high < 0)
    end = np.where(f_low <= 0, low, high)
    # Rows without a sign change get an empty bracket, which leaves them where they are.
    return bracketed_roots(
        slope, np.where(bracketed, low, end), np.where(bracketed, high, end)
    )


def _integrate(
    tilted: UnnormalizedDensity, resolution: float, breaks: Array
) -> LineDensity:
    """Cells good for all rows, found block by block, and cut at some points."""
    if len(tilted) > 1 and tilted.same_rows:
        one = _integrate(tilted.rows(slice(0, 1)), resolution, breaks)
        return one.rows(np.zeros(len(tilted), dtype=int))
    # Cells as wide as the resolution: sixteen nodes follow T there to 1e-13.
    edges, extend = first_cells(tilted, 0, 2.0 * resolution)
    inside = breaks[(breaks > edges[0]) & (breaks < edges[-1])]
    edges = np.union1d(edges, inside)
    if len(tilted) <= BLOCK_ROWS:
        return _integrate_block(tilted, edges, extend)
    # A block is dropped when it is done, with the kernel matrix that it holds.
    starts = range(0, len(tilted), BLOCK_ROWS)
    blocks = [slice(start, start + BLOCK_ROWS) for start in starts]
    done = []
    for block in blocks:
        done.append(_integrate_block(tilted.rows(block), edges, extend))
        edges = done[-1].edges
    # Earlier blocks have coarser cells; the last ones suit all.
    for k, block in enumerate(blocks):
        if len(done[k].edges) != len(edges):
            done[k] = _integrate_block(tilted.rows(block), edges, extend)
    return LineDensity(
        edges,
        np.concatenate([part.log_density for part in done]),
        np.concatenate([part.log_partition for part in done]),
        np.concatenate([part.error for part in done]),
    )


def _integrate_block(
    tilted: UnnormalizedDensity, edges: Array, extend: tuple[bool, bool]
) -> LineDensity:
    return integrate_line(
        lambda u: tilted.on_grid(u[:, None]),
        edges,
        extend=extend,
        tail_index=tilted.base.tail_index,
        rounding=tilted.rounding,
    )
