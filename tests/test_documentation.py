"""What the documentation says is so: commands run, links work, tables agree."""

import base64
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest

import kexpfam
from kexpfam.cli import main as program
from reproduction.__main__ import main as reproduction
from reproduction.report import SUITES
from tests.pages import (
    ROOT,
    all_commands_of,
    commands_of,
    documents,
    files_of,
    module_of,
)

PAGES = documents()
COMMAND_LINE, SERVING = "docs/command_line.md", "docs/tutorials/saving_serving.md"

MEASURED = "minutes of computation; its result file is in the repository"
EXPLORER = "tests/explorer/test_command.py; it goes on until it is stopped"

# Commands that are not run as they stand, and what runs in their place.
LISTED = {
    "kexpfam completion bash >> ~/.bashrc": "tests/cli/test_page.py, without the file",
    "kexpfam explore": EXPLORER,
    "kexpfam explore houses.kexpfam --data houses.csv": EXPLORER,
    "kexpfam explore geyser.kexpfam --data geyser.csv": EXPLORER,
    "kexpfam explore geyser.kexpfam --data geyser.csv --export report.html": (
        "tests/explorer/test_export.py, on other rows"
    ),
    "kexpfam fit geyser.csv --target duration -o geyser.kexpfam": (
        "tests/cli/test_commands.py, on other rows"
    ),
    "kexpfam fit": "a name in a sentence",
    "kexpfam fit --joint": "tests/cli/test_page.py, with a file",
    "kexpfam fit houses.csv --target price": "tests/cli/test_page.py, with -o",
    **{
        f"python -m reproduction run {name}": "tests/reproduction, on small data"
        for name in SUITES
    },
    "python -m reproduction status --folder mine": "tests/reproduction/test_command.py",
    "python -m reproduction report --page docs/reproduction.md": (
        "tests/reproduction/test_page.py, on a copy"
    ),
    "python benchmarks/baselines.py --report": "test_reports_of_benchmarks_are_printed",
    "python benchmarks/metric.py --report": "test_reports_of_benchmarks_are_printed",
    "python benchmarks/heights.py": "tests/benchmarks/test_heights.py, its parts",
    "python benchmarks/house.py 74125d3 f324516": MEASURED,
    "python benchmarks/joint_orders.py": MEASURED,
    "python benchmarks/versions.py f324516 --cpu": MEASURED,
    "python benchmarks/paper_grid.py": MEASURED,
    "python benchmarks/design_tables.py --tables power diamonds": MEASURED,
    "python reproduction/further_sets.py FOLDER": (
        "tests/reproduction/test_further_sets.py, without the package"
    ),
    "python docs/tables.py": "test_tables_agree_with_the_result_files",
    "python examples/million_rows.py 1000000": "tests/test_examples.py, on few rows",
    "python examples/joint_density.py docs/images": "tests/test_examples.py",
}

# Links to what a run makes, and a checkout need not have.
MADE_BY_RUNS = {"reproduction"}

# Options that end the line instead of naming a parameter of a command.
REDIRECTIONS = (">", ">>", "|")


def every_command():
    return [(page, c) for page, text in PAGES.items() for c in all_commands_of(text)]


def of(name):
    return [(page, words) for page, words in every_command() if words[0] == name]


def test_every_command_is_run_or_listed_with_a_reason():
    run = [*commands_of(PAGES[COMMAND_LINE]), *commands_of(PAGES[SERVING])]
    for page, words in [*of("kexpfam"), *of("python")]:
        text = " ".join(words)
        assert words in run or text in LISTED, f"{page}: who runs '{text}'?"


def test_nothing_is_listed_that_no_page_has():
    assert set(LISTED) <= {" ".join(words) for _, words in every_command()}


def test_tests_that_are_named_exist():
    for reason in LISTED.values():
        for path in re.findall(r"tests/\S+\.py", reason):
            assert (ROOT / path).is_file(), path
        for name in re.findall(r"\btest_\w+\b(?!\.py)", reason.split(":")[0]):
            assert name in globals(), name


def of_the_reproduction():
    """Its commands as they are typed, and as `make` passes them on."""
    typed = [(page, words[2:]) for page, words in of("python") if words[1] == "-m"]
    made = [
        (page, ["reproduction", "run", *words[2].removeprefix("OPTIONS=").split()])
        for page, words in of("make")
        if words[1] == "reproduce" and words[2:]
    ]
    assert made
    return typed + made


@pytest.mark.parametrize(
    ("page", "words"), [*of("kexpfam"), *of_the_reproduction()], ids=str
)
def test_the_program_knows_every_command_and_option(page, words):
    start = {"kexpfam": program, "reproduction": reproduction}[words[0]]
    command, rest = start, words[1:]
    while isinstance(command, click.Group) and rest:
        below = command.get_command(click.Context(command), rest[0])
        if below is None:
            break
        command, rest = below, rest[1:]
    assert command is not start, f"{page}: {words}"
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    for word in rest:
        if word in REDIRECTIONS:
            break
        assert not re.match(r"--?[a-z]", word) or word in known, f"{page}: {word}"


def test_the_commands_of_the_page_about_serving_run(tmp_path, monkeypatch):
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    content = files_of(PAGES[COMMAND_LINE])["houses.csv"]
    for name in ("houses.csv", "new_houses.csv"):
        Path(name).write_text(content, encoding="utf-8")
    for words in commands_of(PAGES[SERVING]):
        result = CliRunner().invoke(program, words[1:])
        assert result.exit_code == 0, result.output
    assert len(Path("predictions.csv").read_text().splitlines()) == 21


@pytest.mark.parametrize(("page", "words"), of("pip"), ids=str)
def test_extras_that_are_installed_exist(page, words):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, extras in re.findall(r"(\.|kexpfam)\[([^\]]+)\]", " ".join(words)):
        assert name in (".", project["name"])
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), page


@pytest.mark.parametrize(("page", "words"), of("make"), ids=str)
def test_targets_of_make_exist(page, words):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    assert words[1] in targets, page


@pytest.mark.parametrize(("page", "words"), of("python"), ids=str)
def test_scripts_exist(page, words):
    path = f"{words[2]}/__main__.py" if words[1] == "-m" else words[1]
    assert (ROOT / path).is_file(), page


def test_reports_of_benchmarks_are_printed(capsys, monkeypatch):
    reports = {words[1] for _, words in of("python") if "--report" in words}
    assert reports
    for path in reports:
        monkeypatch.setattr(sys, "argv", [path, "--report"])
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        runpy.run_path(str(ROOT / path), run_name="__main__")
        assert "| :-- |" in capsys.readouterr().out


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md", "benchmarks/README.md"])
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in module_of("docs/build_site.py").links(text):
        path = Path(os.path.normpath(ROOT / Path(page).parent / target))
        if str(path.relative_to(ROOT)) not in MADE_BY_RUNS:
            assert path.exists(), f"{page} links to {target}"


def navigation():
    """Pages in the order of the site."""
    pytest.importorskip("yaml")
    sections = module_of("docs/build_site.py").contents()
    return [str(page) for _, entries in sections for _, page in entries]


def test_every_page_is_in_the_navigation_once():
    pages = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    listed = navigation()
    assert len(listed) == len(set(listed))
    inside = {page for page in listed if not page.startswith("repository/")}
    assert inside == {*pages, "examples.md"}  # which is made of the examples
    for page in set(listed) - inside:
        assert (ROOT / page.removeprefix("repository/")).is_file()


def documented():
    """Names that pages of the reference have an entry for, and their modules."""
    text = "".join(t for page, t in PAGES.items() if page.startswith("docs/api/"))
    return set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("name", kexpfam.__all__)
def test_every_public_name_has_an_entry_in_the_reference(name):
    value = getattr(kexpfam, name)
    home = getattr(value, "__module__", "")
    places = {f"kexpfam.{name}", f"{home}.{name}", ".".join(home.split(".")[:2])}
    parts = [entry for entry in documented() if entry.startswith(f"kexpfam.{name}.")]
    assert places & documented() or parts, name
    assert f"`kexpfam.{name}`" in PAGES["docs/api/index.md"]


def test_entries_of_the_reference_exist():
    import importlib

    for name in documented() - {"kexpfam.bridges.skpro"}:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, last = name.rpartition(".")
            assert hasattr(importlib.import_module(module), last), name


def test_tables_agree_with_the_result_files(tmp_path):
    tables = module_of("docs/tables.py")
    for page in tables.PAGES:
        copy = tmp_path / page
        copy.parent.mkdir(exist_ok=True)
        # Numbers that are gone must come back, and nothing else may change.
        copy.write_text(re.sub(r"\| \d.*\|\n", "", PAGES[f"docs/{page}"]))
    tables.refresh(tmp_path)
    for page in tables.PAGES:
        assert (tmp_path / page).read_text() == PAGES[f"docs/{page}"]


@pytest.mark.parametrize(
    "name", ["bands", "differences", "explaining", "landing", "multimodal", "pit"]
)
def test_pictures_are_made_by_their_scripts(name, tmp_path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    path = ROOT / "docs" / "pictures" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path), "60"])
    monkeypatch.syspath_prepend(str(path.parent))
    with matplotlib.rc_context():  # the style of the pictures stays theirs
        runpy.run_path(str(path), run_name="__main__")
    made = sorted(tmp_path.glob("*.png"))
    assert f"{name}.png" in [picture.name for picture in made]
    for picture in made:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert (ROOT / "docs" / "images" / picture.name).stat().st_size < 150_000


def test_numbers_of_the_picture_that_moves_are_densities(tmp_path, monkeypatch, capsys):
    path = ROOT / "docs" / "pictures" / "drag.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path), "60"])
    monkeypatch.syspath_prepend(str(path.parent))
    runpy.run_path(str(path), run_name="__main__")
    for folder in (tmp_path, ROOT / "docs" / "images"):
        text = (folder / "drag_data.js").read_text()
        data = json.loads(text.partition("= ")[2].rstrip(";\n"))
        shares = np.frombuffer(base64.b64decode(data["pdf"]), dtype="<u2")
        pdf = data["top"] / 65535 * shares.reshape(data["x"][2], data["y"][2])
        cell = (data["y"][1] - data["y"][0]) / (data["y"][2] - 1)
        assert 0.97 < (pdf.sum(axis=1) * cell).min() <= 1.001
        assert len(data["mean"]) == len(data["regions"]) == data["x"][2]
    assert len(text) < 80_000


def test_every_picture_script_is_tried():
    scripts = {path.stem for path in (ROOT / "docs" / "pictures").glob("*.py")}
    still = {"bands", "differences", "explaining", "landing", "multimodal", "pit"}
    assert scripts == {*still, "drag", "style"}


def test_examples_have_pages_of_picture_words_and_code():
    site = module_of("docs/build_site.py")
    found, gallery = site.examples(), site.gallery()
    assert len(found) == len(list((ROOT / "examples").glob("*.py")))
    for page, example in found.items():
        assert f"({page})" in gallery
        assert example.picture in gallery
        assert example.what in gallery
        compile(example.code, page.name, "exec")
        assert example.code in example.page()
        assert not example.code.startswith('"""')
        assert example.about in example.page()
    assert [e.title for e in found.values() if not e.picture] == ["serve"]


def test_the_paper_has_the_sections_of_its_journal_and_cites_what_it_lists():
    folder = ROOT / "paper"
    text = (folder / "paper.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    assert re.findall(r"^# (.*)$", text, flags=re.MULTILINE) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "Acknowledgements",
        "References",
    ]
    assert 750 <= len(text.split()) <= 1750
    listed = re.findall(r"^@\w+\{(\w+),", (folder / "paper.bib").read_text(), re.M)
    assert len(listed) == len(set(listed))
    assert set(re.findall(r"@(\w+)", text)) == set(listed)


def test_the_conda_recipe_needs_what_the_project_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    needed = re.search(r"  run:\n((?:    - .*\n)+)", recipe)[1]
    found = [line.removeprefix("    - ") for line in needed.splitlines()]
    wanted = [f"python{project['requires-python']}", *project["dependencies"]]
    assert found == [one.replace(">=", " >=") for one in wanted]
    assert f'"{kexpfam.__version__}"' in recipe
    assert f"version: {kexpfam.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_entries_of_the_reference_become_directives():
    site = module_of("docs/build_site.py")
    options = "    options:\n      show_root_heading: false\n"
    of_a_room = site.with_entries(f"::: kexpfam.kernels\n{options}")
    assert ".. automodule:: kexpfam.kernels\n   :imported-members:\n" in of_a_room
    assert "imported" not in site.with_entries(f"::: kexpfam.causal\n{options}")
    function = site.with_entries("::: kexpfam.io.load\n")
    assert ".. autofunction:: kexpfam.io.load" in function


@pytest.mark.skipif(
    not all(map(find_spec, ("sphinx", "pydata_sphinx_theme", "latex2mathml"))),
    reason="the extra docs is not installed",
)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "docs/build_site.py", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', text)


def test_the_first_page_is_short():
    assert len(PAGES["README.md"].splitlines()) < 120
