"""Gaussian processes and penalised likelihoods written down as plainly as possible."""

from dataclasses import replace

import numpy as np
from scipy import optimize, stats

# Noise that the library adds so that matrices can be factorised.
SMALLEST_NOISE = 1e-8


def slow_covariance(h, A, B):
    """Latent covariance of all pairs of rows, by loops."""
    K = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            distance = sum(((a - b) / h.lengthscales) ** 2)
            K[i, j] = h.signal_variance * np.exp(-0.5 * distance)
            K[i, j] += h.linear_variance * (a @ b) + 0.01
    return K


def slow_log_posterior(h, X, y, factors):
    """Log marginal likelihood plus log priors, without the priors' constants."""
    K = slow_covariance(h, X, X) + np.diag(h.noise_variance * factors + SMALLEST_NOISE)
    value = stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y)
    value -= 0.5 * ((np.log(h.signal_variance) - np.log(0.5)) / 2.0) ** 2
    value -= 0.5 * ((np.log(h.linear_variance) - np.log(0.5)) / 2.0) ** 2
    value -= 0.5 * ((np.log(h.noise_variance) - np.log(0.2)) / 1.5) ** 2
    for ell in h.lengthscales:
        value -= 0.5 * (np.log(ell) - np.log(2.0 * np.sqrt(X.shape[1]))) ** 2
    return value


def slow_prediction(h, X, y, noise, new):
    """Mean and latent variance at new rows given training rows with noise variances."""
    inverse = np.linalg.inv(slow_covariance(h, X, X) + np.diag(noise + SMALLEST_NOISE))
    cross = slow_covariance(h, new, X)
    covariance = slow_covariance(h, new, new) - cross @ inverse @ cross.T
    return cross @ inverse @ y, np.diag(covariance)


def slow_log_scale(F, squares, weights, tau):
    """Intercept and coefficients of the penalised log scale by a general minimiser."""

    def objective(b):
        log_scale = b[0] + F @ b[1:]
        terms = log_scale + 0.5 * squares * np.exp(-2.0 * log_scale)
        ratio = squares * np.exp(-2.0 * log_scale)
        slope = weights * (1.0 - ratio)
        gradient = np.append(slope.sum(), F.T @ slope + tau * b[1:])
        return weights @ terms + 0.5 * tau * b[1:] @ b[1:], gradient

    start = np.append(0.5 * np.log(np.average(squares, weights=weights)), 0 * F[0])
    return optimize.minimize(objective, start, jac=True, options={"gtol": 1e-8}).x


def slow_linear(X, y, weights, rho, tau):
    """Coefficients (b, c) of the linear mean and log scale by a general minimiser."""
    D = np.column_stack([np.ones(len(X)), X])
    q = D.shape[1]

    def objective(theta):
        b, c = theta[:q], theta[q:]
        squares = (y - D @ b) ** 2 + 1e-8
        terms = D @ c + 0.5 * squares * np.exp(-2.0 * (D @ c))
        penalty = 0.5 * rho * b[1:] @ b[1:] + 0.5 * tau * c[1:] @ c[1:]
        return weights @ terms + penalty

    found = optimize.minimize(objective, np.zeros(2 * q), options={"gtol": 1e-6})
    return found.x[:q], found.x[q:], found.fun


def slow_inducing_prediction(h, points, X, y, noise, new):
    """Mean and latent variance with inducing points, by matrices between all rows.

    Rows have the covariance that the points explain, the linear part and the constant;
    what the points do not explain is noise of each row, and variance of each new one.
    """
    curved = replace(h, linear_variance=0.0)
    inverse = np.linalg.inv(slow_covariance(curved, points, points) - 0.01)

    def explained(A, B):
        left = slow_covariance(curved, A, points) - 0.01
        return left @ inverse @ (slow_covariance(curved, B, points) - 0.01).T

    def latent(A, B):
        return explained(A, B) + h.linear_variance * A @ B.T + 0.01

    rest = h.signal_variance - np.diag(explained(X, X))
    K = latent(X, X) + np.diag(noise + SMALLEST_NOISE + rest)
    weights = np.linalg.solve(K, latent(X, new)).T
    variance = np.diag(slow_covariance(h, new, new))
    return weights @ y, variance - np.einsum("ij,ij->i", weights, latent(new, X))


def slow_inducing_points(h, X, count):
    """Rows of the largest conditional variance given those taken before, by loops."""
    curved = replace(h, linear_variance=0.0)
    K = slow_covariance(curved, X, X) - 0.01
    taken = []
    for _ in range(count):
        variance = np.diag(K).copy()
        if taken:
            cross = K[:, taken]
            known = np.linalg.inv(K[np.ix_(taken, taken)])
            variance -= np.einsum("ij,jk,ik->i", cross, known, cross)
        taken.append(int(np.argmax(variance)))
    return X[taken]
