"""The provenance of a run: log, options, engine and version, as recorded by `batfill replay` or `batfill run`."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.base.files import digest, file_bytes, loaded_json
from batfill.base.version import ENGINE
from batfill.base.words import in_a_row
from batfill.batsim_files.results import RUN_JSON, JobFacts, facts_of
from batfill.model.jobs import NO_REQUEST, Clock
from batfill.model.limits.calendar import Calendar
from batfill.model.limits.energy import Budget
from batfill.model.limits.gate import Gate
from batfill.model.limits.pools import Pool, Pools
from batfill.model.metrics import TAU_S
from batfill.model.option_texts import described
from batfill.model.options import LIVE, OPTIONS, named_values
from batfill.model.values import as_word, finite
from batfill.workloads.batsim_json import FIRST_WORKLOAD, name_in, read_members, usable

if TYPE_CHECKING:
    from collections.abc import Mapping

# What reading a damaged record raises.
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, BatfillError)
FILES = ("policy", "backfill", "calendar", "backfill-while")  # options that may name a file, now perhaps gone
UNKNOWN = "unknown: no file next to the results states it"


@dataclass(frozen=True, slots=True)
class About:
    """The known provenance of a run; None and "" are unknown."""

    log: str = ""  # the workload's name, or several
    options: str = ""  # the policy and all options other than the defaults, see `options.described`
    scheduler: str = ""  # the scheduler's command if its options are unknown
    engine: str = ""
    version: str = ""
    clock: Clock | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # Of a calendar: begin, end, amount and pool, "" for processors; None if it is not known any more.
    windows: tuple[tuple[float, float | None, int, str], ...] | None = ()
    open: tuple[tuple[float, float | None], ...] | None = None  # when a gate is; None without one, or if it is unknown
    logged_s: float | None = None  # the mean wait of the jobs in the log, if it is known
    given: Mapping[str, Any] = field(default_factory=dict)  # the options as recorded; empty if unknown
    hindsight: bool = False  # whether a policy was learned from the log that it ran on

    @property
    def invented(self) -> tuple[str, ...]:
        """The warnings that requests were invented, which forbid to choose by the figures."""
        if self.given.get("unrequested") == "none":
            return ()
        return tuple(warning for warning in self.warnings if NO_REQUEST in warning)

    @property
    def plain_easy(self) -> bool:
        """Whether only the reservation of the job at the head keeps a job out that fits."""
        names = ("depth", "tested", "reservation", "max-running", "calendar", "backfill-while", "pool", "energy-budget")
        return self.engine == ENGINE and all(self.given.get(name) == OPTIONS[name].default for name in names)

    @property
    def overdue_s(self) -> float:
        """The wait after which only older overdue jobs are before a job in the queue; infinite if none is known."""
        threshold = self.given.get("threshold")
        plain = all(self.given.get(name) == OPTIONS[name].default for name in ("overdue", "urgent", "small"))
        return threshold if plain and isinstance(threshold, (int, float)) else float("inf")

    @property
    def pools(self) -> tuple[Pool, ...]:
        return Pools.of("pool", text) if (text := self.given.get("pool")) else ()

    @property
    def budget(self) -> Budget | None:
        text = self.given.get("energy-budget")
        return Budget.of("energy-budget", text).on(self.clock).drawn_by(self.pools) if text else None

    @property
    def limits(self) -> str:
        gate = ["the gate on backfilling"] if self.given.get("backfill-while") else []
        budget = ["the energy budget"] if self.given.get("energy-budget") else []
        return in_a_row([*(f"the pool {pool.name}" for pool in self.pools), *budget, *gate])

    def windows_of(self, pool: str = "") -> list[tuple[float, float | None, int]]:
        """The windows of a pool, or of processors, that are known: begin, end and amount."""
        return [(begin, end, amount) for begin, end, amount, name in self.windows or () if name == pool]

    @property
    def command(self) -> str:
        """The command that repeats a replay; "" if it is unknown."""
        if not self.given or self.engine != ENGINE:
            return ""
        usual = {name: option.default for name, option in OPTIONS.items()} | named_values(self.given)
        usual |= {"overrun": "keep", "unrequested": "refuse", "tau": TAU_S}
        words = ["batfill", "replay", self.log, "--procs", str(self.given["procs"])]
        for name, value in self.given.items():
            if name == "policy" or (name in usual and value not in (None, usual[name])):
                words += [f"--{name}"] if value is True else [f"--{name}", as_word(value)]
        return shlex.join(words)

    def rows(self) -> list[tuple[str, str]]:
        made = " ".join(word for word in (self.engine, self.version) if word)
        rows = [("log", self.log), ("policy and options", self.options or self.scheduler), ("engine", made)]
        return [(name, said or UNKNOWN) for name, said in rows] + [("note", note) for note in self.notes]


class RanWorkload(NamedTuple):
    """A workload and the sha256 that it had when it ran."""

    path: Path
    digest: str


def about_run(jobs_csv: Path, prefix: str, batsim_version: str) -> tuple[About, RanWorkload | None]:
    """The record next to this `_jobs.csv`, and its workload; a damaged one, or one of another run, is ignored."""
    with suppress(*DAMAGE):
        return sound(of_replay(loaded_json(file_bytes(jobs_csv.with_name(f"{prefix}_{RUN_JSON}"))))), None
    for folder in jobs_csv.absolute().parents[:3]:
        with suppress(*DAMAGE):
            record = loaded_json(file_bytes(folder / RUN_JSON))
            if Path(record["export_prefix"]).name == prefix:
                workloads, sums = [Path(path) for path in record["workloads"]], record["inputs_sha256"]
                known = len(workloads) == 1 and sums.get(str(workloads[0]))
                return sound(of_batsim(record, batsim_version)), RanWorkload(workloads[0], known) if known else None
    return About(engine=f"Batsim {batsim_version}" if batsim_version else ""), None


def sound(about: About) -> About:
    """The provenance, if every text in it is one that a page can hold, and every option has a value of its kind."""
    for name, option in (OPTIONS | LIVE).items():
        if name not in FILES and (value := about.given.get(name)) is not None:
            option.check(name, value)
    _ = about.pools, about.budget
    for text in (about.log, about.options, about.scheduler, about.engine, about.version, *about.warnings, *about.notes):
        text.encode("utf-8", "surrogateescape")
    return about


def facts_in(workload: RanWorkload) -> dict[str, JobFacts]:
    """The users and requests of a workload's jobs by id; none if it cannot be read, or is not the one that ran."""
    with suppress(*DAMAGE):
        document = read_members(workload.path)
        if document.digest == workload.digest:
            return {name_in("", str(job["id"]), FIRST_WORKLOAD): facts_of(usable(job)) for job in document.jobs}
    return {}


def of_replay(record: Mapping[str, Any]) -> About:
    stated = record["options"]
    options = [described(stated), *made_with(stated), *[f"tau {stated['tau']:g} s"] * (stated["tau"] != TAU_S)]
    return About(
        log=record["workload"],
        options=", ".join(options),
        engine=record["engine"],
        version=record["version"],
        clock=Clock.of(record["clock"]) if record["clock"] else None,
        windows=tuple((*window, "") for window in record.get("calendar", {}).get("windows", ()))
        + tuple((begin, end, amount, pool) for begin, end, amount, pool in record.get("pool_windows", ())),
        open=tuple((begin, end) for begin, end in record["gate_periods"]) if "gate_periods" in record else None,
        warnings=tuple(record["warnings"]),
        notes=tuple(record["workload_notes"]),
        logged_s=record.get("logged_mean_wait_s"),
        given=stated,
        hindsight=learned_here(record),
    )


def learned_here(record: Mapping[str, Any]) -> bool:
    """Whether a policy comes from a file, unchanged since, that names the record's workload by its checksum."""
    for name, known in record.get("policy_sha256", {}).items():
        path = Path(name.partition("@")[2])
        if path.is_file() and digest(path) == known and record["workload_sha256"].encode() in path.read_bytes():
            return True
    return False


def made_with(stated: Mapping[str, Any]) -> list[str]:
    usual = {"overrun": (None, "keep"), "unrequested": (None, "refuse")}
    return [f"{name} {stated[name]}" for name, values in usual.items() if stated.get(name) not in values]


def of_batsim(record: Mapping[str, Any], batsim_version: str) -> About:
    stated = record.get("options") or {}  # from the scheduler itself, if it is batfill's
    known = bool(stated.get("policy"))  # not if it selects online
    scheduler = record["scheduler_command"].strip() or "none: Batsim runs without a scheduler"
    if "scheduler_options" in record:  # from a file that the command names
        scheduler += f" ({json.dumps(record['scheduler_options'])})"
    requests = [text for one in record.get("workloads_made_with", {}).values() for text in made_with(one)]
    return About(
        log=", ".join(Path(path).name for path in record["workloads"]),
        options=described(stated) if known else "",
        scheduler="" if known else scheduler,
        engine=f"Batsim {batsim_version}, {'embedded' if record['simulator'] == 'embedded' else 'its own program'}",
        version=f"by {record['made_by']}",
        warnings=tuple(record["warnings"]),
        notes=tuple(f"the workload was made with {text}" for text in dict.fromkeys(requests)),
        given=stated if known else {},
        **limits_in(stated),
    )


def limits_in(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The windows and the open periods in the files that a scheduler has named, if these are as they were."""
    found: dict[str, Any] = {"windows": None} if stated.get("calendar") else {}
    with suppress(*DAMAGE):
        calendar = Calendar.read(Path(stated["calendar"]))
        if calendar.digest == stated["calendar_sha256"]:
            found["windows"] = tuple((float(w.begin), finite(w.end), w.processors, w.pool) for w in calendar.windows)
    with suppress(*DAMAGE):
        gate = Gate.given("backfill-while", stated["backfill-while"])
        if gate.digest == stated["backfill_while_sha256"]:
            found["open"] = tuple((float(begin), finite(end)) for begin, end in gate.periods)
    return found
