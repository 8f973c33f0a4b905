"""Data to try things on: simulations with a known truth, and the paper's data sets."""

from kexpfam.datasets.benchmark import Benchmark, list_benchmarks, load_benchmark
from kexpfam.datasets.conditional import (
    make_abrupt,
    make_bimodal,
    make_failure,
    make_heteroscedastic,
    make_skewed,
)
from kexpfam.datasets.joint import make_grid, make_joint
from kexpfam.datasets.simulation import (
    ConditionalSimulation,
    JointSimulation,
    Simulation,
)

__all__ = [
    "Benchmark",
    "ConditionalSimulation",
    "JointSimulation",
    "Simulation",
    "list_benchmarks",
    "load_benchmark",
    "make_abrupt",
    "make_bimodal",
    "make_failure",
    "make_grid",
    "make_heteroscedastic",
    "make_joint",
    "make_skewed",
]
