"""Without the libraries, what needs them says so, and nothing else suffers."""

import subprocess
import sys

import pytest

# Run apart, so that modules that other tests have imported do not help.
CODE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("skpro", "arviz", "qp"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import kexpfam.bridges as bridges
from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.errors import MissingDependencyError

p = ClosedFormDensity(GaussianBase(1.0), np.zeros(2), np.ones(2))
assert bridges.to_scipy(p, 0).mean() == 0.0
try:
    {call}
except MissingDependencyError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("import kexpfam.bridges.skpro", "skpro is needed for its regressor"),
        ("bridges.to_qp(p)", "qp is needed to build an ensemble"),
        ("bridges.to_arviz(p.run(5, 0))", "arviz is needed to hand draws over"),
    ],
)
def test_a_missing_library_is_named_with_the_extra_that_installs_it(call, message):
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("{call}", call)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert message in done.stdout
    assert 'pip install "kexpfam[bridges]"' in done.stdout


def test_the_bridges_import_no_library():
    code = "import sys, kexpfam.bridges; print([m for m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    for library in ("skpro", "'arviz'", "'qp'"):
        assert library not in done.stdout.replace("kexpfam.bridges.skpro", "")
