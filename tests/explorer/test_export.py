"""The report is one page that refers to nothing outside, with the main pictures."""

import datetime
import re
from dataclasses import replace
from html.parser import HTMLParser

from kexpfam.explorer import ConditionalView, report

VOID = {"meta", "link", "br", "img", "input"}


class Checker(HTMLParser):
    """Collects what is referred to, and whether elements are closed."""

    def __init__(self):
        super().__init__()
        self.references, self.open, self.count = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.references += [
            value for name, value in attrs if name in ("src", "href", "xlink:href")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return checker


def refers_outside(text):
    addresses = re.findall(r"(?:https?:)?//[\w.]+[^\s\"'<]*", text)
    return [a for a in addresses if not a.startswith("http://www.w3.org/")]


def test_the_report_stands_alone(view):
    text = report(view)
    checker = checked(text)
    assert checker.references == []
    assert refers_outside(text) == []
    assert "url(" not in text
    assert "@import" not in text
    assert "script" not in checker.count


def test_the_report_has_the_main_pictures(view):
    text = report(view)
    # Typical conditions and two rows, a curve for each feature, PIT, coverage, draws
    # for wide and for narrow screens, and a bar of importance for each feature, area
    # and rooms together.
    assert checked(text).count["svg"] == 3 + 3 + 2 + 2 + 3
    assert f"{datetime.date.today().year}" in text.split("</header>")[0]
    assert "Along area" in text
    assert "log loss" in text
    assert "60 rows of houses.csv" in text


def test_a_report_without_data_has_no_comparison(alone):
    text = report(ConditionalView(alone))
    assert checked(text).count["svg"] == 3 + 3 + 3
    assert "no data" in text
    assert "a quick look without observations" in text


def test_a_joint_report_has_graph_and_pairs(joint_view):
    text = report(joint_view)
    # Pairs are there twice, for wide and for narrow screens.
    assert checked(text).count["svg"] == 3
    assert "% of the draws" in text
    assert refers_outside(text) == []


def test_names_are_escaped(view):
    evil = '<img src="x">'
    text = report(ConditionalView(replace(view.subject, target=evil, title=evil)))
    assert "<img" not in text
