"""Policies as configurations of real batch systems: the nearest one, and how it differs from the policy.

Each system has one function from an order of the queue to its configuration files, what they lack of the options, and
the system's own habits. No configuration is exactly a simulation: a real system reserves nodes rather than a number of
processors, and has its own schedule of decisions. Statements about a system come from its manual or source, named in
`System.sources`; the manual's name of an option is in brackets.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.tables import Keyed, text_html
from batfill.base.version import __version__
from batfill.base.words import wrapped
from batfill.model.jobs import HOUR_S
from batfill.model.option_texts import policy_words
from batfill.model.options import (
    ALL,
    ALWAYS,
    CLASS,
    EVERY,
    HALF,
    NO_PRESET,
    NO_SMALL,
    OPTIONS,
    PRESETS,
    REQUEST,
    Options,
    of_arguments,
)
from batfill.model.rules import EVERY_JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from batfill.model.jobs import Overrun, Unrequested, Workload
    from batfill.model.policy import Policy
    from batfill_site.slurm.exported import Trial

Support = Literal["expressible", "approximate", "not expressible"]
EXPRESSIBLE: Support = "expressible"
APPROXIMATE: Support = "approximate"
IMPOSSIBLE: Support = "not expressible"
MANY = 1_000_000  # more jobs than ever wait

# The policies' keys, lowest first, as text valid in both Python and Lua, except WAITING.
# r: submission, p: requested time, w: waiting time, all in seconds; q: processors.
ARRIVAL = {"fcfs": "r", "lcfs": "-r"}
SMALLEST_FIRST = {"spf": "p", "sqf": "q", "saf": "p * q", "srf": "p / q"}
LARGEST_FIRST = {"lpf": "-p", "lqf": "-q", "laf": "-(p * q)", "lrf": "-(p / q)"}
WAITING = {
    "sexp": "(w + p) / p",
    "lexp": "-((w + p) / p)",
    "wfp3": "-((w / p) ** 3 * q)",
    "unicef": "-(w / (log2(max(q, 2)) * p))",
}
UNBOUNDED = {"wfp3"}  # of WAITING: those whose values have no bound
KEYS = {**ARRIVAL, **SMALLEST_FIRST, **LARGEST_FIRST, **WAITING}
FEATURE_TEXTS = ("q", "p", "w", "p / q", "(w + p) / p", "p * q")  # of a mixed policy, as `policy.FEATURES`

NODES = "reservations are for nodes chosen in advance, not for a number of processors"
ONE_MACHINE = (
    "a simulation has one queue for one machine of equal processors: what jobs wait for partitions or queues, GPUs, "
    "memory, licences and reservations in advance is in none of its figures"
)
OF_POOLS = "memory, licences and", "memory and licences without a pool, and"
FIGURES = (
    "those of replay and what-if are of a simulation, and no cluster's run under these files was compared with them"
)
ON_LOG = f"{FIGURES}; --on LOG runs the files in a model of Slurm"
BESIDE = {  # of a site, whatever the order of its queue
    "calendar": "the calendar's windows, for which you reserve nodes in the batch system itself",
    "backfill_while": "the gate, by which you switch backfilling on and off in the batch system itself",
    "energy_budget": "the energy budget, which none of these systems has",
    "pool": "the pools of what jobs take beside processors, which you define in the batch system itself",
    "max_running": "the limit of running jobs per user, which you set in the batch system itself",
}
LOGS_CLOCK = "it counts the submission time from the first second of a log, which a running cluster does not have"
NO_FORMULA = "only the keys of `batfill policies` are known as formulas, and its key is not among them"
NO_CLASSES = (
    "it knows what a job requests, and not the class that a classifier gives it; to put those jobs first that request "
    "little, give --small class --divider 10min instead of --small {small}"
)
NO_DIVIDER = "it learns no divider: give --divider 2min, and --kill needed or always"
NO_PREDICTIONS = "it knows what a job requests, and predicts no run time"


@dataclass(frozen=True, slots=True)
class SiteConfig(Keyed):
    """The batch system configuration nearest to a policy."""

    system: str
    written_for: str  # the versions of the system
    batfill: str  # the version that wrote it
    policy: str
    options: dict[str, Any]  # those other than the defaults: `backfill`, `threshold` in seconds
    verdict: Support  # expressible: nothing is lacking
    lacks: tuple[str, ...]  # what the files do not do of the given options, one sentence each; or why there are none
    gives: dict[str, Any]  # the options that the files have instead of the given ones, None for the default
    differs: tuple[str, ...]  # the system's own habits, which differ from a simulation whatever the options
    tested: str  # what of the files was tested; empty if there are none
    files: dict[str, str]  # text by file name, or by the command that reads it; each begins with a title
    sources: tuple[str, ...]
    trial: Trial | None = None  # what the files give on a log

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """The verdict, what is lacking, habits and sources as comments, then each file below its name."""
        head = [f"{self.title}: {self.verdict}", *self.wanted]
        head += [f"differs: {line}" for line in self.differs]
        head += [f"source: {line}" for line in self.sources]
        parts = ["\n".join(wrapped(f"# {line}", "#   ") for line in head)]
        parts += [f"{mark_of(file)} {file}\n{text.rstrip()}" for file, text in self.files.items()]
        return "\n\n".join(parts)

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The text, for notebooks."""
        return text_html(self.as_text())

    def usable(self) -> SiteConfig:
        """The same, if there are files.

        Raises:
            BatfillError: no configuration of the system does what the options say.
        """
        if not self.files:
            raise BatfillError(f"{self.summary}; choose other options or another system")
        return self

    def lacking(self, *, accepted: bool) -> str | None:
        """One line on what the files lack; None if that is nothing, or if it is accepted."""
        return None if accepted or not self.lacks else f"{self.summary}; add --approximate if that will do"

    @property
    def summary(self) -> str:
        """What was to be configured, the verdict, and what is lacking."""
        return f"{self.stated}, for {self.written_for}: {self.verdict}: {'; '.join(self.lacks)}"

    @property
    def stated(self) -> str:
        """The policy and the given options."""
        return ", ".join([self.policy, *(f"{name} {OPTIONS[name].with_unit(v)}" for name, v in self.options.items())])

    @property
    def given(self) -> dict[str, Any]:
        """The options that the files have."""
        return {"policy": self.policy, **self.options, **self.gives}

    @property
    def title(self) -> str:
        """What the files give, in words, the system with its versions, and the version of batfill."""
        return f"{self.words}, for {self.written_for}; written by batfill {self.batfill}"

    @property
    def words(self) -> str:
        """What the files give, in words."""
        return policy_words(self.named)[0]

    @property
    def named(self) -> dict[str, Any]:
        """The options that the files have, without the values of a preset that they name."""
        usual = PRESETS[self.options.get("preset", NO_PRESET)].values
        return {name: value for name, value in self.given.items() if name not in usual or usual[name] != value}

    def header(self, file: str) -> str:
        """The first lines of a file: what it gives, the given options, what it lacks of them, and what was tested."""
        mark, lines = mark_of(file), [self.title, *self.wanted]
        return "".join(wrapped(f"{mark} {line}", f"{mark}   ") + "\n" for line in lines)

    @property
    def wanted(self) -> list[str]:
        """The given options, what the files lack of them, what was tested, and whose the figures are."""
        return [
            f"{'wanted' if self.lacks else 'options'}: {self.stated}",
            *(f"lacks: {line}" for line in self.lacks),
            *([f"tested: {self.tested}"] if self.files else []),
            *(f"figures: {line}" for line in self.figures),
        ]

    @property
    def figures(self) -> list[str]:
        """What is known of the figures that the files give."""
        if self.trial is not None:
            return self.trial.lines
        modelled = "slurm.conf" in self.files and "slurm_tries.py" not in self.files
        return [ON_LOG if modelled else FIGURES] if self.files else []


@dataclass(frozen=True, slots=True)
class Draft:
    """A system's configuration of one order: habits, files, and what these lack; without files, the reasons."""

    differs: list[str]
    files: dict[str, str]
    lacks: list[str]
    gives: dict[str, Any] = field(default_factory=dict)

    def lack(self, line: str, **instead: Any) -> None:
        """Note what the files do not do of the options, and the options that they have instead."""
        self.lacks.append(line)
        self.gives.update({name.replace("_", "-"): value for name, value in instead.items()})

    @classmethod
    def refused(cls, why: str) -> Draft:
        """No configuration, for this reason."""
        return cls([], {}, [why])


@dataclass(frozen=True, slots=True)
class SiteOrder:
    """An order of the queue in sections: overdue jobs, small jobs, all others."""

    policy: Policy
    key: str  # of the policy, see `key_text`
    threshold_s: float | None = None  # jobs that have waited longer are overdue; None if it changes nothing
    divider_s: float | None = None  # jobs that request at most this are small
    depth: int = 1  # how many jobs get a reservation,
    tested: int = EVERY_JOB  # and how many must wait before a pass stops; EVERY_JOB: all that wait
    tries: Options | None = None  # if every narrow job first gets a try: how wide, and when it is killed


@dataclass(frozen=True, slots=True)
class System:
    """A batch system that policies can be exported to."""

    title: str
    written_for: str
    sources: tuple[str, ...]
    draft: Callable[[SiteOrder], Draft]
    tested: str  # what of its files was tested
    no_tries: str  # why it cannot kill a job at a divider and queue it again as a large one, by itself


def mark_of(file: str) -> str:
    """The characters that begin a comment in this file."""
    return "--" if file.endswith(".lua") else "#"


def key_text(policy: Policy) -> str | None:
    """The policy's key as text; None if no formula of it is known here."""
    kind, _, numbers = policy.name.partition(":")
    if kind == "aged":
        c_s, alpha, beta = numbers.split(",")
        size = f"max(p, 1) ** ({alpha}) * q ** ({beta})"
        return f"-(({c_s} + w) / ({size}))" if policy.moves else ARRIVAL["fcfs"]
    if policy.weights is None:
        return KEYS.get(policy.name)
    terms = zip(policy.weights, FEATURE_TEXTS, strict=True)
    return " + ".join(f"({weight:.17g}) * ({feature})" for weight, feature in terms if weight != 0)


def reads_clock(policy: Policy) -> bool:
    """Whether the order of two jobs depends on when the log began: the key is not linear in the submission time."""
    hours = np.array([0.0, 1.0, 2.0]) * HOUR_S
    key, rise = policy.lines(hours, np.full(3, float(HOUR_S)), np.ones(3, np.int64))
    return bool(np.ptp(np.diff(key)) > 1e-9 * max(1.0, float(np.abs(key).max())) and not np.ptp(rise))


def renamed(key: str, **names: str) -> str:
    """The key with other names for the symbols r, p, q and w."""
    return re.sub(r"\b[rpqw]\b", lambda symbol: names[symbol[0]], key)


def reads(key: str, symbol: str) -> bool:
    """Whether the key contains the symbol."""
    return re.search(rf"\b{symbol}\b", key) is not None


# Slurm

SLURM_SOURCES = (
    "slurm.conf(5): SchedulerParameters, PriorityType, JobSubmitPlugins; https://slurm.schedmd.com/slurm.conf.html",
    "multifactor priority, the site factor; https://slurm.schedmd.com/priority_multifactor.html",
)
SLURM_DIFFERS = (
    "backfilling runs every second and not at every event (bf_interval), and a pass ends after ten minutes or "
    "bf_max_job_test jobs (bf_max_time), those that it starts included; on a busy controller it waits for other "
    "requests first (max_rpc_cnt)",
    "a job that would start more than 30 days from now has no reservation and may starve (bf_window, which is at its "
    "maximum)",
    "running jobs that end within half a minute or more of each other count as ending together (bf_window_linear; "
    "leave it out if many hundred jobs run at a time)",
    f"{NODES}, and each partition counts its own (bf_job_part_count_reserve)",
    "fair share, QOS, partition, association, age and size have no weight in the order (PriorityWeight... or "
    "priority/basic below): if your slurm.conf gives them one, users lose what it gave them",
    "a time limit is counted in minutes; without one it is the partition's (DefaultTime, MaxTime), or a year",
)
SLURM_THRESHOLD = (
    "no threshold: a job that has waited long does not come first; that takes a plug-in in C (PrioritySiteFactorPlugin)"
)
SLURM_TRIES = (
    "Slurm ends a job at its time limit for good (RequeueExit takes exit codes only), and a job that is preempted and "
    "queued again (PreemptMode=REQUEUE, PreemptExemptTime) keeps its limit and its place, and can be killed again"
)
SLURM_TESTED = "slurmctld 22.05.8 reads the files, and gives waiting jobs the policy's order"
SLURM_TRIES_TESTED = "slurmctld 22.05.8 with one node of 16 CPUs ran 60 jobs and an array of 40 as described"
SLURM_PLUGIN = "a user can lower a job's priority (--nice), and a job that is changed later keeps its place"
SLURM_CPUS = (
    "a job's CPUs count as it requests them, not as it is given them, which may be more with whole nodes or cores "
    "(--exclusive, OverSubscribe=EXCLUSIVE, SelectType=select/linear, SelectTypeParameters=CR_Core)"
)
SLURM_CONF = """\
SchedulerType=sched/backfill
SchedulerParameters={reserve},bf_interval=1,bf_max_time=600,bf_max_job_test={tested},bf_continue,\
bf_window=43200,bf_window_linear=1,bf_resolution=1,max_rpc_cnt=150
"""
SLURM_LIMIT = """\
# The limit of running jobs per user: sacctmgr modify qos normal set MaxJobsPerUser={most}
AccountingStorageEnforce=limits,qos
"""
SLURM_NONE = f"bf_min_prio_reserve={2**32 - 1}"
SLURM_FACTOR = """\
PriorityType=priority/multifactor
# The site factor, which the submit plug-in sets, is the whole priority.
PriorityWeightAge=0
PriorityWeightAssoc=0
PriorityWeightFairshare=0
PriorityWeightJobSize=0
PriorityWeightPartition=0
PriorityWeightQOS=0
# The plug-in is job_submit.lua in the folder of slurm.conf.
JobSubmitPlugins=lua
"""
SLURM_TRIES_CONF = """\
JobRequeue=1
# First tries: name the nodes of your default partition here. slurm_tries.py ends and requeues what runs in this one.
PartitionName=first-try Nodes=ALL MaxTime={minutes} OverTimeLimit=UNLIMITED
"""
SLURM_LOOKS = (
    "a try is decided on by slurm_tries.py, which looks every 15 seconds, counts CPUs alone (no memory, GRES or "
    "partition but the default one), and must always run",
    "a job that is queued again waits for two minutes before it can start (AuthInfo=cred_expire)",
)
SLURM_STANDS_BACK = (
    "a job becomes due at a look: until then a new one may start as a try in a backlog; due jobs go by the minute of "
    "their submission, and stay due if a failure ends them",
    "CPUs on any node count as idle for a large head; a backlog has no jobs that wait for something other than CPUs",
)
SLURM_TRIED = (
    "only batch jobs of the default partition that may be queued again get a try (not salloc and srun, nor sbatch "
    "--no-requeue); the width is a share of its CPUs",
    "a job that outlives its request in first-try is cancelled at the next look, not timed out",
    "a wait is counted from the submission, even if a job could not start yet (--begin, --dependency)",
)
# Logarithms of keys from 1e-6 to 1e15 times this, from the middle, stay between 1 and 2e9.
SLURM_MIDDLE, SLURM_PER_E = 1_000_000_000, 28_000_000
SLURM_ORIGIN = 1_735_689_600  # 2025-01-01 00:00 UTC: r counts from here, so that it fits for decades
# The largest values a mixed policy's key is scaled for: 10,000 CPUs, 30 days, ten years after the origin.
SLURM_LARGEST = {"q": 1e4, "p": 2.6e6, "w": 3.2e8, "p / q": 2.6e6, "p * q": 2.6e10}


def slurm(order: SiteOrder) -> Draft:
    """Slurm: a site factor from a submit plug-in in Lua, and as many reservations as asked for."""
    policy, key, tries = order.policy, order.key, order.tries
    aged = policy.name.startswith("aged:") and policy.moves
    if policy.moves and not (aged and tries):
        why = "jobs change places while they wait, and a submit plug-in sees a job once"
        return Draft.refused(f"{why}; it takes a plug-in in C (PrioritySiteFactorPlugin)")
    differs = [*SLURM_DIFFERS]
    lacks: list[str] = []
    conf = SLURM_CONF.format(
        # Without a limit, 0, every job that is tested has a reservation; the highest priority is less than 2^32 - 1.
        reserve=f"bf_job_part_count_reserve={order.depth % EVERY_JOB}" if order.depth else SLURM_NONE,
        tested=10_000 if order.tested == EVERY_JOB else min(order.tested, MANY),
    )
    if key == ARRIVAL["fcfs"] and order.divider_s is None:
        return Draft(differs, {"slurm.conf": conf + "PriorityType=priority/basic\n"}, [])
    differs.append(SLURM_PLUGIN)
    differs += [SLURM_CPUS] if reads(key, "q") else []
    sections: set[str] = set()  # of the plug-in's template
    step = age_s = 1.0
    shared = 1 if order.divider_s is None else 2  # sections that share the factors
    if key in ARRIVAL.values():
        place, shared = "r" if key == ARRIVAL["lcfs"] else f"{SLURM_MIDDLE} - r", 1
    elif aged:
        c_s, alpha, beta = policy.name.removeprefix("aged:").split(",")
        age_s, size = max(float(c_s), 1.0), f"({alpha}) * math.log(p) + ({beta}) * math.log(q)"
        place = f"{SLURM_MIDDLE} + {SLURM_PER_E} * (math.log({age_s:.17g}) - ({size}))"
        differs.append("a job that ages moves up when its key has changed by about a hundredth")
    elif policy.weights is None:
        sign, smallest = ("+", key[1:]) if policy.name in LARGEST_FIRST else ("-", key)
        place = f"{SLURM_MIDDLE} {sign} {SLURM_PER_E} * math.log({smallest})"
        differs.append(f"keys that differ by less than a part in {28 // shared} million count as equal")
    else:
        step = slurm_step(policy)
        place = f"{SLURM_MIDDLE} - ({renamed(key, p='p', q='q', r='r', w='-r')}) / STEP"
        sections.add("step")
        differs.append(
            f"keys (of weights with L1 norm 1) that differ by less than {shared * step:.3g} count as equal, and so do "
            f"those above {1e9 * step:.2g} and those below {-1e9 * step:.2g} (STEP in the plug-in, which is chosen so "
            "that 10,000 CPUs, 30 days and the year 2034 fit; take a smaller one for a smaller machine)"
        )
    if re.search(r"\br\b", place):
        sections.add("submission")
    files, minutes = {"slurm.conf": conf + SLURM_FACTOR}, math.ceil((order.divider_s or 0) / 60)
    if order.divider_s is not None:  # the upper half of the factors is for small jobs
        place = place if shared == 1 else f"({place}) / {shared}"
        sections |= {"sections", "small" if tries is None else "tries"}
        if tries is not None:
            files["slurm.conf"] += SLURM_TRIES_CONF.format(minutes=minutes)
            files["slurm_tries.py"] = slurm_script(
                TRY_S=tries.divider_s,
                ALWAYS=tries.kill == ALWAYS,
                THRESHOLD_S=math.inf if order.threshold_s is None else order.threshold_s,
                HALF=tries.overdue == HALF,
                STAND_BACK=math.inf if tries.stand_back is None else tries.stand_back,
                AGE_S=age_s,
                RISE=SLURM_PER_E / shared if aged else 0.0,
            )
            differs += SLURM_TRIED
            lacks += SLURM_LOOKS
            lacks += SLURM_STANDS_BACK if tries.stand_back is not None else ()
            if order.divider_s % 60:
                lacks.append(f"a try is expected to end after {minutes} min: Slurm has no limits of seconds")
    files["job_submit.lua"] = slurm_plugin(
        sections,
        step=f"{step:.3g}",
        origin=SLURM_ORIGIN,
        place=place,
        middle=SLURM_MIDDLE,
        divider=f"{order.divider_s or 0:.17g}",
        width=f"{tries.small_width if tries else 1:.17g}",
        minutes=minutes,
    )
    draft = Draft(differs, files, lacks)
    if order.threshold_s is not None and tries is None:
        draft.lack(SLURM_THRESHOLD, threshold=None, overdue=None)
    return draft


def slurm_plugin(sections: Collection[str], **values: object) -> str:
    """The submit plug-in, with these sections of its template and these values."""
    text = (Path(__file__).parent / "job_submit.lua").read_text()
    section = re.compile(r"--<(\w+)>\n(.*?)--</\1>\n", re.DOTALL)
    return Template(section.sub(lambda found: found[2] if found[1] in sections else "", text)).substitute(values)


def slurm_script(**values: float) -> str:
    """The script that decides on first tries, with these numbers."""
    text = (Path(__file__).parent / "slurm_tries.py").read_text()
    for name, value in values.items():
        text = re.sub(rf"^({name}: \w+ =) \w+", rf"\1 {value!r}", text, flags=re.MULTILINE)
    return text


def slurm_step(policy: Policy) -> float:
    """The difference of a mixed policy's keys that is one step of the site factor."""
    weights = dict(zip(FEATURE_TEXTS, policy.weights or (), strict=True))
    largest = sum(abs(weights[feature]) * most for feature, most in SLURM_LARGEST.items())
    return float(f"{largest / SLURM_MIDDLE:.3g}")


# OAR

OAR_SOURCES = (
    "JOB_PRIORITY, CUSTOM_JOB_SORTING and the entry points oar.jobs_sorting_func: oar/kao/kamelot.py of "
    "https://github.com/oar-team/oar3",
    "the walltime that a sorting function sees, with SCHEDULER_JOB_SECURITY_TIME: oar/lib/job_handling.py there",
)
OAR_DIFFERS = (
    "reservations are for resources chosen in advance, not for a number of processors",
    "a pass runs when OAR's scheduler is called, not at every event",
    "a job holds its resources for some time after its walltime (SCHEDULER_JOB_SECURITY_TIME)",
    "fair share (karma) and multifactor priorities no longer order jobs (JOB_PRIORITY)",
)
OAR_TESTED = "the sorting function gives random jobs the policy's order; no OAR has read the files"
OAR_CONSERVATIVE = "every waiting job has a reservation (conservative backfilling), as with --depth all"
OAR_REQUEST = (
    "a job counts as its first alternative requests (moldable jobs), without a walltime as the default "
    "(DEFAULT_JOB_WALLTIME), and a request that ends at nodes counts nodes, not processors"
)
OAR_TRIES = (
    "OAR queues a job again only as it was (idempotent jobs), with the same walltime and the same place, and not one "
    "that its walltime ended"
)
OAR_SECURITY_S = 60
OAR_CONF = """\
# The queue's scheduler must be kamelot.
JOB_PRIORITY="CUSTOM"
CUSTOM_JOB_SORTING="batfill_{name}"
# The sorting function takes this away from the walltimes that it sees: change it in both.
SCHEDULER_JOB_SECURITY_TIME="{security}"
"""
OAR_PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "batfill-sorting"
version = "1"

[project.entry-points."oar.jobs_sorting_func"]
batfill_{name} = "batfill_sorting:{name}"

[tool.setuptools]
py-modules = ["batfill_sorting"]
"""
OAR_FUNCTION = '''\
from math import inf, log2, prod

THRESHOLD_S = {threshold}
DIVIDER_S = {divider}  # jobs that request at most this are small
SECURITY_S = {security}  # SCHEDULER_JOB_SECURITY_TIME of oar.conf


def request_of(job):
    """Walltime in seconds and number of resources in the job's first alternative."""
    _, held_s, groups = job.mld_res_rqts[0]
    resources = sum(prod(max(count, 1) for _, count in levels) for levels, _ in groups)
    return max(held_s - SECURITY_S, 1), resources


def {name}(queues, now, jids, jobs, config, platform):
    def place(jid):
        job = jobs[jid]
        r, w = job.submission_time, now - job.submission_time
        p, q = request_of(job)
{sections}        return (2, {key}, r, jid)

    return sorted(jids, key=place)
'''


def oar(order: SiteOrder) -> Draft:
    """OAR 3: a sorting function in Python, which can compute any key, before conservative backfilling."""
    key, name = order.key, order.policy.name.partition(":")[0]
    sections = [("w > THRESHOLD_S", "r"), ("p <= DIVIDER_S", key)]
    function = OAR_FUNCTION.format(
        name=name,
        threshold="inf" if order.threshold_s is None else f"{order.threshold_s:.17g}",
        divider="0" if order.divider_s is None else f"{order.divider_s:.17g}",
        security=OAR_SECURITY_S,
        sections="".join(
            f"        if {test}:\n            return ({k}, {value}, r, jid)\n"
            for k, (test, value) in enumerate(sections)
        ),
        key=key,
    )
    files = {
        "/etc/oar/oar.conf": OAR_CONF.format(name=name, security=OAR_SECURITY_S),
        "pyproject.toml": OAR_PROJECT.format(name=name),
        "batfill_sorting.py": function,
    }
    requested = order.divider_s is not None or reads(key, "p") or reads(key, "q")
    differs = [*OAR_DIFFERS, OAR_REQUEST] if requested else [*OAR_DIFFERS]
    draft = Draft(differs, files, [])
    if order.depth != EVERY_JOB:
        draft.lack(OAR_CONSERVATIVE, depth=ALL)
    if order.tested != EVERY_JOB:
        draft.lack("a pass looks at all waiting jobs, not at the first few", tested=ALL)
    return draft


# OpenPBS

PBS_SOURCES = (
    "job_sort_formula, backfill_depth, eligible_time_enable, resources_default: pbs_server_attributes(7B)",
    "opt_backfill_fuzzy, job_sort_formula_threshold, sched_cycle_length: pbs_sched_attributes(7B), and their defaults "
    "in fifo.cpp of the scheduler; strict_ordering: pbs_sched_config; https://github.com/openpbs/openpbs",
)
PBS_DIFFERS = (
    "a pass runs once per scheduling cycle, not at every event (scheduler_iteration; submissions and ends start one "
    "too), and ends after sched_cycle_length",
    NODES,
    "queues have no priority (by_queue, round_robin), and fair share no place in the order",
)
PBS_TESTED = "the formula gives random jobs the policy's order; no PBS has read the files"
PBS_ELIGIBLE = (
    "a wait is counted by eligible_time, which leaves out what a job waited because of its owner (limits, holds, "
    "dependencies)"
)
PBS_WALLTIME = "a job without a walltime counts as five years (resources_default.walltime; without it, as 0 in the key)"
PBS_LEAST = "a job never runs while its formula is not above job_sort_formula_threshold, if you set one"
PBS_CPUS = "a job's ncpus count as it requests them, not as it is given them with whole nodes (place=excl)"
PBS_TRIES = (
    "PBS ends a job at its walltime for good, and a job that is preempted and queued again (preempt_order) keeps its "
    "walltime and its place"
)
PBS_ALL = "a cycle looks at all waiting jobs (until sched_cycle_length is over), not at the first few"
PBS_UNBOUNDED = "small or overdue jobs go first by values above all others, and its values have no bound"
PBS_SMALL = "keys of small jobs that differ by less than 0.2 count as equal"
PBS_NAMES = {"r": "(-eligible_time)", "p": "walltime", "q": "ncpus", "w": "eligible_time"}
PBS_OVERDUE = "10**15 + eligible_time"  # above any other value, and whole seconds are exact in it
PBS_FIRST = "10**9"  # of small jobs: values of bounded keys are below 2 * 10**8


def pbs(order: SiteOrder) -> Draft:
    """OpenPBS: a formula for the order; without a reservation, jobs are not strictly ordered."""
    key, sections = order.key, (order.threshold_s, order.divider_s) != (None, None)
    aged = order.policy.name.startswith("aged:")
    if (aged and "(-" in key[2:] and sections) or (order.policy.name in UNBOUNDED and order.divider_s is not None):
        return Draft.refused(PBS_UNBOUNDED)
    differs = [*PBS_DIFFERS]
    server = [
        f"set server backfill_depth = {min(order.depth, MANY)}",
        "set sched default opt_backfill_fuzzy = off",
        "# PBS plans five years for a job without a walltime. Leave this line out if you have a default of your own.",
        "set server resources_default.walltime = 43800:00:00",
    ]
    if key == ARRIVAL["fcfs"] and not sections:
        server.append("unset server job_sort_formula")
    else:
        formula = pbs_formula(order)
        differs.append(PBS_LEAST)
        server += [
            "# Highest first. A job whose value is not above job_sort_formula_threshold never runs: leave that unset,",
            "# which means -2147483648; the values are in millionths to stay above it.",
            f'set server job_sort_formula = "{formula}"',
        ]
        if "eligible_time" in formula:
            differs.append(PBS_ELIGIBLE)
            server.append("set server eligible_time_enable = True")
        differs += [PBS_CPUS] if reads(key, "q") else []
        differs += [PBS_SMALL] if order.divider_s is not None else []
    differs.append(PBS_WALLTIME)
    config = "by_queue: False ALL\nround_robin: False ALL\n"
    config += f"strict_ordering: {order.depth > 0} ALL\nhelp_starving_jobs: False ALL\n"
    draft = Draft(differs, {"qmgr": "\n".join(server) + "\n", "$PBS_HOME/sched_priv/sched_config": config}, [])
    if order.tested < EVERY_JOB:
        draft.lack(PBS_ALL, tested=ALL)
    return draft


def pbs_formula(order: SiteOrder) -> str:
    """The order as a formula; PBS takes the highest value first, and each section exceeds the next."""
    # Logarithms to any base give the same order, and PBS documents only the functions of Python's math module.
    key = order.key.replace("log2(max(q, 2))", "log(q if q > 1 else 2)").replace("max(p, 1)", "(p if p > 1 else 1)")
    key = renamed(key, **PBS_NAMES)
    value = f"{key[1:]} / 1000000" if key.startswith("-") else f"-({key}) / 1000000"
    small = f"{PBS_FIRST} + {value} if walltime <= {order.divider_s or 0:.17g}"
    overdue = f"{PBS_OVERDUE} if eligible_time > {order.threshold_s or 0:.17g}"
    if order.threshold_s is None:
        return value if order.divider_s is None else f"{small} else {value}"
    if order.divider_s is None:
        return f"{overdue} else {value}"
    return f"{overdue} else {small} else {value}"


# Flux

FLUX_SOURCES = (
    "flux-config-sched-fluxion-qmanager(5): queue-policy, queue-params.queue-depth, policy-params.reservation-depth; "
    "https://github.com/flux-framework/flux-sched",
    "flux-submit(1), --urgency; flux-jobtap-plugins(7), job.priority.get; https://github.com/flux-framework/flux-core",
)
FLUX_TRIES = "Flux ends a job at its duration for good"
FLUX_DIFFERS = (
    NODES,
    "a pass runs when Fluxion's scheduling loop comes to it, not at every event",
    "a job of higher urgency comes first (--urgency, which is 16 unless it is set), and a plug-in that sets "
    "priorities, such as flux-accounting's with fair share, stays in force",
    "a job without a time limit has no expected end (policy.jobspec.defaults.system.duration sets one)",
)
FLUX_TESTED = "nothing: the files follow Flux's manual"
FLUX_CONF = """\
[sched-fluxion-qmanager]
queue-policy = "{policy}"

# By default only 32 waiting jobs are considered. Older releases take the string
# queue-params = "queue-depth={depth},max-queue-depth={depth}" instead.
[sched-fluxion-qmanager.queue-params]
queue-depth = {depth}
max-queue-depth = {depth}
"""
FLUX_HYBRID = """\

[sched-fluxion-qmanager.policy-params]
reservation-depth = {depth}
"""


def flux(order: SiteOrder) -> Draft:
    """Flux with Fluxion, in order of submission: its policies easy, hybrid and conservative."""
    if order.key != ARRIVAL["fcfs"] or order.divider_s is not None:
        why = "a job's priority is the urgency that its owner gives it, from 0 to 31"
        return Draft.refused(f"{why}; any other takes a jobtap plug-in in C (job.priority.get)")
    if order.depth == 0:
        return Draft.refused("every policy that looks behind the first waiting job reserves for that one at least")
    named = {1: "easy", EVERY_JOB: "conservative"}
    conf = FLUX_CONF.format(policy=named.get(order.depth, "hybrid"), depth=min(order.tested, MANY))
    if order.depth not in named:
        conf += FLUX_HYBRID.format(depth=order.depth)
    return Draft([*FLUX_DIFFERS], {"/etc/flux/system/conf.d/fluxion.toml": conf}, [])


# All

SYSTEMS = {
    "slurm": System("Slurm", "Slurm 22.05", SLURM_SOURCES, slurm, SLURM_TESTED, SLURM_TRIES),
    "oar": System("OAR", "OAR 3.0", OAR_SOURCES, oar, OAR_TESTED, OAR_TRIES),
    "pbs": System("PBS", "OpenPBS 22", PBS_SOURCES, pbs, PBS_TESTED, PBS_TRIES),
    "flux": System(
        "Flux", "Flux with Fluxion, as the manual of flux-sched is in 2025", FLUX_SOURCES, flux, FLUX_TESTED, FLUX_TRIES
    ),
}


def site_config(
    system: str,
    policy: str | None = None,
    *,
    backfill: str | None = None,
    threshold_s: float | None = None,
    on: Workload | str | Path | None = None,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    **others: Any,
) -> SiteConfig:
    """The nearest configuration of the system to a policy, and what it lacks of the options.

    Args:
        system: a name of SYSTEMS.
        policy: the queue's order, as for `policy_named`; None for the preset's, or fcfs.
        backfill: the order of backfilling; None, `same` or the policy itself for the queue's own.
        threshold_s: jobs that have waited longer come first, in seconds; None for never.
        on: a log, as for `replay`, over which the files are run in a model of Slurm and compared with a replay.
        procs: see `replay`; with `on` only, as the two that follow.
        overrun: see `replay`.
        unrequested: see `replay`.
        **others: every other option of a replay, named as there. A divider puts those jobs first that request at most
            this.

    Raises:
        BatfillError: the system or policy is unknown, or an option or the log is unusable.
    """
    how = {"procs": procs, "overrun": overrun, "unrequested": unrequested}
    if on is None and (alone := [name for name, value in how.items() if value is not None]):
        raise BatfillError(f"{alone[0]}: is of a log; give one with --on (on=...), or leave it out")
    if not isinstance(system, str) or system not in SYSTEMS:
        raise BatfillError(f"batch system {system!r} is unknown; known are {', '.join(SYSTEMS)}")
    arguments = {"policy": policy, "backfill": backfill, "threshold_s": threshold_s, **others}
    options = Options.of(of_arguments(arguments))
    at = SYSTEMS[system]
    draft = draft_of(at, options)
    beside = {name: line for name, line in BESIDE.items() if getattr(options, name) is not None}
    if "slurm.conf" in draft.files and beside.pop("max_running", ""):
        draft.files["slurm.conf"] += SLURM_LIMIT.format(most=options.max_running)
        draft.differs.append("the limit of running jobs per user holds for jobs of the QOS normal, and needs slurmdbd")
    draft.lacks.extend(beside.values())
    one_machine = ONE_MACHINE if options.pool is None else ONE_MACHINE.replace(*OF_POOLS)
    verdict = IMPOSSIBLE if not draft.files else APPROXIMATE if draft.lacks else EXPRESSIBLE
    stated = {name: value for name, value in options.as_dict().items() if name != "policy"}
    found = SiteConfig(
        system=system,
        written_for=at.written_for,
        batfill=__version__,
        policy=options.policy.name,
        options={name: value for name, value in stated.items() if value is not None and value != OPTIONS[name].default},
        verdict=verdict,
        lacks=tuple(draft.lacks),
        gives=draft.gives,
        differs=(*draft.differs, *([one_machine] if draft.files else [])),
        tested=(SLURM_TRIES_TESTED if "slurm_tries.py" in draft.files else at.tested) if draft.files else "",
        files=draft.files,
        sources=at.sources,
    )
    if on is not None and found.files:
        if "slurm.conf" not in found.files:
            raise BatfillError(f"--on: there is a model of Slurm, and none of {at.title}; leave it out")
        from batfill_site.slurm.exported import tried

        found = replace(found, trial=tried(found.files, on, arguments, **how))
    for file, text in found.files.items():
        found.files[file] = f"{found.header(file)}{text}"
    return found


def draft_of(at: System, options: Options) -> Draft:
    """The system's configuration of these options, or the reason why there is none."""
    small, policy = options.small, options.policy
    if options.predict != REQUEST:
        return Draft.refused(NO_PREDICTIONS)
    tries = options if small == EVERY and at.draft is slurm else None
    if small not in (NO_SMALL, CLASS) and tries is None:
        return Draft.refused(at.no_tries if small == EVERY else NO_CLASSES.format(small=small))
    if tries is not None and not (tries.kills and tries.divider_s < math.inf):
        return Draft.refused(NO_DIVIDER)
    key = key_text(policy)
    if key is None:
        return Draft.refused(LOGS_CLOCK if reads_clock(policy) else NO_FORMULA)
    divider_s = None if math.isinf(options.divider_s) else options.divider_s
    # Under fcfs alone the oldest job is first anyway: a threshold changes nothing.
    never = math.isinf(options.threshold_s) or (key == ARRIVAL["fcfs"] and divider_s is None)
    threshold_s = None if never else options.threshold_s
    rules = options.rules
    draft = at.draft(SiteOrder(policy, key, threshold_s, divider_s, rules.depth, rules.tested, tries))
    if draft.files and options.backfill is not None and options.backfill.name != policy.name:
        draft.lack(f"jobs are backfilled in the queue's order: {at.title} has no other", backfill=None)
    if draft.files and options.keeps:
        draft.lack(f"the head's reservation is made in each pass: {at.title} keeps none", reservation=None)
    if draft.files and threshold_s is not None and options.overdue == HALF and tries is None:
        draft.lack(f"all overdue jobs go first: {at.title} cannot tell the older half of them", overdue=None)
    if draft.files and options.stand_back is not None and tries is None:
        why = f"{at.title} cannot tell such jobs"
        draft.lack(f"no job goes first because CPUs are idle for it or because many wait: {why}", stand_back=None)
    if draft.files and divider_s is not None and tries is None:
        draft.lacks.append(
            f"small jobs are those that request at most the divider, whatever their class and width, and none is tried "
            f"and killed there: {at.no_tries}"
        )
    return draft
