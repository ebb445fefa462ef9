"""Reads a site's Slurm jobs from `sacct -P` output: what each asked for, and the layout in which it ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill_site.accounting.cluster_log import NEVER_STARTED, Reading
from batfill_site.accounting.record_text import LAST_S, PARTITION_LIMIT, UNLIMITED, Names, each
from batfill_site.accounting.slurm import COLUMNS, PER_CPU, TASKS, Records, Table, having, memory_of, tres_of
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.site import NONE, Ints, SlurmJobs

# All columns that are read, as in docs/how-to/slurm.md. Any that may hold bars (Reason, Constraints, SubmitLine) stands
# before one that cannot be mistaken, or last. A Slurm that does not know one of them says so; it can be left out.
COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct -a -X -P -D --noconvert -S START -E END -o JobID,User,Account,Partition,QOS,Submit,"
    "Eligible,Reason,Start,End,TimelimitRaw,AllocCPUS,ReqCPUS,NNodes,ReqTRES,AllocTRES,ReqMem,Constraints,State,"
    "NodeList,Reservation,Suspended,SubmitLine"
)
OURS = ("ReqTRES", "AllocTRES", "ReqNodes", "NodeList", "ReqMem", "Constraints")
READ = {name: titles for name, titles in COLUMNS.items() if name not in ("JobName", "Group")}
READ |= {name: (name,) for name in OURS} | {"NNodes": ("NNodes", "AllocNodes")}
EXPECTED = ("Partition", "QOS", "Account", "User", "Timelimit", *OURS[:2], "Constraints", "NodeList", "SubmitLine")
# The importer's columns, and their names here.
TAKEN = {"requested_s": "limit_s", "procs": "cpus", "queue": "qos", "group": "account"} | {
    name: name for name in ("submit_s", "eligible_s", "start_s", "end_s", "partition", "user")
}
YEAR_S = 365 * 86400  # what Slurm's plans assume of a job without a limit
OPTION = re.compile(
    r"\s(?:(?:-N\s*|--nodes[= ]\s*)(?P<nodes>[0-9]{1,9})(?!\w)|(?P<nice>--nice)(?:=(?P<by>-?[0-9]{1,9}))?(?=\s|$)"
    r"|(?P<alone>--exclusive)(?=\s|$)|(?P<per_cpu>--mem-per-cpu)[= ])"
)
NICE = 100  # of `--nice` without a number
# Reasons for which jobs wait in Slurm and not in the model; those of EARLY, too, if Eligible does not say until when.
UNMODELLED = (
    "^(ReqNodeNotAvail|Nodes?Down|Licenses|BurstBuffer|Partition(Down|Inactive)|Reservation|JobArrayTaskLimit|"
    "Cleaning|FedJobLock|Prolog|.*(Minutes|RunMin))"
)
EARLY = "^(Dependency|BeginTime|JobHeld)"
HELD = 6  # from here on, what is assumed of a job means that it is held
REASON = "jobs that waited for what is not modelled, such as licences or nodes that were down, by their Reason"
WAITED = "jobs cancelled before they started, left out: others hardly wait for them, but plans had places for some"
TRIES = "records of earlier tries of requeued jobs: each try is a job"
PARTS = "components of heterogeneous jobs: each is a job, which starts alone"


def read_jobs(
    log: Path | str | Iterable[Path | str], *, timezone: str | None = None, limits: Mapping[str, float] = NONE
) -> SlurmJobs:
    """The jobs of `sacct -P` output that ran and have ended.

    Each try of a requeued job is a job, since it held nodes; so is each component of a heterogeneous job. Jobs that
    never started or have not ended are left out. What was left out, changed or assumed is counted in `warnings`.

    Args:
        log: a file or several, plain or compressed, as `COMMAND` writes them; other columns are ignored.
        timezone: the cluster's, of dates without one; by default UTC.
        limits: the longest time of partitions that have one, in s, for jobs without a limit; 365 days in others.

    Raises:
        WorkloadError: a file is not such output, or lacks a column that is needed; no job in it ran; the time zone is
            unknown.
    """
    files = list(map(Path, [log] if isinstance(log, str | Path) else log))
    records = SlurmRecords(Reading(timezone or "UTC"), limits)
    records.read_files(files)
    return records.slurm_jobs(files)


def line_of(text: str) -> tuple[int, int, bool, bool]:
    """What a SubmitLine says: the fewest nodes (0 for nothing), nice, and whether exclusive and with memory per CPU."""
    nodes, nice, alone, per_cpu = 0, 0, False, False
    for option in OPTION.finditer(text.partition(" --wrap")[0]):
        if option["nodes"]:
            nodes = int(option["nodes"])
        elif option["nice"]:
            nice = int(option["by"] or NICE)
        alone, per_cpu = alone or option["alone"] is not None, per_cpu or option["per_cpu"] is not None
    return nodes, nice, alone, per_cpu


def nodes_in(text: str) -> int:
    """How many nodes a list such as cb[01-06,09],gpu1 names; 0 if it is none."""
    try:
        return len(expand(text))
    except WorkloadError:
        return 0


class SlurmRecords(Records):
    """The records of jobs, with what the model needs of each."""

    columns = READ
    command = f"`{COMMAND}`"
    assumed: tuple[str, ...] = ()  # what is assumed of some jobs, by its bit

    def __init__(self, result: Reading, limits: Mapping[str, float]) -> None:
        super().__init__(result, None)
        self.limits, self.names = limits, {name: Names() for name in ("gpu_type", "constraint", "ran_on", "reason")}

    def more(self, table: Table, columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """The columns of `SlurmJobs` that the importer does not have, and what is assumed of each; fills in limits."""
        if missing := [name for name in EXPECTED if name not in table]:
            self.result.note(f"without {', '.join(missing)}: what they say is assumed; give them, too", len(table))
        req, alloc = self._tres(table["ReqTRES"]), self._tres(table["AllocTRES"])
        line = each(table["SubmitLine"], line_of)
        asked_cpus = _first(req[:, 0], columns["requested_procs"], columns["procs"])
        ran_on = _first(alloc[:, 2], table.counts("NNodes")[0])
        if not ran_on.all():
            ran_on = _first(ran_on, each(table["NodeList"], nodes_in), req[:, 2])
        nodes, asked = np.maximum(ran_on, 1), _first(req[:, 2], table.counts("ReqNodes")[0], line[:, 0])
        min_nodes = _first(asked, nodes)
        # Memory: ReqMem if it says of what; else the total over what it was requested, or given, for.
        reqmem, per = each(table["ReqMem"], memory_of).T
        total = _first(req[:, 1], np.where(per == 0, reqmem, 0))
        per_cpu = np.where(per > 0, per == PER_CPU, line[:, 3] > 0)
        memory = _first(
            np.where(per > 0, reqmem, 0),
            _shares(total, np.where(per_cpu, asked_cpus, min_nodes)),
            _shares(alloc[:, 1], np.where(per_cpu, columns["procs"], nodes)),
        )
        types = np.where(req[:, 3:4] > 0, req[:, 4:], alloc[:, 4:])  # those given may be others than was asked for
        limit_s, partition = columns["requested_s"], table["Partition"]
        unlimited = np.isin(limit_s, (0, UNLIMITED, PARTITION_LIMIT))
        longest_s = np.array([self.limits.get(name, 0) for name in partition], float)
        limit_s[unlimited] = np.clip(np.ceil(np.where(longest_s > 0, longest_s, YEAR_S)), 1, LAST_S)[unlimited]
        eligible_s = columns["eligible_s"].seconds if "Eligible" in table else np.zeros(len(table), np.int64)
        early = having(table["Reason"], EARLY) & (eligible_s <= columns["submit_s"].seconds)
        # A bit each, in this order, which is counted of the jobs that are kept.
        assumed = {
            "jobs that ran on an unknown number of nodes: one": ran_on == 0,
            "jobs that do not say how many nodes they asked for (ReqTRES does): as many as they ran on": asked == 0,
            "jobs of unknown memory: they take none": memory == 0,
            "jobs with GPUs of several types: GPUs of any type": types[:, 1] > 1,
            "jobs without a time limit: their partition's": unlimited & (longest_s > 0),
            "jobs without a time limit, as their partition: 365 days": unlimited & (longest_s == 0),
            "jobs that were suspended: their nodes were not": having(table["Suspended"], "[1-9]")
            | table.paused(columns["start_s"], columns["end_s"]),
            "jobs in a reservation: they start as others do": having(table["Reservation"], "[^ ]"),
            REASON: early | having(table["Reason"], UNMODELLED),
        }
        self.assumed = tuple(assumed)
        return {
            "nodes": nodes,
            "min_nodes": min_nodes,
            "memory_per_cpu_mb": np.where(per_cpu, memory, 0),
            "memory_per_node_mb": np.where(per_cpu, 0, memory),
            "gpus_per_node": _first(_shares(alloc[:, 3], nodes), _shares(req[:, 3], min_nodes)),
            "nice": line[:, 1],
            "exclusive": line[:, 2] > 0,
            "gpu_type": types[:, 0],
            "constraint": self.names["constraint"].codes(table["Constraints"]),
            "ran_on": self.names["ran_on"].codes(table["NodeList"]),
            "reason": self.names["reason"].codes(table["Reason"]),
            "assumed": sum(rows.astype(np.int16) << bit for bit, rows in enumerate(assumed.values())),
        }

    def _tres(self, texts: list[str]) -> Ints:
        """The CPUs, MB, nodes and GPUs of each text, the code of its GPUs' type, and how many types, (n, 6)."""

        def read(text: str) -> tuple[int, ...]:
            *counts, types = tres_of(text)
            return (*counts, *self.names["gpu_type"].codes(types if len(types) == 1 else [""]).tolist(), len(types))

        return each(texts, read)

    def slurm_jobs(self, files: list[Path]) -> SlurmJobs:
        """The jobs of these records.

        Raises:
            WorkloadError: none ran.
        """
        reading, jobs = self.result, self.result.jobs
        ran = jobs["start_s"] > 0
        if reading.notes.pop(NEVER_STARTED, 0):
            reading.note(WAITED, int(np.count_nonzero(~ran)))
        if not ran.any():
            where, why = ", ".join(map(str, files)), reading.reasons()
            raise WorkloadError(f"{where}: no job in it ran{f' ({why})' if why else ''}; use {self.command}")
        jobs.keep(ran)
        self.drop_copies()
        self._part_tries()
        part = np.array([-1, *map(float, self.components)])[jobs["component"] + 1]
        rows = np.lexsort((part, jobs["key"], jobs["submit_s"]))
        column: dict[str, Any] = {name: jobs[name][rows].astype(np.int64) for name in (*TAKEN, *jobs.extra)}
        for bit, what in enumerate(self.assumed):
            reading.note(what, int(np.count_nonzero(column["assumed"] >> bit & 1)))
        reading.note(PARTS, int(np.count_nonzero(column["component"] >= 0)))
        if others := int(np.count_nonzero(column["cluster"] != column["cluster"][0])):
            reading.note("jobs of other clusters than the first one's: take one cluster's (sacct -M NAME)", others)
        column |= {TAKEN[name]: column[name] for name in TAKEN}
        column["ids"] = rows
        named = {TAKEN[name]: list(jobs.names[name]) for name in ("partition", "queue", "group", "user")}
        named |= {name: list(known) for name, known in self.names.items()} | {"ids": self.ids()}
        for name, texts in named.items():
            column[name] = tuple(map(texts.__getitem__, column[name].tolist()))
        column |= {
            "eligible_s": np.maximum(column["eligible_s"], column["submit_s"]).astype(float),
            "submit_s": column["submit_s"].astype(float),
            "started_s": column["start_s"].astype(float),
            "run_s": (column["end_s"] - column["start_s"]).astype(float),
            "limit_s": np.maximum(column["limit_s"], 1),
            "cpus_per_node": _shares(column["cpus"], column["nodes"]),
            "array": np.where((column["key"] >= 0) & (column["key"] % 2**TASKS > 0), column["key"] >> TASKS, -1),
            "exclusive": column["exclusive"] > 0,
            "held": column["assumed"] >> HELD > 0,
            "warnings": tuple(reading.lines()),
        }
        self.column = column
        return SlurmJobs(**{name: column[name] for name in SlurmJobs.__slots__})

    def _part_tries(self) -> None:
        """Count the earlier tries of requeued jobs; a later one is submitted when the earlier one is over."""
        jobs = self.result.jobs
        same = ("key", "component", "cluster", "user")
        order = np.lexsort([jobs[name] for name in ("end_s", *same)])
        earlier, later = order[:-1], order[1:]
        again = np.all([jobs[name][later] == jobs[name][earlier] for name in same], axis=0)
        self.result.note(TRIES, int(np.count_nonzero(again)))
        again &= (jobs["submit_s"][later] < jobs["end_s"][earlier]) & (jobs["start_s"][later] >= jobs["end_s"][earlier])
        jobs["submit_s"][later[again]] = jobs["end_s"][earlier[again]]


def _first(*columns: Ints) -> Ints:
    """Of each row the first number above 0; 0 if there is none."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = np.where(found > 0, found, np.maximum(column, 0))
    return found


def _shares(total: Ints, parts: Ints) -> Ints:
    """What each of the parts gets at most, if they are as equal as can be."""
    return -(-total // np.maximum(parts, 1))
