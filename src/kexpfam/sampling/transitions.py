"""Moves of Hamiltonian Monte Carlo, and how their step size is found.

Both are BlackJAX's. What is added is that plain HMC takes a random number of steps: on
a nearly Gaussian density a fixed number may bring every chain back to where it started.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kexpfam.sampling.optional import needed

# Trajectories of the warm-up may double so many times, and once more for each column up
# to three: before the step size is known they would be long for nothing, and all chains
# wait for the longest. With one column this made the warm-up three times as fast.
_WARMUP_DOUBLINGS = 2

LogDensity = Callable[[Any], Any]


class Tuning(NamedTuple):
    """What a chain learns in its warm-up.

    Attributes:
        step_size: Of the leapfrog integrator, a number.
        inverse_mass: Variances of the columns, (d,).
    """

    step_size: Any
    inverse_mass: Any


class Transition(Hashable, Protocol):
    """A move that leaves a density unchanged; equal ones compile to the same."""

    @property
    def most_steps(self) -> int:
        """Leapfrog steps of a move are drawn from 1 to this; 1 if they are not."""

    def start(self, position: Any, log_p: LogDensity) -> Any:
        """The state of a chain at a position."""

    def move(
        self, key: Any, state: Any, log_p: LogDensity, tuning: Tuning, steps: Any
    ) -> tuple[Any, Any]:
        """The next state, and BlackJAX's information about the move."""

    def warm_up(
        self, key: Any, position: Any, log_p: LogDensity, count: int
    ) -> tuple[Any, Tuning]:
        """State and tuning after `count` moves."""


@dataclass(frozen=True)
class NoUTurn:
    """Trajectories that end where they turn back.

    Attributes:
        target_acceptance: Acceptance rate that sets the step size.
        max_doublings: A trajectory has at most 2 to this power steps.
    """

    target_acceptance: float
    max_doublings: int

    @property
    def most_steps(self) -> int:
        return 1

    def start(self, position: Any, log_p: LogDensity) -> Any:
        return needed("blackjax").nuts.init(position, log_p)

    def move(
        self, key: Any, state: Any, log_p: LogDensity, tuning: Tuning, steps: Any
    ) -> tuple[Any, Any]:
        kernel = needed("blackjax").nuts.build_kernel()
        return kernel(key, state, log_p, *tuning, self.max_doublings)

    def warm_up(
        self, key: Any, position: Any, log_p: LogDensity, count: int
    ) -> tuple[Any, Tuning]:
        most = min(self.max_doublings, _WARMUP_DOUBLINGS + min(len(position), 3))
        return _adapt(
            needed("blackjax").nuts,
            key,
            position,
            log_p,
            count,
            self.target_acceptance,
            max_num_doublings=most,
        )


@dataclass(frozen=True)
class Leapfrog:
    """Trajectories of a random number of steps.

    Attributes:
        target_acceptance: Acceptance rate that sets the step size.
        most_steps: Numbers of steps are drawn from 1 to this.
        step_size: Of all chains; None to adapt it, and the masses, in the warm-up.
    """

    target_acceptance: float
    most_steps: int
    step_size: float | None

    def start(self, position: Any, log_p: LogDensity) -> Any:
        return needed("blackjax").hmc.init(position, log_p)

    def move(
        self, key: Any, state: Any, log_p: LogDensity, tuning: Tuning, steps: Any
    ) -> tuple[Any, Any]:
        kernel = needed("blackjax").hmc.build_kernel()
        return kernel(key, state, log_p, *tuning, steps)

    def warm_up(
        self, key: Any, position: Any, log_p: LogDensity, count: int
    ) -> tuple[Any, Tuning]:
        if self.step_size is None:
            return _adapt(
                _RandomSteps(self),
                key,
                position,
                log_p,
                count,
                self.target_acceptance,
            )
        jax, jnp = needed("jax"), needed("jax.numpy")
        tuning = Tuning(jnp.asarray(self.step_size), jnp.ones(len(position)))
        algorithm = _RandomSteps(self).build_kernel()

        def burn(state: Any, key: Any) -> tuple[Any, None]:
            return algorithm(key, state, log_p, *tuning)[0], None

        state = self.start(position, log_p)
        return jax.lax.scan(burn, state, jax.random.split(key, count))[0], tuning


@dataclass(frozen=True)
class _RandomSteps:
    """HMC as BlackJAX's adaptation wants it, with each chain's own number of steps."""

    leapfrog: Leapfrog

    def init(self, position: Any, log_p: LogDensity) -> Any:
        return self.leapfrog.start(position, log_p)

    def build_kernel(self) -> Callable[..., Any]:
        random = needed("jax").random

        def kernel(
            key: Any, state: Any, log_p: LogDensity, step_size: Any, inverse_mass: Any
        ) -> tuple[Any, Any]:
            key, of_steps = random.split(key)
            steps = random.randint(of_steps, (), 1, self.leapfrog.most_steps + 1)
            tuning = Tuning(step_size, inverse_mass)
            return self.leapfrog.move(key, state, log_p, tuning, steps)

        return kernel


def _adapt(
    algorithm: Any,
    key: Any,
    position: Any,
    log_p: LogDensity,
    count: int,
    target_acceptance: float,
    **options: Any,
) -> tuple[Any, Tuning]:
    """Stan's warm-up: step size by dual averaging, masses in growing windows."""
    adaptation = needed("blackjax").window_adaptation(
        algorithm,
        log_p,
        target_acceptance_rate=target_acceptance,
        adaptation_info_fn=lambda *_: None,
        **options,
    )
    (state, found), _ = adaptation.run(key, position, num_steps=count)
    return state, Tuning(found["step_size"], found["inverse_mass_matrix"])
