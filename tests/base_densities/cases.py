"""The one list of base densities that feeds the tests, each with scipy's twin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from kexpfam.base_densities import (
    BaseDensity,
    GaussianBase,
    GeneralizedGaussianBase,
    MarginalBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
)


@dataclass(frozen=True)
class BaseCase:
    """A base density of one column and the same from scipy (None: it is learned)."""

    name: str
    base: BaseDensity
    twin: Any
    tail_index: float = np.inf


class Truncated:
    """A scipy distribution cut to an interval, by its definition."""

    def __init__(self, inner, low, high):
        self.inner, self.low, self.high = inner, low, high
        self.mass = inner.cdf(high) - inner.cdf(low)

    def logpdf(self, y):
        inside = (y >= self.low) & (y <= self.high)
        return np.where(inside, self.inner.logpdf(y) - np.log(self.mass), -np.inf)

    def cdf(self, y):
        below = self.inner.cdf(np.clip(y, self.low, self.high)) - self.inner.cdf(
            self.low
        )
        return below / self.mass

    def support(self):
        return self.low, self.high


class Mixture:
    """What MarginalBase must be after seeing data: a Gaussian mixture."""

    def __init__(self, centers, deviations, masses):
        self.parts = [
            (m, stats.norm(c, s))
            for c, s, m in zip(centers, deviations, masses, strict=True)
        ]

    def logpdf(self, y):
        return np.log(sum(m * part.pdf(y) for m, part in self.parts))

    def cdf(self, y):
        return sum(m * part.cdf(y) for m, part in self.parts)

    def support(self):
        return -np.inf, np.inf


def marginal(Y, weights=None) -> BaseDensity:
    """What `MarginalBase` learns from responses that were not standardised."""
    return MarginalBase().prepared(Y, np.ones(len(Y)) if weights is None else weights)


_DATA = np.append(
    np.random.default_rng(3).normal(-1.0, 0.5, 60),
    np.random.default_rng(4).gamma(2.0, size=40),
)[:, None]
MARGINAL = marginal(_DATA)

CASES = [
    BaseCase("gaussian", GaussianBase(2.0, location=0.5), stats.norm(0.5, 2.0)),
    BaseCase(
        "student_3", StudentBase(1.5, location=-1.0, df=3.0), stats.t(3, -1, 1.5), 3.0
    ),
    BaseCase("student_1", StudentBase(1.0, df=1.0), stats.cauchy(), 1.0),
    BaseCase(
        "generalized_4",
        GeneralizedGaussianBase(1.5, location=1.0, power=4.0),
        stats.gennorm(4, 1.0, 1.5),
    ),
    BaseCase("laplace", GeneralizedGaussianBase(0.8, power=1.0), stats.laplace(0, 0.8)),
    BaseCase("uniform", UniformBase(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    BaseCase(
        "truncated_below",
        TruncatedBase(GaussianBase(1.0), lower=-0.5),
        Truncated(stats.norm(), -0.5, np.inf),
    ),
    BaseCase(
        "truncated_above",
        TruncatedBase(StudentBase(1.0, df=4.0), upper=1.0),
        Truncated(stats.t(4), -np.inf, 1.0),
        4.0,
    ),
    BaseCase(
        "truncated_both",
        TruncatedBase(GeneralizedGaussianBase(2.0, power=3.0), lower=-1.0, upper=0.5),
        Truncated(stats.gennorm(3, 0, 2.0), -1.0, 0.5),
    ),
    BaseCase("marginal", MARGINAL, Mixture(*MARGINAL.mixtures[0])),
]


def case_id(case: BaseCase) -> str:
    """What pytest prints."""
    return case.name
