"""Examples of docs/bridges.md that need optional libraries; the others are doctests."""

import re
import warnings
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "bridges.md").read_text()

BLOCKS = {
    library: block
    for section in TEXT.split("\n## ")[1:]
    for library in [section.partition("\n")[0].lower()]
    for block in re.findall(r"```python\n(?!>>>)(.*?)```", section, re.DOTALL)
}


def test_every_bridge_has_an_example():
    assert set(BLOCKS) == {"skpro", "qp", "arviz"}


@pytest.mark.slow
@pytest.mark.parametrize("library", BLOCKS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_examples_run(library):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says when it is imported is its own
        pytest.importorskip(library)
    if "NUTS" in BLOCKS[library]:
        pytest.importorskip("blackjax")
    exec(compile(BLOCKS[library], f"docs/bridges.md: {library}", "exec"), {})
