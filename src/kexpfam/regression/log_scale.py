"""How wide the noise is at each x: penalised likelihood of a log scale.

Residuals are taken for r_i ~ N(0, exp(2 l(x_i))), where l is linear in features of x,

    minimise over b:  Σ_i w_i [l_i + ½ r_i² exp(−2 l_i)] + ½ τ ‖b‖²,   l = b_0 + F b.

This is convex. Its expected Hessian 2 F'wF does not depend on b, so one
eigendecomposition serves every step of Fisher scoring and every τ at once.
"""

from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array
from kexpfam.persistence import saved_fit
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights


@dataclass(frozen=True)
class LogScaleSpec:
    """What a log scale is made of, and how it is fitted."""

    # Penalties τ that are tried; the last one leaves a constant.
    penalties: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0, 32.0, 1e4)
    n_folds: int = 5  # Of the cross-validation
    most_bumps: int = 60  # Among the features
    bump_width: float = 0.5  # As a share of the median distance of x
    most_rows: int = 20_000  # Hardly a hundred coefficients need no more to learn from
    # Squared residuals are not smaller than this share of their mean: a residual that
    # happens to be zero is no evidence of noise without width.
    smallest_square: float = 1e-6
    # And that mean is not smaller than this: residuals of zero have a logarithm, too.
    smallest_mean: float = 1e-24
    # The log scale may leave the range it has on the training rows by this much.
    margin: float = 0.5
    most_steps: int = 60
    most_halvings: int = 8
    # No step changes a log scale by more than this, so that exponentials stay finite.
    longest_step: float = 3.0
    # Steps end when none gains more than this many nats; losses of less are rounding.
    enough_nats: float = 1e-4
    rounding_nats: float = 1e-7


LOG_SCALE_SPEC = LogScaleSpec()


@saved_fit(
    {
        "x_scaling": "p",
        "mean_scaling": "p=1",
        "centers": "m p moderate",
        "width": "positive moderate divisor",
    }
)
@dataclass(frozen=True, eq=False)
class LogScaleFeatures:
    """Features of l(x): x, the predicted mean, and bumps at some training rows."""

    x_scaling: Scaling  # Standard units of x
    mean_scaling: Scaling  # Standard units of the predicted mean, one column
    centers: Array  # Where the bumps are, in standard units, (m, p)
    width: float  # Width of the bumps

    def at(self, X: Array, mean: Array) -> Array:
        """Features at conditions X, (n, p), with predicted means (n,)."""
        Z = self.x_scaling.forward(X)
        distances = squared_distances(Z, self.centers)
        distances *= -0.5 / self.width**2
        bumps = np.exp(distances, out=distances)
        location = self.mean_scaling.forward(mean[:, None])
        return np.concatenate([Z, location, bumps], axis=1)


@saved_fit(
    {
        "features": "m p",
        "intercept": "moderate",
        "coefficients": "m+p+1 moderate",
        "lower": "log_scale",
        "upper": "log_scale >=lower",
    }
)
@dataclass(frozen=True, eq=False)
class LogScale:
    """A fitted log scale l(x) = intercept + features·coefficients, kept in bounds."""

    features: LogScaleFeatures  # How features are made
    intercept: float  # Value where all features are zero
    coefficients: Array  # Of the features, (q,)
    lower: float  # Smallest value at any x
    upper: float  # Largest value at any x

    def at(
        self,
        X: Array,
        mean: Array,
        chunk_numbers: int = 2**21,  # Features of rows that are in memory together
    ) -> Array:
        """Log scale at conditions X, (n, p), with predicted means (n,)."""
        values = np.empty(len(X))
        height = max(1, chunk_numbers // len(self.coefficients))
        for start in range(0, len(X), height):
            i = slice(start, start + height)
            values[i] = self.features.at(X[i], mean[i]) @ self.coefficients
        return np.clip(self.intercept + values, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class LogScaleFit:
    """A log scale fitted to residuals."""

    model: LogScale  # Log scale at any x
    values: Array  # The model at the training rows, (n,)
    held_out: Array  # Log scale of each row by a model that has not seen it, (n,)


def fit_log_scale(
    X: Array,  # Conditions, (n, p)
    # Predicted means, which the scale may follow, (n,). They must be a function of x:
    # held-out means depend on the row's own response.
    mean: Array,
    residuals: Array,  # r, held out from the regression of the mean, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,  # Deals the folds and chooses the bumps
    *,
    least_mean_unit: float = 0.0,  # The unit of the mean as a feature is not smaller
    spec: LogScaleSpec = LOG_SCALE_SPEC,
) -> LogScaleFit:
    """Fit l(x) with the penalty of best held-out likelihood.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(400, 1))
        >>> r = np.exp(x[:, 0]) * rng.normal(size=400)
        >>> fit = fit_log_scale(x, x[:, 0], r, np.ones(400), rng)
        >>> ends = np.array([[-1.0], [1.0]])
        >>> np.diff(fit.model.at(ends, ends[:, 0])).round(0)  # of the log scale x
        array([2.])
    """
    weights = usable_weights(weights)
    rows = np.arange(len(residuals))
    if len(rows) > spec.most_rows:
        rows = np.sort(rng.permutation(len(rows))[: spec.most_rows])
    x, m, w, squares = X[rows], mean[rows], weights[rows], residuals[rows] ** 2
    folds = rng.permutation(len(rows)) % min(spec.n_folds, len(rows))
    features = _features(x, m, w, rng, least_mean_unit, spec)
    F = features.at(x, m)
    tau = np.array(spec.penalties)
    predicted = np.empty((len(rows), len(tau)))
    for k in range(int(folds.max()) + 1):
        train, test = folds != k, folds == k
        b0, b, lower, upper = _fit_path(F[train], squares[train], w[train], tau, spec)
        predicted[test] = np.clip(b0 + F[test] @ b, lower, upper)
    loss = w @ (predicted + 0.5 * squares[:, None] * np.exp(-2.0 * predicted))
    best = int(np.argmin(loss))
    b0, b, lower, upper = _fit_path(F, squares, w, tau[best : best + 1], spec)
    # Held-out values have the smaller range: at the edge of the data some rows make
    # their own scale small, and a new row there must not pay for it.
    model = LogScale(
        features,
        float(b0[0]),
        b[:, 0],
        float(max(lower[0], predicted[:, best].min() - spec.margin)),
        float(min(upper[0], predicted[:, best].max() + spec.margin)),
    )
    values = model.at(X, mean)
    held_out = values.copy()  # other rows the model has not seen
    held_out[rows] = predicted[:, best]
    return LogScaleFit(model, values, held_out)


def squared_distances(A: Array, B: Array) -> Array:
    """‖a − b‖² of all pairs of rows, (len(A), len(B))."""
    a2, b2 = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B)
    distances = A @ (-2.0 * B.T)
    distances += a2[:, None]
    distances += b2
    return np.maximum(distances, 0.0, out=distances)


def _features(
    X: Array,
    mean: Array,
    weights: Array,
    rng: np.random.Generator,
    least_mean_unit: float,
    spec: LogScaleSpec,
) -> LogScaleFeatures:
    x_scaling = scaling_of("x", X, weights)
    centers = x_scaling.forward(X[rng.permutation(len(X))[: spec.most_bumps]])
    pairs = np.triu_indices(len(centers), 1)
    distances = np.sqrt(squared_distances(centers, centers)[pairs])
    distances = distances[distances > 1e-6]
    typical = float(np.median(distances)) if distances.size else 1.0
    units = scaling_of("mean", mean[:, None], weights)
    units = replace(units, scale=np.maximum(units.scale, least_mean_unit))
    return LogScaleFeatures(x_scaling, units, centers, spec.bump_width * typical)


def _fit_path(
    F: Array, squares: Array, weights: Array, tau: Array, spec: LogScaleSpec
) -> tuple[Array, Array, Array, Array]:
    """Intercepts (t,), coefficients (q, t) and bounds of l, (t,) each, for every τ.

    By Fisher scoring, on features turned so that steps are divisions.
    """
    total = float(weights.sum())
    typical = max(float(weights @ squares) / total, spec.smallest_mean)
    squares = np.maximum(squares / typical, spec.smallest_square)
    middle = weights @ F / total
    centred = F - middle
    # 2 F'wF = V diag(2 Λ) V'; centred features do not interact with the intercept.
    eigenvalues, V = np.linalg.eigh(centred.T @ (weights[:, None] * centred))
    G = np.column_stack([np.ones(len(F)), centred @ V])
    curvature = 2.0 * np.append(total, np.maximum(eigenvalues, 0.0))[:, None]
    penalty = tau * np.append(0.0, np.ones(len(V)))[:, None]
    B, L = _descend(G, squares, weights, curvature, penalty, spec)
    offset = 0.5 * np.log(typical)
    coefficients = V @ B[1:]
    return (
        offset + B[0] - middle @ coefficients,
        coefficients,
        offset + L.min(axis=0) - spec.margin,
        offset + L.max(axis=0) + spec.margin,
    )


def _descend(
    G: Array,
    squares: Array,
    weights: Array,
    curvature: Array,
    penalty: Array,
    spec: LogScaleSpec,
) -> tuple[Array, Array]:
    """Coefficients (q, t) and log scales (n, t) where the objectives are least."""
    B = np.zeros((G.shape[1], penalty.shape[1]))
    L = np.zeros((len(G), penalty.shape[1]))
    ratio = np.broadcast_to(squares[:, None], L.shape)  # r² exp(−2 l)
    loss = weights @ (L + 0.5 * ratio)
    for _ in range(spec.most_steps):
        gradient = G.T @ (weights[:, None] * (1.0 - ratio)) + penalty * B
        step = -gradient / (curvature + penalty)
        change = G @ step
        largest = np.abs(change).max(axis=0) + 1e-12
        length = np.minimum(1.0, spec.longest_step / largest)
        for _ in range(spec.most_halvings):
            new_B, new_L = B + length * step, L + length * change
            new_ratio = squares[:, None] * np.exp(-2.0 * new_L)
            new_loss = weights @ (new_L + 0.5 * new_ratio)
            new_loss += 0.5 * np.einsum("qt,qt->t", penalty * new_B, new_B)
            worse = ~(new_loss <= loss + spec.rounding_nats)
            if not worse.any():
                break
            length[worse] *= 0.5
        if worse.any():
            new_B[:, worse], new_L[:, worse] = B[:, worse], L[:, worse]
            new_ratio[:, worse], new_loss[worse] = ratio[:, worse], loss[worse]
        gain = float(np.max(loss - new_loss))
        B, L, ratio, loss = new_B, new_L, new_ratio, new_loss
        if gain < spec.enough_nats:
            break
    return B, L
