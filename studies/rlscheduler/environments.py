"""batfill's environments with RLScheduler's simulator in place of EASY."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill_lab.env.environments import DEFAULTS, Episodes, How, SchedulingEnv, SchedulingVectorEnv
from studies.rlscheduler.copies import GymCopies
from studies.rlscheduler.schedgym import read_gym_log

if TYPE_CHECKING:
    from batfill.model.jobs import Workload

EASY_ONLY = ("action", "base", "warm")  # keywords that have their default


class GymEpisodes(Episodes):
    """Copies of RLScheduler's simulator. One keyword more: `backfill`, False for the simulator without it."""

    keywords = (*Episodes.keywords, "backfill")

    def make_copies(self, log: Workload | str | Path, copies: int, threads: int, given: How) -> Any:
        """The copies; the log is an SWF file, which RLScheduler reads in its own way."""
        settings: dict[str, Any] = {**given}
        for name in EASY_ONLY:
            default = DEFAULTS[name]  # type: ignore[literal-required]
            if settings[name] != default:
                raise BatfillError(
                    f"{name}: RLScheduler's simulator has {default!r} only; {settings[name]!r} needs EASY"
                )
        path = log if isinstance(log, str | Path) else log.file
        if path is None:
            assert not isinstance(log, str | Path)
            raise BatfillError(f"{log.name}: RLScheduler's simulator reads an SWF file; give its path")
        return GymCopies(
            read_gym_log(path),
            copies=copies,
            visible=self.visible,
            jobs=self.jobs,
            backfill=bool(settings.get("backfill", True)),
            threads=threads,
        )


class RLSchedulerEnv(SchedulingEnv):
    """`SchedulingEnv` by RLScheduler's rules."""

    episodes_of = GymEpisodes


class RLSchedulerVectorEnv(SchedulingVectorEnv):
    """`SchedulingVectorEnv` by RLScheduler's rules."""

    episodes_of = GymEpisodes
