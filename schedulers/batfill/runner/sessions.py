"""Bash commands in sessions of their own: starting and ending them, ports and logs, and a watcher over them.

The watcher ends the sessions if this process is killed. It runs this file as a script, without the rest of the package,
so that it starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# Time for processes to stop after SIGTERM; the remaining ones get SIGKILL.
TERM_GRACE_S = 2.0
# After SIGKILL only a process stuck inside the kernel is left, which is not waited for.
KILL_GRACE_S = 5.0
POLL_S = 0.02
LISTEN = "0A"  # a socket's state in the kernel's tables
TAIL_BYTES = 1 << 16
QUOTE_LENGTH = 200
# Bash's own output: the commands it runs (-x), and reports of those that a signal ended.
BASH_TRACE = re.compile(r"\++ ")
BASH_REPORT = re.compile(r"\S+: line \d+: +\d+ ")
# SimGrid's levels in "[0.000000] [server/CRITICAL] ...". What follows such a line is often a stack or a farewell.
SEVERE = re.compile(r"/(CRITICAL|ERROR)\]")


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
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Lifeline:
    """A pipe to a watcher. If this process dies in any way, the watcher ends its sessions and removes its files.

    A context manager: if the block ends, in whatever way, the watcher does nothing.
    """

    def __init__(self, held: int) -> None:
        """Start the watcher, which keeps `held` open, an open file or folder with a lock."""
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
        self._write(-session)

    def remove(self, paths: Iterable[Path]) -> None:
        """Have these files and folders removed after the sessions have ended, if the watcher has to end them."""
        for path in paths:
            self._write(os.fsdecode(path.absolute()))

    def _write(self, value: object) -> None:
        os.write(self.handle, f"{json.dumps(value)}\n".encode())


class Command:
    """A bash script in its own session, which `end` ends: `timeout` and job control create further process groups."""

    def __init__(
        self, name: str, script: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path, lifeline: Lifeline
    ) -> None:
        """Start `bash -eux script` with both logs emptied (they may be one file)."""
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

    def reap(self) -> None:
        """Release the script's process number; call this once the session has no running process."""
        if self.ended():
            self._lifeline.release(self._process.pid)
            self._process.wait()


def end(commands: Collection[Command]) -> None:
    end_sessions(set().union(*(command.sessions for command in commands)))
    for command in commands:
        command.reap()


def is_listening(port: int) -> bool:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):  # a kernel without IPv6 has no second table
            for row in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, *_ = row.split()
                if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


def tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, 2) - TAIL_BYTES, 0))
            return [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def last_line_of(logs: Sequence[Path]) -> str:
    """The log to read and why a process ended: SimGrid's last error, or else the last line that is not bash's own.

    It is from the first log that has such a line.
    """
    for log in logs:
        lines = [line for line in tail(log) if not BASH_TRACE.match(line) and not BASH_REPORT.match(line)]
        if lines:
            errors = [line for line in lines if SEVERE.search(line)]
            line = (errors or lines)[-1]
            short = line if len(line) <= QUOTE_LENGTH else f"{line[: QUOTE_LENGTH - 3]}..."
            return f"{log} {'reports' if errors else 'ends with'}: {short}"
    return f"{logs[0]} says nothing"


def ending(status: int) -> str:
    """A process's end in words; -signal and 128 + signal give the signal's name."""
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with status {status}"
    return f"was killed by {name}" if status < 0 else f"ended with status {status} ({name})"


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
