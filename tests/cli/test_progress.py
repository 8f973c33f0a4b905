"""Progress is shown to people only, and changes nothing."""

import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.cli import progress as module
from kexpfam.metrics import evaluate


@pytest.fixture(scope="module")
def model():
    x = np.linspace(0.0, 1.0, 40)[:, None]
    return KCEF(select=None).fit(x, x[:, 0] + 0.1 * np.sin(50 * x[:, 0]))


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_are_put_together_in_order(model, monkeypatch, watched, threads):
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    monkeypatch.setattr(module, "is_watched", lambda: watched)
    monkeypatch.setattr(module, "thread_count", lambda _: threads)
    x = np.linspace(0.0, 1.0, 30)[:, None]
    parts = module.in_blocks(model, x, lambda p, rows: (rows.start, p.mean()), "work")
    assert [start for start, _ in parts] == [0, 7, 14, 21, 28]
    means = np.concatenate([mean for _, mean in parts])
    np.testing.assert_allclose(means, model.predict(x), rtol=1e-9)


def test_a_bar_is_drawn_where_someone_looks(model, monkeypatch, capsys):
    x = np.linspace(0.0, 1.0, 30)[:, None]
    expected = evaluate(model, x, x[:, 0]).crps.value
    with module.counted(model, 30, "evaluating") as counted:
        assert evaluate(counted, x, x[:, 0]).crps.value == expected
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "is_watched", lambda: True)
    with module.counted(model, 30, "evaluating") as counted:
        assert evaluate(counted, x, x[:, 0]).crps.value == expected
    assert "evaluating" in capsys.readouterr().err
    assert isinstance(counted, module.Counted)
