"""Models whose p(y|x) is a Gaussian that is written down, and a table of houses."""

import numpy as np
import pandas as pd

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.explanation import ModelColumns


def gaussian(mean, std, columns, **more):
    """Columns of the model p(y|x) = N(mean(X), std(X)²)."""

    def densities(Z):
        scale = np.broadcast_to(std(Z), len(Z)).astype(float)
        return ClosedFormDensity(GaussianBase(1.0), mean(Z).astype(float), scale)

    names = [f"x{i}" for i in range(columns)]
    return ModelColumns.of(names, None, np.asarray, densities, **more)


def linear(slopes, std=1.0, **more):
    slopes = np.asarray(slopes, dtype=float)
    return gaussian(lambda Z: Z @ slopes, lambda Z: std, len(slopes), **more)


def houses(n, seed=0):
    """Areas, rooms that go with them, cities, dates and gaps; and prices."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(40, 140, n)
    city = rng.choice(["Lima", "Oslo", "Rome"], n)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 1500, n)
    garden = np.where(rng.random(n) < 0.2, np.nan, rng.exponential(100, n))
    extra = pd.Series(city).map({"Lima": 0.0, "Oslo": 60.0, "Rome": 25.0}).to_numpy()
    y = 2 * area + extra + 10 * rng.normal(size=n)
    rooms = np.round(area / 25 + 0.1 * rng.normal(size=n))
    frame = pd.DataFrame({"area": area, "rooms": rooms, "city": city})
    frame["sold"], frame["garden"] = sold, garden
    return frame, pd.Series(y, name="price")
