"""Libraries that are needed for some things only, and imported for these."""

import importlib
import sys
from typing import Any

from kexpfam.errors import MissingDependencyError


def needed(
    module: str,
    purpose: str,  # As in "to read Parquet files"
    extra: str
    | None = None,  # Of this package, that installs it; None for its own name
) -> Any:
    """The module; MissingDependencyError if it is not installed.

    Example:
        >>> needed("math", "to add numbers").pi > 3
        True
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        wanted = name if extra is None else f'"kexpfam[{extra}]"'
        raise MissingDependencyError(
            f"{name} is needed {purpose}; install it with 'pip install {wanted}'."
        ) from error


def is_instance(value: Any, module: str, *names: str) -> bool:
    """Whether a value is of a class of a module, which is not imported for that.

    Example:
        >>> is_instance(3.0, "fractions", "Fraction")
        False
    """
    # An object of a class that was never imported does not exist.
    loaded = sys.modules.get(module)
    return loaded is not None and any(
        isinstance(value, getattr(loaded, name)) for name in names
    )
