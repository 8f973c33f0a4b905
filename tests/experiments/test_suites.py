import dataclasses
import importlib.util

import pytest

from kexpfam.experiments.suites import (
    choose,
    how_to_install,
    load_suite,
    missing_libraries,
)
from kexpfam.experiments.task import Task
from tests.experiments import toy

TOY = "tests.experiments.toy"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("table9", "use one of table1, .*rates"),
        ("tests.nowhere.at_all", "has no module"),
        ("tests.experiments.test_suites", "has no SUITE"),
    ],
)
def test_what_is_no_suite_is_said(name, message):
    with pytest.raises(ValueError, match=message):
        load_suite(name)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((Task("other", "a", "KCEF", 0),), "declared by suite 'toy'"),
        ((Task("toy", "a", "KCEF", 0),) * 2, "declares toy/a/KCEF/0 twice"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(monkeypatch, tasks, message):
    monkeypatch.setattr(toy, "SUITE", dataclasses.replace(toy.SUITE, tasks=tasks))
    with pytest.raises(ValueError, match=message):
        load_suite(TOY)


def test_choices_keep_the_declared_order():
    keys = [task.key for task in choose(TOY, splits=range(18, 30)).tasks]
    assert keys == ["toy/a/KCEF/18", "toy/a/KCEF/19", "toy/b/KCEF/18", "toy/b/KCEF/19"]
    assert choose(TOY, quick=True).tasks == toy.SUITE.quick
    assert len(choose(TOY, cases=["b"], methods=["KCEF"]).tasks) == 20
    assert choose(TOY, methods=["RNADE"]).tasks == ()


def test_libraries_are_missed_only_where_a_task_needs_them(monkeypatch):
    tasks = (Task("toy", "a", "KCEF", 0), Task("toy", "b", "RNADE", 0))
    needs = ("jax", "optax", "matplotlib", "numpy")
    suite = dataclasses.replace(toy.SUITE, tasks=tasks, needs=needs)
    monkeypatch.setattr(toy, "SUITE", suite)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: find(n) if n == "numpy" else None
    )
    assert missing_libraries([choose(TOY)]) == ["jax", "matplotlib", "optax"]
    assert missing_libraries([choose(TOY, cases=["a"])]) == ["matplotlib"]
    assert missing_libraries([choose(TOY, cases=["c"])]) == []


def test_the_command_names_extras_once_and_other_libraries_by_name():
    assert how_to_install(["jax", "optax", "pandas"]) == (
        'pip install "kexpfam[baselines]" pandas'
    )
