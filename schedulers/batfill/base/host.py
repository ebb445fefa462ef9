"""What Python finds around it: in a browser there is one thread, no other process, and nothing to lock.

Whatever differs there is decided in this file; `batfill.cli` and whatever starts processes read `IN_BROWSER`.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

IN_BROWSER = sys.platform == "emscripten"


def cpu_count() -> int:
    """The number of processors this process may use."""
    return 1 if IN_BROWSER else len(os.sched_getaffinity(0))


def lock(handle: int, *, wait: bool = False) -> None:
    """Lock an open file or folder until it is closed or the process dies; `wait` until no other has locked it.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: its file system cannot lock.
    """
    if IN_BROWSER:
        return
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def thread_pool(threads: int) -> Iterator[Executor]:
    """A pool of threads for the block; on failure or interrupt, running work is not waited for.

    In a browser, which has no threads, `submit` returns after the work is done.
    """
    from concurrent.futures import Executor, Future, ThreadPoolExecutor

    class AtOnce(Executor):
        def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            done: Future[Any] = Future()
            try:
                done.set_result(function(*arguments, **named))
            except Exception as error:
                done.set_exception(error)
            return done

    pool = AtOnce() if IN_BROWSER else ThreadPoolExecutor(threads)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
