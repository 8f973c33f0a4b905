"""Fitted models to and from files.

A file says which estimator it is of, its parameters, and what it has learned, in terms
of the classes in `saved_classes`. It cannot make anything else. A joint density along a
graph is several such models, and the graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.base_densities import RegressionFrame
from kexpfam.errors import CannotSaveError, FileFormatError
from kexpfam.kernels import SumOfProducts
from kexpfam.models.encoding import Decoder, Encoder
from kexpfam.models.family import FittedFamily
from kexpfam.models.saved_classes import (
    KINDS,
    FittedAverage,
    FittedMember,
    FittedModel,
)
from kexpfam.models.saved_stream import closed
from kexpfam.models.stream import Stream
from kexpfam.storage import read_container, write_container

# What files call a joint density.
FACTORS = "FactorizedDensity"

# Letters of a reason for a refusal; a file may provoke errors that quote its numbers.
_LONGEST_REASON = 200


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a file says.

    Attributes:
        kind: Name of the estimator.
        parameters: Its parameters.
        feature_names: Names of the columns of X, or none.
        fitted: What it has learned.
    """

    kind: str
    parameters: dict[str, Any]
    feature_names: list[str]
    fitted: FittedModel | FittedAverage


@dataclass(frozen=True, eq=False)
class SavedFactors:
    """What the file of a joint density says.

    Attributes:
        structure: The graph, in plain numbers and strings, not checked.
        feature_names: Names of all columns, or none.
        models: The factors.
    """

    structure: Any
    feature_names: list[str]
    models: tuple[SavedModel, ...]


def save_model(
    estimator: Any,
    family: FittedFamily,
    path: str | Path,
    stream: Stream | None = None,
) -> None:
    """Write a fitted `KCEF` or `KEF`.

    Args:
        estimator: Whose parameters are written.
        family: What it has learned.
        path: Where to.
        stream: Rows or sums to go on with; None not to write them.

    Raises:
        CannotSaveError: It holds a part without a safe representation, such as a
            scikit-learn regressor or a kernel of the user's own.
    """
    _write(estimator, _fitted_family(estimator, family, stream), path)


def save_average(estimator: Any, path: str | Path) -> None:
    """Write a fitted `AutoKCEF`."""
    _write(estimator, _fitted_average(estimator), path)


def save_factors(
    estimators: Sequence[Any],
    structure: Any,
    feature_names: list[str],
    path: str | Path,
) -> None:
    """Write fitted factors and the graph that they belong to.

    Args:
        estimators: `KCEF`, `KEF` or `AutoKCEF`.
        structure: The graph, in plain numbers and strings.
        feature_names: Names of all columns, or none.
        path: Where to.

    Raises:
        CannotSaveError: One of them holds a part without a safe representation.
    """
    encoder = Encoder(KINDS)
    models = [
        _described(
            encoder,
            estimator,
            _fitted_average(estimator)
            if hasattr(estimator, "members_")
            else _fitted_family(estimator, estimator.family_, None),
            f"factors.{i}",
        )
        for i, estimator in enumerate(estimators)
    ]
    description = {
        "model": FACTORS,
        "structure": structure,
        "feature_names": feature_names,
        "factors": models,
        "objects": encoder.objects,
    }
    write_container(path, encoder.arrays, description)


def _fitted_family(
    estimator: Any, family: FittedFamily, stream: Stream | None
) -> FittedModel:
    if isinstance(family.chart.frame, RegressionFrame):
        raise CannotSaveError(
            f"A model with base={estimator.base!r} cannot be saved: fitted "
            f"scikit-learn regressors have no file format that is safe to open. Save "
            f"the data and fit again."
        )
    neighbourhood = getattr(estimator, "neighbourhood_", None)
    saved = None if stream is None else closed(stream)
    return FittedModel(family, neighbourhood, saved)


def _fitted_average(estimator: Any) -> FittedAverage:
    members = tuple(
        FittedMember(m.weight, m.chart, m.candidate.method, m.held_out, m.family)
        for m in estimator.members_
    )
    return FittedAverage(
        members,
        estimator.members_.guard,
        estimator.guard_,
        estimator.best_.family_,
        estimator.best_.fit_method,
        estimator.neighbourhood_,
        estimator.n_candidates_,
        estimator.stopped_,
    )


def _write(estimator: Any, fitted: object, path: str | Path) -> None:
    encoder = Encoder(KINDS)
    description = _described(encoder, estimator, fitted)
    description["objects"] = encoder.objects
    write_container(path, encoder.arrays, description)


def _described(
    encoder: Encoder, estimator: Any, fitted: object, place: str = ""
) -> dict[str, Any]:
    """One model in JSON; its arrays are in the encoder, named after their place."""
    parameters = estimator.get_params(deep=False)
    seed = parameters.get("random_state")
    # A generator's state is not part of the model; a seed is.
    whole = isinstance(seed, int | np.integer)
    parameters["random_state"] = int(seed) if whole else None
    # Arrays among the parameters are short; they become lists.
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in parameters.items()
    }
    return {
        "model": type(estimator).__name__,
        "parameters": {name: encoder.encode(value) for name, value in plain.items()},
        "feature_names": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "fitted": encoder.encode(fitted, place),
    }


def read_model(path: str | Path) -> SavedModel | SavedFactors:
    """Everything that a file says, checked.

    Raises:
        FileFormatError: The file is not a complete, consistent model.
    """
    arrays, description = read_container(path)
    try:
        # Numbers that overflow are looked for, and need no warning.
        with np.errstate(all="ignore"):
            decoder = Decoder(KINDS, arrays, description["objects"])
            if description["model"] == FACTORS:
                saved: SavedModel | SavedFactors = SavedFactors(
                    description["structure"],
                    [str(name) for name in description["feature_names"]],
                    tuple(_decoded(decoder, part) for part in description["factors"]),
                )
            else:
                saved = _decoded(decoder, description)
            decoder.finish()
        return saved
    except FileFormatError:
        raise
    except Exception as error:  # whatever a hostile description provokes
        raise FileFormatError(
            f"{str(path)!r} is not a complete kexpfam model ({in_short(error)})."
        ) from error


def _decoded(decoder: Decoder, description: dict[str, Any]) -> SavedModel:
    fitted = decoder.decode(description["fitted"])
    parameters = {
        str(name): decoder.decode(value)
        for name, value in description["parameters"].items()
    }
    names = [str(name) for name in description["feature_names"]]
    saved = SavedModel(str(description["model"]), parameters, names, fitted)
    _check_kind(saved)
    return saved


def in_short(error: Exception) -> str:
    """What an error says, in one line of a decent length."""
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]} ..."


def _check_kind(saved: SavedModel) -> None:
    """Refuse what another estimator, or none, would have learned."""
    fitted = saved.fitted
    if saved.kind == "AutoKCEF":
        if not isinstance(fitted, FittedAverage):
            raise ValueError("an AutoKCEF is an average")
        columns = len(fitted.neighbourhood.center)
    else:
        if not isinstance(fitted, FittedModel):
            raise ValueError("it holds no fitted family")
        chart, kernel = fitted.family.chart, fitted.family.T.kernel
        terms = kernel.terms if isinstance(kernel, SumOfProducts) else ()
        if saved.kind == "KEF" and (chart.p or len(terms) != 1):
            raise ValueError("a KEF has no conditions and one kernel")
        if saved.kind == "KCEF" and not chart.p:
            raise ValueError("a KCEF has conditions")
        columns = chart.p or chart.d
    if saved.feature_names and len(saved.feature_names) != columns:
        raise ValueError("feature names do not match the columns")
