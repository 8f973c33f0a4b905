"""Base densities by name, for those who do not want to import a class."""

from collections.abc import Callable

from kexpfam.base_densities.conditional import GaussianProcessBase, LinearBase
from kexpfam.base_densities.fixed import GaussianBase, StudentBase
from kexpfam.base_densities.interface import Base, BaseDensity, ConditionalBase
from kexpfam.base_densities.marginal import MarginalBase
from kexpfam.base_densities.transformed import TransformedBase

_NAMED: dict[str, Callable[[], Base]] = {
    "gaussian": lambda: GaussianBase(scale=2.0),
    "normal": lambda: GaussianBase(scale=1.0),
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
        base: "gaussian" (the paper's N(0, 2²)), "normal" (N(0, 1), what a fitted model
            calls so), "gaussian_process", "heteroscedastic", "linear", "marginal",
            "student", "yeo_johnson", "gaussianize" and "arcsinh" (the paper's base for
            a transformed y), or a base density. Words of a fitted model are understood,
            too: "Gaussian process", or "Yeo-Johnson, Gaussian process" for a base
            behind a transform.

    Raises:
        ValueError: The name is not one of these.
        TypeError: It is neither a name nor a base density.

    Example:
        >>> resolve_base("gaussian")
        GaussianBase(scale=2.0, location=0.0)
        >>> resolve_base("Yeo-Johnson, normal").transform
        'yeo_johnson'
    """
    if isinstance(base, Base):
        return base
    names = ", ".join(repr(name) for name in _NAMED)
    if isinstance(base, str):
        if (found := _of_words(base)) is not None:
            return found
        raise ValueError(
            f"base={base!r} is not the name of a base density; use one of {names}, or "
            f"an object such as GaussianBase(scale=2.0)."
        )
    raise TypeError(
        f"base must be one of the names {names}, or a base density such as "
        f"GaussianBase(scale=2.0); got {base!r}."
    )


def _of_words(words: str) -> Base | None:
    """The base density of a name, or of a transform and the name behind it."""
    plain = words.lower().replace("gaussianized", "gaussianize")
    first, *rest = (
        part.strip().replace("-", "_").replace(" ", "_") for part in plain.split(",")
    )
    if first not in _NAMED or len(rest) > 1 or not {*rest} <= {*_NAMED}:
        return None
    outer = _NAMED[first]()
    if not rest:
        return outer
    inner = _NAMED[rest[0]]()
    if isinstance(outer, TransformedBase) and isinstance(
        inner, BaseDensity | ConditionalBase
    ):
        return TransformedBase(outer.transform, inner)
    return None
