"""A small table that the tests of the commands write to files, and a quick model."""

import numpy as np

from kexpfam import KCEF, FactorizedDensity

CITIES = ("Lima", "Oslo", "Rome")


def houses(n=60, seed=0):
    """Columns area, rooms, city, price: numbers, whole numbers, categories, target."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(30.0, 150.0, n).round(1)
    rooms = rng.integers(1, 6, n)
    city = np.resize(CITIES, n)
    price = 2.0 * area + 50.0 * (city == "Oslo") + rng.gamma(2.0, 15.0, n)
    return {"area": area, "rooms": rooms, "city": city, "price": price.round(1)}


def with_gaps(columns, **rows):
    """Columns as texts, with nothing in some rows of those that are named."""
    columns = {k: np.asarray(v).astype(object) for k, v in columns.items()}
    for name, places in rows.items():
        columns[name][places] = ""
    return columns


def write(path, columns, delimiter=","):
    """Write columns as text, and return the path as a text."""
    lines = [delimiter.join(columns)]
    rows = zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True)
    lines += [delimiter.join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def untuned_model(kind, seed, *, joint=False, **law):
    """What `fit` makes in place of a model that chooses, where only speed matters."""
    single = KCEF(select=None, random_state=seed)
    return FactorizedDensity(factor=single, random_state=seed) if joint else single
