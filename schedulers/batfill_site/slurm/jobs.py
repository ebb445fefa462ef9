"""Reads a site's Slurm jobs from `sacct -P` output: what each asked for, and where it ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.workloads.swf_log import CANCELLED
from batfill_site.accounting.cluster_log import NEVER_STARTED, Reading
from batfill_site.accounting.record_text import LAST_S, PARTITION_LIMIT, UNLIMITED, Names, each, limit_of
from batfill_site.accounting.slurm import (
    AGAIN_S,
    COLUMNS,
    PER_CPU,
    REQUEUED_S,
    TASKS,
    Records,
    Table,
    having,
    memory_of,
    tres_of,
)
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.site import BURST, LIMITED, NONE, SWITCHES, TIME_MIN, Ints, SlurmJobs

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
TAKEN = {"requested_s": "limit_s", "queue": "qos", "group": "account"} | {
    name: name for name in ("submit_s", "eligible_s", "start_s", "end_s", "partition", "user")
}
YEAR_S = 365 * 86400  # what Slurm's plans assume of a job without a limit
# Options of sbatch, srun and salloc that take no value as the next word; all others do, unless it follows an = sign.
FLAGS = re.compile(
    "-[HhIkKlOQsuVvXZ]+|--(contiguous|exact|exclusive|get-user-env|help|hold|ignore-pbs|immediate|kill-on-bad-exit|label|"
    "multi-prog|nice|no-kill|no-requeue|no-shell|overcommit|overlap|oversubscribe|parsable|preserve-env|propagate|pty|"
    "quiet|reboot|requeue|share|spread-job|test-only|unbuffered|usage|use-min-nodes|verbose|version|wait|whole)"
)
LONG = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-w": "--nodelist", "-x": "--exclude"}
LONG |= {"-p": "--partition", "-G": "--gpus", "-L": "--licenses"}
MARKS = {"--bb": BURST, "--bbf": BURST, "--switches": SWITCHES, "--time-min": TIME_MIN}
NICE = 100  # of `--nice` without a number
# Reasons for which jobs wait in Slurm and not in the model; those of EARLY, too, if Eligible does not say until when.
UNMODELLED = (
    "^(ReqNodeNotAvail|Nodes?Down|BurstBuffer|Partition(Down|Inactive)|Reservation|JobArrayTaskLimit|"
    "Cleaning|FedJobLock|Prolog|.*(Minutes|RunMin))"
)
EARLY = "^(Dependency|BeginTime|JobHeld)"
TEXTS = ("gpu_type", "constraint", "ran_on", "reason", "partitions", "required", "excluded", "licenses")
HELD = 8  # from here on, what is assumed of a job means that it is held
REASON = "jobs that waited for what is not modelled, such as licences or nodes that were down, by their Reason"
WAITED = "jobs cancelled while they waited: each is queued until then"
UNREADY = "jobs that never started, left out: they waited for what is not modelled, or were not cancelled"
TRIES = "records of earlier tries of requeued jobs: each try is a job"
PREEMPTED = "tries that were preempted: all tries of a job are one, since the model preempts jobs itself"
FOR_GOOD = "jobs that preemption ended: what they would have run is not known, their limit is taken"
PARTS = "components of heterogeneous jobs: each is a job, which starts alone"


def read_jobs(
    log: Path | str | Iterable[Path | str],
    *,
    timezone: str | None = None,
    limits: Mapping[str, float] = NONE,
    cred_expire_s: int = AGAIN_S - 1,
) -> SlurmJobs:
    """The jobs of `sacct -P` output, as `COMMAND` writes it, that ran and have ended, or were cancelled before.

    Tries that were preempted are one job with the last one, which the model preempts itself; each other try of a
    requeued job is a job, since it held nodes; so is each component of a heterogeneous job. Others that have not ended,
    or never started, are left out. What was left out, changed or assumed is counted in `warnings`.
    `timezone`: of dates without one, by default UTC. `limits`: the longest time of partitions that have one, in s, for
    jobs without a limit; 365 days in others. `cred_expire_s`: AuthInfo's; the log may lack tries of a requeued job,
    which was eligible so much later than submitted.
    """
    files = list(map(Path, [log] if isinstance(log, str | Path) else log))
    records = SlurmRecords(Reading(timezone or "UTC"), limits)
    records.again_s = cred_expire_s + 1
    records.read_files(files)
    return records.slurm_jobs(files)


def options_in(text: str) -> dict[str, str]:
    """The options of a SubmitLine up to its script or command, by their long names; "" for those without a value."""
    found, words = dict[str, str](), iter(text.split()[1:])
    for word in words:
        if not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            name, value = word[:2], word[2:].removeprefix("=")
        if name == "--wrap":
            return found | {name: ""}
        if FLAGS.fullmatch(name) is None and not (value or equals):
            value = next(words, "")
        found[LONG.get(name, name)] = value
    return found


def gpus_in(options: Mapping[str, str], tasks: int) -> tuple[int, int, str]:
    """The GPUs of these options, whether they are on each node, and their type."""
    for name, per_node, times in (("gres", 1, 1), ("gpus-per-node", 1, 1), ("gpus", 0, 1), ("gpus-per-task", 0, tasks)):
        for item in filter(None, options.get(f"--{name}", "").split(",")):
            words = item.split(":") if name == "gres" else ["gpu", *item.split(":")]
            if words.pop(0) == "gpu":
                count = int(words.pop()) if words and re.fullmatch("[0-9]{1,6}", words[-1]) else 1
                return count * times, per_node, words[0] if words else ""
    return 0, 0, ""


def line_of(text: str) -> dict[str, Any]:
    """What a SubmitLine says of what the job asks for; 0 and "" for nothing."""
    options = options_in(text)
    counts = {name: int(value) for name, value in options.items() if re.fullmatch("-?[0-9]{1,9}", value)}
    fewest = options.get("--nodes", "").partition("-")[0]
    lists = {name: options.get(name, "") for name in ("--nodelist", "--exclude")}
    good = {name: value if "/" not in value and nodes_in(value) else "" for name, value in lists.items()}
    gpus, each_node, kind = gpus_in(options, max(counts.get("--ntasks", 1), 1))
    return {
        "nodes": int(fewest) if re.fullmatch("[0-9]{1,9}", fewest) else 0,  # the fewest
        "tasks": max(counts.get("--ntasks", 0), 0),
        "per_node": max(counts.get("--ntasks-per-node", 0), 0),  # tasks on each
        "cpus_per_task": max(counts.get("--cpus-per-task", 0), 0),
        "nice": counts.get("--nice", NICE) if "--nice" in options else 0,
        "alone": int(options.get("--exclusive") == ""),
        "requeue": 1 if "--requeue" in options else -int("--no-requeue" not in options),  # -1 for nothing
        "per_cpu": int("--mem-per-cpu" in options),  # whether its memory is per CPU
        "memory": int(any(name.startswith("--mem") and name != "--mem-bind" for name in options)),
        # Whether no script can add to it:
        "whole": int("--wrap" in options or re.match(r"(\S*/)?(srun|salloc)\s", text) is not None),
        "gpus": gpus,
        "gpus_each": each_node,  # whether these are on each node
        "gpu_type": kind,
        "partitions": options.get("--partition", "") if "," in options.get("--partition", "") else "",
        "required": good["--nodelist"],
        "excluded": good["--exclude"],
        "licenses": licences_in(options.get("--licenses", "")),
        "marks": sum({MARKS[name] for name in MARKS if name in options}),
        "odd": int(good != lists),  # its list of nodes is a file, or wrong
    }


@lru_cache(1 << 16)
def licences_in(text: str, prefix: str = "") -> str:
    """The licences that `-L`, or a list of TRES, names, as ansys=2,fluent=1; of alternatives the first."""
    found = re.findall(rf"(?:^|[,;]){prefix}([^:=*,;|]+)(?:[:=*]([0-9]{{1,9}}))?", text.replace(" ", "").lower())
    return ",".join(f"{name}={int(number or 1)}" for name, number in sorted(found))


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
    takes_left = True  # whether jobs that were cancelled while they waited are jobs
    assumed: tuple[str, ...] = ()  # what is assumed of some jobs, by its bit

    def __init__(self, result: Reading, limits: Mapping[str, float]) -> None:
        super().__init__(result)
        self.limits, self.names = limits, {name: Names() for name in TEXTS}

    def more(self, table: Table, columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """The columns of `SlurmJobs` that the importer does not have, and what is assumed of each; fills in limits."""
        if missing := [name for name in EXPECTED if name not in table]:
            self.result.note(f"without {', '.join(missing)}: what they say is assumed; give them, too", len(table))
        req, alloc = self._tres(table["ReqTRES"]), self._tres(table["AllocTRES"])
        line = dict(zip(line_of(""), each(table["SubmitLine"], self._line).T, strict=True))
        asked_cpus = _first(req[:, 0], columns["requested_procs"], columns["procs"])
        start_s, end_s = (columns[name].seconds for name in ("start_s", "end_s"))
        idle = (start_s == 0) | (start_s > end_s) | (columns["procs"] == 0)  # a start may be planned
        ran_on = _first(alloc[:, 2], np.where(idle, req[:, 2], 0), table.counts("NNodes")[0])
        if not ran_on.all():
            ran_on = _first(ran_on, each(table["NodeList"], nodes_in), req[:, 2])
        nodes, asked = np.maximum(ran_on, 1), _first(req[:, 2], table.counts("ReqNodes")[0], line["nodes"])
        min_nodes = _first(asked, nodes)
        # Without -N, a job takes what is free; a log whose SubmitLine is only a script's name may show that it did.
        unsaid = (line["nodes"] == 0) & (line["per_node"] == 0)
        free = unsaid & np.where(line["tasks"] > 0, asked <= 1, (asked > 0) & (asked < nodes))
        task = np.maximum(line["cpus_per_task"], 1)
        fixed_on_each = np.where(asked_cpus % nodes == 0, asked_cpus // nodes, task)
        fixed_on_each = np.where((line["tasks"] > 0) & (nodes > 1), task, fixed_on_each)
        on_each = np.where(free, task, _first(line["per_node"] * task, fixed_on_each))
        silent = unsaid & ~free & (line["whole"] == 0) & (line["tasks"] == 0) & (asked_cpus > 1)
        silent &= "SubmitLine" in table
        # Memory: ReqMem if it says of what; else the total over what it was requested, or given, for.
        reqmem, per = each(table["ReqMem"], memory_of).T
        total = _first(req[:, 1], np.where(per == 0, reqmem, 0))
        spread = (alloc[:, 1] > 0) & (alloc[:, 1] == req[:, 1]) & (nodes > min_nodes)  # not so much on each node
        per_cpu = np.where(per > 0, per == PER_CPU, (line["per_cpu"] > 0) | spread)
        memory = _first(
            np.where(per > 0, reqmem, 0),
            _shares(total, np.where(per_cpu, asked_cpus, min_nodes)),
            _shares(alloc[:, 1], np.where(per_cpu, columns["procs"], nodes)),
        )
        # Without GPUs among a site's TRES only the line names them; those given may be others than was asked for.
        counted = (req[:, 3] > 0) | (alloc[:, 3] > 0)
        gpus = _first(_shares(req[:, 3], nodes), np.where(req[:, 0] > 0, 0, _shares(alloc[:, 3], nodes)))
        gpus = np.where(counted, gpus, np.where(line["gpus_each"] > 0, line["gpus"], _shares(line["gpus"], nodes)))
        types = np.where(req[:, 3:4] > 0, req[:, 4:], alloc[:, 4:])
        types = np.where(counted[:, None], types, np.stack([line["gpu_type"], 0 * line["gpu_type"]], 1))
        limit_s, partition = columns["requested_s"], table["Partition"]
        unlimited = np.isin(limit_s, (0, UNLIMITED, PARTITION_LIMIT))
        longest_s = np.array([self.limits.get(name, 0) for name in partition], float)
        limit_s[unlimited] = np.clip(np.ceil(np.where(longest_s > 0, longest_s, YEAR_S)), 1, LAST_S)[unlimited]
        eligible_s = columns["eligible_s"].seconds if "Eligible" in table else np.zeros(len(table), np.int64)
        early = having(table["Reason"], EARLY) & (eligible_s <= columns["submit_s"].seconds)
        of_tres = [licences_in(text, "license/") for text in table["ReqTRES"]]
        licenses = _first(line["licenses"], self.names["licenses"].codes(of_tres).astype(np.int64))
        limited = having(table["Reason"], "^(Assoc|QOS)")
        slept = having(table["Suspended"], "[1-9]") | table.paused(columns)
        # A bit each, in this order, which is counted of the jobs that are kept.
        assumed = {
            "jobs that ran on an unknown number of nodes: one": ran_on == 0,
            "jobs that do not say how many nodes they asked for (ReqTRES does): as many as they ran on": asked == 0,
            "jobs of unknown memory: they take none": (memory == 0) & ~((line["whole"] > 0) & (line["memory"] == 0)),
            "jobs that do not say (SubmitLine does) whether their CPUs must be on as many nodes: on so many": silent,
            "jobs whose list of nodes (-w, -x) is a file, or cannot be read: it is left out": line["odd"] > 0,
            "jobs with GPUs of several types: GPUs of any type": types[:, 1] > 1,
            "jobs without a time limit: their partition's": unlimited & (longest_s > 0),
            "jobs without a time limit, as their partition: 365 days": unlimited & (longest_s == 0),
            "jobs that were suspended: their nodes were not, unless PreemptMode is SUSPEND": slept,
            "jobs in a reservation: they start as others do": having(table["Reservation"], "[^ ]"),
            REASON: early
            | (idle & ("Eligible" in table) & ((eligible_s <= 0) | (eligible_s > end_s)))
            | having(table["Reason"], UNMODELLED)
            | (having(table["Reason"], "^Licenses") & (licenses == 0)),
        }
        self.assumed = tuple(assumed)
        return {
            "cpus": asked_cpus,
            "nodes": np.where(free, min_nodes, nodes),
            "max_nodes": np.where(free, 0, nodes),
            "cpus_per_node": on_each,
            "cpus_per_task": task,
            "min_nodes": min_nodes,
            "memory_per_cpu_mb": np.where(per_cpu, memory, 0),
            "memory_per_node_mb": np.where(per_cpu, 0, memory),
            "memory_unsaid": (line["whole"] > 0) & (line["memory"] == 0),
            "gpus_per_node": gpus,
            "nice": line["nice"],
            "exclusive": line["alone"] > 0,
            "slept_s": np.maximum(each(table["Suspended"], lambda text: limit_of(text, bare=1)), 0),
            "preempted": having(table["State"], r"^\s*(?i:PR(E\S*)?)\s*$").astype(np.int64),
            "requeue": line["requeue"],
            "partitions": line["partitions"],
            "required": line["required"],
            "excluded": line["excluded"],
            "licenses": licenses,
            "marks": line["marks"] | BURST * having(table["ReqTRES"], "(^|,)bb/") | LIMITED * limited,
            "gpu_type": types[:, 0],
            "constraint": self.names["constraint"].codes(table["Constraints"]),
            "ran_on": self.names["ran_on"].codes(table["NodeList"]) * ~idle,
            "reason": self.names["reason"].codes(table["Reason"]),
            "assumed": sum(rows.astype(np.int16) << bit for bit, rows in enumerate(assumed.values())),
        }

    def _line(self, text: str) -> tuple[int, ...]:
        return tuple(
            int(self.names[name].codes([value])[0]) if name in self.names else value
            for name, value in line_of(text).items()
        )

    def _tres(self, texts: list[str]) -> Ints:
        """The CPUs, MB, nodes and GPUs of each text, the code of its GPUs' type, and how many types, (n, 6)."""

        def read(text: str) -> tuple[int, ...]:
            *counts, types = tres_of(text)
            return (*counts, *self.names["gpu_type"].codes(types if len(types) == 1 else [""]).tolist(), len(types))

        return each(texts, read)

    def slurm_jobs(self, files: list[Path]) -> SlurmJobs:
        reading, jobs = self.result, self.result.jobs
        ran = jobs["start_s"] > 0
        if not ran.any():
            where, why = ", ".join(map(str, files)), reading.reasons()
            raise WorkloadError(f"{where}: no job in it ran{f' ({why})' if why else ''}; use {self.command}")
        left = ~ran & self.takes_left & (jobs["status"] == CANCELLED) & (jobs["assumed"] >> HELD == 0)
        reading.notes.pop(NEVER_STARTED, 0)
        reading.note(WAITED, int(np.count_nonzero(left)))
        reading.note(UNREADY, int(np.count_nonzero(~ran & ~left)))
        jobs.columns["left"] = left.astype(np.int64)
        jobs["start_s"][left] = jobs["end_s"][left]
        jobs.keep(ran | left)
        self.drop_copies()
        self._part_tries()
        part = np.array([-1, *map(float, self.components)])[jobs["component"] + 1]
        rows = np.lexsort((part, jobs["key"], jobs["submit_s"]))
        column: dict[str, Any] = {name: jobs[name][rows].astype(np.int64) for name in jobs.columns}
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
        ran_s = column["end_s"] - column["start_s"]
        column |= {
            "eligible_s": np.maximum(column["eligible_s"], column["submit_s"]).astype(float),
            "submit_s": column["submit_s"].astype(float),
            "started_s": np.where(column["left"] > 0, np.nan, column["start_s"]),
            "leave_s": np.where(column["left"] > 0, column["end_s"], np.inf),
            "run_s": np.maximum(ran_s, column["limit_s"] * (column["for_good"] | column["left"])).astype(float),
            "limit_s": np.maximum(column["limit_s"], 1),
            "memory_unsaid": column["memory_unsaid"] > 0,
            "array": np.where((column["key"] >= 0) & (column["key"] % 2**TASKS > 0), column["key"] >> TASKS, -1),
            "exclusive": column["exclusive"] > 0,
            "slept_s": np.minimum(column["slept_s"], ran_s).astype(float),
            "held": column["assumed"] >> HELD > 0,
            "warnings": tuple(reading.lines()),
        }
        self.column = column
        return SlurmJobs(**{name: column[name] for name in SlurmJobs.__slots__})

    def _part_tries(self) -> None:
        """Make one job of tries that were preempted; count the other ones, submitted when the earlier one is over."""
        jobs = self.result.jobs
        same = ("key", "component", "cluster", "user")
        order = np.lexsort([jobs[name] for name in ("end_s", *same)])
        earlier, later = order[:-1], order[1:]
        again = np.all([jobs[name][later] == jobs[name][earlier] for name in same], axis=0)
        own = jobs.columns["for_good"] = jobs["preempted"].copy()
        joined = again & (own[earlier] > 0) & (jobs["submit_s"][later] <= jobs["end_s"][earlier] + REQUEUED_S)
        again &= ~joined
        self.result.note(TRIES, int(np.count_nonzero(again)))
        self.result.note(PREEMPTED, int(np.count_nonzero(joined)))
        self.note_missing(int(np.count_nonzero(again | joined)))
        again &= (jobs["submit_s"][later] < jobs["end_s"][earlier]) & (jobs["start_s"][later] >= jobs["end_s"][earlier])
        jobs["submit_s"][later[again]] = jobs["end_s"][earlier[again]]
        for one, other in zip(earlier[joined].tolist(), later[joined].tolist(), strict=True):  # in their order
            jobs["submit_s"][other], jobs["eligible_s"][other] = jobs["submit_s"][one], jobs["eligible_s"][one]
            jobs["preempted"][other] += jobs["preempted"][one]
        kept = np.ones(len(jobs), bool)
        kept[earlier[joined]] = False
        jobs.keep(kept)
        self.result.note(FOR_GOOD, int(jobs["for_good"].sum()))


def _first(*columns: Ints) -> Ints:
    """Of each row the first number above 0; 0 if there is none."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = np.where(found > 0, found, np.maximum(column, 0))
    return found


def _shares(total: Ints, parts: Ints) -> Ints:
    return -(-total // np.maximum(parts, 1))
