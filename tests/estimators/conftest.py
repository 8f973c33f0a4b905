"""What tests of several estimators share."""

import pytest

from kexpfam import AutoKCEF
from kexpfam.selection.spec import PLAIN, default_coordinates


@pytest.fixture(scope="module")
def few_coordinates():
    """Fewer candidates of an average, where only what is around them matters."""
    few = [c for c in default_coordinates() if c.name in (PLAIN, "linear")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: few))
        yield
