"""Estimators of other kinds as members of an average."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.base_densities import GaussianBase
from kexpfam.baselines import ConditionalKDE
from kexpfam.data import Rows, TrainingRows
from kexpfam.distributions import ClosedFormDensity
from kexpfam.errors import CannotSaveError
from kexpfam.estimators.experts import (
    ExpertSpec,
    cross_fitted,
    fit_expert,
    named_experts,
)
from kexpfam.family import Limits, equal_folds
from kexpfam.selection.spec import default_coordinates
from kexpfam.selection.validation import Validation
from kexpfam.summaries import LearnedSummary
from tests.graphs.gaussians import LinearNormal
from tests.limits import limited
from tests.tolerances import assert_close

# Two branches, and only families that do not see their masses: fast, and blind.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")

OPTIONS = {"random_state": 0, "likelihood": False}
KDE = ConditionalKDE()


class Unweighted(BaseEstimator):
    """A linear normal model that takes no weights, and notes the rows it is given."""

    def fit(self, X, y):
        self.rows_ = np.column_stack([X, y])
        self.model_ = LinearNormal().fit(X, y)
        return self

    def given(self, X):
        scale = np.full(len(X), self.model_.scale_)
        return ClosedFormDensity(GaussianBase(1.0), self.model_.mean(X), scale)


@pytest.fixture(autouse=True)
def few_coordinates(monkeypatch):
    """Plain ones and a linear regression: these tests are about experts."""
    kept = [spec for spec in default_coordinates() if spec.name in ("normal", "linear")]
    monkeypatch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: kept))


def make_rows(n=80, seed=0):
    """Two branches, which a kernel density estimate sees and a regression does not."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 1))
    side = rng.choice([-1.0, 1.0], size=n)
    return X, side * (1.5 + X[:, 0]) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def model(rows):
    with pytest.MonkeyPatch.context() as patch:
        plain = default_coordinates()[:1]
        patch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: plain))
        return AutoKCEF(experts=["families", KDE], **OPTIONS).fit(*rows)


CONDITIONS = np.array([[-0.6], [0.0], [0.8]])


def test_an_expert_that_predicts_well_is_a_member_with_a_weight(model, rows):
    (member,) = (m for m in model.members_ if m.expert is not None)
    assert member.coordinates == "ConditionalKDE"
    assert member.family is None
    assert (member.candidate.method, member.candidate.kernel) == ("expert", None)
    assert 0.01 < member.weight < 1.0
    total = sum(m.weight for m in model.members_) + model.members_.defensive
    assert_close(total, 1.0)
    assert_close(member.held_out, member.candidate.held_out.mean())
    assert "ConditionalKDE" in repr(model.members_)
    # Fitted to all rows in the end.
    alone = clone(KDE).fit(*rows)
    found = member.expert.given(CONDITIONS).pdf(np.linspace(-3, 3, 9)[None])
    assert_close(found, alone.given(CONDITIONS).pdf(np.linspace(-3, 3, 9)[None]))


def test_an_expert_that_predicts_badly_has_no_weight(rows):
    narrow = ConditionalKDE(widths_x=1e-3, widths_y=1e-3)
    model = AutoKCEF(experts={"narrow": narrow}, **OPTIONS).fit(*rows)
    assert all(member.coordinates != "narrow" for member in model.members_)
    without = AutoKCEF(**OPTIONS).fit(*rows)
    assert model.n_candidates_ == without.n_candidates_ + 1
    assert abs(model.score(*rows) - without.score(*rows)) < 0.05


def test_held_out_log_densities_are_those_of_fits_without_the_fold(rows):
    X, y = rows
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    folds = equal_folds(len(y), 5)
    found, below = cross_fitted("kde", KDE, Rows(X, y[:, None], weights), folds)
    for fold in folds:
        rest = np.delete(np.arange(len(y)), fold)
        fit = clone(KDE).fit(X[rest], y[rest], sample_weight=weights[rest])
        for a in range(fold.start, fold.stop):
            p = fit.given(X[a : a + 1])
            assert_close(found[a], p.logpdf(y[a : a + 1])[0], 1e-9)
            assert_close(below[a], p.cdf(y[a : a + 1])[0], 1e-9)


def test_what_is_validated_is_what_the_folds_say(model, rows):
    """The same rows and folds as those of the families."""
    selection = model.best_.selection_
    (candidate,) = (c for c in selection.path if c.method == "expert")
    X, y = rows
    known = TrainingRows.of(Rows(X, y[:, None], np.ones(len(y))), shuffled=True)
    # The order that `Validation.of` draws first.
    some = known[np.random.default_rng(0).permutation(len(y))]
    expected, _ = cross_fitted("kde", KDE, some, equal_folds(len(y), selection.n_folds))
    assert_close(candidate.held_out, expected)


def test_impossible_rows_have_the_lowest_log_density_and_not_minus_infinity():
    class Impossible(Unweighted):
        def given(self, X):
            return ClosedFormDensity(
                GaussianBase(1.0), np.full(len(X), 1e200), np.full(len(X), 1e-200)
            )

    X, y = make_rows(20)
    data = Rows(X, y[:, None], np.ones(20))
    with np.errstate(over="ignore"):
        found, _ = cross_fitted("no", Impossible(), data, equal_folds(20, 2))
    np.testing.assert_array_equal(found, -1e4)


def test_densities_are_the_weighted_sum_of_all_members(model):
    p, points = model.given(CONDITIONS).density, np.linspace(-3.5, 3.5, 15)[None]
    expected = np.zeros((3, 15))
    for member in model.members_:
        part = member.family.density if member.expert is None else member.expert.given
        expected += member.weight * part(CONDITIONS).pdf(points)
    defensive = p.components[-1].pdf(points)
    assert_close(p.pdf(points), expected + model.members_.defensive * defensive, 1e-9)


def test_densities_integrate_to_one_and_quantiles_invert(model):
    for p in model.given(CONDITIONS):
        ends = p.ppf(np.array([1e-6, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-6]))
        mass = sum(
            integrate.quad(p.pdf, low, high, limit=200)[0]
            for low, high in itertools.pairwise(ends)
        )
        assert_close(mass, 1.0 - 2e-6, 1e-6)
        levels = np.array([0.1, 0.5, 0.9])
        assert_close(p.cdf(p.ppf(levels)), levels, 1e-6)
    draws = model.sample(CONDITIONS, 5, random_state=0)
    assert draws.shape == (3, 5)


def test_everything_else_works_with_an_expert(model, rows):
    X, y = rows
    assert np.isfinite(model.score_samples(X, y)).all()
    assert model.predict_quantiles(X[:4], [0.1, 0.9]).shape == (4, 2)
    assert isinstance(model.best_, KCEF)
    # Its table names the expert without a base density or kernel.
    lines = model.best_.selection_.table(1000).splitlines()
    (line,) = (line for line in lines if "ConditionalKDE" in line)
    assert "None" not in line


class Wave(Unweighted):
    """An expert who knows the truth of `waves`."""

    def given(self, X):
        scale = np.full(len(X), 0.01)
        return ClosedFormDensity(
            GaussianBase(1.0), np.sin(40 * X[:, 0]) + X[:, 0], scale
        )


def waves(n=80):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(n, 1))
    return X, np.sin(40 * X[:, 0]) + X[:, 0] + 0.01 * rng.normal(size=n)


@pytest.mark.parametrize("name", ["who knows", "normal", "linear"])
def test_the_best_family_is_the_same_beside_an_expert_that_is_far_better(name):
    X, y = waves()
    model = AutoKCEF(experts={name: Wave()}, **OPTIONS).fit(X, y)
    assert [m.coordinates for m in model.members_] == [name]
    assert_close(model.members_[0].weight, 1.0 - model.members_.defensive)
    alone = AutoKCEF(**OPTIONS).fit(X, y).best_
    chosen, expected = model.best_.selection_.chosen, alone.selection_.chosen
    assert chosen.coordinates == expected.coordinates
    assert (chosen.kernel, chosen.lam) == (expected.kernel, expected.lam)
    assert_close(model.best_.score_samples(X, y), alone.score_samples(X, y), 1e-9)


@pytest.mark.parametrize("weight", ["some", "none"])
def test_an_average_with_an_expert_is_not_saved(rows, model, weight, tmp_path):
    if weight == "none":
        narrow = ConditionalKDE(widths_x=1e-3, widths_y=1e-3)
        model = AutoKCEF(experts=[narrow], **OPTIONS).fit(*rows)
    with pytest.raises(
        CannotSaveError, match=r"expert 'ConditionalKDE' cannot be saved.*best family"
    ):
        model.save(tmp_path / "model.kexpfam")
    assert list(tmp_path.iterdir()) == []


def test_no_experts_are_the_same_as_none(rows, tmp_path):
    X, y = rows
    none, empty = (AutoKCEF(experts=e, **OPTIONS).fit(X, y) for e in (None, []))
    np.testing.assert_array_equal(empty.score_samples(X, y), none.score_samples(X, y))
    empty.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    np.testing.assert_array_equal(again.score_samples(X, y), none.score_samples(X, y))


@pytest.mark.parametrize(
    ("experts", "words"),
    [
        ([3], r"got 3 for 'int'"),
        ([KDE, None], r"got None for 'NoneType'"),
        ({"mine": LinearNormal()}, r"got LinearNormal\(\) for 'mine'"),
        ([ConditionalKDE], "ConditionalKDE"),
        (KDE, "ConditionalKDE"),
        ("kde", "'kde'"),
        (
            ["families", "summary"],
            r"'families', 'summaries' and 'mixtures'; got 'summary'",
        ),
        ({"mine": "families"}, r"got 'families' for 'mine'"),
        ([LogisticRegression()], r"got LogisticRegression\(\)"),
        ([LinearRegression], "LinearRegression"),
    ],
    ids=[
        "number",
        "none",
        "without given",
        "class",
        "not a list",
        "text",
        "unknown name",
        "name in a mapping",
        "classifier",
        "class of regressors",
    ],
)
def test_bad_experts_are_refused_in_one_sentence(rows, experts, words):
    start = r"experts must be .*ConditionalKDE\(\).*"
    with pytest.raises(TypeError, match=start + words) as caught:
        AutoKCEF(experts=experts, **OPTIONS).fit(*rows)
    assert str(caught.value).endswith(".")


def test_experts_of_one_kind_are_numbered_and_names_are_kept():
    assert list(named_experts([KDE, Unweighted(), KDE])) == [
        "ConditionalKDE",
        "Unweighted",
        "ConditionalKDE 2",
    ]
    assert list(named_experts({"a": KDE, "b": KDE})) == ["a", "b"]
    assert named_experts(None) == {}


def test_rows_that_repeat_are_repeated_for_an_expert_that_takes_no_weights():
    X, y = make_rows(40)
    many = np.append(np.arange(40), np.arange(10))
    model = AutoKCEF(experts=[Unweighted()], **OPTIONS).fit(X[many], y[many])
    weighted = AutoKCEF(experts=[Unweighted()], **OPTIONS)
    weighted.fit(X, y, sample_weight=np.bincount(many))
    assert_close(model.score_samples(X, y), weighted.score_samples(X, y), 1e-9)
    (candidate,) = (c for c in model.best_.selection_.path if c.method == "expert")
    assert len(candidate.held_out) == 40  # copies are one row, in one fold
    rows = Rows(X, y[:, None], np.bincount(many).astype(float))
    seen = fit_expert(Unweighted(), rows).rows_
    expected = np.column_stack([X, y])[many]
    np.testing.assert_array_equal(
        seen[np.lexsort(seen.T)], expected[np.lexsort(expected.T)]
    )


def test_other_weights_are_refused_for_an_expert_that_takes_none():
    X, y = make_rows(30)
    model = AutoKCEF(experts={"mine": Unweighted()}, **OPTIONS)
    with pytest.raises(ValueError, match=r"'mine' takes no sample_weight.*whole numb"):
        model.fit(X, y, sample_weight=np.full(30, 0.5))


def test_the_expert_of_the_user_is_not_fitted(rows):
    mine = Unweighted()
    model = AutoKCEF(experts=[mine], **OPTIONS)
    model.fit(*rows)
    assert not hasattr(mine, "rows_")
    assert model.experts == [mine]
    assert isinstance(clone(model).experts[0], Unweighted)


def test_experts_take_part_where_rows_are_too_many_to_be_kept():
    X, y = make_rows(150)
    model = AutoKCEF(experts=[KDE], **OPTIONS)
    limited(model, Limits(design_rows=60, average_rows=60)).fit(X, y)
    (member,) = (m for m in model.members_ if m.expert is not None)
    assert len(member.expert.centers_x_) == 60
    assert np.isfinite(model.score(X, y))


class Frozen(Unweighted):
    """Returns what is no density of ours."""

    def given(self, X):
        return stats.norm(np.zeros(len(X)), 1.0)


class Spike(Unweighted):
    """Says that a row is infinitely likely."""

    def given(self, X):
        found = super().given(X)
        found.logpdf = lambda y: np.full(np.shape(y), np.inf)
        return found


@pytest.mark.parametrize(
    ("expert", "kind", "words"),
    [
        (
            Frozen(),
            TypeError,
            "expert 'Frozen' must return densities",
        ),
        (Spike(), ValueError, "'Spike' gives a row an infinite density"),
    ],
    ids=["other densities", "infinite"],
)
def test_what_is_no_density_is_refused_by_fit(rows, expert, kind, words):
    with pytest.raises(kind, match=words):
        AutoKCEF(experts=[expert], **OPTIONS).fit(*rows)


def test_an_interrupted_search_fits_no_experts(rows, monkeypatch):
    def interrupted(validation, *_):
        validation.interrupted = True

    model = AutoKCEF(experts=[KDE], **OPTIONS)
    run = Validation.run
    monkeypatch.setattr(
        Validation, "run", lambda *args: (run(*args), interrupted(*args))[1]
    )
    model.fit(*rows)
    assert model.stopped_ == "interrupted"
    assert all(c.method != "expert" for c in model.best_.selection_.path)


def test_a_fit_that_fails_leaves_the_average_as_it_was(rows):
    X, y = rows
    model = AutoKCEF(**OPTIONS).fit(X, y)
    before = model.reliability(X[:3])
    with pytest.raises(ValueError, match="constant"):
        model.fit(X + 100.0, np.ones(len(y)))
    np.testing.assert_array_equal(model.reliability(X[:3]), before)


def steps(n=150):
    """A step along the first of two columns, wider on one side."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    high = X[:, 0] > 0
    return X, 2.0 * high + np.where(high, 0.6, 0.2) * rng.normal(size=n)


class KnowsSteps(RegressorMixin, BaseEstimator):
    """A regressor who knows the location of `steps`."""

    def fit(self, X, y):
        self.middle_ = float(X[:, 0][y > 1.0].min())
        return self

    def predict(self, X):
        return 2.0 * (X[:, 0] > self.middle_)


def coordinates_of(model):
    """Names of the coordinates in which kernels were tried."""
    path = model.best_.selection_.path
    return {c.coordinates for c in path if c.kernel is not None}


TREES = LearnedSummary("extra_trees", cells=0)


@pytest.mark.parametrize(
    ("experts", "kinds"),
    [
        (None, "families summaries mixtures"),
        ([], "families summaries mixtures"),
        ([KDE], "families summaries mixtures"),
        ({"mine": KDE}, "families summaries mixtures"),
        (["families", "summaries"], "families summaries"),
        (["families"], "families"),
        (["summaries", KDE], "summaries"),
        (("mixtures",), "mixtures"),
    ],
    ids=str,
)
def test_kinds_that_are_named_compete_and_all_if_none_is(experts, kinds):
    who = ExpertSpec.of(experts)
    found = [
        kind for kind in ("families", "summaries", "mixtures") if getattr(who, kind)
    ]
    assert found == kinds.split()


def test_regressors_become_summaries_and_estimators_of_densities_stay():
    regressor = LinearRegression()
    who = ExpertSpec.of([KDE, regressor, TREES, KCEF(), LinearRegression()])
    assert list(who.estimators) == ["ConditionalKDE", "KCEF"]
    assert list(who.given_summaries) == [
        "LinearRegression",
        "LearnedSummary",
        "LinearRegression 2",
    ]
    assert who.given_summaries["LinearRegression"].location is regressor
    assert who.given_summaries["LearnedSummary"] is TREES
    assert ExpertSpec.of({"a": regressor}).given_summaries["a"].location is regressor


def test_families_on_a_regressor_of_the_user_have_weight_where_it_is_right():
    X, y = steps()
    model = AutoKCEF(experts={"steps": KnowsSteps()}, **OPTIONS).fit(X, y)
    own = [m for m in model.members_ if m.coordinates == "summary by steps"]
    assert sum(m.weight for m in own) > 0.5
    assert {"normal", "summary by steps"} <= coordinates_of(model)
    assert all(isinstance(m.family.density(X).logpdf(y), np.ndarray) for m in own)
    # Its location is that of the regressor.
    low, high = model.predict([[-0.5, 0.0], [0.5, 0.0]])
    assert abs(low) < 0.15
    assert abs(high - 2.0) < 0.3
    new = steps(400)
    without = AutoKCEF(**OPTIONS).fit(X, y)
    assert model.score(*new) > without.score(*new)


def test_only_summaries_compete_beside_the_null_model_if_they_are_named(tmp_path):
    X, y = steps()
    model = AutoKCEF(experts=["summaries"], **OPTIONS).fit(X, np.exp(y))
    path = model.best_.selection_.path
    # Without a regression that says which transforms are best both are tried.
    assert coordinates_of(model) == {"summary", "Yeo-Johnson, summary"}
    null = {c.method for c in path if c.coordinates == "normal"}
    assert null == {"none"}
    assert "summary" in model.best_.selection_.chosen.coordinates
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    assert list(again.experts) == ["summaries"]
    np.testing.assert_array_equal(
        again.score_samples(X, np.exp(y)), model.score_samples(X, np.exp(y))
    )


def test_families_that_are_named_are_those_of_an_average_without_summaries():
    X, y = steps()
    named = AutoKCEF(experts=["families"], **OPTIONS).fit(X, y)
    few = AutoKCEF(experts=["families", "mixtures"], **OPTIONS).fit(X, y)
    assert np.any(few.score_samples(X, y) != named.score_samples(X, y))
    few = AutoKCEF(experts=["families", "summaries"], **OPTIONS).fit(X, y)  # too few
    assert coordinates_of(named) == coordinates_of(few)
    np.testing.assert_array_equal(named.score_samples(X, y), few.score_samples(X, y))


def test_a_summary_that_is_given_competes_and_can_be_saved(tmp_path):
    X, y = steps()
    model = AutoKCEF(experts=["families", TREES], **OPTIONS).fit(X, y)
    assert "summary by LearnedSummary" in coordinates_of(model)
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    assert list(again.experts) == ["families", TREES]
    np.testing.assert_array_equal(again.score_samples(X, y), model.score_samples(X, y))


@pytest.mark.parametrize(
    "expert", [KnowsSteps(), LearnedSummary(law=LinearRegression())], ids=str
)
def test_an_average_with_a_regressor_is_not_saved(expert, tmp_path):
    X, y = steps(60)
    model = AutoKCEF(experts={"mine": expert}, **OPTIONS).fit(X, y)
    with pytest.raises(CannotSaveError, match=r"expert 'mine' cannot be saved"):
        model.save(tmp_path / "model.kexpfam")
    assert list(tmp_path.iterdir()) == []


def test_a_member_that_cannot_be_saved_is_refused_whatever_the_parameters_say(
    rows, tmp_path
):
    fitted = AutoKCEF(experts=["families", KDE], **OPTIONS).fit(*rows)
    fitted.set_params(experts=None)
    with pytest.raises(CannotSaveError, match="'ConditionalKDE' cannot be saved"):
        fitted.save(tmp_path / "model.kexpfam")


def test_too_few_rows_for_a_summary_that_was_asked_for_are_an_error():
    X, y = steps(15)
    with pytest.raises(ValueError, match=r"at least 20 rows, got .* 15 rows"):
        AutoKCEF(experts=["summaries"], **OPTIONS).fit(X, y)
