"""What a notebook or a terminal says of densities: the first of them, in a few numbers.

Everything is read off one grid per density, in one batch, so that looking at an object
costs little; means are the densities' own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.display.numbers import DensityGrid, cut_at_height, modes
from kexpfam.display.svg import number_text

# Of the interval and of the region that are shown.
LEVEL = 0.9

# What may be left out beyond either end of a curve: less than a line's width.
_LEFT_OVER = 0.003

# Probabilities below this are not told of atoms; they would fill the line.
_TOLD = 0.02


@dataclass(frozen=True, eq=False)
class DensitySummary:
    """One density of one column, in numbers and as a curve.

    Attributes:
        mean: Expectation.
        median: Median.
        interval: Ends of the central interval, (2,).
        region: The highest-density region of the same level, (k, 2).
        modes: Places of the local maxima, the highest first; of atoms the likeliest.
        curve: Density on a grid; None for a mass function.
        atoms: Values with a probability of their own, and these, (k, 2).
    """

    mean: float
    median: float
    interval: Array
    region: Array
    modes: tuple[float, ...]
    curve: DensityGrid | None
    atoms: Array


def first_summaries(densities: Any, most: int) -> list[DensitySummary]:
    """Summaries of the first densities of one column, at most so many.

    Example:
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> p = ClosedFormDensity(GaussianBase(1.0), np.array([3.0]), np.ones(1))
        >>> found = first_summaries(p, 1)[0]
        >>> round(found.modes[0], 3), found.region.round(1).tolist()
        (3.0, [[1.4, 4.6]])
    """
    single = np.ndim(densities.support) == 1
    first = densities if single else densities[:most]
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
        means = np.atleast_1d(first.mean())
        tails = [0.5 - 0.5 * LEVEL, 0.5, 0.5 + 0.5 * LEVEL]
        quantiles = np.atleast_2d(first.quantile(tails))
        curves: list[DensityGrid | None]
        curves = _curves(getattr(first, "density", first), len(means))
        atoms, regions = [np.empty((0, 2))] * len(means), [None] * len(means)
        if getattr(first, "measure", "lebesgue") != "lebesgue":
            values, pi = first.atoms
            atoms = [np.column_stack([values, own]) for own in np.atleast_2d(pi)]
            regions = [first.hpd(LEVEL)] if single else first.hpd(LEVEL)
            shares = np.atleast_1d(first.continuous_share)
            curves = [
                None if c is None else c._replace(pdf=w * c.pdf)
                for c, w in zip(curves, shares, strict=True)
            ]
    parts = zip(means, quantiles, regions, curves, atoms, strict=True)
    return [_summary(*part) for part in parts]


def _summary(
    mean: float, quantiles: Array, region: Any, curve: DensityGrid | None, atoms: Array
) -> DensitySummary:
    peaks = [] if curve is None else [mode.place for mode in modes(curve)]
    if len(atoms):
        likely = atoms[atoms[:, 1] >= _TOLD]
        best = float(atoms[np.argmax(atoms[:, 1]), 0])
        likeliest = [float(v) for v in likely[np.argsort(-likely[:, 1]), 0]]
        peaks = [best] if curve is None else [*likeliest, *peaks]
    if region is None:
        assert curve is not None
        ends = cut_at_height(LEVEL, curve)[1]
        region = np.reshape(ends[: 2 * (len(ends) // 2)], (-1, 2))
    low, middle, high = quantiles.tolist()
    return DensitySummary(
        float(mean), middle, np.array([low, high]), region, tuple(peaks), curve, atoms
    )


def _curves(densities: Any, n: int) -> list[DensityGrid | None]:
    """Densities on grids over nearly all of their mass; None without densities."""
    if densities is None:
        return [None] * n
    single = np.ndim(densities.support) == 1
    ends = np.atleast_2d(densities.quantile([_LEFT_OVER, 1.0 - _LEFT_OVER]))
    support = np.atleast_2d(densities.support)
    room = 0.03 * np.diff(ends, axis=1)
    low, high = np.clip(ends + room * [-1.0, 1.0], support[:, :1], support[:, 1:]).T
    y = np.linspace(low, high, 161, axis=1)
    pdf, cdf = (
        np.atleast_2d(method(y[0] if single else y))
        for method in (densities.pdf, densities.cdf)
    )
    return [DensityGrid(*own) for own in zip(y, pdf, cdf, strict=True)]


def densities_in_words(densities: Any, names: list[str], most: int = 3) -> str:
    """What `repr` of densities says, after their class.

    Args:
        densities: Of one column or of several, as `given` returns them.
        names: Of the columns.
        most: How many densities are told of.
    """
    single = np.ndim(densities.support) == 1 + (len(names) > 1)
    count = 1 if single else len(densities)
    several = "one density" if count == 1 else f"{count} densities"
    if getattr(densities, "measure", "lebesgue") == "counting":
        several = "one mass function" if count == 1 else f"{count} mass functions"
    head = f"{several} of {', '.join(names)}"
    if not count:
        return head
    if len(names) > 1:
        table = _moments(densities if single else densities[:most], names, single)
    else:
        table = [("mean", "median", f"{LEVEL:.0%} interval", "modes")]
        table += [summary_texts(s) for s in first_summaries(densities, most)]
    if not single:
        table = [
            ("row" if i == 0 else str(i - 1), *cells) for i, cells in enumerate(table)
        ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    if count > most:
        lines.append(f"... and {count - most} more")
    # A sign that other programs read.
    return "\n".join([head, *(f"  {line}" for line in lines)]).replace("−", "-")


def summary_texts(summary: DensitySummary) -> tuple[str, str, str, str]:
    """Mean, median, interval and modes, as people write them."""
    low, high = (number_text(v) for v in summary.interval.tolist())
    masses = dict(summary.atoms.tolist()) if summary.curve is not None else {}
    places = [
        f"{number_text(v)} ({masses[v]:.0%})" if v in masses else number_text(v)
        for v in summary.modes[:4]
    ]
    more = ["..."] if len(summary.modes) > 4 else []
    return (
        number_text(summary.mean),
        number_text(summary.median),
        f"{low} to {high}",
        ", ".join([*places, *more]),
    )


def _moments(densities: Any, names: list[str], single: bool) -> list[tuple[str, ...]]:
    """Mean ± standard deviation of each column, below a header."""
    shape = (-1, len(names))
    means, stds = (
        np.reshape(densities.mean(), shape),
        np.reshape(densities.std(), shape),
    )
    rows = [
        tuple(
            f"{number_text(m)} ± {number_text(s, 2)}"
            for m, s in zip(*pair, strict=True)
        )
        for pair in zip(means.tolist(), stds.tolist(), strict=True)
    ]
    return [tuple(names), *rows]
