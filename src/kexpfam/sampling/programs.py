"""Markov chains of many densities as one compiled program.

The densities are evaluated by the library's own code, called with arrays of JAX. The
moves are BlackJAX's; what is added is that plain HMC takes a random number of steps: on
a nearly Gaussian density a fixed number may bring every chain back to where it started.

A program is compiled for a formula, a move and the shapes of the arrays; centres,
coefficients and conditions are arguments. So another call with a model of the same form
finds it ready. The log density brings its own gradient, the analytic one: automatic
differentiation would divide zero by zero where a point meets a centre.

Markov chains move best where there are no walls. With one finite end e a column is
u = e ± exp(v), with two it is u = low + (high − low)/(1 + exp(−v)), and v is sampled,
whose log density has log |du/dv| added.
"""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, namespace_of
from kexpfam.partition import Formula


@dataclass(frozen=True)
class Unconstrained:
    """Coordinates v on the whole line for a support with ends."""

    ends: tuple[tuple[float, float], ...]  # Of each column; they may be infinite

    @classmethod
    def of(cls, support: Array) -> "Unconstrained":
        """From the ends of each column's support, (d, 2)."""
        return cls(tuple((float(low), float(high)) for low, high in support))

    def at(self, V: Array) -> tuple[Array, Array]:
        """The points u of the support that V (..., d) stands for, and log |du/dv|."""
        columns = [_column(V[..., i], *ends) for i, ends in enumerate(self.ends)]
        u, log_abs_det_jacobian = zip(*columns, strict=True)
        xp = namespace_of(V)
        return xp.stack(u, axis=-1), xp.stack(log_abs_det_jacobian, axis=-1)

    def from_support(self, U: Array) -> Array:
        """V for points U (..., d); what lies on an end, or beyond, is moved inside."""
        columns = [_inverse(U[..., i], *ends) for i, ends in enumerate(self.ends)]
        return np.stack(columns, axis=-1)


def _column(v: Array, low: float, high: float) -> tuple[Array, Array]:
    xp = namespace_of(v)
    if math.isinf(low) and math.isinf(high):
        return v, xp.zeros_like(v)
    if math.isinf(high):
        return low + xp.exp(v), v
    if math.isinf(low):
        return high - xp.exp(v), v
    width = high - low
    # −log of the shares of the interval below and above: neither can overflow, and the
    # nearer end keeps its digits.
    below, above = xp.logaddexp(0.0, -v), xp.logaddexp(0.0, v)
    from_low, from_high = width * xp.exp(-below), width * xp.exp(-above)
    u = xp.where(v < 0, low + from_low, high - from_high)
    return u, math.log(width) - below - above


def _inverse(u: Array, low: float, high: float) -> Array:
    # Points keep this distance from a finite end, as a share of the interval (or in
    # units of the kernel's coordinates): on the edge itself v is infinite.
    margin = 1e-6
    if math.isinf(low) and math.isinf(high):
        return u
    if math.isinf(high):
        return np.log(np.maximum(u - low, margin))
    if math.isinf(low):
        return np.log(np.maximum(high - u, margin))
    share = np.clip((u - low) / (high - low), margin, 1.0 - margin)
    return np.log(share) - np.log1p(-share)


# Draws that one call of the second program keeps of each chain. Longer runs call it
# again, so their length does not matter to the compiler.
SEGMENT = 50

LogDensity = Callable[[Any], Any]


def library(module: str) -> Any:
    """JAX or BlackJAX, or a module of theirs."""
    purpose = "for Markov chains (sampler=None and 'smc' do without)"
    return needed(module, purpose, "mcmc")


def double_precision() -> AbstractContextManager[None]:
    """Inside it JAX computes in double precision, in this thread only."""
    jax = library("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return library("jax.experimental").enable_x64(True)


class Tuning(NamedTuple):
    """What a chain learns in its warm-up."""

    step_size: Any  # Of the leapfrog integrator, a number
    inverse_mass: Any  # Variances of the columns, (d,)


@dataclass(frozen=True)
class Transition:
    """The move of a chain, as an algorithm of BlackJAX."""

    name: Literal["nuts", "hmc"]  # Trajectories that end where they turn back, or not
    target_acceptance: float  # Acceptance rate that sets the step size
    # A trajectory of "nuts" has at most 2 to this power steps; the number of steps of
    # "hmc" is drawn from 1 to this.
    limit: int
    step_size: float | None = None  # None to adapt it, and the masses, in the warm-up

    @property
    def most_steps(self) -> int:
        """Numbers of steps are drawn from 1 to this."""
        return self.limit if self.name == "hmc" else 1

    def init(self, position: Any, log_p: LogDensity) -> Any:
        """The state of a chain at a position."""
        return getattr(library("blackjax"), self.name).init(position, log_p)

    def build_kernel(self) -> Callable[..., Any]:
        """(key, state, log_p, *tuning, steps) -> the next state and BlackJAX's info."""
        kernel = getattr(library("blackjax"), self.name).build_kernel()
        random = library("jax").random

        def move(
            key: Any, state: Any, log_p: Any, step: Any, mass: Any, steps: Any = None
        ) -> tuple[Any, Any]:
            limit = self.limit if self.name == "nuts" else steps
            if steps is None and self.name == "nuts":
                # In the warm-up two doublings, and one more for each column up to
                # three: before the step size is known more would be long for nothing,
                # and all chains wait for the longest. With one column this made the
                # warm-up three times as fast.
                limit = min(limit, 2 + min(len(state.position), 3))
            elif steps is None:  # the warm-up, where each chain has its own number
                key, of_steps = random.split(key)
                limit = random.randint(of_steps, (), 1, self.limit + 1)
            return kernel(key, state, log_p, step, mass, limit)

        return move


@dataclass(frozen=True)
class Recipe:
    """What programs are compiled for."""

    formula: Formula  # The densities without their arrays
    line: Unconstrained  # Coordinates without ends
    transition: Transition  # The move
    warmup: int  # Moves of the warm-up
    thin: int  # Every so many-th draw is kept


class Segment(NamedTuple):
    """Kept draws of n densities and c chains."""

    draws: Any  # (n, c, SEGMENT, d), points of the support
    divergent: Any  # Divergent moves before each draw, (n, c, SEGMENT)
    acceptance: Any  # Their mean acceptance rate, (n, c, SEGMENT)


class Programs(NamedTuple):
    """Two compiled functions."""

    # (shared, rows, start (n, c, d), keys (n, c)) -> state and tuning
    warm_up: Callable[..., Any]
    # (shared, rows, state, tuning, keys (n, c), steps) -> state and a `Segment`; steps
    # (SEGMENT, thin) are the numbers of leapfrog steps
    advance: Callable[..., Any]


def programs_of(recipe: Recipe) -> Programs:
    """The programs of a recipe; compiled when they are first called, for each shape."""
    try:
        hash(recipe)
    except TypeError:  # a user's kernel need not have a hash
        return _programs.__wrapped__(recipe)
    return _programs(recipe)


@functools.lru_cache(maxsize=16)
def _programs(recipe: Recipe) -> Programs:
    jax = library("jax")

    def of_all(function: Callable[..., Any], *chain_axes: int | None) -> Any:
        one_chain = functools.partial(function, recipe)
        of_chains = jax.vmap(one_chain, (None, None, *chain_axes))
        return jax.jit(jax.vmap(of_chains, (None, 0, *chain_axes)))

    return Programs(of_all(_warm_up, 0, 0), of_all(_advance, 0, 0, 0, None))


def _warm_up(
    recipe: Recipe, shared: Any, row: Any, start: Any, key: Any
) -> tuple[Any, Tuning]:
    """State and tuning of one chain after its warm-up."""
    jax, transition = library("jax"), recipe.transition
    log_p = log_density_in_v(recipe, shared, row)
    if transition.step_size is None:
        # Stan's warm-up: step size by dual averaging, masses in growing windows
        adaptation = library("blackjax").window_adaptation(
            transition,
            log_p,
            target_acceptance_rate=transition.target_acceptance,
            adaptation_info_fn=lambda *_: None,
        )
        (state, found), _ = adaptation.run(key, start, num_steps=recipe.warmup)
        return state, Tuning(found["step_size"], found["inverse_mass_matrix"])
    move = transition.build_kernel()
    step_size = jax.numpy.asarray(transition.step_size)
    tuning = Tuning(step_size, jax.numpy.ones(len(start)))

    def burn(state: Any, key: Any) -> tuple[Any, None]:
        return move(key, state, log_p, *tuning)[0], None

    keys = jax.random.split(key, recipe.warmup)
    return jax.lax.scan(burn, transition.init(start, log_p), keys)[0], tuning


def _advance(
    recipe: Recipe, shared: Any, row: Any, state: Any, tuning: Any, key: Any, steps: Any
) -> tuple[Any, Segment]:
    """One chain, SEGMENT kept draws further."""
    jax = library("jax")
    log_p = log_density_in_v(recipe, shared, row)
    kernel = recipe.transition.build_kernel()

    def move(state: Any, chance: Any) -> tuple[Any, Any]:
        key, steps = chance
        state, info = kernel(key, state, log_p, *tuning, steps)
        return state, (info.is_divergent, info.acceptance_rate)

    def keep(state: Any, chances: Any) -> tuple[Any, Segment]:
        state, (divergent, accepted) = jax.lax.scan(move, state, chances)
        u, _ = recipe.line.at(state.position)
        return state, Segment(u, divergent.sum(), accepted.mean())

    keys = jax.random.split(key, steps.shape)
    return jax.lax.scan(keep, state, (keys, steps))


def log_density_in_v(
    recipe: Recipe,  # Names the formula and the coordinates
    shared: Any,  # Arrays that all densities have in common
    row: Any,  # Arrays of this one
) -> LogDensity:
    """Log density in v of one row, with the analytic gradient of that in u."""

    def evaluated(u: Any) -> tuple[Any, Any]:
        try:
            return recipe.formula.at(shared, row, u)
        except (TypeError, AttributeError, NotImplementedError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise TypeError(
                f"{recipe.formula!r} does something that JAX cannot run ({reason}); "
                f"use the functions of kexpfam.kernels.namespace_of(Y) in place of "
                f"NumPy's, or sampler=None or 'smc'."
            ) from error

    of_u = library("jax").custom_vjp(lambda u: evaluated(u)[0])
    of_u.defvjp(evaluated, lambda gradient, weight: (weight * gradient,))

    def of_v(v: Any) -> Any:
        u, log_abs_det_jacobian = recipe.line.at(v)
        return of_u(u) + log_abs_det_jacobian.sum()

    return of_v
