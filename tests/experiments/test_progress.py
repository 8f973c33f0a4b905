import io

from kexpfam.experiments.progress import Pace, Progress
from kexpfam.experiments.task import Record, Task


class Terminal(io.StringIO):
    def isatty(self):
        return True


def task(split, case="geyser", rows=None):
    return Task("table1", case, "KCEF", split, rows)


def record(split, seconds=2.0, error=None, **kwargs):
    return Record(task(split, **kwargs), {}, error, seconds, {})


def test_a_kind_is_judged_by_itself_and_others_by_the_mean_of_kinds():
    pace = Pace([record(0, 2.0), record(1, 4.0), record(0, 9.0, case="mcycle")])
    assert pace.left([task(2)]) == 3.0
    assert pace.left([task(1, case="mcycle")]) == 9.0
    assert pace.left([task(0, rows=10)]) == 6.0
    assert pace.left([task(2), task(3)]) == 6.0
    assert pace.left([]) == 0.0


def test_failures_say_nothing_about_time():
    assert Pace([record(0, 0.001, error="ValueError")]).left([task(1)]) is None


def show(stream):
    tasks = [task(0), task(1)]
    progress = Progress(tasks, Pace(), 1, stream)
    for i, error in enumerate([None, "ValueError: no rows"]):
        progress.started(tasks[i])
        progress.finished(record(i, error=error))
    progress.close()
    return stream.getvalue()


def test_piped_there_is_one_plain_line_for_each_task():
    assert show(io.StringIO()) == (
        "1/2 table1/geyser/KCEF/0: 2.0 s\n"
        "2/2 table1/geyser/KCEF/1: failed, ValueError: no rows\n"
    )


def test_on_a_terminal_there_is_one_line_with_time_and_task(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    drawn = show(Terminal())
    assert drawn.count("\n") == 1
    states = drawn.split("\r")
    assert "] 0/2, 0:00, table1/geyser/KCEF/0" in states[1]
    assert "] 1/2, 0:00, about 0:02 left, table1/geyser/KCEF/1" in states[3]
    assert f"[{'#' * 20}] 2/2, 0:00, about 0:00 left, 1 failed" in states[4]


def test_a_narrow_terminal_cuts_the_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    for state in show(Terminal()).split("\r"):
        assert len(state.strip().removesuffix("\033[K")) < 30


def test_a_task_that_overruns_does_not_shorten_the_others(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal()
    tasks = [task(i) for i in range(3)]
    progress = Progress(tasks, Pace([record(9, 10.0)]), 1, stream)
    progress.started(tasks[0])
    now[0] = 4.0
    progress.refresh()
    assert "0/3, 0:04, about 0:26 left" in stream.getvalue()
    now[0] = 60.0
    progress.refresh()
    assert "0/3, 1:00, about 0:20 left" in stream.getvalue()
