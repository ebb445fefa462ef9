"""Work spread over processes of this machine, and how long the rest of it takes."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from multiprocessing.connection import Connection

    # `closing` needs a generator, so that a caller that stops in the middle ends the processes, too.
    Answers = Generator[tuple[int, Any], None, None]

Item = TypeVar("Item")
# bar("weeks", 100) makes a progress bar: a context that gives a function to move it on
Bar = Callable[[str, float | None], AbstractContextManager[Callable[[float], None]]]

TRIES = 3  # of a task whose process dies
FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGHUP)  # go to every process in it; the first of ours answers for all


@contextmanager
def no_bar(label: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A progress bar that shows nothing, which is what functions use unless they are given another."""
    yield lambda _: None


class WorkerDied(Exception):  # noqa: N818 - what happened, as `BrokenProcessPool`
    """The processes that were given a task ended before it did, `TRIES` times."""


def cpu_count() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def spread(function: Callable[[Item], Any], tasks: Sequence[Item], workers: int) -> Answers:
    """Yield (place in `tasks`, result or the exception that was raised), as the tasks end.

    Every worker is a process of its own that starts when there is a task for it and has one task at a time. One that
    dies costs nothing but time: another takes its place and its task. When the generator is closed, or this process
    ends in whatever way, SIGKILL included, the workers end at once.

    Args:
        function: a module's, so that a worker can import it.
        tasks: what it is called with, each once; both these and the results must be picklable.
        workers: how many processes at most.
    """
    context = get_context("spawn")  # a fork would copy the locks of numba's and scikit-learn's threads
    lifeline, held = context.Pipe(duplex=False)
    waiting = deque(range(len(tasks)))
    deaths: Counter[int] = Counter()
    pools: set[ProcessPoolExecutor] = set()  # of one process each, so that it is known whose task was lost
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
                    with signals_held():  # the process that this starts inherits the mask
                        future = pool.submit(function, tasks[task])
                except BrokenProcessPool:  # it died while it had no task
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
            # A worker that ends in the middle of an answer leaves the pool's thread reading the rest, for ever if this
            # process itself keeps the pipe's other end open.
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
            pool.shutdown(cancel_futures=True)
        lifeline.close()


def obey(lifeline: Connection) -> None:
    """End this process when the other end of the pipe is closed, which the death of its owner does, too."""

    def watch() -> None:
        try:
            lifeline.poll(None)
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def signals_held() -> Iterator[None]:
    """Keep the terminal's signals waiting until the block ends; processes that start meanwhile never see them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_THE_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Remaining:
    """How long the rest of some work takes, from what its finished part took: kinds of work scale each on their own."""

    def __init__(self, expected: Mapping[str, float], workers: float, *, known: bool) -> None:
        """Expect this much of each kind.

        Args:
            expected: seconds of each kind's tasks, one after the other; any other unit of work if not `known`.
            workers: how many tasks run at a time.
            known: whether `expected` is in seconds, and so says something before a kind's first task has ended.
        """
        self.left = dict(expected)
        self.workers = workers
        self.known = known
        self.done: dict[str, float] = defaultdict(float)
        self.took_s: dict[str, float] = defaultdict(float)

    def ended(self, kind: str, expected: float, took_s: float) -> None:
        """A task of this kind, of which so much was expected, took this long."""
        self.left[kind] -= expected
        self.done[kind] += expected
        self.took_s[kind] += took_s

    def seconds(self) -> float | None:
        """About how long the tasks that have not ended take; None if some are of a kind of which nothing is known."""
        total_s = 0.0
        for kind, left in self.left.items():
            if left <= 1e-9:  # what rounding leaves
                continue
            if self.done[kind] > 0:
                total_s += left * self.took_s[kind] / self.done[kind]
            elif self.known:
                total_s += left
            else:
                return None
        return total_s / self.workers


def rough_duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
