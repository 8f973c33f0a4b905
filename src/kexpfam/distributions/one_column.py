"""What every density of one variable can do, however it is made.

A concrete class gives a few numbers per point: density, distribution function,
quantiles, draws. The shapes, the checks and what follows from these are here.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property, single_threaded_blas
from kexpfam._roots import increasing_roots
from kexpfam._typing import Array, ArrayLike, Indices, Mask
from kexpfam._validation import (
    check_confidence,
    check_levels,
    check_probability,
    check_share,
)
from kexpfam.distributions.bands import Band
from kexpfam.distributions.interface import Density
from kexpfam.distributions.regions import highest_density_regions
from kexpfam.distributions.tabulation import (
    Quadrature,
    graded_points,
    merged_edges,
    peaks,
    quadrature_of,
    slivers,
    tabulate,
)
from kexpfam.partition import CellDensity

# Of 0.999, up to which bands are shown.
LOG_ODDS = float(special.logit(0.999))


def outline_levels() -> Array:
    """Levels of the points that outline a density.

    The ends of its mass, and between them about as many as cells are needed for a
    smooth one.
    """
    tail = np.array([1e-15, 1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.1, 0.25])
    return np.concatenate([tail, [0.5], 1.0 - tail[::-1]])


class OneColumnDensity(Density):
    """n densities of one variable."""

    @property
    def _d(self) -> int:
        return 1

    @abstractmethod
    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        """Mass below y, (m, q) -> (m, q), of these rows; None for all, in order."""

    @abstractmethod
    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        """Mass above y, in the same way."""

    @abstractmethod
    def _ppf(self, levels: Array) -> Array:
        """Quantiles at levels inside (0, 1), (n, q) -> (n, q)."""

    @abstractmethod
    def _regions(self, confidence: float) -> list[Array]:
        """The highest-density region of each density, (k, 2)."""

    @abstractmethod
    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        """Densities to about 1e-10 of their peak, (m, q) -> (m, q), cheap at many y.

        Unlike those of `_log_pdf` they need not be right relative to themselves.
        """

    def _tail_and_pdf(
        self, y: Array, rows: Indices, upper: Mask
    ) -> tuple[Array, Array]:
        """Masses beyond one point of each of some rows, (m,), and `_rough_pdf` there.

        Above the point where `upper`, and below it elsewhere.
        """
        mass = np.empty(y.shape)
        for tail, beyond in ((~upper, self._cdf), (upper, self._sf)):
            if tail.any():
                mass[tail] = beyond(y[tail, None], rows[tail])[:, 0]
        return mass, self._rough_pdf(y[:, None], rows)[:, 0]

    @abstractmethod
    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        """Points left and right of the quantiles, (m, q), without solving for them."""

    def _about(self, levels: Array, rows: Indices | None = None) -> Array:
        """About the quantiles, (m, q), where to begin to look for them."""
        low, high = self._around(levels, rows)
        return low + 0.5 * (high - low)

    @abstractmethod
    def _breaks(self) -> Array:
        """Where in y a density is not smooth, the same for all, (k,)."""

    def _bounds(self) -> Array:
        """Ends of the supports of what a density is made of, for all, (k, 2)."""
        return np.unique(self._ends[:, 0], axis=0)

    def _outline(self) -> Array:
        """Few points that tell where the mass is, not decreasing, (n, k).

        The first and last are the ends of the mass.
        """
        levels = np.tile(outline_levels(), (self._n, 1))
        low, high = self._around(levels)
        return np.where(levels < 0.5, low, high)

    def _tabulated(self) -> CellDensity:
        """The densities on cells in y."""
        outline = self._outline()
        breaks = np.clip(self._breaks(), outline[:, :1], outline[:, -1:])
        edges = merged_edges([outline, breaks, graded_points(outline)])
        # Many small products, for which threads of BLAS would wait.
        with single_threaded_blas():
            return tabulate(self._rough_pdf, self._cdf, edges)

    def _quadrature(self, breaks: Array) -> Quadrature:
        """Nodes and masses for expectations of what is smooth but at breaks, (k,)."""
        quartiles = self._about(np.tile([0.25, 0.5, 0.75], (self._n, 1)))
        with single_threaded_blas():
            return quadrature_of(
                self._rough_pdf,
                self._cdf,
                quartiles,
                self._outline()[:, [0, -1]],
                np.concatenate([breaks, self._breaks()]),
            )

    def _has_moments(self) -> tuple[Mask, Mask]:
        """Where there are a mean and a standard deviation, (n,) each."""
        mean, std = (np.reshape(part, self._n) for part in (self.mean(), self.std()))
        return np.isfinite(mean), np.isfinite(std)

    def _peaks(self, cells: CellDensity) -> Array:
        """Where the densities on cells in y are largest, (n,)."""
        return peaks(
            cells,
            lambda y: self._log_pdf(y[..., None]),
            lambda y: self._gradient(y[:, None, None])[:, 0, 0],
        )

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of a value up to y; the same shapes as `logpdf`.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KEF
            >>> data = np.random.default_rng(0).normal(size=(200, 1))
            >>> p = KEF(random_state=0).fit(data).distribution()
            >>> bool(abs(p.cdf(p.ppf(0.3)) - 0.3) < 1e-10)
            True
        """
        Y, shape = self._points(y)
        return self._cdf(Y[..., 0]).reshape(shape)[()]

    def sf(self, y: ArrayLike) -> Array:
        """Probability of a value above y, 1 − `cdf(y)`; the same shapes as `logpdf`.

        Small probabilities of the upper tail keep their digits.

        Example:
            >>> import numpy as np
            >>> from kexpfam.base_densities import GaussianBase
            >>> from kexpfam.distributions import ClosedFormDensity
            >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([0, 5]), np.ones(2))
            >>> p.sf(6.0).round(4)                     # P(y > 6) at both x
            array([0.    , 0.1587])
        """
        Y, shape = self._points(y)
        return self._sf(Y[..., 0]).reshape(shape)[()]

    def ppf(self, q: ArrayLike) -> Array:
        """Quantiles element by element: one level per density, shapes as in `logpdf`.

        With n levels for n densities each density is asked for its own. `quantile` asks
        all of them for every level.
        """
        points, shape = self._points(q, "q", "level", "use quantile(q)")
        levels = points[..., 0]
        check_probability("q", levels)
        low, high = self._ends[:, 0, :1], self._ends[:, 0, 1:]
        inside = (levels > 0) & (levels < 1)
        y = self._ppf(np.where(inside, levels, 0.5))
        y = np.where(inside, y, np.where(levels == 0, low, high))
        return y.reshape(shape)[()]

    def quantile(self, levels: ArrayLike) -> Array:
        """Values with these probabilities below them, rows x levels.

        Args:
            levels: A number, or a flat list of q of them, between 0 and 1; the same
                for every density.

        Returns:
            (n,) for a number and (n, q) for a list, however many densities there are; a
            number or (q,) for a single density.

        Example:
            >>> import numpy as np
            >>> from kexpfam.base_densities import GaussianBase
            >>> from kexpfam.distributions import ClosedFormDensity
            >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([0, 5]), np.ones(2))
            >>> p.quantile([0.1, 0.5, 0.9]).round(2)
            array([[-1.28,  0.  ,  1.28],
                   [ 3.72,  5.  ,  6.28]])
            >>> p.quantile([0.1, 0.9]).round(2)      # ppf would take one level of each
            array([[-1.28,  1.28],
                   [ 3.72,  6.28]])
            >>> p[1].quantile([0.1, 0.9]).round(2)
            array([3.72, 6.28])
        """
        wanted = check_levels("levels", levels)
        for_all = wanted.ndim == 1 and not self._single
        return self.ppf(wanted[None] if for_all else wanted)

    def median(self) -> Array:
        """The value with probability one half below it, (n,).

        Unlike `mean` it does not depend on how far the tails reach.
        """
        return self.ppf(0.5)

    def interval(self, confidence: float = 0.9) -> Array:
        """Central interval: equal probability outside on either side.

        Args:
            confidence: Probability inside, for every density.

        Returns:
            Lower and upper ends, (n, 2); (2,) for a single density.

        Example:
            >>> import numpy as np
            >>> from kexpfam.base_densities import GaussianBase
            >>> from kexpfam.distributions import ClosedFormDensity
            >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([0, 5]), np.ones(2))
            >>> p.interval(0.95).round(2)
            array([[-1.96,  1.96],
                   [ 3.04,  6.96]])
        """
        confidence = check_confidence(confidence)
        return self.quantile([0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)])

    def hpd(self, confidence: float = 0.9) -> list[Array] | Array:
        """Highest-density region: the smallest set with this probability.

        Densities below 1e-14 of the highest count as none. Heights at a bound with less
        than a thousandth of the mass, which a map of the bound makes, are left out
        where something less high separates them from the rest of the region.

        Args:
            confidence: Probability inside, for every density; with 0 a point.

        Returns:
            For each density an array (k, 2) of intervals, more than one if it is
            multimodal; the array itself for a single density.
        """
        confidence = check_confidence(confidence)
        if confidence == 1.0:
            regions = list(self._ends)
        else:
            with single_threaded_blas():
                regions = self._regions(confidence)
        return regions[0] if self._single else regions

    def band(self, level: float = 0.9, y: ArrayLike | None = None) -> Band:
        """Error bars of the densities themselves, at each point for itself.

        They tell how far p(y) may be from the truth for the number of rows there were;
        `interval` and `quantile` tell where y may be. A band is of a model that was
        fitted with `bootstrap=...`: `AutoKCEF`, `KCEF` or `KEF`.

        Args:
            level: Probability, at each point, that the truth is in the band, as far as
                it is not smoothed away: see `docs/limits.md` for what was measured.
            y: Points, as in `logpdf`; None for quantiles from 0.001 to 0.999.

        Returns:
            y, and the lower and upper ends of p(y), with the shape of `pdf(y)`.

        Raises:
            ValueError: There are no replicates to tell it from.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KEF
            >>> data = np.random.default_rng(0).normal(size=(200, 1))
            >>> model = KEF(select=None, bootstrap=10, random_state=0).fit(data)
            >>> p = model.distribution()
            >>> band = p.band(0.9, [0.0])
            >>> p.pdf([0.0]).round(2), band.lower.round(2), band.upper.round(2)
            (array([0.39]), array([0.34]), array([0.44]))
        """
        level = check_share("level", level)
        if self._replicates is None:
            raise ValueError(
                "These densities have no band: it takes fits to reweighted rows; fit "
                "one column of y with AutoKCEF(bootstrap=10) or KCEF(bootstrap=10). "
                "Mass functions, and rows that were added to sums by partial_fit or "
                "merge, have none."
            )
        if y is None:
            # Equally spaced in log odds, so that some are in the tails.
            y = self.quantile(special.expit(np.linspace(-1.0, 1.0, 201) * LOG_ODDS))
        Y, shape = self._points(y)
        if not Y.size:
            return Band(*(np.empty(shape) for _ in range(3)))
        p = np.exp(self._log_pdf(Y))
        reach = self._replicates.factor(level) * self._replicates.root_std(Y, p)
        ends = np.square(np.maximum(np.sqrt(p) + [[[-1.0]], [[1.0]]] * reach, 0.0))
        return Band(*(part.reshape(shape)[()] for part in (Y[..., 0], *ends)))

    def plot(
        self,
        ax: Any = None,
        *,
        band: float | None = None,
        dots: int | None = None,
        **line: Any,
    ) -> Any:
        """Draw the densities; returns the matplotlib Axes.

        Args:
            ax: Where to draw; None for a new figure.
            band: Level of a ribbon around each curve, of those that have a `band`.
            dots: How many dots to draw below the curve of a single density, each with
                the same probability: 7 of 20 to the right of a value mean 35 %.
            line: Passed to `Axes.plot`; `label` and `color` may be lists.
        """
        from kexpfam.display import plot_densities

        return plot_densities(self, ax=ax, band=band, dots=dots, **line)

    def to_scipy(self, row: int | None = None) -> Any:
        """One of the densities as a frozen distribution of `scipy.stats`.

        Args:
            row: Which; None if there is only one.

        Returns:
            It has `pdf`, `logpdf`, `cdf`, `sf`, `ppf`, `isf`, `mean`, `var`, `std`,
            `median`, `interval`, `support`, `rvs`, `entropy`, `expect` and `moment`.

        Example:
            >>> import numpy as np
            >>> from scipy import stats
            >>> from kexpfam import KEF
            >>> data = np.random.default_rng(0).normal(size=(200, 1))
            >>> q = KEF(random_state=0).fit(data).distribution().to_scipy()
            >>> bool(stats.kstest(data[:, 0], q.cdf).pvalue > 0.05)
            True
        """
        from kexpfam.distributions.scipy_form import frozen

        if self._single and row not in (None, 0):
            raise ValueError(
                f"row must be None or 0 for a single density, got {row!r}."
            )
        if self._single:
            return frozen(self)
        if row is None and self._n != 1:
            raise ValueError(
                f"row must say which of the {self._n} densities is meant, as in "
                f"to_scipy(0)."
            )
        return frozen(self[0 if row is None else row])


class TabulatedDensity(OneColumnDensity):
    """Densities whose mode, entropy and regions come from cells in y."""

    def mode(self) -> Array:
        return self._out(self._peaks(self._without_slivers)) if self._n else np.empty(0)

    def entropy(self) -> Array:
        return self._out(self._cells.entropy())

    def _regions(self, confidence: float) -> list[Array]:
        """Level sets of what is without slivers, while these are apart from the rest.

        Where the level is below the valley between, or their mass is needed, they are
        as good as others.
        """
        regions = highest_density_regions(self._without_slivers, confidence)
        cells, kept = self._cells, self._without_slivers
        for row in np.flatnonzero(self._slivers.any(axis=1)).tolist():
            cut = np.diff(self._slivers[row], prepend=False, append=False)
            short = kept.mass[row].sum() < confidence
            if short or np.isin(regions[row], cells.edges[row, cut]).any():
                one = CellDensity(cells.edges[[row]], cells.density[[row]])
                regions[row] = highest_density_regions(one, confidence)[0]
        return regions

    @cached_property
    def _slivers(self) -> Mask:
        """Cells at bounds whose heights have next to no mass."""
        return slivers(self._cells, self._bounds())

    @cached_property
    def _without_slivers(self) -> CellDensity:
        """The densities on cells, without heights at bounds that have no mass."""
        cells, drop = self._cells, self._slivers
        if not drop.any():
            return cells
        return CellDensity(cells.edges, np.where(drop[..., None], 0.0, cells.density))

    @cached_property
    def _cells(self) -> CellDensity:
        return self._tabulated()

    def _ppf(self, levels: Array) -> Array:
        row = np.repeat(np.arange(self._n), levels.shape[1])
        return self._solved(levels.ravel(), row).reshape(levels.shape)

    def _solved(self, level: Array, row: Indices, start: Array | None = None) -> Array:
        """Quantiles as roots; one level for each of some rows, (m,).

        `start` is a guess of them, (m,); None for the middles of their brackets.
        """
        low, high = (end[:, 0] for end in self._around(level[:, None], row))
        return increasing_roots(
            lambda y, some: self._excess_and_slope(y, level[some], row[some]),
            low,
            high,
            # A point is a quantile if the mass beyond it is right up to this share.
            1e-14 * np.minimum(level, 1.0 - level),
            start=start,
            # Slopes are right to this share but where the density is a thousandth of
            # its peak.
            slope_error=1e-7,
        )

    def _excess_and_slope(
        self, y: Array, level: Array, row: Indices
    ) -> tuple[Array, Array]:
        """Mass below y minus the level, from the tail that is smaller; the density."""
        upper = level > 0.5
        mass, slope = self._tail_and_pdf(y, row, upper)
        return np.where(upper, 1.0 - level - mass, mass - level), slope
