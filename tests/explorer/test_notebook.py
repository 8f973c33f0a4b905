"""The page from Python: in a notebook, in the browser, as a report."""

import sys
import urllib.request
from html import unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam.explorer import ConditionalView, Exploration, Question, report
from kexpfam.explorer.notebook import answered, embedded_page, in_notebook


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(0, 9, 50), "city": ["Rome", "Oslo"] * 25})
    return X, pd.Series(X["age"] + rng.normal(size=50), name="income")


@pytest.fixture(scope="module")
def model(rows):
    return KCEF(select=None).fit(*rows)


@pytest.fixture
def notebook(monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)


@pytest.fixture
def page(model, rows, notebook):
    return model.explore(*rows)


def test_a_notebook_is_told_from_a_terminal(monkeypatch, notebook):
    assert in_notebook()
    shell = type("TerminalInteractiveShell", (), {})()
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_in_a_notebook_nothing_is_served(page):
    assert isinstance(page, Exploration)
    assert page.address is None
    assert page.view.subject.target == "income"
    names = {control.name: control for control in page.view.subject.controls}
    assert names["city"].categories == ("Oslo", "Rome")


def test_a_report_of_counts_has_probabilities_and_no_mode(rows, notebook):
    X = rows[0][["age"]]
    y = np.random.default_rng(1).poisson(1.0 + X["age"])
    page = AutoKCEF(counts=True, random_state=0).fit(X, y).explore(X, y)
    text = report(page.view)
    assert "own probability" in text
    assert 'class="key-mode"' not in text


def test_without_anywidget_the_report_is_shown(page, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    shown = page._repr_mimebundle_()
    html = unescape(shown["text/html"])
    assert "<iframe sandbox" in html
    assert "income given age, city" in html
    assert "<script" not in html


def test_marimo_is_given_the_widget_or_else_the_report(page, monkeypatch):
    made = SimpleNamespace(AnyWidget=Watched)
    traits = SimpleNamespace(Unicode=Trait, Int=Trait)
    monkeypatch.setitem(sys.modules, "anywidget", made)
    monkeypatch.setitem(sys.modules, "traitlets", traits)
    assert isinstance(page._display_(), Watched)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(Html=lambda text: text))
    assert "income given age, city" in unescape(page._display_())
    with_address = Exploration(page.view).open(browser=False)
    assert with_address.address in with_address._display_()
    with_address.close()


class Trait:
    """A field of a widget, as traitlets has it."""

    def __init__(self, value):
        self.value = value

    def tag(self, **_):
        return self


class Watched:
    """A widget that only takes what listens."""

    def on_msg(self, listen):
        self.listen = listen


def test_elsewhere_the_page_is_served_until_it_is_closed(model, rows, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = model.explore(*rows, title="people")
    assert opened == [page.address]
    with urllib.request.urlopen(page.address) as answer:
        assert b"kexpfam" in answer.read()
    assert page.address in repr(page)
    page.close()
    assert page.address is None
    page.wait()  # there is nothing to wait for


def test_it_can_be_written(page, tmp_path):
    page.write(tmp_path / "a.html")
    assert "income given" in (tmp_path / "a.html").read_text()


def test_numbers_without_names_and_without_responses(notebook, recwarn):
    X = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    page = KCEF(select=None).fit(frame, X[:, 0]).explore(frame)
    assert {c.name for c in page.view.subject.controls} == {"a", "b"}
    assert not np.isfinite(page.view.subject.y).any()
    page.view.density(Question({}))
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_responses_of_other_rows_are_refused(model, rows, notebook):
    with pytest.raises(ValueError, match="y must have 50 rows like X, got 49"):
        model.explore(rows[0], rows[1][1:])


def test_messages_are_answered_with_their_number(page):
    told = answered(page.view, {"id": 7, "name": "description", "fields": {}})
    assert told["id"] == 7
    assert told["answer"]["target"] == "income"
    bad = {"id": 8, "name": "curve", "fields": {"feature": "nothing"}}
    assert "There is no feature" in answered(page.view, bad)["error"]
    for wrong in (None, {"id": 9, "name": "__class__", "fields": {}}, {"name": "row"}):
        assert answered(page.view, wrong)["error"] == "There is no such question."


def test_the_page_of_a_notebook_refers_to_nothing():
    page = embedded_page()
    assert "src=" not in page
    assert "href=" not in page
    assert "window.embedded = true" in page


def test_the_widget_hands_questions_to_the_view(view):
    pytest.importorskip("anywidget")
    widget = Exploration(view).widget()
    sent = []
    widget.send = sent.append
    widget._handle_custom_msg({"id": 1, "name": "description", "fields": {}}, [])
    assert sent[0]["answer"]["target"] == "price"
    assert "window.embedded" in widget.page


def test_a_view_can_be_shown_as_it_is(view):
    assert isinstance(view, ConditionalView)
    assert "open() serves it" in repr(Exploration(view))
