"""Load a saved model."""

from pathlib import Path

import numpy as np

from kexpfam.errors import FileFormatError
from kexpfam.graphs import FactorizedDensity
from kexpfam.graphs.saving import restored_density
from kexpfam.models import KCEF, KEF, AutoKCEF
from kexpfam.models.saved_classes import FittedAverage, FittedModel
from kexpfam.models.saved_stream import opened
from kexpfam.models.saving import SavedModel, in_short, read_model

_ESTIMATORS: dict[str, type[KCEF | KEF | AutoKCEF]] = {
    "AutoKCEF": AutoKCEF,
    "KCEF": KCEF,
    "KEF": KEF,
}


def load(path: str | Path) -> KCEF | KEF | AutoKCEF | FactorizedDensity:
    """The model that `save` wrote.

    No code from the file is run, whoever made it. It answers as before, but has
    forgotten what its search tried: `selection_` is None. `KCEF.partial_fit`, `merge`
    and `emptied` go on as before if it was saved with `sums=True`.

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
        ...     model.save(f"{folder}/model.kexpfam")
        ...     again = load(f"{folder}/model.kexpfam")
        >>> bool(again.score_samples([[0.0]]) == model.score_samples([[0.0]]))
        True
    """
    saved = read_model(path)
    if isinstance(saved, SavedModel):
        return _revived(saved, path)
    factors = [_revived(model, path) for model in saved.models]
    try:
        return restored_density(saved.structure, saved.feature_names, factors)
    except (TypeError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{str(path)!r} is not a complete joint density ({in_short(error)})."
        ) from error


def _revived(saved: SavedModel, path: str | Path) -> KCEF | KEF | AutoKCEF:
    if saved.kind not in _ESTIMATORS:
        raise FileFormatError(
            f"{str(path)!r} holds a {saved.kind!r}, which is not known here."
        )
    try:
        model = _ESTIMATORS[saved.kind](**saved.parameters)
    except TypeError as error:
        raise FileFormatError(
            f"{str(path)!r} has parameters that {saved.kind} does not take "
            f"({in_short(error)})."
        ) from error
    try:
        _restore(model, saved)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{str(path)!r} holds a density that cannot be normalised "
            f"({in_short(error)})."
        ) from error
    if saved.feature_names:
        model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
    return model


def _restore(model: KCEF | KEF | AutoKCEF, saved: SavedModel) -> None:
    fitted = saved.fitted
    if isinstance(model, AutoKCEF):
        assert isinstance(fitted, FittedAverage)
        # Numbers of a wrong form in its members show when they are printed.
        repr(model._restore(fitted).members_)
        return
    assert isinstance(fitted, FittedModel)
    model._restore(fitted.family)
    if isinstance(model, KCEF):
        assert fitted.neighbourhood is not None
        model.neighbourhood_ = fitted.neighbourhood
        if fitted.stream is not None:
            model.stream_ = opened(fitted.stream, fitted.family)
