"""A table with columns of every kind, as pandas or Polars has it."""

import numpy as np
import pandas as pd
import polars as pl

SIZES = ["S", "M", "L"]


def columns(n=60, seed=0):
    """Columns by name, without gaps, and a response that depends on most of them."""
    rng = np.random.default_rng(seed)
    found = {
        "row_id": np.arange(n),
        "x": rng.normal(size=n),
        "sold": rng.random(n) < 0.5,
        "city": rng.choice(["Lima", "Oslo", "Rome"], n),
        "size": rng.choice(SIZES, n),
        "when": np.datetime64("2024-01-20") + rng.integers(0, 90, n),
        "took": rng.integers(1, 900, n).astype("m8[s]"),
        "land": np.full(n, "Peru"),
    }
    y = found["x"] + [SIZES.index(s) for s in found["size"]] + rng.normal(size=n)
    return found, y


def pandas_frame(n=60, seed=0, gaps=False):
    found, y = columns(n, seed)
    frame = pd.DataFrame(found)
    frame["size"] = pd.Categorical(frame["size"], SIZES, ordered=True)
    frame["sold"] = frame["sold"].astype("boolean")
    if gaps:
        for i, name in enumerate(["x", "sold", "city", "size", "when", "took"]):
            frame.loc[frame.index[2 * i :: 11], name] = None
    return frame, y


def polars_frame(n=60, seed=0, gaps=False):
    frame, y = pandas_frame(n, seed, gaps)
    plain = frame.assign(size=frame["size"].astype(object), took=frame["took"])
    made = pl.from_pandas(plain)
    return made.with_columns(pl.col("size").cast(pl.Enum(SIZES))), y


FRAMES = {"pandas": pandas_frame, "polars": polars_frame}
