"""Cells: where levels and points lie, all rows at once."""

import numpy as np
import pytest
from numpy.polynomial import chebyshev, legendre
from scipy import integrate

from kexpfam.partition import CellDensity, cell_nodes, cell_rule, cells_holding
from tests.tolerances import assert_close


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 31, 64])
def test_cells_holding_levels_are_those_of_a_search_row_by_row(k):
    rng = np.random.default_rng(k)
    # Rounded, so that levels fall on ends of cells, and ends on each other.
    below = np.sort(rng.uniform(size=(40, k)).round(1), axis=1)
    level = rng.uniform(-0.2, 1.2, size=(40, 5)).round(1)
    pairs = zip(below, level, strict=True)
    slow = [ends.searchsorted(wanted, side="right") - 1 for ends, wanted in pairs]
    np.testing.assert_array_equal(
        cells_holding(below, level), np.clip(np.stack(slow), 0, k - 1)
    )


@pytest.mark.parametrize("own", [False, True], ids=["shared cells", "own cells"])
def test_few_points_have_the_values_that_tables_of_all_cells_give(own):
    rng = np.random.default_rng(3)
    edges = np.append(np.linspace(-6.0, 6.0, 12), 9.0)
    center, width = rng.normal(size=40), rng.uniform(0.8, 1.5, size=40)
    edges = np.add.outer(center, edges) if own else edges
    nodes = cell_nodes(edges[..., :-1], edges[..., 1:])
    u = (nodes - center[:, None, None]) / width[:, None, None]
    density = np.exp(-0.5 * u**2) / (np.sqrt(2 * np.pi) * width[:, None, None])
    few, tables = CellDensity(edges, density), CellDensity(edges, density)
    assert tables.density_table.shape == (480, 16)
    assert tables.integral_table.shape == (480, 17)
    rows = np.array([3, 17, 17, 39])
    y = rng.normal(size=(4, 2))
    for name in ("pdf", "cdf", "sf"):
        assert_close(getattr(few, name)(y, rows), getattr(tables, name)(y, rows))
    level = rng.uniform(0.01, 0.99, size=(40, 1))
    assert_close(few.ppf(level), tables.ppf(level))
    assert "density_table" not in vars(few)
    assert "integral_table" not in vars(few)


@pytest.mark.parametrize("own", [False, True], ids=["shared cells", "own cells"])
def test_tails_and_densities_in_one_go_are_those_one_after_another(own):
    rng = np.random.default_rng(4)
    edges = np.append(np.linspace(-6.0, 6.0, 12), 9.0)
    center = rng.normal(size=20)
    edges = np.add.outer(center, edges) if own else edges
    nodes = cell_nodes(edges[..., :-1], edges[..., 1:])
    density = np.exp(-0.5 * (nodes - center[:, None, None]) ** 2) / np.sqrt(2 * np.pi)
    cells = CellDensity(edges, density)
    rows = rng.integers(20, size=50)
    y = rng.normal(scale=2.0, size=50)
    y[:4] = -20.0, 20.0, edges.min(), edges.max()
    upper = rng.random(50) < 0.5
    mass, pdf = cells.tail_and_pdf(y, rows, upper)
    below, above = (f(y[:, None], rows)[:, 0] for f in (cells.cdf, cells.sf))
    assert_close(mass, np.where(upper, above, below), scale=1.0)
    assert_close(pdf, cells.pdf(y[:, None], rows)[:, 0], scale=1.0)


@pytest.mark.parametrize("own", [False, True], ids=["shared cells", "own cells"])
def test_beyond_the_cells_there_is_nothing_or_all(own):
    """Half of the mass is in either cell; the ends belong to both sides."""
    edges = np.array([0.0, 1.0, 2.0])
    edges = np.tile(edges, (2, 1)) if own else edges
    cells = CellDensity(edges, np.full((2, 2, 16), 0.5))
    y = np.tile([-np.inf, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5, np.inf], (2, 1))
    below = np.array([0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0])
    assert_close(cells.cdf(y), [below, below])
    assert_close(cells.sf(y), [1.0 - below] * 2)
    assert_close(cells.pdf(y[:, 1:-1]), [[0.0, 0.5, 0.5, 0.5, 0.5, 0.0]] * 2)
    levels = np.tile([-0.1, 0.0, 0.25, 0.5, 1.0, 1.1], (2, 1))
    assert_close(cells.ppf(levels), [[0.0, 0.0, 0.5, 1.0, 2.0, 2.0]] * 2)
    assert_close(cells.about(levels[:, 1:4]), [[0.0, 0.5, 1.0]] * 2)
    low, high = cells.around(np.tile([0.25, 0.75], (2, 1)))
    assert_close(low, [[0.0, 1.0]] * 2)
    assert_close(high, [[1.0, 2.0]] * 2)


def test_sums_over_cells_are_integrals():
    """Of a density with a polynomial on each cell, in shared cells or in own ones."""
    edges = np.array([-1.0, 0.0, 2.0, 2.5])
    nodes = cell_nodes(edges[:-1], edges[1:])
    values = 0.1 + (nodes - 0.3) ** 4
    exact = 0.1 * 3.5 + (2.2**5 + 1.3**5) / 5.0
    for own in (False, True):
        cells = CellDensity(np.tile(edges, (1, 1)) if own else edges, values[None])
        assert_close(cells.mass.sum(), exact)
        assert_close(cells.integral(np.ones(1)), [exact])
        first = 0.1 * (2.5**2 - 1.0) / 2 + 0.3 * (2.2**5 + 1.3**5) / 5.0
        first += (2.2**6 - 1.3**6) / 6.0
        assert_close(cells.integral(cells.nodes), [first])
        fine = np.linspace(-1.0, 2.5, 200_001)
        p = 0.1 + (fine - 0.3) ** 4
        assert_close(cells.entropy(), [-integrate.trapezoid(p * np.log(p), fine)], 1e-8)
        assert_close(
            cells.below[0],
            [0.0, 0.1 + (1.3**5 - 0.3**5) / 5.0, exact - cells.mass[0, 2]],
        )


def test_the_error_of_a_cell_is_the_size_of_its_last_two_coefficients():
    """Of random series of degree fifteen, in an array of any shape."""
    rng, rule = np.random.default_rng(0), cell_rule()
    series = rng.normal(size=(3, 4, 16))
    values = np.array([[legendre.legval(rule.nodes, c) for c in row] for row in series])
    slow = np.abs(series[..., 14]) + np.abs(series[..., 15])
    assert_close(rule.error(values), slow, 1e-10)
    turned = [
        [chebyshev.poly2cheb(legendre.leg2poly(c)) for c in row] for row in series
    ]
    assert_close(values @ rule.coefficients, turned, 1e-10)
    # The integral from the left end, and of all of it.
    whole = [
        [legendre.legval(1.0, legendre.legint(c, lbnd=-1)) for c in row]
        for row in series
    ]
    assert_close(values @ rule.weights, whole, 1e-10)
    ends = (values @ rule.integrals).sum(axis=-1)
    assert_close(ends, whole, 1e-10)
