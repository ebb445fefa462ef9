"""A replay from log to figures: `replay` runs it whole, `Replay` stops at any instant, `Result` holds the outcome."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.base.host import cpu_count
from batfill.base.progress import patient_progress
from batfill.base.tables import data_frame
from batfill.model.jobs import Jobs, refuse_cancelled
from batfill.model.metrics import TAU_S
from batfill.model.options import Options, of_arguments
from batfill.model.policy import Policy, digests
from batfill.model.preemption import OF_LOGS
from batfill.model.values import function_of, number_from, tau_of
from batfill.replays import engine_replay
from batfill.replays.many import in_threads
from batfill.replays.result import Result
from batfill.workloads import opened
from batfill.workloads.formats import with_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    import pandas as pd

    from batfill.model.arguments import Arguments
    from batfill.model.jobs import Cancelled, Overrun, Unrequested
    from batfill.model.schedule import Schedule
    from batfill.replays.learning import Learned


LONG = 1_000_000  # jobs from which on a replay says what memory it takes


def nothing(_: float) -> None:
    """Called where progress is not shown."""


def prepared(options: Options, jobs: Jobs, source: str) -> Jobs:
    """As `Options.prepared`, of jobs of which a column of their log may say which are urgent."""
    field = "" if options.urgent is None else options.urgent.field
    return options.prepared(with_column(jobs, field) if field in OF_LOGS else jobs, source)


def simulate(
    jobs: Jobs, workload: Jobs, options: Options, advance: Callable[[int], None] | None = None
) -> tuple[Schedule, Learned | None]:
    assert workload.size is not None
    options, jobs = options.on(workload, jobs), prepared(options, jobs, workload.name)
    if options.learns:
        refuse_cancelled(jobs, workload.name, "a predictor")
        from batfill.replays.learning import replay_learning

        learned = replay_learning(jobs, workload.size, options, workload.clock, advance or nothing)
        return learned.schedule, learned
    small = options.calls_small(jobs.job_class, jobs.procs, workload.size)
    schedule = engine_replay.replay_jobs(jobs, workload.size, options.rules, small=small, advance=advance)
    return schedule, None


def memory_line(workload: Jobs, options: Options) -> str:
    learns, n_jobs = options.learns, len(workload.jobs)
    table, besides = engine_replay.bytes_a_job(workload.jobs, options.rules, learns=learns)
    more = f"waiting and running jobs{', and the learner,' if learns else ''} take more"
    whole = f"{n_jobs * (table + besides) / 1e9:,.1f} GB in all"
    return f"{n_jobs:,} jobs: {table} B each in the table, {besides} B each in the replay, {whole}; {more}"


def options_of(policy: Policy | str | None, arguments: Mapping[str, Any]) -> Options:
    if isinstance(policy, (Mapping, Sequence)) and not isinstance(policy, str):
        raise BatfillError("policy: these are several; `replay_many` replays a log under each")
    return Options.of(of_arguments({"policy": policy, **arguments}))


def replay(
    log: Jobs | str | Path,
    policy: Policy | str | None = None,
    *,
    procs: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
    speed: float | str | None = None,
    advance: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
    **options: Unpack[Arguments],
) -> Result:
    """Replay a whole workload under one policy in the compiled engine.

    Args:
        log: a workload or a file, as for `read_workload`.
        policy: a policy's name, a `Policy`, six weights as "mixed:1,0,0,0,0,0", or one in a file, as
            "lin@fitted.json". None for the preset's, or fcfs.
        procs: the machine's size; by default the workload's.
        tau_s: the bound of the bounded slowdown, in seconds.
        overrun: see `read_workload`; for a file only.
        unrequested: see `read_workload`; for a file only.
        cancelled: see `read_workload`; for a file only.
        speed: see `read_workload`; for a file only.
        advance: called with the number of jobs replayed since the last call; None shows a progress bar if the replay
            takes more than two seconds.
        say: called before the replay of a million jobs or more with a line on the memory that it takes.
        **options: the scheduler's other options, as in the options' reference with underscores; durations are in
            seconds, or text.

    Raises:
        BatfillError: the log or an option is unusable, the machine's size is unknown, or a policy's key is not
            finite for every job.

    Examples:
        >>> saf = replay("workloads/sample.json", "saf", backfill="spf", threshold_s=200_000)
        >>> saf.figures.backfilled > 0
        True
        >>> replay("workloads/sample.json", "safe")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        batfill.base.errors.PolicyError: policy 'safe' is unknown; known are fcfs, ...; did you mean 'saf'?
    """
    advance, say = function_of("advance", advance), function_of("say", say)
    chosen, tau_s = options_of(policy, options), tau_of(tau_s)
    began = time.perf_counter()
    workload, _ = opened(log, procs=procs, overrun=overrun, unrequested=unrequested, cancelled=cancelled, speed=speed)
    read_s = None if isinstance(log, Jobs) else time.perf_counter() - began
    chosen.require_classes(workload.jobs, workload.name if read_s is None else str(log))
    workload = workload.with_read(chosen.fields)
    if say is not None and len(workload.jobs) >= LONG:
        say(memory_line(workload, chosen))

    began = time.perf_counter()
    with patient_progress("jobs", len(workload.jobs)) if advance is None else nullcontext(advance) as shown:
        schedule, learned = simulate(workload.jobs, workload, chosen, shown)
    simulate_s = time.perf_counter() - began
    return Result(workload, chosen, schedule, tau_s, schedule.summary(tau_s), simulate_s, read_s, learned)


def replay_many(
    log: Jobs | str | Path,
    policies: Policy | str | Iterable[Policy | str] | Mapping[str, Policy | str],
    *,
    procs: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
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
        cancelled: see `replay`.
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
    advance, threads = function_of("advance", advance), None if threads is None else number_from("threads", threads)
    named = dict(policies) if isinstance(policies, Mapping) else {}
    if not isinstance(policies, (str, Policy, Iterable)):
        raise BatfillError(f"policies: {policies!r:.80} are none; give names or policies, as bf.policies.values()")
    several = [policies] if isinstance(policies, (str, Policy)) else list(named.values() or policies)
    if not several:
        raise BatfillError("policies: there is none; give one or more, such as bf.policies.values()")
    chosen, tau_s = [options_of(policy, options) for policy in several], tau_of(tau_s)
    workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested, cancelled=cancelled)
    for each in chosen:
        each.require_classes(workload.jobs, workload.name)

    def figures_under(one: Options) -> dict[str, Any]:
        return {"policy": one.policy.name, **simulate(workload.jobs, workload, one)[0].summary(tau_s).as_dict()}

    with patient_progress("policies", len(chosen)) if advance is None else nullcontext(advance) as done:
        rows = in_threads(figures_under, chosen, done, min(threads or cpu_count(), len(chosen)))
    rows = [{**row, "policy": name} for name, row in zip(named, rows, strict=True)] if named else rows
    stated = {name: value for name, value in chosen[0].as_dict().items() if name != "policy"}
    of_log: dict[str, Any] = {"workload": workload.name, "workload_sha256": workload.digest}
    of_log |= workload.choices
    of_log |= digests([*(one.policy for one in chosen), chosen[0].backfill]) | chosen[0].file_digests
    return data_frame(rows, **of_log, procs=size, tau_s=tau_s, options=stated).set_index("policy")
