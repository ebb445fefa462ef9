"""A command under bash and every process it started: begun together, ended together; and signals that ask for it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from batfill.errors import STOPPING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import FrameType

# How long processes may take to stop after SIGTERM; what is left then gets SIGKILL.
TERM_GRACE_S = 2.0
# After SIGKILL only a process stuck inside the kernel is left, and that one is not waited for.
KILL_GRACE_S = 5.0
POLL_S = 0.02
# Signals that ask a run to stop, noted while it can still clean up.


class Command:
    """A bash script that runs in a session of its own.

    The session is what is ended, not the process group: `timeout` and job control make groups of their own.
    """

    def __init__(self, name: str, script: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path) -> None:
        """Start `bash -eux script`, with both logs begun anew (they may be one file).

        Raises:
            OSError: a log cannot be written, or bash cannot be started.
        """
        self.name = name
        self.logs = (stderr, stdout)
        self.status: int | None = None  # once it has ended: its exit status, or minus the signal that ended it
        with stdout.open("wb") as out, stderr.open("ab" if stderr == stdout else "wb") as err:
            self._process = subprocess.Popen(
                ["bash", "-eux", str(script)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def ended(self) -> bool:
        """Whether the script is over; what it started in the background may go on."""
        if self.status is None:
            # Left unreaped, it keeps its number: no stranger's session can take it before `end` has signalled ours.
            result = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return self.status is not None

    def living(self) -> list[int]:
        """The processes of the session that still run."""
        if self._process.returncode is not None:  # reaped: the number may be another's by now
            return []
        return [pid for pid, session in running_processes() if session == self._process.pid]

    def signal(self, number: signal.Signals) -> None:
        """Send every process of the session this signal."""
        for pid in self.living():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def reap(self) -> None:
        """Give the script's number back; to be called when nothing of the session runs."""
        if self.ended():
            self._process.wait()


def end(commands: Collection[Command]) -> None:
    """End every process of these commands: SIGTERM, a little time to stop, SIGKILL."""
    for number, grace_s in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        deadline = time.monotonic() + grace_s
        for command in commands:
            command.signal(number)
        while (left := [command for command in commands if command.living()]) and time.monotonic() < deadline:
            if number == signal.SIGKILL:  # also what was forked meanwhile
                for command in left:
                    command.signal(number)
            time.sleep(POLL_S)
    for command in commands:
        command.reap()


def running_processes() -> Iterator[tuple[int, int]]:
    """Every process of this machine that is no zombie, with its session's number."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                # "pid (name) state parent group session ...", and the name may hold anything
                state, _, _, session = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
                if state not in "ZX":
                    yield int(entry.name), int(session)


class Interrupts:
    """Which of STOPPING has arrived; None as long as none has."""

    def __init__(self) -> None:
        self.arrived: signal.Signals | None = None

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Remember the first. No exception: it could strike between a process's start and our knowing of it."""
        self.arrived = self.arrived or signal.Signals(number)


@contextmanager
def noted_interrupts() -> Iterator[Interrupts]:
    """Note STOPPING instead of dying of it, while the block lasts. Only the main thread can: elsewhere none arrives."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.note) for number in STOPPING}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
