"""A replay with all options that stops at any instant, forks, and is saved."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import place_of
from batfill.base.progress import patient_progress
from batfill.base.tables import JobRows
from batfill.base.words import instant
from batfill.model.jobs import Clock, Overrun, Workload
from batfill.model.metrics import TAU_S, Summary
from batfill.model.options import REQUEST, Options, of_arguments
from batfill.model.policy import Policy
from batfill.model.values import one_of, seconds_of, tau_of, unrequested_of
from batfill.replays import saved
from batfill.replays.engine_replay import EngineReplay, follow_records, follows_of
from batfill.replays.replay import options_of
from batfill.replays.result import Result, until_of
from batfill.workloads import opened

if TYPE_CHECKING:
    from typing import Self, Unpack

    import pyarrow as pa
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from batfill.model.arguments import Arguments
    from batfill.model.jobs import JobTable, Unrequested
    from batfill.replays.plots import Plot

# What `Replay.save` states beside the engine's replay, with the types of JSON.
NUMBER = (int, float)
ABOUT: dict[str, Any] = {
    **dict.fromkeys(("name", "digest", "overrun"), str),
    **dict.fromkeys(("notes", "changes"), list),
    **dict.fromkeys(("tau_s", "simulate_s"), NUMBER),
    "clock": (dict, type(None)),
    "unrequested": (str, *NUMBER),
    "forked_s": (*NUMBER, type(None)),
    "options": dict,
}


class Replay(JobRows):
    """A replay that can stop at any instant, be inspected, copied, given other rules, saved, and continued.

    Before the end, figures and tables cover the jobs that have ended, and say so.

    Examples:
        >>> run = Replay("workloads/sample.json", "saf").run(until_s=100_000)
        >>> run.ended, len(run.running), len(run.waiting)
        (False, 6, 2)
        >>> other = run.fork(policy="wfp3").run()
        >>> other.ended, run.ended
        (True, False)
    """

    def __init__(
        self,
        log: Workload | str | Path,
        policy: Policy | str | None = None,
        *,
        procs: int | None = None,
        tau_s: float = TAU_S,
        overrun: Overrun | None = None,
        unrequested: Unrequested | None = None,
        **options: Unpack[Arguments],
    ) -> None:
        """Set up the replay on an empty machine; the arguments are those of `replay`.

        Raises:
            BatfillError: as `replay`; also with options that learn run times during the run, which cannot stop.
        """
        self.options, self.tau_s = options_of(policy, options), tau_of(tau_s)
        if self.options.learns:
            name = "small" if self.options.predict == REQUEST else "predict"
            raise BatfillError(
                f"option {name}: {getattr(self.options, name)} learns during the run, so it cannot stop; use `replay`, "
                "or small all with a duration as divider"
            )
        self.workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested)
        self.options.require_classes(self.workload.jobs, self.workload.name)
        self.options.require_users(self.workload.jobs, self.workload.name)
        self.changes: tuple[tuple[float, Options], ...] = ()
        self.forked_s: float | None = None  # where a fork left its original
        self.simulate_s = 0.0
        jobs = self.workload.jobs
        small = self.options.calls_small(jobs.job_class, jobs.procs, size)
        follows = follows_of(self.options.feedback, jobs, size, self.workload.name)
        self.engine = EngineReplay(jobs, size, self.options.on(self.workload, jobs).rules, small=small, follows=follows)

    # Going on

    def run(self, until_s: float = math.inf) -> Self:
        """Process every instant up to and including `until_s`; by default all.

        Args:
            until_s: seconds since the workload's origin.

        Raises:
            BatfillError: it is before the last instant processed, or nan.
        """
        until_s = until_of("until_s", until_s, self.workload.clock)
        if not until_s >= self.now_s:
            raise BatfillError(f"until_s: {until_s!r} is not a number of seconds >= {self.now_s:g}, the run's now_s")
        self.__dict__.pop("_result", None)
        began = time.perf_counter()
        with patient_progress("replaying"):
            self.engine.advance(until_s)
        self.simulate_s += time.perf_counter() - began
        return self

    def fork(self, policy: Policy | str | None = None, **options: Unpack[Arguments]) -> Replay:
        """A copy that continues independently from here, under other rules if given; this run is not changed.

        Args:
            policy: the order from the next decision on; None for the current one.
            **options: `backfill` and `threshold_s`, from the next decision on; math.inf means no threshold.

        Raises:
            BatfillError: an option is unknown, unusable, or not one of these two.
        """
        given = {name: value for name, value in options.items() if value is not None}
        if other := [name for name in given if name not in ("backfill", "threshold_s")]:
            of_arguments(given)
            raise BatfillError(f"argument {other[0]!r}: only policy, backfill and threshold_s may change in a run")
        wanted = options_of(self.options.policy if policy is None else policy, given)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.__dict__.pop("_result", None)
        copied.engine = self.engine.fork()
        copied.forked_s = self.now_s
        if policy is None and not given:
            return copied
        copied.options = replace(
            self.options,
            policy=wanted.policy,
            backfill=wanted.backfill if "backfill" in given else self.options.backfill,
            threshold_s=wanted.threshold_s if "threshold_s" in given else self.options.threshold_s,
        )
        copied.changes = (*self.changes, (self.now_s, self.options))
        copied.engine.change_rules(replace(copied.options, calendar=None).rules)  # the calendar stays
        return copied

    # What there is to see

    @property
    def now_s(self) -> float:
        """The last instant processed, in seconds since the workload's origin; 0 before the first."""
        return self.engine.now_s

    @property
    def next_s(self) -> float:
        """The next instant with an event; inf if there is none."""
        return self.engine.next_s

    @property
    def ended(self) -> bool:
        """Whether no events are left."""
        return self.next_s == math.inf

    @property
    def waiting(self) -> JobTable:
        """The waiting jobs, oldest first."""
        return self.workload.jobs.select(np.sort(self.engine.queue.waiting_rows))

    @property
    def running(self) -> JobTable:
        """The running jobs, in order of submission; `result().to_pandas()` has their starts."""
        return self.workload.jobs.select(np.sort(self.engine.queue.running_rows))

    @property
    def free(self) -> int:
        """The idle processors."""
        return self.engine.queue.free

    def result(self) -> Result:
        """The result so far."""
        return self._result

    @cached_property
    def _result(self) -> Result:
        """The result so far, until the run goes on."""
        schedule = self.engine.schedule()
        figures = schedule.summary(self.tau_s)
        return Result(self.workload, self.options, schedule, self.tau_s, figures, self.simulate_s, changes=self.changes)

    @property
    def figures(self) -> Summary:
        """The figures over the jobs that have ended; `ended` says whether these are all."""
        return self.result().figures

    def __len__(self) -> int:
        return len(self.workload.jobs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """As `Result.columns`, so far."""
        return self.result().columns()

    @property
    def kept(self) -> Mapping[str, NDArray[Any]]:
        """As `Result.kept`, so far."""
        return self.result().kept

    def about(self) -> dict[str, Any]:
        """As `Result.about`."""
        return self.result().about()

    def to_arrow(self) -> pa.Table:
        """As `Result.to_arrow`, so far."""
        return self.result().to_arrow()

    def plot(
        self, kind: Plot = "waits", axes: Axes | None = None, *, from_s: float = 0.0, until_s: float = math.inf
    ) -> Axes:
        """As `Result.plot`, so far."""
        return self.result().plot(kind, axes, from_s=from_s, until_s=until_s)

    def rows(self) -> list[tuple[str, str]]:
        """The state of the run and the figures so far, as rows of (label, text)."""
        busy = int(self.engine.queue.running["procs"].sum())
        here = f"{len(self.waiting):,} jobs waiting, {len(self.running):,} running on {busy:,} processors"
        now = f"{instant(self.now_s)}, {here}"
        forked = [] if self.forked_s is None else [("fork", f"of a replay at {instant(self.forked_s)}")]
        return [("now", now), *forked, *self.result().rows()]

    # Kept in a file

    def save(self, path: str | Path) -> None:
        """Write the run's state, including its workload, to one file (NumPy's .npz; contains no code)."""
        workload = self.workload
        about = {
            "name": workload.name,
            "digest": workload.digest,
            "notes": list(workload.notes),
            "clock": workload.clock.as_dict() if workload.clock else None,
            "overrun": workload.overrun,
            "unrequested": workload.unrequested,
            "tau_s": self.tau_s,
            "simulate_s": self.simulate_s,
            "forked_s": self.forked_s,
            "options": self.options.as_dict(),
            "changes": [[until_s, options.as_dict()] for until_s, options in self.changes],
        }
        saved.save(self.engine, place_of("path", path), about)

    @classmethod
    def load(cls, path: str | Path, policies: Iterable[Policy] = ()) -> Replay:
        """The run saved in this file; it continues with results identical to the last byte.

        The workload is replayed up to where the run was, which takes as long as it took then.

        Args:
            path: the file.
            policies: the run's custom policies; the others are found by name.

        Raises:
            BatfillError: the file is not as `save` wrote it, or a policy is unknown, or is not the one of that name.
        """
        path = place_of("path", path)
        if not (isinstance(policies, Iterable) and all(isinstance(one, Policy) for one in policies)):
            raise BatfillError(f"policies: {policies!r:.60} are not policies; give a list of them")
        own = {policy.name: policy for policy in policies}
        engine, about = saved.load(path, own)
        if "options" not in about:
            raise BatfillError(f"{path}: was not saved by Replay.save; use `batfill.replays.saved.load`")

        def options_again(stated: dict[str, Any]) -> Options:
            orders = {name: own.get(stated[name], stated[name]) for name in ("policy", "backfill")}
            return Options.of({**stated, **orders, "calendar": engine.queue.rules.calendar})

        run = cls.__new__(cls)
        run.engine = engine
        try:
            if odd := [name for name, kind in ABOUT.items() if not isinstance(about[name], kind)]:
                raise ValueError(odd[0])
            run.workload = Workload(
                about["name"],
                engine.table,
                engine.size,
                about["digest"],
                tuple(map(str, about["notes"])),
                Clock.of(about["clock"]) if about["clock"] else None,
                overrun=cast("Overrun", one_of("overrun", about["overrun"], get_args(Overrun))),
                unrequested=cast("Unrequested", unrequested_of("unrequested", about["unrequested"])),
            )
            run.tau_s, run.simulate_s = tau_of(about["tau_s"]), seconds_of("simulate_s", about["simulate_s"])
            run.forked_s = None if about["forked_s"] is None else seconds_of("forked_s", about["forked_s"])
            run.options = options_again(about["options"])
            run.changes = tuple((seconds_of("until_s", at), options_again(stated)) for at, stated in about["changes"])
            if not run.states_what_ran():
                raise ValueError("its options")
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise saved.wrong(path, str(error)) from None
        return run

    def states_what_ran(self) -> bool:
        """Whether the options are those of the engine's rules, classes and dates."""
        engine, options, jobs = self.engine, self.options, self.workload.jobs
        of_engine = [*(rules for _, rules in engine.past), engine.queue.rules]
        stated = [*(one.rules for _, one in self.changes), options.rules]
        small = options.calls_small(jobs.job_class, jobs.procs, engine.size) & (options.divider_s < math.inf)
        follows = follows_of(options.feedback, jobs, engine.size, self.workload.name)
        ran = engine.events.follows
        planned = ran[:0] if follows is None else follow_records(follows)
        return (
            len(of_engine) == len(stated)
            and all(
                replace(one, calendar=rules.calendar, outlived=rules.outlived) == rules
                for one, rules in zip(stated, of_engine, strict=True)
            )
            and np.array_equal(engine.given.small != 0, small)
            and np.array_equal(engine.given.expected_s, jobs.request_s)
            and all(np.array_equal(ran[name], planned[name]) for name in ("preceding", "think_s"))
        )
