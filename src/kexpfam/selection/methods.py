"""How `KCEF` searches what it was not given; each can be asked for by name."""

from dataclasses import dataclass

from kexpfam.persistence import saved_value
from kexpfam.selection.parameters import Bounds
from kexpfam.selection.search import PAPER_LAMBDAS, PAPER_LENGTHSCALES


@saved_value
@dataclass(frozen=True)
class CoarseSearch:
    """A coarse grid of lengthscales and λ, over all base densities that may compete.

    Hard to overfit, and the default.
    """


@saved_value
@dataclass(frozen=True)
class GradientSearch:
    """The coarse grid, then descent over one lengthscale per column of x, ℓ_y and λ.

    The held-out objective improves every time; new data are predicted better only if
    there are many rows for each lengthscale. A penalty pulls towards the grid's choice.

    Attributes:
        bounds: Where parameters may be; None for bounds from the data's resolution.
        penalty: Strength of the pull, in nats per squared logarithm.
        shared_x: Change all lengthscales of x by one common factor.
        max_trials: Most evaluations of the objective.
    """

    bounds: Bounds | None = None
    penalty: float = 0.0
    shared_x: bool = False
    max_trials: int = 100


@saved_value
@dataclass(frozen=True)
class PaperGrid:
    """The grid of Arbel and Gretton (2018): one lengthscale for x and y, and λ.

    Attributes:
        lengthscales: Lengthscales, of x and y alike.
        lambdas: Values of λ.
    """

    lengthscales: tuple[float, ...] = PAPER_LENGTHSCALES
    lambdas: tuple[float, ...] = PAPER_LAMBDAS


SearchMethod = CoarseSearch | GradientSearch | PaperGrid

_NAMED = {"grid": CoarseSearch, "gradient": GradientSearch, "paper": PaperGrid}


def resolve_search(search: object) -> SearchMethod:
    """The search that a name stands for; a search stands for itself.

    Raises:
        ValueError: It is neither.

    Example:
        >>> resolve_search("gradient").max_trials
        100
    """
    if isinstance(search, SearchMethod):
        return search
    if isinstance(search, str) and search in _NAMED:
        return _NAMED[search]()
    raise ValueError(
        f"search must be {', '.join(map(repr, _NAMED))}, or an object such as "
        f"GradientSearch(penalty=0.1), got {search!r}."
    )
