"""A suite whose tasks fail in every way; the process dies of two."""

import dataclasses

from tests.experiments import toy

CASES = ("raises", "leaves", "nan", "kills itself", "fine", "ends")

SUITE = dataclasses.replace(
    toy.SUITE, tasks=toy.tasks(*CASES, splits=[0]), quick=toy.tasks("fine", splits=[0])
)
