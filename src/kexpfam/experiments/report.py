"""Tables and pictures from result files, which are read and never written.

A part is what a suite shows, and a few lines on where it comes from. Parts make a
report of their own, or stand between markers in a page that a person writes.
"""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from kexpfam.experiments.ledger import in_order
from kexpfam.experiments.progress import Pace, clock
from kexpfam.experiments.runner import ledger_of
from kexpfam.experiments.suites import NAMES, load_suite
from kexpfam.experiments.task import Record, Suite, Task

_MARKER = re.compile(r"<!-- (begin|end) (\S+) -->")
# A picture whose address is a bare name, so that it lies beside the result files.
_PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)\s:/#]+)(?=[)\s])")


def declared(suite: Suite, records: Sequence[Record]) -> Sequence[Task]:
    """The tasks that records are a part of: those of a quick run, or of the full one.

    Records of both may be in one file. They are never shown in one table: as soon as
    there is one of the full run, that is what counts.
    """
    quick = {task.key for task in suite.quick}
    full = {task.key for task in suite.tasks} - quick
    measured = {record.task.key for record in records}
    return suite.quick if measured & quick and not measured & full else suite.tasks


def parts(folder: Path, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Markdown for each suite that has results, by the name of the suite.

    Pictures are written into the folder.

    Args:
        folder: Where result files are.
        names: Suites to look for.

    Raises:
        ResultFileError: A result file is damaged.
    """
    found = {}
    for name in names:
        suite, tasks, records = _measured(folder, name)
        if records:
            text = suite.show(records, folder).strip()
            found[suite.name] = f"{text}\n\n{_footer(name, suite, tasks, records)}\n"
    return found


def _measured(
    folder: Path, name: str
) -> tuple[Suite, Sequence[Task], Sequence[Record]]:
    """A suite, the tasks that its results are a part of, and these in their order."""
    suite = load_suite(name)
    records = ledger_of(folder, suite.name).records()
    tasks = declared(suite, records)
    keys = {task.key for task in tasks}
    return suite, tasks, [r for r in in_order(records, tasks) if r.task.key in keys]


def length(folder: Path, names: Sequence[str] = NAMES) -> str:
    """A sentence on how much of the suites is done, and how long they take.

    Args:
        folder: Where result files are.
        names: Suites to look at.
    """
    done = left = 0
    spent, rests = 0.0, []
    for name in names:
        _, tasks, records = _measured(folder, name)
        known = {record.task.key for record in records}
        missing = [task for task in tasks if task.key not in known]
        done, left = done + len(records), left + len(missing)
        spent += sum(record.seconds for record in records)
        rests.append(Pace(records).left(missing))
    text = (
        f"{done} of {done + left} tasks are done. They took {clock(spent)} of "
        f"computation, which as many cores as one has share"
    )
    known_rests = [rest for rest in rests if rest is not None]
    if left and len(known_rests) == len(rests):
        text += f"; the others may take {clock(sum(known_rests))}"
    return f"{text}."


def report(folder: Path, names: Sequence[str] = NAMES) -> str:
    """A report in Markdown on all suites that have results.

    Args:
        folder: Where result files are, and where pictures go.
        names: Suites to look for.
    """
    titles = {(suite := load_suite(name)).name: suite.title for name in names}
    text = f"# Reproduction\n\n{length(folder, names)}\n"
    for name, part in parts(folder, names).items():
        text += f"\n## {titles[name]}\n\n{part}"
    return text


def _footer(
    name: str, suite: Suite, tasks: Sequence[Task], records: Sequence[Record]
) -> str:
    """How much of it there is, where it comes from, and what failed."""
    failures = [record for record in records if record.error is not None]
    quick = " --quick" if tasks is suite.quick else ""
    line = (
        f"*{len(records)} of {len(tasks)} tasks, {len(failures)} failed; "
        f"{_commits(records)}; "
        f"{clock(sum(record.seconds for record in records))} of computation; "
        f"`kexpfam reproduce run {name}{quick}`.*"
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
    pairs = []
    for i, marker in enumerate(found):
        partner = found[i + 1 if i % 2 == 0 else i - 1 : i + 2][:1]
        expected = ("begin", "end")[i % 2]
        if marker[1] != expected or not partner or partner[0][2] != marker[2]:
            raise ValueError(
                f"{page}: the marker '{marker[0]}' has no partner; each name needs a "
                f"begin and, before the next name, an end."
            )
        if i % 2 == 0:
            pairs.append((marker[2], marker.end(), partner[0].start()))
    return pairs
