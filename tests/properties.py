"""How properties are searched: always alike in tests, long and anew by `make fuzz`.

`HYPOTHESIS_PROFILE=long` tries twenty times as many cases, others each time, and prints
what makes a failure again; a case that was found becomes an `@example` or a test.
"""

import os

from hypothesis import Phase, settings

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("long", deadline=None, print_blob=True)


def load_profile():
    """Let all properties be searched as the environment says."""
    settings.load_profile("long" if LONG else "ci")


def searched(examples, **how):
    """Settings for so many cases, or for many more in a long search."""
    return settings(max_examples=examples * (20 if LONG else 1), **how)


# Where shrinking a failure would take minutes: what failed is printed as it is.
UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "report_multiple_bugs": False}
