"""One BLAS thread while any task needs it, and as many as before after the last."""

import os
import subprocess
import sys

import numpy as np
import pytest

from kexpfam.data import ArraySource, reduce_blocks
from tests.data.accumulators import BlasThreads

TWO_TASKS = """
import threading
from threadpoolctl import threadpool_info
from kexpfam._parallel import single_threaded_blas

def count():
    counts = {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}
    print(*counts)

second_is_in, first_is_out = threading.Event(), threading.Event()

def second():
    with single_threaded_blas():
        second_is_in.set()
        first_is_out.wait()

count()
for _ in range(2):
    second_is_in.clear()
    first_is_out.clear()
    thread = threading.Thread(target=second)
    with single_threaded_blas():
        thread.start()
        second_is_in.wait()
        count()
    count()
    first_is_out.set()
    thread.join()
    count()
"""


def test_the_limit_lasts_from_the_first_task_to_the_last():
    # In a process of its own: the number to be restored is set before BLAS is loaded.
    output = subprocess.run(
        [sys.executable, "-c", TWO_TASKS],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if output[0] == "1":
        pytest.skip("this BLAS has no threads")
    assert output == ["2", "1", "1", "2", "1", "1", "2"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blocks_are_added_with_one_blas_thread(threads):
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        source = ArraySource(np.zeros((60, 1)), np.zeros(60), rows=20)
        assert reduce_blocks(source, BlasThreads(), n_jobs=threads) == {1}
