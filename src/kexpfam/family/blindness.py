"""Whether a fitted family has the masses of isolated components wrong.

Score matching is blind to them. `check_isolated_components` compares densities on nodes
with counts; here are the nodes, the rows and the neighbourhoods that it needs, few
enough to cost little beside any fit.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from kexpfam._heuristics import median_distance
from kexpfam._typing import Array, Indices
from kexpfam.family.clusters import find_gaps
from kexpfam.family.coordinates import CoordinateRows
from kexpfam.family.cross_validation import scattered_nodes
from kexpfam.family.family import MEDIANS_X, FittedFamily
from kexpfam.family.isolated_components import (
    CHECK,
    IsolatedComponents,
    MassComparison,
    check_isolated_components,
    compare_masses,
    nothing_to_compare,
    spread_out,
)
from kexpfam.kernels import Gaussian


def check_masses(
    family: FittedFamily,
    X: Array,
    Y: Array,
    weights: Array,
    *,
    placed: CoordinateRows | None = None,
    density: Callable[[Array], Any] | None = None,
    most_rows: int = CHECK.enough_rows,
    most_numbers: int = 2**27,
    conditions: int = 20,
) -> IsolatedComponents:
    """Masses of components (of clusters, with several columns) by a fit and by counts.

    Valleys are in the units of Y, and row numbers those of X. Rows are counted in the
    neighbourhood of some conditions, and all together; where each has its own density,
    as many as an error of 0.05 needs to show. They are fewer where a kernel is no
    product, and nodes and centres are so many that a second would be spent.

    Args:
        family: Whose coordinates, nodes and kernel are looked at.
        X: Conditions of the training rows, (n, p).
        Y: Their responses, (n, d).
        weights: Their weights, (n,).
        placed: The same rows in the coordinates of the family, held out where these
            are learned from y; None to bring them there like new rows.
        density: Normalised densities at conditions (n, p) that are checked instead of
            those of the family, such as those of an average that it is the best of.
        most_rows: Rows at most.
        most_numbers: Rows times nodes times centres at most; without a product kernel.
        conditions: Where masses are compared.
    """
    if family.d > 1:
        return _check_clusters(family, X, Y, weights)
    rows = np.flatnonzero(weights > 0)
    alike = not family.coordinates.p or family.T.kernel.constant_in_x
    alike = alike and density is None
    if not alike and len(rows) > most_rows:
        rows = np.random.default_rng(0).choice(rows, most_rows, replace=False)
    if placed is None:
        Z = family.coordinates.conditions(X[rows])
        coordinates = family.coordinates.at(Z)
        u = coordinates.to_kernel(Y[rows][:, None])[:, 0, 0]
    else:
        Z, u = placed.Z[rows], placed.U[rows, 0]
        coordinates = family.coordinates.at(Z)
    nodes = _nodes(family, u)
    if len(nodes) < 3 or not np.isfinite(u).all():
        return IsolatedComponents(())
    # Values of products of kernels on nodes are one product.
    fewest = most_rows if family.T.kernel.products else 300
    affordable = max(fewest, most_numbers // (len(nodes) * len(family.T.Y)))
    if not alike and len(rows) > affordable:
        some = np.random.default_rng(0).choice(len(rows), affordable, replace=False)
        rows, Z, u = rows[some], Z[some], u[some]
        coordinates = coordinates.rows(some)
    counts = weights[rows] / weights[rows].max()  # only ratios matter; no overflow
    if alike:
        log_p = family.unnormalized(Z[:1]).on_grid(nodes[:, None])
        report = check_isolated_components(nodes, log_p, u, counts)
        if not report.comparisons:
            return _in_units_of_y(family, coordinates, Z, nodes, Y[rows, 0], counts)
    else:
        index = spread_out(Z, conditions)
        near = _similarity(family, Z, index, counts)
        if density is not None:
            there = np.broadcast_to(nodes[:, None], (len(Z), len(nodes), 1))
            y = coordinates.to_user(there)
            log_p = density(X[rows]).logpdf(y[:, :, 0]) + coordinates.log_volume(y)
        elif _unimodal(family, Z, nodes, u, counts, index, near):
            return IsolatedComponents((), conditional=True)
        else:
            log_p = family.unnormalized(Z).on_grid(nodes[:, None])
        report = check_isolated_components(
            nodes, log_p, u, counts, neighbours=near, index=index
        )
    return _at_rows(report, coordinates, rows)


def _at_rows(
    report: IsolatedComponents, coordinates: Any, rows: Indices
) -> IsolatedComponents:
    """The same with valleys in the units of the user, and with the numbers of rows."""
    found = []
    for comparison in report.comparisons:
        k = comparison.index
        # Components that all rows share are reported where the middle row has them.
        place = coordinates.rows([len(rows) // 2 if k is None else k])
        valley = float(place.to_user(np.full((1, 1, 1), comparison.valley))[0, 0, 0])
        row = None if k is None else int(rows[k])
        found.append(replace(comparison, index=row, valley=valley))
    return replace(report, comparisons=tuple(found))


def _in_units_of_y(
    family: FittedFamily,
    coordinates: Any,
    Z: Array,
    nodes: Array,
    y: Array,
    weights: Array,
    *,
    count: int = 200,
) -> IsolatedComponents:
    """The same where a transform may have closed a gap that y has.

    One that makes y normal leaves next to nothing between components, so that they
    have no valley there, and score matching is as blind as before.
    """
    own = family.coordinates
    if own.transform is None or own.location_scale is not None:
        return IsolatedComponents(())  # or rows differ in y, if not there
    first = coordinates.rows([0])
    images = first.to_user(nodes[None, :, None])[0, :, 0]
    evenly = np.linspace(y.min(), y.max(), count)
    points = np.union1d(images[np.isfinite(images)], evenly)[None, :, None]
    with np.errstate(all="ignore"):  # beyond the support of y
        there = first.to_kernel(points)[0]
        log_p = family.unnormalized(Z[:1]).on_grid(there) - first.log_volume(points)
    known = np.isfinite(there[:, 0]) & np.isfinite(log_p[0])
    if np.count_nonzero(known) < 3:
        return IsolatedComponents(())
    points, log_p = points[0, known, 0], log_p[:, known]
    return check_isolated_components(points, log_p, y, weights)


def _unimodal(
    family: FittedFamily,
    Z: Array,
    nodes: Array,
    u: Array,
    weights: Array,
    index: Indices,
    near: Array,
    *,
    some_rows: int = 200,
) -> bool:
    """Whether some of the rows show that there is nothing to compare.

    Most fits have no valleys. Masses are compared where half of the rows, all or those
    near some conditions, have one, so that these conditions and a few others tell.
    """
    some = np.union1d(index, np.arange(min(some_rows, len(Z))))
    if len(some) == len(Z):
        return False
    log_p = family.unnormalized(Z[some]).on_grid(nodes[:, None])
    return nothing_to_compare(nodes, log_p, u, weights, near)


def _check_clusters(
    family: FittedFamily,
    X: Array,
    Y: Array,
    weights: Array,
    *,
    most_rows: int = 1000,
    compared_rows: int = 300,
    conditions: int = 20,
) -> IsolatedComponents:
    """Masses on either side of gaps by a fit with several columns, and by counting.

    The former by importance sampling with points that all rows share. Gaps are looked
    for among so many rows, and densities computed for so many.
    """
    rows = np.flatnonzero(weights > 0)
    if len(rows) > most_rows:
        rows = np.random.default_rng(0).choice(rows, most_rows, replace=False)
    Z = family.coordinates.conditions(X[rows])
    U = family.coordinates.at(Z).to_kernel(Y[rows][:, None])[:, 0]
    gaps = find_gaps(U, weights[rows]) if np.isfinite(U).all() else []
    if not gaps:
        return IsolatedComponents(())
    points, log_weights = scattered_nodes(U)
    rows, Z, U = rows[:compared_rows], Z[:compared_rows], U[:compared_rows]
    counts = weights[rows] / weights[rows].max()
    P = special.softmax(family.unnormalized(Z).on_grid(points) + log_weights, axis=1)
    index = spread_out(Z, conditions) if Z.shape[1] else np.arange(0)
    near = (
        _similarity(family, Z, index, counts) if len(index) else np.empty((0, len(Z)))
    )
    found: list[MassComparison] = []
    for gap in gaps:
        left = gap.below(U)
        if left.all() or not left.any():
            continue
        predicted = P @ gap.below(points)
        middles = [tuple(Y[rows[side]].mean(axis=0).tolist()) for side in (left, ~left)]
        for r, own in [(None, counts), *zip(index, counts * near, strict=True)]:
            row = None if r is None else int(rows[r])
            one = compare_masses(
                row, gap.place, predicted, left, own, (middles[0], middles[1])
            )
            found += [] if one is None else [one]
    return IsolatedComponents(tuple(found))


def _nodes(
    family: FittedFamily,
    u: Array,
    *,
    step: float = 0.25,
    coarsest: float = 0.1,
    most: int = 600,
    too_coarse: float = 0.5,
    margin: float = 1.0,
) -> Array:
    """Evenly spaced nodes; none if there would have to be too many.

    Their distance is `step` lengthscales of y, or `coarsest` standard deviations of the
    responses, and they go on for so many of these beyond the responses. If the most
    nodes are too few for half a lengthscale or standard deviation, masses between them
    are not known, and nothing is said.
    """
    resolution, std = family.T.kernel.resolution, float(np.std(u))
    low, high = float(u.min()) - margin * std, float(u.max()) + margin * std
    bottom, top = family.base.column_support(0)
    low, high = max(low, bottom), min(high, top)
    distance = min(step * resolution, coarsest * std)
    distance = max(distance, (high - low) / most)
    if not distance < too_coarse * min(resolution, std):
        return np.empty(0)
    edges = np.linspace(low, high, int((high - low) / distance) + 2)
    # Middles: at the ends of a bounded support a base density may vanish.
    return 0.5 * (edges[1:] + edges[:-1])


def _similarity(
    family: FittedFamily, Z: Array, index: Indices, weights: Array
) -> Array:
    """How much the fit averages over other rows around some of them, (r, n)."""
    products = family.T.kernel.products
    if not products:
        own = Gaussian(MEDIANS_X * median_distance(Z, weights))
        return own.values(Z[index], Z)
    similarities = [kx.values(Z[index], Z) for kx, _ in products]
    near = np.maximum(np.sum(similarities, axis=0), 0.0)
    # Powers of it are taken: it must not exceed one.
    return np.asarray(near / np.maximum(near.max(axis=1, keepdims=True), 1e-300))
