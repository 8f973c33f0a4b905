"""What candidates say of rows that they have not seen: PIT values, means, variances.

Log densities are what candidates are chosen by. An average asks its members for more: a
map of PIT values calibrates it, and mean squared residuals tell whether variances are
right, of which far tails may be most while log densities hardly know of them. So where
log densities leave a choice open that variances depend on, residuals have a say.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kexpfam._heuristics import robust_scaling
from kexpfam._parallel import cached_property
from kexpfam._typing import Array
from kexpfam.base_densities import LocationScaleDensity
from kexpfam.distributions import SupportMap
from kexpfam.family import SOLVERS, RowLaws, moments_on_nodes, nodes_inside
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.validation import Validation


@dataclass(frozen=True, eq=False)
class HeldOutLaws:
    """PIT values, means and variances of all rows under fits without their fold.

    Of each candidate they are found once, when they are first asked for. Means and
    variances are in units of `unit`.
    """

    validation: Validation
    support: SupportMap | None = None  # The map that responses are behind
    _known: dict[int, Array] = field(default_factory=dict)

    @property
    def responses(self) -> Array:
        """The user's y of all rows, in units of `unit`, (n,)."""
        return self._behind(self.validation.rows.Y)[:, 0]

    @cached_property
    def unit(self) -> float:
        """One, but for responses whose squares are no doubles: a power of two."""
        Y = self.validation.rows.Y
        y = Y if self.support is None else self.support.inverse(Y)
        exponent = float(np.log2(max(float(np.abs(y).max()), 1e-300)))
        return 2.0 ** round(exponent) if abs(exponent) > 400.0 else 1.0

    @cached_property
    def _far_tailed(self) -> bool:
        weights = self.validation.weights
        return bool(robust_scaling(self.responses[:, None], weights)[2][0])

    def of(self, candidate: Candidate) -> Array:
        """Mass below, mean and variance of each row, (n, 3).

        NaN where a fit has failed; PIT values of base densities without a distribution
        function, and moments of estimators of the user's, are NaN, too.
        """
        if id(candidate) not in self._known:
            self._known[id(candidate)] = self._found(candidate)
        return self._known[id(candidate)]

    def mixed(self, candidates: list[Candidate], weights: Array) -> Array:
        """The same of an average of candidates, with weights (k,)."""
        own = np.stack([self.of(candidate) for candidate in candidates])
        below, mean, variance = np.moveaxis(own, -1, 0)
        middle = weights @ mean
        variances = weights @ (variance + np.square(mean - middle))
        return np.stack([weights @ below, middle, variances], axis=1)

    def variance_worth(
        self, mean: Array, variance: Array, *, tolerance: float = 0.1
    ) -> float:
        """What rows say of held-out variances (n,), beside means (n,), in nats.

        S is the mean squared residual, and V the mean variance, which should be the
        same. log S is known up to e, the relative standard error of S, and as if it
        were normal, this is −½ (log V/S)² / (e² + τ²). Zero where nothing is known, and
        where moments of y are those of a few rows.

        Args:
            mean: Held-out means.
            variance: Held-out variances.
            tolerance: τ. Within 5 % a standard deviation is right, and S itself is that
                of fits which are not quite what will be used.
        """
        S, V = self.mean_square(mean), self.mean_of(variance)
        if not (np.isfinite([S, V]).all() and S > 0 and V > 0):
            return 0.0
        weights = self.validation.weights
        omega, squares = weights / weights.sum(), np.square(self.responses - mean)
        # Squares of normal residuals vary by twice the square of their mean.
        fourth = max(float(omega @ np.square(squares / S - 1.0)), 2.0)
        error = fourth * float(np.square(omega).sum()) + tolerance**2
        return -0.5 * float(np.log(V / S)) ** 2 / error

    def mean_square(self, mean: Array) -> float:
        """Mean squared residual of the rows, beside held-out means (n,).

        NaN where moments of y are those of a few rows.
        """
        squares = np.square(self.responses - mean)
        return float("nan") if self._far_tailed else self.mean_of(squares)

    def mean_of(self, values: Array) -> float:
        """Mean of something over the rows, (n,), with their weights."""
        return float(np.average(values, weights=self.validation.weights))

    def at(self, name: str, fold: slice, u: Array) -> Array:
        """The user's y at points (g,) of some coordinates for rows of a fold, (n, g).

        It is in units of `unit`. Location and scale are those that each row is held out
        from. A transform is that of all rows, which differs little.
        """
        placed = self.validation.coordinates[name]
        Y = self.validation.rows.Y[fold]
        transform = placed.coordinates.transform
        log_scale = -placed.log_abs_det_jacobian[fold, None]
        V = Y
        if transform is not None:
            log_scale = log_scale + transform.log_abs_det_jacobian(Y)
            V = transform.forward(Y)
        v = V + np.exp(log_scale) * (u - placed.U[fold])
        if transform is not None:
            v = transform.inverse(v[..., None])[..., 0]
        return self._behind(v)

    def _behind(self, w: Array) -> Array:
        y = w if self.support is None else self.support.inverse(w)
        return y if self.unit == 1.0 else y / self.unit

    def _found(self, candidate: Candidate) -> Array:
        n, name = len(self.validation.rows), candidate.coordinates
        base, kernel = candidate.base, candidate.kernel
        if candidate.below is not None:
            unknown = np.full(n, np.nan)
            return np.stack([candidate.below, unknown, unknown], axis=1)
        assert base is not None
        if kernel is not None:
            solver = SOLVERS[candidate.method]
            problem = self.validation.problem(name, base, solver.components_for(n))
            criterion = partial(RowLaws.of, responses=partial(self.at, name))
            return solver.held_out(problem, kernel, (candidate.lam,), criterion)[0]
        u = self.validation.coordinates[name].U
        below = np.full(n, np.nan)
        if isinstance(base, LocationScaleDensity):
            below = base.column_cdf(u[:, 0], 0)
        problem = self.validation.problem(name, base)
        points = nodes_inside(base, u, problem.reach, 1.0).points
        log_p = base.log_density(points[:, None])
        p = np.exp(log_p - log_p.max())[None]
        y = self.at(name, slice(0, n), points)
        return np.column_stack([below, moments_on_nodes(p, points, y)])
