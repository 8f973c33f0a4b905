"""Random tables: the program reads and fits them, or says a sentence."""

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kexpfam.cli.readers import read_table
from kexpfam.tables import TableError
from tests.fuzz.tables import attempt
from tests.properties import UNSHRUNK, searched

cells = st.one_of(
    st.floats(-1e3, 1e3).map(lambda v: f"{v:.3g}"),
    st.integers(-3, 3).map(str),
    st.sampled_from(["", "NA", "Rome", "Oslo", "true", "2024-02-03", "1e400", "1,5"]),
    st.text(max_size=4),
)
names = st.one_of(
    st.sampled_from(["price", "area", "day", "x 1", "Größe"]), st.text(max_size=4)
)


@st.composite
def files(draw, fewest=0, most=25):
    """Names and rows as the module csv writes them; a column is mostly of one kind."""
    header = draw(st.lists(names, min_size=1, max_size=4))
    n = draw(st.integers(fewest, most))
    columns = []
    for _ in header:
        kind = draw(st.sampled_from(["number", "number", "text", "any"]))
        among = {
            "number": st.floats(-1e3, 1e3).map(lambda v: f"{v:.4g}"),
            "text": st.sampled_from(["Rome", "Oslo", "Lima"]),
            "any": cells,
        }[kind]
        columns.append(draw(st.lists(among, min_size=n, max_size=n)))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=draw(st.sampled_from(",;\t")))
    writer.writerows([header, *zip(*columns, strict=True)])
    return text.getvalue()


def written(text, folder):
    path = Path(folder, "a.csv")
    path.write_text(text, encoding="utf-8", newline="", errors="surrogatepass")
    return path


@searched(25)
@given(files())
def test_tables_are_read_or_refused_with_a_sentence(text):
    with tempfile.TemporaryDirectory() as folder:
        try:
            table = read_table(written(text, folder))
        except TableError as error:
            said = str(error)
            assert said.rstrip(")").endswith((".", "?")), said
            assert "\n" not in said
        else:
            assert all(len(column) == len(table) for column in table.columns)


@searched(12, **UNSHRUNK)
@given(files(fewest=8))
def test_programs_end_without_a_traceback(text):
    with tempfile.TemporaryDirectory() as folder:
        first, *_ = text.splitlines() or [""]
        text = text.replace(first, f"price{first[len(first.split(',')[0]) :]}", 1)
        assert attempt(written(text, folder), [], Path(folder)) is None
