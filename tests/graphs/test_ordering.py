"""Orders of columns that gain on held-out rows."""

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, KEF, FactorizedDensity
from kexpfam.errors import BlindnessWarning
from kexpfam.graphs import propose_order

from .gaussians import LinearNormal, Normal


@pytest.fixture(scope="module")
def parabola():
    """The square of the second column: easy from it, two branches to it."""
    rng = np.random.default_rng(0)
    b = rng.normal(size=200)
    return np.column_stack([b**2 + 0.1 * rng.normal(size=200), b])


@pytest.mark.slow
def test_the_cause_comes_first_where_that_is_easier(parabola):
    proposal = propose_order(parabola)
    assert proposal.order == proposal.found == (1, 0)
    assert proposal.gain == proposal.found_gain > 3 * proposal.gain_error > 0
    assert str(proposal).startswith("1 → 0: +")


def test_a_good_order_is_kept(parabola):
    proposal = propose_order(parabola[:, ::-1])
    assert proposal.order == (0, 1)
    assert proposal.gain == 0.0


def test_an_order_that_does_not_gain_is_not_proposed():
    """Linear normal factors are the same in every order, but for rounding."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    arguments = {"factor": LinearNormal(), "root": Normal()}
    proposal = propose_order(table, search_factor=LinearNormal(), **arguments)
    assert abs(proposal.found_gain) < 0.05
    better = proposal.found_gain > 0
    assert proposal.order == (proposal.found if better else (0, 1, 2))
    assert proposal.gain == max(proposal.found_gain, 0.0)


def test_the_search_is_greedy_from_the_last_column_on():
    """Each choice is that of a search that looks at every candidate."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(90, 3)) @ rng.normal(size=(3, 3))
    found = propose_order(
        table, factor=LinearNormal(), root=Normal(), search_factor=LinearNormal(), cv=3
    ).found
    folds = np.array_split(np.random.default_rng(0).permutation(90), 3)

    def score(column, parents):
        log_p = np.empty(90)
        for fold in folds:
            kept = np.setdiff1d(np.arange(90), fold)
            if parents:
                X, y = table[:, parents], table[:, column]
                fit = LinearNormal().fit(X[kept], y[kept])
                log_p[fold] = fit.score_samples(X[fold], y[fold])
            else:
                fit = KEF(select=None).fit(table[kept][:, [column]])
                log_p[fold] = fit.score_samples(table[fold][:, [column]])
        return log_p.mean()

    left, last_first = [0, 1, 2], []
    while len(left) > 1:
        gains = {c: score(c, [o for o in left if o != c]) - score(c, []) for c in left}
        best = max(gains, key=gains.get)
        last_first.append(best)
        left.remove(best)
    assert found == (*left, *last_first[::-1])


def test_a_chain_is_found_again():
    rng = np.random.default_rng(0)
    chain = [rng.normal(size=150)]
    for _ in range(3):
        chain.append(0.95 * chain[-1] + 0.3 * rng.normal(size=150))
    shuffled = [2, 0, 3, 1]
    frame = pd.DataFrame({f"t{i}": chain[i] for i in shuffled})
    proposal = propose_order(
        frame,
        graph="markov",
        factor=LinearNormal(),
        root=Normal(),
        search_factor=LinearNormal(),
    )
    forward = ("t0", "t1", "t2", "t3")
    assert proposal.order in (forward, forward[::-1])
    assert proposal.gain > 0.5


def test_an_estimator_looks_for_an_order_if_told_to(parabola):
    frame = pd.DataFrame(parabola, columns=["square", "root"])
    factor = KCEF(select=None, fit_method="score")
    model = FactorizedDensity(factor=factor, root=KEF(select=None), order="greedy")
    model.fit(frame)
    assert list(model.factors_) == ["root", "square"]
    assert model.order_.gain > 0
    plain = FactorizedDensity(factor=factor, root=KEF(select=None))
    with pytest.warns(BlindnessWarning, match="Factor of 'root'"):  # two branches
        plain.fit(frame)
    assert plain.order_ is None
    assert model.score(frame) > plain.score(frame)


def test_conditions_stay_conditions(parabola):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=200), parabola])
    proposal = propose_order(
        table, exogenous=[0], factor=LinearNormal(), search_factor=LinearNormal()
    )
    assert sorted(proposal.order) == [1, 2]


def test_only_graphs_with_an_order_have_one(parabola):
    with pytest.raises(ValueError, match="graph='full' or 'markov', got 'indep"):
        propose_order(parabola, graph="independent")
