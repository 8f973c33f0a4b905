"""Conditional kernel density estimation, with widths chosen by likelihood.

    p(y|x) = Σ_i k_X(x, x_i) k_Y(y, y_i) / Σ_i k_X(x, x_i)

with Gaussian kernels and one width per column. Widths maximise the leave-one-out
likelihood (Hall, Racine and Li 2004, who show that a column of x that does not matter
gets a width so large that it is smoothed out); its gradient costs no more than itself.
"""

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from scipy import optimize, special

from kexpfam._typing import Array, Indices, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_count,
    check_positive,
)
from kexpfam.baselines.standardized import MixtureEstimator, rounding_scales
from kexpfam.data import Rows, distinct_rows


class ConditionalKDE(MixtureEstimator):
    """Conditional kernel density estimation with one width per column.

    Args:
        widths_x: Widths of the columns of x in standard deviations; None to choose.
        widths_y: Widths of the columns of y; None to choose them.
        judged_rows: Rows whose leave-one-out likelihood is maximised, at most; all rows
            are centres.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Which rows are judged, if not all.

    Attributes:
        width_x_: Widths used for x, (p,).
        width_y_: Widths used for y, (d,).
        leave_one_out_: Mean leave-one-out log density of the rows judged, equal rows
            counted as one; None if widths were given.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 2))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=200)
        >>> model = ConditionalKDE().fit(x, y)
        >>> bool(model.width_x_[1] > 10 * model.width_x_[0])  # the second says nothing
        True
    """

    def __init__(
        self,
        *,
        widths_x: Sequence[float] | float | None = None,
        widths_y: Sequence[float] | float | None = None,
        judged_rows: int = 1000,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.widths_x = widths_x
        self.widths_y = widths_y
        self.judged_rows = judged_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows) -> Self:
        most = check_count("judged_rows", self.judged_rows, least=2)
        rows = self._standardized(rows)
        # A row that has a twin is not left out by leaving out one of them.
        used, weights = distinct_rows(rows.X, rows.Y, rows.weights)
        rows = Rows(rows.X[used], rows.Y[used], weights)
        given_x = _widths("widths_x", self.widths_x, rows.X.shape[1])
        given_y = _widths("widths_y", self.widths_y, rows.Y.shape[1])
        self.leave_one_out_ = None
        if given_x is None or given_y is None:
            rng = as_generator(self.random_state)
            left_out = np.sort(rng.permutation(len(rows))[:most])
            given_x, given_y, found = chosen_widths(rows, left_out, given_x, given_y)
            self.leave_one_out_ = found - float(np.log(self.y_scale_).sum())
        self.width_x_, self.width_y_ = given_x, given_y
        self.centers_x_, self.centers_y_ = rows.X, rows.Y
        self.log_shares_ = np.log(weights / weights.sum())
        return self

    def _log_weights(self, Z: Array) -> Array:
        squares = np.zeros((len(Z), len(self.centers_x_)))
        for j, width in enumerate(self.width_x_):
            squares += ((Z[:, j, None] - self.centers_x_[:, j]) / width) ** 2
        return self.log_shares_ - 0.5 * squares


def chosen_widths(
    rows: Rows, left_out: Indices, given_x: Array | None, given_y: Array | None
) -> tuple[Array, Array, float]:
    """Widths of x and y with the largest leave-one-out likelihood, and that.

    Widths that are given are not chosen.
    """
    p, d = rows.X.shape[1], rows.Y.shape[1]
    std = _std_of_most(rows)
    rule = 1.06 * len(rows) ** (-1.0 / (4 + p + d)) * std
    free = np.repeat([given_x is None, given_y is None], [p, d])
    start = (
        rule[:p] if given_x is None else given_x,
        rule[p:] if given_y is None else given_y,
    )
    fixed = np.log(np.concatenate(start))
    squares = Squares(rows, left_out)

    def loss(log_free: Array) -> tuple[float, Array]:
        log_widths = fixed.copy()
        log_widths[free] = log_free
        value, gradient = squares.leave_one_out(log_widths)
        return -value, -gradient[free]

    # A hundred standard deviations smooth a column out, and below a thousandth of those
    # of most rows there is nothing left to see. Of rounded y the deviation that
    # rounding gives is the bound.
    low = np.log(1e-3 * std)
    low[p:] = np.maximum(low[p:], np.log(np.maximum(rounding_scales(rows.Y), 1e-300)))
    bounds = np.stack([low, np.full(p + d, np.log(100.0))], axis=1)[free]
    found = [
        optimize.minimize(
            loss,
            np.clip(fixed[free] + np.log(factor), *bounds.T),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
        )
        for factor in (1.0, 0.4, 2.5)  # first guesses, of which the best is kept
    ]
    best = min(found, key=lambda result: result.fun)
    log_widths = fixed.copy()
    log_widths[free] = best.x
    widths = np.exp(log_widths)
    return widths[:p], widths[p:], -float(best.fun)


class Squares:
    """Squared differences of rows left out one by one and all rows, column by column.

    They do not depend on the widths, so they are kept if they fit into memory; a
    likelihood is then two matrix-vector products and two exponentials.
    """

    def __init__(
        self,
        rows: Rows,
        left_out: Indices,
        *,
        at_once: int = 2**21,  # numbers that are worked on
        most_kept: int = 2**25,  # 256 MB
    ) -> None:
        self._columns = np.concatenate([rows.X, rows.Y], axis=1)
        self._weights, self._d = rows.weights, rows.Y.shape[1]
        self._left_out = left_out
        size = max(1, self._columns.size)
        self._step = max(1, at_once // size)
        self._kept: dict[int, Array] | None = (
            {} if len(left_out) * size <= most_kept else None
        )

    def _blocks(self) -> Iterator[tuple[Indices, Array]]:
        """Some of the rows left out (r,), and squares (r, n, p + d)."""
        for start in range(0, len(self._left_out), self._step):
            rows = self._left_out[start : start + self._step]
            squares = None if self._kept is None else self._kept.get(start)
            if squares is None:
                squares = (self._columns[rows][:, None] - self._columns) ** 2
            if self._kept is not None:
                self._kept[start] = squares
            yield rows, squares

    def leave_one_out(self, log_widths: Array) -> tuple[float, Array]:
        """Mean leave-one-out log density, and its gradient in the logs of the widths.

        With u = (z − z_i)/width, d log k / d log width = u² for x, and u² − 1 for y,
        whose kernel is normalised; averages are over i by responsibility.
        """
        d, weights = self._d, self._weights
        p = len(log_widths) - d
        rates, log_share = np.exp(-2.0 * log_widths), np.log(weights)
        total, gradient = 0.0, np.zeros(p + d)
        for rows, S in self._blocks():
            in_x = log_share - 0.5 * (S[..., :p] @ rates[:p])
            in_x[np.arange(len(rows)), rows] = -np.inf
            joint = in_x - 0.5 * (S[..., p:] @ rates[p:])
            top = special.logsumexp(joint, axis=1, keepdims=True)
            bottom = special.logsumexp(in_x, axis=1, keepdims=True)
            share = weights[rows] / weights[self._left_out].sum()
            log_p = (top - bottom)[:, 0] - log_widths[p:].sum()
            total += float(share @ (log_p - d * (0.5 * np.log(2.0 * np.pi))))
            joint = share[:, None] * np.exp(joint - top)
            in_x = joint - share[:, None] * np.exp(in_x - bottom)
            flat = S.reshape(-1, p + d)
            gradient[p:] += joint.ravel() @ flat[:, p:]
            gradient[:p] += in_x.ravel() @ flat[:, :p]
        gradient *= rates
        gradient[p:] -= 1.0
        return total, gradient


def _std_of_most(rows: Rows) -> Array:
    """Standard deviations of most rows, (p + d,): one outlier must not decide."""
    columns = np.concatenate([rows.X, rows.Y], axis=1)
    low, high = np.quantile(columns, [0.25, 0.75], axis=0)
    std = (high - low) / 1.349  # that of a normal is one
    return np.where(std > 0, np.minimum(std, 1.0), 1.0)


def _widths(name: str, given: object, columns: int) -> Array | None:
    if given is None:
        return None
    values = np.atleast_1d(as_numbers(name, given))
    if values.shape not in ((1,), (columns,)):
        raise ValueError(
            f"{name} must be one number, or one per column ({columns}), got {given!r}."
        )
    for value in values:
        check_positive(name, float(value))
    return np.broadcast_to(values, columns).copy()
