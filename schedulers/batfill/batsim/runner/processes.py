"""Starts a bash command, ends it with every process it started, and notes signals that interrupt the run."""

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

# Time for processes to stop after SIGTERM; the remaining ones get SIGKILL.
TERM_GRACE_S = 2.0
# After SIGKILL only a process stuck inside the kernel is left, which is not waited for.
KILL_GRACE_S = 5.0
POLL_S = 0.02
# Signals that stop a run, noted so that it can still clean up.


class Command:
    """A bash script that runs in a separate session.

    `end` ends the session, not the process group: `timeout` and job control create further groups.
    """

    def __init__(self, name: str, script: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path) -> None:
        """Start `bash -eux script` with both logs emptied (they may be one file).

        Raises:
            OSError: a log cannot be written, or bash cannot be started.
        """
        self.name = name
        self.logs = (stderr, stdout)
        self.status: int | None = None  # after its end: its exit status, or minus the signal that ended it
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
        """Whether the script has ended; its background processes may still run."""
        if self.status is None:
            # Unreaped, it keeps its number: no other session can take it before `end` has signalled ours.
            result = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return self.status is not None

    def living(self) -> list[int]:
        """The processes of the session that still run."""
        if self._process.returncode is not None:  # reaped: the number may belong to another process by now
            return []
        return [pid for pid, session in running_processes() if session == self._process.pid]

    def signal(self, number: signal.Signals) -> None:
        """Send every process of the session this signal."""
        for pid in self.living():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def reap(self) -> None:
        """Release the script's process number; call this once the session has no running process."""
        if self.ended():
            self._process.wait()


def end(commands: Collection[Command]) -> None:
    """End every process of these commands: SIGTERM, a short wait, SIGKILL."""
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
    """Every process of this machine that is not a zombie, with its session's number."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                # "pid (name) state parent group session ...", and the name may hold anything
                state, _, _, session = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
                if state not in "ZX":
                    yield int(entry.name), int(session)


class Interrupts:
    """The first signal of STOPPING that arrived, or None."""

    def __init__(self) -> None:
        self.arrived: signal.Signals | None = None

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Store the first. An exception instead could strike between a process's start and its registration."""
        self.arrived = self.arrived or signal.Signals(number)


@contextmanager
def noted_interrupts() -> Iterator[Interrupts]:
    """Note the signals of STOPPING during the block instead of dying; only in the main thread, others get none."""
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
