"""Estimators to and from files.

A file says which estimator it is of, its parameters, what it has learned, and perhaps
something extra of the user's. A joint density is several estimators and a structure.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from kexpfam.errors import CannotSaveError, FileFormatError
from kexpfam.persistence.container import read_container, write_container
from kexpfam.persistence.encoding import Decoder, Encoder
from kexpfam.persistence.registry import conforms

Cls = TypeVar("Cls", bound=type)

# How the estimator of a name is made from its description.
_readers: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {}


def saved_estimator(cls: Cls) -> Cls:
    """Let files hold estimators of a class.

    It has a method `_learned()` for what it has learned, as an object of a registered
    class, and `_relearn(learned)` to take that from a file, which raises ValueError if
    it is not what this estimator learns; `check_saved()` raises it if numbers that are
    each as declared are no model together. If it codes tables, it has `coder_` with a
    `coding_` of a registered class, and `_recode(coding)` to take that.
    """
    _readers[cls.__name__] = functools.partial(_estimator, cls)
    return cls


def saved_joint(cls: Cls) -> Cls:
    """Let files hold joint densities of a class.

    It has a class method `_of_factors(structure, feature_names, factors)`, which raises
    ValueError if these do not fit together.
    """
    _readers[cls.__name__] = functools.partial(_joint, cls)
    return cls


def save_estimator(
    estimator: Any,
    path: str | Path,
    extra: Mapping[str, Any] | None = None,
    learned: object = None,
) -> None:
    """Write a fitted estimator of a registered class.

    `extra` is what the user wants to keep in the file, as JSON has it; `learned` is
    more than the estimator says it has learned. A part without a safe representation,
    such as a kernel of the user's own, is a CannotSaveError.
    """
    encoder = Encoder()
    description = _described(encoder, estimator, learned=learned)
    _write(path, encoder, description, extra)


def save_factors(
    joint: Any,
    path: str | Path,
    structure: Any,
    factors: Sequence[Any],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a joint density of factors, which are estimators of registered classes.

    The structure says how they belong together, as JSON has it; `extra` is as in
    `save_estimator`, and so is what is refused.
    """
    encoder = Encoder()
    models = [_described(encoder, e, f"factors.{i}") for i, e in enumerate(factors)]
    description = _named(joint) | {"structure": structure, "factors": models}
    _write(path, encoder, description, extra)


def _described(
    encoder: Encoder, estimator: Any, place: str = "", learned: object = None
) -> dict[str, Any]:
    """One estimator in JSON; its arrays are in the encoder, named after their place."""
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
    learned = estimator._learned() if learned is None else learned
    description = _named(estimator) | {
        "parameters": {name: encoder.encode(value) for name, value in plain.items()},
        "fitted": encoder.encode(learned, place),
    }
    coder = getattr(estimator, "coder_", None)
    if coder is not None:
        where = f"{place}.coding" if place else "coding"
        description["coding"] = encoder.encode(coder.coding_, where)
    elif (response := getattr(estimator, "_response_name", None)) is not None:
        description["response"] = response  # else a coding knows it
    return description


def _named(estimator: Any) -> dict[str, Any]:
    names = getattr(estimator, "feature_names_in_", np.array([])).tolist()
    return {"model": type(estimator).__name__, "feature_names": names}


def _write(
    path: str | Path,
    encoder: Encoder,
    description: dict[str, Any],
    extra: Mapping[str, Any] | None,
) -> None:
    description["objects"] = encoder.objects
    if extra is not None:
        try:  # as it comes back from a file
            description["extra"] = json.loads(json.dumps(dict(extra), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise CannotSaveError(
                f"extra must be a mapping of what JSON has, texts, finite numbers, "
                f"lists and mappings of these; it cannot be written "
                f"({_in_short(error)})."
            ) from error
    write_container(path, encoder.arrays, description)


def load_estimator(path: str | Path) -> Any:
    """The estimator that a file holds; FileFormatError if it is not a whole one."""
    arrays, description = read_container(path)
    try:
        # Numbers that overflow are looked for, and need no warning.
        with np.errstate(all="ignore"):
            decoder = Decoder(arrays, description["objects"])
            model = _revived(decoder, description)
            decoder.finish()
        # The command line of 0.1 wrote what it wanted to keep beside the rest.
        old = {"table": description["table"]} if "table" in description else None
        extra = description.get("extra", old)
        if not isinstance(extra, dict | None):
            raise ValueError("extra is not a mapping")
    except Exception as error:  # whatever a hostile description provokes
        raise FileFormatError(
            f"{str(path)!r} is not a complete kexpfam model ({_in_short(error)})."
        ) from error
    if extra is not None:
        model.extra_ = extra
    return model


def _revived(decoder: Decoder, description: dict[str, Any]) -> Any:
    name = description["model"]
    if not isinstance(name, str) or name not in _readers:
        raise ValueError(f"a {name!r:.60} is not known here")
    names = _texts(description["feature_names"])
    model = _readers[name](decoder, description)
    if "coding" in description:
        model._recode(decoder.decode(description["coding"]))
    elif "response" in description:
        model._response_name = _texts([description["response"]])[0]
    if names:
        if len(names) != model.n_features_in_:
            raise ValueError("feature names do not match the columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _estimator(cls: type, decoder: Decoder, description: dict[str, Any]) -> Any:
    learned = decoder.decode(description["fitted"])
    parameters = description["parameters"].items()
    given = {name: decoder.decode(value) for name, value in parameters}
    hints = get_type_hints(vars(cls)["__init__"])
    for name, value in given.items():
        if name in hints and not conforms(value, hints[name]):
            raise ValueError(
                f"parameter {name:.60} of {cls.__name__} is something else"
            )
    model = cls(**given)
    model._relearn(learned)
    model.check_saved()
    return model


def _joint(cls: Any, decoder: Decoder, description: dict[str, Any]) -> Any:
    factors = [_revived(decoder, part) for part in description["factors"]]
    names = _texts(description["feature_names"])
    return cls._of_factors(description["structure"], names, factors)


def _texts(names: Any) -> list[str]:
    """Names of columns, each a text."""
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ValueError("the feature names are not texts")
    return names


def _in_short(error: Exception) -> str:
    """What an error says, in one line; those that a file provokes may quote a lot."""
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= 200 else f"{text[:200]} ..."
