"""Reads Batsim's JSON workloads, checks them and converts them to the engine's jobs; writes jobs as such a workload.

The format is that of Batsim 3 and 4, restricted to profiles whose run time is known without a network: `nb_res`, `jobs`
(id, subtime, res, profile, walltime, further fields of the user) and `profiles` (SUPPORTED_PROFILES: delays,
computations, and sequences of both). A file in Batsim 5's form is translated as it is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from json import JSONEncoder
from math import inf, isnan, nan
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, get_args

import numpy as np
import orjson

from batfill.base.errors import LARGEST, BatfillError, WorkloadError, whole_from
from batfill.base.files import read_json, whole_file
from batfill.base.tables import number_text
from batfill.base.words import things
from batfill.model.jobs import (
    LARGE,
    LONGEST_S,
    SMALL,
    UNKNOWN,
    Jobs,
    Overrun,
    Unrequested,
    refuse_cancelled,
    refuse_unrequested,
    table_in_order,
    unread,
)
from batfill.model.values import MEMORY, TOO_MUCH, speed_given, unrequested_of
from batfill.workloads.batsim5_json import (
    NEW_TYPES,
    RESERVED,
    from_version_5,
    job_for_version_5,
    profile_for_version_5,
    refuse_name,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


BatsimVersion = Literal[4, 5]  # those whose form of a workload is written
FIRST_WORKLOAD = "w0"  # Batsim's name for it; the others are w1, w2, ...
OLD_TYPES = {"msg_par_hg": "parallel_homogeneous"}  # of Batsim up to 3, and what Batsim 4 calls them
# The types of profiles whose run time is known without a network; of those that compute, what `cpu` is.
COMPUTING = {
    "parallel_homogeneous": "the operations of each host",
    "parallel_homogeneous_total": "the operations of all hosts together",
    "parallel": "an array of the operations of each host",
}
SUPPORTED_PROFILES = ("delay", "composed", *COMPUTING)
# Those that Batsim runs, too, and whose run time depends on more than the hosts' speed.
BATSIM_ONLY = ("parallel_homogeneous_pfs", "data_staging", "send", "recv", "smpi", "usage_trace", "trace_replay")
NO_WALLTIME = -1
ENDLESS_S = 1e18  # stands for any longer run time; with a walltime a job may have it
BATSIM_MARGIN_S = 1  # Batsim ends a job with p = p~ as overrun; an extra second lets it complete
REQUEST_FIELD = "requested_time"  # the user's request if it is not the walltime; NO_WALLTIME if the log has none
ASSUMED_FIELD = "assumed_time"  # what stood in for an unknown request before the walltime was raised
EXPECTED_FIELD = "expected_time"  # what the scheduler reads in place of the walltime, if the job may outlive it
JOBS_AT_ONCE = 10_000  # written at a time
DEEPEST, MOST_PARTS = 100, 1_000_000  # of a sequence: levels of sequences inside, and parts with theirs
UNWRITABLE = re.compile(r'[,"\r\n]')
CLASSES = {"small": SMALL, "large": LARGE}


class UserField(NamedTuple):
    """A field of a job that the user may add and batfill reads."""

    fits: Callable[[Any], bool]
    kind: str  # what its values are
    instead: str  # what happens to another value


def _limits(value: Any) -> bool:
    """Whether this is a time that limits a job, or the sign that there is none."""
    return value == NO_WALLTIME or (is_time(value) and value > 0)


def _is_user(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) <= LARGEST)


RESOURCES = "resources"  # an object of amounts by name, of which pools may read some
USER_FIELDS = {
    "class": UserField(lambda value: value in (None, *CLASSES), "small or large", "it counts as none"),
    "killable": UserField(lambda value: value is None or type(value) is bool, "true or false", "it counts as true"),
    "user_id": UserField(_is_user, "a whole number", "it is ignored"),
    "user": UserField(_is_user, "a whole number", "it is ignored"),
    EXPECTED_FIELD: UserField(_limits, "a number > 0", "the walltime counts"),
    REQUEST_FIELD: UserField(_limits, "a number > 0, or -1", "the walltime counts"),
    RESOURCES: UserField(
        lambda value: value is None or type(value) in (dict, int, float),
        "an object of amounts by name",
        "it is ignored",
    ),
}


# Every field of a job that something here reads, or passes on as Batsim's own.
READ_FIELDS = frozenset((*RESERVED, *USER_FIELDS, ASSUMED_FIELD)) - {RESOURCES}


class ProfileTask(NamedTuple):
    """The work of a profile: a delay, a computation, or parts in turn, repeated, until a return code is not 0."""

    profile: str
    run_s: float  # to its end, that of the part that fails if there is one; nan if hosts compute, see `on`
    ret: int
    parts: tuple[ProfileTask, ...] = ()
    repeat: int = 1
    operations: float = 0.0  # of the host that has most of them,
    shared: float = 0.0  # and those that the hosts share equally
    hosts: int | None = None  # for how many it is; None for any number
    load: float = 1.0  # of the hosts that compute, on average, from 0 to 1
    levels: int = 0  # of sequences in one another
    n_parts: int = 1  # with those of the parts
    computes: bool = False  # whether hosts compute in it, so that the run time depends on their speed,
    ends_computing: bool = False  # and whether they do so in the part that ends it

    def on(self, where: str, hosts: int, speed: float | None) -> ProfileTask:
        if not self.computes:
            return self
        if speed is None:
            raise WorkloadError(
                f"{where}: profile {self.profile!r} computes; give the one speed of all hosts, as --speed 1Gf"
            )
        if self.parts:
            return self.made_of([part.on(where, hosts, speed) for part in self.parts])
        if self.hosts not in (None, hosts):
            raise WorkloadError(
                f"{where}: profile {self.profile!r} is for {self.hosts} hosts, and the job requests {hosts}; make them "
                "equal"
            )
        return self._replace(run_s=min(max(self.operations, self.shared / hosts) / speed, ENDLESS_S))

    def made_of(self, parts: Sequence[ProfileTask]) -> ProfileTask:
        """The sequence of these parts, with its return code and repetitions, which the first that fails ends."""
        run_s, ret, repeat = 0.0, self.ret, self.repeat
        for part in parts:
            run_s += part.run_s
            if part.ret:
                ret, repeat = part.ret, 1
                break
        return self._replace(
            run_s=min(run_s * repeat, ENDLESS_S),
            ret=ret,
            parts=tuple(parts),
            repeat=repeat,
            computes=any(part.computes for part in parts),
            ends_computing=part.ends_computing,
        )

    def leaves(self) -> Iterator[ProfileTask]:
        """The delays and computations of which it consists, in the order in which they run."""
        if not self.parts:
            yield self
            return
        for _ in range(self.repeat if self.run_s else 1):
            for part in self.parts:
                yield from part.leaves()
                if part.ret:
                    return

    def require_end(self, where: str, walltime: float) -> None:
        """Refuse a run time too large for exact sums of times, unless a walltime ends the job before."""
        if walltime == NO_WALLTIME:
            refuse_late(f"{where}: the run time of profile {self.profile!r}", self.run_s)


@dataclass(frozen=True, slots=True)
class BatsimDocument:
    """A workload, unchanged from its file, or translated to version 4's form from Batsim 5's."""

    path: Path
    nb_res: int  # checked, as all the rest is by `load_document` only
    jobs: list[dict[str, Any]]  # in the file's order, with the user's fields
    profiles: dict[str, dict[str, Any]]  # every job's profile is among them
    digest: str  # sha256 of the file as stored, hexadecimal
    description: Mapping[str, Any] = field(default_factory=dict)  # its provenance, if batfill wrote it
    version: int = 4  # of Batsim whose form the file has, 4 or 5
    notes: tuple[str, ...] = ()  # what Batsim does not read, one line each

    def tasks(self) -> dict[str, ProfileTask]:
        return tasks_of(f"{self.path}: profiles", self.profiles)

    def timeless(self) -> str | None:
        """The first profile with a delay of 0, which Batsim does not take; None without one."""
        delays = ((name, profile) for name, profile in self.profiles.items() if profile["type"] == "delay")
        return next((name for name, profile in delays if profile["delay"] == 0), None)


def load_document(path: Path, *, workload: str | None = None) -> BatsimDocument:
    """The checked workload in this file; Batsim 4 will name it `workload`, None for the form of either version."""
    document = read_members(path)
    jobs, profiles, found = document.jobs, document.profiles, document.version
    if workload is not None and found == 5 and profiles:
        raise WorkloadError(
            f"{path}: has the profile types of Batsim 5, which Batsim 4 refuses; make one for it with "
            "`batfill workload convert`"
        )
    for name in profiles.keys() - needed_profiles(jobs, profiles):  # which Batsim drops, too
        if needs_network(profiles[name]):
            del profiles[name]
    tasks_of(f"{path}: profiles", profiles, NEW_TYPES if found == 5 else {})
    seen: set[str] = set()
    for place, job in enumerate(jobs):
        check_job(f"{path}: jobs[{place}]", job, profiles)
        name = str(job["id"])
        if workload is not None:
            name = name_in(f"{path}: jobs[{place}].id", name, workload)
        seen.add(name)
        if len(seen) == place:  # this id was already there
            raise WorkloadError(f"{path}: jobs[{place}].id: {job['id']!r} occurs before; ids must be unique")
    return document


def needed_profiles(jobs: Iterable[Any], profiles: Mapping[str, Any]) -> set[str]:
    """The profiles of these jobs, checked or not, and all that they consist of."""
    left, found = [job.get("profile") for job in jobs if isinstance(job, dict)], set[str]()
    while left:
        name = left.pop()
        if isinstance(name, str) and name not in found:
            found.add(name)
            profile = profiles.get(name)
            if isinstance(profile, dict) and profile.get("type") == "composed" and isinstance(profile.get("seq"), list):
                left += profile["seq"]
    return found


def needs_network(profile: Any) -> bool:
    """Whether a profile, checked or not, runs under Batsim only."""
    if not isinstance(profile, dict) or not isinstance(kind := profile.get("type"), str):
        return False
    com = profile.get("com", 0)
    return kind in BATSIM_ONLY or (kind in COMPUTING and (any(com) if isinstance(com, list) else com != 0))


def name_in(where: str, identifier: str, workload: str) -> str:
    """A job's id in this workload, whose name may be in front of it: "12" of "w0!12"."""
    name = identifier.removeprefix(f"{workload}!")
    refuse_name(where, name)
    return name


def read_members(path: Path) -> BatsimDocument:
    """The workload in this file, of which only the machine's size is checked."""
    document, stored_sum = read_json(path, "fix the file or write it again")
    if not isinstance(document, dict):
        raise WorkloadError(f"{path}: not a JSON object; a Batsim workload has nb_res, jobs and profiles")
    nb_res, jobs, profiles = (
        _member(path, document, key, kind) for key, kind in (("nb_res", int), ("jobs", list), ("profiles", dict))
    )
    if not 1 <= nb_res <= LARGEST:
        raise WorkloadError(f"{path}: nb_res: {nb_res} is not {whole_from(1)}; give the machine's size")
    for profile in profiles.values():
        if isinstance(profile, dict) and isinstance(kind := profile.get("type"), str):
            profile["type"] = OLD_TYPES.get(kind, kind)
    version = version_of(f"{path}: profiles", profiles)
    notes: tuple[str, ...] = ()
    if version == 5:
        jobs, profiles, dropped = from_version_5(str(path), jobs, profiles)
        notes = tuple(
            f"field {name} of {count} of {len(jobs)} jobs left out: Batsim 5 reads the user's fields in extra_data only"
            for name, count in dropped.items()
        )
    described = document.get("description")
    if not (isinstance(described, dict) and str(described.get("made_by")).startswith("batfill ")):
        described = {}  # not batfill's
    return BatsimDocument(path, nb_res, jobs, profiles, stored_sum, described, version, notes)


def unrequested_in(description: Mapping[str, Any]) -> Unrequested:
    """What stands in for missing requests by a workload's provenance; "refuse" if it does not say."""
    try:
        stated: Unrequested = unrequested_of("unrequested", description["unrequested"])  # type: ignore[assignment]
    except (KeyError, BatfillError):
        return "refuse"
    return stated


def require_requests(path: Path, jobs: Sequence[Mapping[str, Any]], description: Mapping[str, Any]) -> None:
    """Refuse to run a workload of whose jobs too many have no request, unless its provenance says what stands in."""
    missing = sum(invented(job) for job in jobs)
    refuse_unrequested(path, missing, len(jobs), unrequested_in(description), "convert it again with")


def read_batsim_json(path: Path, speed: float | str | None = None) -> Jobs:
    """The workload in this file as the engine's jobs: run time = that of the profile, no walltime = infinity.

    `speed` is that of the hosts in operations per second, which jobs that compute need.

    A field `class` of "small" or "large" sets the job's class, an integer `user_id` or `user` its user. `killable`
    false forbids killing and requeueing the job. `requested_time` is the user's request if it is not the walltime, -1
    if the log has none. `expected_time` is the run time that the scheduler reads in place of the walltime, and that the
    job may outlive.
    """
    of_hosts = None if speed is None else speed_given("speed", speed)
    document = load_document(path)
    jobs, tasks = document.jobs, document.tasks()
    runtime_s = run_times(str(path), jobs, tasks, of_hosts)
    of_job = [tasks[job["profile"]] for job in jobs]
    if not jobs:
        raise WorkloadError(f"{path}: jobs: no job in it; give a workload with jobs")
    walltimes = (job.get("walltime", NO_WALLTIME) for job in jobs)
    classes = (job.get("class") for job in jobs)
    outlives = any(EXPECTED_FIELD in job for job in jobs)
    asked_s = np.array([request_of(job) for job in jobs], dtype=np.float64)
    assumed_s, asked = np.array([assumed_of(job) for job in jobs], np.float64), ~np.isnan(asked_s)
    walltime_s = np.array([np.inf if w == NO_WALLTIME else w for w in walltimes], dtype=np.float64)
    if outlives:
        refuse_mixed(path, jobs)
    computing = np.array([task.ends_computing for task in of_job]) if any(t.computes for t in of_job) else None
    table = table_in_order(
        str(path),
        ids=np.array([str(job["id"]) for job in jobs], dtype=np.object_),
        submit_s=np.array([job["subtime"] for job in jobs], dtype=np.float64),
        runtime_s=np.array(runtime_s, dtype=np.float64),
        walltime_s=walltime_s,
        request_s=np.where(asked, asked_s, np.where(np.isnan(assumed_s), walltime_s, assumed_s)),
        asked=asked,
        procs=np.array([job["res"] for job in jobs], dtype=np.int64),
        user=np.array([user_of(job) for job in jobs], dtype=np.int64),
        job_class=np.array(
            [CLASSES.get(one, UNKNOWN) if isinstance(one, str) else UNKNOWN for one in classes], np.int8
        ),
        killable=np.array([job.get("killable") is not False for job in jobs], dtype=np.bool_),
        outlives=outlives,
        amounts=amounts_in(jobs),
        computing=computing,
        fails=np.array([task.ret != 0 for task in of_job]) if any(task.ret for task in of_job) else None,
        name=path.name,
        size=document.nb_res,
        digest=document.digest,
        unrequested=unrequested_in(document.description),
        file=path,
        notes=document.notes,
        doubts=field_warnings(jobs),
        speed=None if computing is None else of_hosts,
    )
    stated: Overrun = "kill" if (table.runtime_s >= table.walltime_s).any() else "keep"
    if outlives:
        stated = "extend"
    elif document.description.get("overrun") in get_args(Overrun):
        stated = document.description["overrun"]
    return table.stating(overrun=stated)


def run_times(
    where: str, jobs: Sequence[Mapping[str, Any]], tasks: Mapping[str, ProfileTask], speed: float | None
) -> list[float]:
    """How long each of these checked jobs runs on hosts of this speed, at most LONGEST_S, which a walltime ends."""
    known: dict[tuple[str, int], ProfileTask] = {}
    for place, job in enumerate(jobs):
        key, of_job = (job["profile"], job["res"]), f"{where}: jobs[{place}]"
        if key not in known:
            known[key] = tasks[key[0]].on(of_job, key[1], speed)
        known[key].require_end(of_job, job.get("walltime", NO_WALLTIME))
    return [min(known[job["profile"], job["res"]].run_s, LONGEST_S) for job in jobs]


def request_of(job: Mapping[str, Any]) -> float:
    """The user's request of a checked job; nan if it is unknown, or the job has no walltime."""
    walltime = job.get("walltime", NO_WALLTIME)
    requested = job.get(REQUEST_FIELD, job.get(EXPECTED_FIELD, walltime))
    return float("nan") if requested == NO_WALLTIME else float(requested)


def invented(job: Mapping[str, Any]) -> bool:
    """Whether the job has a walltime although its log has no request."""
    return job.get(REQUEST_FIELD) == NO_WALLTIME and job.get("walltime", NO_WALLTIME) != NO_WALLTIME


def n_missing(jobs: Iterable[Mapping[str, Any]], unrequested: Unrequested) -> int:
    return sum(invented(job) if unrequested == "refuse" else isnan(request_of(job)) for job in jobs)


def raised_by_overrun(job: Mapping[str, Any]) -> bool:
    """Whether the scheduler sees a walltime above the job's request, by more than the second that Batsim needs."""
    request_s = request_of(job)
    before_s = assumed_of(job) if isnan(request_s) else request_s
    return before_s + BATSIM_MARGIN_S < expected_of(job) < inf


def assumed_of(job: Mapping[str, Any]) -> float:
    """What stood in for a checked job's unknown request before its walltime was raised; nan if nothing is stated."""
    return float(job.get(ASSUMED_FIELD, job.get(EXPECTED_FIELD, nan)))


def expected_of(job: Mapping[str, Any]) -> float:
    """The run time that a scheduler without predictions expects of a checked job; inf for one without a limit."""
    expected = job.get(EXPECTED_FIELD, job.get("walltime", NO_WALLTIME))
    return inf if expected == NO_WALLTIME else float(expected)


def refuse_mixed(path: Path, jobs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a workload in which some jobs may outlive their request, and the scheduler expects another of others."""
    for place, job in enumerate(jobs):
        walltime = job.get("walltime", NO_WALLTIME)
        requested, expected = request_of(job), expected_of(job)
        if not isnan(requested) and expected != min(requested, inf if walltime == NO_WALLTIME else walltime):
            raise WorkloadError(
                f"{path}: jobs[{place}].{EXPECTED_FIELD}: {_shown(job.get(EXPECTED_FIELD))} is not the request of "
                f"{requested:g} s, and other jobs are expected to run theirs; convert the log again"
            )


# Fields of a job that are checked: what each is if it is left out, whether a value is one, and the rule for people.
ID = "a string or an integer; give the job a name"
NEEDED: tuple[tuple[str, Any, Callable[[Any], bool], str], ...] = (
    ("id", None, lambda name: type(name) is int or (type(name) is str and name != ""), ID),
    ("res", None, lambda q: type(q) is int and 1 <= q <= LARGEST, f"{whole_from(1)}; give the processors it requests"),
    ("subtime", None, lambda at: is_time(at), "a number >= 0; give its submission time in seconds"),
    ("walltime", NO_WALLTIME, _limits, "a number > 0; leave it out (or give -1) for a job without one"),
    (REQUEST_FIELD, NO_WALLTIME, _limits, "a number > 0; give the user's request in seconds, -1 if it is unknown"),
)


def check_job(where: str, job: Any, profiles: dict[str, Any]) -> None:
    if not isinstance(job, dict):
        raise WorkloadError(f"{where}: {_shown(job)} is not an object; a job has id, subtime, res and profile")
    for name, default, fits, rule in NEEDED:
        value = job.get(name, default)
        if not fits(value):
            raise WorkloadError(f"{where}.{name}: {_shown(value)} is not {rule}")
        if name not in ("id", "res"):
            refuse_late(f"{where}.{name}", value)
    identifier, profile = job["id"], job.get("profile")
    walltime = job.get("walltime", NO_WALLTIME)
    for name in (EXPECTED_FIELD, ASSUMED_FIELD):
        below = job.get(name, walltime)
        if below != walltime and not (is_time(below) and 0 < below < (inf if walltime == NO_WALLTIME else walltime)):
            raise WorkloadError(f"{where}.{name}: {_shown(below)} is not a number > 0 up to the walltime; leave it out")
    if not isinstance(profile, str) or profile not in profiles:
        raise WorkloadError(f"{where}.profile: {_shown(profile)} is not the name of a profile; add it to profiles")
    if UNWRITABLE.search(f"{identifier}{profile}"):
        raise WorkloadError(
            f"{where}: id {_shown(identifier)} or profile {_shown(profile)} holds a comma, a quote or a line break, "
            "which Batsim's csv files cannot; rename it"
        )


def tasks_of(where: str, profiles: Mapping[str, Any], types: Mapping[str, str] | None = None) -> dict[str, ProfileTask]:
    tasks: dict[str, ProfileTask] = {}
    sequences: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        place = f"{where}[{name!r}]"
        check_profile(place, profile, profiles, types)
        if profile["type"] == "composed":
            sequences[name] = profile["seq"]
        else:
            tasks[name] = plain_task(name, profile)
    try:
        for name in TopologicalSorter(sequences).static_order():
            if name not in tasks:
                tasks[name] = composed_task(f"{where}[{name!r}]", name, profiles[name], tasks)
    except CycleError as error:
        chain = list(reversed(error.args[1]))
        raise WorkloadError(
            f"{where}[{chain[0]!r}].seq: it contains itself ({' > '.join(map(repr, chain[:5]))}"
            f"{' > ...' if len(chain) > 5 else ''}); a sequence must end at delays"
        ) from None
    return tasks


def composed_task(where: str, name: str, profile: Mapping[str, Any], tasks: Mapping[str, ProfileTask]) -> ProfileTask:
    parts = [tasks[part] for part in profile["seq"]]
    levels, n_parts = 1 + max(part.levels for part in parts), sum(part.n_parts for part in parts)
    if levels > DEEPEST or n_parts > MOST_PARTS:
        raise WorkloadError(
            f"{where}.seq: sequences are nested more than {DEEPEST} deep, or have more than {MOST_PARTS:,} parts in "
            "all; write them flatter, or with repeat"
        )
    whole = ProfileTask(name, 0.0, profile.get("ret", 0), repeat=repeat_of(profile), levels=levels, n_parts=n_parts)
    return whole.made_of(parts)


def plain_task(name: str, profile: Mapping[str, Any]) -> ProfileTask:
    kind, ret = profile["type"], profile.get("ret", 0)
    if kind == "delay":
        return ProfileTask(name, min(float(profile["delay"]), ENDLESS_S), ret)
    task = ProfileTask(name, nan, ret, computes=True, ends_computing=True)
    if kind == "parallel":
        most, hosts = float(max(profile["cpu"])), len(profile["cpu"])
        load = sum(amount / most for amount in profile["cpu"]) / hosts if most else 0.0
        return task._replace(operations=most, hosts=hosts, load=load)
    if kind == "parallel_homogeneous_total":
        return task._replace(shared=float(profile["cpu"]))
    return task._replace(operations=float(profile["cpu"]))


def repeat_of(profile: Mapping[str, Any]) -> Any:
    """The repetitions of a composed profile; pybatsim 3 and Batsim up to 2.0 write them as "nb"."""
    return profile.get("repeat", profile.get("nb", 1))


def check_profile(where: str, profile: Any, known: Mapping[str, Any], types: Mapping[str, str] | None = None) -> None:
    """Refuse what is no delay, computation or sequence of `known` profiles; `types`: names other than version 4's."""
    if not isinstance(profile, dict):
        raise WorkloadError(f"{where}: {_shown(profile)} is not an object; a profile has a type and a delay or cpu")
    kind = profile.get("type")
    if kind not in SUPPORTED_PROFILES:
        types = types or dict(zip(SUPPORTED_PROFILES, SUPPORTED_PROFILES, strict=True))
        supported = ", ".join(dict.fromkeys(types[name] for name in SUPPORTED_PROFILES if name in types))
        called = types.get(kind, kind) if isinstance(kind, str) else kind
        if kind in BATSIM_ONLY:
            raise WorkloadError(f"{where}.type: {kind} runs under Batsim only; here run: {supported}")
        raise WorkloadError(f"{where}.type: {_shown(called)} is not supported; supported: {supported}")
    if kind == "composed":
        _check_sequence(where, profile, known)
    elif kind in COMPUTING:
        _check_computation(where, kind, profile)
    elif not is_time(profile.get("delay")):
        raise WorkloadError(
            f"{where}.delay: {_shown(profile.get('delay'))} is not a number >= 0; give the run time in seconds"
        )
    ret = profile.get("ret", 0)
    if type(ret) is not int or ret < 0:
        raise WorkloadError(f"{where}.ret: {_shown(ret)} is not an integer >= 0; give the job's exit code")


def _check_computation(where: str, kind: str, profile: dict[str, Any]) -> None:
    cpu = profile.get("cpu")
    amounts = cpu if kind == "parallel" and isinstance(cpu, list) and cpu else [cpu] if kind != "parallel" else [None]
    if not all(map(is_time, amounts)):
        raise WorkloadError(f"{where}.cpu: {_shown(cpu)} is not {COMPUTING[kind]}; give numbers >= 0")
    if needs_network(profile):
        raise WorkloadError(
            f"{where}.com: a job of it communicates, and so runs under Batsim only: its time depends on the network"
        )


def _check_sequence(where: str, profile: dict[str, Any], known: Mapping[str, Any]) -> None:
    for key in ("repeat", "nb"):
        times = profile.get(key, 1)
        if type(times) is not int or not 1 <= times <= LARGEST:
            raise WorkloadError(f"{where}.{key}: {_shown(times)} is not {whole_from(1)}; give the repetitions")
    if profile.get("nb", repeat_of(profile)) != repeat_of(profile):
        raise WorkloadError(
            f"{where}.nb: {profile['nb']} is not the {profile['repeat']} of 'repeat', of which it is the old name; "
            "leave one out"
        )
    seq = profile.get("seq")
    if not isinstance(seq, list) or not seq:
        raise WorkloadError(f"{where}.seq: {_shown(seq)} is not an array of profiles' names; give at least one")
    for place, part in enumerate(seq):
        if not isinstance(part, str) or part not in known:
            raise WorkloadError(
                f"{where}.seq[{place}]: {_shown(part)} is not the name of a profile; add it to profiles"
            )


def is_time(value: Any) -> TypeGuard[float]:
    """Whether this JSON value is a date or a duration: a finite number >= 0."""
    return (type(value) is int or type(value) is float) and 0 <= value <= float_info.max


def refuse_late(where: str, seconds: float) -> None:
    """Refuse a date or a duration too large for exact sums of times."""
    if seconds > LONGEST_S:
        raise WorkloadError(
            f"{where}: {seconds} is more than batfill's limit of {LONGEST_S:g} s, 30,000 years; give it in seconds"
        )


def _member(path: Path, document: dict[str, Any], key: str, kind: type) -> Any:
    value = document.get(key)
    if type(value) is not kind:
        kinds = {int: "an integer", list: "an array", dict: "an object"}
        found = f"{_shown(value)} is not {kinds[kind]}" if key in document else f"missing; it is {kinds[kind]}"
        raise WorkloadError(f"{path}: {key}: {found}; a Batsim workload has nb_res, jobs and profiles")
    return value


def odd_fields(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each of USER_FIELDS that has no value of its kind: its name, and in words what is wrong and what is assumed."""
    for name, (fits, kind, instead) in USER_FIELDS.items():
        if name in job and not fits(job[name]):
            yield name, f"{name} {_shown(job[name])} is not {kind}: {instead}"


def usable(job: Mapping[str, Any]) -> Mapping[str, Any]:
    odd = dict(odd_fields(job))
    return {name: value for name, value in job.items() if name not in odd} if odd else job


def field_warnings(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """A line for each field of these jobs that nothing reads, or that is one of USER_FIELDS and unusable in some."""
    found: dict[str, list[str]] = {}
    unread: Counter[str] = Counter()
    for job in jobs:
        unread.update(unread_in(job))
        for name, what in odd_fields(job):
            found.setdefault(name, []).append(f"job {job.get('id')}: {what}")
    odd = (f"{first}{f'; the same in {len(more):,} further jobs' if more else ''}" for first, *more in found.values())
    return (*odd, *unread_lines(unread))


def unread_in(job: Mapping[str, Any]) -> set[str]:
    """The fields of a job that nothing but pools may read; `resources` of memory alone, which logs have, is none."""
    given = job.get(RESOURCES)
    memory_alone = isinstance(given, dict) and given.keys() <= {MEMORY}
    return set(job.keys() - READ_FIELDS - ({RESOURCES} if memory_alone else set()))


def unread_lines(found: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{unread(name)}{things(n, 'job')}" for name, n in sorted(found.items()))


def amounts_of(job: Mapping[str, Any]) -> dict[str, float]:
    """The amounts that a job states, by name: its further fields, and what `resources` has; inf for what is none."""
    if READ_FIELDS.issuperset(job):
        return {}
    given = job.get(RESOURCES)
    further = {name: job[name] for name in job.keys() - READ_FIELDS} | (given if isinstance(given, dict) else {})
    return {
        name: float(min(value, TOO_MUCH)) if type(value) in (int, float) and value >= 0 else inf
        for name, value in further.items()
        if name and value is not None
    }


def amounts_in(jobs: Iterable[Mapping[str, Any]]) -> NDArray[np.void] | None:
    """The same of all jobs, float64 fields (n_jobs,), nan where a job has none; None without any."""
    found = [amounts_of(job) for job in jobs]
    names = sorted({name for one in found for name, value in one.items() if value < inf})
    if not names:
        return None
    records = np.full(len(found), nan, [(name, "f8") for name in names])
    for name in names:
        records[name] = [one.get(name, nan) for one in found]
    return records


def user_of(job: Mapping[str, Any]) -> int:
    for key in ("user_id", "user"):
        user = job.get(key)
        if type(user) is int and abs(user) <= LARGEST:
            return user
    return -1


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def write_batsim_json(
    out: Path, jobs: Jobs, *, description: Mapping[str, object] | None = None, version: BatsimVersion = 4
) -> int:
    """Write a workload that Batsim reads, in the order of its log; returns its number of jobs.

    A job's `user`, if known, becomes its `user_id`, an infinite walltime is omitted; the request is the
    `requested_time` if it is not the walltime, what the scheduler expects the `expected_time`, and amounts are
    `resources`. `description`: the file's provenance, which Batsim ignores.
    """
    profiles: dict[str, dict[str, Any]] = {}

    def in_order() -> dict[str, dict[str, Any]]:
        return dict(sorted(profiles.items(), key=lambda item: float(item[1]["delay"])))

    assert jobs.size is not None
    refuse_cancelled(jobs, out, "Batsim")
    return write_members(out, jobs.size, job_objects(jobs, profiles), in_order, description or {}, version=version)


def job_objects(jobs: Jobs, profiles: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each job in version 4's form, in the order of the log; `profiles` collects the delays."""
    if len(jobs) > JOBS_AT_ONCE and jobs.row is None:  # lists of numbers take much memory
        for first in range(0, len(jobs), JOBS_AT_ONCE):
            yield from job_objects(jobs.select(slice(first, first + JOBS_AT_ONCE)), profiles)
        return
    in_file = slice(None) if jobs.row is None else np.argsort(jobs.row)
    ends = jobs.own_end & (jobs.walltime_s <= jobs.runtime_s)  # Batsim would end them as overrun
    walltime_s = np.where(ends, jobs.runtime_s + BATSIM_MARGIN_S, jobs.walltime_s)
    expected_s = np.minimum(jobs.request_s, walltime_s) if jobs.outlives else walltime_s
    named = () if jobs.amounts is None else jobs.amounts.dtype.names or ()
    columns = (
        *(jobs.ids, jobs.submit_s, walltime_s, jobs.procs, jobs.runtime_s, jobs.user),
        np.where(jobs.invented, NO_WALLTIME, jobs.asked_s),
        expected_s,
        np.where(jobs.invented, jobs.request_s, np.nan),
    )
    taken_by = [()] * len(jobs) if jobs.amounts is None else jobs.amounts[in_file].tolist()
    numbers = zip(*(column[in_file].tolist() for column in columns), taken_by, strict=True)
    for name, submit_s, walltime_s, procs, runtime_s, user, request_s, expected_s, assumed_s, taken in numbers:
        profile = f"delay{number_text(runtime_s)}"
        if profile not in profiles:
            profiles[profile] = {"type": "delay", "delay": short_number(runtime_s)}
        job: dict[str, Any] = {"id": name, "subtime": short_number(submit_s)}
        if walltime_s != np.inf:
            job["walltime"] = short_number(walltime_s)
        job |= {"res": procs, "profile": profile}
        if user >= 0:
            job["user_id"] = user
        if request_s == request_s and request_s != walltime_s:  # nan: neither a request nor a limit
            job[REQUEST_FIELD] = short_number(request_s)
        if expected_s < walltime_s:
            job[EXPECTED_FIELD] = short_number(expected_s)
        if assumed_s < expected_s:
            job[ASSUMED_FIELD] = short_number(assumed_s)
        if taken and (known := {of: amount_shown(x) for of, x in zip(named, taken, strict=True) if x == x}):
            job[RESOURCES] = known
        yield job


def write_members(
    out: Path,
    nb_res: int,
    jobs: Iterable[dict[str, Any]],
    profiles: Callable[[], Mapping[str, Any]],
    description: Mapping[str, object],
    *,
    version: BatsimVersion = 4,
    source: Path | None = None,
    workload: str = FIRST_WORKLOAD,
) -> int:
    """Write a Batsim workload, a line for each job and profile; returns the number of jobs.

    `jobs` are checked ones in version 4's form, in the file's order; `profiles` returns theirs, once the jobs are
    written. `source`: what messages call the workload. `workload`: the name that Batsim 5 will give it.
    """
    where, encode, n_jobs = source or out, JSONEncoder(ensure_ascii=False).encode, 0
    if version == 5:
        jobs = (job_for_version_5(f"{where}: job {job['id']!r}", job, workload) for job in jobs)
    left = iter(jobs)
    with whole_file(out) as file:
        file.write(b'{"nb_res": %d,\n' % nb_res)
        if description:
            file.write(b'"description": %b,\n' % orjson.dumps(description))
        file.write(b'"jobs": [')
        while some := list(islice(left, JOBS_AT_ONCE)):
            file.write((",\n" if n_jobs else "\n").encode() + ",\n".join(map(encode, some)).encode())
            n_jobs += len(some)
        file.write(b'\n],\n"profiles": {')
        for place, (name, profile) in enumerate(profiles().items()):
            if version == 5:
                profile = profile_for_version_5(f"{where}: profiles[{name!r}]", name, profile, workload)
            file.write(f"{',' * (place > 0)}\n{encode(name)}: {encode(profile)}".encode())
        file.write(b"\n}}\n")
    return n_jobs


def amount_shown(amount: float) -> float | str:
    return short_number(amount) if amount < inf else "no amount"


def short_number(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds
