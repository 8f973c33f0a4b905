"""The rows that all sources of these tests hold."""

import pytest

from tests.conftest import read_only
from tests.data.cases import some_rows


@pytest.fixture(scope="session")
def rows():
    """X (1000, 3), y (1000, 2) and weights (1000,), a third of them zero."""
    return read_only(*some_rows())
