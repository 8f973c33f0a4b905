"""Benchmark data: the right columns, from files that are the right ones.

Downloads go through pooch to a server on this machine, with a small made-up data set.
"""

import dataclasses
import hashlib
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from kexpfam.datasets import list_benchmarks, load_benchmark
from kexpfam.datasets.benchmark import BenchmarkFile, catalogue
from kexpfam.errors import DatasetError, MissingDependencyError

VALUES = np.arange(12.0).reshape(4, 3) / 4
CONTENT = b"a,b,c\n" + b"".join(
    ",".join(f"{value:g}" for value in row).encode() + b"\n" for row in VALUES
)
TOY = BenchmarkFile(
    header="a,b,c",
    target="c",
    rows=4,
    source="R package nowhere 1.0, data set toy; Nobody 1900",
    licence="none",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    alternatives=("a",),
)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """A data set of four rows, and no folder, address or cache of the user."""
    monkeypatch.setitem(catalogue(), "toy", TOY)
    monkeypatch.delenv("KEXPFAM_DATA_URL", raising=False)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache that is not there yet; no folder is named."""
    monkeypatch.delenv("KEXPFAM_DATA", raising=False)
    return tmp_path / "deep" / "cache"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder that KEXPFAM_DATA names."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("KEXPFAM_DATA", str(folder))
    return folder


class Files(SimpleHTTPRequestHandler):
    """Serves a folder, counts, and is silent."""

    def do_GET(self):
        self.server.requests_seen += 1
        super().do_GET()

    def log_message(self, *_):
        pass


class Interrupted(BaseHTTPRequestHandler):
    """Promises the whole file and closes the connection in the middle of it."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def log_message(self, *_):
        pass


def serving(handler):
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.requests_seen = 0
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server with toy.csv."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = tmp_path / "served"
    served.mkdir()
    (served / "toy.csv").write_bytes(CONTENT)
    for server in serving(partial(Files, directory=str(served))):
        server.folder = served
        yield server


@pytest.fixture
def interrupted(monkeypatch):
    """A server that sends half of toy.csv."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield from serving(Interrupted)


def message_of(**arguments):
    with pytest.raises(DatasetError) as caught:
        load_benchmark("toy", **arguments)
    text = str(caught.value)
    # Every message says how to get the file.
    for part in ("R package nowhere 1.0, data set toy", "a,b,c", TOY.sha256):
        assert part in text
    assert "KEXPFAM_DATA names" in text
    assert "KEXPFAM_DATA_URL" in text
    assert "\n" not in text
    assert text.count(". ") == 0  # one sentence
    return text


# ------------------------------------------------------------------ columns


def test_target_is_last_and_may_be_another_column(folder):
    (folder / "toy.csv").write_bytes(CONTENT)
    toy = load_benchmark("toy")
    assert np.array_equal(toy.data, VALUES)
    assert np.array_equal(toy.X, VALUES[:, :2])
    assert np.array_equal(toy.y, VALUES[:, 2])
    assert (toy.feature_names, toy.target_name) == (("a", "b"), "c")
    assert toy.target_alternatives == ("a",)
    other = load_benchmark("toy", target="a")
    assert np.array_equal(other.data, VALUES[:, [1, 2, 0]])
    assert np.array_equal(other.y, VALUES[:, 0])
    assert (other.feature_names, other.target_name) == (("b", "c"), "a")
    assert other.target_alternatives == ("c",)
    assert other.sha256 == TOY.sha256
    other.X[:] = 0.0  # parts do not share memory
    assert np.array_equal(other.data, VALUES[:, [1, 2, 0]])


def test_frames_have_the_names_of_the_columns(folder):
    pytest.importorskip("pandas")
    (folder / "toy.csv").write_bytes(CONTENT)
    frame = load_benchmark("toy", target="a").as_frame()
    assert list(frame.columns) == ["b", "c", "a"]
    assert np.array_equal(frame["a"], VALUES[:, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["toy"],), r"got \['toy'\]"),
        (("iris",), "name must be one of caution, .*; got 'iris'"),
        (("toy", "b"), "target of toy must be one of c, a; got 'b'"),
        (("red_wine", "alcohol"), "target must be None for red_wine"),
    ],
)
def test_unknown_names_and_targets_are_refused_without_a_file(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_benchmark(arguments[0], target=(*arguments, None)[1])


# ------------------------------------------------------------------ files


def test_missing_file_says_how_to_get_it_and_where_it_was_looked_for(folder, tmp_path):
    text = message_of(cache=tmp_path / "cache")
    assert f"not found in {folder} or {tmp_path / 'cache'}" in text


def test_folder_goes_before_the_cache_and_the_cache_before_a_download(
    folder, server, tmp_path
):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "toy.csv").write_bytes(CONTENT)
    assert load_benchmark("toy", cache=cache, url=server.address).name == "toy"
    assert server.requests_seen == 0
    # A damaged file in the folder is in the way, whatever the cache has.
    (folder / "toy.csv").write_bytes(CONTENT.replace(b"0.25", b"0.26"))
    text = message_of(cache=cache, url=server.address)
    assert f"{folder / 'toy.csv'} is changed" in text


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        (CONTENT[:-9], "truncated"),
        (b"", "truncated"),
        (CONTENT.replace(b"2.75", b"2.76"), "changed"),
        (CONTENT + b"1,2,3\n", "changed"),
    ],
)
def test_damaged_files_are_refused_in_the_folder_and_in_the_cache(
    damaged, word, folder, monkeypatch
):
    (folder / "toy.csv").write_bytes(damaged)
    seen = hashlib.sha256(damaged).hexdigest()
    for arguments in ({}, {"cache": folder}, {"cache": folder, "download": False}):
        text = message_of(**arguments)
        assert f"toy.csv is {word}" in text
        assert seen in text
        monkeypatch.delenv("KEXPFAM_DATA", raising=False)


def test_without_pooch_a_folder_or_a_given_cache_is_enough(
    folder, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        MissingDependencyError, match=r"pooch is needed .* KEXPFAM_DATA"
    ):
        load_benchmark("toy")
    message_of(cache=tmp_path / "cache")
    (folder / "toy.csv").write_bytes(CONTENT)
    assert len(load_benchmark("toy").data) == 4
    monkeypatch.delenv("KEXPFAM_DATA")
    assert len(load_benchmark("toy", cache=folder).data) == 4
    with pytest.raises(MissingDependencyError, match="to download it"):
        load_benchmark("toy", cache=tmp_path / "cache", url="http://127.0.0.1:9")


def test_a_folder_that_does_not_exist_is_said_first(monkeypatch, tmp_path):
    nowhere = tmp_path / "nowhere"
    monkeypatch.setenv("KEXPFAM_DATA", str(nowhere))
    start = f"KEXPFAM_DATA names {nowhere}, which is not a folder; "
    text = message_of(cache=tmp_path / "cache")
    assert text.startswith(f"{start}toy.csv was not found in {tmp_path / 'cache'};")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDependencyError) as caught:
        load_benchmark("toy")
    assert str(caught.value).startswith(f"{start}pooch is needed")


def test_the_user_cache_is_used_if_no_other_is_named(cache, monkeypatch):
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda name: cache / name)
    assert f"not found in {cache / 'kexpfam'};" in message_of()
    (cache / "kexpfam").mkdir(parents=True)
    (cache / "kexpfam" / "toy.csv").write_bytes(CONTENT)
    assert np.array_equal(load_benchmark("toy").data, VALUES)


# ------------------------------------------------------------------ downloads


def test_download_happens_once_and_quietly(server, cache, capfd, monkeypatch):
    monkeypatch.setenv("KEXPFAM_DATA_URL", server.address + "/")
    for _ in range(2):
        assert np.array_equal(load_benchmark("toy", cache=cache).data, VALUES)
    assert server.requests_seen == 1
    assert [file.name for file in cache.iterdir()] == ["toy.csv"]
    assert capfd.readouterr() == ("", "")


def test_nothing_is_downloaded_where_that_is_forbidden(server, cache):
    text = message_of(cache=cache, url=server.address, download=False)
    assert "was not found" in text
    assert server.requests_seen == 0
    with pytest.raises(ValueError, match="download must be True or False"):
        load_benchmark("toy", download="no")


@pytest.mark.parametrize("damaged", [CONTENT[:-5], b"", CONTENT + b"\n"])
def test_a_damaged_file_in_the_cache_is_downloaded_again(damaged, server, cache):
    cache.mkdir(parents=True)
    (cache / "toy.csv").write_bytes(damaged)
    found = load_benchmark("toy", cache=cache, url=server.address)
    assert np.array_equal(found.data, VALUES)
    assert (cache / "toy.csv").read_bytes() == CONTENT


def test_a_wrong_download_is_refused_and_leaves_nothing_behind(server, cache):
    (server.folder / "toy.csv").write_bytes(CONTENT.replace(b"2.75", b"2.76"))
    text = message_of(cache=cache, url=server.address)
    assert (
        f"{server.address}/toy.csv could not be downloaded (ValueError: SHA256" in text
    )
    assert list(cache.iterdir()) == []


def test_a_failed_download_keeps_a_damaged_file_unused(server, cache):
    cache.mkdir(parents=True)
    (cache / "toy.csv").write_bytes(CONTENT[:-5])
    (server.folder / "toy.csv").unlink()
    text = message_of(cache=cache, url=server.address)
    assert "404" in text
    # What was there is still there, and refused.
    assert [file.name for file in cache.iterdir()] == ["toy.csv"]
    assert "toy.csv is truncated" in message_of(cache=cache)


def test_an_interrupted_download_leaves_nothing_behind(interrupted, cache):
    text = message_of(cache=cache, url=interrupted.address)
    assert "could not be downloaded" in text
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("url", ["nowhere", "telephone://12345"])
def test_addresses_that_are_none_are_refused(url, cache):
    pytest.importorskip("pooch")
    assert f"{url}/toy.csv could not be downloaded" in message_of(cache=cache, url=url)


# ------------------------------------------------------------------ the real files

FURTHER = ("cpus", "crabs", "birthwt", "gilgais")


def test_catalogue_has_eighteen_conditional_and_three_joint_sets():
    names = [name for name in list_benchmarks() if name != "toy"]
    assert len(names) == 21
    joint = [name for name in names if catalogue()[name].target is None]
    assert joint == ["red_wine", "white_wine", "parkinsons"]
    for name in set(names) - set(joint):
        entry = catalogue()[name]
        assert entry.target == entry.columns[-1]
        assert set(entry.alternatives) <= set(entry.columns[:-1])
    ambiguous = {n: catalogue()[n].alternatives for n in names}
    assert {n: a for n, a in ambiguous.items() if a} == {
        "geyser": ("waiting",),
        "snowgeese": ("obs2",),
        "BigMac2003": ("TeachHours",),
    }
    assert len({catalogue()[name].sha256 for name in names}) == 21


def test_documentation_lists_what_the_catalogue_says():
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    table = {
        cells[0]: cells[1:]
        for line in text.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
    }
    for name in list_benchmarks()[:21]:
        rows, width, target, source, licence = table[name]
        entry = catalogue()[name]
        assert int(rows) == entry.rows
        assert int(width) == len(entry.columns) - (entry.target is not None)
        assert target == ", or ".join(
            [str(entry.target or "none"), *entry.alternatives]
        )
        assert source in entry.source
        assert licence == entry.licence


def test_real_files_are_what_the_catalogue_says(benchmark_data):
    for name in list_benchmarks()[:21]:
        file = benchmark_data / f"{name}.csv"
        if name in FURTHER and not file.is_file():
            continue  # made by `reproduction.further_sets`
        entry, found = catalogue()[name], load_benchmark(name)
        with file.open() as lines:
            assert tuple(next(lines).strip().split(",")) == entry.columns
        expected = np.loadtxt(file, delimiter=",", skiprows=1)
        assert np.array_equal(found.data, expected)
        assert found.data.shape == (entry.rows, len(entry.columns))
        assert np.all(np.isfinite(found.data))
        if entry.target is None:
            assert found.y is None
            assert np.array_equal(found.X, expected)
            assert found.target_name is None
            pytest.importorskip("pandas")
            assert tuple(found.as_frame().columns) == entry.columns
        else:
            assert np.array_equal(np.column_stack([found.X, found.y]), expected)


def test_alternative_targets_of_real_files(benchmark_data):
    geyser = load_benchmark("geyser", target="waiting")
    assert np.array_equal(geyser.data, load_benchmark("geyser").data[:, ::-1])
    geese = load_benchmark("snowgeese", target="obs2")
    assert geese.feature_names == ("obs1", "photo")
    burger = load_benchmark("BigMac2003", target="TeachHours")
    assert burger.feature_names[-1] == "BigMac"
    assert burger.X.shape == (69, 9)


def test_real_files_have_the_properties_that_the_notes_tell(benchmark_data):
    duration = load_benchmark("geyser").y
    assert [int(np.sum(duration == k)) for k in (2, 3, 4)] == [23, 2, 53]
    assert np.sum(load_benchmark("BostonHousing").y == 50) == 16
    assert np.sum(load_benchmark("parkinsons").X[:, 0] < 0) == 12
    assert len(np.unique(load_benchmark("mcycle").X)) == 94
    for name, repeated in (("red_wine", 240), ("white_wine", 937), ("heights", 137)):
        data = load_benchmark(name).data
        assert len(data) - len(np.unique(data, axis=0)) == repeated
    tax = load_benchmark("BigMac2003").as_frame()["TaxRate"]
    assert tax[tax < 0].tolist() == [-7.31707]


def test_rows_of_a_person_follow_each_other_and_no_row_is_without_one():
    entry = catalogue()["parkinsons"]
    assert len(entry.group_sizes) == 42
    assert sum(entry.group_sizes) == entry.rows


def test_groups_are_numbers_of_rows_or_none(tmp_path, monkeypatch):
    grouped = dataclasses.replace(TOY, group_sizes=(3, 1))
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    monkeypatch.setenv("KEXPFAM_DATA", str(tmp_path))
    assert load_benchmark("toy").groups is None
    monkeypatch.setitem(catalogue(), "toy", grouped)
    assert load_benchmark("toy").groups.tolist() == [0, 0, 0, 1]
