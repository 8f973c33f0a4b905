"""Base densities by name, for those who do not want to import a class."""

from collections.abc import Callable

from kexpfam.base_densities.conditional import GaussianProcessBase, LinearBase
from kexpfam.base_densities.fixed import GaussianBase, StudentBase
from kexpfam.base_densities.interface import Base
from kexpfam.base_densities.marginal import MarginalBase
from kexpfam.base_densities.transformed import TransformedBase

_NAMED: dict[str, Callable[[], Base]] = {
    "gaussian": lambda: GaussianBase(scale=2.0),
    "gaussian_process": GaussianProcessBase,
    "heteroscedastic": lambda: GaussianProcessBase(heteroscedastic=True),
    "linear": LinearBase,
    "marginal": MarginalBase,
    "student": StudentBase,
    "yeo_johnson": lambda: TransformedBase("yeo_johnson"),
    "gaussianize": lambda: TransformedBase("gaussianize"),
    "arcsinh": lambda: TransformedBase("arcsinh"),
}


def resolve_base(base: object) -> Base:
    """The base density that a name stands for; a base density stands for itself.

    Args:
        base: "gaussian" (the paper's N(0, 2²)), "gaussian_process", "heteroscedastic",
            "linear", "marginal", "student", "yeo_johnson", "gaussianize" and
            "arcsinh" (the paper's base for a transformed y), or a base density.

    Raises:
        ValueError: The name is not one of these.
        TypeError: It is neither a name nor a base density.

    Example:
        >>> resolve_base("gaussian")
        GaussianBase(scale=2.0, location=0.0)
    """
    if isinstance(base, Base):
        return base
    names = ", ".join(repr(name) for name in _NAMED)
    if isinstance(base, str):
        if base in _NAMED:
            return _NAMED[base]()
        raise ValueError(
            f"base={base!r} is not the name of a base density; use one of {names}, or "
            f"an object such as GaussianBase(scale=2.0)."
        )
    raise TypeError(
        f"base must be one of the names {names}, or a base density such as "
        f"GaussianBase(scale=2.0); got {base!r}."
    )
