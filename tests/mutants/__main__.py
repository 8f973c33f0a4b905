"""`python -m tests.mutants [--seconds 600] [--seed 0] [area ...]`: do tests notice?

Modules are changed in one small place at a time, drawn at random by a seed, and the
fast tests of their area run, in a process that may take twice as long as they do
without a change, and ten seconds more. Changes that no test notices are listed: they
show a test that is missing, or a change that changes nothing.

    python -m tests.mutants --one MODULE LINE

tries every change of a line, such as `--one family/neighbourhood 58`.
"""

import argparse
import collections
import functools
import json
import os
import random
import sys
import time
from pathlib import Path

from tests.mutants.areas import AREAS
from tests.mutants.changes import changes
from tests.mutants.runs import SURVIVED, path_of, prepare, run


def of_area(area):
    """All changes of an area, with their modules."""
    return [
        (module, change)
        for module in AREAS[area].modules
        for change in changes(path_of(module).read_text(encoding="utf-8"))
    ]


@functools.cache
def allowed(files, module):
    """Seconds that tests may take with a change; they have to pass without any."""
    what, took = run(list(files), module, None, 3600.0)
    if what != SURVIVED:
        raise SystemExit(f"tests fail without any change: {' '.join(files)}")
    return 2.0 * took + 10.0


def tried(area, module, change, *, quick):
    """What became of a change: its own tests first, and then those of its area."""
    took = 0.0
    for files in (AREAS[area].own(module), [] if quick else AREAS[area].others(module)):
        limit = allowed(tuple(files), module) if files else 0.0
        what, seconds = run(files, module, change, limit)
        took += seconds
        if what != SURVIVED:
            break
    return what, took


def search(areas, seconds, most, seed, *, quick=False, done=None):
    """Try changes of all areas in turns; a record of each."""
    ends, rows = time.monotonic() + seconds, []
    queues = {area: of_area(area) for area in areas}
    for area, queue in queues.items():
        random.Random(seed).shuffle(queue)
        print(f"{area}: {len(queue)} changes", flush=True)
    while time.monotonic() < ends and len(rows) < most and any(queues.values()):
        area = max(
            queues, key=lambda name: (len(queues[name]) > 0, -_count(rows, name))
        )
        module, change = queues[area].pop()
        what, took = tried(area, module, change, quick=quick)
        place = f"{module}.py:{change.line}"
        rows.append(
            {
                "area": area,
                "place": place,
                "change": change.said,
                "result": what,
                "seconds": round(took, 1),
            }
        )
        if what == SURVIVED:
            print(f"    {place}  {change.said}", flush=True)
        if done is not None:
            command = " ".join(["python -m tests.mutants", *sys.argv[1:]])
            content = {"command": command, "seed": seed, "tried": rows}
            done.write_text(json.dumps(content, indent=1) + "\n")
    return rows


def again(file):
    """Try once more what survived, with all tests of its area, and write that down."""
    content = json.loads(file.read_text(encoding="utf-8"))
    for row in content["tried"]:
        if row["result"] != SURVIVED:
            continue
        module, line = row["place"].split(".py:")
        text = path_of(module).read_text(encoding="utf-8")
        same = [c for c in changes(text) if c.said == row["change"]]
        # Lines may have moved since; the nearest of those alike is meant.
        change = min(same, key=lambda c: abs(c.line - int(line)))
        what, took = tried(row["area"], module, change, quick=False)
        row |= {"result": what, "seconds": round(took, 1)}
        print(f"{what:9} {row['place']}  {change.said}", flush=True)
        file.write_text(json.dumps(content, indent=1) + "\n")
    return content["tried"]


def _count(rows, area):
    return sum(row["area"] == area for row in rows)


def table(rows):
    """How many of each area were noticed."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["area"]][row["result"]] += 1
        counts["all"][row["result"]] += 1
    lines = [f"{'area':16} {'tried':>6} {'noticed':>8} {'share':>6}"]
    for area, count in counts.items():
        if area != "all":
            lines.append(_line(area, count))
    return "\n".join([*lines, _line("all", counts["all"])])


def _line(area, count):
    tried = sum(count.values())
    noticed = tried - count[SURVIVED]
    return f"{area:16} {tried:6} {noticed:8} {noticed / max(tried, 1):6.0%}"


def one_line(module, line, *, quick):
    """Try all changes of a line."""
    area = next(name for name, area in AREAS.items() if module in area.modules)
    text = path_of(module).read_text(encoding="utf-8")
    missed = 0
    for change in changes(text):
        if change.line == line:
            what, _ = tried(area, module, change, quick=quick)
            missed += what == SURVIVED
            print(f"{what:9} {change.said}", flush=True)
    return missed


def main():
    """Read the arguments and search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("areas", nargs="*", default=list(AREAS))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="only their own tests")
    parser.add_argument("--write", type=Path, help="a file for all results")
    parser.add_argument("--again", type=Path, help="only what survived in a file")
    parser.add_argument("--one", nargs=2, metavar=("MODULE", "LINE"))
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare()
    if given.one is not None:
        return one_line(given.one[0], int(given.one[1]), quick=given.quick) > 0
    if given.again is not None:
        print(table(again(given.again)))
        return 0
    how = {"quick": given.quick, "done": given.write}
    rows = search(given.areas, given.seconds, given.most, given.seed, **how)
    print(table(rows))
    print(f"seed {given.seed}, {len(rows)} changes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
