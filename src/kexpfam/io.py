"""Load a saved model."""

from pathlib import Path
from typing import Any

from kexpfam.errors import FileFormatError
from kexpfam.estimators import KCEF, KEF, AutoKCEF
from kexpfam.estimators.base import ConditionalEstimator
from kexpfam.graphs import FactorizedDensity
from kexpfam.persistence import load_estimator
from kexpfam.tables import Coding


def load(path: str | Path) -> KCEF | KEF | AutoKCEF | FactorizedDensity:
    """The model that `save` wrote.

    No code from the file is run, whoever made it. It answers as before, but has
    forgotten what its search tried: `selection_` is None. `KCEF.partial_fit`, `merge`
    and `emptied` go on as before if it was saved with `sums=True`. What was saved as
    `extra` is in `extra_`. A model of a table, also one of the command line, takes
    tables with the same columns.

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
    found: Any = load_estimator(path)
    if isinstance(found, ConditionalEstimator) and found.coder_ is None:
        try:  # the command line of before wrote the coding beside the model
            coding = Coding.of_extra(
                found.extra_ or {}, str(path), found.n_features_in_
            )
        except FileFormatError:
            coding = None  # something of the user's, under the same name
        if coding is not None:
            found._recode(coding)
    return found
