import dataclasses

import pytest

from kexpfam.experiments import runner
from kexpfam.experiments.report import length, parts, refresh_page, report
from kexpfam.experiments.runner import ledger_of
from kexpfam.experiments.task import Record
from tests.experiments import toy

TOY = "tests.experiments.toy"


def record(task, *, error=None, commit="abc1234", seconds=60.0, finished=0):
    origin = {
        "seed": 1,
        "finished": f"2026-01-0{finished + 1}T00:00:00+00:00",
        "commit": commit,
        "uncommitted": commit is None,
        "versions": {},
        "machine": {},
    }
    figures = {} if error else {"loss": task.split / 2}
    return Record(task, figures, error, seconds, origin)


@pytest.fixture
def folder(tmp_path):
    """Results of five tasks, two of which failed, in the order of their arrival."""
    first = toy.SUITE.tasks[:5]
    written = [
        record(first[1]),
        record(first[0], commit="def5678", finished=1),
        record(first[4], error="ValueError: `x`"),
        record(first[3], error="ValueError: `x`"),
        record(first[2]),
        record(toy.SUITE.quick[0]),
    ]
    place = tmp_path / "results"
    for one in written:
        ledger_of(place, "toy").append(one)
    return place


def test_a_part_shows_records_in_order_and_says_where_they_come_from(folder):
    assert parts(folder, [TOY])["toy"] == (
        "toy/a/KCEF/0 0.0\ntoy/a/KCEF/1 0.5\ntoy/a/KCEF/2 1.0\n"
        "toy/a/KCEF/3 None\ntoy/a/KCEF/4 None\n\n![a toy](toy.png)\n\n"
        "*5 of 40 tasks, 2 failed; commits abc1234, def5678; 5:00 of computation; "
        "`kexpfam reproduce run tests.experiments.toy`.*\n\n"
        "- failed: toy/a/KCEF/3, toy/a/KCEF/4: `ValueError: 'x'`\n"
    )


def test_a_report_reads_only(folder, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a report must not run anything")

    monkeypatch.setattr(runner, "run", never)
    monkeypatch.setattr(toy, "SUITE", dataclasses.replace(toy.SUITE, run=never))
    path = folder / "toy.jsonl"
    with path.open("a") as file:
        file.write('{"torn')
    before = path.read_bytes(), path.stat().st_mtime_ns
    text = report(folder, [TOY])
    assert text.startswith("# Reproduction\n\n5 of 40 tasks are done.")
    assert "\n\n## A toy\n\ntoy/a/KCEF/0 0.0\n" in text
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert {p.name for p in folder.iterdir()} == {"toy.jsonl", "toy.png"}


def test_results_of_a_quick_run_are_shown_as_such(tmp_path):
    ledger_of(tmp_path, "toy").append(record(toy.SUITE.quick[1], commit=None))
    part = parts(tmp_path, [TOY])["toy"]
    assert part.startswith("toy/a/KCEF/1/10 rows 0.5\n")
    assert "*1 of 2 tasks, 0 failed; commit unknown with changes; 1:00" in part
    assert "`kexpfam reproduce run tests.experiments.toy --quick`" in part


def test_the_length_of_a_run_is_that_of_its_tasks(folder, tmp_path):
    # Five of 40 tasks took a minute each; failures say nothing about the pace.
    assert length(folder, [TOY]) == (
        "5 of 40 tasks are done. They took 5:00 of computation, which as many cores as "
        "one has share; the others may take 35:00."
    )
    complete = tmp_path / "complete"
    for task in toy.SUITE.tasks:
        ledger_of(complete, "toy").append(record(task))
    assert length(complete, [TOY]).endswith("which as many cores as one has share.")


def test_suites_without_results_are_left_out(tmp_path):
    assert parts(tmp_path, [TOY]) == {}
    text = report(tmp_path, [TOY])
    assert text.startswith("# Reproduction\n\n0 of 40 tasks are done")
    assert "may take" not in text
    assert list(tmp_path.iterdir()) == []


PAGE = """# Title
<!-- begin toy -->
old
<!-- end toy -->
between
<!-- begin other -->
kept
<!-- end other -->
"""


def test_parts_go_between_their_markers_with_pictures_found(tmp_path):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(PAGE)
    part = '![a](a.png) ![b](b.svg "c") ![d](https://e.org/f.png) [g](h.md) \\1'
    for _ in range(2):  # twice is as good as once
        refresh_page(page, tmp_path / "results", {"toy": part, "absent": "no"})
        assert page.read_text() == PAGE.replace(
            "\nold\n",
            "\n\n![a](../results/a.png) "
            '![b](../results/b.svg "c") ![d](https://e.org/f.png) [g](h.md) \\1\n\n',
        )


@pytest.mark.parametrize(
    "text",
    [
        "<!-- begin toy -->",
        "<!-- end toy -->",
        "<!-- begin toy -->\n<!-- end other -->",
        "<!-- begin a -->\n<!-- begin toy -->\n<!-- end toy -->\n<!-- end a -->",
        "<!-- end toy -->\n<!-- begin toy -->",
        "<!-- begin toy -->\n<!-- end toy -->\n<!-- begin other -->",
    ],
)
def test_a_marker_without_a_partner_is_an_error_and_the_page_stays(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(
        ValueError, match=r"page\.md: the marker '<!-- .* has no partner"
    ):
        refresh_page(page, tmp_path, {"toy": "new"})
    assert page.read_text() == text
