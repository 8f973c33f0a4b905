"""Reports: made of result files alone, and put between the markers of a page."""

import pytest

from reproduction import runner
from reproduction.record import Record, append
from reproduction.report import (
    clock,
    length,
    parts,
    refresh_page,
    report,
    seconds_left,
)
from tests.reproduction import toy

TOY = [toy.SUITE]


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
        append(place / "toy.jsonl", one)
    return place


def test_a_part_shows_records_in_order_and_says_where_they_come_from(folder):
    assert parts(folder, TOY)["toy"] == (
        "toy/a/KCEF/0 0.0\ntoy/a/KCEF/1 0.5\ntoy/a/KCEF/2 1.0\n"
        "\n![a toy](toy.png)\n\n"
        "*5 of 40 tasks, 2 failed; commits abc1234, def5678; 5:00 of computation; "
        "`python -m reproduction run toy`.*\n\n"
        "- failed: toy/a/KCEF/3, toy/a/KCEF/4: `ValueError: 'x'`\n"
    )


def test_a_report_reads_only(folder, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a report must not run anything")

    monkeypatch.setattr(runner, "perform", never)
    monkeypatch.setattr(runner, "Parallel", never)
    path = folder / "toy.jsonl"
    with path.open("a") as file:
        file.write('{"torn')
    before = path.read_bytes(), path.stat().st_mtime_ns
    text = report(folder, TOY)
    assert text.startswith("# Reproduction\n\n5 of 40 tasks are done.")
    assert "\n\n## A toy\n\ntoy/a/KCEF/0 0.0\n" in text
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert {p.name for p in folder.iterdir()} == {"toy.jsonl", "toy.png"}


def test_results_of_a_quick_run_are_shown_as_such(tmp_path):
    append(tmp_path / "toy.jsonl", record(toy.SUITE.quick[1], commit=None))
    part = parts(tmp_path, TOY)["toy"]
    assert part.startswith("toy/a/KCEF/1/10 rows 0.5\n")
    assert "*1 of 2 tasks, 0 failed; commit unknown with changes; 1:00" in part
    assert "`python -m reproduction run toy --quick`" in part


def test_the_length_of_a_run_is_that_of_its_tasks(folder, tmp_path):
    # Five of 40 tasks took a minute each; failures say nothing about the pace.
    assert length(folder, TOY) == (
        "5 of 40 tasks are done. They took 5:00 of computation, which as many cores as "
        "one has share; the others may take 35:00."
    )
    complete = tmp_path / "complete"
    for task in toy.SUITE.tasks:
        append(complete / "toy.jsonl", record(task))
    assert length(complete, TOY).endswith("which as many cores as one has share.")


def test_a_kind_is_judged_by_itself_and_others_by_the_mean_of_kinds():
    a, b = toy.SUITE.tasks[:3], toy.SUITE.tasks[20:]
    known = [record(a[0], seconds=2.0), record(a[1], seconds=4.0)]
    known += [record(b[0], seconds=9.0), record(b[1], seconds=0.1, error="E")]
    assert seconds_left(known, [a[2]]) == 3.0
    assert seconds_left(known, [b[2]]) == 9.0
    assert seconds_left(known, toy.SUITE.quick) == 12.0
    assert seconds_left(known, []) == 0.0
    assert seconds_left([record(a[0], error="ValueError")], [a[1]]) is None


def test_times_are_easy_to_read():
    assert (clock(75), clock(7325)) == ("1:15", "2:02:05")


def test_where_all_tasks_failed_nothing_is_shown_but_that(tmp_path):
    append(tmp_path / "toy.jsonl", record(toy.SUITE.tasks[0], error="E"))
    part = parts(tmp_path, TOY)["toy"]
    assert part.startswith("Nothing has been measured.\n\n*1 of 40 tasks, 1 failed")


def test_suites_without_results_are_left_out(tmp_path):
    assert parts(tmp_path, TOY) == {}
    text = report(tmp_path, TOY)
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
