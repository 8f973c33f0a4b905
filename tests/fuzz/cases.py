"""Random cases of every kind, each from a seed, with a limit of its time."""

import signal
import traceback

import numpy as np

from tests.fuzz import model_files, requests, tables

KINDS = {
    "files": model_files.one_case,
    "tables": tables.one_case,
    "requests": requests.one_case,
}

# Seconds of the processor that one case may take; those that were seen take tenths.
LONGEST = 10.0


class TooLongError(Exception):
    """A case takes longer than it may."""


def run_case(kind, seed, folder):
    """How a case was made, and what is wrong with it, or None."""
    rng = np.random.default_rng(seed)

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        return KINDS[kind](rng, folder)
    except TooLongError:
        return "see the seed", f"more than {LONGEST:g} s"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename}:{last.lineno}"
        return "see the seed", f"{type(error).__name__}: {error} ({where})"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
