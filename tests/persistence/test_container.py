"""Files are written all or nothing, and what is not one of ours is refused."""

import ast
import errno
import io
import json
import os
import pickle
import re
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_bytes

import kexpfam
from kexpfam import KCEF, load
from kexpfam.persistence.container import read_container, write_container
from tests.persistence.files import parts, refuses, write
from tests.persistence.models import X, fitted, scores

# --- writing -------------------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path])
@pytest.mark.parametrize("name", ["name with blanks, ümlaut", "m" * 255])
def test_paths_are_strings_or_path_objects(form, name, tmp_path):
    path = form(tmp_path / name)
    fitted("plain").save(path)
    assert isinstance(load(path), KCEF)


def test_a_name_alone_is_written_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted("plain").save("model.kexpfam")
    assert os.listdir(tmp_path) == ["model.kexpfam"]
    assert isinstance(load("model.kexpfam"), KCEF)


def test_overwriting_replaces_the_file_and_a_loaded_model_needs_none(tmp_path):
    path = tmp_path / "model"
    fitted("KEF").save(path)
    fitted("plain").save(path)
    loaded = load(path)
    loaded.save(path)
    assert os.listdir(tmp_path) == ["model"]
    path.write_bytes(b"\0" * path.stat().st_size)
    path.unlink()
    assert np.array_equal(scores(loaded), scores(fitted("plain")))


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("crash", [OSError("disk on fire"), KeyboardInterrupt()])
def test_a_crash_while_saving_leaves_the_old_file_and_no_other(
    step, crash, tmp_path, monkeypatch
):
    path = tmp_path / "model"
    fitted("plain").save(path)
    before = path.read_bytes()

    def fail(*_):
        raise crash

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(crash)):
        fitted("KEF").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_the_content_is_on_disk_before_the_name(tmp_path, monkeypatch):
    events = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real: [events.append(name), real(*a)]
        )
    fitted("plain").save(tmp_path / "model")
    assert events[:2] == ["fsync", "replace"]


def test_a_saved_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "ordinary").touch()
    fitted("plain").save(tmp_path / "model")
    mode = (tmp_path / "model").stat().st_mode
    assert mode == (tmp_path / "ordinary").stat().st_mode


def test_a_place_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"folder '.*/nowhere' does not exist"):
        fitted("plain").save(tmp_path / "nowhere" / "model")
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "model"
    with pytest.raises(NotADirectoryError, match=re.escape(str(target))):
        fitted("plain").save(target)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        fitted("plain").save(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]

    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied", "/somewhere/.model.abc123.tmp")

    # Permissions do not bind root, under whom tests may run, so the refusal is acted.
    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(PermissionError, match=re.escape(str(tmp_path / "model"))):
        fitted("plain").save(tmp_path / "model")


def test_replacing_a_file_keeps_its_permissions_and_leaves_the_umask_alone(
    tmp_path, monkeypatch
):
    path = tmp_path / "model"
    fitted("plain").save(path)
    path.chmod(0o600)
    monkeypatch.setattr(os, "umask", lambda *_: pytest.fail("the umask was touched"))
    fitted("KEF").save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    (tmp_path / "models").mkdir()
    link, target = tmp_path / "newest", tmp_path / "models" / "first"
    fitted("plain").save(target)
    link.symlink_to(target)
    fitted("KEF").save(link)
    assert link.is_symlink()
    assert type(load(target)).__name__ == "KEF"
    assert os.listdir(tmp_path / "models") == ["first"]


def test_what_a_killed_process_left_is_removed_by_the_next_save(tmp_path):
    path = tmp_path / "model.kexpfam"
    child = (
        "import os, sys\n"
        "from kexpfam.persistence.container import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    open(temporary, 'wb').write(b'half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", child, path], check=False)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".model.kexpfam.")
    (tmp_path / ".other.kexpfam.1.00000000.kexpfam").touch()
    mine = f".model.kexpfam.{os.getpid()}.00000000.kexpfam"  # of another thread
    (tmp_path / mine).touch()
    fitted("plain").save(path)
    kept = {"model.kexpfam", mine, ".other.kexpfam.1.00000000.kexpfam"}
    assert set(os.listdir(tmp_path)) == kept


def test_what_a_process_left_that_is_gone_is_removed_and_that_of_others_stays(tmp_path):
    with subprocess.Popen(["true"]) as gone:
        pass
    for process in (gone.pid, os.getppid()):
        (tmp_path / f".model.{process}.00000000").touch()
    fitted("plain").save(tmp_path / "model")
    kept = [f".model.{os.getppid()}.00000000", "model"]
    assert sorted(os.listdir(tmp_path)) == kept


def test_a_full_disk_names_the_file_and_leaves_it_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "model"
    fitted("plain").save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"Cannot write '.*model': No space left"):
        fitted("KEF").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


# --- reading what is not a model -----------------------------------------------------


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        load(tmp_path / "nothing-here")
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
        load(tmp_path)


def _npz():
    buffer = io.BytesIO()
    np.savez(buffer, X=X)
    return buffer.getvalue()


FOREIGN = {
    "empty": b"",
    "one byte": b"\0",
    "zeros": b"\0" * 8,
    "eight ones": b"\xff" * 8,
    "ones": b"\xff" * 100,
    "text": b"This is a text file.\n" * 50,
    "utf-16": "Größe;Dosis\n1,5;2\n".encode("utf-16"),
    "pickle": pickle.dumps({"model": np.arange(20)}),
    "hostile pickle": b"\x80\x04\x95" + b"cposix\nsystem\n(S'touch /tmp/owned'\ntR.",
    "zip": b"PK\x03\x04" + b"\0" * 60,
    "npz": _npz(),
    "no tensors": (2).to_bytes(8, "little") + b"{}",
    "list header": (2).to_bytes(8, "little") + b"[]",
    "blank header": (10**6).to_bytes(8, "little") + b" " * 10**6,
    "huge header": (5 * 10**6).to_bytes(8, "little") + b" " * 5 * 10**6,
    "huge header length": (2**63).to_bytes(8, "little") + b"{}",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    refuses(tmp_path / "file")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_another_program_is_recognised(metadata, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(safetensors_bytes({"weight": np.ones((3, 2))}, metadata=metadata))
    refuses(path, "another program")


DESCRIPTIONS = {
    "empty": "",
    "null": "null",
    "number": "5",
    "list": "[1]",
    "string": '"kexpfam"',
    "open": "{",
    "python": "{'format': 1}",
    "cut": '{"format": 1',
    "nested lists": "[" * 100_000 + "]" * 100_000,
    "nested mappings": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "huge number": '{"format": ' + "1" * 10_000 + "}",
    "NaN": '{"format": NaN}',
}


@pytest.mark.parametrize("text", DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_descriptions_that_are_none_are_refused(text, tmp_path):
    write(tmp_path / "file", parts("plain")[0], text)
    refuses(tmp_path / "file")


@pytest.mark.parametrize(
    "version", [0, 1, 3, "2", None, [2], -1, 10**400], ids=lambda v: f"{v}"[:9]
)
def test_another_format_version_is_refused_with_both_numbers(version, tmp_path):
    arrays, description = parts("plain")
    write(tmp_path / "file", arrays, {**description, "format": version})
    refuses(tmp_path / "file", f"format {version!r:.40}", "reads format 2")


# --- damage --------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9, 0.999])
def test_a_bit_that_flips_is_noticed(place, tmp_path):
    path = tmp_path / "model"
    fitted("plain").save(path)
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")  # numbers follow the header
    content[start + int(place * (len(content) - start))] ^= 1
    path.write_bytes(content)
    refuses(path, "damaged: its content does not have the checksum")


@pytest.mark.parametrize("name", ["plain", "KEF", "sums"])
def test_a_truncated_file_is_refused_at_every_length(name, tmp_path):
    path = tmp_path / "model"
    fitted(name).save(path)
    content = path.read_bytes()
    lengths = {*range(9), *range(0, len(content), 499)}
    lengths |= {len(content) - k for k in range(1, 10)}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        refuses(path)


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 1000, b"x"])
def test_a_file_with_something_after_its_end_is_refused(extra, tmp_path):
    path = tmp_path / "model"
    fitted("plain").save(path)
    path.write_bytes(path.read_bytes() + extra)
    refuses(path)


CLAIMS = {
    "huge shape": lambda h: h["family.T.X"].update(shape=[2**40, 2**20]),
    "overflowing shape": lambda h: h["family.T.X"].update(shape=[2**62, 4]),
    "negative shape": lambda h: h["family.T.X"].update(shape=[-1, 2]),
    "huge offset": lambda h: h["family.T.X"].update(data_offsets=[0, 2**62]),
    "overflowing offset": lambda h: h["family.T.X"].update(data_offsets=[2**63] * 2),
    "unknown type": lambda h: h["family.T.X"].update(dtype="F128"),
    "shared bytes": lambda h: h["family.T.X"].update(h["family.T.Y"]),
    "shared bytes, one more": lambda h: h.update(Z=h["family.T.X"]),
    "shared bytes, many more": lambda h: h.update(
        {f"a{i}": h["family.T.X"] for i in range(1000)}
    ),
}


@pytest.mark.parametrize("change", CLAIMS.values(), ids=CLAIMS)
def test_a_tensor_that_claims_too_much_is_refused_without_taking_memory(
    change, tmp_path
):
    path = tmp_path / "model"
    fitted("plain").save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    tracemalloc.start()
    try:
        refuses(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6


# --- no pickle -----------------------------------------------------------------------


def test_nothing_in_the_library_can_unpickle_or_evaluate():
    modules = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve"}
    modules |= {"marshal", "pickletools"}
    # Of joblib, what shares work out; `load` and whatever else it has stay forbidden.
    sharing = {"Parallel", "cpu_count", "delayed", "effective_n_jobs"}
    sharing |= {"get_active_backend"}
    calls = {"eval", "exec", "compile", "__import__"}
    root = Path(kexpfam.__file__).parent
    files = sorted(root.rglob("*.py"))
    assert len(files) > 20
    found = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        # Parsing all of them takes seconds.
        if not any(word in text for word in {*modules, *calls, "allow_pickle"}):
            continue
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
                taken = {alias.name for alias in node.names}
                if names == ["joblib"] and taken <= sharing:
                    names = []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found += [f"{file.name}: {node.func.id}()"] * (node.func.id in calls)
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                found.append(f"{file.name}: allow_pickle")
            found += [f"{file.name}: {name}" for name in names if name in modules]
    assert found == []


def test_what_another_process_writes_is_left_and_so_is_the_process(tmp_path):
    """Asking whether it lives is no signal to it."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    ) as p:
        (tmp_path / f".model.{p.pid}.00000000").touch()
        fitted("plain").save(tmp_path / "model")
        assert (tmp_path / f".model.{p.pid}.00000000").exists()
        p.communicate(b"\n", timeout=30)
        assert p.returncode == 0


@pytest.mark.parametrize("name", ["a." + "s" * 253, "n" * 251 + ".kxf", "m.kexpfam"])
def test_hidden_files_end_like_their_target_as_far_as_names_may_be_long(
    name, tmp_path, monkeypatch
):
    written = []
    real = os.replace
    monkeypatch.setattr(
        os, "replace", lambda a, b: [written.append(Path(a).name), real(a, b)]
    )
    fitted("plain").save(tmp_path / name)
    (hidden,) = written
    assert len(hidden) <= 255
    assert hidden.startswith(f".{name[:90]}"[:90])
    suffix = Path(name).suffix
    assert hidden.endswith(suffix[-90:])
    assert os.listdir(tmp_path) == [name]


def test_a_description_without_arrays_is_a_whole_file(tmp_path):
    path = tmp_path / "file"
    write_container(path, {}, {"note": "none", "numbers": [1, 2.5]})
    arrays, description = read_container(path)
    assert arrays == {}
    assert description["note"] == "none"
    assert description["numbers"] == [1, 2.5]
