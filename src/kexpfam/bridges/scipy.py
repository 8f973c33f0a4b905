"""Densities for code that knows `scipy.stats`."""

from typing import Any


def to_scipy(density: Any, row: int | None = None) -> Any:
    """One density of one variable as a frozen distribution of `scipy.stats`.

    The same as the method `density.to_scipy(row)`.

    Args:
        density: What `model.given(X)` or `KEF().fit(Y).distribution()` returns.
        row: Which of its densities; None if there is only one.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KEF
        >>> data = np.random.default_rng(0).normal(size=(100, 1))
        >>> q = to_scipy(KEF(select=None).fit(data).distribution())
        >>> bool(abs(q.expect(lambda y: y) - q.mean()) < 1e-6)
        True
    """
    return density.to_scipy(row)
