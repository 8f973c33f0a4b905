"""A Dask cluster on this machine, for tests."""

import contextlib

import distributed


@contextlib.contextmanager
def cluster(**options):
    """A client of a cluster on this machine, which is not Dask's default."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", **options}
    with (
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client
