"""Load a saved model."""

from pathlib import Path
from typing import cast

from kexpfam.estimators import KCEF, KEF, AutoKCEF
from kexpfam.graphs import FactorizedDensity
from kexpfam.persistence import load_estimator


def load(path: str | Path) -> KCEF | KEF | AutoKCEF | FactorizedDensity:
    """The model that `save` wrote.

    No code from the file is run, whoever made it. It answers as before, but has
    forgotten what its search tried: `selection_` is None. `KCEF.partial_fit`, `merge`
    and `emptied` go on as before if it was saved with `sums=True`. What was saved as
    `extra` is in `extra_`.

    Args:
        path: File written by the `save` of `KCEF`, `KEF`, `AutoKCEF` or
            `FactorizedDensity`.

    Raises:
        FileNotFoundError: There is no such file.
        FileFormatError: It is damaged, truncated, foreign, or of another version.

    Example:
        >>> import numpy as np, tempfile
        >>> from kexpfam import KEF, load
        >>> data = np.random.default_rng(0).normal(size=(50, 1))
        >>> model = KEF(random_state=0).fit(data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.kexpfam", extra={"unit": "mm"})
        ...     again = load(f"{folder}/model.kexpfam")
        >>> bool(again.score_samples([[0.0]]) == model.score_samples([[0.0]]))
        True
        >>> again.extra_
        {'unit': 'mm'}
    """
    found = load_estimator(path)
    return cast("KCEF | KEF | AutoKCEF | FactorizedDensity", found)
