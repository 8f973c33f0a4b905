"""Calibration: whether probabilities are as large as they claim to be.

Two numbers per row are uniform on [0, 1] if the densities are right. The probability
integral transform F(y) tells where in its density an observation lies, from left to
right; `hpd_values` tell how far from the densest place, P(p(Y) ≥ p(y)). Coverage at any
confidence counts them: a central interval holds y if |2F(y) − 1| ≤ confidence, a
highest-density region holds it if its value is ≤ confidence.

Uniformity is necessary, not sufficient: p(y) without x is calibrated too. So it is read
beside a score.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._roots import bracketed_roots, golden_section
from kexpfam._typing import Array, ArrayLike, Indices, Mask, RandomState
from kexpfam._validation import as_generator, check_probability, check_weights
from kexpfam.metrics.observations import (
    Observations,
    RowFunction,
    check_open,
    weighted_mean,
)


@dataclass(frozen=True)
class Uniformity:
    """Kolmogorov-Smirnov test of uniform values.

    Attributes:
        statistic: Largest distance between the distribution function of the values and
            the diagonal.
        pvalue: Probability of a larger one if they are uniform.
    """

    statistic: float
    pvalue: float


def pit(p: Any, y: ArrayLike, *, random_state: RandomState = 0) -> Array:
    """Probability integral transform F_i(y_i) of each row, (n,).

    At an atom F jumps, and the value is uniform between both sides of the jump: so it
    is uniform on [0, 1] if the law is right, whatever its atoms are.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        random_state: Seed or generator of the draws at atoms; densities have none.

    Example:
        >>> from kexpfam import KEF
        >>> p = KEF(select=None).fit(np.linspace(-1, 1, 50)[:, None]).distribution()
        >>> bool(np.allclose(pit(p, p.ppf([0.2, 0.7])), [0.2, 0.7]))
        True
    """
    observed = Observations.of(p, y, "pit")
    found = observed.cdf(observed.y[:, None])[:, 0]
    if not len(observed.atoms):
        return found
    jump = observed.pmf(observed.y[:, None])[:, 0]
    return np.clip(found - _draws(random_state, len(found)) * jump, 0, 1)


def pit_uniformity(
    values: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Uniformity:
    """Test whether values, of `pit` or `hpd_values`, are uniform.

    With unequal weights the p-value is approximate: it is that of as many rows of equal
    weight as would estimate a mean as well, (Σw)²/Σw².

    Args:
        values: Numbers in [0, 1], (n,).
        sample_weight: Weight of each row.

    Example:
        >>> even = (np.arange(100) + 0.5) / 100
        >>> round(pit_uniformity(even).statistic, 6)
        0.005
        >>> pit_uniformity(even**2).pvalue < 0.001
        True
    """
    from scipy.stats import kstwo

    u = np.asarray(values, dtype=float)
    check_probability("values", u)
    if u.ndim != 1 or len(u) == 0:
        raise ValueError(f"values must be a flat list, (n,), got shape {u.shape}.")
    weights = check_weights(sample_weight, len(u))
    order = np.argsort(u)
    after = np.cumsum(weights[order]) / weights.sum()
    before = np.append(0.0, after[:-1])
    u = u[order]
    distance = float(np.maximum(after - u, u - before).max())
    rows = max(1, round(weights.sum() ** 2 / np.sum(weights**2)))
    return Uniformity(distance, float(kstwo.sf(distance, rows)))


def pit_distance(
    p: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Kolmogorov-Smirnov distance of the values of `pit` from uniform."""
    return pit_uniformity(pit(p, y), sample_weight=sample_weight).statistic


def coverage(
    p: Any,
    y: ArrayLike,
    confidence: ArrayLike = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
) -> Array:
    """Share of observations in their central intervals.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        confidence: Probability of the intervals, a number or k of them.
        sample_weight: Weight of each row.

    Returns:
        A number, or (k,), as the confidence.
    """
    return _covered(central_values(pit(p, y)), confidence, sample_weight)


def hpd_coverage(
    p: Any,
    y: ArrayLike,
    confidence: ArrayLike = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
) -> Array:
    """Share of observations in their highest-density regions; see `coverage`."""
    return _covered(hpd_values(p, y), confidence, sample_weight)


def central_values(pit_values: Array) -> Array:
    """Confidence of the smallest central interval that holds y, |2F(y) − 1|."""
    return np.abs(2.0 * pit_values - 1.0)


def hpd_values(p: Any, y: ArrayLike, *, random_state: RandomState = 0) -> Array:
    """P(p(Y|x_i) ≥ p(y_i|x_i)), the smallest highest-density region that holds y_i.

    Of a law with atoms these come first, by their probability, and then the rest by its
    density; at an atom the value is drawn as by `pit`.

    Uniform if the densities are right and have no plateaus. All of a plateau counts as
    denser: at any y of a uniform density the value is 1. Modes narrower than a quarter
    of a cell between two 32nds of the mass may be overlooked; the error is then at
    most their mass.

    Args:
        p: n densities of one variable, as `given` returns them.
        y: Observations, (n,).
        random_state: Seed or generator of the draws at atoms; densities have none.

    Returns:
        Values in [0, 1], (n,).

    Example:
        >>> from kexpfam import KEF
        >>> p = KEF(select=None).fit(np.linspace(-1, 1, 50)[:, None]).distribution()
        >>> hpd_values(p, p.hpd(0.8)[0]).round(6)
        array([0.8, 0.8])
    """
    # The mass where log p ≥ log p(y), from the crossings of that level.
    observed = Observations.of(p, y, "hpd_values")
    if len(observed.atoms):
        return _hpd_with_atoms(observed, _draws(random_state, len(observed.y)))
    # Log densities that differ by less are the same: a plateau, up to rounding.
    level = observed.logpdf(observed.y[:, None]) - 1e-9
    dense = observed.dense

    def height(t: Array) -> Array:
        with np.errstate(invalid="ignore"):  # a density of zero, compared with zero
            return np.clip(np.nan_to_num(dense.logpdf(t) - level), -99.0, 99.0)

    # The cells between quantiles cut evenly: (n, k + 1) -> (n, 4 k + 1)
    edges, share = observed.edges, np.arange(4) / 4
    inner = edges[:, :-1, None] + np.diff(edges, axis=1)[..., None] * share
    t = np.hstack([inner.reshape(len(edges), -1), edges[:, -1:]])
    h = height(t)
    extremes = _hidden_extremes(t, h, height)
    t = np.hstack([t, extremes])
    order = np.argsort(t, axis=1, kind="stable")
    t = np.take_along_axis(t, order, axis=1)
    h = np.take_along_axis(np.hstack([h, height(extremes)]), order, axis=1)
    above = h >= 0
    changes = above[:, 1:] != above[:, :-1]
    place, real = _gather(changes)
    left, right = (np.take_along_axis(t, place + k, axis=1) for k in (0, 1))
    crossing = bracketed_roots(height, left, np.where(real, right, left))
    # The region ends where the height falls and begins where it rises.
    sign = np.where(np.take_along_axis(above, place, axis=1), 1.0, -1.0) * real
    mass = (sign * dense.cdf(crossing)).sum(axis=1) + above[:, -1]
    return np.clip(mass, 0.0, 1.0)


def _draws(random_state: RandomState, n: int) -> Array:
    """Uniform numbers that are not those which made y, from the same seed, (n,)."""
    return as_generator(random_state).spawn(1)[0].random(n)


def _hpd_with_atoms(observed: Observations, draws: Array) -> Array:
    """The same for laws with atoms."""
    n, values = len(observed.y), observed.atoms
    pi = observed.pmf(np.broadcast_to(values, (n, len(values))))
    own = observed.pmf(observed.y[:, None])
    found = np.where(pi > own, pi, 0.0).sum(axis=1) + draws * own[:, 0]
    rest = ~np.isin(observed.y, values)
    if rest.any():
        density = observed.density.density
        if density is None:  # an impossible value
            return np.where(rest, 1.0, found)
        some = density if observed.single else density[np.flatnonzero(rest)]
        inner = hpd_values(some, observed.y[rest])
        total = pi[rest].sum(axis=1)
        found[rest] = total + (1.0 - total) * inner
    return np.clip(found, 0.0, 1.0)


def _hidden_extremes(t: Array, h: Array, height: RowFunction) -> Array:
    """Tops that look too low, and bottoms that look too high, to cross, (n, m).

    Between the points they may cross twice. A rough place is enough for their height.
    """
    before, here, after = h[:, :-2], h[:, 1:-1], h[:, 2:]
    top = (here >= before) & (here > after) & (here < 0)
    bottom = (here <= before) & (here < after) & (here >= 0)
    place, _ = _gather(top | bottom)
    direction = np.where(np.take_along_axis(top, place, axis=1), 1.0, -1.0)
    low, high = (np.take_along_axis(t, place + k, axis=1) for k in (0, 2))
    low, high = golden_section(height, low, high, direction)
    return 0.5 * (low + high)


def _gather(chosen: Mask) -> tuple[Indices, Mask]:
    """Columns chosen in each row, filled up with others, and which are chosen."""
    most = int(chosen.sum(axis=1).max(initial=0))
    place = np.argsort(~chosen, axis=1, kind="stable")[:, :most]
    return place, np.take_along_axis(chosen, place, axis=1)


def _covered(
    values: Array, confidence: ArrayLike, sample_weight: ArrayLike | None
) -> Array:
    levels = check_open("confidence", confidence)
    found = [weighted_mean(values <= level, sample_weight) for level in levels]
    return np.reshape(found, np.shape(confidence))[()]
