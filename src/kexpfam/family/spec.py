"""What is asked of a fit: what is given, what is open, and how large it may be."""

import time
from dataclasses import dataclass, field
from typing import Any

from kexpfam._parallel import thread_count
from kexpfam._validation import check_flag, check_positive
from kexpfam.base_densities import Base
from kexpfam.data import DEFAULT_BUDGET
from kexpfam.kernels import JointKernel, Kernel
from kexpfam.summaries import ColumnKinds, LearnedSummary


@dataclass(frozen=True)
class Limits:
    """How large a fit may be, and from where on it is made in another way."""

    # Rows that coordinates, kernel and centres are chosen on, and that `partial_fit`
    # keeps, at most: what is chosen from so many hardly changes with more
    design_rows: int = 20_000
    # Rows in memory up to which an average learns its coordinates from all of them:
    # forests get better with every row
    average_rows: int = 100_000
    # Rows times columns of y up to which a fit without a choice is exact unless told
    # how many centres to have: a second or two
    exact_size: int = 5000
    # Rows from which on the number of centres is chosen, if it is open
    counted_rows: int = 1000
    # Numbers of centres that are tried if the user does not say how many: from the
    # first on, doubled up to the second, and no more than one for so many rows
    fewest_centers: int = 128
    most_centers: int = 1024
    rows_per_center: int = 2
    # Centres of each member of an average, at most, where their number is chosen: the
    # members share one pass over the rows
    member_centers: int = 512
    # Rows that candidates are validated on, at most, the chosen ones being fitted to
    # all; fewer with several columns of y, where rows are nodes of an integral too, and
    # cost their square
    validation_rows: int = 5000
    validation_rows_of_several: int = 1500


@dataclass(frozen=True)
class Spec:
    """Kernels, base density and λ, given or open (None), and how to find the rest."""

    kernel_x: Kernel | None = None
    kernel_y: Kernel | None = None
    kernel: JointKernel | None = None  # Instead of the two
    base: Base | str | None = None
    regularization: float | None = None
    features: LearnedSummary | None = None  # What the kernel of x acts on; None for x
    kinds: ColumnKinds | None = None  # Which columns of x are gaps and categories
    # Width that one column of y was rounded to, 0 for none; None to look at the rows
    rounding: float | None = None
    fit_method: str = "score"  # Name of a `Solver`
    # Whether a fit with isolated components is finished by likelihood
    finish: bool = False
    select: str | None = "likelihood"  # Criterion that chooses what is open, or None
    search: Any = None  # Where to look, a `SearchMethod`
    solver: str | None = None  # Of the linear system: exact, low-rank, iterative
    n_components: int | None = None  # Centres of a low-rank fit
    centers: str = "random_pivoted"  # How they are chosen
    derivatives: bool = False  # Whether the basis holds derivatives of the kernel
    standardize: bool = True
    memory_budget: int = DEFAULT_BUDGET
    time_budget: float | None = None  # Seconds that a search may take, and the fits
    # When they began, on the monotonic clock: where a fit has written what is asked
    started: float = field(default_factory=time.monotonic, compare=False)
    bootstrap: int = 0  # Fits to rows with random weights, for bands of densities
    limits: Limits = field(default_factory=Limits)
    n_jobs: int | None = None
    verbose: bool = False
    client: Any = None  # Dask client for passes over a source
    # What the user calls the responses and their kernel, for error messages
    response_name: str = "y"
    kernel_name: str = "kernel_y"

    @property
    def all_given(self) -> bool:
        """Whether the user gave kernels and λ."""
        kernels = [self.kernel] if self.kernel else [self.kernel_x, self.kernel_y]
        return all(part is not None for part in [*kernels, self.regularization])

    @property
    def settled(self) -> bool:
        """Whether there is nothing to choose; own kernels are not tuned."""
        own = self.kernel is not None and not self.kernel.products
        return self.select is None or own or self.all_given

    @property
    def criterion(self) -> str:
        """Name of what chooses, where there is something to choose."""
        assert self.select is not None
        return self.select

    def __post_init__(self) -> None:
        check_flag("standardize", self.standardize)
        if not isinstance(self.kernel, JointKernel | None):
            raise TypeError(
                f"kernel must be a joint kernel, such as separable(Gaussian(0.5), "
                f"Gaussian(1.0)), or None; got {self.kernel!r}."
            )
        if self.time_budget is not None:
            check_positive("time_budget", self.time_budget)
        thread_count(self.n_jobs)  # refuses what is not a number of threads
