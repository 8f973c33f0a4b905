"""The shape contract: n densities or one, one column or several, one point or many."""

import numpy as np
import pytest

from tests.tolerances import assert_close

PER_POINT = ("logpdf", "pdf", "grad_logpdf")
PER_POINT_1D = (*PER_POINT, "cdf", "sf")


@pytest.mark.parametrize("method", PER_POINT_1D)
@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (3,)), ((3,), (3,)), ((3, 5), (3, 5)), ((1, 5), (3, 5)), ((3, 1), (3, 1))],
    ids=str,
)
def test_n_densities_of_one_column(gaussian_case, method, shape, expected):
    y = np.full(shape, 5.0)
    values = getattr(gaussian_case.density, method)(y)
    assert values.shape == expected
    flat = getattr(gaussian_case.density, method)(np.full(3, 5.0))
    assert_close(
        values, np.broadcast_to(flat.reshape(3, *[1] * (len(expected) - 1)), expected)
    )


@pytest.mark.parametrize("method", PER_POINT_1D)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,)], ids=str)
def test_one_density_of_one_column(gaussian_case, method, shape):
    values = getattr(gaussian_case.density[1], method)(np.full(shape, 5.0))
    assert np.shape(values) == shape
    expected = getattr(gaussian_case.density, method)(np.full(3, 5.0))[1]
    assert_close(values, np.full(shape, expected))


@pytest.mark.parametrize("shape", [(), (1,), (4,)], ids=str)
def test_quantiles_of_one_density_have_the_shape_of_the_levels(gaussian_case, shape):
    assert np.shape(gaussian_case.density[0].ppf(np.full(shape, 0.3))) == shape


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (3,)), ((3,), (3,)), ((1, 4), (3, 4)), ((3, 4), (3, 4))],
)
def test_quantiles_of_n_densities(gaussian_case, shape, expected):
    assert gaussian_case.density.ppf(np.full(shape, 0.3)).shape == expected


SUMMARIES_1D = ("mean", "median", "mode", "var", "std", "entropy")


@pytest.mark.parametrize("method", SUMMARIES_1D)
def test_summaries_of_one_column(gaussian_case, method):
    values = getattr(gaussian_case.density, method)()
    assert values.shape == (3,)
    for i, one in enumerate(gaussian_case.density):
        alone = getattr(one, method)()
        assert np.shape(alone) == ()
        assert_close(alone, values[i], 1e-9)


def test_other_shapes_of_one_column(gaussian_case):
    p = gaussian_case.density
    assert p.log_partition.shape == p.log_partition_error.shape == (3,)
    assert np.shape(p[0].log_partition) == np.shape(p[0].log_partition_error) == ()
    assert p.support.shape == (3, 2)
    assert p[0].support.shape == (2,)
    assert p.rvs().shape == (3, 1)
    assert p.rvs(4).shape == (3, 4)
    assert p[0].rvs(4).shape == (4,)
    assert p.interval().shape == (3, 2)
    assert isinstance(p.hpd(), list)
    assert p[0].hpd().shape[1] == 2


@pytest.mark.parametrize("fixture", ["plane_case", "space_case"])
@pytest.mark.parametrize("method", PER_POINT)
def test_several_columns(fixture, method, request):
    case = request.getfixturevalue(fixture)
    p, (_, d) = case.density, case.family.U.shape
    n = len(p)
    tail = (d,) if method == "grad_logpdf" else ()
    point = case.family.center
    call = getattr(p, method)
    flat = call(np.tile(point, (n, 1)))
    assert flat.shape == (n, *tail)
    for shape, expected in (
        ((), (n,)),
        ((n,), (n,)),
        ((n, 4), (n, 4)),
        ((1, 4), (n, 4)),
    ):
        values = call(np.broadcast_to(point, (*shape, d)))
        assert values.shape == (*expected, *tail)
        wanted = flat if len(expected) == 1 else flat[:, None]
        assert_close(values, np.broadcast_to(wanted, values.shape), 1e-9)
    for shape in ((), (1,), (4,)):
        alone = getattr(p[1], method)(np.broadcast_to(point, (*shape, d)))
        assert np.shape(alone) == (*shape, *tail)
        assert_close(alone, np.broadcast_to(flat[1], np.shape(alone)), 1e-9)


@pytest.mark.parametrize("fixture", ["plane_case", "space_case"])
def test_summaries_of_several_columns(fixture, request):
    case = request.getfixturevalue(fixture)
    p, (_, d) = case.density, case.family.U.shape
    n = len(p)
    for method in ("mean", "var", "std", "mode"):
        values = getattr(p, method)()
        assert values.shape == (n, d)
        alone = getattr(p[n - 1], method)()
        assert alone.shape == (d,)
        assert_close(alone, values[n - 1], 1e-6)
    assert p.cov().shape == (n, d, d)
    assert p[0].cov().shape == (d, d)
    assert p.entropy().shape == p.log_partition.shape == (n,)
    assert np.shape(p[0].entropy()) == np.shape(p[0].log_partition) == ()
    assert p.support.shape == (n, d, 2)
    assert p[0].support.shape == (d, 2)
    assert p.rvs(3, random_state=0).shape == (n, 3, d)
    assert p[0].rvs(3, random_state=0).shape == (3, d)


@pytest.mark.parametrize(
    "shape", [(2,), (4,), (2, 5), (4, 1), (3, 5, 1), (5, 3)], ids=str
)
def test_shapes_that_fit_no_reading_are_refused_with_the_ones_that_do(
    gaussian_case, shape
):
    expected = (
        r"one point per density, shape \(3,\).*or q per density, \(3, q\).*got shape "
        rf"\({', '.join(map(str, shape))},?\) for 3 densities.*y\[None, :\]"
    )
    for method in ("logpdf", "cdf", "grad_logpdf"):
        with pytest.raises(ValueError, match=expected):
            getattr(gaussian_case.density, method)(np.full(shape, 5.0))


def test_a_single_density_refuses_more_than_one_axis_of_points(gaussian_case):
    with pytest.raises(ValueError, match=r"flat list of them.*got shape \(2, 2\)"):
        gaussian_case.density[0].logpdf(np.zeros((2, 2)))


@pytest.mark.parametrize("shape", [(), (2,), (3, 3), (3, 1)], ids=str)
def test_a_last_axis_of_the_wrong_length_is_refused(plane_case, shape):
    if shape == (2,):
        shape = (1,)
    with pytest.raises(ValueError, match="y must have a last axis of length 2"):
        plane_case.density.logpdf(np.zeros(shape))


def test_indexing_gives_one_density_and_slicing_gives_fewer(gaussian_case):
    p = gaussian_case.density
    assert len(p) == 3
    y = np.array([4.0, 5.0, 6.0])
    log_p, mean = p.logpdf(y), p.mean()
    for i in (0, 2, -1, np.int64(1)):
        assert_close(p[i].logpdf(y[i]), log_p[i], 1e-9)
    for index in (
        slice(1, None),
        slice(None, None, -1),
        [2, 0],
        np.array([1, 1]),
        np.array([True, False, True]),
    ):
        some = p[index]
        assert len(some) == len(mean[index])
        assert_close(some.logpdf(y[index]), log_p[index], 1e-9)
        assert_close(some.mean(), mean[index])
        assert_close(some.cdf(y[index]), p.cdf(y)[index])


def test_iteration_gives_every_density_in_order(gaussian_case):
    p = gaussian_case.density
    assert_close([one.mean() for one in p], p.mean())


def test_an_empty_selection_has_empty_answers(gaussian_case):
    none = gaussian_case.density[3:]
    assert len(none) == 0
    assert list(none) == []
    for method in ("mean", "median", "mode", "var", "entropy"):
        assert getattr(none, method)().shape == (0,)
    assert none.interval().shape == (0, 2)
    assert none.hpd() == []
    assert none.rvs(4).shape == (0, 4)
    assert none.logpdf(np.empty(0)).shape == (0,)


def test_indices_out_of_range_and_single_densities_say_so(gaussian_case):
    p = gaussian_case.density
    for bad in (3, -4):
        with pytest.raises(
            IndexError, match=f"density {bad} was asked for, but there are 3"
        ):
            p[bad]
    with pytest.raises(TypeError, match="A single density has no length"):
        len(p[0])
    with pytest.raises(TypeError, match="A single density cannot be indexed"):
        p[0][0]


def test_repr_tells_how_many_densities_of_how_many_columns(gaussian_case, plane_case):
    words = repr(gaussian_case.density)
    assert words.startswith("<UnivariateDensity: 3 densities of y\n")
    words = repr(plane_case.density[0])
    assert words.startswith("<MultivariateDensity: one density of y0, y1\n")


def test_rows_of_two_columns_are_selected_alike(plane_case):
    p = plane_case.density
    y = plane_case.family.center + np.array([[0.1, 0.0], [-0.2, 0.1]])
    swapped = p[[1, 0]]
    assert_close(swapped.logpdf(y[::-1]), p.logpdf(y)[::-1])
    assert_close(swapped.mean(), p.mean()[::-1])
    assert_close(swapped.cov(), p.cov()[::-1])


def test_densities_say_what_they_are_taken_with_respect_to(gaussian_case, plane_case):
    for p in (gaussian_case.density, gaussian_case.density[0], plane_case.density):
        assert p.measure == "lebesgue"


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_quantile_is_rows_by_levels_however_many_densities_there_are(gaussian_case, n):
    p = gaussian_case.density[:n]
    assert p.quantile(0.3).shape == (n,)
    for q in (0, 1, 2, 3):
        assert p.quantile(np.full(q, 0.3)).shape == (n, q)
    levels = [0.1, 0.5, 0.9]
    assert_close(p.quantile(levels), np.array([p.ppf(a) for a in levels]).T, 1e-12)


def test_quantile_of_a_single_density_has_the_shape_of_the_levels(gaussian_case):
    one = gaussian_case.density[1]
    assert np.shape(one.quantile(0.3)) == ()
    levels = [0.2, 0.7]
    assert_close(one.quantile(levels), one.ppf(levels))


def test_levels_are_called_levels_in_errors(gaussian_case):
    p = gaussian_case.density
    with pytest.raises(
        ValueError, match=r"q must have one level per.*3 densities.*use quantile\(q\)"
    ):
        p.ppf([0.1, 0.9])
    with pytest.raises(ValueError, match="q must be one level or a flat list"):
        p[0].ppf([[0.1, 0.9]])
    with pytest.raises(ValueError, match="q must be a number or an array"):
        p.ppf("a")
    with pytest.raises(ValueError, match="levels must be a number or a flat list"):
        p.quantile([[0.1, 0.9]])
    with pytest.raises(ValueError, match=r"levels must lie between 0 and 1, got 1\.1"):
        p.quantile(1.1)
