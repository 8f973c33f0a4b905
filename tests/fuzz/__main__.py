"""`python -m tests.fuzz [--seconds 60] [--seed 0] [kind ...]`: look for what breaks.

Each case has a seed of its own, which is printed with what went wrong, and

    python -m tests.fuzz --case KIND SEED

runs it again. A case may take ten seconds of the processor, and the process 8 GiB.
Found cases become tests of `tests/fuzz/test_corpus.py`.
"""

import argparse
import collections
import resource
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.cases import KINDS, run_case


def search(kinds, seconds, seed):
    """Run cases of all kinds in turns; the number of those that went wrong."""
    ends, tried, wrong = time.monotonic() + seconds, collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < ends:
            kind = kinds[sum(tried.values()) % len(kinds)]
            number = seed + tried[kind]
            tried[kind] += 1
            said, problem = run_case(kind, number, Path(folder))
            if problem is not None:
                wrong += 1
                print(f"--case {kind} {number}: {problem}\n    {said}", flush=True)
    counts = ", ".join(f"{n} {kind}" for kind, n in tried.items())
    print(f"{counts}, from seed {seed} on: {wrong} went wrong")
    return wrong


def main():
    """Read the arguments and search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", nargs=2, metavar=("KIND", "SEED"))
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            said, problem = run_case(given.case[0], int(given.case[1]), Path(folder))
        print(f"{said}\n{problem or 'nothing is wrong'}")
        return problem is not None
    seed = secrets.randbelow(10**9) if given.seed is None else given.seed
    return search(given.kinds, given.seconds, seed) > 0


if __name__ == "__main__":
    sys.exit(main())
