import json
import os
import subprocess
import sys

import numpy as np
import pytest

from kexpfam.experiments.task import Task
from kexpfam.experiments.worker import perform, plain

TOY = "tests.experiments.toy"


def task(case):
    return Task("toy", case, "KCEF", 3)


def test_a_task_gives_its_figures():
    answer = perform(TOY, task("a"))
    assert answer["error"] is None
    assert answer["figures"]["loss"] == 103 / 7
    assert answer["seconds"] >= 0


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("raises", "ValueError: no rows"),
        ("leaves", "SystemExit: told to go"),
        ("nan", "ValueError: figure 'loss' is nan; only finite numbers are results."),
    ],
)
def test_what_a_task_raises_is_an_answer_in_one_line(case, error):
    answer = perform(TOY, task(case))
    assert answer["figures"] == {}
    assert answer["error"] == error


def test_a_suite_that_cannot_be_loaded_is_an_answer():
    assert (
        "ValueError: suite" in perform("tests.experiments.nothing", task("a"))["error"]
    )


def test_figures_of_numpy_become_plain():
    figures = {"n": np.int64(3), "is": np.bool_(True), "x": {"y": np.eye(2)}}
    assert plain(figures) == {"n": 3, "is": True, "x": {"y": [[1.0, 0.0], [0.0, 1.0]]}}


@pytest.mark.parametrize(
    "value", [np.inf, np.float64("nan"), np.array([1, -np.inf]), {"a": [np.nan]}]
)
def test_numbers_that_are_not_finite_are_refused_however_deep(value):
    with pytest.raises(ValueError, match=r"figure 'loss' is (nan|inf|-inf)"):
        plain({"loss": value})


@pytest.mark.parametrize("value", [3.0, None, {"model": object()}])
def test_what_is_no_result_is_refused(value):
    with pytest.raises(TypeError, match=r"dict of figures|number, text"):
        plain(value)


def test_prints_do_not_tear_answers_and_the_process_ends_with_its_input():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-m", "kexpfam.experiments.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:

        def ask(name, one):
            request = {"name": name, "task": one.content}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()

        assert json.loads(process.stdout.readline()) == {"ready": True}
        ask(TOY, task("a"))
        assert json.loads(process.stdout.readline())["figures"]["loss"] == 103 / 7
        ask(TOY, task("sleeps"))
        printed = iter(process.stderr)
        assert "a library that prints must not tear answers\n" in printed
        assert "now\n" in printed
        process.stdin.close()
        # It sleeps for a minute; the end of its input ends it at once.
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""
