"""Every default of selection: coordinates, kernels and λ that are tried, and how.

Candidates for the same rows are base densities with their regressions and transforms,
each of which has its coordinates, and a coarse grid of kernels and λ in each of them.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam.base_densities import (
    Base,
    BaseDensity,
    ConditionalBase,
    GaussianBase,
    GaussianProcessBase,
    LinearBase,
    StudentBase,
    TransformedBase,
    WithinComponentsBase,
)
from kexpfam.family import Spec
from kexpfam.kernels import Gaussian, JointKernel, Kernel, separable
from kexpfam.summaries import LearnedSummary

# Names of the coordinates without a regression: y standardised, and y made normal by
# its marginal distribution.
PLAIN = "normal"
GAUSSIANIZED = "Gaussianized"
# Where all others are behind a transform for heavy tails
UNTRANSFORMED = "untransformed"

# Base densities of residuals: the second for outliers. A t with five degrees of freedom
# and this scale has nearly unit standard deviation where most data are.
RESIDUAL_BASES: tuple[BaseDensity, ...] = (
    GaussianBase(scale=1.0),
    StudentBase(scale=0.85, df=5.0),
)


@dataclass(frozen=True)
class SelectionTuning:
    """What steers the choice among candidates."""

    # Share of a time budget in which candidates are tried. A guess: fits to all rows
    # take less than a third of the time of a search
    time_of_trials: float = 0.7
    # Time of fits of the members to as many rows as were validated, as a share of that
    # of all trials: a guess, by one large table
    final_share: float = 0.4
    # Folds, and the number of rows up to which there are more of them
    folds: int = 5
    many_folds: int = 10
    few_rows: int = 60
    # Rows up to which coordinates are fitted again for every fold; with more,
    # leave-one-out residuals in closed form are honest enough, and much faster
    refitted_rows: int = 400
    # Rows from which on regressions take part. A guess: with fewer, what is left of
    # them without a fold does not tell a regression from chance
    regression_rows: int = 8
    # Rows from which on summaries of x are learned. With fewer, coordinates are fitted
    # again for every fold, which forests would make slow, and beside which their
    # out-of-bag residuals look better than they are
    summary_rows: int = 401
    # What a kernel part gains at most, in nats a row: with a summary, beside others
    # without one, and in other regressions, beside a summary with one. Guesses that
    # err on the side of trying: gains were up to 0.26 and 0.1 on the tables looked at
    summary_gain: float = 0.3
    kernel_gain: float = 0.15
    # Coordinates that are worse than the best by more nats in total are not tried any
    # further: regressions without a kernel part, and the plain ones by likelihood
    hopeless: float = 20.0
    # What coordinates without a regression gain at most, in nats a row, by other
    # kernels than those of two lengthscales of y and without a search for columns that
    # matter. On splits of four tables it was up to 0.05 where they were behind
    scouted_gain: float = 0.05
    # Most of them that get a kernel part, without and beside a summary with one
    most_regressions: int = 6
    regressions_beside: int = 2
    # Responses made normal by their marginal distribution are worth a kernel part if
    # they are better by so many nats in total than the plain ones, both without one
    gaussianized_gain: float = 3.0
    # Rows up to which an average considers likelihood fits unless told otherwise, and
    # range of the responses, in standard deviations, up to which it does: with outliers
    # their nodes, and with them their cost, would be many
    likelihood_rows: int = 500
    likelihood_kernels: int = 3  # Kernels of x: those that score matching liked best
    likelihood_range: float = 12.0
    # What wrong masses may cost, in nats per row: coordinates that are behind by less
    # are looked at for isolated components
    blind_loss: float = 0.02
    # A mixture of regressions that predicts rows it was fitted to worse than others
    # predict held-out rows, by so many nats a row, is not validated. A guess: what it
    # could still gain beside others is less than that
    mixture_margin: float = 0.1
    # Finishing by likelihood: rows on which kernels of x are compared, at most, and the
    # parts they are cut into, of which all but one are held out; and rows on which λ
    # and the lengthscale of y are then chosen
    compared_rows: int = 400
    compared_folds: int = 3
    finish_rows: int = 800
    finish_folds: int = 3  # Folds that are held out there
    # A candidate is worth its mean held-out log density minus so many standard errors:
    # with few rows the best mean is often a lucky one
    caution: float = 0.5
    # Trials of a descent that are kept for all rows, if some were validated; from where
    # the others have led to, few steps are left
    last_trials: int = 8


TUNING = SelectionTuning()


def end_of_trials(spec: Spec, tuning: SelectionTuning = TUNING) -> float:
    """When the time for trials is over, on the monotonic clock; infinite if never.

    The rest of a time budget is for fits to all rows.
    """
    if spec.time_budget is None:
        return math.inf
    return spec.started + tuning.time_of_trials * spec.time_budget


@dataclass(frozen=True)
class DefensiveSpec:
    """The defensive component of an average (decision 0020)."""

    df: float = 3.0  # The fewest whole number with which there is a variance
    # Scales that are tried, in those of the rows' responses in its coordinates. The
    # variance of t(3) is three: 1 % at scale 1 adds 3 % to a variance, at 2 it adds 12
    widths: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    weights: tuple[float, ...] = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
    # What it may add to a mean variance that is not below the residuals': 1 % of std
    most_added: float = 0.02
    first_width: float = 4.0  # Those that weights of members are first found beside
    first_weight: float = 0.01
    # Pseudo-rows, and those of them that it alone explains: one row in a hundred
    # before any row was seen
    pseudo_rows: float = 100.0
    explained_rows: float = 1.0
    # Coordinates of a member are taken if they are worse by no more nats a row
    same_nats: float = 0.1
    levels: int = 200  # Points that its variance behind a map is found from
    # Nats by which rows object to variances from which on other members are tried: what
    # right variances cost on average. These must gain as much as odds of twenty to one
    objection: float = 0.5
    enough_nats: float = 3.0


DEFENSIVE = DefensiveSpec()


@dataclass(frozen=True)
class CalibrationSpec:
    """The map of PIT values of an average (decision 0020)."""

    parts: int = 20  # Beta distributions that it is a mixture of
    # So many rows the map that it starts from counts as much as
    pseudo_rows: float = 100.0
    # From so many rows on there is no map unless it gains: a t distribution with more
    # degrees of freedom moves coverage by a quarter of a point
    many_rows: float = 300.0
    # A map of held-out PIT values is kept if it gains so many nats in total: less is
    # what one without merit gains by chance
    enough_nats: float = 1.0
    least: float = 1e-9  # PIT values nearer to 0 or 1 are moved here


CALIBRATION = CalibrationSpec()


@dataclass(frozen=True)
class SupportSpec:
    """Bounds of y: when one is noticed, and maps that are tried (decision 0023)."""

    fewest_rows: int = 30  # With fewer no bound is noticed
    # Two steps of this many standard deviations are counted beside a bound, and so many
    # rows must be missing beyond it: one in 150 samples has none by chance
    step: float = 0.5
    missing_rows: float = 5.0
    # Where a map turns into a straight line, in standard deviations of y; and in the
    # largest distance from the bound: a logarithm of all rows, with moments
    scales: tuple[float, ...] = (0.25, 1.0)
    far: float = 10.0
    # Margin of a map, in the median distance from the bound, but half of what so few
    # rows are nearer than
    margin: float = 0.01
    nearest: float = 0.005
    # Maps are compared on so many rows, in these coordinates, without a kernel part
    compared_rows: int = 300
    fewest_compared: int = 8
    compared: tuple[str, ...] = ("normal", "Gaussian process", "linear")
    # A likely bound is taken unless it is worse by so many nats a row: a kernel part
    # gains that, and mass where no row is was asked for by nobody
    worse: float = 0.1
    # Mass of a wide component beside a likely bound, so that nothing is impossible:
    # less where it would add more than this to a mean variance, down to the least
    beyond: float = 0.002
    most_added: float = 0.01
    least_beyond: float = 1e-6


SUPPORT = SupportSpec()


@dataclass(frozen=True)
class AtomsSpec:
    """When values of y are atoms, or counts (decision 0023)."""

    fewest_rows: int = 30  # With fewer nothing is found
    # Rows at an atom, and their share, at least; and how many times as many they are as
    # those of each of so many neighbours on either side
    fewest_at: int = 8
    least_share: float = 0.01
    times: float = 5.0
    neighbours: int = 3
    above: float = 1.5  # And of all other values
    most: int = 5  # More are heaping
    fewest_values: int = 15  # Of what is left, for a density of it
    # Counts: most values, and rows for each of them
    most_counts: int = 60
    ties: float = 5.0
    few_values: int = 12  # So many values, whatever they are, have probabilities
    largest_count: float = 6000.0  # A table of them has three times as many
    digits: int = 5  # Decimal places that are looked at for rounding, from the range on


ATOMS = AtomsSpec()


@dataclass(frozen=True)
class ClassesSpec:
    """Probabilities of atoms that depend on x: what is tried (decision 0023)."""

    most_rows: int = 20_000  # Of more rows so many are drawn
    pseudo_rows: float = 1.0  # Shared by all classes, so that none is impossible
    fewest_rows: int = 20  # With fewer x is not looked at
    forest_rows: int = 60
    ridges: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    trees: int = 100
    leaves: tuple[int, ...] = (5, 20)  # Least rows in leaves of forests
    stacked_pseudo_rows: float = 5.0
    hopeless: float = 3.0  # Standard errors below the best that leave a member out


CLASSES = ClassesSpec()


@dataclass(frozen=True)
class CountsSpec:
    """Mass functions of counts: what is tried (decision 0023)."""

    ridge: float = 1e-4
    forest_rows: int = 60
    trees: int = 100
    leaf: int = 10
    # Numbers above the largest that have a probability: so many times the range of y,
    # and some more
    times_range: float = 2.0
    more: float = 30.0
    # Numbers that may have one, at most: a block of rows then takes 160 MB
    most_values: float = 20_000.0
    most_classes: int = 12  # Values that get probabilities one by one, at most
    fewest_for_density: int = 5  # Values from which on a density of y + noise is tried
    stacked_pseudo_rows: float = 5.0
    hopeless: float = 3.0  # Standard errors below the best that leave a member out


COUNTS = CountsSpec()


@dataclass(frozen=True)
class LambdaPath:
    """A kernel, and the values of λ to try with it in increasing order."""

    kernel: JointKernel
    lams: tuple[float, ...]


@dataclass(frozen=True)
class KernelGrid:
    """Kernels and λ to try in some coordinates."""

    # Lengthscales of x in median distances; a constant kernel of x is tried too
    multiples_x: tuple[float, ...]
    lengthscales_y: tuple[float, ...]  # In standard deviations of the responses
    lams: tuple[float, ...]  # λ·ℓ_y², or λ if it does not scale with the lengthscale
    relative: bool = True

    def lams_for(self, kernel: JointKernel) -> tuple[float, ...]:
        """Values of λ for a kernel."""
        ell = kernel.resolution if np.isfinite(kernel.resolution) else 1.0
        return tuple(r / ell**2 for r in self.lams) if self.relative else self.lams

    def paths(
        self, kernels_x: Sequence[Kernel], kernels_y: Sequence[Kernel] | None = None
    ) -> list[LambdaPath]:
        """All products of kernels of x with those of y, with their λ."""
        kernels_y = kernels_y or [Gaussian(ell) for ell in self.lengthscales_y]
        kernels = itertools.starmap(separable, itertools.product(kernels_x, kernels_y))
        return [LambdaPath(kernel, self.lams_for(kernel)) for kernel in kernels]


PLAIN_GRID = KernelGrid(
    (0.35, 0.8, 1.8), (0.35, 0.8, 1.8, 4.0), (1e-3, 1e-2, 1e-1, 1.0)
)
# For one mode, and for several.
PLAIN_SCOUTS = replace(PLAIN_GRID, lengthscales_y=(0.35, 1.8))
REGRESSION_GRID = KernelGrid((0.35, 1.2), (0.35, 0.8, 2.0), (1e-2, 1e-1, 1.0))
# Summaries are many columns that say the same thing in part: longer lengthscales.
SUMMARY_GRID = KernelGrid((0.35, 1.0, 2.5), (0.35, 0.8, 2.0), (1e-3, 1e-2, 1e-1))
LIKELIHOOD_GRID = KernelGrid(
    (0.8, 1.8), (0.35, 0.8), (1e-4, 1e-3, 1e-2, 1e-1), relative=False
)
# Where isolated components were found: λ is in units of 0.1/n, about which penalty and
# log-likelihood balance (decision 0014). Kernels of x are compared first, with one
# lengthscale of y; then the others are tried with the best of them.
FINISH_GRID = KernelGrid((0.8, 3.0), (0.35,), (0.3,), relative=False)
FINISH_REFINED = KernelGrid((), (0.35, 0.8), (0.1, 0.6, 3.0), relative=False)
# The standard deviation within components, in that of all, for which these lengthscales
# of y are meant; they follow it where components have places of their own
FINISH_WIDTH = 0.23
# Lengthscale of y of log odds between components, which x changes
FINISH_ODDS = 1.0
# An average has others to fall back on, so that the middle of the path is enough.
AVERAGED_LIKELIHOOD_GRID = replace(LIKELIHOOD_GRID, lams=(1e-3, 1e-2))


@dataclass(frozen=True)
class CoordinateSpec:
    """Coordinates that take part."""

    name: str  # What a person calls them
    base: Base
    transform_x: bool = False  # Whether skewed columns of x are transformed
    fewest_rows: int = 0  # Rows that they need to be worth it beside others

    @property
    def learned(self) -> bool:
        """Whether they are fitted to y, more than by standardising it."""
        return not isinstance(self.base, BaseDensity)

    @property
    def marginal(self) -> bool:
        """Whether they are a transform of y without a regression."""
        base = self.base
        return isinstance(base, TransformedBase) and isinstance(base.base, BaseDensity)


def default_coordinates() -> list[CoordinateSpec]:
    """The coordinates of `AutoKCEF`, and of a `KCEF` that chooses its base."""
    noise = GaussianBase(scale=1.0)
    process = GaussianProcessBase(noise)
    wide = GaussianProcessBase(noise, heteroscedastic=True)
    regressions: list[tuple[str, Base]] = [
        ("Gaussian process", process),
        ("heteroscedastic", wide),
        ("Yeo-Johnson, Gaussian process", TransformedBase("yeo_johnson", process)),
        ("Yeo-Johnson, heteroscedastic", TransformedBase("yeo_johnson", wide)),
        ("linear", LinearBase(noise)),
    ]
    # A density estimate of few rows is no better than a normal one.
    gaussianized = TransformedBase("gaussianize", noise)
    found = [
        CoordinateSpec(PLAIN, noise),
        CoordinateSpec(
            GAUSSIANIZED, gaussianized, fewest_rows=TUNING.refitted_rows + 1
        ),
    ]
    for name, base in regressions:
        found.append(CoordinateSpec(name, base))
        found.append(CoordinateSpec(f"{name}, transformed x", base, transform_x=True))
    return found


def behind_arcsinh(base: Base) -> Base:
    """A base density of y behind an arcsinh, if it is not behind a transform yet."""
    if isinstance(base, BaseDensity | ConditionalBase):
        return TransformedBase("arcsinh", base)
    return base


def heavy_tailed(specs: Sequence[CoordinateSpec]) -> list[CoordinateSpec]:
    """Coordinates for responses whose moments say nothing (decision 0025).

    All are behind an arcsinh but one, for the defensive component; other transforms
    take no part.
    """
    found = []
    for spec in specs:
        if spec.name == GAUSSIANIZED:  # behind one by itself
            found.append(spec)
        elif not isinstance(spec.base, TransformedBase):
            name = spec.name if spec.name == PLAIN else f"arcsinh, {spec.name}"
            found.append(replace(spec, name=name, base=behind_arcsinh(spec.base)))
    return [*found, CoordinateSpec(UNTRANSFORMED, GaussianBase(scale=1.0))]


# Around a location that moves all components: transforms and scales that were fitted to
# all of them together bend each, and masses that depend on x bend a mean.
WITHIN_COMPONENTS = CoordinateSpec(
    "within components", WithinComponentsBase(GaussianBase(scale=1.0))
)
FINISH_BESIDE = "linear"  # They are tried where this regression took part

# The summary of x that an average tries.
LEARNED_SUMMARY = LearnedSummary()
# Coordinates whose transforms summaries have where no regression is there to say which
# are best.
SUMMARY_TRANSFORMS = (
    CoordinateSpec(PLAIN, RESIDUAL_BASES[0]),
    CoordinateSpec("Yeo-Johnson", TransformedBase("yeo_johnson", RESIDUAL_BASES[0])),
)


def summary_coordinates(
    best: CoordinateSpec,
    name: str = "summary",
    summary: LearnedSummary = LEARNED_SUMMARY,
) -> CoordinateSpec:
    """A learned summary of x, with the transforms of other coordinates."""
    if isinstance(best.base, TransformedBase):
        kind = best.name.split(",", maxsplit=1)[0]
        base = replace(best.base, base=summary)
        return replace(best, name=f"{kind}, {name}", base=base)
    return replace(best, name=name, base=summary)
