"""No rows are no densities: empty answers of the right shape, and no error."""

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam.baselines import LSCDE, ConditionalKDE

QUICK = {"experts": ["families"], "likelihood": False, "random_state": 0}


pytestmark = pytest.mark.usefixtures("few_coordinates")


def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(60, 2))
    return x, np.exp(x[:, 0] + 0.3 * rng.normal(size=60))


def zeros():
    x, y = rows()
    return x, np.where(y < 0.7, 0.0, y)


def counted():
    x, y = rows()
    return x, np.floor(2.0 * y)


ONE = {
    "family": lambda: KCEF(select=None).fit(*rows()),
    "bounds of a family": lambda: KCEF(select=None, lower=0.0).fit(*rows()),
    "average": lambda: AutoKCEF(lower=-np.inf, **QUICK).fit(*rows()),
    "bounds": lambda: AutoKCEF(lower=0.0, **QUICK).fit(*rows()),
    "likely bounds": lambda: AutoKCEF(**QUICK).fit(*rows()),
    "atoms": lambda: AutoKCEF(atoms=[0.0], **QUICK).fit(*zeros()),
    "counts": lambda: AutoKCEF(counts=True, **QUICK).fit(*counted()),
    "kernel density": lambda: ConditionalKDE(widths_x=0.5, widths_y=0.5).fit(*rows()),
    "least squares": lambda: LSCDE(random_state=0).fit(*rows()),
}


@pytest.mark.filterwarnings("ignore::kexpfam.errors.MeasureWarning")
@pytest.mark.parametrize("kind", ONE)
def test_no_rows_have_empty_answers(kind):
    model = ONE[kind]()
    some, none = np.array([[0.1, 0.2], [0.3, 0.0]]), np.empty((0, 2))
    for ask in (
        model.predict,
        lambda X: model.predict_quantiles(X, [0.1, 0.5, 0.9]),
        lambda X: model.predict_interval(X, 0.8),
        lambda X: model.sample(X, 7, random_state=0),
        lambda X: model.score_samples(X, np.ones(len(X))),
        lambda X: model.predict_frame(X, interval=0.9, above=[1.0, 2.0]).to_numpy(),
    ):
        whole, empty = ask(some), ask(none)
        assert empty.shape == (0, *whole.shape[1:])
        assert empty.dtype == whole.dtype
    p, empty = model.given(some), model.given(none)
    assert type(empty) is type(p)
    assert len(empty) == 0
    assert list(empty) == []
    for name in ("mean", "std", "var", "median", "mode", "entropy"):
        assert getattr(empty, name)().shape == (0,), name
    assert empty.interval(0.9).shape == empty.support.shape == (0, 2)
    assert empty.quantile([0.1, 0.9]).shape == (0, 2)
    for name in ("logpdf", "pdf", "cdf", "sf"):
        assert getattr(empty, name)(np.empty(0)).shape == (0,), name
        assert getattr(empty, name)(np.empty((0, 4))).shape == (0, 4), name
    assert empty.rvs(3, random_state=0).shape == (0, 3)
    assert empty.hpd(0.5) == []
    assert "0" in repr(empty)
    with pytest.raises(ValueError, match="X has none"):
        model.score(none, np.empty(0))
    frame = model.predict_frame(none)
    assert list(frame.columns) == ["mean", "std", "q0.05", "q0.5", "q0.95"]


@pytest.mark.parametrize("kind", [KCEF, AutoKCEF])
def test_no_rows_of_several_columns(kind):
    x, y = rows()
    how = QUICK if kind is AutoKCEF else {"select": None}
    Y = np.column_stack([np.log(y), x[:, 1] + y])
    model, none = kind(**how).fit(x, Y), np.empty((0, 2))
    assert model.predict(none).shape == (0, 2)
    assert model.sample(none, 5, random_state=0).shape == (0, 5, 2)
    assert model.score_samples(none, np.empty((0, 2))).shape == (0,)
    assert model.predict_frame(none).shape == (0, 10)
    p = model.given(none)
    assert len(p) == 0
    assert p.mean().shape == p.std().shape == (0, 2)
    assert p.cov().shape == (0, 2, 2)
    assert p.logpdf(np.empty((0, 2))).shape == (0,)


def test_too_few_columns_are_an_error_with_no_rows_as_with_some():
    model = KCEF(select=None).fit(*rows())
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.empty((0, 3)))


def test_no_rows_have_empty_bands():
    x, y = rows()
    model = KCEF(select=None, bootstrap=2, random_state=0).fit(x, y)
    band = model.given(np.empty((0, x.shape[1]))).band()
    assert band.y.shape == band.lower.shape == band.upper.shape
    assert len(band.y) == 0
