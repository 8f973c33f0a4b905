"""Without the libraries, what needs them says so, and nothing else suffers."""

import subprocess
import sys

import pytest

# Run apart, so that modules that other tests have imported do not help; and once,
# because to import the package takes longer than all the rest.
CODE = """
import sys
import kexpfam.bridges as bridges
print("imported:", {"skpro", "arviz", "qp"} & {name for name in sys.modules})

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("skpro", "arviz", "qp"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import numpy as np
from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.errors import MissingDependencyError

p = ClosedFormDensity(GaussianBase(1.0), np.zeros(2), np.ones(2))
assert bridges.to_scipy(p, 0).mean() == 0.0
for call in CALLS:
    try:
        exec(call)
    except MissingDependencyError as error:
        print(error)
"""


MESSAGES = {
    "import kexpfam.bridges.skpro": "skpro is needed for its regressor",
    "bridges.to_qp(p)": "qp is needed to build an ensemble",
    "bridges.to_arviz(p.run(5, 0))": "arviz is needed to hand draws over",
}


@pytest.fixture(scope="module")
def printed():
    """What the code prints: the libraries imported, then a line for each call."""
    code = CODE.replace("CALLS", repr(list(MESSAGES)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_missing_library_is_named_with_the_extra_that_installs_it(printed):
    for line, message in zip(printed[1:], MESSAGES.values(), strict=True):
        assert message in line
        assert 'pip install "kexpfam[bridges]"' in line


def test_the_bridges_import_no_library(printed):
    assert printed[0] == "imported: set()"
