"""Damped Newton's method for the penalised likelihood.

Score matching needs no normaliser; likelihood needs one for every row at every step.
In exchange it sees the masses of isolated components, to which score matching is blind.
The objective is convex, so that Newton's method with backtracking finds the optimum
from anywhere, in fewer steps the nearer it starts; a factorised Hessian is used again
as long as it brings the gradient down fast.

For cross-validation there is a path of λ. Each λ is fitted to all rows first, from the
fit before it. From there a fit without one fold is a few steps away; being convex, it
does not remember where it came from.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from kexpfam._linalg import LinearMap, conjugate_gradients
from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.errors import ConvergenceWarning, NormalizationWarning
from kexpfam.likelihood.objective import (
    NODES,
    NodeSpec,
    PenalizedLikelihood,
    RowSums,
    State,
    quadrature_nodes,
)
from kexpfam.partition import Nodes
from kexpfam.score_matching import Basis, KernelExpansion


@dataclass(frozen=True)
class NewtonSpec:
    """How Newton's method goes on."""

    sufficient: float = 1e-4  # Share of what its slope promises that a step must bring
    # A step shorter than 2⁻⁴⁰ of Newton's changes nothing that could be seen
    most_halvings: int = 40
    fast: float = 5.0  # A Hessian is used again while gradients get so many times less
    # A first fit, to see where the peaks are
    rough_steps: int = 8
    rough_tolerance: float = 1e-3
    # Multiplications beyond which steps use products with the Hessian instead of the
    # Hessian: below, a Hessian takes a few milliseconds
    most_work: float = 2.5e7
    # Conditions, and values of u for each, whose covariance of features preconditions
    # them: some tens of draws for each function of a usual basis
    preconditioning_rows: int = 512
    preconditioning_draws: int = 16
    # Products that a step may take, and those from which on the preconditioner is made
    # anew, where the step ended
    most_products: int = 200
    many_products: int = 12
    # Below this mean log-likelihood a step by products is the last one
    visible: float = 1e-9
    forcing: float = 0.2  # Residual of a step, in the norm of the preconditioner
    # Rows for each function that the Hessian is taken from where there are more: so
    # many tell it to about a fifth, 1/√25
    hessian_rows: int = 25
    # With other rows the last step is from where no more is left to gain than this part
    # of M/2W, by which chance moves the maximum; it leaves less than a tenth of that
    of_chance: float = 0.01


NEWTON = NewtonSpec()


@dataclass(frozen=True)
class LikelihoodFit:
    """The maximum of the penalised likelihood."""

    alpha: Array  # Coefficients of the basis, (M,)
    T: KernelExpansion  # The fitted function
    objective: float  # The penalised mean negative log-likelihood relative to q0
    iterations: int  # Steps of Newton's method
    # Whether the gradient is below the tolerance, or the objective within rounding of
    # its minimum
    converged: bool
    gradient_norm: float  # Norm of the gradient in the RKHS, relative to that of mean φ
    # Largest difference of log Z to that on nodes half as far apart, over the rows: an
    # estimate of the error on the coarser ones
    log_partition_error: float


def fit_likelihood(
    basis: Basis,  # Kernel functions, of products k_X·k_Y or sums of them
    base: BaseDensity,  # q0 in the coordinates of the kernel
    X: Array,  # Conditions, (n, p)
    U: Array,  # Responses, (n, 1)
    weights: Array,  # Row weights, (n,); only their ratios matter
    lam: float,  # λ
    *,
    others: Sequence[RowSums] = (),  # More rows, which no Hessian is taken from
    start: Array | None = None,  # Coefficients to start from, (M,); zero if None
    max_iterations: int = 50,  # Steps of Newton's method, all refinements together
    tolerance: float = 1e-8,  # Norm of the gradient to stop at, of that of mean φ
    newton: NewtonSpec = NEWTON,  # How Newton's method goes on
    nodes: NodeSpec = NODES,  # Nodes for log Z
) -> LikelihoodFit:
    """Maximise the penalised likelihood over the span of a basis; one column of y.

    Log Z is computed on nodes of an analytic trapezoidal rule. They are refined until
    halving their distances changes log Z of no row by more than 1e-6; if three
    refinements are not enough, `log_partition_error` says so, and above 1e-4 a warning.
    Where there are others, nodes are refined for the given rows, by fits to them.

    Raises:
        TypeError: The kernel is not a sum of products.
        ValueError: U has more than one column.

    Example:
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.kernels import Constant, Gaussian, separable
        >>> rng = np.random.default_rng(0)
        >>> U = rng.normal(0.5, 1.0, size=(200, 1))
        >>> X, ones = np.empty((200, 0)), np.ones(200)
        >>> basis = Basis(separable(Constant(), Gaussian(1.0)), X[:20], U[:20])
        >>> fit_likelihood(basis, GaussianBase(2.0), X, U, ones, 1e-3).converged
        True
    """
    if U.shape[1] != 1:
        raise ValueError(
            f"U must have one column to be fitted by likelihood, got {U.shape[1]}."
        )

    def refined(refinement: int) -> Nodes:
        ell = basis.kernel.resolution
        return quadrature_nodes(base, U, ell, refinement=refinement, spec=nodes)

    problem = PenalizedLikelihood.of(basis, base, X, U, weights, lam, refined(0))
    whole = problem
    if others:
        whole = problem.with_others(others, float(weights.sum()))
        # As much of a penalty for each row.
        problem = replace(problem, lam=lam / whole.share_of_conditions)
    minimum, error = _minimize_and_refine(
        problem,
        lambda k: replace(problem, parts=problem.parts.on(basis, base, refined(k))),
        lambda some: replace(whole, parts=some.parts),
        np.zeros(basis.size) if start is None else problem.beta(start),
        max_iterations,
        tolerance,
        newton,
        nodes,
    )
    gradient_norm = float(np.linalg.norm(minimum.state.gradient)) / whole.scale
    if not minimum.converged:
        warnings.warn(
            f"The likelihood fit stopped after {minimum.steps} steps with a relative "
            f"gradient of {gradient_norm:.1e}, above {tolerance:.1e}; raise "
            f"max_iterations, or raise regularization from {lam:.3g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    if error > nodes.worst_error:
        warnings.warn(
            f"log Z(x) was known to {error:.1e} only while the likelihood was fitted: "
            f"there are spikes between the nodes. Raise regularization from {lam:.3g}, "
            f"or the lengthscale of y.",
            NormalizationWarning,
            stacklevel=2,
        )
    alpha = problem.alpha(minimum.state.beta)
    return LikelihoodFit(
        alpha=alpha,
        T=basis.expansion(alpha),
        objective=minimum.state.value,
        iterations=minimum.steps,
        converged=minimum.converged,
        gradient_norm=gradient_norm,
        log_partition_error=error,
    )


@dataclass(frozen=True)
class Minimum:
    """Where Newton's method ended."""

    state: State  # The last state
    steps: int  # How many steps it took
    converged: bool  # As in `LikelihoodFit`
    covariance: "RoughCovariance | None" = None  # What preconditioned the last step


@dataclass(frozen=True)
class RoughCovariance:
    """Eigenvalues and vectors of about the Hessian without λ: preconditions any λ."""

    values: Array
    vectors: Array

    @classmethod
    def at(
        cls, problem: PenalizedLikelihood, state: State, spec: NewtonSpec
    ) -> "RoughCovariance":
        """From a few conditions and values of u."""
        C = problem.rough_covariance(
            state, spec.preconditioning_rows, spec.preconditioning_draws
        )
        values, vectors = np.linalg.eigh(C)
        return cls(np.maximum(values, 0.0), vectors)

    def inverse(self, lam: float) -> LinearMap:
        """Multiplication by the inverse, with λ added."""
        values, vectors = self.values + lam, self.vectors
        return lambda v: vectors @ ((vectors.T @ v) / values)


def _minimize_and_refine(
    problem: PenalizedLikelihood,
    refined: Callable[[int], PenalizedLikelihood],
    completed: Callable[[PenalizedLikelihood], PenalizedLikelihood],
    beta: Array,
    max_iterations: int,
    tolerance: float,
    newton: NewtonSpec,
    nodes: NodeSpec,
) -> tuple[Minimum, float]:
    """The minimum on nodes that are fine enough for it, and the error of log Z.

    Peaks that fall between nodes are tempting, so nodes are settled by rough fits; the
    last fit is to the problem that is completed by other rows, if there are.
    """
    refinement, rough, used = 0, True, 0
    finer = refined(1)
    while True:
        limit, small = max_iterations - used, tolerance
        if rough:
            limit = min(limit, newton.rough_steps)
            small = max(tolerance, newton.rough_tolerance)
        here = problem if rough else completed(problem)
        minimum = minimize(here, beta, limit, small, newton)
        beta, used = minimum.state.beta, used + minimum.steps
        alpha = problem.alpha(beta)
        log_z, finer_log_z = (
            parts.probabilities(parts.on_nodes(alpha))[1]
            for parts in (problem.parts, finer.parts)
        )
        error = float(np.max(np.abs(log_z - finer_log_z)))
        if error > nodes.tolerance and refinement < nodes.most_refinements:
            refinement += 1
            problem, finer = finer, refined(refinement + 1)
        elif rough:
            rough = False
        else:
            return replace(minimum, steps=used), error


def minimize(
    problem: PenalizedLikelihood,
    beta: Array,
    max_iterations: int,
    tolerance: float,
    spec: NewtonSpec = NEWTON,
) -> Minimum:
    """Newton's method from beta, with the Hessian, or with products if it is large."""
    if problem.others is not None or problem.hessian_work > spec.most_work:
        gap = spec.visible
        if problem.others is not None:
            chance = 0.5 * len(beta) / problem.others.weight
            gap = max(gap, spec.of_chance * chance)
        limits = max_iterations, tolerance, spec
        return minimize_by_products(problem, beta, *limits, gap=gap)
    with single_threaded_blas():
        state = problem.at(beta)
        norm = float(np.linalg.norm(state.gradient))
        inverse: LinearMap | None = None
        steps = 0
        while norm > tolerance * problem.scale:
            if steps == max_iterations:
                return Minimum(state, steps, converged=False)
            fresh = inverse is None
            inverse = inverse or _inverse(problem.hessian(state), problem.lam)
            direction = -inverse(state.gradient)
            # The minimum is lower by half of this if the Hessian is of this point.
            promise = -float(state.gradient @ direction)
            following = _line_search(problem, state, direction, spec)
            if following is None:
                if fresh:
                    return Minimum(state, steps, converged=False)
                inverse = None
                continue
            before, norm = norm, float(np.linalg.norm(following.gradient))
            if fresh and promise < state.rounding and norm > 0.5 * before:
                break
            state = following
            steps += 1
            if norm * spec.fast > before:
                inverse = None
        return Minimum(state, steps, converged=True)


def minimize_by_products(
    problem: PenalizedLikelihood,
    beta: Array,
    max_iterations: int,
    tolerance: float,
    spec: NewtonSpec = NEWTON,
    *,
    gap: float = 0.0,
    covariance: RoughCovariance | None = None,
) -> Minimum:
    """Newton's method by conjugate gradients, for many rows.

    Args:
        problem: What to minimise.
        beta: Where to start, (M,).
        max_iterations: Steps at most.
        tolerance: Norm of the gradient to stop at, relative to that of mean φ.
        spec: How to go on.
        gap: Also stop after a step from where the minimum was lower by no more than
            this: what is left after it is of a higher order.
        covariance: A preconditioner that has served for similar problems.
    """
    state = problem.at(beta)
    steps = 0
    while np.linalg.norm(state.gradient) > tolerance * problem.scale:
        if steps == max_iterations:
            return Minimum(state, steps, False, covariance)
        fresh = covariance is None
        covariance = covariance or RoughCovariance.at(problem, state, spec)
        size = float(np.linalg.norm(state.gradient)) / problem.scale
        # Steps need not be more accurate than the square root of what is left to do.
        direction, products = _newton_step(
            problem, state, covariance, min(spec.forcing, np.sqrt(size)), spec
        )
        promise = -float(state.gradient @ direction)
        following = _line_search(problem, state, direction, spec)
        if following is None:
            if fresh or promise < state.rounding:
                done = promise < state.rounding
                return Minimum(state, steps, done, covariance)
            covariance = None
            continue
        shrunk = np.linalg.norm(following.gradient) < 0.5 * size * problem.scale
        state = following
        steps += 1
        if 0.5 * promise <= gap or (promise < state.rounding and not shrunk):
            break
        if products > spec.many_products and not fresh:
            covariance = None
    return Minimum(state, steps, True, covariance)


def _newton_step(
    problem: PenalizedLikelihood,
    state: State,
    covariance: RoughCovariance,
    accuracy: float,
    spec: NewtonSpec,
) -> tuple[Array, int]:
    """−H⁻¹ times the gradient by conjugate gradients, and how many products it took."""
    path = conjugate_gradients(
        lambda u: problem.hessian_product(state, u),
        -state.gradient,
        covariance.inverse(problem.lam),
    )
    first = next(path)
    iterate, products = first, 0
    for iterate in itertools.islice(path, spec.most_products):
        products += 1
        if iterate.square <= accuracy**2 * first.square:
            break
    return iterate.solution, products


def _line_search(
    problem: PenalizedLikelihood, state: State, direction: Array, spec: NewtonSpec
) -> State | None:
    """The first of the steps 1, ½, ¼, … that brings enough; None if none does."""
    slope = spec.sufficient * float(state.gradient @ direction)
    for length in 0.5 ** np.arange(spec.most_halvings):
        trial = problem.at(state.beta + length * direction)
        if trial.value <= state.value + length * slope + state.rounding:
            return trial
    return None


def _inverse(H: Array, least: float) -> LinearMap:
    """Multiplication by the inverse of a matrix whose eigenvalues are at least λ."""
    try:
        factor = linalg.cho_factor(H, lower=True)
    except linalg.LinAlgError:
        # Where R is singular to rounding, so are digits of the whitened Hessian.
        values, vectors = np.linalg.eigh(H)
        values = np.maximum(values, least)
        return lambda v: vectors @ ((vectors.T @ v) / values)
    return lambda v: linalg.cho_solve(factor, v)


def likelihood_path(
    basis: Basis,  # Kernel functions, of products k_X·k_Y or sums of them
    base: BaseDensity,  # q0 in the coordinates of the kernel
    X: Array,  # Conditions, (n, p)
    U: Array,  # Responses, (n, 1)
    weights: Array,  # Row weights, (n,)
    folds: Sequence[slice],  # Rows of each fold; every row in one
    lams: Sequence[float],  # The λ, in an order in which neighbours are similar
) -> Iterator[Array]:
    """Coefficients of the fit without each fold, for each λ, (M, l)."""
    nodes = quadrature_nodes(base, U, basis.kernel.resolution)
    whole = PenalizedLikelihood.of(basis, base, X, U, weights, lams[0], nodes)
    if whole.hessian_work > NEWTON.most_work:
        yield from _path_by_products(whole, basis, (X, U, weights), folds, lams)
        return
    starts = _path(whole, [np.zeros(basis.size)] * len(lams), lams)
    for fold in folds:
        rest = np.delete(np.arange(len(U)), fold)
        rows = X[rest], U[rest], weights[rest]
        problem = PenalizedLikelihood.of(
            basis, base, *rows, lams[0], nodes, like=whole.parts
        )
        betas = _path(problem, starts, lams)
        yield np.stack([problem.alpha(beta) for beta in betas], axis=1)


def _path(
    problem: PenalizedLikelihood,
    starts: list[Array],
    lams: Sequence[float],
    *,
    steps: int = 30,
    tolerance: float = 1e-5,
) -> list[Array]:
    """Whitened coefficients for each λ, from given starts or the λ before.

    Below this tolerance log densities do not change in the digits that choose among
    fits.
    """
    found: list[Array] = []
    for start, lam in zip(starts, lams, strict=True):
        here = replace(problem, lam=lam)
        beta = start if start.any() or not found else found[-1]
        found.append(minimize(here, beta, steps, tolerance).state.beta)
    return found


def _path_by_products(
    whole: PenalizedLikelihood,
    basis: Basis,
    rows: tuple[Array, Array, Array],
    folds: Sequence[slice],
    lams: Sequence[float],
    *,
    steps: int = 30,
    tolerance: float = 1e-4,
    gap: float = 4e-3,
) -> Iterator[Array]:
    """`likelihood_path` for many rows: mostly one step from the fit to all of them.

    A thousandth of a nat for each row is left to the last step, and hardly a tenth of
    that after it. Single precision does not do: coefficients are large, and cancel.
    """

    def minimum(problem: PenalizedLikelihood, lam: float, start: Minimum) -> Minimum:
        return minimize_by_products(
            replace(problem, lam=lam),
            start.state.beta,
            steps,
            tolerance,
            gap=gap,
            covariance=start.covariance,
        )

    of_all = [Minimum(whole.at(np.zeros(basis.size)), 0, False)]
    for lam in lams:
        of_all.append(minimum(whole, lam, of_all[-1]))
    for fold in folds:
        rest = whole.without(fold, basis, *rows)
        fits = map(minimum, itertools.repeat(rest), lams, of_all[1:])
        yield np.stack([rest.alpha(fit.state.beta) for fit in fits], axis=1)
