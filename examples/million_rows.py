"""A million rows on a laptop: Parquet in, p(y|x) out, in bounded memory.

    python examples/million_rows.py [number of rows] [picture.png]

Writes rows to Parquet files, fits them block by block, compares the fit with the
density that the rows were drawn from, and draws p(y|x) at three values of one column.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kexpfam import KCEF
from kexpfam.data import peak_resident, resident_now

NAMES = ["a", "b", "c"]


def make_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two branches whose distance grows with `a`, around a wave in `b`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    upper = rng.random(n) < 0.35
    middle, distance = np.sin(3.0 * X[:, 1]), 1.0 + X[:, 0]
    return X, middle + np.where(upper, distance, 0.0) + 0.4 * rng.normal(size=n)


def log_density(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What the rows were drawn from."""
    middle, distance = np.sin(3.0 * X[:, 1]), 1.0 + X[:, 0]
    lower = -0.5 * ((y - middle) / 0.4) ** 2
    upper = -0.5 * ((y - middle - distance) / 0.4) ** 2
    both = np.logaddexp(np.log(0.65) + lower, np.log(0.35) + upper)
    return both - np.log(0.4 * np.sqrt(2.0 * np.pi))


def write_parquet(folder: Path, n: int) -> None:
    """Files of at most 100,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for k, start in enumerate(range(0, n, 100_000)):
        X, y = make_rows(min(100_000, n - start), seed=k)
        table = pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": y})
        pq.write_table(table, folder / f"rows-{k:03d}.parquet", row_group_size=25_000)


def main(n: int, picture: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parquet(folder, n)
        before, start = resident_now(), time.perf_counter()
        model = KCEF(random_state=0, verbose=True).fit(folder, "y")
        seconds, peak = time.perf_counter() - start, peak_resident()
    print(f"{n} rows fitted in {seconds:.0f} s", end="")
    if before is not None and peak is not None:
        print(f", with {(peak - before) / 2**20:.0f} MiB more than before", end="")
    print(f"\n{model.components_}")
    X, y = make_rows(20_000, seed=10**6)
    import pandas as pd

    fresh = pd.DataFrame(X, columns=NAMES)
    found, truth = model.score(fresh, y), log_density(X, y).mean()
    print(f"log density of fresh rows: {found:.4f}, of the truth {truth:.4f}")
    draw(model, picture)


def draw(model: KCEF, picture: str) -> None:
    """p(y|x) at three places, and the truth."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import pandas as pd

    grid = np.linspace(-2.5, 5.0, 400)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
    for ax, a in zip(axes, (-0.8, 0.0, 0.8), strict=True):
        place = pd.DataFrame([[a, 0.0, 0.0]], columns=NAMES)
        ax.plot(grid, model.given(place)[0].pdf(grid), label="fitted")
        same = np.tile(place.to_numpy(), (len(grid), 1))
        ax.plot(grid, np.exp(log_density(same, grid)), "k--", lw=1, label="truth")
        ax.set_title(f"a = {a}", fontsize=10)
        ax.set_xlabel("y")
    axes[0].set_ylabel("p(y | a, b = c = 0)")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(picture, dpi=130)
    print(f"drawn to {picture}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        int(arguments[0]) if arguments else 1_000_000,
        arguments[1] if len(arguments) > 1 else "million_rows.png",
    )
