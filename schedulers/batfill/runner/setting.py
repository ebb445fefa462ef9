"""What every step of a run needs: its descriptor and environment, its folder, the signals that stop it, its record."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from batfill.base import host
from batfill.base.errors import STOPPING, BatfillError
from batfill.base.files import file_bytes, loaded_json, remove_left_overs, write_json
from batfill.base.version import __version__
from batfill.batsim_files.results import RUN_JSON, remove_results
from batfill.runner.sessions import POLL_S, TERM_GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from batfill.runner.descriptor import Descriptor

SIMULATOR, SCHEDULER = "the simulator", "the scheduler"
SimulatorChoice = Literal["auto", "batsim", "embedded"]
Engine = Literal["batsim", "embedded", "environment"]  # the last: the value of the caller's variable BATSIM
BATSIM_SCRIPT, SCHED_SCRIPT = "cmd/batsim.bash", "cmd/sched.bash"
BATSIM_LOG, SCHED_OUT_LOG, SCHED_ERR_LOG = "log/batsim.log", "log/sched.out.log", "log/sched.err.log"


class Stopped(Exception):  # noqa: N818 - it is the run's result
    """The run ends here, with robin's exit status and one line that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@contextmanager
def noted_interrupts() -> Iterator[list[signal.Signals]]:
    """Note the signals of STOPPING that arrive during the block instead of dying; only in the main thread.

    An exception instead could strike between a process's start and its registration.
    """
    arrived: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    before = {one: signal.signal(one, lambda number, _: arrived.append(signal.Signals(number))) for one in STOPPING}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class Setting:
    """The data that every step of a run needs; the steps add notes, and their findings to the record."""

    path: Path  # the descriptor's file
    descriptor: Descriptor
    simulator: SimulatorChoice
    engine: Engine  # the meaning of `batsim` and ${BATSIM:-batsim} in batcmd
    env: dict[str, str]  # of the commands
    scratch: Path  # a folder that exists during the run
    interrupts: Sequence[signal.Signals]  # those that have arrived
    say: Callable[[str], None]  # shows the user a line at once
    notes: list[str]  # information for the user that does not stop the run
    record: dict[str, Any]  # the contents of `run.json`

    @property
    def output_dir(self) -> Path:
        return Path(self.descriptor.output_dir)

    @property
    def progress_file(self) -> Path:
        return self.scratch / "progress.json"

    @property
    def options_file(self) -> Path:
        return self.scratch / "options.json"

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not until():
            self.heed_interrupts()
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def heed_interrupts(self) -> None:
        if self.interrupts:
            raise Stopped(3, f"interrupted by {self.interrupts[0].name}; every process of the run was ended")

    def cannot_write(self, error: OSError) -> Stopped:
        """The exception for a file of the run that cannot be written."""
        place, reason = error.filename or self.output_dir, (error.strerror or str(error)).lower()
        return Stopped(1, f"{place}: {reason}; set output-dir in {self.path} to a writable folder")


@contextmanager
def run_folder(setting: Setting) -> Iterator[int]:
    """Create the run's folder with its `cmd/` and `log/`, and lock it during the block; yields the open folder.

    Removes the results of the run before, and what killed processes left.
    """
    folder = setting.output_dir
    with ExitStack() as stack:
        try:
            for name in ("cmd", "log"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            # The watcher of a run that was killed holds the lock until it has ended the run's processes.
            if not setting.wait(lambda: not is_locked(handle), TERM_GRACE_S + 1.0):
                raise Stopped(1, f"{folder}: another run writes there; wait for its end or change output-dir")
            remove_previous_run(folder)
            remove_left_overs(folder)
            for log in (BATSIM_LOG, SCHED_OUT_LOG, SCHED_ERR_LOG):
                (folder / log).write_bytes(b"")
            for script, command in (
                (BATSIM_SCRIPT, setting.descriptor.batcmd),
                (SCHED_SCRIPT, setting.descriptor.schedcmd),
            ):
                (folder / script).write_text(command)
                (folder / script).chmod(0o755)
        except OSError as error:
            raise setting.cannot_write(error) from None
        yield handle


def remove_previous_run(folder: Path) -> None:
    """Remove `run.json` and, if they are in the folder, the results of its run."""
    record = folder / RUN_JSON
    try:
        jobs_csv = Path(loaded_json(file_bytes(record))["jobs_csv"]).resolve()
    except (OSError, ValueError, TypeError, KeyError):
        jobs_csv = None
    if jobs_csv and jobs_csv.parent.is_relative_to(folder.resolve()):
        remove_results(jobs_csv)
    record.unlink(missing_ok=True)


def is_locked(handle: int) -> bool:
    """Whether another run has locked this folder; if not, lock it, provided that its file system supports locks."""
    try:
        host.lock(handle)
    except BlockingIOError:
        return True
    except OSError:  # some network file systems cannot lock folders
        return False
    return False


@contextmanager
def recorded(setting: Setting) -> Iterator[None]:
    """Write `run.json` when the block ends: versions, times, exit status with its reason, and the record.

    The block's exceptions propagate.
    """
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    status, reason = 1, "unexpected"
    try:
        yield
        status, reason = 0, ""
    except Stopped as stopped:
        status, reason = stopped.status, stopped.reason
        raise
    except BatfillError as error:
        status, reason = 2, error.on_command_line
        raise
    finally:
        about = {
            "made_by": f"batfill {__version__} run",
            "python": platform.python_version(),
            "started": started,
            "wall_s": round(time.monotonic() - began, 3),
            "exit": status,
            "reason": reason,
        }
        write_json(setting.output_dir / RUN_JSON, {**about, **setting.record})
