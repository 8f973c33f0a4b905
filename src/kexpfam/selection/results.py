"""What was selected, among what, and why: one family, or several to average."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.data import TrainingRows
from kexpfam.family import CoordinateRows, FittedFamily
from kexpfam.kernels import Constant, Gaussian, JointKernel
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.spec import TUNING
from kexpfam.selection.tracker import SearchResult
from kexpfam.selection.validation import Validation


def short(value: object, most: int = 4) -> str:
    """A kernel or base density with its numbers rounded, and some of its lengthscales.

    Example:
        >>> short(Gaussian((0.123456, 2.0))), short(StudentBase(0.85, df=5.0))
        ('Gaussian(0.12, 2)', 't(5)')
    """
    if isinstance(value, Gaussian):
        ell = np.atleast_1d(np.asarray(value.lengthscale, dtype=float))
        shown = ", ".join(f"{length:.2g}" for length in ell[:most])
        return f"Gaussian({shown}{', ...' if len(ell) > most else ''})"
    if isinstance(value, GaussianBase) and np.ndim(value.scale) == 0:
        return f"N(0, {value.scale:.2g}²)"
    if isinstance(value, StudentBase):
        return f"t({value.df:.2g})"
    return "constant" if isinstance(value, Constant) else repr(value)


def kernel_in_words(kernel: JointKernel | None) -> str:
    """A joint kernel as products of its parts.

    Example:
        >>> from kexpfam.kernels import separable
        >>> kernel_in_words(separable(Constant(), Gaussian(0.5)))
        'constant x Gaussian(0.5)'
    """
    if kernel is None:
        return "none"
    if not kernel.products:
        return repr(kernel)
    return " + ".join(f"{short(kx)} x {short(ky)}" for kx, ky in kernel.products)


@dataclass(frozen=True, eq=False)
class Selection:
    """What a `KCEF` chose, among what, and why.

    Attributes:
        path: All candidates, in the order in which they were tried.
        chosen: The one that was taken.
        weights: Row weights, in the order of the candidates' `held_out`.
        n_folds: Number of folds.
        active_bounds: Ends of the grid that the choice lies on, by name.
        reason: Why the search stopped.
        caution: How many standard errors were subtracted from the mean log density.
    """

    path: tuple[Candidate, ...]
    chosen: Candidate
    weights: Array
    n_folds: int
    active_bounds: tuple[str, ...]
    reason: str
    caution: float = TUNING.caution
    objective: str = "likelihood"

    def shifted(self, offset: float) -> "Selection":
        """The same with held-out log densities in other units, by a constant.

        Losses that are no log densities are left as they are.
        """
        if self.objective != "likelihood":
            return self

        def moved(candidate: Candidate) -> Candidate:
            return replace(candidate, held_out=candidate.held_out + offset)

        chosen = moved(self.chosen)
        path = tuple(chosen if c is self.chosen else moved(c) for c in self.path)
        return replace(self, path=path, chosen=chosen)

    def cautious_mean(self, candidate: Candidate) -> float:
        """Mean held-out log density, minus some standard errors."""
        error = candidate.standard_error(self.weights)
        return candidate.mean(self.weights) - self.caution * error

    def table(self, rows: int = 5) -> str:
        """The best candidates by mean minus `caution` errors, one in each line."""
        ranked = sorted(self.path, key=self.cautious_mean, reverse=True)[:rows]
        lines = [f"{'log p':>8}  {'± error':>8}  base; kernel; regularization"]
        for candidate in ranked:
            mean, error = (
                candidate.mean(self.weights),
                candidate.standard_error(self.weights),
            )
            lines.append(f"{mean:8.4f}  {error:8.4f}  {_in_words(candidate)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        active = ", ".join(self.active_bounds) or "none"
        return "\n".join(
            [
                f"grid by held-out {self.objective} in {self.n_folds} folds: "
                f"{self.chosen.mean(self.weights):.5g} after {len(self.path)} trials",
                f"  chosen: {_in_words(self.chosen)}",
                f"  stopped: {self.reason}",
                f"  ends of the grid that are active: {active}",
                *(f"  {line}" for line in self.table().splitlines()),
            ]
        )


def _in_words(candidate: Candidate) -> str:
    lam = "" if np.isinf(candidate.lam) else f"; {candidate.lam:.3g}"
    if candidate.base is None:
        return f"{candidate.coordinates}; {candidate.method}"
    base = f"{candidate.coordinates}, {short(candidate.base)}"
    return f"{base}; {kernel_in_words(candidate.kernel)}{lam}"


@dataclass(frozen=True, eq=False)
class Selected:
    """Everything that is needed for the final fit."""

    placed: CoordinateRows  # All training rows in the chosen coordinates
    rows: TrainingRows  # The same in the units of the user, and in the same order
    kernel: JointKernel
    lam: float
    centers: Indices | None  # Of the validated fits; None for exact ones
    result: Selection | SearchResult | None  # How it was found; None if given
    validation: Validation | None = None  # To go on with; None if there is nothing
    # The rows with other weights, times factors (n,), in coordinates fitted anew
    reweighted: Callable[[Array], CoordinateRows] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Member:
    """One family of an average.

    Attributes:
        weight: Its share.
        coordinates: Its base density, regression and transforms, in words.
        candidate: What was validated: base density, kernel, λ, held-out log densities.
        family: The fit to all rows; None for an expert of another kind.
        held_out: Mean held-out log density.
        expert: An estimator with `given`, fitted to all rows; None for a family.
    """

    weight: float
    coordinates: str
    candidate: Candidate
    family: FittedFamily | None
    held_out: float
    expert: Any = None

    def __repr__(self) -> str:
        return f"<Member: weight {self.weight:.3f}, {self.base}, kernel {self.kernel}>"

    @property
    def base(self) -> str:
        """Coordinates and base density in a few words."""
        if self.candidate.base is None:
            return self.coordinates
        return f"{self.coordinates}, {short(self.candidate.base)}"

    @property
    def kernel(self) -> str:
        """Kernel of x and y in a few words."""
        return kernel_in_words(self.candidate.kernel)


class Members(Sequence[Member]):
    """The members of an average, largest weight first; prints as a table."""

    def __init__(
        self, members: Sequence[Member], defensive: float, *, shown: int = 12
    ) -> None:
        """Take members in any order, and the weight of the defensive component."""
        self._members = tuple(sorted(members, key=lambda m: -m.weight))
        self.defensive = defensive
        self._shown = shown

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | Sequence[Member]:
        return self._members[index]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __repr__(self) -> str:
        header = ("weight", "log p", "fitted by", "base density", "lambda", "kernel")
        table = [header]
        for member in self._members[: self._shown]:
            lam = (
                "" if np.isinf(member.candidate.lam) else f"{member.candidate.lam:.2g}"
            )
            method = {"none": "-"}.get(member.candidate.method, member.candidate.method)
            row = f"{member.weight:.3f}", f"{member.held_out:.3f}", method, member.base
            table.append((*row, lam, member.kernel))
        rest = sum(member.weight for member in self._members[self._shown :])
        if rest:
            more = f"({len(self) - self._shown} more)"
            table.append((f"{rest:.3f}", "", "", more, "", ""))
        defensive = "defensive, t"
        table.append((f"{self.defensive:.3f}", "", "-", defensive, "", "none"))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in table
        ]
        return "\n".join(line.rstrip() for line in lines)
