"""A suite whose tasks fail in every way."""

import dataclasses

from tests.experiments import toy

CASES = ("raises", "kills itself", "fine", "leaves", "ends", "nan")

SUITE = dataclasses.replace(
    toy.SUITE, tasks=toy.tasks(*CASES, splits=[0]), quick=toy.tasks("fine", splits=[0])
)
