"""The page of the reproduction has the numbers of the committed result files."""

import shutil
from pathlib import Path

import pytest

from reproduction.report import SUITES, length, parts, refresh_page

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "reproduction", ROOT / "docs" / "reproduction.md"


pytestmark = pytest.mark.skipif(
    not (RESULTS / "table1.jsonl").exists(), reason="results are in a checkout only"
)


def test_no_number_of_the_page_is_typed_in(tmp_path):
    folder, page = tmp_path / "reproduction", tmp_path / "docs" / "reproduction.md"
    folder.mkdir()
    page.parent.mkdir()
    for file in RESULTS.glob("*.jsonl"):
        shutil.copy(file, folder)
    shutil.copy(PAGE, page)
    suites = SUITES.values()
    found = parts(folder, suites)
    assert set(found) == set(SUITES)
    refresh_page(page, folder, found | {"length": length(folder, suites)})
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_every_picture_of_the_page_is_there():
    text = PAGE.read_text(encoding="utf-8")
    pictures = [part.split(")")[0] for part in text.split("](../reproduction/")[1:]]
    pictures = [name for name in pictures if name.endswith(".png")]
    assert len(pictures) >= 4
    for name in pictures:
        assert (RESULTS / name).stat().st_size > 5000
