"""Data and fitted models that several test modules read; none may write to them."""

import functools
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF
from kexpfam.base_densities import (
    GaussianBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
)
from kexpfam.errors import BlindnessWarning
from kexpfam.kernels import Gaussian
from tests.explanation.laws import houses
from tests.oracles.family import SlowBase, SlowFamily
from tests.properties import load_profile

load_profile()


def read_only(*arrays):
    """The arrays, no longer writeable."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.fixture
def benchmark_data(monkeypatch) -> Path:
    """The folder with the files of the paper's data sets, named by KEXPFAM_DATA.

    Unless the variable is set it is `../shared/data`, beside the checkout. Tests that
    need the files are skipped where there is neither, and only there.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = os.environ.get("KEXPFAM_DATA")
    if not folder and not beside.is_dir():
        pytest.skip("the paper's files are not there: KEXPFAM_DATA names their folder")
    monkeypatch.setenv("KEXPFAM_DATA", folder or str(beside))
    return Path(folder or beside)


@pytest.fixture(scope="session")
def curve():
    """x (40, 1) and y (40,): one branch for x < 0, two for x > 0, positive y."""
    rng = np.random.default_rng(42)
    x = rng.uniform(-1.0, 1.0, size=(40, 1))
    branch = np.where(rng.random(40) < 0.4, -1.0, 1.0) * (x[:, 0] > 0)
    y = 5.0 + 2.0 * branch + 0.5 * x[:, 0] + 0.4 * rng.normal(size=40)
    return read_only(x, y)


@pytest.fixture(scope="session")
def plane():
    """x (30, 1) and y (30, 2), correlated, with a mean that moves with x."""
    rng = np.random.default_rng(43)
    x = rng.uniform(-1.0, 1.0, size=(30, 1))
    noise = rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], size=30)
    return read_only(x, np.array([10.0, -3.0]) + x * [2.0, 0.0] + noise * [1.0, 0.2])


@pytest.fixture(scope="session")
def space():
    """x (30, 1) and y (30, 3)."""
    rng = np.random.default_rng(44)
    x = rng.uniform(-1.0, 1.0, size=(30, 1))
    noise = rng.normal(size=(30, 3)) @ np.array(
        [[1.0, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 1.0]]
    )
    return read_only(x, noise * [1.0, 3.0, 0.5] + x * [1.0, 0.0, 0.5] + [0.0, 1.0, 7.0])


@pytest.fixture(scope="session")
def two_bumps():
    """Data (120, 1) from two well separated bumps of unequal mass and width."""
    rng = np.random.default_rng(45)
    data = np.append(rng.normal(-2.0, 0.5, 40), rng.normal(2.0, 0.8, 80))
    return read_only(data[:, None])[0]


@dataclass(frozen=True, eq=False)
class FittedCase:
    """A fitted model, densities at some conditions, and the oracle of each."""

    model: Any
    X: np.ndarray
    density: Any
    family: SlowFamily

    @functools.cache  # noqa: B019 - cases live as long as the session anyway
    def slow(self, i):
        """The oracle at condition i."""
        return self.family.density(self.X[i])


ELL_X, ELL_Y, LAM = 0.6, 0.7, 0.005

CONDITIONS = np.array([[-0.5], [0.1], [0.7]])


def _norm(scale):
    constant = -0.5 * math.log(2 * math.pi) - math.log(scale)
    return SlowBase(
        lambda u: constant - 0.5 * (u / scale) ** 2, lambda u: -u / scale**2
    )


def _student_3(scale):
    # t with three degrees of freedom: 2/(π√3) (1 + z²/3)⁻²
    constant = math.log(2 / (math.pi * math.sqrt(3))) - math.log(scale)
    return SlowBase(
        lambda u: constant - 2 * np.log1p((u / scale) ** 2 / 3),
        lambda u: -4 * u / (3 * scale**2 + u**2),
    )


def _base_cases(y):
    """Bases of the library with their twins in standardised units."""
    low, high = (0.0 - y.mean()) / y.std(), (9.0 - y.mean()) / y.std()
    wide, kept = _norm(2.0), math.log(stats.norm(scale=2.0).sf(low))
    cut = SlowBase(
        lambda u: np.where(u >= low, wide.logpdf(u) - kept, -np.inf),
        wide.slope,
        (low, np.inf),
    )
    flat = SlowBase(
        lambda u: np.where((u >= low) & (u <= high), -np.log(high - low), -np.inf),
        np.zeros_like,
        (low, high),
    )
    return {
        "gaussian": (GaussianBase(2.0), _norm(2.0)),
        "student": (StudentBase(1.5, df=3.0), _student_3(1.5)),
        "truncated": (TruncatedBase(GaussianBase(2.0), lower=0.0), cut),
        "uniform": (UniformBase(0.0, 9.0), flat),
    }


def fit_case(x, y, base, twin, *, lam=LAM, conditions=CONDITIONS) -> FittedCase:
    """A KCEF with Gaussian kernels and its oracle."""
    model = KCEF(
        select=None,
        kernel_x=Gaussian(ELL_X),
        kernel_y=Gaussian(ELL_Y),
        base=base,
        regularization=lam,
        random_state=0,
    )
    with warnings.catch_warnings():
        # Two branches with so little λ: their masses are wrong, but that is a density.
        warnings.simplefilter("ignore", BlindnessWarning)
        model.fit(x, y)
    Y = y[:, None] if y.ndim == 1 else y
    family = SlowFamily(x, Y, ELL_X, ELL_Y, lam, twin)
    return FittedCase(model, conditions, model.given(conditions), family)


@pytest.fixture(scope="session", params=["gaussian", "student", "truncated", "uniform"])
def line_case(request, curve):
    """KCEFs of one column with every kind of tail and edge."""
    x, y = curve
    return fit_case(x, y, *_base_cases(y)[request.param])


@pytest.fixture(scope="session")
def gaussian_case(curve):
    """The KCEF with a Gaussian base."""
    x, y = curve
    return fit_case(x, y, *_base_cases(y)["gaussian"])


@pytest.fixture(scope="session")
def plane_case(plane):
    """A KCEF of two columns."""
    return fit_case(
        *plane, GaussianBase(2.0), _norm(2.0), lam=0.03, conditions=CONDITIONS[:2]
    )


@pytest.fixture(scope="session")
def space_case(space):
    """A KCEF of three columns."""
    return fit_case(*space, GaussianBase(1.5), _norm(1.5), lam=0.05)


@pytest.fixture(scope="session")
def bimodal(two_bumps):
    """The distribution of a KEF with two modes."""
    model = KEF(kernel=Gaussian(1.0), base=GaussianBase(2.0), regularization=1e-3)
    with warnings.catch_warnings():
        # So little λ gets the masses of the bumps wrong.
        warnings.simplefilter("ignore", BlindnessWarning)
        return model.fit(two_bumps).distribution()


@pytest.fixture(scope="session")
def house_model():
    """A KCEF of houses, with a city, a date and gaps."""
    return KCEF(random_state=0).fit(*houses(250))
