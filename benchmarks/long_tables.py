"""Memory of `kexpfam fit` on a Parquet file, by blocks and with its columns in memory.

    python benchmarks/long_tables.py [--rows 1000000]

Ten columns of numbers, one of eight categories and a response whose spread depends on
x, in row groups of 100,000 rows, fitted by `--model kcef`. Each fit is in a process of
its own, and what is measured is its largest resident memory above what the imports
take, its processor seconds, and the mean held-out log density that it prints. "in
memory" is the same program without the limit from which files are read by blocks.
Needs pyarrow.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import write_result

FIT = """
import resource, sys
from functools import partial
import kexpfam.cli.fit as fit
from kexpfam.cli import main
from kexpfam.cli.blocks import is_long
path, model, how = sys.argv[1:]
if how == "in memory":
    fit.is_long = partial(is_long, many=10**12)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
main(["fit", path, "--target", "y", "--model", "kcef", "-o", model, "--json"])
"""


def write(path: Path, rows: int, group: int = 100_000) -> None:
    """The file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(0), None
    for start in range(0, rows, group):
        n = min(group, rows - start)
        X = rng.normal(size=(n, 10))
        category = rng.integers(8, size=n)
        y = X[:, 0] + 0.3 * category + np.exp(0.5 * X[:, 1]) * rng.normal(size=n)
        columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(10)}
        columns |= {"category": [f"c{k}" for k in category], "y": y}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measured(path: Path, folder: Path, how: str) -> dict[str, Any]:
    """A fit in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-c", FIT, str(path), str(folder / f"{how}.kexpfam"), how]
    done = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    out, _ = done.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"the fit {how} has ended with {done.returncode}")
    imports, text = out.split("\n", maxsplit=1)
    report = json.loads(text)
    # Of all children so far the largest: the smaller fit is first.
    return {
        "how": how,
        "rows": report["rows"],
        "megabytes": round((after.ru_maxrss - int(imports)) / 1024),
        "cpu_seconds": round(after.ru_utime - before.ru_utime, 1),
        "held_out_log_density": round(report["held_out_log_density"], 4),
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "long.parquet", chosen.rows)
        size = (folder / "long.parquet").stat().st_size
        fits = []
        for how in ("by blocks", "in memory"):
            fits.append(measured(folder / "long.parquet", folder, how))
            print(fits[-1], flush=True)
    write_result("long_tables", {"file_megabytes": round(size / 2**20), "fits": fits})


if __name__ == "__main__":
    main()
