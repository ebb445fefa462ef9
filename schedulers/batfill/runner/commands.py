"""Starts a bash command, ends it with every process it started, and notes signals that interrupt the run."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batfill.base.errors import STOPPING
from batfill.runner.sessions import Lifeline, end_sessions, living

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path
    from types import FrameType


class Command:
    """A bash script that runs in a separate session.

    `end` ends the session, not the process group: `timeout` and job control create further groups.
    """

    def __init__(
        self, name: str, script: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path, lifeline: Lifeline
    ) -> None:
        """Start `bash -eux script` with both logs emptied (they may be one file).

        Raises:
            OSError: a log cannot be written, or bash cannot be started.
        """
        self.name = name
        self.logs = (stderr, stdout)
        self.status: int | None = None  # after its end: its exit status, or minus the signal that ended it
        with stdout.open("wb") as out, stderr.open("ab" if stderr == stdout else "wb") as err:
            self._process = subprocess.Popen(
                # -p: only the second bash reads BASH_ENV
                ["bash", "-p", "-c", lifeline.starting('bash -eux "$0"'), str(script)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=(lifeline.handle,),
            )
        self._lifeline = lifeline

    def ended(self) -> bool:
        """Whether the script has ended; its background processes may still run."""
        if self.status is None:
            # Unreaped, it keeps its number: no other session can take it before `end` has signalled ours.
            result = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return self.status is not None

    @property
    def sessions(self) -> set[int]:
        """The number of its session; none once it may belong to another process."""
        return set() if self._process.returncode is not None else {self._process.pid}

    def living(self) -> list[int]:
        """The processes of the session that still run."""
        return living(self.sessions)

    def reap(self) -> None:
        """Release the script's process number; call this once the session has no running process."""
        if self.ended():
            self._lifeline.release(self._process.pid)
            self._process.wait()


def end(commands: Collection[Command]) -> None:
    """End every process of these commands: SIGTERM, a short wait, SIGKILL."""
    end_sessions(set().union(*(command.sessions for command in commands)))
    for command in commands:
        command.reap()


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
