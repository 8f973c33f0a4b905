"""Libraries that are needed for some kinds of data only."""

import importlib
import sys
from typing import Any

from kexpfam.errors import MissingDependencyError


def needed(module: str, purpose: str) -> Any:
    """The module.

    Raises:
        MissingDependencyError: It is not installed.

    Example:
        >>> needed("math", "to add numbers").pi > 3
        True
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f"{name} is needed {purpose}; install it with 'pip install {name}'."
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
