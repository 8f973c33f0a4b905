"""Markov chains of many densities as one compiled program.

A program is compiled for a formula, a move and the shapes of the arrays; centres,
coefficients and conditions are arguments. So another call with a model of the same form
finds it ready. The log density brings its own gradient, the analytic one: automatic
differentiation would divide zero by zero where a point meets a centre.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kexpfam.partition import Formula
from kexpfam.sampling.optional import needed
from kexpfam.sampling.tracing import Traced, bare, traced_empty
from kexpfam.sampling.transitions import LogDensity, Transition
from kexpfam.sampling.unconstrained import Unconstrained

# Draws that one call of the second program keeps of each chain. Longer runs call it
# again, so their length does not matter to the compiler.
SEGMENT = 50

# Compiled programs that are kept.
_KEPT = 16


@dataclass(frozen=True)
class Recipe:
    """What programs are compiled for.

    Attributes:
        formula: The densities without their arrays.
        line: Coordinates without ends.
        transition: The move.
        warmup: Moves of the warm-up.
        thin: Every so many-th draw is kept.
    """

    formula: Formula
    line: Unconstrained
    transition: Transition
    warmup: int
    thin: int


class Segment(NamedTuple):
    """Kept draws of n densities and c chains.

    Attributes:
        state: Where the chains are.
        draws: (n, c, SEGMENT, d), points of the support.
        divergent: Divergent moves before each draw, (n, c, SEGMENT).
        acceptance: Their mean acceptance rate, (n, c, SEGMENT).
    """

    state: Any
    draws: Any
    divergent: Any
    acceptance: Any


class Programs(NamedTuple):
    """Two compiled functions.

    Attributes:
        warm_up: (shared, rows, start (n, c, d), keys (n, c)) -> state and tuning.
        advance: (shared, rows, state, tuning, keys (n, c), steps) -> a `Segment`;
            steps (SEGMENT, thin) are the numbers of leapfrog steps.
    """

    warm_up: Callable[..., Any]
    advance: Callable[..., Any]


def programs_of(recipe: Recipe) -> Programs:
    """The programs of a recipe; compiled when they are first called, for each shape."""
    # A user's kernel need not have a hash.
    return _kept_programs(recipe) if _has_hash(recipe) else _programs(recipe)


def _has_hash(recipe: Recipe) -> bool:
    try:
        hash(recipe)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=_KEPT)
def _kept_programs(recipe: Recipe) -> Programs:
    return _programs(recipe)


def _programs(recipe: Recipe) -> Programs:
    jax = needed("jax")

    def warm_up(shared: Any, row: Any, start: Any, key: Any) -> Any:
        log_p = log_density(recipe, shared, row)
        return recipe.transition.warm_up(key, start, log_p, recipe.warmup)

    def advance(
        shared: Any, row: Any, state: Any, tuning: Any, key: Any, steps: Any
    ) -> Segment:
        return _advance(recipe, shared, row, state, tuning, key, steps)

    def of_all(function: Callable[..., Any], *chain_axes: int | None) -> Any:
        of_chains = jax.vmap(function, (None, None, *chain_axes))
        return jax.jit(jax.vmap(of_chains, (None, 0, *chain_axes)))

    return Programs(of_all(warm_up, 0, 0), of_all(advance, 0, 0, 0, None))


def _advance(
    recipe: Recipe, shared: Any, row: Any, state: Any, tuning: Any, key: Any, steps: Any
) -> Segment:
    """One chain, SEGMENT kept draws further."""
    jax = needed("jax")
    log_p = log_density(recipe, shared, row)

    def move(state: Any, chance: Any) -> tuple[Any, Any]:
        key, steps = chance
        state, info = recipe.transition.move(key, state, log_p, tuning, steps)
        return state, (info.is_divergent, info.acceptance_rate)

    def keep(state: Any, chances: Any) -> tuple[Any, Any]:
        state, (divergent, accepted) = jax.lax.scan(move, state, chances)
        return state, (state.position, divergent.sum(), accepted.mean())

    keys = jax.random.split(key, steps.shape)
    state, (v, divergent, accepted) = jax.lax.scan(keep, state, (keys, steps))
    u = bare(recipe.line.at(_stand_in(v)).u)
    return Segment(state, u, divergent, accepted)


def log_density(recipe: Recipe, shared: Any, row: Any) -> LogDensity:
    """Log density in v of one row, with its analytic gradient.

    Args:
        recipe: Names the formula and the coordinates.
        shared: Arrays that all densities have in common.
        row: Arrays of this one.
    """
    jax = needed("jax")

    def both(v: Any) -> tuple[Any, Any]:
        point = recipe.line.at(_stand_in(v))
        log_p, slope = _evaluated(recipe.formula, shared, row, point.u)
        log_p = log_p + np.sum(point.log_slope)
        slope = slope * point.slope + point.log_slope_gradient
        return bare(log_p), bare(slope)

    log_p = jax.custom_vjp(lambda v: both(v)[0])
    log_p.defvjp(both, lambda gradient, weight: (weight * gradient,))
    return log_p


def _evaluated(formula: Formula, shared: Any, row: Any, u: Any) -> tuple[Any, Any]:
    stand_ins = tuple(map(_stand_in, shared)), tuple(map(_stand_in, row))
    try:
        return formula.at(*stand_ins, u, traced_empty)
    except (TypeError, AttributeError, NotImplementedError, ValueError) as error:
        raise TypeError(
            f"{formula!r} does something that JAX cannot run ({error}); use "
            f"sampler=None or 'smc'."
        ) from error


def _stand_in(value: Any) -> Any:
    return Traced(value)
