"""Error bars of an average: replicates of its members, in memory and in files."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import kexpfam
from kexpfam import AutoKCEF
from kexpfam.baselines import ConditionalKDE
from kexpfam.datasets import make_skewed
from kexpfam.errors import FileFormatError
from kexpfam.estimators import average, replicates
from kexpfam.estimators.members import fit_to_all_rows
from kexpfam.selection.spec import PLAIN, default_coordinates

NEW, POINTS = np.array([[0.2], [0.6]]), np.array([[0.5, 1.5, 3.0]])


@pytest.fixture(scope="module")
def rows():
    return make_skewed(40, random_state=0)


@pytest.fixture(scope="module", autouse=True)
def few_coordinates():
    """Averages of few members, which are quick."""
    few = [spec for spec in default_coordinates() if spec.name in (PLAIN, "linear")]
    assert len(few) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: few))
        yield


@pytest.fixture(scope="module")
def kept(rows):
    """An average with replicates, and the validation that they are from."""
    found = SimpleNamespace()

    def keep(validation, *arguments, **options):
        found.validation = validation
        return replicates.fit_replicates(validation, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(average, "fit_replicates", keep)
        found.model = AutoKCEF(likelihood=False, bootstrap=3, random_state=0).fit(*rows)
    return found


@pytest.fixture(scope="module")
def model(kept):
    return kept.model


def test_replicates_change_nothing_else(model, rows):
    plain = AutoKCEF(likelihood=False, random_state=0).fit(*rows)
    np.testing.assert_array_equal(
        plain.score_samples(*rows), model.score_samples(*rows)
    )
    assert plain.replicates_ == ()
    with pytest.raises(ValueError, match=r"AutoKCEF\(bootstrap=10\)"):
        plain.given(NEW).band()


def test_a_band_holds_the_density(model):
    p = model.given(NEW)
    band = p.band(0.9, POINTS)
    assert np.all((band.lower < p.pdf(POINTS)) & (p.pdf(POINTS) < band.upper))


@pytest.mark.slow
def test_a_band_is_reproduced(model, rows):
    band = model.given(NEW).band(0.9, POINTS)
    again = AutoKCEF(likelihood=False, bootstrap=3, random_state=0).fit(*rows)
    np.testing.assert_allclose(again.given(NEW).band(0.9, POINTS).upper, band.upper)


def test_replicates_vary_about_the_fit(model):
    p = model.given(NEW)
    logs = np.array([q.logpdf(POINTS) for q in model._law._replicated(NEW)])
    assert np.all(logs.std(axis=0) > 0)
    # They are densities of the same kind, some way off.
    assert np.abs(logs.mean(axis=0) - p.logpdf(POINTS)).max() < 1.0


def test_equal_weights_give_the_members_again(kept):
    """Where nothing is learned but T, a replicate with equal weights is the fit."""
    validation, model = kept.validation, kept.model
    tilted = [c for c in validation.candidates if c.kernel is not None]
    plain = next(c for c in tilted if c.coordinates == PLAIN)
    member = dataclasses.replace(
        model.members_[0],
        coordinates=PLAIN,
        candidate=plain,
        family=fit_to_all_rows(validation, [plain], model._spec().family, 0, None)[0][
            0
        ],
    )
    ones = np.full(len(validation.all_rows), 3.0)  # only ratios matter
    (found,) = replicates.replicate(validation, [member], ones, 0).families
    expected = member.family.density(NEW).logpdf(POINTS)
    np.testing.assert_allclose(found.density(NEW).logpdf(POINTS), expected, atol=1e-8)


def test_files_hold_replicates(model, tmp_path):
    path = tmp_path / "a.kexpfam"
    model.save(path)
    loaded = kexpfam.load(path)
    assert loaded.bootstrap == 3
    ours, theirs = (m.given(NEW).band(0.8, POINTS) for m in (model, loaded))
    np.testing.assert_allclose(theirs.lower, ours.lower, rtol=1e-9)
    np.testing.assert_allclose(theirs.upper, ours.upper, rtol=1e-9)


@pytest.mark.parametrize("change", ["one", "members"])
def test_files_with_other_replicates_are_refused(model, tmp_path, monkeypatch, change):
    first = model.replicates_[0]
    fewer = dataclasses.replace(first, families=first.families[:1])
    wrong = (first,) if change == "one" else (fewer, fewer)
    law = dataclasses.replace(model._law, replicates=wrong)
    monkeypatch.setattr(model, "_law", law)
    model.save(tmp_path / "a.kexpfam")
    with pytest.raises(FileFormatError, match="replicate"):
        kexpfam.load(tmp_path / "a.kexpfam")


@pytest.mark.slow
def test_an_estimator_among_the_members_stays_as_it_is(rows):
    experts = {"kernel density": ConditionalKDE(), "families": "families"}
    model = AutoKCEF(
        experts=list(experts.values()), likelihood=False, bootstrap=2, random_state=0
    ).fit(*rows)
    ours = [m for m in model.members_ if m.family is not None]
    assert all(len(r.families) == len(ours) for r in model.replicates_)
    assert np.all(np.isfinite(model.given(NEW).band(0.9, POINTS).upper))


@pytest.mark.parametrize("value", [1, -1, 2.5, True])
def test_numbers_of_replicates_that_cannot_be_are_refused(rows, value):
    with pytest.raises(ValueError, match="bootstrap must be"):
        AutoKCEF(bootstrap=value).fit(*rows)


def test_several_columns_have_no_replicates(rows):
    X, y = rows
    with pytest.raises(ValueError, match="not available for several columns of y"):
        AutoKCEF(bootstrap=2).fit(X, np.column_stack([y, y]))


def test_a_picture_has_a_ribbon_for_each_curve(model):
    plt = pytest.importorskip("matplotlib.pyplot")
    p = model.given(NEW)
    ax = p.plot(band=0.9)
    assert len(ax.lines) == len(ax.collections) == 2
    assert len(p[0].plot(band=0.5).collections) == 1
    plt.close("all")
