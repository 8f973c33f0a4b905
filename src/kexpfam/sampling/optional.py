"""JAX and BlackJAX, which only some samplers need."""

from contextlib import AbstractContextManager
from typing import Any

from kexpfam import optional


def needed(module: str) -> Any:
    """The module.

    Raises:
        MissingDependencyError: It is not installed.
    """
    purpose = "for Markov chains (sampler=None and 'smc' do without)"
    return optional.needed(module, purpose, "mcmc")


def double_precision() -> AbstractContextManager[None]:
    """Inside it JAX computes in double precision, in this thread only."""
    jax = needed("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return needed("jax.experimental").enable_x64(True)
