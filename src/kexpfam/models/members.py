"""The families of an average, with their weights; they print as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from kexpfam.models.family import FittedFamily
from kexpfam.models.wording import kernel_in_words, short
from kexpfam.selection import Candidate

# Members that are printed.
SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Member:
    """One family of an average.

    Attributes:
        weight: Its share.
        chart: Its base density, regression and transforms, in words.
        candidate: What was judged: base density, kernel, λ, held-out log densities.
        family: The fit to all rows.
        held_out: Mean held-out log density.
    """

    weight: float
    chart: str
    candidate: Candidate
    family: FittedFamily
    held_out: float

    def __repr__(self) -> str:
        base = f"{self.chart}, {short(self.candidate.base)}"
        return f"<Member: weight {self.weight:.3f}, {base}, kernel {self.kernel}>"

    @property
    def kernel(self) -> str:
        """Kernel of x and y in a few words."""
        return kernel_in_words(self.candidate.kernel)


class Members(Sequence[Member]):
    """The members of an average, largest weight first; prints as a table."""

    def __init__(self, members: Sequence[Member], guard: float) -> None:
        """Take members in any order, and the weight of the guard."""
        self._members = tuple(sorted(members, key=lambda m: -m.weight))
        self.guard = guard

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
        for member in self._members[:SHOWN]:
            lam = (
                "" if np.isinf(member.candidate.lam) else f"{member.candidate.lam:.2g}"
            )
            method = {"none": "-"}.get(member.candidate.method, member.candidate.method)
            base = f"{member.chart}, {short(member.candidate.base)}"
            row = f"{member.weight:.3f}", f"{member.held_out:.3f}", method, base
            table.append((*row, lam, member.kernel))
        rest = sum(member.weight for member in self._members[SHOWN:])
        if rest:
            more = f"({len(self) - SHOWN} more)"
            table.append((f"{rest:.3f}", "", "", more, "", ""))
        table.append((f"{self.guard:.3f}", "", "-", "guard, t(5) of y", "", "none"))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in table
        ]
        return "\n".join(line.rstrip() for line in lines)
