"""Runs a scheduler's command through the workloads: one process for each, on a port of its own."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import TYPE_CHECKING

from batfill.base.errors import BatfillError, nearest
from batfill.base.files import make_folder, scratch_folder, write_text
from batfill.base.host import cpu_count
from batfill.runner.sessions import POLL_S, Command, Lifeline, end, end_sessions, ending, is_listening, quoted
from batfill.simulator.scheduler_link import scheduler_link
from batfill.simulator.wire import SimulationStopped
from batfill_lab.conformance import Observed, Verdict, observe, write_inputs
from batfill_lab.conformance.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PORT_VARIABLE = "BATSIM_PORT"
DEFAULT_PORT = 28000
DEATH_S = 2.0  # from the end of a connection to that of its process
TIMEOUT_S = 120.0  # a scheduler may compile at its first start
LIMIT_S = 900.0
HEED_S = 0.2  # the longest time until the main thread heeds an interrupt
EXIT_GRACE_S = 5.0  # from the end of the simulation to the scheduler's
SCHED_SCRIPT, MESSAGES_FILE = "sched.bash", "messages.log"
OUT_LOG, ERR_LOG = "sched.out.log", "sched.err.log"


def require_known(workloads: Sequence[str]) -> None:
    """Check that these are names of workloads.

    Raises:
        BatfillError: one of them is not.
    """
    if unknown := next((name for name in workloads if name not in CASES), None):
        raise BatfillError(f"workload {unknown!r} is unknown{nearest(unknown, CASES)}; --list shows all")


def examine(
    command: str,
    *,
    workloads: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    limit_s: float = LIMIT_S,
    keep: Path | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> Verdict:
    """Run a scheduler through the workloads, until it leaves a message without an answer or the time is over.

    Args:
        command: starts it, in bash; `{port}`, `{endpoint}` and $BATSIM_PORT stand for where it has to listen. If it
            names none of them, it listens on Batsim's default port.
        workloads: names of CASES; by default all.
        timeout_s: the longest wait for it to listen, and for each reply.
        limit_s: the longest time for all workloads together.
        keep: the folder for workloads, messages and logs; by default they are removed.
        advance: called with 1 after each workload.

    Raises:
        BatfillError: a workload is unknown, the folder cannot be written, or the default port is in use.
    """
    require_known(workloads)
    if not command.strip():
        raise BatfillError("the scheduler's command is empty; give one such as 'batfill schedule --socket {endpoint}'")
    names = list(dict.fromkeys(workloads)) or list(CASES)
    chooses = takes_port(command)
    if not chooses and is_listening(DEFAULT_PORT):
        raise BatfillError(
            f"port {DEFAULT_PORT} is in use, and the scheduler's command takes no other; end what listens there, or "
            "write {port} or {endpoint} in the command"
        )
    if keep is not None:
        make_folder(keep)
    with ExitStack() as stack:
        temporary = stack.enter_context(scratch_folder("batfill-conformance"))
        held = os.open(temporary, os.O_RDONLY)
        stack.callback(os.close, held)
        lifeline = stack.enter_context(Lifeline(held))
        lifeline.remove([temporary])
        folders = {name: (temporary if keep is None else keep) / name for name in names}
        schedulers: list[Command] = []  # those that have ended too
        over = Event()
        patience = Patience(timeout_s, limit_s)

        def started(scheduler: Command) -> None:
            schedulers.append(scheduler)
            if over.is_set():
                raise SimulationStopped("interrupted")

        def run(name: str) -> Observed | None:
            if patience.lost:
                return None
            port = free_port() if chooses else DEFAULT_PORT
            try:
                return run_one(command, name, folders[name], port, patience, lifeline, started)
            finally:
                advance(1)

        for name, folder in folders.items():
            make_folder(folder)
            write_inputs(CASES[name], folder)
        pool = ThreadPoolExecutor(cpu_count() if chooses else 1)
        first, *others = names
        try:
            runs = {first: run(first)}
            if not has_answered(folders[first]):
                patience.lost = "the scheduler answered no message"
            runs |= zip(others, results([pool.submit(run, name) for name in others]), strict=True)
            observed = {name: run for name, run in runs.items() if run is not None}
            left = len(names) - len(observed)
            return Verdict(observed, f"the other workloads ({left}) were not run: {patience.lost}" if left else None)
        finally:
            # After an interrupt a run ends with its scheduler instead of a timeout.
            over.set()
            end_sessions(set().union(*(scheduler.sessions for scheduler in schedulers)))
            pool.shutdown(cancel_futures=True)


class Patience:
    """How long a scheduler may take: for each reply, and for all workloads together."""

    def __init__(self, timeout_s: float, limit_s: float) -> None:
        self.timeout_s, self.limit_s = timeout_s, limit_s
        self.deadline = time.monotonic() + limit_s
        self.lost: str | None = None  # why no further workload is worth a run

    @property
    def is_over(self) -> bool:
        """Whether the time for all workloads is over."""
        return time.monotonic() >= self.deadline

    def left_s(self) -> float:
        """The longest wait for the next reply.

        Raises:
            SimulationStopped: the time for all workloads is over.
        """
        if self.is_over:
            self.lost = f"the limit of {self.limit_s:g} s for all workloads is over; give more with --limit"
            raise SimulationStopped(self.lost)
        return min(self.timeout_s, self.deadline - time.monotonic())

    def exhausted(self, what: str) -> SimulationStopped:
        """The exception for a scheduler that was waited for."""
        self.left_s()
        self.lost = "the scheduler left a message without an answer"
        return SimulationStopped(what)


def results(runs: Sequence[Future[Observed | None]]) -> list[Observed | None]:
    """The results of all runs, or the first exception.

    An interrupt may be delivered to any thread, and does not wake the main thread while it waits without a timeout.
    """
    left = set(runs)
    while left:
        done, left = wait(left, HEED_S, FIRST_EXCEPTION)
        for run in done:
            run.result()
    return [run.result() for run in runs]


def takes_port(command: str) -> bool:
    """Whether the command says where the scheduler has to listen."""
    return any(place in command for place in ("{port}", "{endpoint}", PORT_VARIABLE))


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


def run_one(
    command: str,
    name: str,
    folder: Path,
    port: int,
    patience: Patience,
    lifeline: Lifeline,
    started: Callable[[Command], None],
) -> Observed:
    """A scheduler's run through one workload, in a process of its own, which is passed to `started`."""
    endpoint = f"tcp://127.0.0.1:{port}"
    script = command.replace("{port}", str(port)).replace("{endpoint}", endpoint)
    write_text(folder / SCHED_SCRIPT, f"{script}\n")
    scheduler = Command(
        "the scheduler",
        folder / SCHED_SCRIPT,
        env={**os.environ, PORT_VARIABLE: str(port)},
        stdout=folder / OUT_LOG,
        stderr=folder / ERR_LOG,
        lifeline=lifeline,
    )
    try:
        started(scheduler)
        with conversation(scheduler, endpoint, port, patience, folder / MESSAGES_FILE) as exchange:
            observed = observe(CASES[name], folder, exchange)
        if observed.problem:
            return observed
        wait_until(scheduler.ended, EXIT_GRACE_S)
        if scheduler.status is None:
            note = f"the scheduler still runs {EXIT_GRACE_S:g} s after the end of the simulation"
        elif scheduler.status:
            note = f"after the simulation the scheduler {in_full(scheduler)}"
        else:
            return observed
        return observed._replace(notes=(note,))
    finally:
        end([scheduler])


def has_answered(folder: Path) -> bool:
    """Whether the scheduler answered a message of the workload in this folder."""
    return b"\nReceived '" in (folder / MESSAGES_FILE).read_bytes()


@contextmanager
def conversation(
    scheduler: Command, endpoint: str, port: int, patience: Patience, log: Path
) -> Iterator[Callable[[bytes], bytes]]:
    """The function that sends the scheduler a message and returns its reply; writes both into the log."""
    met = False
    timeout_s = patience.timeout_s
    with (
        scheduler_link(endpoint, timeout_s, lambda: scheduler.ended() or patience.is_over) as link,
        log.open("wb") as messages,
    ):

        def exchange(message: bytes) -> bytes:
            nonlocal met
            messages.write(b"Sending '%b'\n" % message)
            left_s = patience.left_s()
            if not met and not wait_until(lambda: scheduler.ended() or is_listening(port), left_s):
                raise patience.exhausted(f"the scheduler does not listen on port {port} after {timeout_s:g} s")
            if not met and scheduler.ended():
                raise SimulationStopped(f"the scheduler {in_full(scheduler)}")
            met = True
            began = time.monotonic()
            try:
                reply = link(message)
            except SimulationStopped as error:
                patience.left_s()
                is_late = time.monotonic() - began >= timeout_s
                if wait_until(scheduler.ended, 0 if is_late else DEATH_S):
                    raise SimulationStopped(f"the scheduler {in_full(scheduler)}") from None
                if not is_late:
                    raise
                silent = f"the scheduler does not answer for {timeout_s:g} s; see why, or wait longer with --timeout"
                raise patience.exhausted(silent) from error
            messages.write(b"Received '%b'\n" % reply)
            return reply

        yield exchange


def in_full(scheduler: Command) -> str:
    """How the scheduler ended, and the line of its logs that says why."""
    assert scheduler.status is not None
    quote = quoted(scheduler.logs)
    return ending(scheduler.status) + ("" if quote is None else f", with: {quote.line}")


def wait_until(true: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until this is true; returns whether it is by then."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
