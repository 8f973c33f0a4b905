"""CSV and Parquet files with odd cells, spoiled structure and flipped bits.

The command line reads such a file, fits a model and asks it, or says in a sentence what
is wrong; it never ends in a traceback, and no answer is NaN.
"""

import gzip
import importlib
from unittest import mock

import numpy as np
from click.testing import CliRunner

from kexpfam.cli import main
from tests.cli.tables import houses, untuned_model

CELLS = [
    *("", " ", "NA", "nan", "None", "?", "-", "inf", "-Infinity", "1e999", "1e-999"),
    *("0x10", "1_000", "1,5", "1.5.2", "+-1", "٣", "½", "1e308", "-1e308", "5e-324"),
    *("2024-02-30", "2024-02-29", "31/01/2024", "12:00", "true", "TRUE", "9" * 400),
    *('"', '""', '"a,b"', 'a"b', "a;b", "a\tb", "a\nb", "\r", "=1+1", "\x1b[31m"),
    *("\ufeff", "é", "🙂", "\u202e", "\x00", "x" * 200_000, "price", "rows"),
    *("9007199254740993", "18446744073709551616", "-0", "1e5", "00012", "7.0"),
]
NAMES = [
    "",
    " ",
    "price",
    "area",
    "a" * 5000,
    "a,b",
    '"',
    "\x07",
    "1",
    "--target",
    "=x",
]


def _choice(rng, among):
    return among[rng.integers(len(among))]


def _lines(rng):
    """Names and rows of a table, as texts, some cells of which are odd."""
    columns = houses(int(rng.integers(5, 40)), int(rng.integers(1000)))
    n = len(columns["area"])
    day = np.datetime64("2024-01-01") + rng.integers(0, 400, n)
    columns = {**columns, "day": day, "flag": rng.random(n) < 0.5}
    rows = [list(map(str, row)) for row in zip(*columns.values(), strict=True)]
    names, said = list(columns), []
    for _ in range(rng.integers(0, 4)):
        cell, column = _choice(rng, CELLS), int(rng.integers(len(names)))
        kind = rng.integers(6)
        if kind == 0:  # everywhere
            for row in rows:
                row[column] = cell
        elif kind == 1:
            names[column] = cell = _choice(rng, NAMES)
        elif kind == 2:  # another number of cells
            row = _choice(rng, rows)
            row[:] = row[:-1] if rng.random() < 0.5 else [*row, cell]
            column = min(column, len(row) - 1)
        else:
            row = _choice(rng, rows)
            row[min(column, len(row) - 1)] = cell
        said.append(f"{names[column]!r:.20} {cell!r:.20} ({kind})")
        if any(len(row) != len(names) for row in rows):
            break
    return names, rows, said


def _text(rng):
    """The bytes of a text file, the end of its name, and how it was made."""
    names, rows, said = _lines(rng)
    delimiter = _choice(rng, [",", ",", ",", ";", "\t"])
    end = _choice(rng, ["\n", "\n", "\n", "\r\n", "\r"])
    text = end.join(delimiter.join(row) for row in (names, *rows)) + end
    code = _choice(rng, ["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
    content = text.encode(code, errors="replace")
    suffix = _choice(rng, ["csv", "csv", "csv", "tsv", "txt", "csv.gz"])
    if suffix.endswith("gz"):
        content = gzip.compress(content)
    said.append(f"{suffix}, {delimiter!r}, {end!r}, {code}")
    return content, suffix, said


def _arrays():
    """A column of each kind that Parquet files may have, by name, of 30 rows."""
    import pyarrow as pa

    n, rng = 30, np.random.default_rng(0)
    whole = rng.integers(0, 9, n)
    moments = np.datetime64("2024-01-01T00:00:00") + whole.astype("m8[D]")
    kinds = {
        "large": pa.array((2**53 + 1 + whole).tolist()),
        "unsigned": pa.array([2**64 - 1 - int(k) for k in whole], pa.uint64()),
        "list": pa.array([[int(k)] for k in whole]),
        "struct": pa.array([{"a": int(k)} for k in whole]),
        "map": pa.array([[("a", int(k))] for k in whole], pa.map_("string", "int64")),
        "binary": pa.array([bytes([k]) for k in whole]),
        "decimal": pa.array(whole.tolist()).cast(pa.decimal128(30, 3)),
        "coded": pa.array([f"c{k}" for k in whole]).dictionary_encode(),
        "time": pa.array(whole.tolist(), pa.int32()).cast(pa.time32("s")),
        "moment": pa.array(moments.astype("M8[ns]")),
        "zone": pa.array(moments.astype("M8[us]")).cast(pa.timestamp("us", "UTC")),
        "lasted": pa.array(whole.tolist(), pa.int64()).cast(pa.duration("s")),
        "nothing": pa.nulls(n),
        "half": pa.array(whole.astype(np.float16)),
        "infinite": pa.array(np.where(whole == 3, np.inf, whole.astype(float))),
        "gaps": pa.array([None if k % 3 else float(k) for k in whole]),
        "texts": pa.array(["\x00", "", None, "é", "nan"] * 6),
        "flags": pa.array([None if k == 1 else bool(k % 2) for k in whole]),
    }
    plain = {k: pa.array(np.asarray(v)) for k, v in houses(n).items() if k != "city"}
    return plain, kinds


def _parquet(rng):
    """The bytes of a Parquet file, the end of its name, and how it was made."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    plain, kinds = _arrays()
    names = rng.permutation(sorted(kinds))[: rng.integers(0, 4)].tolist()
    columns = {**plain, **{name: kinds[name] for name in names}}
    rows = int(_choice(rng, [0, 1, 2, 30, 30, 30]))
    file = io.BytesIO()
    table = pa.table(columns).slice(0, rows)
    pq.write_table(table, file, row_group_size=int(rng.integers(1, 40)))
    return file.getvalue(), "parquet", [*names, f"{rows} rows"]


def _spoiled(content, rng):
    """Bytes with some flipped, left out or put in, and how."""
    data = bytearray(content)
    kind = int(rng.integers(4))
    if kind == 0 and data:
        for place in rng.integers(len(data), size=rng.integers(1, 5)):
            data[place] = int(rng.integers(256))
    elif kind == 1:
        del data[int(rng.integers(len(data) + 1)) :]
    elif kind == 2:
        place = int(rng.integers(len(data) + 1))
        data[place:place] = rng.bytes(int(rng.integers(1, 20)))
    return bytes(data), ["flipped", "cut", "put in", "as it is"][kind]


def attempt(path, words, folder):
    """What is wrong with the program, or nothing: fit to a file, and ask the model."""
    model = folder / "table.kexpfam"
    model.unlink(missing_ok=True)
    fit = importlib.import_module("kexpfam.cli.fit")
    with mock.patch.object(fit, "new_model", untuned_model):
        said = ["fit", str(path), "--target", "price", *words, "-o", str(model)]
        problem, done = _called(*said)
        if problem is not None or done is None:
            return problem
    for asked in ([], ["--quantiles", "0.1,0.9"]):
        problem, done = _called("predict", str(model), str(path), *asked)
        if problem is None and done is not None and "nan" in done.stdout.lower():
            problem = "a prediction that is no number"
        if problem is not None:
            return problem
    return None


def _called(*words):
    """What is wrong with a call, and its result if it went well."""
    done = CliRunner().invoke(main, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        error = done.exception
        return f"{words[0]} ended in {type(error).__name__}: {error}", None
    if done.exit_code == 0:
        return None, done
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    clear = last.startswith("Error: ") and last.rstrip(")").endswith((".", "?"))
    if done.exit_code not in (1, 2) or not clear or len(last) > 1500:
        return f"{words[0]} was not refused clearly: {last[:300]!r}", None
    return None, None


def one_case(rng, folder):
    """A random case: how it was made, and what is wrong, or None."""
    content, suffix, said = (_parquet if rng.random() < 0.4 else _text)(rng)
    if rng.random() < 0.4:
        content, how = _spoiled(content, rng)
        said.append(how)
    words = _choice(rng, [[], [], ["--missing", "drop"], ["--features", "area,rooms"]])
    path = folder / f"table.{suffix}"
    path.write_bytes(content)
    return "; ".join([*said, *words]), attempt(path, words, folder)
