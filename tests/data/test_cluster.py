"""Sums by Dask: any scheduler gives the sums of a loop, also when a worker is lost."""

import os
import signal
import time

import numpy as np
import pytest

from kexpfam.data import ArraySource, DaskSource, ParquetSource, reduce_blocks
from tests.clusters import cluster
from tests.data.accumulators import AllRows, Failing, Heavy, Moments, Owner
from tests.data.cases import (
    RESPONSES,
    all_sources,
    assert_holds,
    assert_sums,
    dask_frame,
    parquet_file,
    slow_moments,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytest.importorskip("dask.dataframe")


# Their tables have names of rows, which are texts.
pytestmark = pytest.mark.filterwarnings("ignore:Columns that hold no numbers")


@pytest.fixture(scope="module")
def sources(rows, tmp_path_factory):
    return all_sources(rows, tmp_path_factory.mktemp("rows"), block=30)


@pytest.fixture(scope="module")
def processes():
    """A client of two worker processes."""
    with cluster(n_workers=2, processes=True) as client:
        yield client


@pytest.mark.parametrize("kind", ["dask arrays", "dask frame", "dask series"])
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_schedulers_in_this_process_give_the_sums_of_a_loop(
    sources, rows, kind, scheduler
):
    with dask.config.set(scheduler=scheduler):
        assert_sums(sources[kind], rows)
        assert_sums(sources[kind], rows, n_jobs=-1)


@pytest.mark.slow
def test_the_scheduler_of_processes_gives_the_sums_of_a_loop(rows):
    source = DaskSource(dask_frame(rows, npartitions=3), RESPONSES, "w")
    with dask.config.set(scheduler="processes", num_workers=2):
        assert_sums(source, rows)


@pytest.mark.slow
def test_a_cluster_of_threads_gives_the_sums_of_a_loop(sources, rows):
    with cluster(n_workers=1, threads_per_worker=2, processes=False) as client:
        assert_sums(sources["dask arrays"], rows, client=client)


@pytest.mark.parametrize(
    "kind", ["arrays", "parquet", "polars", "dask arrays", "dask frame", "dask series"]
)
@pytest.mark.slow
def test_a_cluster_of_processes_gives_the_sums_of_a_loop(
    sources, rows, kind, processes
):
    assert_sums(sources[kind], rows, client=processes)


@pytest.mark.slow
def test_the_current_client_is_used_without_being_named(rows, processes):
    source = DaskSource(dask_frame(rows), RESPONSES, "w")
    assert reduce_blocks(source, Owner()) == {os.getpid()}
    with processes.as_current():
        owners = reduce_blocks(source, Owner())
        with dask.config.set(scheduler="threads"):
            assert reduce_blocks(source, Owner()) == {os.getpid()}
    assert owners <= set(processes.run(os.getpid).values())


@pytest.mark.slow
def test_other_sources_stay_in_this_process_unless_a_client_is_given(rows, processes):
    source = ArraySource(*rows, rows=100)
    with processes.as_current():
        assert reduce_blocks(source, Owner()) == {os.getpid()}
    assert os.getpid() not in reduce_blocks(source, Owner(), client=processes)


@pytest.mark.slow
def test_sums_are_the_same_bits_whichever_task_ends_first(sources, processes):
    results = [
        reduce_blocks(sources["dask arrays"], Moments(6), client=processes)
        for _ in range(3)
    ]
    results.append(reduce_blocks(sources["dask arrays"], Moments(6)))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.slow
def test_order_of_partitions_is_kept_through_the_tree(rows, processes):
    # 100 partitions: three levels of combining eight
    numbers = np.arange(1000.0)[:, None]
    X = da.from_array(numbers, chunks=(10, 1))
    got = reduce_blocks(DaskSource(X, numbers), AllRows(), client=processes)
    np.testing.assert_array_equal(np.concatenate(got)[:, :1], numbers)


@pytest.mark.slow
def test_progress_counts_every_partition(sources, processes):
    for options in ({}, {"client": processes}):
        calls = []

        def note(done, total, calls=calls):
            calls.append((done, total))

        reduce_blocks(sources["dask arrays"], Moments(6), progress=note, **options)
        assert calls == [(done, 8) for done in range(1, 9)]


@pytest.mark.slow
def test_errors_in_tasks_are_raised_here(processes):
    numbers = np.arange(1000.0)[:, None]
    source = DaskSource(da.from_array(numbers, chunks=(50, 1)), numbers)
    for options in ({}, {"client": processes}):
        with pytest.raises(ArithmeticError, match="asked to fail"):
            reduce_blocks(source, Failing(500.0), **options)
    numbers[777] = np.nan
    source = DaskSource(da.from_array(numbers, chunks=(50, 1)), np.zeros(1000))
    with pytest.raises(ValueError, match=r"X must hold .* row 27 of partition 15"):
        reduce_blocks(source, Moments(3), client=processes)


@pytest.mark.slow
def test_an_interrupt_cancels_what_is_left(processes):
    numbers = np.arange(1000.0)[:, None]
    source = DaskSource(da.from_array(numbers, chunks=(10, 1)), numbers)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_blocks(
            source, Moments(3, seconds=0.05), client=processes, progress=interrupt
        )
    deadline = time.monotonic() + 10
    while any(processes.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(processes.processing().values())
    # and the cluster is as good as before
    again = reduce_blocks(source, Moments(3), client=processes)
    assert again[0, 0] == 1000


@pytest.mark.slow
def test_a_heavy_accumulator_is_sent_once_for_each_process(rows, processes):
    # 12 MB: if each of 100 tasks held it, more than a gigabyte would be sent, and
    # Dask would warn of a large graph, which is an error here.
    source = DaskSource(
        da.from_array(rows[0], chunks=(10, 3)), da.from_array(rows[1], chunks=(10, 2))
    )
    loaded = reduce_blocks(source, Heavy(np.zeros(1_500_000)), client=processes)
    assert 1 <= len(loaded) <= 2 * 2  # identities of arrays, in at most two processes


@pytest.mark.slow
def test_no_sum_of_a_part_stays_behind(rows, processes):
    source = DaskSource(da.from_array(rows[0], chunks=(10, 3)), rows[1])
    held = []

    def look(done, total):
        if done % 10 == 0:
            keys = [key for keys in processes.has_what().values() for key in keys]
            held.append(sum("kexpfam-part" in str(key) for key in keys))

    reduce_blocks(source, Moments(6, seconds=0.02), client=processes, progress=look)
    # Two processes, eight sums to a group, and some delay until sums are let go.
    assert max(held) < 50


@pytest.mark.parametrize("n_workers", [2])
@pytest.mark.slow
def test_a_lost_worker_costs_only_its_blocks(rows, n_workers, tmp_path):
    X, y, weights = rows
    source = DaskSource(
        da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=(20, 2)), weights
    )
    killed = []

    def kill_one(done, total):
        if done >= 15 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with cluster(n_workers=n_workers, processes=True, silence_logs=50) as client:
        first = set(client.run(os.getpid).values())
        accumulator = Moments(6, seconds=0.02)
        got = reduce_blocks(source, accumulator, client=client, progress=kill_one)
    assert first & set(killed)
    np.testing.assert_allclose(got, slow_moments(*rows), rtol=1e-12, atol=1e-12)


def test_parts_of_dask_collections_can_be_read_one_by_one(sources, rows):
    for kind in ("dask arrays", "dask frame", "dask series"):
        assert_holds(sources[kind], rows)


@pytest.mark.slow
def test_no_partition_at_all_gives_the_empty_sum(rows, tmp_path, processes):
    empty = tuple(array[:0] for array in rows)
    source = ParquetSource(parquet_file(tmp_path, empty), RESPONSES, "w")
    got = reduce_blocks(source, Moments(6), client=processes)
    np.testing.assert_array_equal(got, np.zeros((6, 6)))
