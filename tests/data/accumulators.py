"""Sums for the tests, in a module that other processes can import."""

import os
import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_info

from kexpfam.data import Accumulator


@dataclass(frozen=True)
class Moments(Accumulator):
    """Weighted Σ z zᵀ of z = (1, x, y), in place, slowly if asked for."""

    size: int
    seconds: float = 0.0

    def start(self):
        return np.zeros((self.size, self.size))

    def add(self, state, block):
        time.sleep(self.seconds)
        Z = np.column_stack([np.ones(len(block)), block.X, block.Y])
        state += Z.T @ (block.weights[:, None] * Z)
        return state

    def combine(self, first, second):
        first += second
        return first


@dataclass(frozen=True)
class Summary:
    """Rows whose weight is not zero: number, weight and range of each column."""

    n_rows: int
    total_weight: float
    X_min: np.ndarray
    X_max: np.ndarray
    Y_min: np.ndarray
    Y_max: np.ndarray


@dataclass(frozen=True)
class RowCount(Accumulator):
    """Counts and ranges."""

    n_features: int
    n_responses: int

    def start(self):
        p, d = self.n_features, self.n_responses
        return Summary(
            0,
            0.0,
            np.full(p, np.inf),
            np.full(p, -np.inf),
            np.full(d, np.inf),
            np.full(d, -np.inf),
        )

    def add(self, state, block):
        rows = Summary(
            len(block),
            float(block.weights.sum()),
            block.X.min(axis=0),
            block.X.max(axis=0),
            block.Y.min(axis=0),
            block.Y.max(axis=0),
        )
        return self.combine(state, rows)

    def combine(self, first, second):
        return Summary(
            first.n_rows + second.n_rows,
            first.total_weight + second.total_weight,
            np.minimum(first.X_min, second.X_min),
            np.maximum(first.X_max, second.X_max),
            np.minimum(first.Y_min, second.Y_min),
            np.maximum(first.Y_max, second.Y_max),
        )


@dataclass(frozen=True)
class AllRows(Accumulator):
    """All rows, in the order of reading."""

    def start(self):
        return []

    def add(self, state, block):
        state.append(np.column_stack([block.X, block.Y, block.weights]))
        return state

    def combine(self, first, second):
        return first + second


@dataclass(frozen=True)
class Failing(Accumulator):
    """Raises at rows whose first feature is above a limit; counts the blocks before."""

    limit: float

    def start(self):
        return 0

    def add(self, state, block):
        if block.X[0, 0] > self.limit:
            raise ArithmeticError("asked to fail")
        time.sleep(0.002)
        return state + 1

    def combine(self, first, second):
        return first + second


@dataclass(frozen=True)
class Owner(Accumulator):
    """Numbers of the processes that added blocks."""

    def start(self):
        return set()

    def add(self, state, block):
        time.sleep(0.01)
        return state | {os.getpid()}

    def combine(self, first, second):
        return first | second


@dataclass(frozen=True, eq=False)
class Heavy(Accumulator):
    """Which copies of a large array were used, by process and address."""

    array: np.ndarray

    def start(self):
        return set()

    def add(self, state, block):
        return state | {(os.getpid(), self.array.ctypes.data)}

    def combine(self, first, second):
        return first | second


@dataclass(frozen=True)
class BlasThreads(Accumulator):
    """Numbers of BLAS threads that were seen while blocks were added."""

    def start(self):
        return set()

    def add(self, state, block):
        found = threadpool_info()
        return state | {i["num_threads"] for i in found if i["user_api"] == "blas"}

    def combine(self, first, second):
        return first | second
