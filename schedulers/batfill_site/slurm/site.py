"""What a site's Slurm knows, as plain data: nodes, partitions, associations, QOS, settings, and its jobs.

The rules that use it are in docs/background/slurm.md. Times are in seconds, dates Unix times, memory in MB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill_site.slurm.hosts import expand

File = Path | str
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Records = NDArray[np.void]
NONE: Mapping[str, Any] = MappingProxyType({})
# From this version on, running jobs' ends are grouped in the new way, and an end waits for the next main pass.
# 17.11 and 22.05 are known to the second; 20.02 agrees with 17.11 as far as that can be told.
NEW_RULES = (20, 11)
FAIR_TREE_DEFAULT = (19, 5)  # Fair Tree is the default from this version on
MODES = ("off", "cancel", "requeue", "suspend")  # what becomes of a preempted job
_, CANCEL, REQUEUE, SUSPEND = range(len(MODES))


class Node(NamedTuple):
    """A node."""

    name: str
    cpus: int = 1
    memory_mb: int = 1
    gpus: int = 0
    gpu_type: str = ""
    features: frozenset[str] = frozenset()
    weight: int = 1
    threads: int = 1  # CPUs that a job takes together: those of a core with CR_Core


class Limits(NamedTuple):
    """The most that running jobs may hold together; None for no limit."""

    jobs: int | None = None
    cpus: int | None = None
    nodes: int | None = None
    memory_mb: int | None = None
    gpus: int | None = None


class Partition(NamedTuple):
    """A partition; its nodes by name."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 1
    job_factor: int = 1
    max_time_s: float | None = None
    max_nodes: int | None = None
    exclusive: bool = False  # each job has its nodes alone
    qos: str = ""  # whose limits hold for all jobs of the partition
    memory_per_cpu_mb: int = 0  # DefMemPerCPU, of jobs that name no memory
    memory_per_node_mb: int = 0  # DefMemPerNode; if both are 0 they take all of their nodes
    default: bool = False  # of jobs that name no partition
    billing: Mapping[str, float] = NONE  # TRESBillingWeights, such as {"cpu": 1.0, "gres/gpu": 2.0}; {}: CPUs
    preempt_mode: str = ""  # of its jobs, one of MODES; "": the site's
    grace_s: int = 0  # GraceTime: how long a preempted job goes on


class Association(NamedTuple):
    """An account, or a user in an account.

    Accounts without a parent are the children of root, and so is the user root in the account root, who has one share.
    """

    account: str
    user: str = ""  # "" for an account
    parent: str = ""  # an account's parent, "" for root; not read of a user
    shares: int = 1
    group: Limits = Limits()  # GrpJobs, GrpTRES: over all below it
    each: Limits = Limits()  # MaxJobs: of this association alone, or of each user below an account
    priority: int = 0
    usage: float = 0.0  # processor seconds, decayed, at the first job; an account's with all below it
    max_wall_s: float | None = None  # MaxWall: the longest limit of a job, unless an association below sets one
    per_job: Limits = Limits()  # MaxTRES: what a job may request, likewise


class Part(NamedTuple):
    """A part of the configuration that is not modelled; `named.py` says what is done about it."""

    kind: str  # partition, node or qos; "" for the whole site
    name: str
    text: str  # yes for a word without a value
    of: tuple[str, ...] = ()  # the QOS, or the partitions, whose jobs it could touch; () for all

    @property
    def key(self) -> str:
        return f"{self.kind}.{self.name}={self.text}".lower().removeprefix(".")

    @property
    def number(self) -> int:
        return int(self.text) if self.text.isdecimal() else 0

    def __str__(self) -> str:
        what = self.name if self.text == "yes" else f"{self.name}={self.text}"
        return f"{what} ({'QOS' if self.kind == 'qos' else 'partition'} {', '.join(self.of)})" if self.of else what


class Qos(NamedTuple):
    """A quality of service."""

    name: str
    priority: int = 0
    usage_factor: float = 1.0
    group: Limits = Limits()
    per_user: Limits = Limits()
    per_account: Limits = Limits()
    max_wall_s: float | None = None  # MaxWall: the longest limit of a job
    preempts: tuple[str, ...] = ()  # Preempt: the QOS whose jobs its jobs may preempt
    preempt_mode: str = ""  # as a partition's
    preempt_within: bool = False  # its jobs may preempt each other
    preempt_exempt_s: float | None = None  # PreemptExemptTime; None: the site's
    grace_s: int = 0
    no_reserve: bool = False  # NoReserve: no plan has a place for its jobs
    over_partition_qos: bool = False  # OverPartQOS: its limits go before those of the partition's QOS,
    over_time: bool = False  # PartitionTimeLimit: its jobs may be longer
    over_nodes: bool = False  # PartitionMaxNodes: or wider than their partition allows
    per_job: Limits = Limits()  # MaxTRES: what a job may request


class Window(NamedTuple):
    """Nodes that take no job from begin to end; what runs there goes on.

    A plan leaves its jobs out of an announced one, a reservation, as soon as it is announced; of another one, nodes
    that are down, it knows while they are.
    """

    nodes: tuple[str, ...]
    begin_s: float
    end_s: float
    announced_s: float = math.inf  # from when on a plan knows it; begin_s if that is earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of slurm.conf that the model has; defaults are those of Slurm's manual.

    `slurm/options.py` has the row of each: its name in slurm.conf, and how its text is read.
    """

    version: tuple[int, int] = (22, 5)
    # Priority. Without `multifactor` jobs go in the order of their submission.
    multifactor: bool = True
    weight_age: int = 0
    weight_fairshare: int = 0
    weight_job_size: int = 0
    weight_partition: int = 0
    weight_qos: int = 0
    weight_assoc: int = 0
    weight_tres: Mapping[str, float] = field(default_factory=lambda: NONE)  # as {"cpu": 1000, "mem": 2000}
    max_age_s: float = 7 * 86400.0
    half_life_s: float = 7 * 86400.0  # 0: usage does not decay
    calc_period_s: float = 300.0
    usage_reset: str = "NONE"  # or NOW, DAILY, WEEKLY, MONTHLY, QUARTERLY, YEARLY
    fair_tree: bool = True
    damping: float = 1.0  # of classic fair share
    favor_small: bool = False
    small_relative_to_time: bool = False
    accrue_always: bool = False  # age counts from submission, not from eligibility
    max_tres: bool = False  # a job's billing is the most of node-bound TRES plus the global ones, not the sum
    # Main pass
    default_queue_depth: int = 100
    partition_job_depth: int = 0  # 0: no limit; so in all that follow
    sched_interval_s: float = 60.0  # infinite: no main pass is made
    batch_sched_delay_s: float = 3.0
    sched_max_job_start: int = 0
    defer: bool = False  # no main pass at submissions
    # Backfill
    backfill: bool = True
    bf_interval_s: float = 30.0
    bf_window_s: int = 1440 * 60
    bf_resolution_s: int = 60
    bf_window_linear_s: int = 0  # 0: the span of ends that count as one doubles
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_max_job_user_part: int = 0
    bf_max_job_assoc: int = 0
    bf_max_job_start: int = 0
    bf_max_job_array_resv: int = 20
    bf_min_age_reserve_s: float = 0.0
    bf_min_prio_reserve: int = 0
    bf_job_part_count_reserve: int = 0
    licenses: Mapping[str, int] = field(default_factory=lambda: NONE)  # how many there are of each
    bf_licenses: bool = False
    bf_running_job_reserve: bool = False  # bf_licenses implies it
    # Preemption
    preempt: str = ""  # what decides who may preempt: partition_prio (tiers) or qos; "" for none
    preempt_mode: str = "off"  # of jobs whose partition, or QOS, has none; one of MODES
    preempt_within: bool = False  # jobs of any QOS may preempt others of theirs
    preempt_exempt_s: float = 0.0
    preempt_youngest_first: bool = False
    preempt_reorder_count: int = 1
    cred_expire_s: int = 120  # of AuthInfo: a requeued job is not eligible before
    job_requeue: bool = True  # jobs that do not say it may be requeued
    # Placement
    memory: bool = True  # memory is a resource: CR_*_Memory
    whole_nodes: bool = False  # select/linear
    least_loaded: bool = False  # CR_LLN
    serial_at_end: bool = False  # pack_serial_at_end


class Leaf(NamedTuple):
    """A leaf switch."""

    nodes: tuple[str, ...]
    above: tuple[str, ...] = ()  # the switches above it, from the next one to the top

    def hops(self, other: Leaf) -> int:
        """How many links are on the way to another leaf switch."""
        ways = (i + self.above.index(name) for i, name in enumerate(other.above) if name in self.above)
        return 2 + next(ways, len(self.above) + len(other.above))


@dataclass(frozen=True, kw_only=True)
class Site:
    """A site's Slurm."""

    nodes: tuple[Node, ...]  # by name: the order in which Slurm has them
    partitions: tuple[Partition, ...]
    switches: tuple[Leaf, ...] = ()  # in the file's order; () without a tree
    associations: tuple[Association, ...] = ()  # () for none: every user has one share, in the account of their jobs
    qos: tuple[Qos, ...] = ()
    settings: Settings = Settings()
    windows: tuple[Window, ...] = ()
    warnings: tuple[str, ...] = ()  # what was assumed; a sentence each
    named: tuple[Part, ...] = ()  # what is not modelled
    assumed: str = ""  # the version, if it was not given
    mixed: frozenset[str] = frozenset()  # types of GPUs that share nodes with others: jobs of these take any

    @cached_property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @cached_property
    def place(self) -> dict[str, int]:
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def partition_of(self) -> dict[str, Partition]:
        return {each.name: each for each in self.partitions}

    @cached_property
    def qos_of(self) -> dict[str, Qos]:
        return {each.name: each for each in self.qos}

    @property
    def suspends(self) -> bool:
        modes = {self.settings.preempt_mode, *(each.preempt_mode for each in self.partitions)}
        return self.settings.preempt == "partition_prio" and "suspend" in modes

    @property
    def supposed(self) -> tuple[str, ...]:
        """What is assumed, and how to give it."""
        of = self.settings
        fairshare, assoc, qos = (
            of.multifactor and weight > 0 for weight in (of.weight_fairshare, of.weight_assoc, of.weight_qos)
        )
        idle = of.preempt == "qos" and not any(each.preempts or each.preempt_within for each in self.qos)
        lacking = {
            NO_SHARES: ["one share"] * fairshare + ["no priority"] * assoc if not self.associations else [],
            NO_QOS: ["no priority"] * (qos and not self.qos) + ["no Preempt list, so no job is preempted"] * idle,
        }
        said = (text.format(" and ".join(what)) for text, what in lacking.items() if what)
        return (*said, *[self.assumed] * bool(self.assumed))

    @property
    def max_times_s(self) -> dict[str, float]:
        """The longest limit of each partition that has one, by its name: that of jobs without a limit."""
        return {each.name: each.max_time_s for each in self.partitions if each.max_time_s is not None}


NO_SHARES = "each account and each user has {}: give --accounts, what `sacctmgr dump` prints"
NO_QOS = "each QOS has {}: give --accounts, what `sacctmgr -P show qos` prints"
BURST, SWITCHES, TIME_MIN, LIMITED = 1, 2, 4, 8  # a burst buffer, --switches, --time-min, a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """Jobs as Slurm has them, one row each, by (submit_s, id). Every column has shape (n_jobs,).

    What a job asks for; what it holds follows from it. Rule P0 has the layouts.
    """

    ids: tuple[str, ...]
    submit_s: Floats
    eligible_s: Floats  # not before submit_s
    limit_s: Ints  # >= 1
    run_s: Floats  # what it really ran; only the loop reads it,
    leave_s: Floats  # and when its user cancels it, unless it has ended; inf for never
    cpus: Ints  # in all
    nodes: Ints  # the fewest
    max_nodes: Ints  # the most, 0 for no bound
    cpus_per_node: Ints  # the fewest on each
    cpus_per_task: Ints  # a node gives whole tasks
    min_nodes: Ints  # requested: what priority counts; 1 for `sbatch -n` alone
    memory_per_cpu_mb: Ints  # 0 if memory is per node
    memory_per_node_mb: Ints  # 0 if memory is per CPU
    memory_unsaid: Bools  # it named no memory: it takes its partition's default
    gpus_per_node: Ints
    gpu_type: tuple[str, ...]  # "" for any
    constraint: tuple[str, ...]  # features, such as IB&(CPU-N|CPU-M); "" for none
    partition: tuple[str, ...]  # in which it ran, or the first
    partitions: tuple[str, ...]  # all that it names, as a,b; "" for that one
    required: tuple[str, ...]  # nodes that it must have, as cb[01-06]; "" for none
    excluded: tuple[str, ...]  # nodes that it must not have
    licenses: tuple[str, ...]  # as ansys=2,fluent=1; "" for none
    qos: tuple[str, ...]
    account: tuple[str, ...]
    user: tuple[str, ...]
    array: Ints  # the job's array, -1 for none
    nice: Ints
    exclusive: Bools
    slept_s: Floats  # of run_s; not counted where the site suspends jobs
    requeue: Ints  # 1 if it may be requeued, 0 if not, -1 if it does not say: as the site has it
    # What the log says; never read by the model.
    started_s: Floats  # nan if it is not known
    ran_on: tuple[str, ...]  # node lists as cb[01-06]; "" if not known
    preempted: Ints  # how often it was
    held: Bools  # it waited for something that is not modelled, or ran in a reservation
    marks: Ints  # what else it asked or waited for: BURST and so on
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, submit_s: Floats, **columns: Any) -> SlurmJobs:
        """Jobs of one CPU and a minute in a partition without a name, but for these columns."""
        n = len(submit_s)
        usual: dict[str, Any] = {"ids": tuple(map(str, range(n))), "submit_s": submit_s, "eligible_s": submit_s}
        usual |= dict.fromkeys(("cpus", "nodes", "cpus_per_node", "cpus_per_task", "min_nodes"), np.ones(n, np.int64))
        usual["max_nodes"] = columns.get("nodes", usual["nodes"])
        usual |= {"limit_s": np.full(n, 60), "run_s": np.full(n, 60.0), "array": np.full(n, -1)}
        usual["requeue"] = np.full(n, -1)
        usual |= dict.fromkeys(("exclusive", "held", "memory_unsaid"), np.zeros(n, bool))
        usual["started_s"], usual["leave_s"] = np.full(n, np.nan), np.full(n, np.inf)
        for each in fields(cls):
            usual.setdefault(each.name, ("",) * n if "str" in str(each.type) else np.zeros(n, np.int64))
        return cls(**usual | {"warnings": ()} | columns)

    def select(self, rows: Sequence[int] | NDArray[np.intp]) -> SlurmJobs:
        columns = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "warnings"}
        at = np.asarray(rows, np.intp)
        chosen: dict[str, Any] = {
            name: tuple(column[i] for i in at.tolist()) if isinstance(column, tuple) else column[at]
            for name, column in columns.items()
        }
        return replace(self, **chosen)

    def followed_by(self, other: SlurmJobs) -> SlurmJobs:
        """These jobs, then the other ones, which come later."""
        pairs = ((each.name, getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        both: dict[str, Any] = {
            name: one + more if isinstance(one, tuple) else np.append(one, more) for name, one, more in pairs
        }
        return SlurmJobs(**both)

    def __len__(self) -> int:
        return len(self.ids)


class Clock(NamedTuple):
    """When passes are made. Dates are Unix times.

    The fractions of a second are those of a real controller; runs that differ in `phase_s` and the first dates show how
    much of a schedule is chance.
    """

    main_s: tuple[float, ...] = ()  # the main passes' dates if they are known; then there are no others
    full_s: tuple[float, ...] = ()  # those of `main_s` that look at the whole queue
    cycles_s: tuple[float, ...] = ()  # the backfill cycles' dates if they are known
    checks_s: tuple[float, ...] = ()  # likewise the checks of time limits
    phase_s: float = 0.6  # of the controller's loop, which turns each second
    first_cycle_s: float = math.nan  # nan: 20 s after the first submission
    first_decay_s: float = math.nan  # when usage and priorities are first computed; nan: at the first submission
    first_check_s: float = math.nan  # of time limits, then each 30 s; nan: 30 s after the first submission
    arrival_s: float = 0.0  # a submission is seen so much later than submit_s
    overhead_s: float = 0.14  # a job runs so much longer than run_s
    cleaning_s: float = 0.02  # after a job's end, nodes are free for plans, not for starts
    killing_s: float = 0.03  # the same after a preempted job's end
    test_s: float = 0.0016  # a job tried in a backfill cycle lengthens it
    jitter_s: float = 0.0  # each cycle is late by up to so much, drawn with `seed`
    seed: int = 0


MAIN, BACKFILL = 1, 2
REQUEUED, KILLED, GRACED, SUSPENDED, RESUMED = range(5)  # what happens to a job
PREEMPTED = np.dtype(
    [
        ("at_s", "f8"),
        ("job", "i8"),
        ("by", "i8"),  # the job that preempts it; -1 for none: a check of time limits, or a change of who sleeps
        ("how", "i8"),
        ("start_s", "f8"),  # of this try
        ("cpus", "i8"),  # that it holds
    ]
)


class Run(NamedTuple):
    """One run of the model. Nodes are indices into `Site.nodes`; of a requeued job all is of its last try."""

    start_s: Floats  # (n_jobs,), nan for jobs that never start
    by: NDArray[np.int8]  # (n_jobs,): MAIN or BACKFILL; 0 for none
    first: Ints  # (n_jobs + 1,): job k ran on at[first[k] : first[k + 1]]
    at: Ints
    cycles: int  # backfill cycles
    tried: int  # jobs tried in them
    preempted: Records = np.zeros(0, PREEMPTED)  # by date; of one date in the order of the rules


# What jobs ask for and hold.


@cache
def licences_of(text: str) -> dict[str, int]:
    """The licences of ansys=2,fluent=1."""
    return {name: int(number) for name, _, number in (item.partition("=") for item in text.split(",") if item)}


def memory_of(jobs: SlurmJobs) -> Ints:
    """The memory that each job takes on each of its nodes at least, in MB."""
    return np.where(jobs.memory_per_node_mb > 0, jobs.memory_per_node_mb, jobs.memory_per_cpu_mb * jobs.cpus_per_node)


def held_cpus(site: Site, jobs: SlurmJobs) -> Ints:
    """The CPUs that each job held where the log says that it ran, but for whole cores."""
    cpus = np.where(jobs.max_nodes == jobs.nodes, np.maximum(jobs.cpus, jobs.nodes * jobs.cpus_per_node), jobs.cpus)
    alone = np.isin(jobs.partition, [each.name for each in site.partitions if each.exclusive])
    for row in np.flatnonzero(jobs.exclusive | alone | site.settings.whole_nodes).tolist():
        names = expand(jobs.ran_on[row]) if jobs.ran_on[row] else ()
        cpus[row] = sum(site.nodes[site.place[name]].cpus for name in names if name in site.place) or cpus[row]
    return cpus
