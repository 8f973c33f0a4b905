"""Speed of the working tree against that of an earlier commit, job by job.

    python benchmarks/versions.py COMMIT [--rounds 15] [--jobs NAME ...] [--cpu]
        [--into versions]

Each job has two processes, of which each imports the package of one of the two, and
does it once to warm up. Then they take turns, so that what else the machine does hits
both alike; what counts is the median ratio of neighbours.
With OPENBLAS_NUM_THREADS=1 ratios of small fits scatter much less, and with --cpu,
which counts the time of processors, those on a machine that others use, too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from record import write_result

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

PREPARE = """
import os, sys, time
import numpy as np
from kexpfam import KCEF, AutoKCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian
rng = np.random.default_rng(0)
def rows(n, p=5):
    X = rng.normal(size=(n, p))
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)
GIVEN = dict(kernel_x=Gaussian(2.0), kernel_y=Gaussian(1.0), regularization=1e-3,
             base=GaussianBase(scale=2.0), random_state=0)
"""

# What is prepared, and what is timed.
JOBS = {
    "exact_fit_2000": (
        "X, y = rows(2000)",
        "KCEF(select=None).fit(X, y)",
    ),
    "low_rank_fit_50000_given": (
        "X, y = rows(50_000)",
        "KCEF(**GIVEN, n_components=500).fit(X, y)",
    ),
    "kcef_fit_40": ("X, y = rows(40, 1)", "KCEF(random_state=0).fit(X, y)"),
    "kcef_fit_500": ("X, y = rows(500)", "KCEF(random_state=0).fit(X, y)"),
    "kcef_fit_3000": ("X, y = rows(3000)", "KCEF(random_state=0).fit(X, y)"),
    "auto_fit_100": ("X, y = rows(100)", "AutoKCEF(random_state=0).fit(X, y)"),
    "auto_fit_500": ("X, y = rows(500)", "AutoKCEF(random_state=0).fit(X, y)"),
    "auto_fit_2000": ("X, y = rows(2000)", "AutoKCEF(random_state=0).fit(X, y)"),
    "score_samples_5000": (
        "X, y = rows(500); model = KCEF(random_state=0).fit(X, y); X, y = rows(5000)",
        "model.score_samples(X, y)",
    ),
    "auto_quantiles_2000": (
        "X, y = rows(200); model = AutoKCEF(random_state=0).fit(X, y); "
        "X, y = rows(2000)",
        "model.predict_quantiles(X, [0.05, 0.5, 0.95])",
    ),
    "auto_regions_200": (
        "X, y = rows(2000); model = AutoKCEF(random_state=0).fit(X, y); "
        "X, y = rows(200)",
        "for _ in range(5): model.given(X).hpd(0.9)",
    ),
    "import": (
        "import subprocess, sys; "
        "run = lambda: subprocess.run([sys.executable, '-c', 'import kexpfam'])",
        "run()",
    ),
}


def started(package: Path, job: str, clock: str) -> subprocess.Popen[str]:
    """A process that does a job with the package in a folder whenever it is asked."""
    prepare, action = JOBS[job]
    code = f"""{PREPARE}
{prepare}
{action}
for _ in sys.stdin:
    start = {clock}
    {action}
    print({clock} - start, flush=True)
"""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(package)},
    )


def seconds(process: subprocess.Popen[str]) -> float:
    """How long the job takes this time."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compared(before: Path, job: str, rounds: int, clock: str) -> dict[str, float]:
    """Both versions in turns, each round in the other order."""
    old: list[float] = []
    new: list[float] = []
    with (
        started(before, job, clock) as first,
        started(ROOT / "src", job, clock) as second,
    ):
        for turn in range(rounds):
            pairs = [(first, old), (second, new)]
            for process, times in pairs if turn % 2 == 0 else pairs[::-1]:
                times.append(seconds(process))
    ratios = sorted(b / a for a, b in zip(old, new, strict=True))
    return {
        "before_seconds": median(old),
        "seconds": median(new),
        "ratio": median(ratios),
        "lower_quartile": ratios[len(ratios) // 4],
        "upper_quartile": ratios[-1 - len(ratios) // 4],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--into", default="versions", help="name of the result file")
    arguments = parser.parse_args()
    # Of this process and of those it has waited for
    clock = "sum(os.times()[:4])" if arguments.cpu else "time.perf_counter()"
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", tree, arguments.commit], check=True
        )
        try:
            found = {}
            for job in arguments.jobs:
                found[job] = compared(tree / "src", job, arguments.rounds, clock)
                print(job, {k: round(v, 4) for k, v in found[job].items()}, flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)
    result = {
        "before": arguments.commit,
        "clock": "processor" if arguments.cpu else "wall",
        "load_at_start": load,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
        "jobs": found,
    }
    print(write_result(arguments.into, result))


if __name__ == "__main__":
    main()
