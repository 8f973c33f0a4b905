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


def allowance(area):
    """Seconds that a change may take; the tests have to pass without any."""
    what, took = run(area, None, None, 3600.0)
    if what != SURVIVED:
        raise SystemExit(f"the tests of {area} fail without any change")
    return 2.0 * took + 10.0, took


def search(areas, seconds, most, seed, done=None):
    """Try changes of all areas in turns; a record of each."""
    ends = time.monotonic() + seconds
    allowed, rows = {}, []
    queues = {}
    for area in areas:
        queues[area] = of_area(area)
        random.Random(seed).shuffle(queues[area])
        allowed[area], took = allowance(area)
        print(
            f"{area}: {len(queues[area])} changes, tests take {took:.0f} s", flush=True
        )
    turn = 0
    while time.monotonic() < ends and len(rows) < most and any(queues.values()):
        area = areas[turn % len(areas)]
        turn += 1
        if not queues[area]:
            continue
        module, change = queues[area].pop()
        what, took = run(area, module, change, allowed[area])
        rows.append(
            {
                "area": area,
                "place": f"{module}.py:{change.line}",
                "change": change.said,
                "result": what,
                "seconds": round(took, 1),
            }
        )
        if what == SURVIVED:
            print(f"    {module}.py:{change.line}  {change.said}", flush=True)
        if done is not None:
            done.write_text(json.dumps({"seed": seed, "tried": rows}, indent=1) + "\n")
    return rows


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


def one_line(module, line):
    """Try all changes of a line."""
    area = next(name for name, area in AREAS.items() if module in area.modules)
    allowed, _ = allowance(area)
    text = path_of(module).read_text(encoding="utf-8")
    missed = 0
    for change in changes(text):
        if change.line == line:
            what, _ = run(area, module, change, allowed)
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
    parser.add_argument("--write", type=Path, help="a file for all results")
    parser.add_argument("--one", nargs=2, metavar=("MODULE", "LINE"))
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare()
    if given.one is not None:
        return one_line(given.one[0], int(given.one[1])) > 0
    rows = search(given.areas, given.seconds, given.most, given.seed, given.write)
    print(table(rows))
    print(f"seed {given.seed}, {len(rows)} changes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
