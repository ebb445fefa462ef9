"""The options of slurm.conf: a row for each that the model has, and what is known of the others.

Names, units and defaults are those of the manual page slurm.conf(5) of 22.05; `settings_of` has those of others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from batfill.base.errors import WorkloadError, nearest
from batfill_site.accounting.record_text import clock_seconds
from batfill_site.slurm.named import row_of
from batfill_site.slurm.site import FAIR_TREE_DEFAULT, MODES, Part, Settings

Given = tuple[str, str, str]  # where an option stands, its name, its text
UNLIMITED = frozenset(("unlimited", "infinite", "-1"))
OFF = UNLIMITED | {"", "0", "no", "none", "off", "false", "(null)"}
AMOUNT = re.compile(r"(\w[^=]*)=(-?[0-9]*\.?[0-9]+)([KMGTP]?)", re.IGNORECASE)


class Option(NamedTuple):
    """A row. `read` raises a ValueError that says in words what the text should be."""

    name: str
    field: str  # what it sets; "" if `read` returns several fields by name
    read: Callable[[str], Any]


def rows(*options: Option) -> dict[str, Option]:
    """The options by their names in lower case; one that was renamed has its names with a space between them."""
    return {name.lower(): option._replace(name=name) for option in options for name in option.name.split()}


def whole(text: str, least: int = 0) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
        raise ValueError(f"is not a whole number from {least} on")
    return int(text)


def duration(text: str, least_s: float = 0.0) -> float:
    """Seconds of a duration: minutes, minutes:seconds, hours:minutes:seconds or days-hours, as Slurm writes them."""
    seconds = clock_seconds(text, bare=60.0)
    if seconds is None or seconds < least_s:
        raise ValueError(f"is not a duration from {least_s:g} s on, such as 30 (minutes), 12:00:00 or 7-0 (days-hours)")
    return seconds


def seconds(text: str) -> int:
    """Seconds of a number of them, or of hours:minutes:seconds."""
    found = clock_seconds(text, bare=1.0)
    if found is None:
        raise ValueError("is not a number of seconds, such as 30 or 00:00:30")
    return int(found)


def off(text: str) -> bool:
    """Whether an option with this text changes nothing."""
    return text.lower() in OFF or text.lower().endswith("/none")


def limit(text: str, read: Callable[[str], Any] = whole) -> Any:
    return None if text.lower() in UNLIMITED else read(text)


def one_of(text: str, values: Mapping[str, Any]) -> Any:
    known = {word.rpartition("/")[2]: value for word, value in values.items()} | {**values}
    if text.lower() not in known:
        raise ValueError(f"is not one of {', '.join(word if '/' in word else word.upper() for word in values)}")
    return known[text.lower()]


def by_tres(text: str, sign: int = 1) -> dict[str, float]:
    """Numbers by TRES: cpu=1000,mem=0.25G; memory in MB. With sign -1 they are weights, and a suffix is per so much."""
    found: dict[str, float] = {}
    for item in text.split(","):
        if (match := AMOUNT.fullmatch(item.strip())) is None:
            raise ValueError("is not a list such as cpu=1000,mem=0.25G,gres/gpu=2")
        name, power = match[1].lower(), " kmgtp".index(match[3].lower() or " ")
        found[name] = float(match[2]) * 1024.0 ** (sign * (power - 2 * (name == "mem" and power > 0)))
    return found


weights = partial(by_tres, sign=-1)


def words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def priority_flags(text: str) -> dict[str, bool]:
    flags = words(text)
    decides = {"fair_tree", "no_fair_tree", "depth_oblivious"} & {*flags}
    tree = {"fair_tree": "fair_tree" in flags} if decides else {}
    return tree | {name: name in flags for name in ("small_relative_to_time", "accrue_always", "max_tres")}


def licences(text: str) -> dict[str, int]:
    """The numbers of licences by name: fluent:30,ansys."""
    found: dict[str, int] = {}
    for item in words(text):
        name, _, number = item.replace("*", ":").partition(":")
        found[name] = found.get(name, 0) + whole(number or "1")
    return found


def resources(text: str) -> dict[str, bool]:
    flags = words(text)
    return {"memory": any(flag.endswith("_memory") for flag in flags), "least_loaded": "cr_lln" in flags}


def preempt_mode(text: str, usual: str = "") -> dict[str, Any]:
    """The mode and WITHIN; `usual` is the mode that the site has without one, which also must have GANG to suspend."""
    flags = {*words(text)}
    modes = flags - {"gang", "within", "cluster"}
    if len(modes) > 1 or not modes <= {*MODES} or (usual and flags & {"gang", "suspend"} == {"suspend"}):
        raise ValueError("is not OFF, CANCEL, REQUEUE or SUSPEND,GANG, with WITHIN or without")
    return {"preempt_mode": next(iter(modes), usual), "preempt_within": "within" in flags}


def cred_expire(text: str) -> dict[str, int]:
    found = re.search("cred_expire=([^,;]*)", text, re.IGNORECASE)
    return {"cred_expire_s": whole(found[1].strip())} if found else {}


PERIODS = {word.lower(): word for word in ("NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY")}
ALONE = {"exclusive": True, "no": False, "yes:1": False, "force:1": False}  # otherwise jobs share CPUs
PRIORITY = {"priority/basic": False, "priority/multifactor": True}
PREEMPT = {"preempt/none": "", "preempt/partition_prio": "partition_prio", "preempt/qos": "qos"}
SELECT = {"select/linear": True, "select/cons_res": False, "select/cons_tres": False}
WEIGHTS = ("Age", "Assoc", "Fairshare", "Partition", "QOS")
DEPTHS = ("default_queue_depth", "partition_job_depth", "sched_max_job_start")
COUNTS = (*DEPTHS, "bf_min_prio_reserve", "bf_job_part_count_reserve")
MOST_JOBS = ("user", "part", "user_part", "assoc", "start", "array_resv")
flag = partial(one_of, values=dict.fromkeys(("yes", "true", "1"), True) | dict.fromkeys(("no", "false", "0"), False))
some, some_time, longest = partial(whole, least=1), partial(duration, least_s=1.0), partial(limit, read=duration)

ROWS = rows(
    Option("PriorityType", "multifactor", partial(one_of, values=PRIORITY)),
    Option("SelectType", "whole_nodes", partial(one_of, values=SELECT)),
    Option("SelectTypeParameters", "", resources),
    Option("SchedulerType", "backfill", partial(one_of, values={"sched/backfill": True, "sched/builtin": False})),
    *(Option(f"PriorityWeight{name}", f"weight_{name.lower()}", whole) for name in WEIGHTS),
    Option("PriorityWeightJobSize", "weight_job_size", whole),
    Option("PriorityWeightTRES", "weight_tres", weights),
    Option("PriorityMaxAge", "max_age_s", some_time),
    Option("PriorityDecayHalfLife", "half_life_s", duration),
    Option("PriorityCalcPeriod", "calc_period_s", some_time),
    Option("PriorityUsageResetPeriod", "usage_reset", partial(one_of, values=PERIODS)),
    Option("PriorityFavorSmall", "favor_small", flag),
    Option("PriorityFlags", "", priority_flags),
    Option("FairShareDampeningFactor", "damping", some),
    Option("Licenses", "licenses", licences),
    Option("PreemptType", "preempt", partial(one_of, values=PREEMPT)),
    Option("PreemptMode", "", partial(preempt_mode, usual="off")),
    Option("PreemptExemptTime", "preempt_exempt_s", lambda text: limit(text, duration) or 0.0),
    Option("AuthInfo", "", cred_expire),
    Option("JobRequeue", "job_requeue", flag),
    # Keys of SchedulerParameters
    Option("preempt_youngest_first", "preempt_youngest_first", flag),
    Option("preempt_reorder_count", "preempt_reorder_count", whole),
    Option("defer", "defer", flag),
    Option("pack_serial_at_end", "serial_at_end", flag),
    Option("bf_window", "bf_window_s", lambda text: int(some_time(text))),  # in minutes
    Option("bf_max_job_test max_job_bf", "bf_max_job_test", some),
    Option("bf_interval", "", lambda text: {"backfill": False} if text == "-1" else {"bf_interval_s": some(text)}),
    Option("sched_interval", "sched_interval_s", lambda text: math.inf if text == "-1" else some(text)),
    Option("bf_resolution", "bf_resolution_s", some),
    Option("bf_licenses", "", lambda text: dict.fromkeys(("bf_licenses", "bf_running_job_reserve"), flag(text))),
    Option("bf_running_job_reserve", "bf_running_job_reserve", flag),
    *(Option(name, f"{name}_s", whole) for name in ("batch_sched_delay", "bf_min_age_reserve", "bf_window_linear")),
    *(Option(name, name, whole) for name in (*COUNTS, *(f"bf_max_job_{name}" for name in MOST_JOBS))),
)
PARTITION_ROWS = rows(
    Option("Priority", "", lambda text: dict.fromkeys(("tier", "job_factor"), whole(text))),
    Option("PriorityTier", "tier", whole),
    Option("PriorityJobFactor", "job_factor", whole),
    Option("MaxTime", "max_time_s", longest),
    Option("MaxNodes", "max_nodes", limit),
    Option("OverSubscribe Shared", "exclusive", partial(one_of, values=ALONE)),
    Option("QOS", "qos", str.lower),
    Option("TRESBillingWeights", "billing", weights),
    Option("PreemptMode", "preempt_mode", lambda text: preempt_mode(text)["preempt_mode"]),
    Option("GraceTime", "grace_s", seconds),
    *(Option(f"DefMemPer{each}", f"memory_per_{each.lower()}_mb", whole) for each in ("CPU", "Node")),
)
# `conf` reads them.
ELSEWHERE = ("topologyplugin", "accountingstorageenforce", "accountingstoragetres", "defmempercpu", "defmempernode")
# On lines of nodes and partitions: what decides no start of a job that the log has in this partition, with this memory
# and this limit. All others that have no row are named.
HARMLESS = {
    "nodename": "nodename bcastaddr cpubind nodeaddr nodehostname port reason state tmpdisk",
    "partitionname": "partitionname nodes allocnodes allowaccounts allowgroups allowqos alternate cpubind default "
    "defaulttime defmempercpu defmempernode denyaccounts denyqos disablerootjobs hidden minnodes=1 reqresv "
    "resumetimeout rootonly state=up suspendtimeout",
}
# The last version that knows an option. A site may have kept the line for longer: the version is assumed, and stated.
DROPPED = {
    **dict.fromkeys(("cryptotype", "memlimitenforce"), "18.08"),
    **dict.fromkeys(("checkpointtype", "fastschedule", "jobcheckpointdir"), "19.05"),
    "sallocdefaultcommand": "20.02",
    "accountingstorejobcomment": "20.11",
}


def value(row: Option, where: str, text: str) -> dict[str, Any]:
    """The fields that an option sets, by name; a WorkloadError that names `where` if the text is wrong."""
    try:
        read = row.read(text)
    except ValueError as error:
        raise WorkloadError(f"{where}: {row.name}={text} {error}; correct it") from None
    return {row.field: read} if row.field else read


def unpacked(given: Iterable[Given]) -> Iterable[Given]:
    """The options, with SchedulerParameters' keys in its place, and the words of other lists that are not modelled."""
    for where, name, text in given:
        if name.lower() == "schedulerparameters":
            pairs = (word.strip().partition("=") for word in text.split(",") if word.strip())
            yield from ((where, key.strip(), told.strip() if equals else "yes") for key, equals, told in pairs)
            continue
        yield where, name, text
        if name.lower() in ("priorityflags", "selecttypeparameters"):
            yield from ((where, word, "yes") for word in words(text) if row_of(Part("", word, "yes")))


def settings_of(
    given: Iterable[Given], version: tuple[int, int], source: str
) -> tuple[Settings, tuple[Part, ...], tuple[str, ...]]:
    """The settings that options make, the last of a name counts; what is not modelled, and a warning of the others."""
    new = version >= (23, 11)
    fields: dict[str, Any] = {"version": version, "multifactor": new, "whole_nodes": not new}
    fields |= {"fair_tree": version >= FAIR_TREE_DEFAULT, "bf_max_job_test": 500 if version >= (20, 2) else 100}
    others, seen, named = dict[str, dict[str, None]](), set[str](), dict[str, Part]()
    for where, name, text in unpacked(given):
        key, part = name.lower(), Part("", name, text)
        seen.add(key)
        named.pop(key, None)
        if (row := row_of(part)) and (row.touches or key not in ROWS):
            named |= {} if off(text) else {key: part}
        elif key in ROWS:
            fields |= value(ROWS[key], where, text) if text else {}
        elif key not in ELSEWHERE:
            others.setdefault("without effect in the model", {})[name] = None
    if "selecttype" in named:
        fields["whole_nodes"] = False
    if "selecttypeparameters" not in seen:
        fields["memory"] = not fields["whole_nodes"]
    if absent := [name for name in ("PriorityType", "SelectType", "SelectTypeParameters") if name.lower() not in seen]:
        others["not given, taken as Slurm's default"] = dict.fromkeys(absent)
    warnings = tuple(f"{source}: {said}: {', '.join(names)}" for said, names in sorted(others.items()))
    return Settings(**fields), tuple(named.values()), warnings


def listed(names: Iterable[str], most: int = 12) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} others" if len(every) > most else "")


def refusal(where: str, name: str, known: Mapping[str, Option]) -> WorkloadError:
    names = listed((row.name for row in known.values()), 99)
    said = "it is not modelled" if row_of(Part("", name, "yes")) else "the model has no such option"
    said += nearest(name, [row.name for row in known.values()]) or f"; known: {names}"
    if name.lower() == "schedulerparameters":
        said = "set its keys by themselves, as bf_interval=60"
    if name.lower() in PARTITION_ROWS and known is ROWS:
        said = f"set it of a partition, as partition.NAME.{PARTITION_ROWS[name.lower()].name}=..."
    return WorkloadError(f"{where}: {name}: {said}")
