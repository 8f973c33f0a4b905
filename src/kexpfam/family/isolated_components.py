"""Are the masses of isolated components right? A check of fits by score matching.

If p(y|x) lives on components with hardly any data between them, score matching does not
see their relative masses. Counting does: the number of responses on either side of a
valley is binomial. So, in the neighbourhood of a few representative conditions x_r,

    predicted  Σ_a k_ra F_a(v_a)   is compared with   observed  Σ_a k_ra 1[u_a < v_a],

where k_ra are weights of the neighbours a that sum to one, F_a is the fitted
distribution function at x_a, and v_a a valley. If the fit is right both have the same
expectation, whatever the weights are and however the masses change with x. Valleys are
looked for in the fitted densities, where v_a follows x_a, and in the neighbours'
responses, because a fit may have lost a component altogether.

Densities are known here only as numbers on nodes.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from kexpfam._kernel_density import moments, silverman
from kexpfam._typing import Array, Indices, Mask
from kexpfam.family.valleys import Valleys, all_valleys, side_by_side


@dataclass(frozen=True)
class MassCheck:
    """When components count as isolated, and their masses as wrong."""

    # A valley is deep if the density in it is below this fraction of the lower of the
    # two peaks beside it. Smoothing fills valleys, and the comparison is fair at any
    # depth, so that this only decides what is called isolated; deeper valleys of a true
    # density have fewer than one response in a hundred or so
    valley: float = 0.1
    # A valley that holds more than this share of the neighbouring responses is not
    # empty, and score matching sees it
    most_inside: float = 0.05
    # Neighbours, in effective number: fewer than the first say nothing about a share;
    # the second show a gap, and more would only smear it if it moves with x
    fewest_neighbours: float = 15.0
    enough_neighbours: float = 60.0
    fewest_in_a_component: float = 6.0  # Of these, on either side
    # Rows without the valley are left out; if most neighbours are, it is not theirs
    least_common: float = 0.5
    # Bandwidth for the neighbours' responses, relative to Silverman's rule, which is
    # for one bump and would fill the valleys between two
    bandwidth: float = 0.5
    # The chance of a false alarm, shared out among all comparisons (Bonferroni). Being
    # made on the training rows, comparisons are rather too mild than too strict
    level: float = 0.01
    negligible: float = 1e-3  # A component of less than this mass is none
    # Components of less than this mass are not compared
    smallest: float = 0.05
    # Masses wrong by less than this are no worse than what smoothing does elsewhere
    noteworthy: float = 0.025
    # A gap of responses that has this chance, with one mode, is none where no fitted
    # density has a valley
    chance_gap: float = 0.1
    # Rows in which a mass that is wrong by 0.05 shows in 95 of 100 cases at that level:
    # (3.5 + 1.65) standard errors of a share of one half are 0.05 in 2,650
    enough_rows: int = 3000


CHECK = MassCheck()


@dataclass(frozen=True)
class MassComparison:
    """Predicted and counted mass on the left of one valley."""

    index: int | None  # Row number of the condition; None for all together
    valley: float  # Where the valley is lowest
    predicted: float  # Mass on its left by the fit, averaged over the neighbours
    observed: float  # Share of the neighbours' responses there
    standard_error: float  # Of the observed share
    neighbours: float  # Effective number of neighbours
    # Of several columns of y: means of the responses on the left and on the right
    sides: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    # The chance of so few responses in the valley if the density had one mode
    chance: float = 0.0

    @property
    def z(self) -> float:
        """Observed minus predicted, in standard errors."""
        return (self.observed - self.predicted) / self.standard_error

    @property
    def noteworthy(self) -> bool:
        """Whether the difference is larger than what smoothing does elsewhere."""
        return abs(self.observed - self.predicted) > CHECK.noteworthy


@dataclass(frozen=True)
class IsolatedComponents:
    """All comparisons of a fit, and what follows from them.

    Attributes:
        comparisons: One for each representative condition and valley.
        conditional: Whether the densities of rows differ.
    """

    comparisons: tuple[MassComparison, ...]
    conditional: bool = False

    @property
    def found(self) -> bool:
        """Whether components are isolated: some responses are on either side.

        A few far from the others are a tail, and a gap among few is chance. Where
        densities depend on x, a gap in all responses together may be one in x, and one
        condition may be chance.
        """
        real = [
            c
            for c in self.comparisons
            if (c.index is not None) == self.conditional
            and c.chance <= CHECK.level
            and c.neighbours * min(c.observed, 1.0 - c.observed)
            >= CHECK.fewest_in_a_component
        ]
        return len({c.index for c in real}) > int(self.conditional)

    @property
    def worst(self) -> MassComparison | None:
        """The largest |z| among noteworthy differences, or among all."""
        off = [c for c in self.comparisons if c.noteworthy]
        return max(off or self.comparisons, key=lambda c: abs(c.z), default=None)

    @property
    def threshold(self) -> float:
        """The |z| from which on a noteworthy difference is suspicious."""
        return -float(special.ndtri(0.5 * CHECK.level / max(1, len(self.comparisons))))

    @property
    def suspicious(self) -> bool:
        """Whether the masses of components are wrong by more than chance explains."""
        worst = self.worst
        return bool(worst and worst.noteworthy and abs(worst.z) > self.threshold)

    @property
    def finding(self) -> str:
        """The worst comparison in words; empty if there is none."""
        worst = self.worst
        if worst is None:
            return ""
        where = "over all rows" if worst.index is None else f"near row {worst.index}"
        place = f"below {worst.valley:.3g}"
        if worst.sides is not None:
            words = [", ".join(f"{y:.3g}" for y in side) for side in worst.sides]
            place = f"around ({words[0]}), away from ({words[1]}),"
        return (
            f"the fit puts {worst.predicted:.0%} of the mass {place} {where}, the "
            f"data {worst.observed:.0%} ± {worst.standard_error:.0%} "
            f"(z = {worst.z:.1f})"
        )

    def __str__(self) -> str:
        if self.worst is None:
            return "No isolated components: nothing that score matching could not see."
        if self.suspicious:
            return (
                f"Masses of isolated components are wrong: {self.finding}. Score "
                f"matching does not see them; fit by likelihood, or bridge the gap."
            )
        return (
            f"Masses of isolated components agree with the data; at worst "
            f"{self.finding}."
        )


def check_isolated_components(
    nodes: Array,
    log_density: Array,
    U: Array,
    weights: Array | None = None,
    *,
    neighbours: Array | None = None,
    index: Indices | None = None,
) -> IsolatedComponents:
    """Compare the masses of components with counts.

    Args:
        nodes: Increasing values of y that cover the densities, (g,).
        log_density: Log of each row's density on the nodes, up to a constant, (n, g);
            (1, g) if all rows have the same.
        U: Responses of the rows, (n,).
        weights: Row weights, (n,), that count rows; ones if None.
        neighbours: Similarity of some representative rows to all rows, (r, n), such as
            the kernel of x; None to compare all rows together only.
        index: Which rows those are, (r,); for the report.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> u = np.where(rng.random(300) < 0.3, -2.0, 2.0) + 0.4 * rng.normal(size=300)
        >>> y = np.linspace(-5, 5, 400)
        >>> bumps = [-0.5 * ((y - c) / 0.4) ** 2 for c in (-2.0, 2.0)]
        >>> equal = np.logaddexp(*bumps)[None]
        >>> print(check_isolated_components(y, equal, u))
        Masses of isolated components are wrong: the fit puts 50% of the mass below ...
    """
    weights = np.ones(len(U)) if weights is None else weights
    fit = _Fit(nodes, log_density, U)
    found = fit.compare(None, fit.deepest, weights, weights)
    if neighbours is not None and not fit.shared:
        found += fit.followed(weights)
        index = np.arange(len(neighbours)) if index is None else index
        for r, near in zip(index, neighbours, strict=True):
            narrow = weights * _narrowed(near)
            found += fit.compare(int(r), fit.valleys[r], weights * near, narrow)
    return IsolatedComponents(tuple(found), not fit.shared)


def nothing_to_compare(
    nodes: Array, log_density: Array, U: Array, weights: Array, neighbours: Array
) -> bool:
    """Whether no valley of the densities or of the responses asks for a comparison.

    `check_isolated_components` would then compare masses at most at gaps that are
    chance, or that too few densities have.

    Args:
        nodes: Increasing values of y that cover the densities, (g,).
        log_density: Log densities of some of the rows on the nodes, (m, g).
        U: Responses of all rows, (n,).
        weights: Their weights, (n,).
        neighbours: Similarity of representative rows to all rows, (r, n).
    """
    if any(len(own.at) for own in _Fit(nodes, log_density, U).valleys):
        return False
    around = [(weights * near, weights * _narrowed(near)) for near in neighbours]
    return not any(
        _chance_of_gap(gap, U, near, narrow) <= CHECK.chance_gap
        for near, narrow in [(weights, weights), *around]
        for gap in _gaps(nodes, U, narrow)
    )


def _chance_of_gap(
    gap: tuple[float, float, float], U: Array, near: Array, narrow: Array
) -> float:
    """The chance of a gap if the density had one mode, among few neighbours or many."""
    _, low, high = gap
    return min(1.0, 2.0 * min(_chance(own, U, low, high) for own in (narrow, near)))


def _gaps(nodes: Array, U: Array, near: Array) -> list[tuple[float, float, float]]:
    """Valleys of responses that hold hardly any: where, from where, and up to where."""
    if _effective(near) < CHECK.fewest_neighbours:
        return []
    histogram = _log_histogram(nodes, U, near)[None]
    (gaps,) = _valleys(nodes, histogram, _cumulative(nodes, histogram))
    return [
        (valley, low, high)
        for valley, low, high in zip(gaps.at, gaps.low, gaps.high, strict=True)
        if _share(near, (low < U) & (high > U)) <= CHECK.most_inside
    ]


class _Fit:
    """Densities on nodes, and the responses that they are compared with."""

    def __init__(self, nodes: Array, log_density: Array, U: Array) -> None:
        self.nodes, self.U = nodes, U
        self.shared = len(log_density) == 1
        self.cdf = _cumulative(nodes, log_density)
        self.valleys = _valleys(nodes, log_density, self.cdf)
        self._table = side_by_side(self.valleys)

    @property
    def deepest(self) -> Valleys:
        """The valleys of the row that has the deepest."""
        some = [own for own in self.valleys if len(own.at)]
        return max(some, key=lambda v: v.depth.max(), default=self.valleys[0])

    def compare(
        self, index: int | None, own: Valleys, near: Array, narrow: Array
    ) -> list[MassComparison]:
        """Compare at the valleys of one fitted density, and at those of the data.

        Gaps in the data are looked for among few neighbours, since components move with
        x; masses are compared over as many as the fit itself has averaged.
        """
        if _effective(narrow) < CHECK.fewest_neighbours:
            return []
        found = [self._at_fitted(index, own, k, near) for k in range(len(own.at))]
        for gap in _gaps(self.nodes, self.U, narrow):
            one = self._at_gap(index, gap[0], near)
            chance = _chance_of_gap(gap, self.U, near, narrow)
            found.append(one and replace(one, chance=chance))
        return [comparison for comparison in found if comparison is not None]

    def followed(self, weights: Array) -> list[MassComparison]:
        """Compare over all rows, each at its own valleys, wherever x moves them.

        Of rows with as many valleys as most have; in a neighbourhood an error of 0.05
        is no more than chance.
        """
        count = np.sum(np.isfinite(self._table.at), axis=1)
        if not count.any():
            return []
        common = int(np.argmax(np.bincount(count, weights)[1:])) + 1
        used = np.where(count == common, weights, 0.0)
        if used.sum() < CHECK.least_common * weights.sum():
            return []
        found = []
        for k in range(common):
            at, low, high, below = (
                np.nan_to_num(part[:, k])
                for part in (
                    self._table.at,
                    self._table.low,
                    self._table.high,
                    self._table.below,
                )
            )
            if _share(used, (low < self.U) & (high > self.U)) > CHECK.most_inside:
                continue
            middle = float(np.median(at[used > 0]))
            one = compare_masses(None, middle, below, at > self.U, used)
            chance = _chance(used, self.U, low, high)
            found.append(one and replace(one, chance=chance))
        return [comparison for comparison in found if comparison is not None]

    def _at_fitted(
        self, index: int | None, own: Valleys, k: int, near: Array
    ) -> MassComparison | None:
        """At valley k of one density, and those of the other rows that overlap it."""
        table = self._table
        distance = np.abs(table.at - own.at[k])
        overlap = (table.low < own.high[k]) & (table.high > own.low[k])
        distance = np.where(overlap, distance, np.inf)
        chosen = (np.arange(len(distance)), distance.argmin(axis=1))
        used = np.where(np.isfinite(distance[chosen]), near, 0.0)
        if used.sum() < CHECK.least_common * near.sum():
            return None
        inside = (table.low[chosen] < self.U) & (table.high[chosen] > self.U)
        if _share(used, inside) > CHECK.most_inside:
            return None
        below = np.nan_to_num(table.below[chosen])
        left = table.at[chosen] > self.U
        found = compare_masses(index, own.at[k], below, left, used)
        low, high = (np.nan_to_num(part[chosen]) for part in (table.low, table.high))
        return found and replace(found, chance=_chance(used, self.U, low, high))

    def _at_gap(
        self, index: int | None, valley: float, near: Array
    ) -> MassComparison | None:
        """At one place for all rows."""
        right = np.clip(np.searchsorted(self.nodes, valley), 1, len(self.nodes) - 1)
        gap = self.nodes[right] - self.nodes[right - 1]
        along = (valley - self.nodes[right - 1]) / gap
        below = (1.0 - along) * self.cdf[:, right - 1] + along * self.cdf[:, right]
        return compare_masses(index, valley, below, valley > self.U, near)


def gaps_of_responses(U: Array, weights: Array, *, count: int = 200) -> list[float]:
    """Places with hardly any of the responses U (n,), and enough on either side.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> u = rng.normal(size=200) + np.repeat([-5.0, 5.0], 100)
        >>> [abs(place) < 2 for place in gaps_of_responses(u, np.ones(200))]
        [True]
    """
    nodes = np.linspace(U.min() - np.std(U), U.max() + np.std(U), count)
    if not np.all(np.diff(nodes) > 0):
        return []
    found = []
    for valley, _, _ in _gaps(nodes, U, weights):
        left = _share(weights, valley > U)
        if min(left, 1.0 - left) >= CHECK.smallest:
            found.append(float(valley))
    return found


def component_std(U: Array, weights: Array) -> float:
    """Standard deviation of responses U (n,) within components that gaps separate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> u = rng.normal(size=2000) + np.repeat([-5.0, 5.0], 1000)
        >>> round(component_std(u, np.ones(2000)), 1)
        1.0
    """
    label = np.searchsorted(np.sort(gaps_of_responses(U, weights)), U)
    counts = np.maximum(np.bincount(label, weights), 1e-300)
    means = np.bincount(label, weights * U) / counts
    return math.sqrt(float(np.average((U - means[label]) ** 2, weights=weights)))


def compare_masses(
    index: int | None,
    valley: float,
    below: Array,
    left: Mask,
    near: Array,
    sides: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
) -> MassComparison | None:
    """Shares of the neighbours; None if these are few, or nearly all on one side."""
    effective = _effective(near)
    predicted, observed = _share(near, below), _share(near, left)
    smaller = [min(mass, 1.0 - mass) for mass in (predicted, observed)]
    if effective < CHECK.fewest_neighbours or max(smaller) < CHECK.smallest:
        return None
    # Agresti and Coull: two more rows on either side keep a share of 0 or 1 uncertain.
    center = (effective * observed + 2.0) / (effective + 4.0)
    error = math.sqrt(center * (1.0 - center) / (effective + 4.0))
    shares = predicted, observed, error, effective
    return MassComparison(index, float(valley), *shares, sides)


def _chance(near: Array, U: Array, low: Array | float, high: Array | float) -> float:
    """The chance of so few responses between low and high if there were one mode.

    A density with one mode is nowhere lower than further out, so that of the responses
    there, and of those in as long an interval around the median of the smaller side,
    half or more are expected there: a sign test.
    """
    width = np.subtract(high, low)
    left, right = low - U, U - high  # how far beyond
    sides = [_share(near, side > 0) for side in (left, right)]
    beyond = right if sides[1] < sides[0] else left
    inside = _share(near, (left <= 0) & (right <= 0))
    middle = np.maximum(_median(beyond, near * (beyond > 0)), 0.5 * width)
    others = _share(near, (beyond > 0) & (np.abs(beyond - middle) <= 0.5 * width))
    rows = _effective(near)
    few, total = math.floor(rows * inside), max(1, round(rows * (inside + others)))
    return float(special.bdtr(min(few, total), total, 0.5))


def _median(values: Array, weights: Array) -> float:
    """Weighted median; of values with weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1])]])


def _share(near: Array, values: Array | Mask) -> float:
    """Average over neighbours; values may be one for all."""
    return float(np.sum(near * values) / near.sum())


def _effective(near: Array) -> float:
    """Effective number of neighbours with these weights."""
    total = float(near.sum())
    return total**2 / float(near @ near) if total > 0 else 0.0


def _narrowed(near: Array) -> Array:
    """Similarities, raised to a power that leaves about as many as are enough."""
    count = _effective(near)
    while count > CHECK.enough_neighbours:
        narrower = near**2
        fewer = _effective(narrower)
        if fewer > 0.99 * count:
            break  # all are alike
        near, count = narrower, fewer
    return near


def _valleys(nodes: Array, log_density: Array, cdf: Array) -> list[Valleys]:
    """Valleys of each density that are deep enough to isolate components."""
    return all_valleys(nodes, log_density, cdf, CHECK.valley, CHECK.negligible)


def _cumulative(nodes: Array, log_density: Array) -> Array:
    """Distribution functions on the nodes by the trapezoidal rule, (n, g)."""
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    pieces = 0.5 * np.diff(nodes) * (density[:, 1:] + density[:, :-1])
    below = np.zeros(density.shape)
    np.cumsum(pieces, axis=1, out=below[:, 1:])
    return below / below[:, -1:]


def _log_histogram(nodes: Array, U: Array, near: Array) -> Array:
    """Log of a kernel density estimate of the neighbours' responses on nodes."""
    share = near / near.sum()
    _, std = moments(U, near)
    bandwidth = CHECK.bandwidth * silverman(std, _effective(near)) + 1e-300
    count = share > 1e-3 * share.max()
    z = (nodes[:, None] - U[count]) / bandwidth
    # A trace of a constant, so that gaps without any response have a bottom.
    return np.log(np.exp(-0.5 * z * z) @ share[count] + 1e-12)


def spread_out(X: Array, count: int = 25) -> Indices:
    """Rows that are far from each other: each is the farthest from those before it.

    Example:
        >>> spread_out(np.array([[0.0], [0.1], [5.0], [2.4]]), 3).tolist()
        [0, 2, 3]
    """
    chosen = [0]
    distance = np.sum((X - X[0]) ** 2, axis=1)
    while len(chosen) < min(count, len(X)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.sum((X - X[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)
