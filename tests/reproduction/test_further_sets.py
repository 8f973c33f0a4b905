"""Files made from tables of R packages are those that were measured."""

import csv

from reproduction.further_sets import COLUMNS, content, write


def rows_of(path):
    with path.open() as lines:
        return [
            {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(lines)
        ]


def test_numbers_are_written_as_in_the_files_of_the_paper(benchmark_data):
    for name in ("GAGurine", "geyser", "topo", "mcycle"):
        path = benchmark_data / f"{name}.csv"
        assert content(COLUMNS[name], rows_of(path)) == path.read_text()


def test_only_tables_that_are_known_are_kept(
    benchmark_data, monkeypatch, tmp_path, capsys
):
    rows = rows_of(benchmark_data / "topo.csv")
    changed = [{**row, "accel": 0.0, "times": 1.0} for row in rows]
    monkeypatch.setenv("KEXPFAM_DATA", "")  # put back at the end
    assert write(tmp_path, {"topo": rows, "mcycle": changed}) == ["topo"]
    assert [path.name for path in tmp_path.iterdir()] == ["topo.csv"]
    assert "mcycle is not what was measured" in capsys.readouterr().out
