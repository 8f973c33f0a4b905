"""Methods that `design_tables.py` compares with, each with its defaults.

Those of `rival_methods.py` that can take thousands of rows, and four more, which
`rivals.py` measures too. Each fit standardises with the mean and standard deviation of
its own training rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rival_methods import METHODS as SMALL
from rival_methods import ConditionalNormal, Density, rival
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

Array = np.ndarray

# Exact Gaussian processes of scikit-learn get so many rows, drawn at random.
PROCESS_ROWS = 1500


class FastProcess(GaussianProcessRegressor):
    """scikit-learn's process with signal * RBF + noise, its gradient without n x n x p.

    The derivative of K by log ℓⱼ is K ∘ Dⱼ with Dⱼ the squared differences of column j
    over ℓⱼ², so that ½ tr((αα' − K⁻¹) ∂K) are sums over W = (αα' − K⁻¹) ∘ K:
    Σ W Dⱼ = 2 Σᵢ rᵢ zᵢⱼ² − 2 zⱼ' W zⱼ with r the sums of its rows, z = x/ℓ.
    """

    def log_marginal_likelihood(
        self,
        theta: Array | None = None,
        eval_gradient: bool = False,
        clone_kernel: bool = True,
    ) -> Any:
        if not eval_gradient or theta is None:
            return super().log_marginal_likelihood(theta, clone_kernel=clone_kernel)
        X, y = self.X_train_, self.y_train_
        signal, *lengths, noise = np.exp(theta)
        Z = X / np.asarray(lengths)
        squares = np.sum(Z**2, axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * Z @ Z.T, 0.0)
        K = signal * np.exp(-0.5 * distances)
        K_y = K + (noise + self.alpha) * np.eye(len(y))
        try:
            factor = cho_factor(K_y, lower=True)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros_like(theta)
        a = cho_solve(factor, y)
        value = -0.5 * y @ a - np.sum(np.log(np.diag(factor[0])))
        inner = np.outer(a, a) - cho_solve(factor, np.eye(len(y)))
        W = inner * K
        by_length = W.sum(axis=1) @ Z**2 - np.sum(Z * (W @ Z), axis=0)
        gradient = [0.5 * W.sum(), *by_length, 0.5 * noise * np.trace(inner)]
        return value - 0.5 * len(y) * np.log(2.0 * np.pi), np.array(gradient)


def fit_process(X: Array, y: Array, seed: int) -> Density:
    from kexpfam.baselines import GaussianProcessDensity

    few = np.random.default_rng(seed).permutation(len(y))[:PROCESS_ROWS]
    signal, noise = ConstantKernel(1.0, (1e-3, 1e3)), WhiteKernel(0.1, (1e-5, 1e1))
    kernel = signal * RBF(np.ones(X.shape[1]), (1e-2, 1e3)) + noise
    process = FastProcess(kernel, normalize_y=True, n_restarts_optimizer=2)
    model = GaussianProcessDensity(estimator=process, random_state=seed)
    return model.fit(X[few], y[few])


def held_out(n: int, seed: int, share: float = 0.1) -> tuple[Array, Array]:
    """Rows to fit to, and rows to stop early on."""
    order = np.random.default_rng(seed).permutation(n)
    count = max(1, int(share * n))
    return order[count:], order[:count]


def fit_catboost(X: Array, y: Array, seed: int) -> Density:
    from catboost import CatBoostRegressor

    train, stop = held_out(len(y), seed)
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        random_seed=seed,
        verbose=False,
        thread_count=1,
        allow_writing_files=False,
        early_stopping_rounds=50,
    )
    model.fit(X[train], y[train], eval_set=(X[stop], y[stop]))

    def moments(X: Array) -> tuple[Array, Array]:
        found = model.predict(X)  # mean and variance
        return found[:, 0], np.sqrt(np.maximum(found[:, 1], 1e-12))

    return ConditionalNormal(moments)


def fit_xgb_distribution(X: Array, y: Array, seed: int) -> Density:
    from xgboost_distribution import XGBDistribution

    train, stop = held_out(len(y), seed)
    model = XGBDistribution(
        distribution="normal",
        n_estimators=500,
        early_stopping_rounds=10,
        random_state=seed,
        n_jobs=1,
    )
    model.fit(X[train], y[train], eval_set=[(X[stop], y[stop])], verbose=False)

    def moments(X: Array) -> tuple[Array, Array]:
        found = model.predict(X)
        return np.asarray(found.loc, float), np.maximum(found.scale, 1e-6)

    return ConditionalNormal(moments)


@dataclass(frozen=True)
class Flow:
    """A fitted conditional flow of zuko."""

    flow: Any

    def score_samples(self, X: Array, y: Array) -> Array:
        import torch

        with torch.no_grad():
            rows = torch.as_tensor(X, dtype=torch.float32)
            there = torch.as_tensor(y[:, None], dtype=torch.float32)
            return self.flow(rows).log_prob(there).double().numpy()


def fit_spline_flow(X: Array, y: Array, seed: int) -> Density:
    import copy

    import torch
    import zuko

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    train, stop = held_out(len(y), seed)
    rows, there = (
        torch.as_tensor(part, dtype=torch.float32) for part in (X, y[:, None])
    )
    flow = zuko.flows.NSF(1, X.shape[1], transforms=3, hidden_features=(64, 64))
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-3)
    best, kept, waited = np.inf, copy.deepcopy(flow.state_dict()), 0
    for _ in range(500):
        order = torch.randperm(len(train)).numpy()
        for start in range(0, len(train), 128):
            batch = train[order[start : start + 128]]
            loss = -flow(rows[batch]).log_prob(there[batch]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            loss = float(-flow(rows[stop]).log_prob(there[stop]).mean())
        if loss < best:
            best, kept, waited = loss, copy.deepcopy(flow.state_dict()), 0
        elif (waited := waited + 1) >= 20:
            break
    flow.load_state_dict(kept)
    return Flow(flow)


@dataclass(frozen=True)
class PosteriorMixture:
    """A normal for each draw from a posterior, averaged."""

    draws: Callable[[Array], tuple[Array, Array]]  # X to means (n, k), variances (k,)

    def score_samples(self, X: Array, y: Array) -> Array:
        mean, variance = self.draws(X)
        squares = (y[:, None] - mean) ** 2 / variance
        log_densities = -0.5 * (squares + np.log(2.0 * np.pi * variance))
        return logsumexp(log_densities, axis=1) - np.log(mean.shape[1])


def fit_bart(X: Array, y: Array, seed: int) -> Density:
    from stochtree import BARTModel

    model = BARTModel()
    general = {"random_seed": seed + 1, "num_threads": 1}
    model.sample(X_train=X, y_train=y, general_params=general)
    return PosteriorMixture(
        lambda X: (model.predict(X, terms="y_hat"), model.global_var_samples)
    )


METHODS = {
    "ngboost": SMALL["ngboost"],
    "ngboost_stopped": SMALL["ngboost_stopped"],
    "catboost": rival(
        "RMSEWithUncertainty, at most 1000 trees, stopped early on 10 % of the rows",
        fit_catboost,
    ),
    "xgb_distribution": rival(
        "normal, at most 500 trees, stopped early on 10 % of the rows",
        fit_xgb_distribution,
    ),
    "quantile_forest": SMALL["quantile_forest"],
    "gaussian_process": rival(
        f"as in rivals.py, on at most {PROCESS_ROWS} rows", fit_process
    ),
    "bart": rival("stochtree's BARTModel, 100 draws", fit_bart),
    "spline_flow": rival(
        "zuko NSF, 3 transforms of 64 x 64 units, Adam, stopped early on 10 % of rows",
        fit_spline_flow,
        can_vanish=True,
    ),
}
