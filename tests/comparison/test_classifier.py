"""The classifier two-sample score: a half if there is nothing to see."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from kexpfam.comparison import classifier_score
from tests.tolerances import STANDARD_ERRORS


@pytest.mark.parametrize("sizes", [(400, 400), (600, 100)])
def test_samples_of_one_distribution_score_a_half(sizes):
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(n, 3)) for n in sizes)
    result = classifier_score(first, second, random_state=0)
    assert abs(result.accuracy - 0.5) < STANDARD_ERRORS * result.standard_error
    assert abs(result.auc - 0.5) < 0.15
    assert result.p_value > 0.01


@pytest.mark.parametrize("sizes", [(2000, 2000), (3000, 600)])
def test_accuracy_is_that_of_the_best_rule_on_shifted_normals(sizes):
    rng = np.random.default_rng(1)
    first = rng.normal(0.0, 1.0, size=(sizes[0], 1))
    second = rng.normal(1.0, 1.0, size=(sizes[1], 1))
    result = classifier_score(
        first, second, estimator=LogisticRegression(), random_state=0
    )
    # Halfway between the means, Φ(½) of either sample is recognised.
    best = norm.cdf(0.5)
    assert abs(result.accuracy - best) < STANDARD_ERRORS * result.standard_error
    auc_error = 0.5 / np.sqrt(min(sizes))
    assert abs(result.auc - norm.cdf(np.sqrt(0.5))) < STANDARD_ERRORS * auc_error
    assert result.p_value < 1e-6


def test_a_larger_sample_has_no_advantage():
    # Weak evidence and ten times as many rows: plain accuracy is best with one answer.
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(3000, 1)), rng.normal(0.7, 1.0, size=(300, 1))
    one = classifier_score(first, second, estimator=LogisticRegression())
    other = classifier_score(second, first, estimator=LogisticRegression())
    best = norm.cdf(0.35)
    for result in (one, other):
        assert abs(result.accuracy - best) < STANDARD_ERRORS * result.standard_error


@pytest.mark.parametrize("sizes", [(60, 60), (100, 30)])
@pytest.mark.slow
def test_size_is_at_most_the_level(sizes):
    rng = np.random.default_rng(3)
    results = [
        classifier_score(
            *(rng.normal(size=(n, 2)) for n in sizes),
            estimator=LinearDiscriminantAnalysis(),
            random_state=rng,
        )
        for _ in range(200)
    ]
    error = np.sqrt(0.05 * 0.95 / 200)
    rejected = np.mean([result.p_value < 0.05 for result in results])
    assert rejected < 0.05 + STANDARD_ERRORS * error
    # Errors are too large by a factor √2 at most, but for chance.
    claimed = np.sqrt(np.mean([result.standard_error**2 for result in results]))
    found = np.std([result.accuracy for result in results], ddof=1)
    chance = STANDARD_ERRORS / np.sqrt(400)
    assert 1.0 - chance < claimed / found < np.sqrt(2.0) * (1.0 + chance)


def test_permuted_labels_give_an_exact_p_value():
    rng = np.random.default_rng(8)
    first, noise = rng.normal(size=(2, 30, 1))
    options = {
        "estimator": LinearDiscriminantAnalysis(),
        "n_permutations": 19,
        "random_state": 0,
    }
    assert classifier_score(first, noise + 3.0, **options).p_value == 1 / 20
    same = classifier_score(first, noise, **options)
    assert same.p_value > 1 / 20
    assert (20 * same.p_value) % 1 == pytest.approx(0.0, abs=1e-9)


def test_accuracy_grows_with_the_effect():
    rng = np.random.default_rng(4)
    first, noise = rng.normal(size=(2, 300, 2))
    found = [
        classifier_score(first, noise + shift, random_state=0).accuracy
        for shift in (0.0, 0.7, 2.0)
    ]
    assert found == sorted(found)
    assert found[-1] > 0.85


@pytest.mark.parametrize("estimator", [KNeighborsClassifier(5), LinearSVC()])
def test_other_classifiers_serve(estimator):
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(100, 2)), rng.normal(2.0, 1.0, size=(100, 2))
    result = classifier_score(first, second, estimator=estimator, random_state=0)
    assert result.accuracy > 0.85
    assert result.auc > 0.9
    assert not hasattr(estimator, "classes_")


def test_a_classifier_of_one_answer_says_nothing():
    from sklearn.dummy import DummyClassifier

    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(50, 1)), rng.normal(9.0, 1.0, size=(20, 1))
    result = classifier_score(first, second, estimator=DummyClassifier())
    assert (result.accuracy, result.auc, result.p_value) == (0.5, 0.5, 0.5)


def test_the_same_seed_gives_the_same_result():
    rng = np.random.default_rng(7)
    samples = rng.normal(size=(2, 60, 2))
    one, other = (classifier_score(*samples, random_state=2) for _ in range(2))
    assert one == other
    assert "told apart with accuracy 0." in str(one)


def test_wrong_input_is_refused():
    rows = np.arange(12.0)
    with pytest.raises(ValueError, match=r"second has 9 rows, and .* at least 10"):
        classifier_score(rows, rows[:9])
    with pytest.raises(ValueError, match=r"cv must not exceed the 12 rows .* got 13"):
        classifier_score(rows, rows, cv=13)
    with pytest.raises(ValueError, match="cv must be a whole number from 2 on"):
        classifier_score(rows, rows, cv=1)
