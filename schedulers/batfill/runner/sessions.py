"""Sessions of processes: what runs in them, ending them, and a watcher that ends them if this process is killed.

The watcher runs this file as a script, without the rest of the package, so that it starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# Time for processes to stop after SIGTERM; the remaining ones get SIGKILL.
TERM_GRACE_S = 2.0
# After SIGKILL only a process stuck inside the kernel is left, which is not waited for.
KILL_GRACE_S = 5.0
POLL_S = 0.02


def living(sessions: Collection[int]) -> list[int]:
    """The processes of these sessions that still run; a zombie does not."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            # "pid (name) state parent group session ...", and the name may hold anything
            state, _, _, session = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state not in "ZX" and int(session) in sessions:
                found.append(int(entry.name))
    return found


def end_sessions(sessions: Collection[int]) -> None:
    """End every process of these sessions: SIGTERM, a short wait, SIGKILL."""
    for number, grace_s in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        deadline = time.monotonic() + grace_s
        send(number, living(sessions))
        while (left := living(sessions)) and time.monotonic() < deadline:
            if number == signal.SIGKILL:  # also what was forked meanwhile
                send(number, left)
            time.sleep(POLL_S)


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Send these processes this signal, if they still run and belong to this user (sudo starts others)."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Lifeline:
    """A pipe to a watcher. If this process dies in any way, the watcher ends its sessions and removes its files.

    A context manager: if the block ends, in whatever way, the watcher does nothing.
    """

    def __init__(self, held: int) -> None:
        """Start the watcher, which keeps `held` open, an open file or folder with a lock.

        Raises:
            OSError: it cannot be started.
        """
        # This process keeps the reading end, too: if only the watcher is killed, writing does no harm.
        self._reading, self.handle = os.pipe()
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=self._reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(held,),
        )

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(self, *_: object) -> None:
        self._watcher.kill()
        self._watcher.wait()
        os.close(self.handle)
        os.close(self._reading)

    def starting(self, command: str) -> str:
        """A bash command that enrols its session with the watcher and becomes `command`; it must inherit `handle`.

        The process enrols itself, before this one may even know its number.
        """
        return f'echo "$$" >&{self.handle}; exec {command} {self.handle}>&-'

    def release(self, session: int) -> None:
        """Forget a session whose number may soon be another's."""
        self._write(-session)

    def remove(self, paths: Iterable[Path]) -> None:
        """Have these files and folders removed after the sessions have ended, if the watcher has to end them."""
        for path in paths:
            self._write(os.fsdecode(path.absolute()))

    def _write(self, value: object) -> None:
        os.write(self.handle, f"{json.dumps(value)}\n".encode())


def watch() -> None:
    """Read from the pipe until the process at its other end has died; then clean up for it."""
    sessions: set[int] = set()
    paths: list[str] = []
    for line in sys.stdin.buffer:
        value = json.loads(line)
        if isinstance(value, str):
            paths.append(value)
        elif value > 0:
            sessions.add(value)
        else:
            sessions.discard(-value)
    end_sessions(sessions)
    import shutil

    for path in paths:
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                Path(path).unlink()


if __name__ == "__main__":
    watch()
