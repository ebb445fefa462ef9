"""Reads the state of a site's Slurm at an instant: what runs and waits, and what has ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import readable
from batfill_site.accounting.cluster_log import NOT_ENDED, Reading
from batfill_site.accounting.record_text import LAST_S, clock_seconds, each, read_times
from batfill_site.accounting.slurm import Head, Table, status_of
from batfill_site.slurm.arrays import possible
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.jobs import COMMAND, READ, SlurmRecords
from batfill_site.slurm.site import NONE, Floats, Site, SlurmJobs
from batfill_site.starts.estimates import NEVER_STARTS
from batfill_site.starts.site_state import CUT, count_of, slurm_fields, tasks_of
from batfill_site.starts.submit import Check, of_form, questions, time_of

FAR = LAST_S - 1  # when a job that waits starts, and one that runs ends, while the records are read
OVER = "COMPLETING"  # has freed what it held
UNSAID = ("(null)", "N/A", "Unknown", "None", "None assigned")
# Columns of sacct, and what `scontrol show job` calls them; "" if it has them in another form, or not.
SAME = ("Account", "Partition", "QOS", "Reason", "ReqTRES", "AllocTRES", "NodeList", "Reservation")
SCONTROL = {
    **dict.fromkeys(("End", "ReqMem", "SubmitLine"), ""),
    **{name: name for name in SAME},
    **{name: f"{name}Time" for name in ("Submit", "Eligible", "Start")},
    **dict.fromkeys(("AllocCPUS", "ReqCPUS"), "NumCPUs"),
    "JobID": "JobId",
    "User": "UserId",
    "TimelimitRaw": "TimeLimit",
    "NNodes": "NumNodes",
    "Constraints": "Features",
    "State": "JobState",
}
# Options of sbatch, and what they are there.
ASKED = {"-n": "NumTasks", "-c": "CPUs/Task", "-w": "ReqNodeList", "-x": "ExcNodeList", "-L": "Licenses"}
ASKED |= {"--bb": "BurstBuffer"}
NEW_USER = "(new)"  # of a job that names none


class Now(NamedTuple):
    """The jobs of a site up to an instant."""

    jobs: SlurmJobs  # `started_s` is nan for those that wait
    end_s: Floats  # (n_jobs,), nan for those that wait or run
    reasons: tuple[str, ...]  # (n_jobs,), why they wait, as Slurm says
    now_s: float
    left_out: Mapping[str, str]  # jobs that wait for what is not modelled, or cannot start, and why


class _Live(SlurmRecords):
    """Records of which some have not ended."""

    command = f"`scontrol show job`, or `{COMMAND}`"
    live = True  # whether to read jobs that have not ended
    takes_left = False
    seen_s = 0.0  # the last date at which a job has run
    left_out: Mapping[str, str] = NONE  # and why

    def read(self, table: Table) -> None:
        """Add the records; a job that waits starts and ends at `FAR`, and one that runs ends there."""
        columns, far = table.columns, str(FAR)
        columns.pop("Elapsed", None)  # of a job that runs, whose end is not known
        live = (each(table["State"], status_of) == NOT_ENDED) & self.live
        for name in ("Start", "End", "State", "NodeList", "AllocCPUS", "AllocTRES", "Eligible"):
            columns[name] = list(table[name])
        for row in np.flatnonzero(live).tolist():
            if table["State"][row].startswith(OVER):
                continue
            waits = table["State"][row].startswith(("PENDING", "PD", "REQUEUED"))
            columns["State"][row], columns["End"][row] = "COMPLETED", far
            if waits:
                columns["Start"][row], columns["NodeList"][row], columns["AllocTRES"][row] = far, "", ""
                columns["AllocCPUS"][row] = table["ReqCPUS"][row]
        super().read(table)

    def read_scontrol(self, path: Path, text: str) -> None:
        head, rows = Head("|".join(SCONTROL), READ), []
        for fields in slurm_fields(text):
            if status_of(fields.get("JobState", "")) != NOT_ENDED:
                continue
            fields.setdefault("ReqTRES", fields.get("TRES", ""))  # before 21.08
            row = {ours: fields.get(theirs, "") for ours, theirs in SCONTROL.items()}
            row = {name: "" if value in UNSAID else value for name, value in row.items()}
            row |= {name: row[name].partition("-")[0] for name in ("AllocCPUS", "ReqCPUS", "NNodes")}
            named = row["Partition"]
            row |= {"User": row["User"].partition("(")[0], "Partition": named.partition(",")[0]}
            memory = {name: fields.get(f"MinMemory{name}", "0") for name in ("CPU", "Node")}
            row["ReqMem"] = next((text + name[0].lower() for name, text in memory.items() if text != "0"), "")
            free = fields["JobState"] == "PENDING" and "NumTasks" in fields and "-" not in fields.get("NumNodes", "-")
            said = {
                "-N": "" if free else row["NNodes"] or "1",
                **{option: fields.get(name, "") for option, name in ASKED.items()},
                "--ntasks-per-node": fields.get("NtasksPerN:B:S:C", "").partition(":")[0],
                "-p": named * ("," in named),
                "--mem": row["ReqMem"],
            }
            words = [f"{option} {text}" for option, text in said.items() if text not in ("", "0", "N/A", "(null)")]
            words += ["--exclusive"] * (fields.get("OverSubscribe", fields.get("Shared")) == "NO")
            row["SubmitLine"] = f"sbatch --nice={fields.get('Nice', '0')} {' '.join(words)} --wrap=x"
            if ran_s := clock_seconds(fields.get("RunTime", ""), bare=1):
                start_s = float(read_times([row["Start"]], self.clock).seconds[0])
                self.seen_s = max(self.seen_s, start_s + ran_s if start_s > 0 else 0.0)
            tasks = tasks_of(row["JobID"])
            self.left_out = {**self.left_out, **({} if tasks else {row["JobID"]: CUT})}
            rows += [[*(row | {"JobID": name}).values()] for name in tasks]
        if not rows:
            raise WorkloadError(f"{path}: no job in it runs or waits; give what `scontrol show job` prints")
        self.read(head.table(rows))
        self.result.files[path] = len(rows)


def read_now(
    state: Path, past: Iterable[Path], site: Site, *, timezone: str | None = None, at: str | float | None = None
) -> Now:
    """The state of a site's Slurm at an instant, by default the last date in it.

    `state`: what `scontrol show job` prints, or `sacct -P`, also of jobs that have ended. `past`: further output of
    `sacct -P`, of which jobs that have ended count. `timezone`: of dates without one; by default UTC.
    """
    records, past = _Live(Reading(timezone or "UTC"), site.max_times_s), list(past)
    with readable(state) as stream:
        begin = stream.read(4096).lstrip()
        text = begin + stream.read() if begin.startswith(b"JobId=") else b""
    if begin[:20].upper().startswith((b"JOBID ", b" JOBID")):
        raise WorkloadError(f"{state}: squeue lacks dates of eligibility and memory per CPU; use {records.command}")
    if text:
        records.read_scontrol(state, text.decode("utf-8", "replace"))
    else:
        records.read_files([state])
    if past:
        records.live = False
        records.read_files(past)
    whole = records.slurm_jobs([state, *past])
    reasons = dict(zip(whole.ids, records.column["reason"], strict=True))
    jobs, why = possible(site, whole)
    if not len(jobs):
        raise WorkloadError(f"{state}: none of its jobs can run at the site: {why[0]}")
    waits, ends_s = jobs.started_s == FAR, jobs.started_s + jobs.run_s
    runs = ~waits & (ends_s == FAR)
    dates = [jobs.submit_s, jobs.started_s[~waits], ends_s[~waits & ~runs], np.array([records.seen_s])]
    latest_s = float(np.concatenate(dates).max())
    now_s = latest_s if at is None else float(read_times([str(at)], records.clock).seconds[0])
    if not now_s >= latest_s:
        wrong, last = "too early" if now_s >= 0 else "no date", datetime.fromtimestamp(latest_s, UTC)
        until = f"the last date in the file is {last:%Y-%m-%dT%H:%M:%SZ}"
        raise WorkloadError(f"{state}: {at!r} is {wrong}; {until}: give a later one, or leave it out")
    end_s = np.where(waits | runs, np.nan, ends_s)
    run_s = np.where(runs, now_s - jobs.started_s, jobs.run_s)
    held = np.array(jobs.ids, object)[waits & jobs.held].tolist()
    left_out = {**records.left_out, **{name: reasons[name] for name in held}}
    kept = set(jobs.ids)
    lost = [name for name, start_s in zip(whole.ids, whole.started_s.tolist(), strict=True) if start_s == FAR]
    left_out |= {name: NEVER_STARTS for name in lost if name not in kept}
    jobs = replace(
        jobs, started_s=np.where(waits, np.nan, jobs.started_s), run_s=run_s, warnings=(*whole.warnings, *why)
    )
    return Now(jobs, end_s, tuple(reasons[name] for name in jobs.ids), now_s, left_out)


def asked_about(submit: Any, site: Site, now: Now) -> list[tuple[str, SlurmJobs, str]]:
    """The text of each job asked about, the job, submitted at the instant, and why it can never start, or ""."""
    jobs, names, rows = now.jobs, [each.name for each in site.partitions], list[list[str]]()
    usual = next((each.name for each in site.partitions if each.default or len(names) == 1), None)
    accounts = {each.user: each.account for each in site.associations} | dict(zip(jobs.user, jobs.account, strict=True))
    known: dict[str, Check] = {
        **dict.fromkeys(("nodes", "ntasks", "procs", "cpus-per-task", "ntasks-per-node"), count_of),
        "time": time_of,
        "partition": of_form(r"\S+", names[0], names),
        "qos": of_form(r"\S+", "normal", site.qos_of),
        **dict.fromkeys(("user", "account", "constraint"), of_form(r"\S+", "one word")),
        **dict.fromkeys(("gpus", "gpus-per-node"), of_form(r"([\w.-]+:)?[1-9]\d{0,5}", "2 or a100:2")),
        **dict.fromkeys(("mem", "mem-per-cpu"), of_form(r"[1-9]\d{0,8}[KMGT]?", "16G or 4000M")),
        **dict.fromkeys(("nodelist", "exclude"), lambda where, text: ",".join(expand(text, where))),
        "nice": of_form(r"-?\d{1,9}", "a whole number"),
        "exclusive": lambda where, text: of_form("yes", "yes")(where, text)[3:],  # it has no value there
    }
    asked = questions(submit, known, "time")
    for text, values in asked:
        nodes, each, per_node = (values.get(name, 1) for name in ("nodes", "cpus-per-task", "ntasks-per-node"))
        tasks = max(values.get("ntasks", -(-values.get("procs", 1) // each)), nodes * per_node)
        options = {"partition": usual, "user": NEW_USER} | values | {"ntasks": tasks}
        if options["partition"] is None:
            raise BatfillError(f"option submit: {text!r:.80}: no partition is the default; add partition={names[0]}")
        memory = [f"{values[name]}{of}" for name, of in (("mem", "n"), ("mem-per-cpu", "c")) if name in values]
        row = dict.fromkeys(SCONTROL, "") | {"JobID": f"{len(rows) + 1}", "User": options["user"], "State": "PENDING"}
        row |= {"Account": values.get("account", accounts.get(values.get("user"), ""))}
        row |= {"QOS": values.get("qos", "normal" * ("normal" in site.qos_of)), "ReqMem": "".join(memory)}
        row |= {"Partition": options["partition"].partition(",")[0], "Constraints": values.get("constraint", "")}
        row |= dict.fromkeys(("Submit", "Eligible"), f"{now.now_s:.0f}") | {"NNodes": f"{nodes}"}
        row |= dict.fromkeys(("AllocCPUS", "ReqCPUS"), f"{tasks * each}")
        row |= {"ReqTRES": f"cpu={tasks * each},node={nodes}"}
        row |= {"TimelimitRaw": str(math.ceil(min(values["time"], LAST_S) / 60))}
        row |= {"SubmitLine": f"sbatch {' '.join(f'--{name}={value}' for name, value in options.items())} --wrap=x"}
        rows.append(list(row.values()))
    records, found = _Live(Reading("UTC"), site.max_times_s), []
    records.read(Head("|".join(SCONTROL), READ).table(rows))
    whole, now_s = records.slurm_jobs([]), np.full(1, now.now_s)
    for number, (text, _) in enumerate(asked):
        kept, why = possible(site, one := whole.select([number]))
        one = replace(one if why else kept, ids=(text,), submit_s=now_s, eligible_s=now_s, started_s=0 * now_s + np.nan)
        found.append((text, one, "".join(why).partition("): ")[2]))
    return found
