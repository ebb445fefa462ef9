"""Batsim 5's form of jobs and profiles, and the translation from and to version 4's, which everything else here reads.

Version 5 calls profile types by their schema's names, keeps the user's fields in a job's `extra_data` and drops others,
has no walltime of -1 and no delay of 0, and refuses ids with a "!" or the workload's name in them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from batfill.base.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_FIELDS = ("id", "subtime", "walltime", "res", "profile")  # Batsim's own, of both versions
EXTRA_FIELD = "extra_data"
RESERVED = frozenset((*OWN_FIELDS, EXTRA_FIELD))  # what is no field of the user's
# Version 5's types with version 4's names. Others are not translated: no workload with them was tried.
TYPES = {
    "DelayProfile": "delay",
    "SequentialCompositionProfile": "composed",
    "ParallelTaskHomogeneousProfile": "parallel_homogeneous",
}
NEW_TYPES = {old: new for new, old in TYPES.items()} | {"parallel_homogeneous_total": "ParallelTaskHomogeneousProfile"}
# How a homogeneous task's amounts count: for each host, which is the default, or for all together.
STRATEGY = "generation_strategy"
STRATEGIES = {
    "DefinedAmountsUsedForEachValue": "parallel_homogeneous",
    "DefinedAmountsSpreadUniformly": "parallel_homogeneous_total",
}
STRATEGY_OF = {old: strategy for strategy, old in STRATEGIES.items()}


def version_of(where: str, profiles: Mapping[str, Any]) -> int:
    """The version of Batsim, 4 or 5, by the types of these profiles; 4 without any. `where` begins the message."""
    first: dict[int, str] = {}
    for name, profile in profiles.items():
        kind = profile.get("type") if isinstance(profile, dict) else None
        if isinstance(kind, str):
            first.setdefault(5 if kind.endswith("Profile") else 4, name)
    if len(first) > 1:
        old, new = (f"[{first[version]!r}].type {profiles[first[version]]['type']!r:.40}" for version in (4, 5))
        raise WorkloadError(f"{where}{new} is Batsim 5's, and {old} Batsim 4's; write all types of one version")
    return next(iter(first), 4)


# From version 5


def from_version_5(
    where: str, jobs: list[Any], profiles: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], Counter[str]]:
    """These jobs and profiles in version 4's form, to be checked as such; and how many jobs had each field left out."""
    dropped = Counter(name for job in jobs if isinstance(job, dict) for name in job if name not in RESERVED)
    old_jobs = [job_from_version_5(f"{where}: jobs[{place}]", job) for place, job in enumerate(jobs)]
    old_profiles = {
        name: profile_from_version_5(f"{where}: profiles[{name!r}]", profile) for name, profile in profiles.items()
    }
    return old_jobs, old_profiles, dropped


def job_from_version_5(where: str, job: Any) -> Any:
    """A job object with the fields of its `extra_data` as its own, as version 4 has them; anything else as it is.

    What is no field of an object (text, an array, Batsim's own names) stays in `extra_data`; what Batsim 5 does not
    read is left out.
    """
    if not isinstance(job, dict):
        return job
    refuse_name(f"{where}.id", job.get("id"))
    if "walltime" in job and not is_positive(job["walltime"]):
        raise WorkloadError(
            f"{where}.walltime: {job['walltime']!r:.60} is not a number > 0; leave it out for a job without one"
        )
    made = {name: value for name, value in job.items() if name in OWN_FIELDS}
    fields, rest = fields_in(job.get(EXTRA_FIELD))
    made |= fields
    if rest is not None:
        made[EXTRA_FIELD] = rest
    return made


def fields_in(extra: Any) -> tuple[dict[str, Any], Any]:
    """The user's fields in this `extra_data`, and the part of it that is none; None without such a part.

    Batsim passes the data to the scheduler as text, so that an object and its JSON text say the same.
    """
    found = object_in(extra)
    if found is None:
        return {}, extra if extra not in (None, "") else None
    if RESERVED.isdisjoint(found):
        return found, None
    fields = {name: value for name, value in found.items() if name not in RESERVED}
    return fields, {name: value for name, value in found.items() if name in RESERVED}


def object_in(extra: Any) -> dict[str, Any] | None:
    """The object that this `extra_data` is, or is the JSON text of; None if it is something else."""
    if isinstance(extra, str) and extra.lstrip().startswith("{"):
        try:
            extra = orjson.loads(extra)
        except orjson.JSONDecodeError:
            return None
    return extra if isinstance(extra, dict) else None


def profile_from_version_5(where: str, profile: Any) -> Any:
    """The profile with version 4's name of its type; one that version 4 does not have keeps its type."""
    kind = profile.get("type") if isinstance(profile, dict) else None
    if not isinstance(kind, str):
        return profile
    if kind == "DelayProfile":
        refuse_no_delay(where, profile)
    made = profile | {"type": TYPES.get(kind, kind)}
    if made["type"] == "parallel_homogeneous" and STRATEGY in made:
        strategy = made.pop(STRATEGY)
        if not isinstance(strategy, str) or strategy not in STRATEGIES:
            raise WorkloadError(f"{where}.{STRATEGY}: {strategy!r:.60} is none of {', '.join(STRATEGIES)}; take one")
        made["type"] = STRATEGIES[strategy]
    return made


# To version 5


def job_for_version_5(where: str, job: Mapping[str, Any], workload: str) -> dict[str, Any]:
    """Version 4's checked job object in version 5's form, for the workload that Batsim will give this name."""
    for name in ("id", "profile"):
        refuse_name(f"{where}.{name}", job.get(name), workload)
    extra = extra_of(where, job)
    own = {name: job[name] for name in job if name in OWN_FIELDS}
    if "walltime" in own and not is_positive(own["walltime"]):
        del own["walltime"]
    return own if extra is None else own | {EXTRA_FIELD: extra}


def extra_of(where: str, job: Mapping[str, Any]) -> Any:
    """The `extra_data` of a job in version 4's form: an object of the user's fields; None without any."""
    fields = {name: job[name] for name in job if name not in RESERVED}
    given = job.get(EXTRA_FIELD)
    if given in (None, ""):
        return fields or None
    if not fields:
        return given
    found = object_in(given)
    if found is None:
        raise WorkloadError(
            f"{where}.{EXTRA_FIELD}: {given!r:.60} is not an object, into which {next(iter(fields))} could be put; "
            "write it as an object"
        )
    for name in fields:
        if name in found:
            raise WorkloadError(f"{where}.{EXTRA_FIELD}: has {name}, as the job itself; remove one of them")
    return found | fields


def profile_for_version_5(where: str, name: str, profile: Any, workload: str) -> dict[str, Any]:
    refuse_name(where, name, workload)
    kind = profile.get("type") if isinstance(profile, dict) else None
    if kind not in NEW_TYPES:
        raise WorkloadError(
            f"{where}.type: {kind!r:.40} is not translated to Batsim 5; translated: {', '.join(NEW_TYPES)}"
        )
    made = {key: value for key, value in profile.items() if key != "nb"} | {"type": NEW_TYPES[kind]}
    if kind == "parallel_homogeneous_total":
        made[STRATEGY] = STRATEGY_OF[kind]
    if kind == "delay":
        refuse_no_delay(where, profile)
    if "nb" in profile:  # the repetitions' name in Batsim up to 2.0
        made.setdefault("repeat", profile["nb"])
    return made


# Both


def refuse_name(where: str, name: Any, workload: str | None = None) -> None:
    """Refuse a job's or a profile's name that Batsim would take for one with its workload's name."""
    text = str(name)
    if "!" in text:
        raise WorkloadError(
            f"{where}: {name!r:.60} has '!' in it, which separates the workload's name from the rest in Batsim's "
            "messages; rename it"
        )
    if workload is not None and workload in text:
        raise WorkloadError(
            f"{where}: {name!r:.60} has the workload's name {workload!r} in it, which Batsim 5 refuses; rename it"
        )


def refuse_no_delay(where: str, profile: Mapping[str, Any]) -> None:
    delay = profile.get("delay")
    if type(delay) in (int, float) and delay == 0:
        raise WorkloadError(
            f"{where}.delay: 0 is not a number > 0, which Batsim 5 wants; give the run time in seconds, or drop its "
            "jobs with `batfill workload clean --rule ran`"
        )


def is_positive(value: Any) -> bool:
    return type(value) in (int, float) and value > 0
