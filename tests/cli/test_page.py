"""Every command of the page about the command line runs, and makes its files."""

import json
from pathlib import Path

import pytest

from tests.pages import ROOT, commands_of, files_of

PAGE = ROOT / "docs" / "command_line.md"


def outputs_of(words):
    return [words[i + 1] for i, w in enumerate(words) if w in ("-o", "--plot")]


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(run, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for name, content in files_of(text).items():
        Path(name).write_text(content, encoding="utf-8")
    commands = commands_of(text)
    assert {words[1] for words in commands} == {
        "completion",
        "demo",
        "evaluate",
        "explain",
        "fit",
        "plot",
        "predict",
        "sample",
    }
    for program, *words in commands:
        assert program == "kexpfam"
        result = run(*words)
        assert result.exit_code == 0, f"{words}: {result.output}"
        for output in outputs_of(words):
            assert Path(output).stat().st_size > 0
        if "--json" in words:
            json.loads(result.stdout)
    assert len(Path("predictions.csv").read_text().splitlines()) == 21
    assert len(Path("draws.csv").read_text().splitlines()) == 201
