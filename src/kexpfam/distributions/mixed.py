"""Laws with atoms: values that have a probability of their own, beside a density.

    P(Y ∈ A) = Σ_k π_k 1{a_k ∈ A} + (1 − Σ_k π_k) ∫_A p(y) dy,

with the same values a_k and other π_k and p at every condition. Densities are taken
with respect to Lebesgue measure plus one for each atom: at an atom the density is its
probability, elsewhere that of the continuous part times its share. Without a continuous
part the law is a mass function, of counts or grades.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, ArrayLike, Indices, Mask
from kexpfam._validation import as_numbers
from kexpfam.distributions.interface import ExactDensity
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.sampling import Run, Sampler


class Atoms(NamedTuple):
    """Values with a probability of their own."""

    values: Array  # Increasing, (k,)
    probabilities: Array  # (n, k), or (k,) of a single law


class MixedDensity(ExactDensity, OneColumnDensity):
    """n laws of one variable with the same atoms, and a density beside them or none.

    `logpdf` and `pdf` are with respect to Lebesgue measure plus counting measure on the
    atoms; `measure` says so. Log losses of such laws and of densities without atoms
    are not in the same units.

    Args:
        values: Places of the atoms, increasing, (k,).
        probabilities: Their probabilities, (n, k), with sums up to one.
        density: Densities of the rest at the same n conditions; None if there is no
            rest, and sums are one.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> rest = ClosedFormDensity(GaussianBase(1.0), np.array([3.0]), np.ones(1))
        >>> p = MixedDensity([0.0], [[0.4]], rest)
        >>> p.pmf(0.0), p.cdf(0.0).round(3), p.ppf(0.3), p.mean()
        (array([0.4]), array([0.401]), array([0.]), array([1.8]))
        >>> p.hpd(0.9)[0].round(2)
        array([[0.  , 0.  ],
               [1.62, 4.38]])
    """

    def __init__(
        self,
        values: ArrayLike,
        probabilities: ArrayLike,
        density: OneColumnDensity | None = None,
        *,
        single: bool = False,
    ) -> None:
        self._values = as_numbers("values", values)
        self._pi = as_numbers("probabilities", probabilities)
        self._density = density
        self._single = single if density is None else density._single
        self.measure = "counting" if density is None else "mixed"
        _check(self._values, self._pi, density)

    @property
    def atoms(self) -> Atoms:
        """Values of the atoms, (k,), and their probabilities, (n, k)."""
        return Atoms(self._values.copy(), self._out(self._pi.copy()))

    @property
    def density(self) -> OneColumnDensity | None:
        """The densities beside the atoms, normalised; None if there are none."""
        return self._density

    @property
    def continuous_share(self) -> Array:
        """Probability of no atom, (n,)."""
        return self._out(self._share[:, 0])

    def pmf(self, y: ArrayLike) -> Array:
        """Probability of exactly y, zero except at atoms; the shapes of `logpdf`.

        `pdf` tells of both kinds: probabilities at atoms, and the density elsewhere.
        """
        Y, shape = self._points(y)
        return self._masses(Y[..., 0]).reshape(shape)[()]

    def mean(self) -> Array:
        return self._out(self._moments[0])

    def std(self) -> Array:
        return self._out(self._moments[1])

    def mode(self) -> Array:
        """The likeliest atom if it is likelier than the rest, else the rest's mode."""
        row = np.arange(self._n)
        best = np.argmax(self._pi, axis=1)
        if self._density is None or not self._n:
            return self._out(self._values[best])
        peak = np.reshape(self._density.mode(), self._n)
        atomic = self._pi[row, best] > self._share[:, 0]
        return self._out(np.where(atomic, self._values[best], peak))

    def entropy(self) -> Array:
        """Entropy with respect to the mixed measure: −E log of what `logpdf` gives."""
        found = special.entr(self._pi).sum(axis=1) + special.entr(self._share[:, 0])
        if self._density is not None:
            inner = np.reshape(self._density.entropy(), self._n)
            found = found + self._share[:, 0] * inner
        return self._out(found)

    def tabulated(self) -> "MixedTable":
        """The same laws with densities on cells, which cost little at many points."""
        part: Any = self._density
        return MixedTable(
            self, part.tabulated() if hasattr(part, "tabulated") else part
        )

    def to_scipy(self, row: int | None = None) -> Any:
        """Refused: SciPy has no distributions with a density and atoms."""
        raise TypeError(
            "A law with atoms is no continuous distribution of scipy.stats; use "
            "density.to_scipy() for what is beside the atoms, and atoms for these."
        )

    @property
    def log_partition_error(self) -> Array:
        """Error of the log of the total mass, that of the densities."""
        if self._density is None:
            return self._out(np.zeros(self._n))
        return self._density.log_partition_error

    @property
    def _n(self) -> int:
        return len(self._pi)

    @property
    def _ends(self) -> Array:
        ends = np.empty((self._n, 1, 2))
        ends[..., 0], ends[..., 1] = self._values[0], self._values[-1]
        if self._density is not None:
            inner = self._density._ends
            ends[..., 0] = np.minimum(ends[..., 0], inner[..., 0])
            ends[..., 1] = np.maximum(ends[..., 1], inner[..., 1])
        return ends

    @cached_property
    def _share(self) -> Array:
        """Probability of no atom, (n, 1)."""
        if self._density is None:
            return np.zeros((self._n, 1))
        return np.maximum(1.0 - self._pi.sum(axis=1, keepdims=True), 0.0)

    @cached_property
    def _below(self) -> Array:
        """Mass of the atoms before each of them, and of all, (n, k + 1)."""
        return np.hstack([np.zeros((self._n, 1)), np.cumsum(self._pi, axis=1)])

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        share, inner = self._share[:, 0], np.zeros(self._n)
        mean = self._pi @ self._values
        if self._density is not None:
            inner = np.reshape(self._density.mean(), self._n)
            mean = mean + share * inner
        offsets = self._values - mean[:, None]
        variance = (self._pi * offsets**2).sum(axis=1)
        if self._density is not None:
            std = np.reshape(self._density.std(), self._n)
            variance = variance + share * (std**2 + (inner - mean) ** 2)
        return mean, np.sqrt(variance)

    def _at(self, y: Array) -> tuple[Indices, Mask]:
        """The atom at or after each point, and whether it is there."""
        place = np.minimum(np.searchsorted(self._values, y), len(self._values) - 1)
        return place, self._values[place] == y

    def _masses(self, y: Array, rows: Indices | None = None) -> Array:
        """Probabilities of points, (m, q) -> (m, q)."""
        place, there = self._at(y)
        pi = self._pi if rows is None else self._pi[rows]
        return np.where(there, np.take_along_axis(pi, place, axis=1), 0.0)

    def _log_pdf(self, Y: Array) -> Array:
        y = Y[..., 0]
        there = self._at(y)[1]
        with np.errstate(divide="ignore"):
            log_mass = np.log(self._masses(y))
            if self._density is None:
                return log_mass
            rest = np.log(self._share) + self._density._log_pdf(Y)
        return np.where(there, log_mass, rest)

    def _gradient(self, Y: Array) -> Array:
        if self._density is None:
            return np.full(Y.shape, np.nan)
        # At an atom there is no slope.
        return np.where(self._at(Y)[1], np.nan, self._density._gradient(Y))

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        below, share = self._of(rows)
        place = np.searchsorted(self._values, y, side="right")
        found = np.take_along_axis(below, place, axis=1)
        if self._density is not None:
            found = found + share * self._density._cdf(y, rows)
        return np.minimum(found, 1.0)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        below, share = self._of(rows)
        place = np.searchsorted(self._values, y, side="right")
        found = below[:, -1:] - np.take_along_axis(below, place, axis=1)
        if self._density is not None:
            found = found + share * self._density._sf(y, rows)
        return np.maximum(found, 0.0)

    def _of(self, rows: Indices | None) -> tuple[Array, Array]:
        if rows is None:
            return self._below, self._share
        return self._below[rows], self._share[rows]

    @cached_property
    def _jumps(self) -> tuple[Array, Array]:
        """The distribution function just below each atom, and at it, (n, k) each."""
        rest: Array | float = 0.0
        if self._density is not None:
            at = np.tile(self._values, (self._n, 1))
            rest = self._share * self._density._cdf(at)
        return self._below[:, :-1] + rest, self._below[:, 1:] + rest

    def _ppf(self, levels: Array) -> Array:
        left, right = self._jumps
        last = len(self._values) - 1
        # The first atom that reaches the level.
        place = np.array(
            [
                np.searchsorted(own, level)
                for own, level in zip(right, levels, strict=True)
            ],
            dtype=np.intp,
        ).reshape(levels.shape)
        atom = np.minimum(place, last)
        values = self._values[atom]
        if self._density is None:
            return values
        on_atom = (place <= last) & (np.take_along_axis(left, atom, axis=1) <= levels)
        on_atom |= self._share == 0
        below = np.take_along_axis(self._below, place, axis=1)
        inner = (levels - below) / np.where(self._share > 0, self._share, 1.0)
        tiny, near_one = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg
        inner = np.where(on_atom, 0.5, np.clip(inner, tiny, near_one))
        return np.where(on_atom, values, self._density._ppf(inner))

    def _regions(self, confidence: float) -> list[Array]:
        """The shortest sets: atoms, which have no length, then the densest of the rest.

        Atoms enter in order of their probability until the confidence is reached; those
        of less than a per cent stay out if there is a rest. Neighbouring atoms of a
        mass function are joined.
        """
        order = np.argsort(-self._pi, axis=1, kind="stable")
        sorted_pi = np.take_along_axis(self._pi, order, axis=1)
        before = np.cumsum(sorted_pi, axis=1) - sorted_pi
        taken = before < confidence - 1e-12
        least = 0.01
        taken &= (sorted_pi >= least) if self._density is not None else (sorted_pi > 0)
        regions = []
        for i in range(self._n):
            chosen = np.sort(order[i, taken[i]])
            mass = float(self._pi[i, chosen].sum())
            if self._density is None:
                regions.append(self._runs(chosen))
                continue
            points = np.column_stack([self._values[chosen]] * 2)
            wanted = (confidence - mass) / max(float(self._share[i, 0]), 1e-300)
            if wanted > 0:
                own = self._density._rows(np.array([i]), single=False)
                whole = wanted >= 1.0
                rest = own._ends[0] if whole else own._regions(wanted)[0]
                points = _merged(np.vstack([points, rest]))
            regions.append(points)
        return regions

    def _runs(self, chosen: Indices) -> Array:
        """Intervals of atoms that follow each other, (m, 2)."""
        breaks = np.flatnonzero(np.diff(chosen) > 1)
        first = chosen[np.concatenate([[0], breaks + 1])]
        last = chosen[np.concatenate([breaks, [len(chosen) - 1]])]
        return np.column_stack([self._values[first], self._values[last]])

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        rest = None if self._density is None else self._density._draws(size, rng)
        return self._dealt(size, rng, rest)

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        if self._density is None:
            return Run(self._draws(size, rng))
        run = self._density._run(sampler, size, rng)
        return Run(self._dealt(size, rng, run.draws), run.report)

    def _dealt(self, size: int, rng: np.random.Generator, rest: Array | None) -> Array:
        """Draws (n, size, 1): atoms by their probability, and the rest."""
        levels = rng.random((self._n, size))
        if rest is None:
            return self._ppf(levels)[..., None]
        places = [
            np.searchsorted(own[1:], level, side="right")
            for own, level in zip(self._below, levels, strict=True)
        ]
        place = np.reshape(places, (self._n, size)).astype(np.intp)
        atomic = place < len(self._values)
        values = self._values[np.minimum(place, len(self._values) - 1)]
        return np.where(atomic, values, rest[..., 0])[..., None]

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        if self._density is None:
            return np.zeros(y.shape)
        return self._of(rows)[1] * self._density._rough_pdf(y, rows)

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        some = self if rows is None else self._rows(rows, single=False)
        y = some._ppf(levels)
        return y, y

    def _breaks(self) -> Array:
        inner = np.empty(0) if self._density is None else self._density._breaks()
        return np.unique(np.concatenate([self._values, inner]))

    def _rows(self, index: Any, *, single: bool) -> Self:
        rest = self._density
        if rest is not None:
            rest = rest._rows(index, single=single)
        return type(self)(self._values, self._pi[index], rest, single=single)


@dataclass(frozen=True, eq=False)
class MixedTable:
    """Laws with atoms, whose densities are on cells; points are (n, q)."""

    law: MixedDensity
    cells: Any  # Of the densities; None if there are none

    def pdf(self, y: Array) -> Array:
        """Densities of the continuous part times its share."""
        if self.cells is None:
            return np.zeros(y.shape)
        return self.law._share * self.cells.pdf(y)

    def logpdf(self, y: Array) -> Array:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(y))

    def cdf(self, y: Array) -> Array:
        """Distribution functions, with jumps."""
        place = np.searchsorted(self.law._values, y, side="right")
        found = np.take_along_axis(self.law._below, place, axis=1)
        rest = 0.0 if self.cells is None else self.law._share * self.cells.cdf(y)
        return np.minimum(found + rest, 1.0)

    def pmf(self, y: Array) -> Array:
        """Probabilities of points."""
        return self.law._masses(y)


def _merged(intervals: Array) -> Array:
    """Intervals (m, 2) in order, those that overlap as one."""
    found: list[Array] = []
    for one in intervals[np.argsort(intervals[:, 0], kind="stable")]:
        if found and one[0] <= found[-1][1]:
            found[-1][1] = max(found[-1][1], one[1])
        else:
            found.append(one.copy())
    return np.array(found)


def _check(values: Array, pi: Array, density: OneColumnDensity | None) -> None:
    if values.ndim != 1 or not len(values) or np.any(np.diff(values) <= 0):
        raise ValueError(f"values must increase, got {values.tolist()!r:.60}.")
    if pi.ndim != 2 or pi.shape[1] != len(values):
        raise ValueError(
            f"probabilities must have one row per law and one column per atom, "
            f"(n, {len(values)}), got shape {pi.shape}."
        )
    sums = pi.sum(axis=1)
    if np.any(pi < 0) or np.any(sums > 1.0 + 1e-9):
        raise ValueError(
            "probabilities must not be negative, nor more than one in sum."
        )
    if density is None:
        if np.any(np.abs(sums - 1.0) > 1e-9):
            raise ValueError(
                "probabilities must sum to one where there is no density beside them."
            )
        return
    if density.measure != "lebesgue":
        raise TypeError(
            f"density must be densities of one variable without atoms, got "
            f"{type(density).__name__}."
        )
    if density._n != len(pi):
        raise ValueError(
            f"density must be of {len(pi)} conditions like probabilities, got "
            f"{density._n}."
        )
