"""Reading large data takes little memory, and budgets are understood."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from kexpfam.data import (
    DEFAULT_BUDGET,
    block_rows,
    parse_memory,
    peak_resident,
    resident_now,
)

ROWS, COLUMNS = 1_310_720, 20  # 200 MiB as float64

# A process reads everything with two threads and prints by how much its peak rose. A
# smaller source of the same kind is read before: code that has to be loaded anyway, and
# the buffers that libraries keep, are no part of what the number of rows costs.
READ = """
    import sys
    import numpy as np
    from kexpfam.data import as_source, peak_resident, reduce_blocks
    from tests.data.accumulators import RowCount
    {load}
    def read(name, rows):
        data, y = load(sys.argv[1] + "/" + name, rows)
        source = as_source(data, y, n_jobs=2)
        count = RowCount(source.n_features, source.n_responses)
        assert reduce_blocks(source, count, n_jobs=2).n_rows == rows
    read("small", 131_072)
    before = peak_resident()
    read("large", 1_310_720)
    print(peak_resident() - before)
"""

LOAD = {
    "memmap": """
    def load(path, rows):
        whole = np.memmap(path + ".bin", mode="r", dtype=float, shape=(rows, 20))
        return whole, whole[:, 0]
    """,
    "parquet": """
    def load(path, rows):
        return path + ".parquet", "c0"
    """,
    "polars": """
    import polars as pl
    def load(path, rows):
        return pl.scan_parquet(path + ".parquet"), "c0"
    """,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(COLUMNS)]
    for name, rows in (("small", ROWS // 10), ("large", ROWS)):
        values = rng.random((rows, COLUMNS))
        values.tofile(folder / f"{name}.bin")
        table = pa.table(dict(zip(names, values.T, strict=True)))
        # in row groups of ten times as many rows as a block has
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=81_920)
    yield folder
    for path in folder.iterdir():
        path.unlink()  # pytest keeps folders of earlier runs


# Blocks of 8192 rows take 1.3 MiB each, and each thread holds about four of them.
# Parquet adds buffers, and Polars reads for each thread a range of eight blocks, and
# its row group as a whole, which is 13 MiB.
@pytest.mark.parametrize(
    ("kind", "bound"), [("memmap", 25), ("parquet", 50), ("polars", 60)]
)
def test_reading_200_mib_takes_little_memory(files, kind, bound):
    pytest.importorskip("pyarrow")
    if peak_resident() is None:
        pytest.skip("this system does not tell")
    code = textwrap.dedent(READ).format(load=textwrap.dedent(LOAD[kind]))
    done = subprocess.run(
        [sys.executable, "-c", code, str(files)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < bound * 2**20


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1000, 1000),
        (np.int64(7), 7),
        ("1000", 1000),
        ("1 GiB", 2**30),
        ("1gib", 2**30),
        ("500MB", 500 * 10**6),
        (" 1.5 KiB ", 1536),
        ("2TB", 2 * 10**12),
        ("3 B", 3),
    ],
)
def test_memory_is_a_number_with_a_unit(value, expected):
    assert parse_memory(value) == expected


@pytest.mark.parametrize(
    "value",
    [0, -1, "0 MB", "-1 MB", "much", "1 QB", "", "GB", 1.5, None, True, "1e3 MB"],
)
def test_other_budgets_are_refused(value):
    with pytest.raises(ValueError, match="memory_budget must be a positive number of"):
        parse_memory(value)


def test_blocks_shrink_with_columns_threads_and_budget_but_have_a_row():
    assert block_rows(10, DEFAULT_BUDGET, 2) == 8192
    wide = block_rows(5000, DEFAULT_BUDGET, 1)
    assert 1 < wide < 8192
    assert block_rows(5000, DEFAULT_BUDGET, 4) == wide // 4
    assert block_rows(5000, DEFAULT_BUDGET // 4, 1) == wide // 4
    assert block_rows(10**9, 1000, 64) == 1


def test_resident_memory_rises_with_what_is_held():
    if resident_now() is None:
        pytest.skip("this system does not tell")
    # In a process of its own: this one may hold memory that others have given back.
    code = """
import numpy as np
from kexpfam.data import peak_resident, resident_now
before = resident_now()
held = np.ones(50 * 2**17)  # 50 MiB
print(resident_now() - before, peak_resident() - resident_now(), held[-1])
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    rise, peak, _ = map(float, run.stdout.split())
    # Other memory may be handed back meanwhile, but not as much.
    assert rise > 40 * 2**20
    assert peak >= -(2**20)
