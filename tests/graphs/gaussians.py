"""Factors with a known truth: normal conditionals that are linear in the parents."""

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator

from kexpfam import FactorizedDensity


class LinearNormal(BaseEstimator):
    """p(y|x) = N(y; intercept + x·slopes, scale²), by least squares."""

    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        design = np.column_stack([np.ones(len(X)), X])
        root = np.sqrt(w)[:, None]
        self.coef_ = np.linalg.lstsq(design * root, y * root[:, 0], rcond=None)[0]
        residuals = y - design @ self.coef_
        self.scale_ = np.sqrt(w @ residuals**2 / w.sum())
        return self

    def mean(self, X):
        return self.coef_[0] + X @ self.coef_[1:]

    def score_samples(self, X, y):
        return stats.norm.logpdf(y, self.mean(X), self.scale_)

    def sample(self, X, n_samples=1, random_state=None):
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((len(X), n_samples))
        return self.mean(X)[:, None] + self.scale_ * noise


class Normal(BaseEstimator):
    """p(y) = N(mean, covariance), in any number of columns."""

    def fit(self, X, y=None):
        self.mean_, self.cov_ = (
            X.mean(axis=0),
            np.cov(X.T, ddof=0).reshape(X.shape[1], X.shape[1]),
        )
        return self

    def score_samples(self, X):
        return stats.multivariate_normal(self.mean_, self.cov_).logpdf(X)

    def sample(self, n_samples=1, random_state=None):
        rng = np.random.default_rng(random_state)
        return rng.multivariate_normal(self.mean_, self.cov_, n_samples)


def linear_table(noise):
    """Three columns, (400, 3): linear in those before, with normal noise."""
    rng = np.random.default_rng(0)
    a = rng.normal(1.0, 2.0, 400)
    b = 0.5 * a + rng.normal(0, 1.0, 400)
    return np.column_stack([a, b, a - b + rng.normal(0, noise, 400)])


def normal_joint(table):
    """The full graph of normal factors of a table."""
    return FactorizedDensity(factor=LinearNormal(), root=Normal()).fit(table)


def joint_of(model):
    """Mean and covariance of a fitted full graph of these factors, by substitution."""
    d = model.n_features_in_
    mean, loading = np.zeros(d), np.zeros((d, d))  # y = mean + loading · noise
    for k, node in enumerate(model.graph_.nodes):
        (c,), parents = node.columns, list(node.parents)
        estimator = list(model.factors_.values())[k]
        if parents:
            slopes, scale = estimator.coef_[1:], estimator.scale_
            mean[c] = estimator.coef_[0] + slopes @ mean[parents]
            loading[c] = slopes @ loading[parents]
        else:
            mean[c], scale = estimator.mean_[0], np.sqrt(estimator.cov_[0, 0])
        loading[c, k] = scale
    return mean, loading @ loading.T


def conditioned(mean, cov, known, values):
    """Mean and covariance of a normal vector given some of its entries."""
    rest = [i for i in range(len(mean)) if i not in known]
    gain = cov[np.ix_(rest, known)] @ np.linalg.inv(cov[np.ix_(known, known)])
    new_mean = mean[rest] + gain @ (np.asarray(values) - mean[known])
    return new_mean, cov[np.ix_(rest, rest)] - gain @ cov[np.ix_(known, rest)]
