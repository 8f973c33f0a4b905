"""Progress is shown to people only, and changes nothing."""

import io

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam._progress import ProgressBar
from kexpfam.cli.evaluate import Counted
from kexpfam.distributions import row_blocks
from kexpfam.metrics import evaluate


@pytest.fixture(scope="module")
def model():
    x = np.linspace(0.0, 1.0, 40)[:, None]
    return KCEF(select=None).fit(x, x[:, 0] + 0.1 * np.sin(50 * x[:, 0]))


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_are_put_together_in_order(model, threads):
    x, told = np.linspace(0.0, 1.0, 30)[:, None], []
    parts = row_blocks.in_blocks(
        model.given,
        x,
        lambda p, rows: (rows.start, p.mean()),
        n_jobs=threads,
        progress=lambda done, total: told.append((done, total)),
        block_rows=7,
    )
    assert [start for start, _ in parts] == [0, 7, 14, 21, 28]
    assert told == [(done, 5) for done in range(1, 6)]
    means = np.concatenate([mean for _, mean in parts])
    np.testing.assert_allclose(means, model.predict(x), rtol=1e-9)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_there_from_the_beginning():
    stream = Terminal()
    with ProgressBar("a stage", stream=stream) as bar:
        assert stream.getvalue().endswith("a stage\033[K")
        bar(1, 2)
        assert stream.getvalue().endswith("a stage: 1 of 2\033[K")


def test_elsewhere_every_stage_has_a_line():
    stream = io.StringIO()
    with ProgressBar("a stage without parts", stream=stream):
        pass
    assert stream.getvalue() == "a stage without parts\n"


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_fits_tell_of_their_stages(estimator, capsys):
    x = np.linspace(0.0, 1.0, 40)[:, None]
    y = x[:, 0] + 0.1 * np.sin(50 * x[:, 0])
    estimator(random_state=0).fit(x, y)
    assert capsys.readouterr().err == ""
    estimator(random_state=0, verbose=True).fit(x, y)
    lines = capsys.readouterr().err.splitlines()
    name = estimator.__name__
    assert lines[0].startswith(f"{name}, coordinates of y")
    assert lines[1].startswith(f"{name}, mean log p: ")
    if estimator is AutoKCEF:
        assert lines[-1].startswith("AutoKCEF, fits to all rows: ")


@pytest.mark.parametrize("shown", [False, True])
def test_a_bar_is_drawn_where_someone_looks(model, shown):
    x, stream = np.linspace(0.0, 1.0, 30)[:, None], io.StringIO()
    expected = evaluate(model, x, x[:, 0]).crps.value
    with ProgressBar("evaluating", shown=shown, stream=stream) as bar:
        found = evaluate(Counted(model, 30, bar), x, x[:, 0]).crps.value
    assert found == expected
    assert stream.getvalue() == ("evaluating: 30 of 30\n" if shown else "")
