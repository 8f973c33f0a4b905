"""Log densities of different measures are in different units.

A density is a limit of probability by length, and the density of a law with atoms is at
these a probability. A model that puts an atom where values repeat always has the better
log loss, whether it predicts better or not. CRPS, quantile losses and coverage compare
laws of any kind.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from kexpfam.errors import MeasureWarning


def measure_of(p: Any) -> tuple[str, tuple[float, ...]]:
    """What log densities are with respect to: a name, and values of atoms.

    All mass functions are of one measure, whatever values they have.

    Example:
        >>> import numpy as np
        >>> from kexpfam.distributions import MixedDensity
        >>> measure_of(MixedDensity([0.0, 1.0], [[0.4, 0.6]]))
        ('counting', ())
    """
    name = str(getattr(p, "measure", "lebesgue"))
    atoms = getattr(p, "atoms", None)
    if name != "mixed" or atoms is None:
        return name, ()
    return name, tuple(np.asarray(atoms.values, dtype=float).tolist())


def measure_in_words(name: str, atoms: tuple[float, ...]) -> str:
    """What `measure_of` returns, for a sentence.

    Example:
        >>> measure_in_words("mixed", (0.0,))
        'mixed with atoms [0.0]'
    """
    return f"{name} with atoms {list(atoms)}" if atoms else name


def warn_if_measures_differ(densities: Mapping[str, Any]) -> bool:
    """Warn if log losses of some densities cannot be compared; returns whether so.

    Args:
        densities: What `given(X)` of several models returns, by their names.

    Example:
        >>> from kexpfam.distributions import MixedDensity
        >>> counts = MixedDensity([0.0, 1.0], [[0.4, 0.6]])
        >>> warn_if_measures_differ({"one": counts, "other": counts})
        False
    """
    found = {name: measure_of(p) for name, p in densities.items()}
    if len(set(found.values())) <= 1:
        return False
    said = "; ".join(f"{name}: {measure_in_words(*m)}" for name, m in found.items())
    warnings.warn(
        f"Log densities are with respect to different measures ({said}), so log loss "
        f"and CDE loss cannot be compared; compare CRPS, or fit all with the same "
        f"atoms (atoms=False for densities).",
        MeasureWarning,
        stacklevel=3,
    )
    return True
