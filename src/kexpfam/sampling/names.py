"""Samplers by name."""

from collections.abc import Callable

from kexpfam.sampling.hamiltonian import HMC, NUTS
from kexpfam.sampling.interface import InverseCDF, Sampler
from kexpfam.sampling.tempered import TemperedSMC

_NAMED: dict[str, Callable[[], Sampler]] = {
    "inverse_cdf": InverseCDF,
    "smc": TemperedSMC,
    "nuts": NUTS,
    "hmc": HMC,
    "paper": HMC.paper,
}


def resolve_sampler(sampler: object) -> Sampler | None:
    """The sampler that a name stands for; None stays None, the density's own way.

    Raises:
        ValueError: There is no such name.

    Example:
        >>> resolve_sampler("inverse_cdf")
        InverseCDF()
    """
    if sampler is None or isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, str) and sampler in _NAMED:
        return _NAMED[sampler]()
    raise ValueError(
        f"sampler must be None, one of {', '.join(map(repr, _NAMED))}, or a sampler of "
        f"kexpfam.sampling; got {sampler!r}."
    )
