"""Runs to report on: result files written by the replay, or by hand."""

from __future__ import annotations

import html
import re
from pathlib import Path

from batfill.batsim_files.replayed import write_batsim_files
from batfill.batsim_files.results import JOB_COLUMNS
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.model.schedule import Schedule
from batfill.replays.engine_replay import replay_jobs
from batfill.workloads import read_workload

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"


def sample_run(folder: Path, policy: str) -> Schedule:
    """The sample under this policy, its files in the folder under the policy's name."""
    workload = read_workload(SAMPLE)
    schedule = replay_jobs(workload.jobs, workload.size, Rules(policy_named(policy)))
    write_batsim_files(schedule, folder / policy, simulate_s=0.0)
    return schedule


def jobs_csv(path: Path, *rows: str) -> Path:
    """A `_jobs.csv`; a row is: id, submission, processors, requested time, state, start, run time, machines."""
    lines = [JOB_COLUMNS]
    for row in rows:
        name, submit, procs, asked, state, start, ran, machines = row.split(",")
        lines.append(f"{name},w0,p,{submit},{procs},{asked},1,{state},{start},{ran},,,,,{machines},-1,")
    path.write_text("\n".join(lines) + "\n")
    return path


def campaign_row(policy: str, window: int | None, bsld: float, **values: object) -> dict[str, object]:
    """A row of a campaign's store."""
    from batfill_lab.campaigns.store import SCHEMA

    usual = {"jobs": 10, "rejected": 0, "workload": "log.swf", "backfill": "same", "knowledge": "request"}
    waits = {"mean_bsld": bsld, "mean_wait_s": 10 * bsld, "max_wait_s": 100 * bsld}
    given = {**usual, "policy": policy, "window": window, **waits, **values}
    run = "-".join(str(given.get(name)) for name in ("workload", "policy", "threshold_s", "window", "seed", "sample"))
    return {**dict.fromkeys(SCHEMA.names), "run": run, **given}


def store_campaign(folder: Path, rows: list[dict[str, object]]) -> None:
    """Leave these rows in a folder, as a campaign that is under way does."""
    from batfill_lab.campaigns.store import open_store

    with open_store(folder) as store:
        store.add(rows)


MADE = r"<(script|style|svg).*?</\1>|<details><summary>(Command|Log, v).*?</details>"
BLOCKS = "</?(?:h.|p|tr|table|caption|li|dt|section|details|summary|div|select|button|figcaption|footer)[ >]"
CELLS = "</(?:th|td|dt|option|label)>|<(?:br|small|span class=.sub)[^>]*>"


def words_of(page: str) -> str:
    """What HTML says without its script and styles, a line for each block; how the page was made is left out."""
    text = re.sub("[ \n]+", " ", re.sub(MADE, "", page, flags=re.DOTALL).partition("</head>")[2] or page)
    text = re.sub(CELLS, " | ", re.sub(BLOCKS, r"\n\g<0>", text)).replace("\u00a0", " ")
    lines = [html.unescape(re.sub("<[^>]*>", "", line)).strip(" |") for line in text.split("\n")]
    return "\n".join(line for line in lines if line)


OK, CUT, KILLED, REJECTED = "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED", "COMPLETED_KILLED", "REJECTED"
