"""Shows a simulation's progress on the terminal, in a file for the program that started it, or not at all."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.files import part_of
from batfill.base.progress import new_bar, on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.simulator.simulation import Simulation

FILE_VARIABLE = "BATFILL_PROGRESS"
SHOW_EVERY_S = 0.5


class SimulationState(NamedTuple):
    """A simulation's progress, as its file has it; None for unknown values."""

    jobs_done: int
    jobs_total: int | None = None
    date: float | None = None  # s
    waiting: int | None = None


class ProgressDisplay:
    """Shows a simulation's state about twice a second; `tick` checks whether an update is due."""

    def __init__(self, *, terminal: bool) -> None:
        """`terminal`: whether to draw a bar if stderr is a terminal and no progress file is requested."""
        self._show: Callable[[Simulation], None] | None = None
        self._bar: Any = None
        self._next = time.monotonic() + SHOW_EVERY_S
        if name := os.environ.get(FILE_VARIABLE):
            path = Path(name)
            self._show = lambda simulation: write_state(path, simulation)
        elif terminal and on_terminal():
            self._show = self._draw

    def tick(self, simulation: Simulation) -> None:
        if self._show and time.monotonic() >= self._next:
            self._show(simulation)
            self._next = time.monotonic() + SHOW_EVERY_S

    def finish(self, simulation: Simulation) -> None:
        if self._show:
            self._show(simulation)
        if self._bar is not None:
            self._bar.close()

    def _draw(self, simulation: Simulation) -> None:
        if self._bar is None:
            self._bar = new_bar("jobs")
        self._bar.n, self._bar.total = simulation.jobs_done, simulation.jobs_total
        self._bar.refresh()


def write_state(path: Path, simulation: Simulation) -> None:
    """Replace this file by the state as one line of JSON, in one step, so that readers never see half of it."""
    state = SimulationState(simulation.jobs_done, simulation.jobs_total, simulation.now, simulation.jobs_waiting)
    part = part_of(path)
    try:
        part.write_text(json.dumps(state._asdict()) + "\n")
        part.replace(path)
    except OSError:  # the reader has removed the folder, which must not end the run
        part.unlink(missing_ok=True)
