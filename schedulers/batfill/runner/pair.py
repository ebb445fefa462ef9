"""Watches the two processes of a run: their progress, which ends first, and how long the other may continue."""

from __future__ import annotations

import json
import time
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from batfill.base.progress import new_bar, on_terminal
from batfill.model.jobs import DAY_S
from batfill.model.options import OPTIONS_FILE
from batfill.runner.sessions import POLL_S, Command, end, is_listening, last_line_of
from batfill.runner.setting import (
    BATSIM_LOG,
    BATSIM_SCRIPT,
    SCHED_ERR_LOG,
    SCHED_OUT_LOG,
    SCHED_SCRIPT,
    SCHEDULER,
    SIMULATOR,
    Setting,
    Stopped,
)
from batfill.simulator.display import FILE_VARIABLE, SHOW_EVERY_S, SimulationState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from batfill.runner.batcmd import ExecutionContext
    from batfill.runner.sessions import Lifeline

LISTEN_EVERY_S = 0.1
LEAST_PATIENCE_S = 1.0  # with a scheduler that does not listen, however short the ready-timeout


class Watch:
    """Reads the progress file if there is one, and otherwise counts the lines of `_jobs.csv` as they appear."""

    def __init__(self, progress_file: Path, jobs_csv: Path, total: int | None) -> None:
        self._progress_file = progress_file
        self._jobs_csv = jobs_csv
        self._total = total
        self._lines = 0
        self._offset = 0

    def read(self) -> SimulationState:
        with suppress(OSError, ValueError, TypeError):
            return SimulationState(**json.loads(self._progress_file.read_bytes()))
        with suppress(OSError), self._jobs_csv.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
            self._lines += new.count(b"\n")
            self._offset += len(new)
        return SimulationState(max(self._lines - 1, 0), self._total)


@contextmanager
def live_display() -> Iterator[Callable[[SimulationState], None] | None]:
    """A function that shows a reading in place of the previous one; None if standard error is not a terminal."""
    if not on_terminal():
        yield None
        return
    with closing(new_bar("simulating")) as bar:

        def show(reading: SimulationState) -> None:
            bar.n, bar.total = reading.jobs_done, reading.jobs_total
            bar.set_description(state_text(reading))

        yield show


def state_text(reading: SimulationState) -> str:
    parts = ["simulating"]
    if reading.date is not None:
        days, second_s = divmod(int(reading.date), DAY_S)
        parts.append(f"day {days} {timedelta(seconds=second_s)}")
    if reading.waiting is not None:
        parts.append(f"{reading.waiting} waiting")
    return ", ".join(parts)


class End(NamedTuple):
    """The end of a process: its status (minus the signal that ended it), or None if it had to be stopped."""

    command: Command
    status: int | None
    after_s: float  # since the start of the run


class Lookout:
    """Monitors a run: shows its progress, and says once if nothing listens on the simulator's port.

    A scheduler may take minutes to load before it listens, so the run goes on.
    """

    def __init__(
        self,
        setting: Setting,
        context: ExecutionContext,
        n_jobs: int | None,
        show: Callable[[SimulationState], None] | None,
    ) -> None:
        self._watch = Watch(setting.progress_file, context.jobs_csv, n_jobs)
        self._setting = setting
        # A scheduler elsewhere is not looked for: this machine's ports say nothing of it.
        self._port = context.port_here
        self._show = show
        self._listened = self._port is None
        self._patience_s = max(setting.descriptor.ready_timeout, LEAST_PATIENCE_S)
        self._began_s = time.monotonic()
        self._hinted = False
        self._next_listen_s = self._next_look_s = 0.0

    def look(self, scheduler: Command) -> None:
        listened, now_s = self.listened(), time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + SHOW_EVERY_S
        late = not listened and scheduler.status is None and now_s - self._began_s >= self._patience_s
        if late and not self._hinted:
            self._hinted = True
            self._setting.say(
                f"nothing listens on port {self._port} yet, to which {SIMULATOR} connects; "
                f"waiting until the simulation-timeout of {self._setting.descriptor.simulation_timeout:g} s"
            )
        if self._show:
            self._show(self._watch.read())

    def listened(self) -> bool:
        """Whether a process has been seen to listen on the simulator's port, or the port is not one of this machine."""
        if not self._listened and self._port is not None and (now_s := time.monotonic()) >= self._next_listen_s:
            self._listened = is_listening(self._port)
            self._next_listen_s = now_s + LISTEN_EVERY_S
        return self._listened

    def never_listened(self) -> str:
        """An addition to the reason why a run failed, if the scheduler was never seen to listen; "" otherwise."""
        return "" if self._listened else f", and nothing was seen listening on port {self._port}"

    def why_late(self, commands: Sequence[Command]) -> str:
        """Why a run takes too long: its progress, the process it waits for, and the log to read."""
        reading = self._watch.read()
        of_all = "" if reading.jobs_total is None else f" of {reading.jobs_total}"
        if not self._listened:
            return f"{SCHEDULER} never listened on port {self._port}; {last_line_of(commands[0].logs)}"
        lines = "; ".join(last_line_of(command.logs) for command in commands)
        return f"{reading.jobs_done}{of_all} jobs had ended; {lines}"


def run_pair(setting: Setting, lifeline: Lifeline, context: ExecutionContext, lookout: Lookout) -> list[End]:
    """Run the processes; returns how each ended, first to last. No process is left afterwards."""
    env = {**setting.env, FILE_VARIABLE: str(setting.progress_file), OPTIONS_FILE: str(setting.options_file)}
    folder = setting.output_dir
    log, out, err = folder / BATSIM_LOG, folder / SCHED_OUT_LOG, folder / SCHED_ERR_LOG
    commands: list[Command] = []
    try:
        # The scheduler first: if both have ended since the last look, its end is what stopped the simulator.
        if context.external_scheduler:
            script = folder / SCHED_SCRIPT
            commands.append(Command(SCHEDULER, script, env=env, stdout=out, stderr=err, lifeline=lifeline))
        script = folder / BATSIM_SCRIPT
        commands.append(Command(SIMULATOR, script, env=env, stdout=log, stderr=log, lifeline=lifeline))
        return wait_for_ends(setting, commands, lookout)
    except OSError as error:
        raise setting.cannot_write(error) from None
    finally:
        end(commands)


def wait_for_ends(setting: Setting, commands: Sequence[Command], lookout: Lookout) -> list[End]:
    """How each command ended, first to last, within robin's timeouts; those that exceed them are left running."""
    descriptor = setting.descriptor
    began = time.monotonic()
    ends: list[End] = []
    running = list(commands)
    while True:
        after_s = time.monotonic() - began
        for command in [command for command in running if command.ended()]:
            running.remove(command)
            ends.append(End(command, command.status, after_s))
        if not running:
            return ends
        setting.heed_interrupts()
        if ends and after_s - ends[0].after_s >= grace_s(setting, ends[0], lookout):
            return ends + [End(command, None, after_s) for command in running]
        if after_s >= descriptor.simulation_timeout:
            limit = f"the simulation-timeout of {descriptor.simulation_timeout:g} s was reached"
            raise Stopped(1, f"{limit}: {lookout.why_late(commands)}")
        lookout.look(commands[0])
        time.sleep(POLL_S)


def grace_s(setting: Setting, first: End, lookout: Lookout) -> float:
    """How long the other process may continue after this one ended, in seconds.

    A simulator whose scheduler failed before it listened has nothing to finish.
    """
    if first.command.name == SCHEDULER and first.status and not lookout.listened():
        return 0.0
    return setting.descriptor.failure_timeout if first.status else setting.descriptor.success_timeout
