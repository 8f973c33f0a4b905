"""A mixture of linear regressions whose masses may depend on x.

    p(y | x) = Σ_c π_c(x) N(y; f(x)·a_c, σ_c²),  π(x) = softmax(f(x) B),  f(x) = (1, z)

with z the standardised x: lines that cross, groups with slopes of their own, regimes
between which x decides. It says with few numbers what a kernel has to learn cell by
cell. Fitted by EM from many short runs, of which the best goes on; ridges are those of
slopes of about a standard unit. The number of components, and whether masses depend on
x, are those with the best BIC. A round of EM needs sums over rows, which blocks of them
add to: some rows tell where to begin, and a few rounds over all of them the rest.

References:
    Quandt (1972), switching regressions; DeSarbo and Cron (1988), mixtures of linear
    regressions; Jacobs, Jordan, Nowlan and Hinton (1991), masses that depend on x;
    Biernacki, Celeux and Govaert (2003), short runs of EM.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights


@dataclass(frozen=True)
class MixtureSpec:
    """How many components are tried, and how EM is run."""

    most_components: int = 3
    starts: int = 8  # Short runs of each number of components, one from k-means
    short_rounds: int = 8
    most_rounds: int = 100
    enough_nats: float = 1e-5  # Rounds end when none gains more for each row
    # Std of a component, in standard units of y, at least: a component of one row must
    # not have width zero
    smallest_std: float = 0.01
    fewest_rows: float = 5.0  # A component of fewer rows, and of p + 2, is none
    # Rows on which the number of components is chosen, at most, and rows on which EM is
    # run to its end; of more, all have a say in some last rounds
    chosen_rows: int = 1000
    most_rows: int = 20_000
    # These end when one gains less than this share of what the right parameters are
    # behind the most likely ones by chance, half a nat each; or are so many
    of_chance: float = 0.1
    most_passes: int = 20
    # By how much BIC has to be better than that of one component: many starts look for
    # a few rows that a narrow component fits by chance, which BIC does not count
    clear_bic: float = 20.0
    # Rows for each parameter of two components, at least
    rows_each: float = 10.0
    ridge: float = 1.0  # Pseudo-rows at zero for slopes of components and of log odds


MIXTURE_SPEC = MixtureSpec()


@saved_fit(
    {
        "x_scaling": "p",
        "y_scaling": "p=1",
        "slopes": "q k moderate",
        "stds": "k positive",
        "odds": "q k moderate",
    }
)
@dataclass(frozen=True, eq=False)
class RegressionMixture:
    """A fitted mixture of k linear regressions."""

    x_scaling: Scaling
    y_scaling: Scaling
    slopes: Array  # a, in standard units of x and y, intercepts first, (1 + p, k)
    stds: Array  # σ, in standard units of y, (k,)
    odds: Array  # B, (1 + p, k)

    def check_saved(self) -> None:
        """Refuse coefficients of other columns."""
        if len(self.slopes) != 1 + len(self.x_scaling.center):
            raise ValueError("array slopes of RegressionMixture has other columns")

    @property
    def gated(self) -> bool:
        """Whether masses depend on x."""
        return bool(np.any(self.odds[1:]))

    def at(self, X: Array) -> tuple[Array, Array, Array]:
        """Log masses, means and standard deviations in the units of y, (n, k) each."""
        F = _features(self.x_scaling, X)
        center, unit = float(self.y_scaling.center[0]), float(self.y_scaling.scale[0])
        log_masses = special.log_softmax(F @ self.odds, axis=1)
        means = center + unit * (F @ self.slopes)
        return log_masses, means, np.broadcast_to(unit * self.stds, means.shape)

    def log_joint(self, X: Array, y: Array) -> Array:
        """Log π_c(x) N(y; f(x)·a_c, σ_c²) of rows and components, (n, k)."""
        log_masses, means, stds = self.at(X)
        return log_masses + _log_normal((y[:, None] - means) / stds, stds)


def fit_regression_mixture(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,
    spec: MixtureSpec = MIXTURE_SPEC,
    *,
    alone: bool = False,  # Whether one component is an answer, too
) -> RegressionMixture | None:
    """The mixture with the best BIC; None if one component is nearly as good.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(300, 1))
        >>> y = rng.choice([-3.0, 3.0], 300) * x[:, 0] + 0.3 * rng.normal(size=300)
        >>> fit = fit_regression_mixture(x, y, np.ones(300), rng)
        >>> log_masses, means, stds = fit.at(np.array([[1.0]]))
        >>> np.sort(means).round(), np.exp(log_masses).round(1)
        (array([[-3.,  3.]]), array([[0.5, 0.5]]))
    """
    rows = _Rows.of(X, y, weights)
    few = rows.part(spec.chosen_rows)
    q = rows.F.shape[1]
    enough = len(few.u) >= spec.rows_each * (2 * (q + 1) + 1)
    if not (enough or alone):
        return None
    one = _run(few, np.ones((len(few.u), 1)), False, spec, spec.most_rounds)
    assert one is not None
    best = one
    for k in range(2, spec.most_components + 1 if enough else 2):
        start = _best_start(few, k, rng, spec)
        if start is None:
            break
        R = special.softmax(start.log_joint(few), axis=1)
        for gated in (False, True):
            found = _run(few, R, gated, spec, spec.most_rounds)
            margin = spec.clear_bic if best is one else 0.0
            if found is not None and found.bic < best.bic - margin:
                best = found
        if len(best.stds) < k:
            break
    if best is one and not alone:
        return None
    mixture = best.mixture(rows)
    if few is rows:
        return mixture
    return refit_regression_mixture(mixture, X, y, weights, spec)


@dataclass(frozen=True, eq=False)
class MixtureSums:
    """Sums over rows from which a round of EM finds the next mixture.

    With w the weights of rows, r_c their responsibilities, f and u rows in standard
    units, and π the masses. Sums over blocks of rows add up.
    """

    total: float  # Log-likelihood of the mixture that the responsibilities are of
    grams: Array  # Σ w r_c f fᵀ, (k, q, q)
    moments: Array  # Σ w r_c f u, (q, k)
    squares: Array  # Σ w r_c u², (k,)
    # Derivatives of Σ w r_c log π_c by log odds, zero if these do not depend on x
    gradient: Array  # Σ w (r_c − π_c) f, (q, k)
    hessian: Array  # Σ w π_a (δ_ab − π_b) f fᵀ, (k − 1, q, k − 1, q)

    @property
    def counts(self) -> Array:
        """Rows of each component, (k,); f begins with a one."""
        return self.grams[:, 0, 0]

    def __add__(self, other: "MixtureSums") -> "MixtureSums":
        parts = [getattr(self, f.name) + getattr(other, f.name) for f in fields(self)]
        return MixtureSums(*parts)


# Sums over all rows, given the mixture that responsibilities are of.
PassOverRows = Callable[[RegressionMixture], MixtureSums]


def mixture_sums(
    mixture: RegressionMixture, X: Array, y: Array, weights: Array
) -> MixtureSums:
    """What rows add to the sums of a round of EM that begins at a mixture."""
    rows = _Rows.in_units(X, y, weights, mixture.x_scaling, mixture.y_scaling)
    joint = mixture.log_joint(X, y)
    log_p = special.logsumexp(joint, axis=1)
    odds = mixture.odds if mixture.gated else None
    sums = _sums(rows, np.exp(joint - log_p[:, None]), odds)
    return replace(sums, total=float(weights @ log_p))


def refit_regression_mixture(
    mixture: RegressionMixture,
    X: Array,
    y: Array,
    weights: Array,
    spec: MixtureSpec = MIXTURE_SPEC,
    all_rows: PassOverRows | None = None,
) -> RegressionMixture:
    """A mixture with as many components for other rows, which begins where it was.

    It is what it was if a component dies out.

    Args:
        mixture: Where to begin.
        X: Conditions, (n, p).
        y: Responses, (n,).
        weights: Row weights, (n,).
        spec: How EM is run.
        all_rows: Sums over all rows, if X and y are a sample of them; None if not.
    """
    rows = _Rows.of(X, y, weights)
    some = rows.part(spec.most_rows)
    R = special.softmax(mixture.log_joint(X[some.index], y[some.index]), axis=1)
    found = _run(some, R, mixture.gated, spec, spec.most_rounds)
    if found is None:
        return mixture
    mixture = found.mixture(rows)
    if all_rows is None and some is rows:
        return mixture
    own = functools.partial(mixture_sums, X=X, y=y, weights=weights)
    return _with_all_rows(mixture, all_rows or own, spec)


def _with_all_rows(
    mixture: RegressionMixture, all_rows: PassOverRows, spec: MixtureSpec
) -> RegressionMixture:
    """Rounds of EM, each of which is one pass over all rows."""
    (q, k), gated = mixture.slopes.shape, mixture.gated
    enough = spec.of_chance * 0.5 * _parameters(q, k, gated)
    before = -np.inf
    for _ in range(spec.most_passes):
        sums = all_rows(mixture)
        if _died_out(sums, spec):
            break
        new = _maximised(sums, mixture.stds, mixture.odds, gated, spec)
        mixture = replace(mixture, slopes=new.slopes, stds=new.stds, odds=new.odds)
        if sums.total - before < enough:
            break
        before = sums.total
    return mixture


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows in standard units."""

    F: Array  # (1, z), (n, 1 + p)
    u: Array  # Responses, (n,)
    weights: Array
    x_scaling: Scaling
    y_scaling: Scaling
    index: Indices  # Which of the rows they are

    @classmethod
    def of(cls, X: Array, y: Array, weights: Array) -> "_Rows":
        weights = usable_weights(weights)
        x_scaling = scaling_of("x", X, weights)
        y_scaling = scaling_of("y", y[:, None], weights)
        return cls.in_units(X, y, weights, x_scaling, y_scaling)

    @classmethod
    def in_units(
        cls, X: Array, y: Array, weights: Array, x_scaling: Scaling, y_scaling: Scaling
    ) -> "_Rows":
        """Rows in units that are known, with weights as they are."""
        u = y_scaling.forward(y[:, None])[:, 0]
        index = np.arange(len(u))
        return cls(_features(x_scaling, X), u, weights, x_scaling, y_scaling, index)

    def part(self, most: int) -> "_Rows":
        """At most so many, evenly spaced."""
        if len(self.u) <= most:
            return self
        some = np.linspace(0, len(self.u) - 1, most).astype(int)
        F, u, weights = self.F[some], self.u[some], self.weights[some]
        return replace(self, F=F, u=u, weights=weights, index=some)


@dataclass(frozen=True, eq=False)
class _Components:
    """Components in standard units, and what they are worth."""

    slopes: Array  # (1 + p, k)
    stds: Array  # (k,)
    odds: Array  # (1 + p, k)
    total: float = -np.inf  # Log-likelihood
    bic: float = np.inf  # −2 log-likelihood plus log n for each parameter

    def log_joint(self, rows: _Rows) -> Array:
        """Log π_c(x) N(u; f·a_c, σ_c²) of each row and component, (n, k)."""
        z = (rows.u[:, None] - rows.F @ self.slopes) / self.stds
        log_masses = special.log_softmax(rows.F @ self.odds, axis=1)
        return log_masses + _log_normal(z, self.stds)

    def mixture(self, rows: _Rows) -> RegressionMixture:
        return RegressionMixture(
            rows.x_scaling, rows.y_scaling, self.slopes, self.stds, self.odds
        )


def _log_normal(z: Array, stds: Array) -> Array:
    return np.asarray(-0.5 * z * z - np.log(stds) - 0.5 * np.log(2.0 * np.pi))


def _features(scaling: Scaling, X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), scaling.forward(X)])


def _best_start(
    rows: _Rows, k: int, rng: np.random.Generator, spec: MixtureSpec
) -> _Components | None:
    """The best of short runs from lines through few rows each, and side by side."""
    n, q = rows.F.shape
    best: _Components | None = None
    for start in range(spec.starts):
        if start == 0:
            line = np.linalg.lstsq(rows.F, rows.u, rcond=None)[0]
            order = np.argsort(np.argsort(rows.u - rows.F @ line))
            R = np.eye(k)[order * k // n]
        else:
            drawn = rng.permutation(n)[: k * (q + 1)].reshape(k, -1)
            pairs = [(rows.F[d], rows.u[d]) for d in drawn]
            lines = [_ridge(F.T @ F, F.T @ u, 0.1) for F, u in pairs]
            distances = np.abs(rows.u[:, None] - rows.F @ np.stack(lines, axis=1))
            R = np.eye(k)[distances.argmin(axis=1)]
        found = _run(rows, R, False, spec, spec.short_rounds)
        if found is not None and (best is None or found.total > best.total):
            best = found
    return best


def _ridge(gram: Array, moments: Array, ridge: float) -> Array:
    """Slopes of a ridge regression with a free intercept, from FᵀF and Fᵀu, (q,)."""
    penalty = np.append(1e-9, np.full(len(gram) - 1, ridge))
    return np.asarray(np.linalg.solve(gram + np.diag(penalty), moments))


def _run(
    rows: _Rows, R: Array, gated: bool, spec: MixtureSpec, rounds: int
) -> _Components | None:
    """EM from given responsibilities R (n, k); None if a component dies out."""
    n, (q, k) = float(rows.weights.sum()), (rows.F.shape[1], R.shape[1])
    odds, stds = _constant_odds(rows.weights @ R, q), np.ones(k)
    before, found = -np.inf, None
    for _ in range(rounds):
        sums = _sums(rows, R, odds if gated else None)
        if k > 1 and _died_out(sums, spec):
            return None
        found = _maximised(sums, stds, odds, gated, spec)
        stds, odds = found.stds, found.odds
        joint = found.log_joint(rows)
        log_p = special.logsumexp(joint, axis=1)
        total = float(rows.weights @ log_p)
        if total - before < spec.enough_nats * n:
            break
        before, R = total, np.exp(joint - log_p[:, None])
    assert found is not None
    bic = -2.0 * total + _parameters(q, k, gated) * np.log(n)
    return replace(found, total=total, bic=bic)


def _parameters(q: int, k: int, gated: bool) -> int:
    return k * (q + 1) + (k - 1) * (q if gated else 1)


def _died_out(sums: MixtureSums, spec: MixtureSpec) -> bool:
    """Whether a component has too few rows."""
    least = max(spec.fewest_rows, len(sums.moments) + 1.0)
    return bool(sums.counts.min() < least)


def _sums(rows: _Rows, R: Array, odds: Array | None) -> MixtureSums:
    """Sums for responsibilities R (n, k), and log odds B if they depend on x."""
    F, u, (q, k) = rows.F, rows.u, (rows.F.shape[1], R.shape[1])
    W = rows.weights[:, None] * R
    grams = np.stack([F.T @ (W[:, c, None] * F) for c in range(k)])
    gradient, hessian = np.zeros((q, k)), np.zeros((k - 1, q, k - 1, q))
    if odds is not None:
        P = special.softmax(F @ odds, axis=1)
        gradient = F.T @ (W - rows.weights[:, None] * P)
        for a, b in itertools.product(range(k - 1), repeat=2):
            own = rows.weights * P[:, a] * ((a == b) - P[:, b])
            hessian[a, :, b] = F.T @ (own[:, None] * F)
    moments, squares = F.T @ (W * u[:, None]), W.T @ (u * u)
    return MixtureSums(np.nan, grams, moments, squares, gradient, hessian)


def _maximised(
    sums: MixtureSums, stds: Array, odds: Array, gated: bool, spec: MixtureSpec
) -> _Components:
    """The next components, after ones with these stds and log odds."""
    ridges = spec.ridge * stds**2
    pairs = zip(sums.grams, sums.moments.T, ridges, strict=True)
    slopes = np.stack(list(itertools.starmap(_ridge, pairs)), axis=1)
    # Σ w r (u − f·a)²
    explained = np.einsum("qc,cqr,rc->c", slopes, sums.grams, slopes)
    squares = sums.squares - 2.0 * np.sum(slopes * sums.moments, axis=0) + explained
    stds = np.sqrt(np.maximum(squares / sums.counts, spec.smallest_std**2))
    if gated:
        return _Components(slopes, stds, _newton_step(sums, odds, spec))
    return _Components(slopes, stds, _constant_odds(sums.counts, len(odds)))


def _constant_odds(counts: Array, q: int) -> Array:
    """B whose masses are shares of rows whatever x is, (q, k)."""
    odds = np.zeros((q, len(counts)))
    odds[0] = np.log(np.maximum(counts / counts.sum(), np.finfo(float).tiny))
    return odds


def _newton_step(sums: MixtureSums, odds: Array, spec: MixtureSpec) -> Array:
    """B after a step of a logistic regression on responsibilities, (q, k)."""
    q, k = odds.shape
    ridge = np.append(1e-9, np.full(q - 1, spec.ridge))
    gradient = sums.gradient - ridge[:, None] * odds
    # Log odds are those against the last component, whose coefficients stay.
    size = (k - 1) * q
    H = sums.hessian.reshape(size, size) + np.diag(np.tile(ridge, k - 1) + 1e-9)
    step = np.linalg.solve(H, gradient[:, :-1].T.ravel())
    found = odds.copy()
    found[:, :-1] += step.reshape(k - 1, q).T
    return found
