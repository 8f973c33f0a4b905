"""A mixture of linear regressions whose masses may depend on x.

    p(y | x) = Σ_c π_c(x) N(y; f(x)·a_c, σ_c²),  π(x) = softmax(f(x) B),  f(x) = (1, z)

with z the standardised x: lines that cross, groups with slopes of their own, regimes
between which x decides. It says with few numbers what a kernel has to learn cell by
cell. Fitted by EM from many short runs, of which the best goes on; ridges are those of
slopes of about a standard unit. The number of components, and whether masses depend on
x, are those with the best BIC.

References:
    Quandt (1972), switching regressions; DeSarbo and Cron (1988), mixtures of linear
    regressions; Jacobs, Jordan, Nowlan and Hinton (1991), masses that depend on x;
    Biernacki, Celeux and Govaert (2003), short runs of EM.
"""

import itertools
from dataclasses import dataclass, replace

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
    # Rows on which the number of components is chosen, and rows of a fit, at most
    chosen_rows: int = 1000
    most_rows: int = 20_000
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
    if len(few.u) < spec.rows_each * (2 * (q + 1) + 1):
        return None
    alone = _run(few, np.ones((len(few.u), 1)), False, spec, spec.most_rounds)
    assert alone is not None
    best = alone
    for k in range(2, spec.most_components + 1):
        start = _best_start(few, k, rng, spec)
        if start is None:
            break
        R = special.softmax(start.log_joint(few), axis=1)
        for gated in (False, True):
            found = _run(few, R, gated, spec, spec.most_rounds)
            margin = spec.clear_bic if best is alone else 0.0
            if found is not None and found.bic < best.bic - margin:
                best = found
        if len(best.stds) < k:
            break
    if best is alone:
        return None
    mixture = best.mixture(rows)
    if few is rows:
        return mixture
    return refit_regression_mixture(mixture, X, y, weights, spec)


def refit_regression_mixture(
    mixture: RegressionMixture,
    X: Array,
    y: Array,
    weights: Array,
    spec: MixtureSpec = MIXTURE_SPEC,
) -> RegressionMixture:
    """A mixture with as many components for other rows, which begins where it was.

    It is what it was if a component dies out.
    """
    rows = _Rows.of(X, y, weights)
    some = rows.part(spec.most_rows)
    R = special.softmax(mixture.log_joint(X, y), axis=1)[some.index]
    gated = bool(np.any(mixture.odds[1:]))
    found = _run(some, R, gated, spec, spec.most_rounds)
    return mixture if found is None else found.mixture(rows)


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
            lines = [_ridge(rows.F[d], rows.u[d], np.ones(len(d)), 0.1) for d in drawn]
            distances = np.abs(rows.u[:, None] - rows.F @ np.stack(lines, axis=1))
            R = np.eye(k)[distances.argmin(axis=1)]
        found = _run(rows, R, False, spec, spec.short_rounds)
        if found is not None and (best is None or found.total > best.total):
            best = found
    return best


def _ridge(F: Array, u: Array, weights: Array, ridge: float) -> Array:
    """Slopes of a weighted ridge regression, with a free intercept, (1 + p,)."""
    G = F.T @ (weights[:, None] * F)
    G[np.diag_indices_from(G)] += np.append(1e-9, np.full(len(G) - 1, ridge))
    return np.asarray(np.linalg.solve(G, F.T @ (weights * u)))


def _run(
    rows: _Rows, R: Array, gated: bool, spec: MixtureSpec, rounds: int
) -> _Components | None:
    """EM from given responsibilities R (n, k); None if a component dies out."""
    n, (q, k) = float(rows.weights.sum()), (rows.F.shape[1], R.shape[1])
    odds, before, found = np.zeros((q, k)), -np.inf, None
    least = max(spec.fewest_rows, q + 1.0)
    stds = np.ones(k)
    for _ in range(rounds):
        W = rows.weights[:, None] * R
        counts = W.sum(axis=0)
        if k > 1 and counts.min() < least:
            return None
        slopes = np.stack(
            [
                _ridge(rows.F, rows.u, W[:, c], spec.ridge * stds[c] ** 2)
                for c in range(k)
            ],
            axis=1,
        )
        squares = (rows.u[:, None] - rows.F @ slopes) ** 2
        variances = np.sum(W * squares, axis=0) / counts
        stds = np.sqrt(np.maximum(variances, spec.smallest_std**2))
        odds = _gate(rows, W, odds, gated, spec)
        found = _Components(slopes, stds, odds)
        joint = found.log_joint(rows)
        log_p = special.logsumexp(joint, axis=1)
        total = float(rows.weights @ log_p)
        if total - before < spec.enough_nats * n:
            break
        before, R = total, np.exp(joint - log_p[:, None])
    assert found is not None
    parameters = k * (q + 1) + (k - 1) * (q if gated else 1)
    return replace(found, total=total, bic=-2.0 * total + parameters * np.log(n))


def _gate(rows: _Rows, W: Array, odds: Array, gated: bool, spec: MixtureSpec) -> Array:
    """B after a Newton step of a logistic regression with weights W (n, k)."""
    if not gated:
        found = np.zeros_like(odds)
        found[0] = np.log(W.sum(axis=0) / W.sum())
        return found
    if not odds.any():
        odds = odds.copy()
        odds[0] = np.log(W.sum(axis=0) / W.sum())
    q, k = odds.shape
    P = special.softmax(rows.F @ odds, axis=1)
    ridge = np.append(1e-9, np.full(q - 1, spec.ridge))
    gradient = rows.F.T @ (W - rows.weights[:, None] * P) - ridge[:, None] * odds
    H = np.zeros((k - 1, q, k - 1, q))
    for a, b in itertools.product(range(k - 1), repeat=2):
        own = rows.weights * P[:, a] * ((a == b) - P[:, b])
        H[a, :, b] = rows.F.T @ (own[:, None] * rows.F)
        if a == b:
            H[a, :, b] += np.diag(ridge)
    # Log odds are those against the last component, whose coefficients stay.
    size = (k - 1) * q
    step = np.linalg.solve(
        H.reshape(size, size) + 1e-9 * np.eye(size), gradient[:, :-1].T.ravel()
    )
    found = odds.copy()
    found[:, :-1] += step.reshape(k - 1, q).T
    return found
