import warnings

import pytest

from kexpfam import KCEF
from tests.explanation.laws import houses


@pytest.fixture(scope="session")
def house_model():
    X, y = houses(250)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KCEF(random_state=0).fit(X, y)
