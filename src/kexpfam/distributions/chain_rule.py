"""Densities of several columns by the chain rule, p(y|x) = Π_j p(y_j | x, earlier y).

Each factor is a density of one column. Log densities are sums, and draws are made
column by column. Several orders of the columns are averaged. Moments and one-column
marginals are integrals over the earlier columns: of the conditional density of a column
the average is taken over nodes. The column that comes first needs none, and is exact.
As a condition it has nodes along its range as well as where its mass is, with weights

    ∫ f(y) p(y) dy ≈ Σ_k f(y_k) ∫ h_k(y) p(y) dy,

where h_k, piecewise linear, is one at y_k and zero at all others: between separated
modes nodes weigh nothing, and each mode has its mass.

Nodes of the columns between are y_i = F⁻¹(u_i | x, earlier y), where u runs through a
lattice that is shifted at random a few times. How far the average of each shift is from
that over all nodes says how large the error is.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._typing import Array
from kexpfam.distributions.interface import SeveralColumns
from kexpfam.distributions.mixture import MixtureDensity
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.row_averages import RowAverageDensity
from kexpfam.distributions.univariate import BLOCK_ROWS
from kexpfam.sampling import Run, Sampler

# Nodes: so many shifts of a lattice, with so many points each, which several orders
# share, but for so many that each has at least.
SHIFTS, POINTS, LEAST_POINTS = 4, 32, 8

# Of the nodes of the first column, half follow its mass and half are regular between
# its quantiles at TAIL and 1 − TAIL. A guess.
TAIL = 1e-3


class ColumnFactor(Protocol):
    """p(y_j | other columns), as functions of whole rows (m, D)."""

    @property
    def column(self) -> int:
        """Position of y_j in a row."""

    def log_density(self, rows: Array) -> Array:
        """Log p(y_j | others) of each row, (m,)."""

    def sample(self, rows: Array, rng: np.random.Generator) -> Array:
        """A draw of y_j for each row, (m, 1)."""

    def given(self, rows: Array) -> OneColumnDensity:
        """The densities p(· | others) at each row."""


class ChainRuleDensity(SeveralColumns):
    """n densities of d ≥ 2 columns, each a product of conditionals of one column.

    Args:
        rows: Whole rows, (n, D), with the conditions; what is in the modelled columns
            is not looked at.
        columns: Positions of the modelled columns, as y has them, (d,).
        orders: Factors of each order, in the order in which they are drawn. An object
            that is in several is computed once.
        weights: Of the orders, with sum one, (k,).
        names: Names of the modelled columns.
        single: Whether the leading axis is dropped.
    """

    def __init__(
        self,
        rows: Array,
        columns: Sequence[int],
        orders: Sequence[Sequence[ColumnFactor]],
        weights: Sequence[float] | Array,
        names: Sequence[Hashable],
        *,
        single: bool = False,
    ) -> None:
        self._table = rows
        self._columns = list(columns)
        self._orders = [list(order) for order in orders]
        self._weights = np.asarray(weights, dtype=float)
        self._names = tuple(names)
        self._single = single

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the columns, as `marginal` takes them."""
        return self._names

    @property
    def _column_names(self) -> list[str]:
        return [name if isinstance(name, str) else f"y{name}" for name in self._names]

    def mean(self) -> Array:
        """Expectation of each column; `mean_error` says how good it is."""
        return self._out(self._mean)

    @property
    def mean_error(self) -> Array:
        """Standard error of `mean` by the nodes, (n, d); zero for what is exact."""
        parts = [
            self._averaged(lambda walk: walk.means, shift) for shift in range(SHIFTS)
        ]
        return self._out(_standard_error(parts, self._mean))

    def std(self) -> Array:
        return self._out(self._std)

    def cov(self) -> Array:
        """Covariance matrix, (n, d, d): correlations over nodes, times `std`."""
        second = np.tensordot(
            self._weights, [self._second_moments(walk) for walk in self._walks], axes=1
        )
        scale = np.sqrt(np.diagonal(second, axis1=1, axis2=2))
        ratio = self._std / np.where(scale > 0, scale, 1.0)
        with np.errstate(over="ignore"):  # variances may be beyond doubles
            return self._out(second * (ratio[:, :, None] * ratio[:, None, :]))

    def _second_moments(self, walk: "_Walk") -> Array:
        """E zzᵀ over nodes, z = (y − mean)/std; the last column is integrated."""
        values = walk.rows[..., self._columns]
        values[..., walk.last] = walk.means[..., walk.last]
        usable = (self._std > 0) & np.isfinite(self._std)
        unit = np.where(usable, self._std, 1.0)[:, None]
        z = (values - self._mean[:, None]) / unit
        second = np.einsum("nm,nmi,nmj->nij", walk.weights, z, z)
        stds = walk.stds[..., walk.last] / unit[..., walk.last]
        within = np.sum(walk.weights * stds**2, axis=1)
        second[:, walk.last, walk.last] += within
        return second

    def entropy(self) -> Array:
        """Differential entropy in nats, from 1000 draws."""
        draws = self._draws(1000, np.random.default_rng(0))
        return self._out(-self._log_pdf(draws).mean(axis=1))

    def mode(self) -> NoReturn:
        """Not available for several columns by the chain rule."""
        raise NotImplementedError(
            f"mode is not available for {self._d} columns by the chain rule; draw with "
            f"rvs() and take the draw with the largest logpdf, or use marginal(column)."
        )

    def marginal(self, column: Hashable) -> OneColumnDensity:
        """The densities of one column, with every method of one column.

        Exact for a column that comes first in all orders, else an average over nodes
        of the columns before it; `marginal_error` says how good that is.

        Args:
            column: Its name, or its position in y.
        """
        return self._marginal(self._position(column))

    def marginal_error(self, column: Hashable) -> Array:
        """Standard error of the distribution function of a marginal, (n,).

        The largest of those at its quantiles 0.05, 0.25, 0.5, 0.75 and 0.95.
        """
        j = self._position(column)
        levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        whole = self._marginal(j)
        y = whole.quantile(levels)
        parts = [self._marginal(j, shift).cdf(y) for shift in range(SHIFTS)]
        return np.asarray(_standard_error(parts, whole.cdf(y)).max(axis=-1))

    def _marginal(self, j: int, shift: int | None = None) -> OneColumnDensity:
        """The marginal of a column over all nodes, or over those of one shift."""
        parts: list[OneColumnDensity] = []
        for k, order in enumerate(self._orders):
            place = [factor.column for factor in order].index(self._columns[j])
            if place == 0:
                found = order[0].given(self._table)
                every = np.arange(self._n)
                parts.append(found._rows(every, single=self._single))
                continue
            nodes, weights = self._walks[k].average(shift)
            rows = self._walks[k].rows[:, nodes]
            found = order[place].given(rows.reshape(-1, rows.shape[2]))
            sizes = np.full(self._n, rows.shape[1])
            average = RowAverageDensity(
                found, weights.ravel(), sizes, single=self._single
            )
            parts.append(average)
        return parts[0] if len(parts) == 1 else MixtureDensity(parts, self._weights)

    @property
    def log_partition(self) -> Array:
        """Zero: factors are normalised, and so is their product."""
        return self._out(np.zeros(self._n))

    @property
    def log_partition_error(self) -> Array:
        """Sum of the factors' errors, on average over nodes and orders."""
        return self._out(self._averaged(lambda walk: walk.errors).sum(axis=1))

    @property
    def _n(self) -> int:
        return len(self._table)

    @property
    def _d(self) -> int:
        return len(self._columns)

    @cached_property
    def _ends(self) -> Array:
        ends = np.stack([walk.ends for walk in self._walks])
        return np.stack([ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)], axis=-1)

    @cached_property
    def _mean(self) -> Array:
        return self._averaged(lambda walk: walk.means)

    @cached_property
    def _std(self) -> Array:
        """Given the columns before it: E var + var E, (n, d)."""
        mean = self._mean[:, None]
        # Squares of what is far from one would be no doubles.
        unit = np.max([w.stds.max(axis=1) for w in self._walks], axis=0)[:, None]
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
        squares = self._averaged(
            lambda w: (w.stds / unit) ** 2 + ((w.means - mean) / unit) ** 2
        )
        return unit[:, 0] * np.sqrt(squares)

    def _averaged(
        self, values: Callable[["_Walk"], Array], shift: int | None = None
    ) -> Array:
        """Averages over orders and nodes, all or of one shift, (n, d)."""
        means = []
        for walk in self._walks:
            nodes, weights = walk.average(shift)
            means.append(np.einsum("nm,nmd->nd", weights, values(walk)[:, nodes]))
        return np.tensordot(self._weights, means, axes=1)

    @cached_property
    def _walks(self) -> list["_Walk"]:
        """Nodes of each order; the same levels for all densities, whenever asked."""
        points = max(LEAST_POINTS, POINTS // len(self._orders))
        rng = np.random.default_rng(0)
        return [
            _walk(self._table, order, self._columns, *_levels(points, self._d - 1, rng))
            for order in self._orders
        ]

    def _log_pdf(self, Y: Array) -> Array:
        n, q, _ = Y.shape
        if not n * q:
            return np.empty((n, q))
        rows = np.repeat(self._table, q, axis=0)
        rows[:, self._columns] = Y.reshape(n * q, self._d)
        known: dict[int, Array] = {}
        for factor in (f for order in self._orders for f in order):
            if id(factor) not in known:
                known[id(factor)] = factor.log_density(rows)
        totals = [sum(known[id(f)] for f in order) for order in self._orders]
        if len(totals) == 1:
            return np.reshape(totals[0], (n, q))
        shares = self._weights[:, None]
        return special.logsumexp(totals, axis=0, b=shares).reshape(n, q)

    def _gradient(self, Y: Array) -> NoReturn:
        raise NotImplementedError(
            f"grad_logpdf is not available for {self._d} columns by the chain rule."
        )

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        rows = np.repeat(self._table, size, axis=0)
        chosen = np.zeros(len(rows), dtype=int)
        if len(self._orders) > 1:
            chosen = rng.choice(len(self._orders), size=len(rows), p=self._weights)
        for k, order in enumerate(self._orders):
            mine = np.flatnonzero(chosen == k)
            if not len(mine):
                continue
            own, first = rows[mine], order[0]
            # All draws of a condition have the same density of the first column.
            drawn = first.given(self._table)._draws(size, rng)
            own[:, first.column] = drawn.reshape(-1)[mine]
            for factor in order[1:]:
                own[:, factor.column] = factor.sample(own, rng)[:, 0]
            rows[mine] = own
        return rows[:, self._columns].reshape(self._n, size, self._d)

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        return Run(self._draws(size, rng))  # independent: no sampler does better

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(
            self._table[index],
            self._columns,
            self._orders,
            self._weights,
            self._names,
            single=single,
        )

    def _position(self, column: Hashable) -> int:
        if column in self._names:
            return self._names.index(column)
        if isinstance(column, int | np.integer) and -self._d <= column < self._d:
            return int(column) % self._d
        raise ValueError(
            f"column must be one of {', '.join(map(repr, self._names))} or a position "
            f"in y, got {column!r:.80}."
        )


@dataclass(frozen=True, eq=False)
class _Walk:
    """Nodes of one order, and what each column is like given those before it.

    Attributes:
        weights: Of the nodes, with sum one, (n, m).
        shifts: Weights of the nodes of each shift alone, with sum one in each, (n, m).
        rows: Whole rows, (n, m, D), without the column that comes last.
        last: Position of that in y.
        means: Conditional means at the nodes, (n, m, d).
        stds: Conditional standard deviations, in the same way.
        errors: Errors of log Z of the factors, in the same way.
        ends: Ends of the support, (n, d, 2).
    """

    weights: Array
    shifts: Array
    rows: Array
    last: int
    means: Array
    stds: Array
    errors: Array
    ends: Array

    def average(self, shift: int | None) -> tuple[slice, Array]:
        """Nodes of one shift, or all, and their weights with sum one."""
        if shift is None:
            return slice(None), self.weights
        points = self.weights.shape[1] // SHIFTS
        nodes = slice(shift * points, (shift + 1) * points)
        return nodes, self.shifts[:, nodes]


def _standard_error(parts: Sequence[Array], whole: Array) -> Array:
    """That of the whole by those of the shifts; of their mean, if that is the whole."""
    misses = np.abs(np.array(parts) - whole)
    unit = misses.max(axis=0)
    shares = np.divide(misses, unit, out=np.zeros_like(misses), where=unit > 0)
    return unit * np.sqrt(np.sum(shares**2, axis=0) / (SHIFTS * (SHIFTS - 1)))


def _levels(points: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Lattices in the unit cube, each with a shift of its own, and their weights.

    The first coordinate is a regular grid, of which each shift has every fourth point.
    The others are multiples of powers of the generalised golden ratio, which fill the
    cube evenly, shifted at random. The first three are bent, u = v²(3 − 2v) with
    weight 6v(1 − v), so that far quantiles weigh little; bending more would leave few
    nodes with all the weight.

    Returns:
        Levels, (SHIFTS * points, d), the first not yet bent, and weights of the others,
        (SHIFTS * points,).
    """
    golden = 2.0
    for _ in range(60):  # g^d = g + 1 for the d − 1 coordinates that are no grid
        golden = (1.0 + golden) ** (1.0 / max(d, 2))
    steps = np.append(1.0 / points, golden ** -np.arange(1.0, d))[:d]
    lattice = np.arange(points)[:, None] * steps
    v = np.stack([(lattice + rng.random(d)) % 1.0 for _ in range(SHIFTS)])
    v[..., 0] = (np.arange(SHIFTS)[:, None] + 0.5) / (SHIFTS * points) + lattice[:, 0]
    weights = np.prod(6.0 * v[..., 1:3] * (1.0 - v[..., 1:3]), axis=2)
    v[..., 1:3] = _bent(v[..., 1:3])
    # A level of zero or one has no finite quantile.
    return np.clip(v.reshape(-1, d), 1e-9, 1.0 - 1e-9), weights.ravel()


def _bent(v: Array) -> Array:
    return v**2 * (3.0 - 2.0 * v)


def _first_nodes(p: OneColumnDensity, v: Array) -> tuple[Array, Array, Array]:
    """Nodes of the first column and their weights, in all and in each shift, (n, m)."""
    shape = SHIFTS, len(v) // SHIFTS
    v = v.reshape(shape).T.ravel()  # increasing
    y = p.ppf(_bent(v)[None])
    ends = p.ppf(np.array([[TAIL, 1.0 - TAIL]]))
    width = np.maximum(np.diff(ends), np.finfo(float).tiny)
    place = 0.5 * v + 0.5 * np.clip((y - ends[:, :1]) / width, 0.0, 1.0)
    wanted = np.linspace(place[:, 0], place[:, -1], len(v), axis=1)
    each = zip(wanted, place, y, strict=True)
    y = np.stack([np.interp(*row) for row in each])
    lengths = np.diff(y)
    # Two Gauss points in each interval: means of F to fourth order.
    middle, half = y[:, :-1] + 0.5 * lengths, lengths / np.sqrt(12.0)
    between = 0.5 * (p.cdf(middle - half) + p.cdf(middle + half))
    integral = np.cumsum(between * lengths, axis=1)
    integral = np.concatenate([np.zeros((len(y), 1)), integral], axis=1)
    alone = np.empty((len(y), *shape))
    for s in range(SHIFTS):
        steps = np.diff(y[:, s::SHIFTS])
        means = between[:, s::SHIFTS][:, : steps.shape[1]].copy()  # if a step is zero
        rise = np.diff(integral[:, s::SHIFTS])
        np.divide(rise, steps, out=means, where=steps > 0)
        alone[:, s] = _hat_masses(means)
    both = (
        a.reshape(-1, *shape[::-1]).swapaxes(1, 2) for a in (y, _hat_masses(between))
    )
    y, weights = (a.reshape(len(y), -1) for a in both)
    return y, weights, alone.reshape(len(y), -1)


def _hat_masses(between: Array) -> Array:
    """∫ h_k dF of all nodes, by the means of F between neighbours, (n, m - 1)."""
    n = len(between)
    steps = np.diff(np.hstack([np.zeros((n, 1)), between, np.ones((n, 1))]))
    return np.maximum(steps, 1e-15)  # above rounding: weights are positive


def _walk(
    table: Array,
    order: Sequence[ColumnFactor],
    columns: Sequence[int],
    levels: Array,
    weights: Array,
) -> _Walk:
    """Follow an order from column to column, at nodes of these levels, (m, d - 1)."""
    n, m, d = len(table), len(levels), len(columns)
    rows = np.repeat(table[:, None], m, axis=1)
    means, stds, errors = np.zeros((3, n, m, d))
    ends = np.empty((n, d, 2))
    masses = np.empty((2, n, m))
    for i, factor in enumerate(order):
        j = columns.index(factor.column)
        # At the first column all nodes of a condition have the same density.
        width = 1 if i == 0 else m
        step = max(1, BLOCK_ROWS // width)
        for start in range(0, n, step):
            some = slice(start, min(start + step, n))
            here = rows[some, :width]
            p = factor.given(here.reshape(-1, rows.shape[2]))
            shape = here.shape[:2]
            means[some, :, j] = np.reshape(p.mean(), shape)
            stds[some, :, j] = np.reshape(p.std(), shape)
            errors[some, :, j] = np.reshape(p.log_partition_error, shape)
            ends[some, j] = p._ends[::width, 0]
            if i == 0:
                found, every, alone = _first_nodes(p, levels[:, 0])
                rows[some, :, factor.column] = found
                masses[:, some] = every, alone
            elif i < d - 1:
                found = p.ppf(np.tile(levels[:, i], len(here)))
                rows[some, :, factor.column] = np.reshape(found, shape)
    last = columns.index(order[-1].column)
    every = weights * masses[0]
    alone = (weights * masses[1]).reshape(n, SHIFTS, m // SHIFTS)
    every /= every.sum(axis=1, keepdims=True)
    alone /= alone.sum(axis=2, keepdims=True)
    alone = alone.reshape(n, m)
    return _Walk(every, alone, rows, last, means, stds, errors, ends)
