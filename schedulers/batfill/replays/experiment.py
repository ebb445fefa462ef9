"""A replay from log to figures: `replay` runs it whole, `Replay` stops at any instant, `Result` holds the outcome."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import json_text, make_folder, write_json
from batfill.base.memory import in_gb, require_memory
from batfill.base.progress import patient_progress
from batfill.base.tables import JobRows, arrow_table, data_frame, label_html, label_lines
from batfill.base.version import ENGINE, __version__
from batfill.batsim.replayed import Judged, write_batsim_files
from batfill.batsim.results import CUT, REFUSED, RUN_JSON, STATES, result_file
from batfill.model.jobs import Clock, Workload
from batfill.model.metrics import TAU_S, Certificate, Summary, bounded_slowdown, figure_rows, who_pays
from batfill.model.options import REQUEST, Options, of_arguments, seconds_of, tau_of
from batfill.model.policy import POLICIES, Policy, digests
from batfill.replays import engine_replay as replays
from batfill.replays.learning import LearningReport, replay_learning
from batfill.workloads import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, Unpack

    import pandas as pd
    import pyarrow as pa
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from batfill.model.jobs import JobTable, Overrun, Unrequested
    from batfill.model.options import Arguments
    from batfill.replays.engine_replay import Schedule
    from batfill.replays.plots import Plot

LONG = 1_000_000  # jobs from which on a replay says what memory it takes
UNBOUNDED = "not computed for a million jobs or more; in Python, Result.schedule.certificate() does"
WAITING, RUNNING, COMING = "waiting", "running", "not submitted"  # of the jobs of a run that has not ended


@dataclass(frozen=True, eq=False, repr=False)
class Result(JobRows):
    """The result of a replay: its figures, every job, and everything needed to repeat it.

    Its repr, and its table in a notebook, show the figures. Two are equal if the same options gave the same schedule of
    equal workloads, however long it took.

    Examples:
        >>> fcfs = replay("workloads/sample.json", "fcfs")
        >>> fcfs.figures.jobs, fcfs.ended
        (800, True)
        >>> table = fcfs.to_pandas()
        >>> bool(table.wait_s.mean() == fcfs.figures.mean_wait_s)
        True
    """

    workload: Workload
    options: Options
    schedule: Schedule
    tau_s: float  # the bound of the bounded slowdown
    figures: Summary  # over the jobs that have ended
    simulate_s: float  # elapsed time of the replay
    read_s: float | None = None  # elapsed time of reading; None for a workload in memory
    learned: LearningReport | None = None
    changes: tuple[tuple[float, Options], ...] = ()  # the options until these instants, if they were changed

    def __eq__(self, other: object) -> bool:
        """Whether the other result has an equal workload, options and schedule."""
        if not isinstance(other, Result):
            return NotImplemented
        same = self.workload == other.workload and self.tau_s == other.tau_s and self.stated() == other.stated()
        same = same and digests(self.policies()) == digests(other.policies())
        return same and self.changes_as_dicts() == other.changes_as_dicts() and self.schedule == other.schedule

    def __hash__(self) -> int:
        return hash((self.workload, self.figures))

    @property
    def ended(self) -> bool:
        """Whether the replay ran to its end; otherwise the figures cover only the jobs that have ended."""
        return self.schedule.until_s == math.inf

    @property
    def size(self) -> int:
        """The machine's processors."""
        return self.schedule.size

    @cached_property
    def certificate(self) -> Certificate | None:
        """The mean wait that no scheduler can beat on this log, and the distance from it; None before the end.

        It is computed when it is first read, and takes longer than the replay, and more memory: it is also None from a
        million jobs on. `result.schedule.certificate(rounds)` computes it for any log, and looks for a better one.
        """
        return self.schedule.certificate() if self.ended and not self.is_long else None

    @property
    def is_long(self) -> bool:
        """Whether the log is so long that the lower bound is not computed unless asked for."""
        return len(self.schedule.jobs) >= LONG

    def as_dict(self) -> dict[str, Any]:
        """Figures first, provenance last."""
        return {
            **self.figures.as_dict(),
            **(self.certificate.as_dict() if self.certificate else {}),
            **(self.learned.as_dict() if self.learned else {}),
            **self.who_pays(),
            **({} if self.ended else {"until_s": self.schedule.until_s, "not_ended": self.not_ended}),
            "read_s": self.read_s,
            "simulate_s": self.simulate_s,
            "workload": self.workload.name,
            "workload_sha256": self.workload.digest,
            "workload_notes": list(self.workload.notes),
            "warnings": list(self.workload.warnings),
            "procs": self.size,
            "tau_s": self.tau_s,
            "options": self.stated(),
            **digests(self.policies()),
            **({"changes": self.changes_as_dicts()} if self.changes else {}),
            "engine": ENGINE,
            "version": __version__,
        }

    def who_pays(
        self, base: Result | None = None, divider_s: float | NDArray[np.float64] | None = None
    ) -> dict[str, Any]:
        """The waits of small and large jobs, by width and by user, over the jobs that have ended.

        Args:
            base: a replay of the same jobs, such as one without first tries; each group then also has the share of its
                jobs that wait over an hour longer than there.
            divider_s: small jobs ran for less than this, in seconds; one number, or one per job of the log, as the
                column `divider_s` of `to_pandas` (nan: unknown). None: the median run time of the jobs that have ended.

        Returns:
            As `metrics.who_pays`.

        Raises:
            BatfillError: the base has other jobs, or the divider is not one number > 0, nor one per job.

        Examples:
            >>> fcfs, saf = (replay("workloads/sample.json", name) for name in ("fcfs", "saf"))
            >>> small, large = saf.who_pays(base=fcfs)["waits_by_class"]
            >>> small["delayed"], large["delayed"]
            (0.06, 0.0725)
        """
        schedule = self.schedule
        jobs, ran = schedule.jobs, schedule.ended
        if base is not None:
            if not self.same_jobs(base):
                names = f"{self.workload.name} and {base.workload.name}"
                raise BatfillError(f"base: {names} are not the same jobs; replay one workload")
            ran = ran & base.schedule.ended
        divider = None if divider_s is None else np.asarray(divider_s, np.float64)
        if divider is not None and (divider.shape not in ((), (len(jobs),)) or not (divider > 0).any()):
            raise BatfillError(f"divider_s: neither a number of seconds > 0 nor {len(jobs):,} of them, one per job")
        return who_pays(
            (schedule.start_s - jobs.submit_s)[ran],
            runtime_s=schedule.runtime_s[ran],
            procs=jobs.procs[ran],
            user=jobs.user[ran],
            divider_s=None if divider is None else divider[ran] if divider.ndim else float(divider),
            base_wait_s=None if base is None else (base.schedule.start_s - jobs.submit_s)[ran],
        )

    def same_jobs(self, other: Result) -> bool:
        """Whether the other replay has the same jobs: equal ids, submissions and widths."""
        mine, others = self.schedule.jobs, other.schedule.jobs
        return len(mine) == len(others) and all(
            np.array_equal(getattr(mine, name), getattr(others, name)) for name in ("ids", "submit_s", "procs")
        )

    def stated(self) -> dict[str, Any]:
        """Every option of the replay in force, by name, default or not."""
        of_log = {"overrun": self.workload.overrun, "unrequested": self.workload.unrequested}
        return {**self.options.as_dict(), "procs": self.size, "tau": self.tau_s, **of_log}

    def policies(self) -> Iterator[Policy | None]:
        """The orders of the queue and of backfilling, those before a change first."""
        for options in (*(before for _, before in self.changes), self.options):
            yield from (options.policy, options.backfill)

    def changes_as_dicts(self) -> list[dict[str, Any]]:
        """The options in force until an instant, for JSON."""
        return [{"until_s": until_s, "options": options.as_dict()} for until_s, options in self.changes]

    @property
    def not_ended(self) -> int:
        """The number of jobs that fit the machine and have not ended."""
        return int((~self.schedule.ended & ~self.schedule.rejected).sum())

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def rows(self) -> list[tuple[str, str]]:
        """The figures, and the log, machine and options they are for, as rows of (label, text)."""
        reading = "" if self.read_s is None else f"{self.read_s:.3f} s reading, "
        n_jobs, until = len(self.schedule.jobs), f"{self.schedule.until_s:,.0f} s"
        running = f"{self.not_ended:,} of {n_jobs:,} jobs by {until}; the figures are of those that have"
        return [
            ("workload", f"{self.workload.name} on {self.size:,} processors"),
            *((f"to {until_s:,.0f} s", before.as_text()) for until_s, before in self.changes),
            ("options", f"{self.options.as_text()}, tau {self.tau_s:g} s, {self.workload.reading}"),
            *([("knowledge", self.learned.as_text())] if self.learned else []),
            *([] if self.ended else [("not ended", running)]),
            *figure_rows(self.figures.as_dict(), self.tau_s, of_replay=True),
            *([("lower bound", self.certificate.as_text() if self.certificate else UNBOUNDED)] if self.ended else []),
            ("time", f"{reading}{self.simulate_s:.3f} s simulating ({ENGINE} {__version__})"),
            *(("warning", warning) for warning in self.workload.warnings),
            *(("note", note) for note in self.workload.notes),
        ]

    def as_text(self) -> str:
        """A table to read."""
        return label_lines(self.rows())

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The rows as a table, for notebooks."""
        return label_html(self.rows())

    def judged(self) -> Judged | None:
        """The scheduler's judgement of each job; None if it treated all jobs alike."""
        jobs = self.schedule.jobs
        if self.learned is not None:
            small = self.learned.learned.small if self.learned.knowledge.classifies else None
            return Judged(small, self.learned.learned.probability, self.learned.learned.divider_s)
        if self.options.divider_s == math.inf:
            return None
        small = self.options.calls_small(jobs.job_class, jobs.procs, self.size)
        return Judged(small, np.full(len(jobs), np.nan), np.full(len(jobs), self.options.divider_s))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every job by column, shape (n_jobs,), in order of submission; nan or None means unknown, or not applicable.

        `job_id`, `user`, `submit_s` (r), `runtime_s` (p, of the log), `walltime_s` (p~, nan for no limit),
        `requested_s` (by the user, nan if unknown; with overrun "extend" it is p~), `procs` (q), `class` as judged
        ("small", "large"), `probability` of being small, `divider_s` in force at the submission, `start_s` and `end_s`
        of the last try, `wait_s`, `bsld`, whether it was `backfilled`, the number of `tries`, and its `state`.
        """
        schedule, judged = self.schedule, self.judged()
        jobs, n_jobs, none = schedule.jobs, len(schedule.jobs), np.full(len(schedule.jobs), np.nan)
        columns = jobs.columns()
        if judged is not None and judged.small is not None:
            small = np.where(judged.small, "small", "large").astype(object)
            small[schedule.rejected] = None
            columns["class"] = small
        wait_s = schedule.start_s - jobs.submit_s
        divider_s = none if judged is None else np.where(np.isinf(judged.divider_s), np.nan, judged.divider_s)
        bsld = bounded_slowdown(wait_s, schedule.runtime_s, self.tau_s)
        return {
            **columns,
            "probability": none if judged is None else judged.probability,
            "divider_s": divider_s,
            "start_s": schedule.start_s,
            "end_s": np.where(schedule.ended, schedule.end_s, np.nan),
            "wait_s": wait_s,
            "bsld": np.where(schedule.ended, bsld, np.nan),
            "backfilled": schedule.backfilled,
            "tries": np.bincount(schedule.order, minlength=n_jobs),
            "state": self.states(),
        }

    def states(self) -> NDArray[np.object_]:
        """The state of each job in a word, shape (n_jobs,)."""
        schedule, words = self.schedule, list(STATES.values())
        states = np.full(len(schedule.jobs), words[0], object)
        states[schedule.killed] = words[CUT]
        states[~schedule.ended] = COMING
        submitted = schedule.jobs.submit_s <= schedule.until_s
        states[~schedule.ended & submitted] = WAITING
        states[~schedule.ended & np.isfinite(schedule.start_s)] = RUNNING
        states[schedule.rejected & submitted] = words[REFUSED]
        return states

    def about(self) -> dict[str, Any]:
        """The provenance of the columns, for the `attrs` of a frame."""
        about = {"workload": self.workload.name, "workload_sha256": self.workload.digest, "options": self.stated()}
        return about | digests(self.policies())

    def plot(
        self, kind: Plot = "waits", axes: Axes | None = None, *, from_s: float = 0.0, until_s: float = math.inf
    ) -> Axes:
        """Draw the replay; returns matplotlib's axes. Needs matplotlib.

        Args:
            kind: "waits" (the mean wait of each day's jobs, and the longest), "utilisation" (the share of the
                processors in use), or "gantt" (every job that ran in the window).
            axes: where to draw; by default a new figure's.
            from_s: the begin of the window, in seconds since the workload's origin.
            until_s: its end.

        Raises:
            BatfillError: the kind is unknown, or the window is empty or, for "gantt", has more than 20,000 jobs.
        """
        from batfill.replays.plots import plot_schedule

        return plot_schedule(self.schedule, kind, axes, seconds_of("from_s", from_s), until_of("until_s", until_s))

    def to_arrow(self) -> pa.Table:
        """A row per job; see `columns`. The schema's metadata is `as_json`. Needs pyarrow, not pandas."""
        return arrow_table(self.columns(), {b"batfill.replay": self.as_json().encode()})

    def to_batsim(self, prefix: str | Path) -> None:
        """Write Batsim's result files PREFIX_*.csv, and PREFIX_run.json, as `batfill replay --out PREFIX` does.

        Args:
            prefix: of the files' names, with their folder, which is made if needed.

        Raises:
            BatfillError: the replay has not ended, or a file cannot be written.
        """
        if not self.ended:
            raise BatfillError(
                f"{prefix}: {self.not_ended:,} jobs have not ended, which Batsim's files cannot show; run it to its end"
            )
        out = Path(prefix)
        make_folder(out.parent)
        write_batsim_files(self.schedule, out, simulate_s=self.simulate_s, judged=self.judged())
        clock = self.workload.clock
        about = {**self.as_dict(), "clock": clock.as_dict() if clock else None}
        write_json(result_file(out, RUN_JSON), about)


def nothing(_: float) -> None:
    """Called where progress is not shown."""


def until_of(name: str, value: Any, clock: Clock | None = None) -> float:
    """An instant as the last one of a window: seconds, a duration such as 1h, inf, or a date of the log's clock."""
    if isinstance(value, datetime):
        if clock is None:
            raise BatfillError(f"{name}: {value} is a date, and the workload has no clock; give seconds")
        return clock.second(value if value.tzinfo else value.replace(tzinfo=clock.zone))
    return math.inf if value == math.inf else seconds_of(name, value)


def simulate(
    jobs: JobTable, workload: Workload, options: Options, advance: Callable[[int], None] | None = None
) -> tuple[Schedule, LearningReport | None]:
    """Replay these jobs on the workload's machine, initially empty, under these options; `advance` as for `replay`."""
    assert workload.procs is not None
    if options.learns:
        return replay_learning(jobs, workload.procs, options, workload.clock, advance or nothing)
    schedule = replays.replay(
        jobs,
        workload.procs,
        options.policy,
        backfill=options.backfill,
        threshold_s=options.threshold_s,
        divider_s=options.divider_s,
        tries_first=options.tries_first,
        spares=options.spares,
        bound=options.bound,
        kills=options.kills,
        small=options.calls_small(jobs.job_class, jobs.procs, workload.procs),
        advance=advance,
    )
    return schedule, None


def load_engine(jobs: JobTable) -> None:
    """Load the compiled engine, or compile it, so that a replay's time excludes this."""
    replays.replay(jobs.select(slice(0)), 1, POLICIES["fcfs"])


def memory_line(workload: Workload, options: Options) -> str:
    """What the workload and a replay of it take, in bytes a job and in all.

    Raises:
        WorkloadError: it is more than is available.
    """
    learns, n_jobs = options.learns, len(workload.jobs)
    table, besides = replays.bytes_a_job(
        workload.jobs, options.policy, backfill=options.backfill, divider_s=options.divider_s, learns=learns
    )
    where = workload.file or workload.name
    mend = "free some, or take a part of the jobs: `batfill workload convert --jobs` writes one"
    require_memory(where, f"the replay of {n_jobs:,} jobs, {besides} B each,", n_jobs * besides, mend)
    more = f"waiting and running jobs{', and the learner,' if learns else ''} take more"
    whole = in_gb(n_jobs * (table + besides))
    return f"{n_jobs:,} jobs: {table} B each in the table, {besides} B each in the replay, {whole} in all; {more}"


def options_of(policy: Policy | str, arguments: Mapping[str, Any]) -> Options:
    """The options from `replay`'s arguments.

    Raises:
        BatfillError: one is unknown, invalid, or has no effect with the others.
    """
    if isinstance(policy, (Mapping, Sequence)) and not isinstance(policy, str):
        raise BatfillError("policy: these are several; `replay_many` replays a log under each")
    return Options.of(of_arguments({"policy": policy, **arguments}))


def replay(
    log: Workload | str | Path,
    policy: Policy | str = "fcfs",
    *,
    procs: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    advance: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
    **options: Unpack[Arguments],
) -> Result:
    """Replay a whole workload under one policy in the compiled engine.

    Args:
        log: a workload or a file, as for `read_workload`.
        policy: a policy's name, a `Policy`, six weights as "mixed:1,0,0,0,0,0", or one in a file, as "lin@fitted.json"
            or "nn@trained.npz".
        procs: the machine's size; by default the workload's.
        tau_s: the bound of the bounded slowdown, in seconds.
        overrun: see `read_workload`; for a file only.
        unrequested: see `read_workload`; for a file only.
        advance: called with the number of jobs replayed since the last call; None shows a progress bar if the replay
            takes more than two seconds.
        say: called before the replay of a million jobs or more with a line on the memory that it takes.
        **options: the scheduler's other options, as in the options' reference with underscores; durations are in
            seconds, or text.

    Raises:
        BatfillError: the log or an option is unusable, the machine's size is unknown, a policy's key is not
            finite for every job, or there is not enough memory.

    Examples:
        >>> saf = replay("workloads/sample.json", "saf", backfill="spf", threshold_s=200_000)
        >>> saf.figures.backfilled > 0
        True
        >>> replay("workloads/sample.json", "safe")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        batfill.base.errors.PolicyError: policy 'safe' is unknown; known are fcfs, ...; did you mean 'saf'?
    """
    chosen, tau_s = options_of(policy, options), tau_of(tau_s)
    began = time.perf_counter()
    workload, _ = opened(log, procs=procs, overrun=overrun, unrequested=unrequested)
    read_s = None if isinstance(log, Workload) else time.perf_counter() - began
    chosen.require_classes(workload.jobs, workload.name if read_s is None else str(log))
    if len(workload.jobs) >= LONG:
        line = memory_line(workload, chosen)
        if say is not None:
            say(line)

    load_engine(workload.jobs)
    began = time.perf_counter()
    with patient_progress("jobs", len(workload.jobs)) if advance is None else nullcontext(advance) as shown:
        schedule, learned = simulate(workload.jobs, workload, chosen, shown)
    simulate_s = time.perf_counter() - began
    return Result(workload, chosen, schedule, tau_s, schedule.summary(tau_s), simulate_s, read_s, learned)


def replay_many(
    log: Workload | str | Path,
    policies: Policy | str | Iterable[Policy | str] | Mapping[str, Policy | str],
    *,
    procs: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    threads: int | None = None,
    advance: Callable[[int], None] | None = None,
    **options: Unpack[Arguments],
) -> pd.DataFrame:
    """Replay a workload under each of several policies, on all processors: a row of figures per policy.

    Args:
        log: see `replay`.
        policies: each as for `replay`; their names are the frame's index, or the keys of a dict.
        procs: see `replay`.
        tau_s: see `replay`.
        overrun: see `replay`.
        unrequested: see `replay`.
        threads: number of replays at a time; by default one per processor. The figures do not depend on it.
        advance: called with 1 after each replay; None shows a progress bar if they take more than two seconds.
        **options: see `replay`; the same for every policy.

    Returns:
        A column per field of `Summary`. Needs pandas.

    Raises:
        BatfillError: as `replay`.

    Examples:
        >>> frame = replay_many("workloads/sample.json", ["fcfs", "saf"])
        >>> frame.index.tolist(), bool(frame.mean_wait_s["saf"] < frame.mean_wait_s["fcfs"])
        (['fcfs', 'saf'], True)
    """
    named = dict(policies) if isinstance(policies, Mapping) else {}
    if not isinstance(policies, (str, Policy, Iterable)):
        raise BatfillError(f"policies: {policies!r:.80} are none; give names or policies, as bf.policies.values()")
    several = [policies] if isinstance(policies, (str, Policy)) else list(named.values() or policies)
    if not several:
        raise BatfillError("policies: there is none; give one or more, such as bf.policies.values()")
    chosen, tau_s = [options_of(policy, options) for policy in several], tau_of(tau_s)
    workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested)
    for each in chosen:
        each.require_classes(workload.jobs, workload.name)
    load_engine(workload.jobs)  # once, not in every thread

    def figures_under(one: Options) -> dict[str, Any]:
        return {"policy": one.policy.name, **simulate(workload.jobs, workload, one)[0].summary(tau_s).as_dict()}

    rows = []
    shown = patient_progress("policies", len(chosen)) if advance is None else nullcontext(advance)
    n_threads = max(1, min(threads or len(os.sched_getaffinity(0)), len(chosen)))
    with shown as done, replays.thread_pool(n_threads) as pool:
        for row in pool.map(figures_under, chosen):
            rows.append(row)
            done(1)
    rows = [{**row, "policy": name} for name, row in zip(named, rows, strict=True)] if named else rows
    stated = {name: value for name, value in chosen[0].as_dict().items() if name != "policy"}
    of_log: dict[str, Any] = {"workload": workload.name, "workload_sha256": workload.digest}
    of_log |= {"overrun": workload.overrun, "unrequested": workload.unrequested}
    of_log |= digests([*(one.policy for one in chosen), chosen[0].backfill])
    return data_frame(rows, **of_log, procs=size, tau_s=tau_s, options=stated).set_index("policy")


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
        policy: Policy | str = "fcfs",
        *,
        procs: int | None = None,
        tau_s: float = TAU_S,
        overrun: Overrun | None = None,
        unrequested: Unrequested | None = None,
        **options: Unpack[Arguments],
    ) -> None:
        """Set up the replay on an empty machine; the arguments are those of `replay`.

        Raises:
            BatfillError: as `replay`; only knowledge "user" allows stopping, copying and saving.
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
        self.changes: tuple[tuple[float, Options], ...] = ()
        self.forked_s: float | None = None  # where a fork left its original
        self.simulate_s = 0.0
        self.engine = replays.EngineReplay(
            self.workload.jobs,
            size,
            self.options.policy,
            backfill=self.options.backfill,
            threshold_s=self.options.threshold_s,
            divider_s=self.options.divider_s,
            tries_first=self.options.tries_first,
            spares=self.options.spares,
            bound=self.options.bound,
            kills=self.options.kills,
            small=self.options.calls_small(self.workload.jobs.job_class, self.workload.jobs.procs, size),
        )

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
        load_engine(self.workload.jobs)
        began = time.perf_counter()
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
        rules = copied.options
        copied.engine.change_rules(rules.policy, backfill=rules.backfill, threshold_s=rules.threshold_s)
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
        schedule = self.engine.schedule()
        figures = schedule.summary(self.tau_s)
        return Result(self.workload, self.options, schedule, self.tau_s, figures, self.simulate_s, changes=self.changes)

    @property
    def figures(self) -> Summary:
        """The figures over the jobs that have ended; `ended` says whether these are all."""
        return self.result().figures

    def columns(self) -> dict[str, NDArray[Any]]:
        """As `Result.columns`, so far."""
        return self.result().columns()

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
        busy = self.engine.size - self.free
        here = f"{len(self.waiting):,} jobs waiting, {len(self.running):,} running on {busy:,} processors"
        now = f"{self.now_s:,.0f} s, {here}"
        forked = [] if self.forked_s is None else [("fork", f"of a replay at {self.forked_s:,.0f} s")]
        return [("now", now), *forked, *self.result().rows()]

    def __repr__(self) -> str:
        """The rows, one per line."""
        return label_lines(self.rows())

    def _repr_html_(self) -> str:
        """The rows as a table, for notebooks."""
        return label_html(self.rows())

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
        replays.save(self.engine, Path(path), about)

    @classmethod
    def load(cls, path: str | Path, policies: Iterable[Policy] = ()) -> Replay:
        """The run saved in this file; it continues with results identical to the last byte.

        Args:
            path: the file.
            policies: the run's custom policies; the others are found by name.

        Raises:
            BatfillError: the file was not written by `save`, or a policy is unknown.
        """
        own = {policy.name: policy for policy in policies}
        engine, about = replays.load(Path(path), own)
        if "options" not in about:
            raise BatfillError(f"{path}: was not saved by Replay.save; use `batfill.replays.engine_replay.load`")
        run = cls.__new__(cls)
        run.engine = engine
        run.workload = Workload(
            about["name"],
            engine.table,
            engine.size,
            about["digest"],
            tuple(about["notes"]),
            Clock.of(about["clock"]) if about["clock"] else None,
            overrun=about["overrun"],
            unrequested=about["unrequested"],
        )
        run.tau_s, run.simulate_s, run.forked_s = about["tau_s"], about["simulate_s"], about["forked_s"]

        def options_again(stated: dict[str, Any]) -> Options:
            orders = {name: own.get(stated[name], stated[name]) for name in ("policy", "backfill")}
            return Options.of({**stated, **orders})

        run.options = options_again(about["options"])
        run.changes = tuple((until_s, options_again(stated)) for until_s, stated in about["changes"])
        return run
