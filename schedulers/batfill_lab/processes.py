"""Work spread over local processes, and an estimate of the time left."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from batfill.base.host import IN_BROWSER, thread_pool

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from concurrent.futures import Future
    from multiprocessing.connection import Connection

    # `closing` needs a generator, so that a caller that stops early also ends the processes.
    Answers = Generator[tuple[int, Any], None, None]

Item = TypeVar("Item")
# bar("weeks", 100) makes a progress bar: a context manager that returns a function to advance it
Bar = Callable[[str, float | None], AbstractContextManager[Callable[[float], None]]]

TRIES = 3  # of a task whose worker dies
FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGHUP)  # reach every process in it; our main process handles them


@contextmanager
def no_bar(label: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A progress bar that shows nothing, the default everywhere."""
    yield lambda _: None


class WorkerDied(Exception):  # noqa: N818 - an event, as `BrokenProcessPool`
    """A task's worker processes died `TRIES` times."""


def spread(function: Callable[[Item], Any], tasks: Sequence[Item], workers: int) -> Answers:
    """Yield (index in `tasks`, result or the exception raised) as the tasks end.

    Every worker is a process, started when there is a task for it, with one task at a time. If one dies, another takes
    over its task. When the generator is closed, or this process ends in any way, SIGKILL included, the workers end at
    once. A worker imports the function from its module; tasks and results must be picklable.
    """
    if IN_BROWSER:
        with thread_pool(1) as pool:
            for task, item in enumerate(tasks):
                done = pool.submit(function, item)
                yield task, done.exception() or done.result()
        return
    context = get_context("spawn")  # a fork would copy the locks of scikit-learn's threads
    lifeline, held = context.Pipe(duplex=False)
    waiting = deque(range(len(tasks)))
    deaths: Counter[int] = Counter()
    pools: set[ProcessPoolExecutor] = set()  # one process each, which identifies the task lost
    idle: list[ProcessPoolExecutor] = []
    flying: dict[Future[Any], tuple[ProcessPoolExecutor, int]] = {}
    try:
        while waiting or flying:
            while waiting and (idle or len(pools) < workers):
                if not idle:
                    idle.append(ProcessPoolExecutor(1, mp_context=context, initializer=obey, initargs=(lifeline,)))
                    pools.add(idle[-1])
                pool, task = idle.pop(), waiting[0]
                try:
                    with signals_held():  # the new process inherits the mask
                        future = pool.submit(function, tasks[task])
                    # The worker has the pipe's writing end now. With a copy open here, the pool's thread would read
                    # forever if the worker died in the middle of an answer.
                    pool._result_queue._writer.close()  # type: ignore[attr-defined]
                except BrokenProcessPool:  # it died while idle
                    pools.remove(pool)
                    pool.shutdown()
                    continue
                waiting.popleft()
                flying[future] = pool, task
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                pool, task = flying.pop(future)
                error = future.exception()
                if not isinstance(error, BrokenProcessPool):
                    idle.append(pool)
                    yield task, future.result() if error is None else error
                    continue
                pools.remove(pool)
                pool.shutdown()
                deaths[task] += 1
                if deaths[task] < TRIES:
                    waiting.append(task)
                else:
                    yield task, WorkerDied(f"a worker process died on it {TRIES} times; is there enough memory?")
    finally:
        held.close()
        for pool in pools:
            pool.shutdown(cancel_futures=True)
        lifeline.close()


def obey(lifeline: Connection) -> None:
    """End this process when the other end of the pipe closes, which also happens when its owner dies."""

    def watch() -> None:
        try:
            lifeline.poll(None)
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def signals_held() -> Iterator[None]:
    """Defer the terminal's signals until the block ends; processes started meanwhile never receive them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_THE_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
