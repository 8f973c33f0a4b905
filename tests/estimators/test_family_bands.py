"""Error bars of a single family: replicates of `KCEF` and `KEF`, and of their files."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import kexpfam
from kexpfam import KCEF, KEF
from kexpfam.base_densities import MarginalBase
from kexpfam.datasets import make_skewed
from kexpfam.estimators import fitting
from kexpfam.kernels import Gaussian
from kexpfam.selection.bootstrap import family_replicate

NEW, POINTS = np.array([[0.2], [0.6]]), np.array([[0.5, 1.5, 3.0]])
SETTLED = {
    "kernel_x": Gaussian(1.5),
    "kernel_y": Gaussian(1.0),
    "regularization": 0.05,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def rows():
    return make_skewed(60, random_state=0)


@pytest.fixture(scope="module")
def model(rows):
    return KCEF(**SETTLED, bootstrap=4).fit(*rows)


@pytest.fixture(scope="module")
def column(rows):
    return KEF(select=None, bootstrap=4, random_state=0).fit(rows.y[:, None])


def test_replicates_of_a_family_change_nothing_else(model, rows):
    plain = KCEF(**SETTLED).fit(*rows)
    np.testing.assert_array_equal(
        plain.score_samples(*rows), model.score_samples(*rows)
    )
    assert plain.replicates_ == ()
    assert len(model.replicates_) == 4
    with pytest.raises(ValueError, match=r"KCEF\(bootstrap=10\)"):
        plain.given(NEW).band()


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_a_band_of_a_family_is_what_its_replicates_say(model, level):
    """√p ± t √var, by loops; there are no members that could disagree."""
    p, band = model.given(NEW), model.given(NEW).band(level, POINTS)
    each = [q.pdf(POINTS) for q in model._replicated(NEW)]
    factor = stats.t(3).ppf(0.5 + 0.5 * level)
    for i in range(2):
        for j in range(3):
            roots = [own[i, j] ** 0.5 for own in each]
            mean = sum(roots) / 4
            std = (sum((root - mean) ** 2 for root in roots) / 3) ** 0.5
            root = p.pdf(POINTS)[i, j] ** 0.5
            low, high = max(root - factor * std, 0.0), root + factor * std
            assert band.lower[i, j] == pytest.approx(low**2, rel=1e-9, abs=1e-12)
            assert band.upper[i, j] == pytest.approx(high**2, rel=1e-9)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"n_components": 15},
        {"fit_method": "likelihood"},
        {"fit_method": "bridged", "base": None},
        {"base": "gaussian_process"},
        {"base": MarginalBase()},
        {"lower": 0.0},
    ],
    ids=lambda how: "-".join(map(str, how)) or "exact",
)
def test_equal_weights_give_the_family_again(rows, how, monkeypatch):
    kept = []

    def keep(*arguments, **options):
        kept.append(arguments)
        return ()

    monkeypatch.setattr(fitting, "fit_family_replicates", keep)
    model = KCEF(**SETTLED, **how, bootstrap=2).fit(*rows)
    family, selected, method, count = kept[0]
    assert count == 2
    threes = np.full(len(selected.placed), 3.0)  # only ratios matter
    found = family_replicate(family, selected, method, threes)
    u = np.quantile(family.T.Y, [0.1, 0.5, 0.9])
    x = np.full((1, 1), 0.4)
    y = _users(family, x, u)
    expected, given = (one.density(x).logpdf(y) for one in (family, found))
    np.testing.assert_allclose(given, expected, atol=1e-6)
    assert found.solver == family.solver == model.solver_


def _users(family, x, u):
    """Points of the kernel's coordinates at x, as the user sees them, (1, q)."""
    there = family.coordinates.at(family.coordinates.conditions(x))
    return there.to_user(u[None, :, None])[..., 0]


def test_what_is_chosen_is_kept_by_replicates(rows):
    model = KCEF(random_state=0, bootstrap=2, base="linear").fit(*rows)
    for family in model.replicates_:
        assert family.T.kernel == model.kernel_
        assert family.lam == model.regularization_
        assert len(family.T.Y) == len(model.family_.T.Y)
    # Regressions are learned again.
    centers = [f.coordinates.y_center[0] for f in (model.family_, *model.replicates_)]
    assert len(set(centers)) == 3


def test_one_column_has_a_band_and_a_ribbon(column):
    plt = pytest.importorskip("matplotlib.pyplot")
    p = column.distribution()
    y = p.quantile([0.1, 0.5, 0.9])
    band = p.band(0.9, y)
    assert band.lower.shape == (3,)
    assert np.all((band.lower < p.pdf(y)) & (p.pdf(y) < band.upper))
    assert len(column.plot(band=0.9).collections) == 1
    plt.close("all")


def test_a_picture_of_a_family_has_ribbons(model):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = model.given(NEW).plot(band=0.9)
    assert len(ax.lines) == len(ax.collections) == 2
    plt.close("all")


def test_files_hold_replicates_of_a_family(model, column, tmp_path):
    model.save(tmp_path / "a.kexpfam")
    loaded = kexpfam.load(tmp_path / "a.kexpfam")
    assert loaded.bootstrap == 4
    ours, theirs = (m.given(NEW).band(0.8, POINTS) for m in (model, loaded))
    np.testing.assert_allclose(theirs.upper, ours.upper, rtol=1e-9)
    column.save(tmp_path / "b.kexpfam")
    ours, theirs = (
        m.distribution().band(0.8, POINTS[0])
        for m in (column, kexpfam.load(tmp_path / "b.kexpfam"))
    )
    np.testing.assert_allclose(theirs.lower, ours.lower, rtol=1e-9)


def test_bounds_hold_for_bands(rows):
    model = KCEF(**SETTLED, lower=0.0, bootstrap=3).fit(*rows)
    band = model.given(NEW).band(0.9, [[-0.5, 1.0]])
    np.testing.assert_array_equal(band.upper[:, 0], 0.0)
    assert np.all(band.upper[:, 1] > band.lower[:, 1])


def test_rows_that_are_kept_have_bands_again_and_sums_have_none(rows):
    X, y = rows
    some = KCEF(**SETTLED, bootstrap=2).partial_fit(X[:40], y[:40])
    some.partial_fit(X[40:], y[40:])
    whole = KCEF(**SETTLED, bootstrap=2).fit(X, y)
    np.testing.assert_allclose(
        some.given(NEW).band(0.9, POINTS).upper,
        whole.given(NEW).band(0.9, POINTS).upper,
        rtol=1e-6,
    )
    summed = KCEF(**SETTLED, n_components=9, bootstrap=2).fit(X[:40], y[:40])
    assert np.isfinite(summed.given(NEW).band(0.9, POINTS).upper).all()
    summed.partial_fit(X[40:], y[40:])
    with pytest.raises(ValueError, match="added to sums by partial_fit or merge"):
        summed.given(NEW).band()


@pytest.mark.parametrize("value", [1, -1, 2.5, True])
def test_numbers_of_replicates_of_a_family_are_checked(rows, value):
    with pytest.raises(ValueError, match="bootstrap must be"):
        KCEF(select=None, bootstrap=value).fit(*rows)
    with pytest.raises(ValueError, match="bootstrap must be"):
        KEF(select=None, bootstrap=value).fit(rows.y[:, None])


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"solver": "iterative", "n_components": 10}, "solver='iterative'"),
        ({"derivative_features": True, "n_components": 10}, "derivative_features"),
    ],
)
def test_fits_without_replicates_say_so(rows, how, what):
    with pytest.raises(ValueError, match=f"bootstrap=2 is not available for {what}"):
        KCEF(**SETTLED, **how, bootstrap=2).fit(*rows)


def test_several_columns_and_censored_rows_have_no_replicates(rows):
    X, y = rows
    both = np.column_stack([y, y + X[:, 0]])
    with pytest.raises(ValueError, match="not available for several columns of y"):
        KCEF(**SETTLED, bootstrap=2).fit(X, both)
    with pytest.raises(ValueError, match="not available for several columns of X"):
        KEF(select=None, bootstrap=2).fit(both)
    with pytest.raises(ValueError, match="not available for censored rows"):
        KCEF(bootstrap=2).fit(X, y, censoring=y > 3.0)


def test_rows_beyond_memory_have_no_replicates(rows, monkeypatch):
    X, y = rows
    few = replace(KCEF._limits, design_rows=20)
    monkeypatch.setattr(KCEF, "_limits", few)
    with pytest.raises(ValueError, match="rows that are not all in memory"):
        KCEF(**SETTLED, n_components=9, bootstrap=2).fit(X, y)


@pytest.mark.slow
def test_bands_hold_the_truth_about_as_often_as_they_say():
    """50 fits to normal rows whose family is right: bias is small, bands are honest."""
    y, level, held = np.linspace(-1.5, 1.5, 7), 0.9, []
    for seed in range(50):
        data = np.random.default_rng(seed).normal(size=(200, 1))
        p = KEF(random_state=0, bootstrap=12).fit(data).distribution()
        band, truth = p.band(level, y), stats.norm.pdf(y)
        held.append(np.mean((band.lower <= truth) & (truth <= band.upper)))
    share, error = np.mean(held), np.std(held) / 50**0.5
    assert abs(share - level) < max(0.06, 3 * error)
