"""Tables from pipes are read, and what is no file is refused at once."""

import gzip
import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from kexpfam import load
from kexpfam.cli import main
from kexpfam.cli.readers import read_table
from kexpfam.errors import FileFormatError
from kexpfam.tables import TableError
from tests.cli.tables import houses, write


class Given(io.TextIOWrapper):
    """Standard input with some bytes."""

    def __init__(self, content, *, terminal=False):
        super().__init__(io.BytesIO(content))
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def content(tmp_path, name="a.csv"):
    with open(write(tmp_path / name, houses(20)), "rb") as file:
        return file.read()


@pytest.fixture
def fifo(tmp_path):
    """Makes a named pipe that someone writes into."""
    writers = []

    def make(name, sent):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(sent,)))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_a_table(tmp_path, monkeypatch, packed):
    text = content(tmp_path)
    sent = gzip.compress(text) if packed else text
    monkeypatch.setattr(sys, "stdin", Given(sent))
    table = read_table("-")
    assert table.path == "standard input"
    np.testing.assert_array_equal(table.numbers("price"), houses(20)["price"])


def test_parquet_comes_through_a_pipe(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "a.parquet"
    pandas.DataFrame(houses(20)).to_parquet(path)
    monkeypatch.setattr(sys, "stdin", Given(path.read_bytes()))
    np.testing.assert_array_equal(
        read_table("-").labels("city"), houses(20)["city"].astype(str)
    )


@pytest.mark.parametrize("name", ["pipe", "pipe.tsv"])
def test_named_pipes_are_tables(tmp_path, fifo, name):
    delimiter = "\t" if name.endswith("tsv") else ","
    file = write(tmp_path / f"a{name[4:]}", houses(20), delimiter)
    with open(file, "rb") as opened:
        path = fifo(name, opened.read())
    table = read_table(path)
    assert table.path == str(path)
    np.testing.assert_array_equal(table.numbers("price"), houses(20)["price"])


def test_messages_name_the_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Given(b"a,b\n1,2\n3\n"))
    with pytest.raises(TableError, match=r"^standard input, line 3: 1 fields"):
        read_table("-")


def test_a_model_is_fitted_and_asked_through_pipes(tmp_path, untuned):
    text, model = content(tmp_path), str(tmp_path / "m.kexpfam")
    runner = CliRunner()
    words = ["fit", "-", "--target", "price", "-o", model]
    result = runner.invoke(main, words, input=text)
    assert result.exit_code == 0, result.output
    result = runner.invoke(main, ["predict", model, "-"], input=text)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 21


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_devices_are_refused(path):
    if not os.path.exists(path):
        pytest.skip("not here")
    with pytest.raises(TableError, match="is a device, not a file"):
        read_table(path)


def test_a_terminal_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Given(b"", terminal=True))
    with pytest.raises(TableError, match="is the terminal; pipe a table"):
        read_table("-")


def test_what_never_ends_is_refused_by_its_beginning(monkeypatch):
    class Endless(io.RawIOBase):
        def readinto(self, buffer):
            buffer[:] = bytes(len(buffer))
            return len(buffer)

        def readable(self):
            return True

    given = Given(b"")
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(
        type(given), "buffer", io.BufferedReader(Endless()), raising=False
    )
    with pytest.raises(TableError, match="standard input is binary"):
        read_table("-")


def test_models_are_not_read_from_pipes(tmp_path):
    """Nobody writes into this one, and nobody waits."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(FileFormatError, match="is a pipe or a device"):
            load(path)


def test_an_empty_name_of_a_result_is_refused(tmp_path, run):
    data = write(tmp_path / "a.csv", houses(20))
    for name in ("", " ", "a\0.kexpfam"):
        result = run("fit", data, "--target", "price", "-o", name)
        assert result.exit_code != 0
        assert "is none; give one" in result.output or "null" in result.output


def test_a_nul_far_down_a_table_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 5000 + b"2,y\0\n")
    with pytest.raises(TableError, match="is a binary file"):
        read_table(path)


def test_names_do_nothing_to_a_terminal(tmp_path, run, untuned):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k % 7},{k * k % 11}\n" for k in range(30))
    path.write_text(f"\x1b[31mred\x07,b\n{rows}")
    output = ["-o", tmp_path / "m.kexpfam"]
    result = run("fit", path, "--target", "\x1b[31mred\x07", *output)
    assert result.exit_code == 0, result.output
    wrong = run("fit", path, "--target", "\x1b[32m", *output, "--force")
    assert wrong.exit_code == 1
    for text in (result.output, wrong.output):
        assert "\\x1b[3" in text
        assert "\x1b" not in text
        assert "\x07" not in text


def test_dev_stdin_is_standard_input(tmp_path):
    code = "from kexpfam.cli.readers import read_table; print(len(read_table('{}')))"
    for path in ("/dev/stdin", "-"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(path)],
            input=content(tmp_path),
            capture_output=True,
            check=True,
        )
        assert done.stdout.split() == [b"20"]
