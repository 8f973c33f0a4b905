"""Scoring rules: one number per density and observation, lower is better.

All are proper: in expectation none is lower than that of the true density. They differ
in what they punish. `log_loss` looks only at the density of what was observed, and is
infinite where that is zero; `crps` and the scores of quantiles are in the units of y,
and forgive near misses; `cde_loss` is the squared distance of densities, up to a
constant that is the same for all models.

Each has a twin that ends in `_values` and gives the rows instead of their mean.
"""

from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike
from kexpfam.data import response_limits
from kexpfam.metrics.measures import measure_of
from kexpfam.metrics.observations import (
    Observations,
    check_open,
    finite_numbers,
    integrate_rows,
    weighted_mean,
)
from kexpfam.partition import cell_rule

_DECILES = tuple(k / 10 for k in range(1, 10))


def log_loss(p: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean of −log p(y_i|x_i), in nats; for any number of columns of y.

    Args:
        p: n densities, as `given` returns them.
        y: Observations, (n,), or (n, d).
        sample_weight: Weight of each row.

    Example:
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = x[:, 0] + 0.1 * np.cos(50 * x[:, 0])
        >>> model = KCEF().fit(x, y)
        >>> bool(np.isclose(log_loss(model.given(x), y), -model.score(x, y)))
        True
    """
    return weighted_mean(log_loss_values(p, y), sample_weight)


def log_loss_values(p: Any, y: ArrayLike) -> Array:
    """−log p(y_i|x_i) of each row, (n,)."""
    if hasattr(p, "cdf"):
        observed = Observations.of(p, y, "log_loss")
        return -observed.logpdf(observed.y[:, None])[:, 0]
    Y = finite_numbers(y)
    ends = np.shape(p.support)
    shape = ends[:-1] if len(ends) == 3 else (len(Y), ends[0])
    if Y.shape != shape:
        raise ValueError(
            f"y must have one row per density and one column per variable, shape "
            f"{shape}, got shape {np.shape(y)}."
        )
    return -p.logpdf(Y)


def censored_log_loss(
    p: Any,
    y: ArrayLike | None,
    censoring: Any,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean of −log p(y_i|x_i), or of −log P(interval) of rows that are censored.

    It is proper where censoring says nothing of y beyond its limit. Its rows mix
    densities and probabilities, so compare it only on the same rows.

    Args:
        p: n densities of one column, as `given` returns them.
        y: Recorded observations, (n,); None if `censoring` has both ends.
        censoring: As in `KCEF.fit`.
        sample_weight: Weight of each row.

    Example:
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = x[:, 0] + 0.1 * np.cos(50 * x[:, 0])
        >>> p = KCEF(select=None).fit(x, y).given(x)
        >>> none = ["none"] * 60
        >>> bool(np.isclose(censored_log_loss(p, y, none), log_loss(p, y)))
        True
    """
    values = censored_log_loss_values(p, y, censoring)
    return weighted_mean(values, sample_weight)


def censored_log_loss_values(p: Any, y: ArrayLike | None, censoring: Any) -> Array:
    """−log p(y_i|x_i), or −log P(interval) of rows that are censored, (n,)."""
    lower, upper = response_limits(y, censoring)
    exact = lower == upper
    known = np.where(np.isfinite(lower), lower, upper)
    losses = log_loss_values(p, known)
    # Whichever tails are smaller have more digits.
    below = [p.cdf(np.where(np.isfinite(end), end, known)) for end in (lower, upper)]
    above = [p.sf(np.where(np.isfinite(end), end, known)) for end in (lower, upper)]
    below[0], above[0] = (
        np.where(np.isfinite(lower), part, end)
        for part, end in ((below[0], 0.0), (above[0], 1.0))
    )
    below[1], above[1] = (
        np.where(np.isfinite(upper), part, end)
        for part, end in ((below[1], 1.0), (above[1], 0.0))
    )
    mass = np.where(below[0] > 0.5, above[0] - above[1], below[1] - below[0])
    with np.errstate(divide="ignore"):
        return np.where(exact, losses, -np.log(np.maximum(mass, 0.0)))


def crps(p: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean continuous ranked probability score, ∫ (F_i(t) − 1{t ≥ y_i})² dt.

    It is in the units of y, and becomes the absolute error as the density narrows. It
    is finite even for densities without a mean, if their tails are lighter than those
    of |y|^(−3/2). Relative error about 1e-9 for tails that have a mean.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        sample_weight: Weight of each row.

    References:
        Gneiting and Raftery, Strictly proper scoring rules, JASA 2007.

    Example:
        >>> from kexpfam import KEF
        >>> data = np.linspace(-1, 1, 50)
        >>> p = KEF(select=None).fit(data[:, None]).distribution()
        >>> crps(p, [0.0]) < crps(p, [1.0])
        True
    """
    return weighted_mean(crps_values(p, y), sample_weight)


def crps_values(p: Any, y: ArrayLike) -> Array:
    """Continuous ranked probability score of each row, (n,)."""
    # ∫ F² below y and ∫ (1 − F)² above it
    observed = Observations.of(p, y, "crps")
    if measure_of(observed.density)[0] == "counting":
        return _crps_of_masses(observed)
    at, cdf, pmf = observed.y[:, None], observed.dense.cdf, observed.dense.pmf
    edges = np.sort(np.hstack([observed.edges, at]), axis=1)

    def integrand(t: Array) -> Array:
        below = cdf(t)
        return np.where(t < at, below, 1.0 - below) ** 2

    def doubt(left: Array, right: Array, squares: Array, _: Array) -> Array:
        # A step of F beyond the outer nodes shows at the ends of its cell.
        seen = np.sqrt(squares) @ cell_rule().coefficients
        signs = (-1.0) ** np.arange(seen.shape[-1])
        below = left < at  # where it is F that was squared, not 1 − F
        at_left, at_right = cdf(left), cdf(right) - pmf(right)  # before a jump
        at_left, at_right = (np.where(below, f, 1.0 - f) for f in (at_left, at_right))
        gap = np.abs(seen @ signs - at_left) + np.abs(seen.sum(axis=-1) - at_right)
        return gap * np.maximum(at_left, at_right) * (right - left)

    return integrate_rows(integrand, edges, doubt)


def _crps_of_masses(observed: Observations) -> Array:
    """The same where F is a step function: a sum over its steps."""
    values, y = observed.atoms, observed.y[:, None]
    left, right = values[None, :-1], values[None, 1:]
    F = observed.cdf(np.broadcast_to(values, (len(y), len(values))))[:, :-1]
    below = np.clip(y, left, right) - left
    inside = below * F**2 + (right - left - below) * (1.0 - F) ** 2
    outside = np.maximum(values[0] - y, 0.0) + np.maximum(y - values[-1], 0.0)
    return inside.sum(axis=1) + outside[:, 0]


def cde_loss(p: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean of ∫ p(t|x_i)² dt − 2 p(y_i|x_i).

    In expectation ∫∫ (p − truth)² dt dP(x) less a constant of the truth. It may be
    negative, and is in units of 1/y. The integral is with respect to the measure of p:
    with atoms their squared probabilities are added.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        sample_weight: Weight of each row.

    References:
        Izbicki and Lee, Converting high-dimensional regression to high-dimensional
        conditional density estimation, Electronic Journal of Statistics 2017.
    """
    return weighted_mean(cde_loss_values(p, y), sample_weight)


def cde_loss_values(p: Any, y: ArrayLike) -> Array:
    """∫ p(t|x_i)² dt − 2 p(y_i|x_i) of each row, (n,)."""
    observed = Observations.of(p, y, "cde_loss")
    dense = observed.dense
    at_y = 2.0 * observed.pdf(observed.y[:, None])[:, 0]
    atoms = np.broadcast_to(observed.atoms, (len(observed.y), len(observed.atoms)))
    of_atoms = (observed.pmf(atoms) ** 2).sum(axis=1)
    if measure_of(observed.density)[0] == "counting":
        return of_atoms - at_y
    # p² may overflow where p and the integral do not.
    unit = dense.pdf(observed.edges).max(axis=1, keepdims=True)

    def integrand(t: Array) -> Array:
        return (dense.pdf(t) / unit) ** 2

    def doubt(left: Array, right: Array, squares: Array, total: Array) -> Array:
        # A spike between nodes shows in the mass of its cell, known from the cdf.
        mean = 0.5 * (np.sqrt(squares) @ cell_rule().weights) * unit
        mass = dense.cdf(right) - dense.pmf(right) - dense.cdf(left)
        mass = np.where(right > left, mass, 0.0)
        gap = np.abs(mean * (right - left) - mass)
        # By so small a share pdf and cdf may differ without hiding a spike.
        return np.maximum(gap - 1e-6 * mass, 0.0) * total

    squared = integrate_rows(integrand, observed.edges, doubt) * unit[:, 0] * unit[:, 0]
    return squared + of_atoms - at_y


def pinball_loss(
    p: Any,
    y: ArrayLike,
    levels: ArrayLike = _DECILES,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean quantile loss (1{y < q} − a)(q − y) over rows and levels a.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        levels: Levels of the quantiles, strictly between 0 and 1.
        sample_weight: Weight of each row.
    """
    return weighted_mean(pinball_loss_values(p, y, levels).mean(axis=1), sample_weight)


def pinball_loss_values(p: Any, y: ArrayLike, levels: ArrayLike = _DECILES) -> Array:
    """Quantile loss of each row and level, (n, k)."""
    observed = Observations.of(p, y, "pinball_loss")
    a = check_open("levels", levels)
    over = observed.quantiles(a) - observed.y[:, None]
    return np.maximum((1.0 - a) * over, -a * over)


def interval_score(
    p: Any,
    y: ArrayLike,
    confidence: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean width of the central interval plus 2/(1 − confidence) times the misses.

    A miss is the distance from y to the interval. Narrow intervals that hold what they
    promise score best.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        confidence: Probability of the interval, strictly between 0 and 1.
        sample_weight: Weight of each row.

    References:
        Gneiting and Raftery, Strictly proper scoring rules, JASA 2007.
    """
    return weighted_mean(interval_score_values(p, y, confidence), sample_weight)


def interval_score_values(p: Any, y: ArrayLike, confidence: float = 0.9) -> Array:
    """Interval score of each row, (n,)."""
    observed = Observations.of(p, y, "interval_score")
    if np.ndim(confidence) != 0:
        raise ValueError(f"confidence must be one number, got {confidence!r}.")
    tail = 0.5 * (1.0 - check_open("confidence", confidence)[0])
    low, high = observed.quantiles(np.array([tail, 1.0 - tail])).T
    miss = np.maximum(low - observed.y, 0.0) + np.maximum(observed.y - high, 0.0)
    return high - low + miss / tail
