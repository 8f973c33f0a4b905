"""The fitted family, and the kernel of a fit with its lengthscales filled in.

The unconditional family is the conditional one with zero columns of x and a constant
kernel of x.
"""

from dataclasses import dataclass, replace

import numpy as np

from kexpfam._heuristics import median_filler
from kexpfam._typing import Array, Indices
from kexpfam.base_densities import (
    Base,
    BaseDensity,
    LocationScaleDensity,
    MarginalBase,
    TransformedBase,
    resolve_base,
)
from kexpfam.distributions import (
    Bridge,
    BridgedDensity,
    ClosedFormDensity,
    MultivariateDensity,
    ResponseCoordinates,
    UnivariateDensity,
    UnnormalizedDensity,
)
from kexpfam.family.coordinates import CoordinateRows, Coordinates
from kexpfam.family.solvers import SCORE, SOLVERS, Solver
from kexpfam.family.spec import Spec
from kexpfam.kernels import (
    MEDIAN,
    Constant,
    Gaussian,
    JointKernel,
    Kernel,
    LengthScale,
    separable,
)
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import KernelExpansion, TiltedDensity
from kexpfam.summaries import ColumnKinds, LearnedSummary

# Untuned lengthscale of x in median distances (decision 0003).
MEDIANS_X = 0.5


@saved_fit(
    {
        "coordinates": "p d",
        "T": "d",
        "lam": "positive unbounded",
        "rcond": "unbounded",
        "seed": "nonnegative",
    },
    names={"coordinates": "chart"},
)
@dataclass(frozen=True)
class FittedFamily:
    """p(y|x) = q0(y|x) exp T(x, y) / Z(x), fitted."""

    coordinates: Coordinates  # How rows get to where the kernel is
    base: BaseDensity  # q0 there
    T: KernelExpansion  # The fitted function
    lam: float  # λ; infinity for the base density alone
    rcond: float  # Of the system, at least; NaN if the solver does not tell
    seed: int  # Of the draws that normalise several columns
    bridge: Bridge | None = None  # What was mixed in, and is taken away from densities

    def check_saved(self) -> None:
        """Refuse λ and base densities that no fit has."""
        if np.isinf(self.lam) and not self.is_base_alone:
            raise ValueError("lam of FittedFamily is not finite")
        if np.isinf(self.rcond):
            raise ValueError("rcond of FittedFamily is not a number")
        Y = self.T.Y
        n, d = Y.shape
        if self.T.X.shape[1] != self.coordinates.q:
            raise ValueError("array X of T has other columns than the coordinates")
        if isinstance(self.base, MarginalBase):
            if len(self.base.mixtures) != d:
                raise ValueError("the base density has other columns")
        else:
            # Touched once, so that parameters of a wrong length show up here.
            self.base.prepared(Y, np.ones(n))
        if not np.isfinite(self.base.log_density(Y)).all():
            raise ValueError("the base density does not cover the data")
        if self.T.kernel.resolution < 1e-75:
            raise ValueError("a lengthscale of y is too small")
        # Where its centres are, it is a function of y, and y one of its coordinates.
        Z, U = self.T.X[:2], Y[:2, None]
        there = self.coordinates.at(Z)
        log_p = TiltedDensity(self.base, self.T, Z).log_unnormalized(U)
        y = there.to_user(U)
        numbers = (y, there.log_volume(y), log_p)
        if not all(np.isfinite(part).all() for part in numbers):
            raise ValueError("it has no density at its own centres")

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return self.coordinates.d

    @property
    def solver(self) -> str:
        """How T was found: "exact", or "low-rank" at some centres."""
        return "exact" if self.T.second is not None else "low-rank"

    @property
    def is_base_alone(self) -> bool:
        """Whether T is zero."""
        return not any(np.any(part) for _, _, part in self.T.derivatives)

    def density(
        self, X: Array, *, single: bool = False, partition: str = "auto"
    ) -> UnivariateDensity | MultivariateDensity:
        """The normalised densities at conditions X (n, p).

        One column is normalised by quadrature, more as `partition` says.
        """
        Z = self.coordinates.conditions(X)
        there = self.coordinates.at(Z)
        if self.d == 1:
            return self.normalized(Z, there, single=single)
        return MultivariateDensity.normalize(
            TiltedDensity(self.base, self.T, Z),
            there,
            self.T.kernel.resolution,
            self.seed,
            single=single,
            method=partition,
        )

    def normalized(
        self, Z: Array, there: ResponseCoordinates, *, single: bool = False
    ) -> UnivariateDensity:
        """The same for one column, at conditions and coordinates of the kernel."""
        tilted = self.unnormalized(Z)
        resolution = self.T.kernel.resolution
        return UnivariateDensity.normalize(tilted, there, resolution, single=single)

    def closed_form(self, there: ResponseCoordinates) -> ClosedFormDensity | None:
        """The same where there is nothing to integrate; None where there is."""
        if there.transform is not None or not self.is_base_alone:
            return None
        if not isinstance(self.base, LocationScaleDensity):
            return None
        return ClosedFormDensity(self.base, there.location[:, 0], there.scale[:, 0])

    def unnormalized(self, Z: Array) -> UnnormalizedDensity:
        """Densities of one column in the coordinates of the kernel, at Z (n, p)."""
        tilted = TiltedDensity(self.base, self.T, Z)
        if self.bridge is None:
            return tilted
        resolution = self.T.kernel.resolution
        return BridgedDensity.of(tilted, self.bridge.m, self.bridge.share, resolution)


def solve(
    rows: CoordinateRows,
    kernel: JointKernel | None,
    lam: float,
    *,
    seed: int,
    centers: Indices | None = None,
    n_jobs: int | None = None,
    solver: Solver = SCORE,
) -> FittedFamily:
    """Fit T to rows in coordinates, with a kernel and λ that are settled.

    `centers` are rows at which the basis of a low-rank fit is; None for an exact fit by
    score matching. Without a kernel T is zero.
    """
    if kernel is None:
        nothing = separable(Constant(), Gaussian(1.0)), rows.Z[:1], rows.U[:1]
        T = KernelExpansion(*nothing, zeroth=np.zeros(1), n_jobs=n_jobs)
        return FittedFamily(rows.coordinates, rows.base, T, lam, float("nan"), seed)
    found = solver.fit(rows, kernel, lam, centers, n_jobs)
    return FittedFamily(
        rows.coordinates, rows.base, found.T, found.lam, found.rcond, seed, found.bridge
    )


def given_base(spec: Spec) -> Base:
    """The base density of the user, or that of the fitting method."""
    if spec.features is not None:
        return _base_of_features(spec.features, spec.base, spec.kinds)
    solver = SOLVERS[spec.fit_method]
    return resolve_base(solver.base if spec.base is None else spec.base)


def _base_of_features(
    features: LearnedSummary, given: Base | str | None, kinds: ColumnKinds | None
) -> Base:
    """Learned features with the location and scale that come with them."""
    if not isinstance(features, LearnedSummary):
        raise TypeError(
            f"features must be a LearnedSummary of kexpfam.summaries, or None for x as "
            f"it is; got {features!r}."
        )
    features = replace(features, kinds=features.kinds or kinds)
    if given is None:
        return features
    base = resolve_base(given)
    if isinstance(base, BaseDensity):
        return replace(features, noise=base)
    if isinstance(base, TransformedBase) and base.base is None:
        return replace(base, base=features)
    raise ValueError(
        f"features bring a location and scale of their own, so base can be the density "
        f"of standardised residuals, such as GaussianBase(scale=1.0), or a transform "
        f"of y such as TransformedBase('yeo_johnson'); got {base!r}."
    )


def resolve_kernel(spec: Spec, Z: Array, U: Array, weights: Array) -> JointKernel:
    """The joint kernel with its lengthscales filled in."""
    kernel = spec.kernel
    if kernel is None:
        given = {"kernel_x": spec.kernel_x, spec.kernel_name: spec.kernel_y}
        for name, part in given.items():
            if part is not None and not isinstance(part, Kernel):
                raise TypeError(
                    f"{name} must be a kernel such as Gaussian(1.0), or None; got "
                    f"{part!r}."
                )
        kernel_x, kernel_y = (part or Gaussian(MEDIAN) for part in given.values())
        kernel = separable(kernel_x, kernel_y)
    elif spec.kernel_x is not None or spec.kernel_y is not None:
        raise ValueError(
            "kernel is a joint kernel of (x, y); give it, or kernel_x and kernel_y, "
            "not both."
        )
    medians_y = SOLVERS[spec.fit_method].medians_y
    filled = kernel.map_lengthscales(
        median_filler(Z, weights, MEDIANS_X), median_filler(U, weights, medians_y)
    )
    for _, kernel_y in filled.products:
        kernel_y.map_lengthscales(_require_ordinary_length)
    return filled


def _require_ordinary_length(
    lengthscale: LengthScale, shortest: float = 1e-50, longest: float = 1e50
) -> LengthScale:
    """Refuse lengthscales of y whose inverse fourth powers a double cannot hold."""
    lengths = np.asarray(lengthscale, dtype=float)
    if lengths.min() < shortest or lengths.max() > longest:
        raise ValueError(
            f"The lengthscale of y must lie between {shortest} and {longest}, got "
            f"{lengthscale!r}; use standardize=True or rescale y."
        )
    return lengthscale
