"""Load a saved model."""

from pathlib import Path

import numpy as np

from kexpfam.errors import FileFormatError
from kexpfam.models import KCEF, KEF
from kexpfam.models.saving import read_model


def load(path: str | Path) -> KCEF | KEF:
    """The model that `save` wrote.

    No code from the file is run, whoever made it.

    Args:
        path: File written by `KCEF.save` or `KEF.save`.

    Raises:
        FileNotFoundError: There is no such file.
        FileFormatError: It is damaged, truncated, foreign, or of another version.

    Example:
        >>> import numpy as np, tempfile
        >>> from kexpfam import KEF, load
        >>> model = KEF().fit(np.random.default_rng(0).normal(size=(50, 1)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.kexpfam")
        ...     again = load(f"{folder}/model.kexpfam")
        >>> bool(again.score_samples([[0.0]]) == model.score_samples([[0.0]]))
        True
    """
    kind, parameters, names, family = read_model(path)
    if kind not in ("KCEF", "KEF"):
        raise FileFormatError(
            f"{str(path)!r} holds a {kind!r}, which is not known here."
        )
    try:
        model = {"KCEF": KCEF, "KEF": KEF}[kind](**parameters)
    except TypeError as error:
        raise FileFormatError(
            f"{str(path)!r} has parameters that {kind} does not take ({error})."
        ) from error
    try:
        model._restore(family)
    except (ArithmeticError, ValueError) as error:
        raise FileFormatError(
            f"{str(path)!r} holds a density that cannot be normalised ({error})."
        ) from error
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
