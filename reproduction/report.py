"""Tables and pictures from result files, which are read and never written.

A part is what a suite shows, and a few lines on where it comes from. Parts make a
report of their own, or stand between markers in a page that a person writes.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reproduction import failure, figure1, rates, table1, table2, table3
from reproduction.record import Record, Suite, Task, outcomes
from reproduction.runner import results

_MODULES = (table1, table2, table3, figure1, failure, rates)
SUITES: dict[str, Suite] = {module.SUITE.name: module.SUITE for module in _MODULES}

_MARKER = re.compile(r"<!-- (begin|end) (\S+) -->")
# A picture whose address is a bare name, so that it lies beside the result files.
_PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)\s:/#]+)(?=[)\s])")


def measured(folder: Path, suite: Suite) -> tuple[Sequence[Task], list[Record]]:
    """The tasks that results are a part of, and their records in declared order.

    These are the tasks of a quick run, or of the full one. Records of both may be in
    one file. They are never shown in one table: as soon as there is one of the full
    run, that is what counts.
    """
    found = outcomes(results(folder, suite))
    quick = {task.key for task in suite.quick}
    full = {task.key for task in suite.tasks} - quick
    is_quick = bool(found.keys() & quick) and not found.keys() & full
    tasks = suite.quick if is_quick else suite.tasks
    return tasks, [found[task.key] for task in tasks if task.key in found]


def parts(folder: Path, suites: Iterable[Suite]) -> dict[str, str]:
    """Markdown for each suite that has results, by the name of the suite.

    Pictures are written into the folder.
    """
    found = {}
    for suite in suites:
        tasks, records = measured(folder, suite)
        done = [record for record in records if record.error is None]
        if records:
            text = suite.show(done, folder) if done else "Nothing has been measured."
            found[suite.name] = f"{text}\n\n{_footer(suite, tasks, records)}\n"
    return found


def length(folder: Path, suites: Iterable[Suite]) -> str:
    """A sentence on how much of the suites is done, and how long they take."""
    done = left = 0
    spent, rests = 0.0, []
    for suite in suites:
        tasks, records = measured(folder, suite)
        known = {record.task.key for record in records}
        missing = [task for task in tasks if task.key not in known]
        done, left = done + len(records), left + len(missing)
        spent += sum(record.seconds for record in records)
        rests.append(seconds_left(records, missing))
    text = (
        f"{done} of {done + left} tasks are done. They took {clock(spent)} of "
        f"computation, which as many cores as one has share"
    )
    known_rests = [rest for rest in rests if rest is not None]
    if left and len(known_rests) == len(rests):
        text += f"; the others may take {clock(sum(known_rests))}"
    return f"{text}."


def seconds_left(records: Iterable[Record], tasks: Iterable[Task]) -> float | None:
    """Seconds of one core that tasks will take; None if nothing is known.

    Judged by tasks of the same case, method and rows that are done; where there is
    none, by the mean of all others. Failures say nothing, they may come at once.
    """
    seconds: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for record in records:
        if record.error is None:
            seconds[_kind(record.task)].append(record.seconds)
    means = {kind: sum(s) / len(s) for kind, s in seconds.items()}
    if not means:
        return None
    usual = sum(means.values()) / len(means)
    return sum((means.get(_kind(task), usual) for task in tasks), 0.0)


def _kind(task: Task) -> tuple[object, ...]:
    return task.suite, task.case, task.method, task.rows


def clock(seconds: float) -> str:
    """A time that is easy to read, such as 1:15 or 2:02:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def report(folder: Path, suites: Sequence[Suite]) -> str:
    """A report in Markdown on all suites that have results."""
    titles = {suite.name: suite.title for suite in suites}
    text = f"# Reproduction\n\n{length(folder, suites)}\n"
    for name, part in parts(folder, suites).items():
        text += f"\n## {titles[name]}\n\n{part}"
    return text


def _footer(suite: Suite, tasks: Sequence[Task], records: Sequence[Record]) -> str:
    """How much of it there is, where it comes from, and what failed."""
    failures = [record for record in records if record.error is not None]
    quick = " --quick" if tasks is suite.quick else ""
    line = (
        f"*{len(records)} of {len(tasks)} tasks, {len(failures)} failed; "
        f"{_commits(records)}; "
        f"{clock(sum(record.seconds for record in records))} of computation; "
        f"`python -m reproduction run {suite.name}{quick}`.*"
    )
    by_error: dict[str, list[str]] = defaultdict(list)
    for record in failures:
        by_error[str(record.error)].append(record.task.key)
    lines = [
        f"- failed: {', '.join(keys)}: `{error.replace('`', chr(39))}`"
        for error, keys in by_error.items()
    ]
    return "\n".join([line, *([""] if lines else []), *lines])


def _commits(records: Sequence[Record]) -> str:
    """Commits in the order of time, each with a word on files that differed from it."""
    states = {
        (record.origin["commit"], record.origin["uncommitted"]): None
        for record in sorted(records, key=lambda record: record.origin["finished"])
    }
    names = [
        f"{commit or 'unknown'}{' with changes' if changed else ''}"
        for commit, changed in states
    ]
    return f"commit{'s' if len(names) > 1 else ''} {', '.join(names)}"


def refresh_page(page: Path, folder: Path, content: Mapping[str, str]) -> None:
    """Put parts into a page, each between the markers of its name.

    A part named table1 goes between `<!-- begin table1 -->` and `<!-- end table1 -->`.
    Parts without markers are left out, markers without a part keep what is there.

    Args:
        page: The page, in Markdown.
        folder: Where the pictures are.
        content: Parts by name.

    Raises:
        ValueError: A marker has no partner, or stands inside another pair.
    """
    text = page.read_text(encoding="utf-8")
    prefix = Path(os.path.relpath(folder, page.parent)).as_posix()
    pieces, end = [], 0
    for name, start, stop in _pairs(page, text):
        if name in content:
            part = _PICTURE.sub(rf"\g<1>{prefix}/\g<2>", content[name]).strip()
            pieces += [text[end:start], f"\n\n{part}\n\n"]
            end = stop
    page.write_text("".join([*pieces, text[end:]]), encoding="utf-8")


def _pairs(page: Path, text: str) -> list[tuple[str, int, int]]:
    """Names in a page, and where what stands between their markers starts and ends."""
    found = list(_MARKER.finditer(text))
    kinds = [(marker[1], marker[2]) for marker in found]
    for i, (kind, name) in enumerate(kinds):
        begin = i - i % 2
        if kinds[begin : begin + 2] != [("begin", name), ("end", name)]:
            raise ValueError(
                f"{page}: the marker '<!-- {kind} {name} -->' has no partner; each "
                f"name needs a begin and, before the next name, an end."
            )
    pairs = zip(found[::2], found[1::2], strict=True)
    return [(first[2], first.end(), last.start()) for first, last in pairs]
