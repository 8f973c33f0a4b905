"""JAX and BlackJAX, which only some samplers need."""

import importlib
from contextlib import AbstractContextManager
from typing import Any

from kexpfam.errors import MissingDependencyError


def needed(module: str) -> Any:
    """The module.

    Raises:
        MissingDependencyError: It is not installed.

    Example:
        >>> needed("math").pi > 3
        True
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f"{name} is needed for Markov chains; install it with "
            f"'pip install \"kexpfam[mcmc]\"', or use sampler=None or 'smc'."
        ) from error


def double_precision() -> AbstractContextManager[None]:
    """Inside it JAX computes in double precision, in this thread only."""
    jax = needed("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return needed("jax.experimental").enable_x64(True)
