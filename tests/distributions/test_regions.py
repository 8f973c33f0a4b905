"""Highest-density regions of densities whose levels are known, cell by cell."""

import itertools

import numpy as np
import pytest
from scipy import stats

from kexpfam.distributions.regions import highest_density_regions
from kexpfam.partition import CellDensity, cell_nodes
from tests.tolerances import assert_close


def steps(edges, masses):
    """Densities that are constant on each cell, with these masses, (n, k)."""
    width = np.diff(edges)
    heights = np.divide(masses, width, out=np.zeros_like(masses), where=width > 0)
    return CellDensity(
        np.broadcast_to(edges, (len(masses), np.shape(edges)[-1])),
        np.repeat(heights[..., None], 16, axis=2),
    )


def slow_region(edges, mass, confidence):
    """All cells above the level, and of each stretch at it the same share."""
    heights = np.round(mass / np.diff(edges), 12)
    inside, kept = 0.0, []
    for level in np.unique(heights)[::-1]:
        here = mass[heights == level].sum()
        if inside + here > confidence:
            break
        kept += [(edges[c], edges[c + 1]) for c in np.flatnonzero(heights == level)]
        inside += here
    share = (confidence - inside) / here
    same = np.append(np.flatnonzero(heights == level), -9)
    first = None
    for place, after in itertools.pairwise(same):
        first = place if first is None else first
        if after == place + 1:
            continue
        a, b = edges[first], edges[place + 1]
        left = first > 0 and heights[first - 1] > level
        right = place + 1 < len(heights) and heights[place + 1] > level
        size = share * (b - a)
        if right:
            kept.append((b - size, b))
        elif left:
            kept.append((a, a + size))
        else:
            kept.append((0.5 * (a + b - size), 0.5 * (a + b + size)))
        first = None
    joined = []
    for a, b in sorted(pair for pair in kept if pair[1] - pair[0] > 1e-9):
        if joined and a - joined[-1][1] < 1e-9:
            joined[-1][1] = b
        else:
            joined.append([a, b])
    return np.array(joined)


EDGES = np.array([-1.0, 0.0, 0.5, 2.0, 2.5, 4.0, 7.0])
MASSES = {
    "one top": [0.05, 0.1, 0.6, 0.15, 0.09, 0.01],
    "falling": [0.5, 0.2, 0.2, 0.04, 0.05, 0.01],
    "two tops": [0.05, 0.3, 0.05, 0.3, 0.2, 0.1],
    "flat on four cells": [0.2, 0.1, 0.3, 0.1, 0.2, 0.1],
    "a top beside a plateau": [0.1, 0.05, 0.15, 0.25, 0.15, 0.3],
    "an empty cell": [0.3, 0.2, 0.0, 0.2, 0.2, 0.1],
}


@pytest.mark.parametrize("confidence", [0.07, 0.33, 0.5, 0.77, 0.93])
def test_regions_of_steps_are_the_highest_of_them(confidence):
    table = np.array(list(MASSES.values()))
    found = highest_density_regions(steps(EDGES, table), confidence)
    for region, mass in zip(found, table, strict=True):
        assert_close(region, slow_region(EDGES, mass, confidence), 1e-7)


@pytest.mark.parametrize("confidence", [0.2, 0.62, 0.9])
def test_a_plateau_keeps_the_same_share_of_each_of_its_stretches(confidence):
    """A uniform density, and one with a top in the middle, at either end, or two."""
    edges = np.linspace(0.0, 8.0, 9)
    flat = np.full(8, 0.05)
    tops = [[], [3], [0], [7], [2, 5], [0, 7]]
    for top in tops:
        mass = flat.copy()
        mass[top] += (1.0 - flat.sum()) / max(1, len(top))
        mass /= mass.sum()
        (region,) = highest_density_regions(steps(edges, mass[None]), confidence)
        if confidence > mass[top].sum():
            assert_close(region, slow_region(edges, mass, confidence), 1e-7)
        cells = steps(edges, mass[None])
        assert_close(
            np.diff(cells.cdf(region.reshape(1, -1)))[0, ::2].sum(), confidence
        )


def test_each_row_has_cells_of_its_own_and_some_of_them_are_empty():
    table = np.array([MASSES["one top"], MASSES["two tops"]])
    edges = np.stack([EDGES, 3.0 * EDGES - 1.0])
    wide = np.insert(edges, [2, 6], edges[:, [2, 6]], axis=1)  # cells without width
    full = steps(edges, table)
    density = np.insert(full.density, [2, 6], 0.0, axis=1)
    for k, cells in enumerate((full, CellDensity(wide, density))):
        found = highest_density_regions(cells, 0.6)
        for region, own, mass in zip(found, edges, table, strict=True):
            assert_close(region, slow_region(own, mass, 0.6), 1e-7, scale=10.0 + k)


@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("count", [3, 40])
def test_regions_of_smooth_laws_are_those_of_scipy(confidence, count):
    """Laws of one top, for which the region has two ends of the same density."""
    laws = [stats.norm(0.3, 1.1), stats.gamma(4.0, scale=0.6), stats.gumbel_r(1.0, 0.5)]
    edges = np.stack([np.linspace(*law.ppf([1e-13, 1 - 1e-13]), 61) for law in laws])
    nodes = cell_nodes(edges[:, :-1], edges[:, 1:])
    density = np.stack([law.pdf(y) for law, y in zip(laws, nodes, strict=True)])
    rows = np.arange(count) % 3
    found = highest_density_regions(CellDensity(edges[rows], density[rows]), confidence)
    assert len(found) == count
    for row, region in zip(rows, found, strict=True):
        (low, high), law = region[0], laws[row]
        assert len(region) == 1
        assert_close(law.cdf(high) - law.cdf(low), confidence, 1e-8)
        assert_close(law.pdf(high), law.pdf(low), 1e-6)


def test_tops_between_samples_are_seen():
    """Tops of a wave of many periods, all as high: the region is the same of each."""
    edges = np.linspace(0.0, 9.0, 37)
    nodes = cell_nodes(edges[:-1], edges[1:])
    density = (1.0 + np.cos(2.0 * np.pi * (nodes - 0.431))) / 9.0
    (region,) = highest_density_regions(CellDensity(edges[None], density[None]), 0.02)
    assert len(region) == 9
    assert_close(region.mean(axis=1), 0.431 + np.arange(9.0), 1e-6)
    # ∫ 1 + cos over [−h, h], in shares of a period
    half = 0.5 * np.diff(region, axis=1)[:, 0]
    mass = 2.0 * half + np.sin(2.0 * np.pi * half) / np.pi
    assert_close(mass, np.full(9, 0.02), 1e-6)
