"""Every command of the page about the command line runs, and makes its files."""

import json
import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def files_of(text):
    """Files that the page shows."""
    return dict(re.findall(r'```csv title="(.+)"\n(.*?)```', text, flags=re.DOTALL))


def commands_of(text):
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def outputs_of(words):
    return [words[i + 1] for i, w in enumerate(words) if w in ("-o", "--plot")]


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
