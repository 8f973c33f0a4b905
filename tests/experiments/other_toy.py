"""A second suite, of one task, for runs of several."""

import dataclasses

from kexpfam.experiments.task import Task
from tests.experiments import toy

SUITE = dataclasses.replace(
    toy.SUITE, name="other", tasks=(Task("other", "a", "KCEF", 0),), quick=()
)
