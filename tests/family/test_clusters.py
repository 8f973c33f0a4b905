"""Planes between clusters, and masses on either side of them by a fit and by counts."""

import warnings

import numpy as np
import pytest

from kexpfam import KEF
from kexpfam.errors import BlindnessWarning
from kexpfam.family.blindness import check_masses
from kexpfam.family.clusters import find_gaps
from tests.tolerances import assert_close


def clusters(middles, counts, seed=0, sd=0.5):
    """Rows around middles, and the number of the cluster of each."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(middles)), counts)
    noise = rng.normal(size=(len(label), len(middles[0])))
    return np.asarray(middles, float)[label] + sd * noise, label


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("middles", "cuts"),
    [
        ([[0, 0], [12, 0]], 1),
        ([[0, 0], [10, 0], [30, 0]], 2),
        ([[0, 0], [12, 0], [0, 12]], 2),
        ([[0, 0, 0], [9, 9, 9]], 1),
    ],
    ids=["two", "in a line", "triangle", "space"],
)
def test_gaps_are_planes_that_leave_whole_clusters_on_either_side(middles, cuts, seed):
    U, label = clusters(middles, 80, seed)
    gaps = find_gaps(U, np.ones(len(U)))
    seen = set()
    for gap in gaps:
        assert_close(np.linalg.norm(gap.direction), 1.0)
        below = gap.below(U)
        np.testing.assert_array_equal(below, U @ gap.direction < gap.place)
        assert 0.05 <= below.mean() <= 0.95
        shares = [below[label == k].mean() for k in range(len(middles))]
        # A line through parts of one cluster may find a gap that is chance.
        if all(min(share, 1.0 - share) < 0.05 for share in shares):
            seen.add(tuple((share > 0.5) != (shares[0] > 0.5) for share in shares))
    seen -= {(False,) * len(middles)}
    assert cuts <= len(seen)  # all are told apart
    sides = [gap.below(U) for gap in gaps]
    sides = {tuple(np.where(side[0], side, ~side).tolist()) for side in sides}
    assert len(sides) == len(gaps)  # no cut twice


def test_clusters_of_few_rows_and_single_clouds_have_no_gaps():
    U, _ = clusters([[0, 0], [12, 0]], [200, 6])
    assert find_gaps(U, np.ones(206)) == []  # less than a twentieth
    assert find_gaps(U[:200], np.ones(200)) == []
    assert find_gaps(np.tile(U[:1], (50, 1)), np.ones(50)) == []
    # Weights count rows: with those of many, the few are a cluster.
    weights = np.where(np.arange(206) < 200, 1.0, 20.0)
    assert find_gaps(U, weights)


def fitted(Y, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        model = KEF(select=None, fit_method="score", random_state=0)
        return model.fit(Y, sample_weight=weights)


def test_masses_in_the_plane_are_those_of_the_density_and_of_the_rows():
    Y, label = clusters([[0, 0], [5, 0]], [90, 210])
    model = fitted(Y)
    report = check_masses(model.family_, np.empty((300, 0)), Y, np.ones(300))
    (one,) = {c.index for c in report.comparisons}
    assert one is None
    step = 0.05
    a, b = np.meshgrid(np.arange(-4, 10, step), np.arange(-4, 4, step), indexing="ij")
    points = np.column_stack([a.ravel(), b.ravel()])
    mass = np.exp(model.score_samples(points)) * step**2
    assert_close(mass.sum(), 1.0, 1e-3)
    left = mass[points[:, 0] < 2.5].sum()
    for comparison in report.comparisons:
        around, away = comparison.sides
        low = comparison.predicted if around[0] < away[0] else 1 - comparison.predicted
        share = comparison.observed if around[0] < away[0] else 1 - comparison.observed
        assert_close(low, left, 0.02, scale=1.0)  # by 2,000 points
        assert_close(share, 0.3)
        ends = sorted([around, away])
        for found, k in zip(ends, (0, 1), strict=True):
            assert_close(found, Y[label == k].mean(axis=0))
        assert_close(comparison.neighbours, 300.0)
    assert "around" in report.finding
