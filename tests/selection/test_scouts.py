"""What an average does not try, because it is the same or cannot win."""

import numpy as np
import pytest

from kexpfam import AutoKCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.data import Rows, TrainingRows
from kexpfam.estimators.trials import _in_stages
from kexpfam.family import Spec
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.kernel_grids import grid_for, kernels_x
from kexpfam.selection.spec import PLAIN, default_coordinates
from kexpfam.selection.validation import Validation


def validation(x, y):
    rows = TrainingRows.of(Rows(x, y[:, None], np.ones(len(y))))
    return Validation.of(rows, Spec(), np.random.default_rng(0))


def draw(n=30, *, skewed_x=False, skewed_y=False):
    source = np.random.default_rng(1)
    x = source.normal(size=(n, 2))
    y = x[:, 0] + source.normal(size=n)
    return np.exp(1.5 * x) if skewed_x else x, np.exp(y) if skewed_y else y


@pytest.mark.parametrize("skewed_x", [False, True])
@pytest.mark.parametrize("skewed_y", [False, True])
def test_transforms_that_are_none_are_not_fitted(skewed_x, skewed_y, monkeypatch):
    fitted = []
    fit = Validation._fit

    def noted(self, spec, *rest):
        fitted.append(spec.name)
        return fit(self, spec, *rest)

    monkeypatch.setattr(Validation, "_fit", noted)
    found = validation(*draw(skewed_x=skewed_x, skewed_y=skewed_y))
    found.add_coordinates(default_coordinates())
    assert set(fitted) == set(found.coordinates)
    assert any("transformed x" in name for name in fitted) == skewed_x
    assert any("Yeo-Johnson" in name for name in fitted) == skewed_y


@pytest.mark.parametrize(("margin", "hopes"), [(-1.0, True), (1.0, False)])
def test_coordinates_that_are_far_behind_do_not_catch_up(margin, hopes):
    found = validation(*draw())
    found.coordinates = {"best": None, "behind": None}
    most = found.tuning.hopeless + found.tuning.scouted_gain * len(found.rows)
    for name, total in (("best", 0.0), ("behind", -most - margin)):
        held_out = np.full(len(found.rows), total / len(found.rows))
        found.candidates.append(
            Candidate(name, GaussianBase(1.0), None, np.inf, "none", held_out)
        )
    assert found.may_catch_up("best")
    assert found.may_catch_up("behind") is hopes


def test_scouts_go_before_the_rest_and_nothing_is_tried_twice():
    found = validation(*draw())
    found.add_coordinates(default_coordinates()[:1])
    found.add_bases()
    tried = []
    for tasks in _in_stages(found, [PLAIN]):
        kernels = [task.path.kernel for task in tasks]
        assert not any(kernel in tried for kernel in kernels)
        tried += kernels
        found.run(tasks)
    grid = grid_for(found, PLAIN)
    assert len(tried) == len(grid.paths(kernels_x(found, PLAIN, grid)))


def test_likelihood_tries_the_kernels_of_x_that_score_matching_liked():
    source = np.random.default_rng(0)
    x = source.uniform(-1, 1, size=(120, 3))
    y = source.choice([-1.0, 1.0], 120) * x[:, 0] + 0.3 * source.normal(size=120)
    model = AutoKCEF(experts=["families"], likelihood=True, random_state=0).fit(x, y)
    path = model.best_.selection_.path
    kernels = {c.kernel.products[0][0] for c in path if c.method == "likelihood"}
    plain = [c for c in path if c.method == "score" and c.coordinates == PLAIN]
    best = max(plain, key=lambda c: c.held_out.mean()).kernel.products[0][0]
    assert len(kernels) <= 3
    assert best in kernels or len(kernels) == 3
