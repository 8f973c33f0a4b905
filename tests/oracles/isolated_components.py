"""Masses of isolated components, compared row by row and node by node."""

import math

import numpy as np
from scipy import signal, stats

# What is said of the check: tests of the constants themselves are elsewhere.
DEPTH, MOST_INSIDE, LEAST_COMMON = 0.1, 0.05, 0.5
FEWEST, SMALLEST, NEGLIGIBLE = 15.0, 0.05, 1e-3


def effective(weights):
    return sum(weights) ** 2 / sum(w * w for w in weights) if sum(weights) else 0.0


def slow_cdf(nodes, log_p):
    """Distribution function at nodes by trapezia."""
    p, total = np.exp(log_p - log_p.max()), [0.0]
    for k in range(1, len(nodes)):
        total.append(total[-1] + (nodes[k] - nodes[k - 1]) * (p[k] + p[k - 1]) / 2)
    return np.array(total) / total[-1]


def slow_valleys(nodes, log_p):
    """Where, from where, up to where, and mass on the left, of each deep valley."""
    steps, cdf = np.arange(len(nodes)), slow_cdf(nodes, log_p)
    depth = -np.maximum(log_p, log_p.max() - 700.0)
    place, found = signal.find_peaks(depth, prominence=-math.log(DEPTH))
    above = found["prominences"] + math.log(DEPTH)
    bases = (above, found["left_bases"], found["right_bases"])
    _, _, low, high = signal.peak_widths(depth, place, 1.0, prominence_data=bases)
    ends = np.interp(low, steps, nodes), np.interp(high, steps, nodes)
    separate = any(NEGLIGIBLE < cdf[k] < 1.0 - NEGLIGIBLE for k in place)
    rows = zip(nodes[place], *ends, cdf[place], found["prominences"], strict=True)
    return list(rows) if separate else []


def slow_comparison(below, left, near):
    """Predicted and observed shares, the error of the second, effective number."""
    n, total = effective(near), sum(near)
    predicted = sum(w * b for w, b in zip(near, below, strict=True)) / total
    observed = sum(w * b for w, b in zip(near, left, strict=True)) / total
    smaller = max(min(mass, 1.0 - mass) for mass in (predicted, observed))
    if n < FEWEST or smaller < SMALLEST:
        return None
    center = (n * observed + 2.0) / (n + 4.0)
    return predicted, observed, math.sqrt(center * (1 - center) / (n + 4.0)), n


def slow_gaps(nodes, U, near):
    """Valleys of a kernel density estimate of half of Silverman's bandwidth."""
    if effective(near) < FEWEST:
        return []
    share = near / near.sum()
    mean = sum(share * U)
    std = math.sqrt(sum(share * (U - mean) ** 2))
    h = 0.5 * 0.9 * std * effective(near) ** -0.2
    histogram = [
        math.log(
            sum(
                s * math.exp(-0.5 * ((y - u) / h) ** 2)
                for s, u in zip(share, U, strict=True)
                if s > 1e-3 * share.max()
            )
            + 1e-12
        )
        for y in nodes
    ]
    return [
        valley
        for valley in slow_valleys(nodes, np.array(histogram))
        if sum(s for s, u in zip(share, U, strict=True) if valley[1] < u < valley[2])
        <= MOST_INSIDE
    ]


def slow_chance(near, U, low, high):
    """A sign test: responses inside, against those around the median outside."""
    width = np.broadcast_to(high - low, U.shape)
    share = near / near.sum()
    beyond = [low - U, U - high]  # how far, on the left and on the right
    sides = [share[side > 0].sum() for side in beyond]
    side = beyond[1] if sides[1] < sides[0] else beyond[0]
    inside = share[(beyond[0] <= 0) & (beyond[1] <= 0)].sum()
    order = sorted(np.flatnonzero(side > 0), key=lambda a: side[a])
    total, median = 0.0, 0.0
    for a in order:
        total += near[a]
        median = side[a]
        if total >= 0.5 * near[side > 0].sum():
            break
    place = np.maximum(median, 0.5 * width)
    beside = share[(side > 0) & (np.abs(side - place) <= 0.5 * width)].sum()
    rows = effective(near)
    few, both = math.floor(rows * inside), max(1, round(rows * (inside + beside)))
    return stats.binom.cdf(min(few, both), both, 0.5)


def slow_check(nodes, log_p, U, weights, neighbours=None, narrowed=None):
    """All comparisons: row or None, valley, four numbers, and the chance of a gap."""
    shared = len(log_p) == 1
    every = [slow_valleys(nodes, row) for row in log_p]
    some = [own for own in every if own]
    deepest = max(some, key=lambda own: max(v[4] for v in own), default=[])
    cdfs = [slow_cdf(nodes, row) for row in log_p]

    def of_row(a):
        return every[0 if shared else a]

    def at_fitted(r, valley, near):
        """At that valley of each row which overlaps this one and is nearest to it."""
        at, low, high, *_ = valley
        used, below, left, inside = np.zeros(len(U)), *np.zeros((3, len(U)))
        lows, highs = np.zeros(len(U)), np.zeros(len(U))
        for a in range(len(U)):
            both = [v for v in of_row(a) if v[1] < high and v[2] > low]
            if both:
                own = min(both, key=lambda v: abs(v[0] - at))
                used[a], below[a], left[a] = near[a], own[3], own[0] > U[a]
                lows[a], highs[a] = own[1:3]
                inside[a] = own[1] < U[a] < own[2]
        if used.sum() < LEAST_COMMON * near.sum():
            return
        if (used * inside).sum() / used.sum() > MOST_INSIDE:
            return
        numbers = slow_comparison(below, left, used)
        if numbers:
            found.append((r, at, *numbers, slow_chance(used, U, lows, highs)))

    def compare(r, own, near, narrow):
        if effective(narrow) < FEWEST:
            return
        for valley in own:
            at_fitted(r, valley, near)
        for at, low, high, *_ in slow_gaps(nodes, U, narrow):
            below = [np.interp(at, nodes, cdfs[0 if shared else a]) for a in range(n)]
            numbers = slow_comparison(below, at > U, near)
            if numbers:
                chances = [slow_chance(w, U, low, high) for w in (narrow, near)]
                found.append((r, at, *numbers, min(1.0, 2.0 * min(chances))))

    def followed():
        """Each row at its own valleys, of rows with as many as most have."""
        votes = {}
        for a in range(n):
            if every[a]:
                votes[len(every[a])] = votes.get(len(every[a]), 0.0) + weights[a]
        if not votes:
            return
        common = max(sorted(votes), key=lambda k: votes[k])
        used = np.array(
            [w * (len(v) == common) for w, v in zip(weights, every, strict=True)]
        )
        if used.sum() < LEAST_COMMON * weights.sum():
            return
        for k in range(common):
            own = [v[k] if len(v) == common else (0.0,) * 5 for v in every]
            at, low, high, below, _ = np.array(own).T
            inside = (low < U) & (high > U)
            if (used * inside).sum() / used.sum() > MOST_INSIDE:
                continue
            numbers = slow_comparison(below, at > U, used)
            if numbers:
                middle = np.median(at[used > 0])
                chance = slow_chance(used, U, low, high)
                found.append((None, middle, *numbers, chance))

    found, n = [], len(U)
    compare(None, deepest, weights, weights)
    if neighbours is not None and not shared:
        followed()
        for r, near in enumerate(neighbours):
            compare(r, every[r], weights * near, weights * narrowed(near))
    return found
