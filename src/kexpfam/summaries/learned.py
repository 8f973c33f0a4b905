"""Summaries of x that are learned: what about x matters for the law of y.

A kernel on many raw columns measures distances that say little. Here regressions
estimate from x

    h(x)  the location of y,
    l(x)  the log scale of what is left, r = y − h(x), from log r²,
    g(x)  the law of the standardised residual u: probabilities of the cells between its
          quantiles, all at once by one regression with several outputs,

and the kernel of x acts on z = (h, l, g): theory (26), (27). Since g estimates
E[ψ(u) | x] for indicator features ψ, it is a conditional mean embedding of u given x
(Song et al. 2009; Grünewälder et al. 2012), estimated by trees instead of ridge
regression: the kernel compares estimated conditional laws, and rows with the same
predicted law are neighbours wherever they lie in x. Location and scale are also those
of the base density: the family models u = (y − h)/s, s = exp(e·l), with an exponent e
that is chosen.

Columns whose values come back have effects beside that (`repeats`).

All of it is held out for the training rows, theory (28), a part of them at a time:
leaving out each row alone would show its response (`learners`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import (
    BaseDensity,
    ConditionalBase,
    CrossFit,
    GaussianBase,
    LocationScaleModel,
    StudentBase,
    Summary,
    standard_residuals,
)
from kexpfam.persistence import saved_fit, saved_value
from kexpfam.summaries.learners import (
    BoostingLearner,
    ForestLearner,
    Learned,
    Learner,
    Predictor,
    ProcessLearner,
    RegressorLearner,
    ShiftedPredictor,
    ViewedLearner,
    WidenedPredictor,
    stacked,
)
from kexpfam.summaries.repeats import Repeats, fit_repeats
from kexpfam.summaries.views import ColumnKinds

# Regressions of the location, by the names that users call them.
BOOSTING, PROCESS = "boosting", "gaussian_process"
LOCATIONS: dict[str, Learner] = {
    "extra_trees": ForestLearner("extra", trees=100),
    "random_forest": ForestLearner("random", trees=100, max_features=0.5),
    BOOSTING: BoostingLearner(),
    PROCESS: ProcessLearner(),
}
STACK = "stack"
# Regressions of the log scale and of the law.
SCALE: Learner = ForestLearner("extra", trees=60, min_leaf=5, max_features=0.5)
LAW: Learner = ForestLearner("extra", trees=100, min_leaf=3, max_features=0.5)
# Boosting takes part in a stack from so many rows on: with fewer it takes as long as
# all others together, and is seldom better.
BOOSTED_ROWS = 5000

# Fits of the location by name; summaries of the same rows can share them.
LocationFits = dict[str, Learned]


@dataclass(frozen=True)
class SummarySpec:
    """What steers a learned summary."""

    scale: Learner = SCALE
    law: Learner = LAW
    exponents: tuple[float, ...] = (0.0, 0.5, 1.0, 1.4)
    # Cells of the residual's law: fewer with few rows, so that each holds some
    cells: int = 12
    rows_per_cell: int = 40
    fewest_cells: int = 3
    # Log squared residuals below this share of their standard deviation are rounding
    tiny: float = 1e-3
    # The log scale may leave the range of its held-out predictions by this much
    margin: float = 0.5
    degrees: tuple[float, ...] = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0)
    # An exponent that is not the first has to gain so many nats a row
    least_gain: float = 1e-3


SPEC = SummarySpec()


@saved_value
@dataclass(frozen=True)
class LearnedSummary(ConditionalBase):
    """Location, scale and law of y given x, learned by trees, as features of a kernel.

    For one column of y; a few hundred rows are the least that it is worth trying with.
    Values of a column that come back, days or machines, have effects of their own where
    rows that were held out are predicted better by them: theory (31).

    Attributes:
        location: What predicts the location: "extra_trees", "random_forest",
            "boosting", "gaussian_process", "stack" for the best combination of these,
            or a regressor of scikit-learn.
        law: A regressor of scikit-learn with several outputs, that predicts
            probabilities of the cells between quantiles of the standardised residual;
            None for extremely randomised trees.
        cells: How many cells; None for twelve, or fewer with few rows; 0 for none.
        noise: Density of the standardised residual; None for a t distribution whose
            scale and degrees of freedom are fitted.
        kinds: Which columns stand for gaps and categories of a table, which our trees
            then see as such; None for numbers. Estimators say so of frames.

    References:
        Arbel and Gretton, Kernel Conditional Exponential Family, AISTATS 2018;
        Song, Huang, Smola and Fukumizu, Hilbert space embeddings of conditional
        distributions, ICML 2009; Geurts, Ernst and Wehenkel, Extremely randomized
        trees, Machine Learning 2006; Breiman, Stacked regressions, Machine Learning
        1996.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(300, 3))
        >>> y = np.sign(X[:, 0]) + (0.1 + (X[:, 1] > 0)) * rng.normal(size=300)
        >>> summary = LearnedSummary(location="extra_trees")
        >>> model = KCEF(features=summary, random_state=0).fit(X, y)
        >>> model.predict([[0.5, -0.5, 0.0]]).round(0)
        array([1.])
    """

    location: Any = STACK
    law: Any = None
    cells: int | None = None
    noise: BaseDensity | None = None  # type: ignore[assignment]
    kinds: ColumnKinds | None = None

    def __post_init__(self) -> None:
        if isinstance(self.location, str):
            names = (*LOCATIONS, STACK)
            if self.location not in names:
                words = ", ".join(map(repr, names))
                raise ValueError(
                    f"location must be one of {words}, or a regressor of scikit-learn, "
                    f"got {self.location!r}."
                )
        if self.cells is not None and (self.cells < 0 or self.cells == 1):
            raise ValueError(
                f"cells must be at least 2, or 0 for none, got {self.cells!r}."
            )
        if self.noise is not None:
            super().__post_init__()

    @property
    def wants_process(self) -> bool:
        """Whether a Gaussian process takes part in the location."""
        return isinstance(self.location, str) and self.location in (PROCESS, STACK)

    def cross_fit(
        self,
        X: Array,
        Y: Array,
        weights: Array,
        rng: np.random.Generator,
        fits: LocationFits
        | None = None,  # Locations of the same rows that are known already
        spec: SummarySpec = SPEC,
    ) -> CrossFit:
        n, d = Y.shape
        if d != 1 or n < 20 or not X.shape[1]:
            raise ValueError(
                f"LearnedSummary needs one column of y, columns of x and at least 20 "
                f"rows, got {d} columns of y, {X.shape[1]} of x and {n} rows."
            )
        y = Y[:, 0]
        location = self._location(X, Y, weights, rng, {} if fits is None else fits)
        location, repeats, seen = self._repeated(location, X, Y, weights, rng)
        h = location.held_out[:, 0]
        r = y - h
        XH = np.column_stack([seen, location.feature])
        tiny = spec.tiny * np.sqrt(np.average(r**2, weights=weights))
        target = 0.5 * np.log(r**2 + max(tiny, np.finfo(float).tiny) ** 2)
        scale = self._viewed(spec.scale).cross_fit(XH, target[:, None], weights, rng)
        log_scale = scale.held_out[:, 0]
        middle = float(np.average(log_scale, weights=weights))
        exponent = _exponent(r, log_scale - middle, weights, spec)
        u, held_out_log_scale, center, unit = standard_residuals(
            Y, h[:, None], exponent * (log_scale - middle)[:, None], weights
        )
        law = self._law(XH, u[:, 0], weights, rng, spec)
        raw = [location.feature, log_scale[:, None]]
        raw += [] if law is None else [law.feature]
        S = np.concatenate(raw, axis=1)
        z_center = np.average(S, axis=0, weights=weights)
        z_scale = np.sqrt(np.average((S - z_center) ** 2, axis=0, weights=weights))
        z_scale = np.where(z_scale > 1e-12 * (1.0 + np.abs(z_center)), z_scale, 1.0)
        bounds = log_scale.min() - spec.margin, log_scale.max() + spec.margin
        summary = SummaryModel(
            location.model,
            scale.model,
            None if law is None else law.model,
            np.array(bounds),
            z_center,
            z_scale,
            repeats,
        )
        model = SummaryLocationScale(
            z_center[:2], z_scale[:2], exponent, middle, center, unit
        )
        noise = self.noise or fit_student(u[:, 0], weights, spec.degrees)
        return CrossFit(
            model, u, held_out_log_scale, summary, (S - z_center) / z_scale, noise
        )

    def _location(
        self,
        X: Array,
        Y: Array,
        weights: Array,
        rng: np.random.Generator,
        fits: LocationFits,
    ) -> Learned:
        if not isinstance(self.location, str):
            return RegressorLearner(self.location).cross_fit(X, Y, weights, rng)
        names = self._names(len(Y))
        for name in names:
            if name not in fits:
                learner = LOCATIONS[name]
                learner = learner if name == PROCESS else self._viewed(learner)
                fits[name] = learner.cross_fit(X, Y, weights, rng)
        if self.location != STACK:
            return fits[self.location]
        return stacked([fits[name] for name in names], Y[:, 0], weights)

    def _names(self, n: int) -> list[str]:
        """Regressions of the location of n rows, if it is one of ours."""
        if self.location != STACK:
            return [self.location]
        return [name for name in LOCATIONS if name != BOOSTING or n >= BOOSTED_ROWS]

    def _repeated(
        self,
        first: Learned,
        X: Array,
        Y: Array,
        weights: Array,
        rng: np.random.Generator,
    ) -> tuple[Learned, Repeats | None, Array]:
        """The location with effects of repeated values, and X as trees then see it.

        Effects are added to a location; of a stack trees are grown once more, which see
        them, and join it.
        """
        means = () if self.kinds is None else self.kinds.means
        columns = np.setdiff1d(np.arange(X.shape[1]), means)
        left = Y[:, 0] - first.feature[:, 0]
        found = fit_repeats(X, left, weights, columns)
        if found is None:
            return first, None, X
        repeats, held_out = found
        effects = held_out[:, ::2].sum(axis=1, keepdims=True)
        shifted = Learned(
            ShiftedPredictor(first.model, repeats),
            first.held_out + effects,
            first.feature + effects,
        )
        seen, parts = np.hstack([X, held_out]), [shifted]
        if self.location == STACK:
            for name in self._names(len(Y)):
                if name == PROCESS:
                    continue
                own = self._viewed(LOCATIONS[name]).cross_fit(seen, Y, weights, rng)
                parts.append(replace(own, model=WidenedPredictor(own.model, repeats)))
        return stacked(parts, Y[:, 0], weights), repeats, seen

    def _viewed(self, learner: Learner) -> Learner:
        """Trees that see gaps and categories, if it is known where they are."""
        kinds = self.kinds
        if kinds is None or not (kinds.gaps or kinds.groups):
            return learner
        return ViewedLearner(learner, kinds)

    def _law(
        self,
        XH: Array,
        u: Array,
        weights: Array,
        rng: np.random.Generator,
        spec: SummarySpec,
    ) -> Learned | None:
        """Probabilities of cells of the residual; None if there are to be none."""
        few = max(spec.fewest_cells, len(u) // spec.rows_per_cell)
        count = min(spec.cells, few) if self.cells is None else self.cells
        if count == 0:
            return None
        levels = np.arange(1, count) / count
        edges = np.unique(np.quantile(u, levels))
        indicators = np.eye(len(edges) + 1)[np.searchsorted(edges, u, side="right")]
        learner = self._viewed(spec.law)
        if self.law is not None:
            learner = RegressorLearner(self.law)
        return learner.cross_fit(XH, indicators, weights, rng)


@saved_fit(
    {
        "location": "k=1",
        "scale": "k=1",
        "log_scale_bounds": "2",
        "z_center": "q",
        "z_scale": "q positive",
        "repeats": "optional",
    },
    shared=True,
)
@dataclass(frozen=True, eq=False)
class SummaryModel(Summary):
    """x → z = (h, l, g), standardised."""

    location: Predictor
    scale: Predictor  # Log scale, from x and the location
    law: Predictor | None  # Probabilities of cells, likewise
    log_scale_bounds: Array  # Where the log scale is clipped, (2,)
    z_center: Array  # (q,)
    z_scale: Array  # (q,)
    repeats: Repeats | None = None  # Effects of repeated values, which trees see

    @property
    def q(self) -> int:
        """Columns of z."""
        return len(self.z_center)

    def at(self, X: Array) -> Array:
        """The summary of conditions X (n, p), (n, q)."""
        h = self.location.predict(X)
        seen = X if self.repeats is None else self.repeats.beside(X)
        XH = np.concatenate([seen, h], axis=1)
        log_scale = np.clip(self.scale.predict(XH), *self.log_scale_bounds)
        parts = [h, log_scale]
        if self.law is not None:
            parts.append(self.law.predict(XH))
        return (np.concatenate(parts, axis=1) - self.z_center) / self.z_scale


@saved_fit(
    {
        "z_center": "2",
        "z_scale": "2 positive",
        "center": "d",
        "unit": "d positive",
    }
)
@dataclass(frozen=True, eq=False)
class SummaryLocationScale(LocationScaleModel):
    """Location and scale, read off the first two columns of a summary."""

    z_center: Array  # (2,)
    z_scale: Array  # (2,)
    exponent: float  # e
    middle: float  # Mean of the log scale, at which the scale is one unit
    center: Array  # Mean of the residuals before they were centred, (1,)
    unit: Array  # Their standard deviation, (1,)

    def at(self, X: Array) -> tuple[Array, Array]:
        h, log_scale = (X[:, :2] * self.z_scale + self.z_center).T
        scale = np.exp(self.exponent * (log_scale - self.middle))[:, None]
        return h[:, None] + self.center * scale, self.unit * scale


def _exponent(r: Array, log_scale: Array, weights: Array, spec: SummarySpec) -> float:
    """How much of the log scale to believe, by held-out likelihood of a t."""
    best, chosen = -np.inf, 0.0
    share = weights / weights.sum()
    for exponent in spec.exponents:
        u = r * np.exp(-exponent * log_scale)
        unit = float(np.sqrt(share @ u**2)) or 1.0
        noise = fit_student(u / unit, weights, spec.degrees)
        mean = float(share @ noise.log_density((u / unit)[:, None])) - np.log(unit)
        mean -= exponent * float(share @ log_scale)
        if mean > best + spec.least_gain:
            best, chosen = mean, exponent
    return chosen


def fit_student(
    u: Array, weights: Array, degrees: tuple[float, ...], *, steps: int = 30
) -> BaseDensity:
    """The t distribution around zero that is most likely, or a normal one."""
    share = weights / weights.sum()

    def fitted(df: float) -> BaseDensity:
        variance = float(share @ u**2)
        if np.isinf(df):
            return GaussianBase(scale=float(np.sqrt(variance)))
        for _ in range(steps):  # EM of a scale mixture of normals
            variance = float(share @ (u**2 * (df + 1.0) / (df + u**2 / variance)))
        return StudentBase(scale=float(np.sqrt(variance)), df=df)

    def mean(noise: BaseDensity) -> float:
        return float(share @ noise.log_density(u[:, None]))

    compared: Callable[[BaseDensity], float] = mean
    return max((fitted(df) for df in (*degrees, np.inf)), key=compared)
