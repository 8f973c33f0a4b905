"""Linear mean and log scale of normal responses of which some are censored.

    minimise over b, c:  −Σ_i w_i log P(lower_i ≤ y_i ≤ upper_i) + ½ρ‖b‖² + ½τ‖c‖²,
    y ~ N(m, exp(2l)),  m = b_0 + x·b,  l = c_0 + x·c,

with the density at y in the place of the probability where y was observed (a Tobit
model). Values that were censored are not taken for values, so that neither mean nor
scale is biased if the responses are normal.
"""

import math

import numpy as np
from scipy import optimize, special

from kexpfam._typing import Array
from kexpfam.regression.linear import LINEAR_SPEC, LinearLocationScale, LinearSpec
from kexpfam.regression.scaling import scaling_of

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def fit_censored_linear(
    X: Array,  # Conditions, (n, p); none for a constant mean and scale
    lower: Array,  # Lower ends of the responses, about in standard units, (n,)
    upper: Array,  # Upper ends, equal where they were observed, (n,)
    weights: Array,  # Row weights, (n,)
    *,
    mean_penalty: float = 1.0,  # ρ: the middle of those that `fit_linear` tries
    scale_penalty: float = 3.0,  # τ
    spec: LinearSpec = LINEAR_SPEC,
) -> LinearLocationScale:
    """Fit mean and log scale by penalised likelihood.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(1.0, 2.0, 2000)
        >>> upper = np.where(y > 2.0, np.inf, y)
        >>> lower = np.minimum(y, 2.0)
        >>> fit = fit_censored_linear(np.empty((2000, 0)), lower, upper, np.ones(2000))
        >>> fit.location.round(1), np.exp(fit.log_scale).round(1)
        (array([1.]), array([2.]))
    """
    scaling = scaling_of("x", X, weights)
    D = np.column_stack([np.ones(len(X)), scaling.forward(X)])
    q = D.shape[1]
    free = np.append(0.0, np.ones(q - 1))  # the intercept is not penalised
    ridge = np.concatenate([mean_penalty * free, scale_penalty * free])
    finite = np.where(np.isfinite(lower), lower, upper)
    middle = float(np.average(finite, weights=weights))
    std = math.sqrt(float(np.average((finite - middle) ** 2, weights=weights)))
    theta = np.zeros(2 * q)
    theta[0], theta[q] = middle, math.log(max(std, 1e-3))

    def loss(theta: Array) -> tuple[float, Array]:
        mean = D @ theta[:q]
        # Beyond these no optimum is, and exponentials must stay finite.
        log_scale = np.clip(D @ theta[q:], -15.0, 15.0)
        value, of_mean, of_scale = normal_log_masses(lower, upper, mean, log_scale)
        gradient = np.concatenate([(weights * of_mean) @ D, (weights * of_scale) @ D])
        total = 0.5 * float(ridge @ theta**2) - float(weights @ value)
        return total, ridge * theta - gradient

    found = optimize.minimize(loss, theta, jac=True, method="L-BFGS-B")
    b, c = found.x[:q], found.x[q:]
    values = D @ c
    return LinearLocationScale(
        scaling,
        b,
        c,
        float(values.min()) - spec.margin * (q > 1),
        float(values.max()) + spec.margin * (q > 1),
    )


def normal_log_masses(
    lower: Array, upper: Array, mean: Array, log_scale: Array
) -> tuple[Array, Array, Array]:
    """Log mass of N(mean, scale²) between ends, or log density where they are equal.

    Returns:
        These, and their derivatives by the mean and by the log scale, (n,) each.
    """
    scale = np.exp(log_scale)
    a, b = (lower - mean) / scale, (upper - mean) / scale
    exact = lower == upper
    z = np.where(exact, a, 0.0)
    value = -log_scale - 0.5 * z * z - _HALF_LOG_2PI
    of_mean, of_scale = z / scale, z * z - 1.0
    a, b = a[~exact], b[~exact]
    # Whichever tail is smaller has more digits.
    flip = a + b > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    log_mass = special.log_ndtr(high) + np.log1p(
        -np.exp(np.minimum(special.log_ndtr(low) - special.log_ndtr(high), -1e-300))
    )
    at_a, at_b = (np.exp(-0.5 * e * e - _HALF_LOG_2PI - log_mass) for e in (a, b))
    a_at_a = np.where(np.isfinite(a), np.nan_to_num(a) * at_a, 0.0)
    b_at_b = np.where(np.isfinite(b), np.nan_to_num(b) * at_b, 0.0)
    value[~exact] = log_mass
    of_mean[~exact] = (at_a - at_b) / scale[~exact]
    of_scale[~exact] = a_at_a - b_at_b
    return value, of_mean, of_scale
