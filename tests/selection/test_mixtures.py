"""A mixture of regressions as a member of an average."""

import numpy as np
import pytest

import kexpfam
from kexpfam import AutoKCEF
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import Spec
from kexpfam.regression import fit_regression_mixture
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.mixtures import MIXTURE, MixtureExpert, try_mixture
from kexpfam.selection.validation import Validation

OPTIONS = {"random_state": 0, "n_jobs": 1}


def crossing(n, seed):
    source = np.random.default_rng(seed)
    x = source.uniform(-5, 5, size=(n, 1))
    y = source.choice([-1.5, 1.5], n) * x[:, 0] + 2.0 * source.normal(size=n)
    return x, y


@pytest.fixture(scope="module")
def model():
    return AutoKCEF(bootstrap=3, **OPTIONS).fit(*crossing(250, 0))


def share(model):
    return sum(m.weight for m in model.members_ if m.coordinates == MIXTURE)


def true_log_density(x, y):
    parts = [-0.5 * ((y - s * x[:, 0]) / 2.0) ** 2 for s in (-1.5, 1.5)]
    return np.logaddexp(*parts) - np.log(4.0 * np.sqrt(2.0 * np.pi))


def test_lines_that_cross_are_a_mixture_and_nearly_the_truth(model):
    fresh = crossing(4000, 1)
    assert share(model) > 0.5
    loss = true_log_density(*fresh).mean() - model.score(*fresh)
    assert loss < 0.04
    alone = AutoKCEF(experts=["families"], **OPTIONS).fit(*crossing(250, 0))
    assert share(alone) == 0.0
    assert model.score(*fresh) > alone.score(*fresh)


def test_held_out_rows_are_worth_what_fresh_ones_are(model):
    (member,) = [m for m in model.members_ if m.coordinates == MIXTURE]
    x, y = crossing(4000, 1)
    fresh = member.expert.given(x).logpdf(y).mean()
    own = member.candidate.held_out
    assert abs(own.mean() - fresh) < 3.0 * own.std() / np.sqrt(len(own))


def test_mixtures_can_be_named_alone():
    """The fit ended as if Ctrl-C had been pressed."""
    x, y = crossing(250, 0)
    alone = AutoKCEF(experts=["mixtures"], **OPTIONS).fit(x, y)
    assert share(alone) > 0.5
    assert alone.best_.given(x[:2]).pdf(y[:2]).min() > 0.0


def test_held_out_rows_had_no_say():
    """EM went on from where all rows had led it, and few rows looked like a line.

    On one data set of the paper they seemed to be worth 0.9 nats more than they were.
    """
    x, y = crossing(250, 3)
    rows = TrainingRows.of(Rows(x, y[:, None], np.ones(250)))
    validation = Validation.of(rows, Spec(), np.random.default_rng(0))
    validation.candidates.append(
        Candidate("worst", None, None, np.inf, "", np.full(250, -99.0))
    )
    assert try_mixture(validation)
    held_out = validation.candidates[-1].held_out
    X, Y = validation.rows.X, validation.rows.Y[:, 0]
    for fold in validation.folds:
        rest = np.delete(np.arange(250), fold)
        fit = fit_regression_mixture(
            X[rest], Y[rest], np.ones(len(rest)), np.random.default_rng(0)
        )
        density = MixtureExpert(fit).given(X[fold])
        np.testing.assert_array_equal(held_out[fold], density.logpdf(Y[fold]))


def test_it_prints_and_files_keep_it(model, tmp_path):
    path = tmp_path / "model.kexpfam"
    model.save(path)
    again = kexpfam.load(path)
    x, y = crossing(20, 2)
    assert np.array_equal(again.score_samples(x, y), model.score_samples(x, y))
    assert "mixture of regressions" in repr(again.members_)
    assert repr(again.members_) == repr(model.members_)
    for one, other in zip(again.given(x).band(), model.given(x).band(), strict=True):
        assert np.array_equal(one, other)


def test_replicates_fit_it_again(model):
    found = [replicate.mixture for replicate in model.replicates_]
    assert all(mixture is not None for mixture in found)
    assert not np.array_equal(found[0].slopes, found[1].slopes)
    replaced = model.replicates_[0].of(model.members_)
    experts = [m.expert for m in replaced if isinstance(m.expert, MixtureExpert)]
    assert experts[0].mixture is found[0]


def test_one_line_has_none():
    source = np.random.default_rng(0)
    x = source.normal(size=(150, 2))
    y = x[:, 0] + source.normal(size=150)
    model = AutoKCEF(**OPTIONS).fit(x, y)
    assert all(m.coordinates != MIXTURE for m in model.best_.selection_.path)
