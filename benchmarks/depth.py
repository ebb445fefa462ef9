"""What more reservations than one cost: processor time over that of one, on the same log in the same run."""

from __future__ import annotations

from functools import partial

from logs import BLUE, CEA, CTC, KTH, Log, workload, write_plain
from table import Row, time_text
from timing import Case, Setting, by_turns, exponent, simulating

from batfill.model.policy import policy_named
from batfill.model.rules import EVERY_JOB, Rules
from batfill.replays.engine_replay import EngineReplay

DEPTHS = {1: "1", 2: "2", 8: "8", EVERY_JOB: "all"}
BARS = {"fcfs": {2: 2.6, 8: 4.2, EVERY_JOB: 19.0}, "saf": {2: 1.8, 8: 1.9, EVERY_JOB: 2.0}}
CROWDED_BARS = {0.5: 18.0, 0.25: 50.0}  # over plain C with one reservation, with the gaps between arrivals so short
GROWTH_BAR = 1.1


def planned(log: Log, policy: str, depth: int, squeeze: float = 1.0) -> EngineReplay:
    """A replay, raised requests and all, that has run once."""
    run = EngineReplay(workload(log, 1, squeeze).jobs, log.procs, Rules(policy_named(policy), depth=depth))
    run.advance()
    return run


def by_depth(log: Log, policy: str, setting: Setting) -> list[Row]:
    seconds = by_turns(setting.rounds, {depth: simulating(planned(log, policy, depth)) for depth in DEPTHS})
    one_s = seconds.pop(1)
    return [
        Row(
            f"{log.name} {policy}, {DEPTHS[depth]}",
            time_text(took),
            f"one {time_text(one_s)}",
            took / one_s,
            BARS[policy][depth],
        )
        for depth, took in seconds.items()
    ]


def by_load(log: Log, setting: Setting) -> list[Row]:
    """All reservations under ever more load: beside plain C with one, and how time grows with the mean queue."""
    rows, queues, took_s = [], [], []
    for squeeze in (1.0, *CROWDED_BARS):
        run = planned(log, "fcfs", EVERY_JOB, squeeze)
        took_s.append(by_turns(min(setting.rounds, 3), {"ours": simulating(run, 1)})["ours"])
        done = run.schedule()
        queues.append(float((done.start_s - done.jobs.submit_s).sum() / done.start_s.max()))
        if squeeze in CROWDED_BARS and setting.yardstick is not None:
            plain = write_plain(workload(log, 1, squeeze), setting.folder / f"{log.name}-{squeeze}.swf")
            c_s = setting.yardstick.simulation_s(plain, "fcfs")
            case = f"{log.name} fcfs, all, gaps x {squeeze}, {queues[-1]:.0f} wait"
            rows.append(
                Row(case, time_text(took_s[-1]), f"C, one {time_text(c_s)}", took_s[-1] / c_s, CROWDED_BARS[squeeze])
            )
    times = " / ".join(map(time_text, took_s))
    case = f"{log.name} fcfs, all, {'/'.join(f'{queue:.0f}' for queue in queues)} wait in the mean"
    rows.append(Row(case, times, "time against queue", exponent(queues, took_s), GROWTH_BAR, unit="n"))
    return rows


def cases() -> list[Case]:
    section = "any number of reservations"
    return [
        *(
            Case(section, f"{log.name} {policy}", partial(by_depth, log, policy))
            for log in (KTH, CTC, BLUE, CEA)
            for policy in ("fcfs", "saf")
        ),
        Case(section, "KTH-SP2 by load", partial(by_load, KTH)),
    ]
