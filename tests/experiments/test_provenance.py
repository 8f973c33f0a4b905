import shutil
import subprocess
import sys

import pytest

from kexpfam.experiments import provenance


def git(folder, *arguments):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def checkout(tmp_path):
    """A repository with one file."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    git(tmp_path, "init")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "code.py").write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_the_commit_is_that_of_git(checkout):
    said = git(checkout, "rev-parse", "HEAD")
    assert said.startswith(provenance.commit(checkout / "source"))


def test_changes_are_noticed_where_they_are_asked_for(checkout):
    source = checkout / "source"
    assert not provenance.uncommitted(source)
    (checkout / "notes.txt").write_text("outside")
    assert not provenance.uncommitted(source)
    assert provenance.uncommitted(source, [".."])
    (source / "code.py").write_text("2\n")
    assert provenance.uncommitted(source)


def test_a_package_that_git_does_not_follow_has_no_commit(checkout):
    installed = checkout / "venv"
    installed.mkdir()
    (installed / "code.py").write_text("1\n")
    assert provenance.commit(installed) is None


def test_outside_a_repository_and_without_git_there_is_no_commit(
    tmp_path, checkout, monkeypatch
):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    assert provenance.commit(outside) is None
    monkeypatch.setenv("PATH", "")
    assert provenance.commit(checkout) is None
    assert not provenance.uncommitted(checkout)


def test_versions_are_those_that_libraries_state_themselves():
    import numpy
    import scipy
    import sklearn

    import kexpfam

    found = provenance.versions()
    assert found["kexpfam"] == kexpfam.__version__
    assert found["numpy"] == numpy.__version__
    assert found["scipy"] == scipy.__version__
    assert found["scikit-learn"] == sklearn.__version__
    assert "no-such-library" not in provenance.versions(["no-such-library"])


def test_the_machine_has_cores_and_a_processor():
    found = provenance.machine()
    assert found["cores"] >= 1
    assert found["processor"]
    assert found["python"] == sys.version.split()[0]
