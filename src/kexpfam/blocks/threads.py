"""One BLAS thread for tasks that come and go on several threads of a process.

The number of BLAS threads often belongs to the whole process. If each task set and
restored it on its own, the first to end would restore it under the others, and the last
might restore what another had set. So a thread that does nothing else holds the limit,
from the first task that needs it to the last. (threadpoolctl lets only the thread that
set a limit lift it.)
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kexpfam.linalg import single_threaded_blas


class _SharedLimit:
    """Set when the first enters, lifted when the last has left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._lift = threading.Event()
        self._holder = threading.Thread()

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._set()
            self._users += 1
        try:
            # Of some libraries each thread has a number of its own.
            with single_threaded_blas():
                yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._lift.set()
                    self._holder.join()

    def _set(self) -> None:
        is_set, lift = threading.Event(), threading.Event()

        def hold() -> None:
            with single_threaded_blas():
                is_set.set()
                lift.wait()

        self._lift, self._holder = lift, threading.Thread(target=hold, daemon=True)
        self._holder.start()
        is_set.wait()


# The one state of this module, because what it guards is a state of the process.
one_blas_thread = _SharedLimit().held
