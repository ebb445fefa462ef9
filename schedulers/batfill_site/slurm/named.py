"""What a slurm.conf may have that the model has not: what is done instead, and which jobs it could touch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from batfill.base.words import percent, things
from batfill_site.slurm.site import (
    BURST,
    LIMITED,
    SWITCHES,
    TIME_MIN,
    Part,
    Site,
    SlurmJobs,
    held_cpus,
    licences_of,
    memory_of,
)

MOST_PARTS = 6  # that are not modelled, on the first screen
MOST_TOUCHED = 0.05  # of the jobs, or of their processor-hours: beyond it the answer begins with a caution
NOT = "not modelled"  # as notes on the configuration begin


class Row(NamedTuple):
    """A kind of parts. `touches` returns which jobs of the part's partitions or QOS; None if no log says it."""

    pattern: str  # of `Part.key`
    done: str = "left out"
    touches: Callable[[SlurmJobs, Part], Any] | None = lambda jobs, _: np.ones(len(jobs), bool)


ROWS = (
    Row("partition[.](oversubscribe|shared)=(yes|force)(:(?!0*1$)[0-9]+)?", "one job on a CPU"),
    Row("partition[.]state=.*", "taken as UP"),
    Row("partition[.](selecttypeparameters|lln|exclusive(user|topo)|maxcpusper.*)=.*"),
    Row("(partition[.])?maxmempercpu=.*", touches=lambda jobs, it: memory_of(jobs) > it.number * jobs.cpus_per_node),
    Row("(partition[.])?maxmempernode=.*", touches=lambda jobs, it: memory_of(jobs) > it.number),
    Row("partition[.]minnodes=.*", touches=lambda jobs, it: jobs.nodes < it.number),
    Row("(partition[.])?def(cpu|mem)pergpu=.*", touches=lambda jobs, _: jobs.gpus_per_node > 0),
    Row("(partition[.])?overtimelimit=.*", touches=lambda jobs, _: jobs.run_s > jobs.limit_s),
    Row("node[.]restrictedcorespergpu=.*", touches=lambda jobs, _: jobs.gpus_per_node == 0),
    Row("selecttype=(select/)?(cray.*|alps|b.*|serial|other.*)", "taken as select/cons_tres"),
    Row("schedulertype=(sched/)?(fifo|gang|hold|wiki.*)", "taken as sched/backfill"),
    Row("depth_oblivious=.*", "taken as NO_FAIR_TREE"),
    Row("(calculate_running|incr_only|no_normal_.*|ticket_based|prioritysitefactorplugin)=.*"),
    Row("(cr_socket.*|cr_one_task_per_core)=.*", touches=lambda jobs, _: ~jobs.exclusive),
    Row("cr_pack.*", touches=lambda jobs, _: jobs.max_nodes != jobs.nodes),
    Row("topologyp(lugin=(?!.*(tree|none|default|flat)$).+|aram=.*(dragonfly|topo).*)", "nodes without switches",
        lambda jobs, _: jobs.nodes > 1),
    Row("max_switch_wait=.*", touches=lambda jobs, _: jobs.marks & SWITCHES > 0),
    Row("burstbuffertype=.*", touches=lambda jobs, _: jobs.marks & BURST > 0),
    Row("time_min_as_soft_limit=.*", touches=lambda jobs, _: jobs.marks & TIME_MIN > 0),
    Row("(assoc_limit_stop|limits)=.*", touches=lambda jobs, _: jobs.marks & LIMITED > 0),
    Row("nodefeaturesplugins=.*", touches=lambda jobs, _: np.array(jobs.constraint, object) != ""),
    Row("ll_shared_gres=.*", touches=lambda jobs, _: jobs.gpus_per_node > 0),
    Row("bf_one_resv_per_job=.*", touches=lambda jobs, _: np.array(jobs.partitions, object) != ""),
    Row("licence .*", "which no job waits for",
        lambda jobs, it: np.array([it.name[8:] in licences_of(each) for each in jobs.licenses])),
    Row("qos[.](enforceusagethreshold|relative)=.*"),
    Row("(qos|partition)[.]preemptmode=(suspend|.*checkpoint).*|preemptmode=.*checkpoint.*", "no job is preempted"),
    Row("bf_(?!allow|continue|node_space|yield).*|(completewait|defer_batch|delay_boot|extra_constraints|mcsplugin|"
        "reduce_completing_frag|sched_min_interval|spec_cores_first|suspend(program|time))=.*|"
        "(partition|node|qos)[.].*", touches=None),
)  # fmt: skip


@lru_cache(1 << 12)
def row_of(part: Part) -> Row | None:
    return next((row for row in ROWS if re.fullmatch(row.pattern, part.key)), None)


def touched(site: Site, jobs: SlurmJobs) -> tuple[tuple[str, ...], str]:
    """What is not modelled and which jobs it could touch, a sentence each; and a caution if these are too many."""
    hours, all_rows = held_cpus(site, jobs) * jobs.run_s, np.zeros(len(jobs), bool)
    lines, named, others = list[str](), list[str](), defaultdict[str, list[str]](list)

    def shares(rows: Any) -> dict[str, float]:
        return {"jobs": rows.mean(), "processor-hours": hours[rows].sum() / max(hours.sum(), 1e-9)}

    foreign = {name: None for each in jobs.licenses for name in licences_of(each) if name not in site.settings.licenses}
    for part in (*site.named, *(Part("", f"licence {name}", "yes") for name in foreign)):
        row = row_of(part)
        if row is None or row.touches is None:
            others["the log does not say which jobs it could touch"].append(str(part))
            continue
        rows = row.touches(jobs, part)
        if part.of:
            rows = rows & np.isin(jobs.qos if part.kind == "qos" else jobs.partition, part.of)
        if not rows.any():
            others["it could touch no job of this log"].append(str(part))
            continue
        number, cpu = map(percent, shares(rows).values())
        many = f"{things(int(rows.sum()), 'job')} ({number}; {cpu} of processor-hours)"
        lines.append(f"{NOT}: {part}, {row.done}; it could touch {many}")
        named, all_rows = [*named, str(part)], all_rows | rows
    lines += [f"{NOT}; {why}: {', '.join(parts)}" for why, parts in others.items()]
    of, most = max(shares(all_rows).items(), key=lambda each: each[1])
    caution = f"what is not modelled could touch {percent(most)} of {of}, over {percent(MOST_TOUCHED)}"
    return tuple(lines), f"{caution}: {', '.join(named)}" if most > MOST_TOUCHED else ""


def unmodelled(notes: Iterable[str]) -> str:
    """What these notes name, for the first screen."""
    parts = [text.removeprefix(NOT).lstrip(":; ") for text in notes if text.startswith(NOT)]
    more = [f"{len(parts) - MOST_PARTS} more with --details"] * (len(parts) > MOST_PARTS)
    return f"{'; '.join([*parts[:MOST_PARTS], *more]) or 'nothing in slurm.conf that could touch a job'}."
