"""AutoKCEF: an average that is a density, for data of every kind."""

import contextlib
import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.exceptions import DataConversionWarning

from kexpfam import KCEF, AutoKCEF
from kexpfam.errors import AccuracyWarning
from kexpfam.estimators import trials
from kexpfam.selection.candidates import Task
from kexpfam.selection.spec import DEFENSIVE, default_coordinates
from kexpfam.selection.validation import Validation
from tests.simulations import waves
from tests.tolerances import KS_LEVEL, assert_close

# Quantiles and distribution functions of mixtures are found to this.
INVERSION = 1e-6


@pytest.fixture(scope="module")
def rows():
    return waves(40, frequency=3.0, half_width=1.0)


@pytest.fixture(scope="module")
def model(rows):
    return AutoKCEF(random_state=0).fit(*rows)


@pytest.fixture
def few_coordinates(monkeypatch):
    """Three of eleven, for tests of data rather than of the validation."""
    kept = {"normal", "Gaussian process", "Yeo-Johnson, heteroscedastic"}
    small = [spec for spec in default_coordinates() if spec.name in kept]
    monkeypatch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: small))


CONDITIONS = np.array([[-0.7], [0.0], [0.8]])


# Between these quantiles; one interval after the other, so that no mass is missed.
LEVELS = np.array([1e-6, 1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1 - 1e-4])


def test_it_integrates_to_one_and_quantiles_invert_the_distribution(model):
    for p in model.given(CONDITIONS):
        ends = p.ppf(LEVELS)
        assert np.all(np.diff(ends) > 0)
        assert_close(p.cdf(ends), LEVELS, INVERSION)
        for (low, high), mass in zip(
            itertools.pairwise(ends), np.diff(LEVELS), strict=True
        ):
            # Sixty Gauss nodes resolve a smooth density to far more digits than this.
            found, _ = integrate.fixed_quad(p.pdf, low, high, n=60)
            assert_close(found, mass, INVERSION, scale=1.0)


def test_the_mean_is_the_integral_of_y_times_the_density(model):
    for p in model.given(CONDITIONS):
        ends = [-1e3, *p.ppf(LEVELS), p.ppf(1 - 1e-6), 1e3]
        parts = [
            integrate.fixed_quad(lambda u, p=p: u * p.pdf(u), low, high, n=100)[0]
            for low, high in itertools.pairwise(ends)
        ]
        # What is outside the quantiles of 1e-6 is integrated roughly: 1e-6 times the
        # few units that such responses are away.
        assert_close(p.mean(), sum(parts), 1e-5, scale=1.0)


def test_draws_follow_the_distribution(model):
    draws = model.sample(CONDITIONS, 2000, random_state=1)
    for i, p in enumerate(model.given(CONDITIONS)):
        assert stats.kstest(draws[i], p.cdf).pvalue > KS_LEVEL


def test_the_density_is_the_weighted_sum_of_its_members(model, rows):
    X, y = rows
    total = model.members_.defensive * model.defensive_.density(X).pdf(y)
    for member in model.members_:
        total = total + member.weight * member.family.density(X).pdf(y)
    p = model.given(X).density
    assert_close(p.pdf(y), total, 1e-9)
    mapped = total * model.calibration_.pdf(p.cdf(y))
    assert_close(np.exp(model.score_samples(X, y)), mapped, 1e-9)


def test_weights_sum_to_one_with_the_defensive_component(model):
    weights = [member.weight for member in model.members_]
    assert_close(sum(weights) + model.members_.defensive, 1.0)
    assert model.members_.defensive in DEFENSIVE.weights
    assert sorted(weights, reverse=True) == weights
    assert min(weights) > 0


def test_members_print_as_a_table(model):
    lines = repr(model.members_).splitlines()
    assert lines[0].split()[0] == "weight"
    assert "defensive" in lines[-1]
    assert max(map(len, lines)) < 120
    shown = min(len(model.members_), 12)
    assert lines[1].split()[0] == f"{model.members_[0].weight:.3f}"
    assert len(lines) == shown + 2 + (len(model.members_) > 12)
    # Printed weights sum to one, but for their rounding to three digits.
    total = sum(float(line.split()[0]) for line in lines[1:])
    assert abs(total - 1.0) < 0.0005 * len(lines)


def test_the_best_single_family_is_a_fitted_kcef(model, rows):
    X, y = rows
    best = model.best_
    assert isinstance(best, KCEF)
    assert np.all(np.isfinite(best.score_samples(X, y)))
    chosen = best.selection_.chosen
    assert (best.kernel_, best.regularization_) == (chosen.kernel, chosen.lam)
    assert best.reliability(X).shape == (40,)
    assert len(best.selection_.path) == model.n_candidates_


def test_the_average_is_better_on_new_rows_than_the_marginal(model):
    X, y = waves(500, frequency=3.0, half_width=1.0, seed=5)
    truth = stats.norm(np.sin(3 * X[:, 0]), 0.3).logpdf(y).mean()
    marginal = stats.norm(y.mean(), y.std()).logpdf(y).mean()
    assert model.score(X, y) > marginal + 0.5 * (truth - marginal)


def test_if_x_says_nothing_the_density_is_nearly_the_marginal(few_coordinates):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    model = AutoKCEF(random_state=0, likelihood=False).fit(X, y)
    p = model.given(rng.normal(size=(50, 2)))
    # The mean and deviation of 80 rows are known to 0.11 and 0.08; no condition may
    # claim to know more than about three times that.
    assert np.abs(p.mean() - y.mean()).max() < 0.35
    assert np.abs(p.std() - y.std()).max() < 0.35
    new_x, new_y = rng.normal(size=(500, 2)), rng.normal(size=500)
    truth = stats.norm.logpdf(new_y).mean()
    assert model.score(new_x, new_y) > truth - 0.05


def test_far_from_all_data_densities_are_finite_and_not_absurd(model):
    far_x = np.array([[1e3], [-1e6], [1e12]])
    log_p = model.score_samples(far_x, [0.0, 1.0, -1.0])
    assert np.all(np.isfinite(log_p))
    assert log_p.max() < np.log(100.0)
    assert np.all(np.isfinite(model.predict(far_x)))
    far_y = model.score_samples(np.zeros((4, 1)), [1e3, -1e3, 1e9, -1e9])
    # No less than a hundredth of a t with five degrees of freedom: its tails fall
    # like |y|⁻⁶.
    assert np.all(far_y > -6 * np.log(1e10) - 10)
    assert np.all(far_y < -10)


def _outlier(value):
    X, y = waves(30)
    return X, np.where(np.arange(30) == 4, value, y)


def _mostly_zero():
    X, y = waves(40)
    return X, np.where(np.arange(40) % 10 == 0, y, 0.0)


def _one_differs():
    X, _ = waves(30)
    return X, np.eye(30)[4]


def _rounded(digits):
    X, y = waves(40)
    return X, np.round(y, digits)


def _scaled(x_unit, y_unit):
    X, y = waves(30)
    return x_unit * X, y_unit * y


def _constant_column():
    X, y = waves(30)
    return np.column_stack([X, np.ones(30)]), y


HARD = {
    "rounded to one decimal": lambda: _rounded(1),
    "three values": lambda: _rounded(0),
    "nine in ten are zero": _mostly_zero,
    "one differs": _one_differs,
    "two rows": lambda: waves(2),
    "five rows": lambda: waves(5),
    "ten rows": lambda: waves(10),
    "twenty rows": lambda: waves(20),
    "more columns than rows": lambda: waves(15, 30),
    "constant column": _constant_column,
    "constant x": lambda: (np.ones((30, 1)), waves(30)[1]),
    "discrete x": lambda: (np.sign(waves(30)[0]), waves(30)[1]),
    "tiny y": lambda: _scaled(1.0, 1e-8),
    "huge y": lambda: _scaled(1.0, 1e8),
    "tiny x": lambda: _scaled(1e-8, 1.0),
    "huge x": lambda: _scaled(1e8, 1.0),
    "outlier": lambda: _outlier(1e3),
    "wild outlier": lambda: _outlier(1e8),
    "Cauchy": lambda: (waves(30)[0], np.random.default_rng(3).standard_cauchy(30)),
    "repeated rows": lambda: tuple(np.repeat(part[:5], 6, axis=0) for part in waves(5)),
    "exact line": lambda: (waves(30)[0], 2.0 * waves(30)[0][:, 0] + 1.0),
}


# Variants of what the others are already.
MORE_OF_THE_SAME = {
    "rounded to one decimal",
    "nine in ten are zero",
    "ten rows",
    "twenty rows",
    "constant column",
    "discrete x",
    "tiny y",
    "huge x",
    "outlier",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in MORE_OF_THE_SAME))
        for name in HARD
    ],
)
def test_hard_data_give_densities_that_are_finite_and_not_absurd(name, few_coordinates):
    X, y = HARD[name]()
    few = pytest.warns(AccuracyWarning, match="too few")
    with few if len(y) < 10 else contextlib.nullcontext():
        model = AutoKCEF(random_state=0).fit(X, y)
    log_p = model.score_samples(X, y)
    assert np.all(np.isfinite(log_p))
    spread = y.max() - y.min()
    quantiles = model.predict_quantiles(X[:3], [0.05, 0.5, 0.95])
    assert np.all(np.diff(quantiles, axis=1) > 0)
    assert np.all(quantiles > y.min() - 5 * spread)
    assert np.all(quantiles < y.max() + 5 * spread)
    p = model.given(X[:1])
    assert_close(p.cdf(p.ppf([[0.1, 0.5, 0.9]])), [[0.1, 0.5, 0.9]], INVERSION)
    beyond = [y.max() + 100 * spread, y.min() - 100 * spread]
    far = model.score_samples(X[:2], beyond)
    assert np.all(np.isfinite(far))
    # The defensive component alone.
    defensive = model.defensive_.density(X[:2]).logpdf(beyond)
    least = np.log(model.calibration_.weights.min() * len(model.calibration_.weights))
    assert np.all(far >= defensive + np.log(model.members_.defensive) + least - 1e-6)


@pytest.mark.parametrize("unit", [2.0**-27, 2.0**27])
def test_the_unit_of_y_changes_only_the_unit_of_the_answer(unit, few_coordinates):
    """Powers of two, whose products are exact: searches then take the same steps.

    Other units move responses by rounding, and where a search for the regression stops
    makes some 1e-4 nats of that.
    """
    X, y = waves(30)
    one = AutoKCEF(random_state=0, likelihood=False).fit(X, y)
    other = AutoKCEF(random_state=0, likelihood=False).fit(X, unit * y)
    shifted = other.score_samples(X, unit * y) + np.log(unit)
    assert_close(shifted, one.score_samples(X, y), 1e-9, scale=1.0)


def test_rows_of_weight_zero_do_not_count(few_coordinates):
    X, y = waves(40)
    weights = np.where(np.arange(40) % 4 == 0, 0.0, 1.0)
    used = weights > 0
    wild = np.where(used, y, 1e6)
    options = {"random_state": 0, "likelihood": False}
    one = AutoKCEF(**options).fit(X, wild, sample_weight=weights)
    other = AutoKCEF(**options).fit(X[used], y[used])
    assert_close(one.score_samples(X, y), other.score_samples(X, y), 1e-9, scale=1.0)


def test_likelihood_fits_compete_if_asked(rows, few_coordinates):
    methods = {
        flag: {
            c.method
            for c in AutoKCEF(likelihood=flag, random_state=0)
            .fit(*rows)
            .best_.selection_.path
        }
        for flag in (True, False, None)
    }
    assert "likelihood" in methods[True]
    assert "likelihood" not in methods[False]
    assert methods[None] == methods[True]  # forty rows are few


def test_the_same_seed_gives_the_same_model(model, rows):
    X, y = rows
    again = AutoKCEF(random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.score_samples(X, y), model.score_samples(X, y))


def test_ctrl_c_keeps_what_was_tried(rows, monkeypatch, few_coordinates):
    genuine, done = Task.candidates, []

    def sometimes(task):
        done.append(1)
        if len(done) > 2:
            raise KeyboardInterrupt
        return genuine(task)

    monkeypatch.setattr(Task, "candidates", sometimes)
    model = AutoKCEF(random_state=0).fit(*rows)
    assert model.stopped_ == "interrupted"
    assert np.isfinite(model.score(*rows))


def test_verbose_writes_to_standard_error_only(rows, capsys, few_coordinates):
    AutoKCEF(verbose=True, likelihood=False, random_state=0).fit(*rows)
    out, err = capsys.readouterr()
    assert out == ""
    stages = ["coordinates of y", "mean log p", "fits to all rows"]
    said = [line.split(":")[0] for line in err.splitlines()]
    assert said == [f"AutoKCEF, {stage}" for stage in stages]


def test_what_it_cannot_do_is_refused_in_one_sentence(rows):
    X, y = rows
    with pytest.raises(ValueError, match="likelihood must be True, False or None"):
        AutoKCEF(likelihood="yes").fit(X, y)
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        AutoKCEF(n_jobs=0).fit(X, y)


def test_a_table_of_one_column_is_taken_with_a_warning(rows, few_coordinates):
    X, y = rows
    options = {"random_state": 0, "likelihood": False}
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = AutoKCEF(**options).fit(X, y[:, None])
    flat = AutoKCEF(**options).fit(X, y)
    np.testing.assert_array_equal(model.score_samples(X, y), flat.score_samples(X, y))


def test_an_interrupt_between_searches_keeps_what_they_found(
    rows, monkeypatch, few_coordinates
):
    def interrupted(validation):
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "isolated_coordinates", interrupted)
    model = AutoKCEF(likelihood=False, random_state=0).fit(*rows)
    assert model.stopped_ == "interrupted"
    assert np.all(np.isfinite(model.score_samples(*rows)))


def test_an_interrupt_before_the_first_search_ends_the_fit(
    rows, monkeypatch, few_coordinates
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Validation, "add_bases", interrupted)
    with pytest.raises(KeyboardInterrupt):
        AutoKCEF(likelihood=False, random_state=0).fit(*rows)
