"""Models beside each other: paired differences, their errors, tables and pictures."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from kexpfam import KCEF, metrics
from kexpfam.distributions import MixedDensity
from tests.densities import closed_form


class Normal:
    """N(x + shift, scale²), of which densities may claim another measure."""

    def __init__(self, shift=0.0, scale=1.0, measure=None):
        self.shift, self.scale, self.measure = shift, scale, measure

    def given(self, X):
        p = closed_form(np.asarray(X, float)[:, 0] + self.shift, self.scale)
        if self.measure is not None:
            p.measure = self.measure
        return p


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 1))  # more than one block
    return x, x[:, 0] + rng.normal(size=1500)


@pytest.fixture(scope="module")
def result(rows):
    return metrics.compare({"true": Normal(), "wide": Normal(scale=2.0)}, *rows)


def test_differences_are_those_of_rows_one_by_one(rows, result):
    x, y = rows
    gaps = [
        stats.norm.logpdf(b, a, 1.0) - stats.norm.logpdf(b, a, 2.0)
        for a, b in zip(x[:, 0], y, strict=True)
    ]
    found = result.difference("wide")
    assert found.value == pytest.approx(np.mean(gaps))
    assert found.standard_error == pytest.approx(stats.sem(gaps))
    turned = result.difference("true", "wide")
    assert turned.value == pytest.approx(-found.value)
    assert result.difference("wide", "wide").value == 0.0


def test_scores_are_those_of_evaluate(rows, result):
    alone = metrics.evaluate(Normal(scale=2.0), *rows)
    assert result.score("wide").value == pytest.approx(alone.log_loss.value)
    assert result.score("wide", "crps").value == pytest.approx(alone.crps.value)
    gap = alone.crps.value - result.score("true", "crps").value
    assert result.difference("wide", metric="crps").value == pytest.approx(gap)


def test_pairs_tell_more_than_two_means(result):
    apart = np.hypot(*(result.score(name).standard_error for name in result.names))
    assert result.difference("wide").standard_error < apart


def test_weights_count_rows(rows):
    x, y = rows[0][:60], rows[1][:60]
    weights = np.resize([0.0, 1.0, 2.0], 60)
    twice = np.repeat(np.arange(60), weights.astype(int))
    models = {"a": Normal(), "b": Normal(0.5)}
    weighted = metrics.compare(models, x, y, sample_weight=weights)
    repeated = metrics.compare(models, x[twice], y[twice])
    for metric in ("log_loss", "crps"):
        assert weighted.difference("b", metric=metric).value == pytest.approx(
            repeated.difference("b", metric=metric).value
        )


def test_frames_are_the_same_as_arrays(rows, result):
    x, y = rows
    models = {"true": Normal(), "wide": Normal(scale=2.0)}
    for frame in (pd.DataFrame({"x": x[:, 0]}), pl.DataFrame({"x": x[:, 0]})):
        found = metrics.compare(models, frame, pd.Series(y))
        assert found.difference("wide") == result.difference("wide")


def test_the_table_names_models_and_scores(result):
    lines = str(result).splitlines()
    assert lines[0] == "1500 rows (mean ± standard error; lower is better)"
    assert lines[1].split("  ")[0] == ""
    assert lines[1].count("minus true") == 2
    assert lines[2].startswith("true  ")
    assert str(result.difference("wide")) in lines[3]
    assert str(result.difference("wide", metric="crps")) in lines[3]
    assert len(lines) == 4


def test_laws_with_different_atoms_are_of_different_measures():
    class WithAtom:
        def __init__(self, atom):
            self.atom = atom

        def given(self, X):
            rest = closed_form(np.zeros(len(X)), 1.0)
            return MixedDensity([self.atom], np.full((len(X), 1), 0.3), rest)

    models = {"zero": WithAtom(0.0), "also zero": WithAtom(0.0), "one": WithAtom(1.0)}
    x, y = np.zeros((6, 1)), np.array([0.0, 0.0, 1.0, 0.5, -0.5, 2.0])
    result = metrics.compare(models, x, y)
    assert result.difference("also zero").value == 0.0
    with pytest.raises(ValueError, match=r"with atoms \[1.0\] and .*\[0.0\]; compare"):
        result.difference("one")


def test_log_losses_of_different_measures_are_not_compared(rows):
    x, y = rows[0][:50], rows[1][:50]
    models = {"a": Normal(), "b": Normal(0.5, measure="mixed"), "c": Normal(1.0)}
    result = metrics.compare(models, x, y)
    with pytest.raises(ValueError, match="lebesgue and mixed; compare 'crps'"):
        result.difference("a", "b")
    assert result.difference("b", metric="crps").value > 0
    text = str(result)
    assert text.count("other measure") == 1
    assert text.endswith("so that log losses are not comparable.")
    ax, _ = result.plot()
    assert any("another measure" in text.get_text() for text in ax.texts)
    plt.close("all")


def test_rows_that_neither_model_thinks_possible_do_not_decide(rows):
    class Nowhere(Normal):
        def given(self, X):
            p = super().given(X)
            far = SimpleNamespace(support=p.support, cdf=p.cdf, ppf=p.ppf, pdf=p.pdf)
            far.logpdf = lambda y: np.where(y > 0, -np.inf, p.logpdf(y))
            return far

    found = metrics.compare({"a": Nowhere(), "b": Nowhere(scale=2.0)}, *rows)
    assert np.isinf(found.score("a").value)
    assert np.isfinite(found.difference("b").value)


def test_several_columns_have_log_losses_only():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    models = {
        "a": KCEF(select=None).fit(x, y),
        "b": KCEF(select=None, regularization=1.0).fit(x, y),
    }
    result = metrics.compare(models, x[:9], y[:9])
    assert list(result.values) == ["log_loss"]
    expected = metrics.log_loss(models["b"].given(x[:9]), y[:9])
    assert result.score("b").value == pytest.approx(expected)
    assert np.size(result.plot()) == 1
    plt.close("all")


def test_the_picture_has_a_bar_for_each_model_but_the_first(rows):
    x, y = rows[0][:50], rows[1][:50]
    models = {"a": Normal(), "b": Normal(0.5), "c": Normal(1.0)}
    left, right = metrics.compare(models, x, y).plot()
    assert len(left.containers) == len(right.containers) == 2
    assert [label.get_text() for label in left.get_yticklabels()] == ["a", "b", "c"]
    assert right.get_xlabel() == "CRPS minus that of a"
    with pytest.raises(ValueError, match="axes must be 2 Axes"):
        metrics.compare(models, x, y).plot(left)
    one = metrics.compare(models, x[:1], y[:1])
    assert len(one.plot()[0].containers) == 2
    plt.close("all")


def test_wrong_input_is_refused(rows, result):
    x, y = rows
    with pytest.raises(ValueError, match="models must hold one at least"):
        metrics.compare({}, x, y)
    with pytest.raises(ValueError, match="as many rows, got 1500 and 3"):
        metrics.compare({"a": Normal()}, x, y[:3])
    with pytest.raises(ValueError, match=r"name must be one of 'true', 'wide', got"):
        result.difference("other")
    with pytest.raises(ValueError, match="metric must be one of"):
        result.score("true", "pinball")
