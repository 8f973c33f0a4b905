"""One BLAS thread while any of several threads needs that.

The number of BLAS threads belongs to the whole process. If each thread set and restored
it on its own, the first to end would restore it under the others, and the last would
restore what an other one had set.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kexpfam.linalg import single_threaded_blas


class _SharedLimit:
    """Set by the first that enters, lifted by the last that leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit = ExitStack()

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._limit.enter_context(single_threaded_blas())
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limit.close()


# The one state of this module, because what it guards is a state of the process.
one_blas_thread = _SharedLimit().held
