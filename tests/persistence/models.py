"""Models of every kind that can be saved, each fitted once, and none written to."""

import functools
import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity
from kexpfam.base_densities import (
    GaussianProcessBase,
    LinearBase,
    MarginalBase,
    StudentBase,
    TransformedBase,
    TruncatedBase,
    UniformBase,
)
from kexpfam.data import Rows, TrainingRows
from kexpfam.errors import BlindnessWarning
from kexpfam.family import fit_coordinates, solve
from kexpfam.kernels import Constant, Gaussian, Matern, RationalQuadratic, separable
from kexpfam.selection.spec import default_coordinates
from kexpfam.summaries import ColumnKinds, LearnedSummary
from tests.conftest import read_only


def _rows(n):
    rng = np.random.default_rng(11)
    X = rng.lognormal(size=(n, 2))
    y = np.exp(0.4 * np.sin(2 * X[:, 0]) + 0.2 * (1 + X[:, 1]) * rng.normal(size=n))
    return read_only(X, y, np.column_stack([y, X[:, 0] - y]))


X, Y, BOTH = _rows(40)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": Y})
# Columns of every kind, with gaps.
TABLE = pd.DataFrame(
    {
        "a": np.where(np.arange(40) % 9 == 4, np.nan, X[:, 0]),
        "size": np.resize(["S", "L", "M", "S"], 40),
        "city": np.resize(["Rome", "Oslo"], 40),
        "shop": [f"{i % 2}" if i % 3 else f"rare {i}" for i in range(40)],
        "when": pd.date_range("2024-01-20", periods=40),
    }
)
# A stream has more rows than centres, and weights.
MORE_X, MORE_Y, MORE_BOTH = _rows(120)
WEIGHTS = read_only(np.random.default_rng(3).uniform(0.5, 2.0, size=120))[0]

WIDE = GaussianProcessBase(heteroscedastic=True)
SETTLED = {
    "kernel_x": Gaussian(1.5),
    "kernel_y": Gaussian(1.0),
    "regularization": 0.05,
    "random_state": 0,
}


def untuned(**parameters):
    """A model without a search, which is nothing that a file would show."""
    return KCEF(**{"select": None, "random_state": 0, **parameters})


def summed(**parameters):
    """A model that sums up its rows."""
    return KCEF(**{**SETTLED, "n_components": 9, **parameters})


def _warped():
    """A family whose x is transformed, which estimators choose by themselves only."""
    rng = np.random.default_rng(0)
    rows = TrainingRows.of(Rows(X, Y[:, None], np.ones(len(Y))))
    base = GaussianProcessBase(StudentBase(0.9, df=5.0))
    placed = fit_coordinates(rows, base, rng, transform_x=True)
    kernel = separable(Gaussian(1.0), Gaussian(0.8))
    model = untuned().fit(X, Y)
    family = solve(placed, kernel, 0.1, seed=3)
    model._restore(replace(model._solved, family=family))
    return model


def _inducing():
    """A model whose process has inducing points."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=(2100, 2))
    y = np.sin(3 * x[:, 0]) + 0.3 * np.exp(x[:, 1]) * rng.normal(size=2100)
    return untuned(base="gaussian_process", n_components=10).fit(x, y)


def _summary():
    """A summary of x whose location is a forest and a process: a step and a slope."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 1, size=(80, 2))
    y = np.sign(x[:, 0]) * (1.0 + x[:, 1]) + np.sin(4 * x[:, 1]) + 0.1 * x[:, 0]
    return untuned(features=LearnedSummary(cells=3)).fit(x, y)


def _viewed():
    """A summary whose trees see gaps and categories."""
    kinds = ColumnKinds(((0, 1),), ((0, 1),))
    features = LearnedSummary("extra_trees", cells=0, kinds=kinds)
    return untuned(features=features).fit(X, Y)


def _repeats():
    """A summary of x in which rows with the same value share an effect."""
    rng = np.random.default_rng(7)
    day = rng.integers(90, size=450)
    off, z = rng.normal(size=90)[day], rng.uniform(-1, 1, size=450)
    y = off + np.where(z > 0, 1.0, -1.0) + 0.2 * rng.normal(size=450)
    x = np.column_stack([np.sqrt(day + 2.0), z])
    return untuned(features=LearnedSummary(cells=0)).fit(x, y)


def _average():
    """An average in a few coordinates, of which some are shared."""
    few = default_coordinates()[:4]
    with mock.patch.object(AutoKCEF, "_coordinates", return_value=few):
        return AutoKCEF(likelihood=False, random_state=0).fit(X, Y)


def _mixture():
    """An average of lines that cross."""
    side = np.where(np.arange(120) % 2, 2.0, -2.0)
    y = side * MORE_X[:, 0] + 0.1 * MORE_Y
    return AutoKCEF(experts=("mixtures",), random_state=0).fit(MORE_X, y)


def _average_of_two():
    """Averages of two columns of y, each in one kind of coordinates."""
    few = [spec for spec in default_coordinates() if spec.name == "normal"]
    with mock.patch.object(AutoKCEF, "_coordinates", return_value=few):
        return AutoKCEF(likelihood=False, random_state=0).fit(X, BOTH)


def _table():
    """A model of a table as it comes; the shop says something of y."""
    y = Y + 5.0 * (TABLE["shop"] == "1")
    order = {"size": ("S", "M", "L")}
    return untuned(ordered=order).fit(TABLE, y)


def _discrete(y, **parameters):
    """A law with atoms or of counts, in one kind of coordinates."""
    few = [spec for spec in default_coordinates() if spec.name == "normal"]
    with mock.patch.object(AutoKCEF, "_coordinates", return_value=few):
        model = AutoKCEF(likelihood=False, random_state=0, **parameters)
        return model.fit(MORE_X, y)


def _average_with_bands():
    """An average in one kind of coordinates, fitted to reweighted rows twice."""
    few = [spec for spec in default_coordinates() if spec.name == "normal"]
    with mock.patch.object(AutoKCEF, "_coordinates", return_value=few):
        return AutoKCEF(likelihood=False, bootstrap=2, random_state=0).fit(X, Y)


def _joint(**parameters):
    model = FactorizedDensity(factor=untuned(), root=KEF(select=None), **parameters)
    return model.fit(FRAME)


def _joint_of_average():
    """A joint density with the one factor that takes long to fit."""
    model = _joint(graph={"c": ["a", "b"]}, exogenous=["a", "b"])
    model.factors_ = {"c": fitted("average")}
    return model


MODELS = {
    "plain": lambda: untuned(random_state=None).fit(X, Y),
    "names": lambda: untuned().fit(FRAME[["a", "b"]], Y),
    "kernels": lambda: untuned(
        kernel=separable(Gaussian("median"), Gaussian(0.5) + 0.3 * Matern(2.0))
        + separable(Constant(0.1), Matern("median") * RationalQuadratic(1.0)),
        regularization=np.float64(0.03),
        standardize=False,
    ).fit(X, Y),
    "lengthscales": lambda: untuned(
        kernel_x=Gaussian((0.5, 2.0)), kernel_y=Gaussian((0.7,))
    ).fit(X, Y),
    "marginal": lambda: untuned(base=MarginalBase()).fit(X, Y),
    "bounded": lambda: untuned(base=UniformBase(-10.0, 90.0)).fit(X, Y),
    "truncated": lambda: untuned(
        base=TruncatedBase(StudentBase(2.0), lower=-1.0, upper=90.0)
    ).fit(X, Y),
    "likelihood": lambda: untuned(fit_method="likelihood").fit(X, Y),
    "bridged": lambda: untuned(fit_method="bridged").fit(X, Y),
    "chosen": lambda: KCEF(select="score", random_state=0).fit(X, Y),
    "process": lambda: untuned(
        base=TransformedBase("yeo_johnson", WIDE), n_components=15
    ).fit(X, Y),
    "linear": lambda: untuned(base=TransformedBase("gaussianize", LinearBase())).fit(
        X, Y
    ),
    "positive": lambda: untuned(
        base=TransformedBase("yeo_johnson", TruncatedBase(lower=0.0))
    ).fit(X, Y),
    "warped": _warped,
    "inducing": _inducing,
    "two columns": lambda: untuned(base=WIDE, regularization=0.5).fit(X, BOTH),
    "summary": _summary,
    "viewed": _viewed,
    "repeats": _repeats,
    "table": _table,
    "KEF": lambda: KEF(select=None).fit(Y[:, None]),
    "KEF, chosen": lambda: KEF(base=MarginalBase(), random_state=7).fit(Y[:, None]),
    # Importance sampling without a seed of the user's.
    "KEF, three columns": lambda: KEF(regularization=1.0).fit(FRAME),
    "average": _average,
    "average, mixture": _mixture,
    "average, two columns": _average_of_two,
    "average, atoms": lambda: _discrete(
        np.where(MORE_X[:, 0] > 1.0, 0.5, MORE_Y), atoms=(0.5,), lower=0.0
    ),
    "average, counts": lambda: _discrete(np.floor(2 * MORE_Y), counts=True),
    "lower": lambda: untuned(lower=0.0).fit(X, Y),
    "bands": lambda: untuned(bootstrap=2).fit(X, Y),
    "KEF, bands": lambda: KEF(select=None, bootstrap=2).fit(Y[:, None]),
    "average, bands": _average_with_bands,
    "joint": lambda: _joint(graph="full"),
    "joint, blocks": lambda: _joint(graph={("a", "b"): [], "c": ["a", "b"]}),
    "joint, exogenous": lambda: _joint(graph={"a": ["c"], "b": []}, exogenous=["c"]),
    "joint, average": _joint_of_average,
    "sums": lambda: summed().fit(MORE_X, MORE_Y, WEIGHTS),
    "sums, functions": lambda: summed(derivative_features=True).fit(MORE_X, MORE_BOTH),
    "sums, process": lambda: summed(base="gaussian_process").fit(MORE_X, MORE_Y),
    "sums, untuned": lambda: summed(regularization=None, select=None).fit(
        MORE_X, MORE_Y
    ),
    "sums, chosen": lambda: KCEF(n_components=9, random_state=0).fit(MORE_X, MORE_Y),
    "rows": lambda: KCEF(**SETTLED).fit(X, Y, WEIGHTS[:40]),
}
STREAMS = [name for name in MODELS if name.startswith(("sums", "rows"))]


@functools.cache
def fitted(name):
    """The model of a name; copy it before it learns more."""
    with warnings.catch_warnings():
        # Untuned fits give the few largest responses too much mass; files keep them so.
        warnings.simplefilter("ignore", BlindnessWarning)
        return MODELS[name]()


def options(name):
    """What a model is saved with."""
    return {"sums": True} if name in STREAMS else {}


def scores(model):
    """Log densities of some rows."""
    if isinstance(model, KEF | FactorizedDensity):
        data = {1: Y[:, None], 3: FRAME}[model.n_features_in_]
        return model.score_samples(data[:5])
    x = FRAME[["a", "b"]] if hasattr(model, "feature_names_in_") else X
    x = x if getattr(model, "coder_", None) is None else TABLE
    return model.score_samples(x[:5], (Y, BOTH)[model._response_columns - 1][:5])
