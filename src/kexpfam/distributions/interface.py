"""Distributions at given conditions: what `model.given(X)` returns.

An object holds n densities at once. Values come in and go out in the user's units.
Indexing with a number gives a single density, whose methods drop the leading axis;
indexing with a slice or an array gives fewer densities.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.sampling import InverseCDF, Run, Sampler, resolve_sampler


class Density(ABC):
    """n densities, in the user's units, with a leading axis unless it is a single one.

    Attributes:
        measure: What densities of y are taken with respect to: "lebesgue", or with
            atoms "mixed" or "counting" (`MixedDensity`). Log densities with respect
            to different measures cannot be compared.
        log_partition: log Z(x) of each density.
        log_partition_error: Estimated error of log Z(x).
    """

    measure: Literal["lebesgue", "mixed", "counting"] = "lebesgue"

    _single: bool
    _replicates: Any = None  # What bands are from, `bands.Replicates`, if there are any
    _response: str | None = None  # Name of a single column, if it was told

    @property
    @abstractmethod
    def _n(self) -> int:
        """How many densities there are."""

    @property
    @abstractmethod
    def _d(self) -> int:
        """How many columns y has."""

    @property
    @abstractmethod
    def _ends(self) -> Array:
        """Ends of the support, (n, d, 2)."""

    @abstractmethod
    def _log_pdf(self, Y: Array) -> Array:
        """Log densities in the user's units, (n, q, d) -> (n, q)."""

    @abstractmethod
    def _gradient(self, Y: Array) -> Array:
        """Their gradients in y, (n, q, d) -> (n, q, d)."""

    @property
    @abstractmethod
    def log_partition(self) -> Array:
        """Log Z(x), (n,)."""

    @property
    @abstractmethod
    def log_partition_error(self) -> Array:
        """Estimated error of log Z(x), (n,)."""

    @abstractmethod
    def _rows(self, index: Any, *, single: bool) -> Self:
        """Some of the densities."""

    @abstractmethod
    def mean(self) -> Array:
        """Expectation of y.

        Infinite or not a number where tails are so heavy that there is none.

        Returns:
            (n,), or (n, d) for d > 1; a number or (d,) for a single density.
        """

    @abstractmethod
    def std(self) -> Array:
        """Standard deviation of each column of y, with the shape of `mean`.

        Half of the width of `interval(0.68)` says more where tails are heavy.
        """

    @abstractmethod
    def mode(self) -> Array:
        """Where the density is largest, with the shape of `mean`.

        Of several places with the same density the leftmost. `hpd` shows all modes
        that matter, and what they weigh.
        """

    @abstractmethod
    def entropy(self) -> Array:
        """Differential entropy −∫ p log p dy in nats, (n,).

        It depends on the units of y: in units c times as small it is larger by log c.
        """

    @abstractmethod
    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        """Draws in the density's own way, (n, size, d)."""

    @abstractmethod
    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        """Draws by a sampler, (n, size, d), and how that went."""

    def rvs(
        self,
        size: int = 1,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Draws, (n, size), or (n, size, d) for d > 1.

        Args:
            size: How many of each density.
            random_state: Seed or generator.
            sampler: None for the density's own way: independent draws by the inverse
                distribution function for one column, by quadrature for two, from
                importance draws or tempered particles above. Else a sampler of
                `kexpfam.sampling`, or its name: "nuts", "hmc", "paper", "smc".
        """
        return self.run(size, random_state, sampler).draws

    def run(
        self,
        size: int = 1,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> Run:
        """Draws as from `rvs`, and a report of how sampling went, if there is one."""
        size = check_count("size", size)
        rng = as_generator(random_state)
        chosen = resolve_sampler(sampler)
        if isinstance(chosen, InverseCDF) and self._d > 1:
            raise ValueError(
                f"sampler='inverse_cdf' is for one column of y, and these densities "
                f"have {self._d}; use None, 'nuts' or 'smc'."
            )
        if chosen is None or isinstance(chosen, InverseCDF):
            run = Run(self._draws(size, rng))
        else:
            run = self._run(chosen, size, rng)
        draws = run.draws[..., 0] if self._d == 1 else run.draws
        return replace(run, draws=self._out(draws), columns=self._d)

    def var(self) -> Array:
        """Variance of each column of y, with the shape of `mean`.

        Infinite where it does not fit into a double.
        """
        with np.errstate(over="ignore"):
            return np.square(self.std())

    def logpdf(self, y: ArrayLike) -> Array:
        """Log density; y gives one point per density, or q of them.

        Args:
            y: For d = 1: a number, (n,), (n, q) or (1, q). For d > 1 with a last axis
                of length d. A single density takes (q,) or (q, d).

        Returns:
            Log densities with the shape of y, without its last axis if d > 1.
        """
        Y, shape = self._points(y)
        return self._log_pdf(Y).reshape(shape)[()]

    def pdf(self, y: ArrayLike) -> Array:
        """Density at y, in one over the units of y; the same shapes as `logpdf`.

        Far in the tails it is zero in doubles where `logpdf` still tells how small.

        Example:
            >>> import numpy as np
            >>> from kexpfam.base_densities import GaussianBase
            >>> from kexpfam.distributions import ClosedFormDensity
            >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([0, 5]), np.ones(2))
            >>> p.pdf([[0.0, 5.0]]).round(2)          # both densities at both points
            array([[0.4, 0. ],
                   [0. , 0.4]])
        """
        return np.exp(self.logpdf(y))

    def grad_logpdf(self, y: ArrayLike) -> Array:
        """Gradient of the log density in y, with the shape of y.

        What score matching calls the score: ∂ log p(y|x)/∂y. It does not depend on the
        normalisation, and is not a number where the density is zero.

        Args:
            y: Points; the same shapes as `logpdf` takes.
        """
        Y, shape = self._points(y)
        tail = () if self._d == 1 else (self._d,)
        return self._gradient(Y).reshape(shape + tail)[()]

    @property
    def support(self) -> Array:
        """Ends of the support, (n, 2), or (n, d, 2) for d > 1.

        Beyond them densities are zero; infinite where y has no bounds.
        """
        return self._out(self._ends[:, 0] if self._d == 1 else self._ends)

    def __len__(self) -> int:
        if self._single:
            raise TypeError("A single density has no length.")
        return self._n

    def __getitem__(self, index: Any) -> Self:
        if self._single:
            raise TypeError("A single density cannot be indexed.")
        if isinstance(index, int | np.integer):
            n = len(self)
            if not -n <= index < n:
                raise IndexError(f"density {index} was asked for, but there are {n}.")
            return self._with_replicates(np.array([index % n]), single=True)
        return self._with_replicates(np.arange(len(self))[index], single=False)

    def _with_replicates(self, index: Any, *, single: bool) -> Self:
        found = self._rows(index, single=single)
        found._response = self._response
        if self._replicates is not None:
            found._replicates = self._replicates.rows(index)
        return found

    def __iter__(self) -> Iterator[Self]:
        for i in range(len(self)):
            yield self[i]

    def __repr__(self) -> str:
        from kexpfam.display import densities_in_words

        words = densities_in_words(self, self._column_names)
        return f"<{type(self).__name__}: {words}>"

    def _repr_html_(self) -> str:
        from kexpfam.display import densities_in_html

        return densities_in_html(self, self._column_names)

    @property
    def _column_names(self) -> list[str]:
        """What the columns are called where these densities are shown."""
        if self._d == 1:
            return [self._response or "y"]
        return [f"y{j}" for j in range(self._d)]

    def _out(self, values: Array) -> Array:
        """Drop the leading axis of a single density."""
        return values[0] if self._single else values

    def _points(
        self,
        y: ArrayLike,
        name: str = "y",  # What errors call it, one of it, and another way
        one: str = "point",
        otherwise: str = "pass y[None, :]",
    ) -> tuple[Array, tuple[int, ...]]:
        """Points as (n, q, d), and the shape of one number per point."""
        Y = as_numbers(name, y)
        n, d = self._n, self._d
        if d > 1:
            if Y.ndim == 0 or Y.shape[-1] != d:
                raise ValueError(
                    f"y must have a last axis of length {d}, one value per column, "
                    f"got shape {Y.shape}."
                )
        else:
            Y = Y[..., None]
        points = Y.shape[:-1]
        if self._single:
            if len(points) > 1:
                raise ValueError(
                    f"{name} must be one {one} or a flat list of them for a single "
                    f"density, got shape {np.shape(y)}."
                )
            return Y.reshape(1, math.prod(points), d), points
        if points == ():
            return np.broadcast_to(Y, (n, d))[:, None], (n,)
        if points == (n,):
            return Y[:, None], (n,)
        if len(points) == 2 and points[0] in (1, n):
            return np.broadcast_to(Y, (n, points[1], d)), (n, points[1])
        raise ValueError(
            f"{name} must have one {one} per density, shape ({n},), or q per density, "
            f"({n}, q), or the same q for all, (1, q); got shape {np.shape(y)} for "
            f"{n} densities. To use a flat list at every x, {otherwise}."
        )


class ExactDensity(Density):
    """Densities on the whole line that come normalised, and draw independently."""

    @property
    def log_partition(self) -> Array:
        return self._out(np.zeros(self._n))

    @property
    def log_partition_error(self) -> Array:
        return self._out(np.zeros(self._n))

    @property
    def _ends(self) -> Array:
        return np.broadcast_to([-np.inf, np.inf], (self._n, self._d, 2))

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        return Run(self._draws(size, rng))  # independent: no sampler does better


class SeveralColumns(Density):
    """Densities of two and more columns, which lack what only one column has."""

    def __getattr__(self, name: str) -> Any:
        only = (
            "cdf",
            "sf",
            "ppf",
            "quantile",
            "median",
            "interval",
            "hpd",
            "plot",
            "band",
        )
        if name in (*only, "to_scipy"):
            raise AttributeError(
                f"{name} is for one column of y, and these densities have {self._d}; "
                f"use rvs() to draw, and summarise the draws."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
