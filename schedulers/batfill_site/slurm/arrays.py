"""A site and its jobs as the arrays of `records.py`, and which jobs could start at all."""

from __future__ import annotations

import math
import re
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.base.words import duration
from batfill.engine.ends import new_ends
from batfill.engine.records import new_records
from batfill_site.slurm import records
from batfill_site.slurm.accounts import TRES
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.preempt import ALWAYS, WITHIN
from batfill_site.slurm.records import (
    KINDS,
    NODES,
    Licences,
    Limited,
    Nodes,
    Plan,
    Preemption,
    Shapes,
    Shares,
    Slurm,
    Windows,
)
from batfill_site.slurm.site import (
    CANCEL,
    MODES,
    NEW_RULES,
    PREEMPTED,
    REQUEUE,
    SUSPEND,
    Association,
    Floats,
    Ints,
    Limits,
    Node,
    Qos,
    Records,
    Site,
    SlurmJobs,
    held_cpus,
    licences_of,
    memory_of,
)

NO_LIMIT = 2**62
NO_LIMIT_IF_0 = ("partition_job_depth", "sched_max_job_start", "bf_max_job_test", "bf_max_job_start")
LONGEST = 4096  # characters of a constraint
LATER_FREES = (20, 2)  # from this version on, B4.1 looks for nodes that come free
SHAPE = ("cpus", "task", "memory", "memory_per_cpu", "gpus", "gpu_type", "exclusive")
SLOT_KEYS = 2**21  # of all slots together
HEADS = 32  # of each, at most
ROOM = 64  # intervals of a plan, at first
MUCH = "they request more than their QOS or association allows a job (MaxTRESPerJob)"
LONG = "their limit is longer than their partition, QOS or association allows (MaxTime, MaxWall), at most {}"
RESET_YEARS = 30  # after the last job: as long as usage is reset
RESET: dict[str, Callable[[datetime], bool]] = {
    "DAILY": lambda _: True,
    "WEEKLY": lambda day: day.isoweekday() == 7,
    "MONTHLY": lambda day: day.day == 1,
    "QUARTERLY": lambda day: day.day == 1 and day.month % 3 == 1,
    "YEARLY": lambda day: day.day == 1 and day.month == 1,
}


class Numbers(dict[Any, int]):
    """Numbers from 0 for keys in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]

    def all(self, keys: Iterable[Any]) -> Ints:
        return np.array([self[key] for key in keys], np.int64)


def sets_of(sets: Sequence[Iterable[int]], n: int) -> NDArray[np.uint64]:
    """Sets of the n nodes, (sets, words)."""
    bits = np.zeros((len(sets), -(-n // 64) * 64), np.uint8)
    for row, nodes in zip(bits, sets, strict=True):
        row[list(nodes)] = 1
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def side_by_side(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """The places where lists begin and end in an array of all, (n + 1,), and this array."""
    return np.cumsum([0, *map(len, lists)]), np.array([i for some in lists for i in some], np.int64)


def least(*limits: Any) -> Any:
    return min((each for each in limits if each is not None), default=None)


# Which nodes can take a job.


class Asked:
    """Which nodes each kind of job is asked on."""

    def __init__(self, site: Site) -> None:
        on_leaf = {name for leaf in site.switches for name in leaf.nodes} or set(site.place)
        self.partitions = {
            each.name: sorted(site.place[name] for name in each.nodes if name in on_leaf) for each in site.partitions
        }
        self.featured = cache(partial(featured, site))
        self.named = cache(lambda text: {site.place.get(name, -1) for name in (expand(text) if text else ())})

    def nodes(self, partition: str, constraint: str, required: str, excluded: str) -> list[int]:
        """The nodes of a partition that have the features and are not excluded; none if one that is required is not."""
        having = self.featured(constraint) - self.named(excluded)
        nodes = [i for i in self.partitions.get(partition, ()) if i in having]
        return nodes if self.named(required) <= {*nodes} else []


def featured(site: Site, constraint: str) -> set[int]:
    """The nodes with these features: & or a comma goes before |; brackets are parentheses. None has an odd feature."""
    inner: dict[str, set[int]] = {}  # what was in brackets, by what stands in its place

    def having(feature: str) -> set[int]:
        return inner[feature] if feature in inner else {i for i, n in enumerate(site.nodes) if feature in n.features}

    def any_of(text: str) -> set[int]:
        every = ([having(one.strip()) for one in re.split("[&,]", each)] for each in text.split("|"))
        return set.union(*(set.intersection(*sets) for sets in every))

    def in_place(match: re.Match[str]) -> str:
        inner[name := f"\0{len(inner)}\0"] = any_of(match[1])
        return name

    text, replaced = re.sub(r"\*\d+", "", constraint)[:LONGEST], 1
    while replaced:  # the innermost first
        text, replaced = re.subn(r"[(\[]([^()\[\]]*)[)\]]", in_place, text)
    return any_of(text) if constraint else set(range(len(site.nodes)))


def requested(jobs: SlurmJobs) -> Ints:
    """What each job requests of each kind that is limited (Q3), (n_jobs, KINDS)."""
    memory = np.where(
        jobs.memory_per_cpu_mb > 0, jobs.memory_per_cpu_mb * jobs.cpus, jobs.memory_per_node_mb * jobs.min_nodes
    )
    gpus = jobs.gpus_per_node * jobs.min_nodes
    return np.stack([np.ones(len(jobs), np.int64), jobs.cpus, jobs.min_nodes, memory, gpus], axis=1)


def records_of(site: Site, jobs: SlurmJobs) -> tuple[SlurmJobs, Ints]:
    """A row for each job and each of its partitions that the site has, or the first named (Q2), and the job of each.

    Of these `memory_unsaid` says whether they take all memory of their nodes (P7).
    """
    given = (every.split(",") if every else [one] for every, one in zip(jobs.partitions, jobs.partition, strict=True))
    named = [[name for name in every if name in site.partition_of] or every[:1] for every in given]
    of, names = np.repeat(np.arange(len(jobs)), [len(each) for each in named]), tuple(chain.from_iterable(named))
    usual = {each.name: (each.memory_per_cpu_mb, each.memory_per_node_mb) for each in site.partitions}
    per_cpu, per_node = np.array([usual.get(name, (0, 0)) for name in names], np.int64).reshape(-1, 2).T
    each, known = jobs.select(of), (per_cpu > 0) | (per_node > 0)
    unsaid = each.memory_unsaid & site.settings.memory
    return replace(
        each,
        partition=names,
        memory_per_cpu_mb=np.where(unsaid & known, per_cpu, each.memory_per_cpu_mb),
        memory_per_node_mb=np.where(unsaid & known, per_node * (per_cpu == 0), each.memory_per_node_mb),
        memory_unsaid=unsaid & ~known,
    ), of


# What decides whether a job could start: columns of `records_of`.
Needs = namedtuple(
    "Needs",
    "partition qos licenses constraint required excluded gpu_type nodes max_nodes cpus cpus_per_node cpus_per_task "
    "memory_per_cpu_mb memory_per_node_mb gpus_per_node memory_unsaid",
)


def possible(site: Site, jobs: SlurmJobs) -> tuple[SlurmJobs, tuple[str, ...]]:
    """The jobs that can start if the site is empty, and a sentence for each reason why others are left out."""
    jobs = replace(jobs, gpu_type=tuple("" if kind in site.mixed else kind for kind in jobs.gpu_type))
    given, of = records_of(site, jobs)
    needs = map(Needs, *(np.asarray(getattr(given, name), object) for name in Needs._fields))
    association, rows_of = share_arrays(site, given)[1:]
    most_s = longest_s(site, given, association, rows_of)
    beyond = over_job_limit(site, given, association, rows_of).tolist()
    lacks, reasons = cache(partial(lacking, site, Asked(site))), dict[int, str]()
    for row, each, limit_s, most_of, much in zip(of.tolist(), needs, given.limit_s, most_s, beyond, strict=True):
        reason = lacks(each) or (limit_s > most_of and LONG.format(duration(most_of))) or MUCH * much
        reasons[row] = reasons.get(row, "-") and reason
    rows = defaultdict[str, list[int]](list)
    for row, reason in reasons.items():
        rows[reason].append(row)
    kept = rows.pop("", [])
    texts = tuple(
        f"{len(those)} job{'s are' if len(those) > 1 else ' is'} left out (the first is {jobs.ids[those[0]]}): {reason}"
        for reason, those in rows.items()
    )
    return (jobs.select(kept) if rows else jobs), texts


def lacking(site: Site, asked: Asked, job: Needs) -> str:
    """What a partition lacks for a job, or ""."""
    if job.partition not in site.partition_of:
        return f"there is no partition {job.partition}"
    over = job.qos in site.qos_of and site.qos_of[job.qos].over_nodes
    most = least(None if over else site.partition_of[job.partition].max_nodes, len(asked.partitions[job.partition]))
    if job.nodes > most:
        return f"they need more nodes than their partition has or allows, at most {most}"
    if any(number > site.settings.licenses.get(name, number) for name, number in licences_of(job.licenses).items()):
        return "they need more licences than there are"

    memory_mb = job.memory_per_node_mb or job.memory_per_cpu_mb * job.cpus_per_node

    def counts(node: Node) -> Any:
        per_cpu = job.memory_per_cpu_mb * (site.settings.memory and not job.memory_unsaid)
        free = min(node.cpus, node.memory_mb // per_cpu) if per_cpu else node.cpus
        return free // node.threads * node.threads // job.cpus_per_task * job.cpus_per_task

    left = [site.nodes[i] for i in asked.partitions[job.partition]]
    tests: dict[str, Callable[[Node], bool]] = {
        "features that they name": lambda node: site.place[node.name] in asked.featured(job.constraint),
        "names that they allow": lambda node: site.place[node.name] not in asked.named(job.excluded),
        "CPUs that they need": lambda node: node.cpus >= job.cpus_per_node,
        "memory that they need": lambda node: job.memory_unsaid or node.memory_mb >= memory_mb,
        "CPUs in whole cores and tasks, with the memory that they need": lambda node: counts(node) >= job.cpus_per_node,
        "GPUs that they need": lambda node: (
            not job.gpus_per_node or (node.gpus >= job.gpus_per_node and job.gpu_type in ("", node.gpu_type))
        ),
    }
    for what, test in tests.items():
        left = [node for node in left if test(node)]
        if len(left) < job.nodes:
            return f"too few nodes of their partition have the {what}"
    if not asked.named(job.required) <= {site.place[node.name] for node in left}:
        return "a node that they require is not in their partition, or lacks what they need"
    if sum(sorted(map(counts, left))[-min(most, job.max_nodes or most) :]) < job.cpus:
        return "the nodes of their partition that they may take have too few CPUs"
    return ""


# The arrays of each part.


def layers(site: Site) -> int:
    """How many times the CPUs of a node may be held: jobs of each tier beside those that sleep (E11)."""
    return len({each.tier for each in site.partitions}) if site.suspends else 1


def node_arrays(site: Site, types: Numbers, asks: Iterable[Any], required: Iterable[str]) -> Nodes:
    """The nodes; `types` are those of GPUs, `asks` and `required` what `job_arrays` gives."""
    n, asked = len(site.nodes), Asked(site)
    nodes = new_records(n, records.NODE)
    nodes["free"] = nodes["cpus"] = [node.cpus for node in site.nodes]
    nodes["threads"] = [node.threads for node in site.nodes]
    nodes["first"] = (np.cumsum(nodes["cpus"]) - nodes["cpus"]) * layers(site)
    memory = [node.memory_mb if site.settings.memory else NO_LIMIT // 2 for node in site.nodes]
    nodes["memory"] = nodes["whole"] = memory
    nodes["gpus"] = nodes["all_gpus"] = [node.gpus for node in site.nodes]
    for i, leaf in enumerate(site.switches):
        nodes["group"][[site.place[name] for name in leaf.nodes]] = i
    nodes["gpu_type"] = types.all(node.gpu_type for node in site.nodes)
    weights = sorted({node.weight for node in site.nodes})
    sets: list[list[Iterable[int]]] = [
        [[i for i in asked.nodes(*given) if site.nodes[i].memory_mb >= memory] for *given, memory in asks],
        [asked.named(text) - {-1} for text in required],
        [asked.partitions[each.name] for each in site.partitions],
        [[i for i, node in enumerate(site.nodes) if node.weight == weight] for weight in weights],
        [[site.place[name] for name in leaf.nodes] for leaf in site.switches],
    ]
    scratch = [new_records(n + len(site.switches), records.GROUP), np.zeros(n, np.int64), *sets_of([[]] * 9, n)]
    hops = np.array([[a.hops(b) for b in site.switches] for a in site.switches], np.int64).reshape([len(sets[-1])] * 2)
    return Nodes._make([nodes, *(sets_of(some, n) for some in sets), hops, *scratch])


def share_arrays(site: Site, jobs: SlurmJobs) -> tuple[Shares, Ints, list[Association]]:
    """The associations, that of each job, and what is configured of each, with the limits that it has from above."""
    given = {(each.account, each.user): each for each in site.associations if (each.account, each.user) != ("root", "")}
    owners = list(zip(jobs.account, jobs.user, strict=True))
    for owner in dict.fromkeys((*owners, ("root", "root"))):
        if owner != ("", ""):  # a job of neither is root's
            given.setdefault(owner, Association(*owner))
    for account in [each.account for each in given.values()] + [each.parent for each in given.values()]:
        if account not in ("", "root"):
            given.setdefault((account, ""), Association(account))
    place = {("", ""): 0, ("root", ""): 0, **{key: i for i, key in enumerate(given, 1)}}
    rows = [Association(""), *given.values()]
    tree = new_records(len(rows), records.SHARE)
    tree["parent"] = [-1, *(place[each.account if each.user else each.parent, ""] for each in rows[1:])]
    tree["user"] = [each.user != "" for each in rows]
    parents, own = tree["parent"][1:], np.array([each.shares for each in rows[1:]], np.float64)
    siblings = np.bincount(parents, own, minlength=len(rows))[parents]
    tree["part"][1:] = np.divide(own, siblings, out=np.zeros(len(own)), where=siblings > 0)
    kids: list[list[int]] = [[] for _ in rows]
    for i, parent in enumerate(parents.tolist(), 1):
        kids[parent].append(i)
    edges, flat = side_by_side(kids)
    tree["first_kid"], tree["kids"] = edges[:-1], np.diff(edges)
    tree["norm"][0], down = 1.0, [0]
    for i in down:
        down += kids[i]
        for kid in kids[i]:
            tree["norm"][kid] = tree["norm"][i] * tree["part"][kid]
            limits = zip(rows[kid].each, rows[i].each, strict=True)  # where it sets none, those from above hold
            wall_s = rows[i].max_wall_s if rows[kid].max_wall_s is None else rows[kid].max_wall_s
            per_job = Limits(*(b if a is None else a for a, b in zip(rows[kid].per_job, rows[i].per_job, strict=True)))
            of_each = Limits(*(b if a is None else a for a, b in limits))
            rows[kid] = rows[kid]._replace(each=of_each, per_job=per_job, max_wall_s=wall_s)
    if len(down) < len(rows):
        lost = rows[min(set(range(len(rows))) - set(down))]
        raise WorkloadError(f"account {lost.account!r} is its own ancestor; correct the parents of the associations")
    for i, each in enumerate(rows):
        above = i if each.user and site.settings.usage_reset != "NOW" else -1
        while above >= 0:
            tree["usage"][above] += each.usage
            above = tree["parent"][above]
    scratch = np.zeros((2, len(rows)), np.int64)
    shares = Shares(tree, flat, np.array(down[1:], np.int64), scratch, reset_dates(site, jobs))
    return shares, np.array([place[owner] for owner in owners], np.int64), rows


def reset_dates(site: Site, jobs: SlurmJobs) -> Floats:
    """When usage is set to 0: midnights in UTC."""
    resets = RESET.get(site.settings.usage_reset)
    if resets is None or not len(jobs):
        return np.empty(0)
    day = datetime.fromtimestamp(jobs.submit_s.min(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = int(np.ptp(jobs.submit_s) / 86400) + RESET_YEARS * 366
    dates = (day + timedelta(days=i) for i in range(1, days))
    return np.array([each.timestamp() for each in dates if resets(each)])


def limit_arrays(
    site: Site,
    jobs: SlurmJobs,
    table: Records,
    billed: Iterable[Any],
    shares: Shares,
    association: Ints,
    rows: list[Association],
) -> Limited:
    """The limits, of which `table` receives each job's class; the last three are what `share_arrays` gives.

    `billed` are the classes of what is billed, which `job_arrays` gives.
    """
    counters, classes, parent, on_nodes = Numbers(), Numbers(), shares.tree["parent"].tolist(), Numbers()
    of_qos = (qos_in_order(site, *each) for each in zip(jobs.partition, jobs.qos, strict=True))
    keys = list(zip(association.tolist(), jobs.user, jobs.account, of_qos, strict=True))
    table["limits"] = of_jobs = classes.all(keys)
    held = [limits_of(site, rows, parent, *each) for each in classes]
    limited = {what: limits for each in held for what, limits in each.items() if least(*limits) is not None}
    of_nodes = {what for each in held for what, limits in each.items() if limits.nodes is not None}
    of_class = [[counters[what] for what in each if what in limited] for each in held]
    bounds = [limits for each in held for what, limits in each.items() if what in limited]
    most = np.array([[NO_LIMIT if each is None else each for each in limits] for limits in bounds], np.int64)
    amounts, rows_of = requested(jobs), [on_nodes[what] if what in of_nodes else -1 for what in counters]
    amounts[:, NODES] = 0  # they count where nodes were found
    # A job that holds what it requests needs no second look, but at nodes.
    as_asked = (table["even"] > 0) & (table["exclusive"] == 0) & (jobs.nodes * jobs.cpus_per_node == jobs.cpus)
    as_asked &= (jobs.nodes == jobs.min_nodes) & (table["memory"] >= 0) & all(node.threads == 1 for node in site.nodes)
    looks = np.array([(not limited.keys().isdisjoint(each), not of_nodes.isdisjoint(each)) for each in held], bool)
    table["looked_at"] = np.where(as_asked, *looks.reshape(-1, 2)[of_jobs].T[::-1])
    bills = [[(kind_of(name, kind), x) for name, x in site.partition_of[of].billing.items()] for of, kind in billed]
    used, jobs_on = np.zeros((len(counters), KINDS), np.int64), np.zeros((len(on_nodes), len(site.nodes)), np.int64)
    counted = [*side_by_side(of_class), most.reshape(-1, KINDS), used, amounts, amounts, np.zeros(KINDS, np.int64)]
    billed_kinds = side_by_side([[kind for kind, _ in each] for each in bills])
    weights = np.array([weight * (kind >= 0) for each in bills for kind, weight in each], np.float64)
    return Limited._make([*counted, np.array(rows_of, np.int64), jobs_on, *billed_kinds, weights])


def limits_of(
    site: Site, rows: list[Association], parent: list[int], leaf: int, user: str, account: str, of_qos: Iterable[str]
) -> dict[Any, Limits]:
    """The limits that count for a class of jobs, by what they are of (Q5), and `of_qos` before others."""
    found, left = dict[Any, Limits](), dict.fromkeys(("group", "per_user", "per_account"), Limits(*[True] * KINDS))

    def counted(limits: Limits, *scopes: str) -> Limits:
        several = zip(limits, *(left[scope] for scope in scopes), strict=True)
        return Limits(*(None if None in each else each[0] for each in several))

    for qos in (site.qos_of[name] for name in dict.fromkeys(of_qos) if name in site.qos_of):
        for scope, who in (("group", ""), ("per_user", user), ("per_account", account)):
            limits = getattr(qos, scope)
            found[scope, qos.name, who] = counted(limits, scope)
            left[scope] = Limits(*(b if a is None else None for a, b in zip(limits, left[scope], strict=True)))
    each, above = counted(rows[leaf].each, "per_user", "per_account"), leaf
    while above > 0:
        found[above], above = counted(rows[above].group, "group"), parent[above]
    found[leaf] = Limits(*map(least, found.get(leaf, Limits()), each))
    return found


def qos_in_order(site: Site, partition: str, qos: str) -> tuple[str, str]:
    """The QOS of a job and of its partition, that first whose limits go first (Q5)."""
    of_partition = site.partition_of[partition].qos if partition in site.partition_of else ""
    first = qos in site.qos_of and site.qos_of[qos].over_partition_qos
    return (qos, of_partition) if first else (of_partition, qos)


def longest_s(site: Site, jobs: SlurmJobs, association: Ints, rows: list[Association]) -> Floats:
    """The longest limit that is allowed each job (Q6); the last two are of `share_arrays`."""
    walls, over = {each.name: each.max_wall_s for each in site.qos}, {each.name for each in site.qos if each.over_time}
    longest = []
    for i, qos, name in zip(association.tolist(), jobs.qos, jobs.partition, strict=True):
        given_s = *map(walls.get, qos_in_order(site, name, qos)), rows[i].max_wall_s
        time_s = None if qos in over else site.max_times_s.get(name)
        longest.append(least(np.inf, time_s, next((each for each in given_s if each is not None), None)))
    return np.array(longest, np.float64)


def most_per_job(site: Site, rows: list[Association], i: int, partition: str, qos: str) -> list[int]:
    """The most of each kind that a job may request (Q6)."""
    of_qos = (site.qos_of[name].per_job for name in qos_in_order(site, partition, qos) if name in site.qos_of)
    return [next((x for x in each if x is not None), NO_LIMIT) for each in zip(*of_qos, rows[i].per_job, strict=True)]


def over_job_limit(site: Site, jobs: SlurmJobs, association: Ints, rows: list[Association]) -> NDArray[np.bool_]:
    """Which jobs request more than they may (Q6); the last two are of `share_arrays`."""
    most = map(cache(partial(most_per_job, site, rows)), association.tolist(), jobs.partition, jobs.qos)
    return np.asarray((requested(jobs) > np.array([*most]).reshape(-1, KINDS)).any(axis=1), np.bool_)


def window_arrays(site: Site) -> Windows:
    given = [each for each in site.windows if each.begin_s < each.end_s]
    windows, step = new_records(len(given), records.WINDOW), site.settings.bf_resolution_s
    windows["begin_s"], windows["end_s"] = [each.begin_s for each in given], [each.end_s for each in given]
    windows["told_s"] = [min(each.begin_s, each.announced_s) for each in given]
    windows["b"], windows["e"] = np.floor(windows["begin_s"] / step) * step, np.ceil(windows["end_s"] / step) * step
    nodes = sets_of([[site.place[name] for name in each.nodes] for each in given], len(site.nodes))
    return Windows(windows, nodes, np.zeros(len(given), np.int64))


# Jobs and options.


def kind_of(name: str, gpu_type: str) -> int:
    """Which kind of what is limited a trackable resource is of a job with GPUs of a type; -1 for none."""
    field = TRES.get("gres/gpu" if name == f"gres/gpu:{gpu_type}" else name)
    return -1 if field is None else Limits._fields.index(field)


def amounts_of(name: str, jobs: SlurmJobs) -> tuple[Floats, Callable[[Node], float]]:
    """How much of a trackable resource each job requests, and how much a node has."""
    kinds = np.array([kind_of(name, each) for each in jobs.gpu_type], np.int64)
    amounts = np.where(kinds < 0, 0, requested(jobs)[np.arange(len(jobs)), kinds]).astype(float)

    def of_node(node: Node) -> float:
        has = (1, node.cpus, 1, node.memory_mb, node.gpus)
        return 0 if (kind := kind_of(name, node.gpu_type)) < 0 else has[kind]

    return amounts, of_node


def fixed_priority(site: Site, jobs: SlurmJobs, rows: Iterable[Association], cpus: Ints) -> Floats:
    """Each job's priority without age and usage; `rows` are the jobs' associations, `cpus` those of its size."""
    s, tres = site.settings, np.zeros(len(jobs))
    if s.small_relative_to_time:
        size: Any = np.maximum(cpus, jobs.min_nodes * site.cpus / len(site.nodes)) / (jobs.limit_s / 60) / site.cpus
        size = 1 - size if s.favor_small else size
    else:
        parts = jobs.min_nodes / len(site.nodes), cpus / site.cpus
        size = sum(1 - each if s.favor_small else each for each in parts) / 2

    def share(values: Iterable[int], of: Iterable[int]) -> Any:
        largest = max(of, default=0)
        return np.array(list(values), float) / largest if largest > 0 else 0.0

    total: Floats = s.weight_job_size * size
    factors = [site.partition_of[name].job_factor for name in jobs.partition]
    total = total + s.weight_partition * share(factors, (each.job_factor for each in site.partitions))
    of_qos = {each.name: each.priority for each in site.qos}
    total = total + s.weight_qos * share([of_qos.get(name, 0) for name in jobs.qos], of_qos.values())
    total = total + s.weight_assoc * share([each.priority for each in rows], (x.priority for x in site.associations))
    for name, weight in s.weight_tres.items():
        amount, of_node = amounts_of(name, jobs)
        has = {each.name: sum(of_node(site.nodes[site.place[node]]) for node in each.nodes) for each in site.partitions}
        largest = np.array([has[partition] for partition in jobs.partition], float)
        tres = tres + weight * np.divide(amount, largest, out=np.zeros(len(jobs)), where=largest > 0)
    return total + tres - jobs.nice


def billing_of(site: Site, jobs: SlurmJobs) -> Floats:
    """What a second of each job added to usage where the log says that it ran."""
    of, jobs = np.array(jobs.partition, dtype=object), replace(jobs, cpus=held_cpus(site, jobs))
    billing = jobs.cpus.astype(float)
    for each in site.partitions:
        if each.billing:
            parts = [weight * amounts_of(name, jobs)[0] for name, weight in each.billing.items()]
            whole = np.max(parts, axis=0) if site.settings.max_tres else sum(parts)
            billing = np.where(of == each.name, whole, billing)
    return billing * usage_factors(site, jobs)


def usage_factors(site: Site, jobs: SlurmJobs) -> Floats:
    return np.array([site.qos_of.get(name, Qos("")).usage_factor for name in jobs.qos], np.float64)


def job_arrays(site: Site, jobs: SlurmJobs, of: Ints, classes: Mapping[str, Numbers], longest_s: Floats) -> Records:
    """The jobs, which are the records of `of`, and the longest limit that is allowed each.

    Fills in the classes of jobs, each of a column of `records.JOB`.
    """
    settings, table = site.settings, new_records(len(jobs), records.JOB)
    given, place = site.partitions, {each.name: i for i, each in enumerate(site.partitions)}
    table["queued_s"] = np.maximum(jobs.submit_s, jobs.eligible_s)
    table["run_s"], table["leave_s"] = jobs.run_s - jobs.slept_s * site.suspends, jobs.leave_s
    table["limit"], table["nodes"] = jobs.limit_s, jobs.nodes
    table["submit"], table["eligible"] = np.floor(jobs.submit_s), np.floor(jobs.eligible_s)
    table["aged_from"] = table["submit"] if settings.accrue_always else table["eligible"]
    table["partition"] = in_ = np.array([place[name] for name in jobs.partition], np.int64)
    most = np.array([NO_LIMIT if each.max_nodes is None else each.max_nodes for each in given], np.int64)[in_]
    most[np.isin(jobs.qos, [each.name for each in site.qos if each.over_nodes])] = NO_LIMIT
    table["no_reserve"] = np.isin(jobs.qos, [each.name for each in site.qos if each.no_reserve])
    most_s = [NO_LIMIT if each.max_time_s is None else int(each.max_time_s) for each in given]
    table["planned"] = np.minimum(jobs.limit_s, np.array(most_s, np.int64)[in_])
    table["barred"] = (jobs.nodes > most) | (jobs.limit_s > longest_s)
    table["most"] = np.minimum(most, np.where(jobs.max_nodes > 0, jobs.max_nodes, NO_LIMIT))
    table["needs"] = np.maximum(jobs.cpus, jobs.nodes)
    table["cpus"], table["task"] = jobs.cpus_per_node, jobs.cpus_per_task
    table["even"] = (jobs.max_nodes == jobs.nodes) & (jobs.nodes * jobs.cpus_per_node >= jobs.cpus)
    whole, memory = jobs.memory_unsaid, memory_of(jobs)
    table["memory"], table["gpus"] = np.where(whole, -1, memory), jobs.gpus_per_node
    table["memory_per_cpu"] = np.where(whole | (jobs.memory_per_node_mb > 0), 0, jobs.memory_per_cpu_mb)
    table["gpu_type"] = [classes["gpu_type"][name] if name else -1 for name in jobs.gpu_type]
    table["features"] = [name != "" for name in jobs.constraint]
    table["exclusive"] = jobs.exclusive | settings.whole_nodes | np.array([each.exclusive for each in given], bool)[in_]
    table["tier"] = np.array([each.tier for each in given], np.int64)[in_]
    least_mb = np.where(whole, 0, memory).tolist()
    asks = zip(jobs.partition, jobs.constraint, jobs.required, jobs.excluded, least_mb, strict=True)
    table["asks"] = classes["asks"].all(asks)
    table["required"] = [classes["required"][names] if names else -1 for names in jobs.required]
    table["bills"] = classes["bills"].all(zip(jobs.partition, jobs.gpu_type, strict=True))
    table["usage_factor"], table["start_s"] = usage_factors(site, jobs), np.nan
    table["mate"] = np.where(np.append(of[1:] == of[:-1], False), np.arange(1, len(of) + 1), np.searchsorted(of, of))
    return table


def option_record(site: Site) -> Records:
    s, options = site.settings, new_records(1, records.OPTIONS)
    values = records.numbers_of(s) | {name: getattr(s, name) or NO_LIMIT for name in NO_LIMIT_IF_0}
    values |= {
        "bf_min_prio_reserve": s.bf_min_prio_reserve if s.multifactor else 0,
        "decay": 1 - 0.693 / s.half_life_s if s.half_life_s else 1.0,
        "new_rules": s.version >= NEW_RULES,
        "later_frees": s.version >= LATER_FREES,
        "head_bits": (len(site.nodes) // (HEADS + 1)).bit_length(),
        "last_edge": max((max(each.begin_s, each.end_s) for each in site.windows), default=-np.inf),
        "two": 2.0,
    }
    for name, value in values.items():
        options[name] = value
    return options


def counted_of(site: Site, jobs: SlurmJobs, association: Ints) -> tuple[Ints, Ints, int]:
    """Where each job counts in a cycle (n_jobs, COUNTED), how much of each is allowed, and the number of places."""
    s, places = site.settings, Numbers()
    both = zip(jobs.user, jobs.partition, strict=True)
    keys = (jobs.user, jobs.partition, both, association.tolist(), jobs.partition, jobs.array.tolist())
    columns = [places.all((kind, key) for key in some) for kind, some in enumerate(keys)]
    columns[-1][jobs.array < 0] = -1  # jobs of no array are not counted
    most = [s.bf_max_job_user, s.bf_max_job_part, s.bf_max_job_user_part, s.bf_max_job_assoc]
    most += [s.bf_job_part_count_reserve, s.bf_max_job_array_resv]
    return np.stack(columns, axis=1), np.array([each or NO_LIMIT for each in most], np.int64), len(places)


def preemption_arrays(site: Site, jobs: SlurmJobs, table: Records, options: Records) -> Preemption:
    """Who may preempt whom, and how; `table` and `options` receive what they say of it."""
    s, by_qos = site.settings, site.settings.preempt == "qos"
    qos = [*site.qos, *map(Qos, sorted({*jobs.qos} - site.qos_of.keys()))]
    kinds: list[Any] = qos if by_qos else [*site.partitions]
    place, none = {each.name: i for i, each in enumerate(kinds)}, Qos("")
    lists = [[two.name in one.preempts if by_qos else two.tier < one.tier for two in kinds] for one in kinds]
    above = np.array(lists, bool).reshape(len(kinds), len(kinds)) & (s.preempt != "")
    within = np.diag([by_qos and (one.preempt_within or (s.preempt_within and one in site.qos)) for one in kinds])
    modes = np.array([MODES.index(each.preempt_mode or s.preempt_mode) for each in kinds], np.int64)
    modes *= ~(by_qos & (modes == SUSPEND))
    may = np.where(above, ALWAYS, WITHIN * within) * (modes > 0)
    table["kind"] = kind = np.array([place[name] for name in (jobs.qos if by_qos else jobs.partition)], np.int64)
    table["rank"] = np.array([each.priority if by_qos else each.tier for each in kinds], np.int64)[kind]
    stays = np.where(jobs.requeue < 0, s.job_requeue, jobs.requeue) == 0
    table["mode"] = np.where((modes[kind] == REQUEUE) & stays, CANCEL, modes[kind])
    table["grace"] = np.array([each.grace_s for each in kinds], np.int64)[kind]
    exempt_s = (site.qos_of.get(name, none).preempt_exempt_s for name in jobs.qos)
    table["exempt"] = [math.ceil(s.preempt_exempt_s if each is None else each) for each in exempt_s]
    options["preempts"], options["by_qos"] = may.any(), (above & by_qos).any()
    options["suspends"], options["graces"] = may.any() and site.suspends, may.any() and table["grace"].any()
    n = len(jobs) if may.any() or above.any() else 0
    sets = [may.astype(np.uint8), (above & by_qos).astype(np.uint8)]
    scratch = [np.zeros(n, np.int64), np.zeros(n, np.int64)]
    return Preemption._make([*sets, *scratch, new_records(n + 1, PREEMPTED)])


def shape_arrays(table: Records, nodes: Nodes, most: int) -> Shapes:
    """The shapes of jobs, which `table` receives, and slots for some of them."""
    shapes, n = Numbers(), len(nodes.nodes)
    table["form"] = shapes.all(zip(*(table[name].tolist() for name in SHAPE), strict=True))
    slots = min(len(shapes), SLOT_KEYS // n + 1)
    on_nodes = [np.zeros(int(nodes.nodes["cpus"].sum()) * most, np.int64) for _ in range(3)]
    of_slots = [np.full(len(shapes), -1), np.full(slots, -1), np.zeros(slots, np.int64)]
    keys, heads = np.zeros((2, slots, n), np.int64), np.zeros((slots, HEADS, nodes.mask.size), np.uint64)
    return Shapes._make([*on_nodes, *of_slots, *keys, heads, np.zeros(n, np.int64)])


def new_plan(room: int, words: int, licences: int) -> Plan:
    begin, end = np.zeros((2, room), np.int64)
    free, ahead, found = np.zeros((3, room, words), np.uint64)
    return Plan(begin, end, free, np.zeros((room, licences), np.int64), ahead, new_records(room, records.TRY), found)


def slurm_arrays(site: Site, jobs: SlurmJobs, of: Ints) -> Slurm:
    """All arrays, as they are before a run, of the records of jobs and the job of each (`records_of`)."""
    n, classes = len(jobs), defaultdict[str, Numbers](Numbers)
    shares, association, given = share_arrays(site, jobs)
    table = job_arrays(site, jobs, of, classes, longest_s(site, jobs, association, given))
    table["association"] = association
    table["barred"] |= over_job_limit(site, jobs, association, given)
    taken = np.where(table["even"] > 0, jobs.nodes * jobs.cpus_per_node, jobs.cpus)
    for name, cpus in (("fixed", jobs.cpus), ("fixed_later", taken)):
        table[name] = fixed_priority(site, jobs, [given[i] for i in association], cpus)
    limited = limit_arrays(site, jobs, table, classes["bills"], shares, association, given)
    counts_of, most, places = counted_of(site, jobs, association)
    nodes = node_arrays(site, classes["gpu_type"], classes["asks"], classes["required"])
    shapes = shape_arrays(table, nodes, layers(site))
    most_cpus, options = site.cpus * layers(site), option_record(site)
    there, held = site.settings.licenses, map(licences_of, jobs.licenses)
    takes = np.array([[each.get(name, 0) for name in there] for each in held], np.int64).reshape(n, len(there))
    amounts = np.array([*there.values()], np.int64)
    values: list[Any] = [table, np.argsort(table["queued_s"], kind="stable")]
    values += [*(np.zeros(n, np.int64) for _ in range(6)), new_records(n, records.ENDED)]
    values += [np.zeros(int(jobs.nodes.sum()) + most_cpus, np.int64) for _ in range(2)]
    values += [new_ends(n + 1), new_ends(min(n, most_cpus) + 1), nodes, shapes, limited, shares]
    values += [Licences(amounts, amounts.copy(), takes), new_plan(ROOM, nodes.mask.size, len(amounts))]
    values += [window_arrays(site), preemption_arrays(site, jobs, table, options)]
    values += [counts_of, np.zeros(places, np.int64), most, np.zeros((2, len(site.partitions)), np.int64)]
    values += [np.full(9, np.inf), np.empty(0), np.empty(0, np.uint8), *(np.empty(0) for _ in range(3))]
    return Slurm._make([*values, options, new_records(1, records.STATE)])


# What jobs that have run leave of usage, for runs that begin later.


def with_usage_at(site: Site, jobs: SlurmJobs, at_s: float) -> Site:
    """The site with the usage that these jobs have left at a date, as rule U1 decays it."""
    half_s = site.settings.half_life_s
    begin_s = np.nan_to_num(np.minimum(jobs.started_s, at_s), nan=at_s)
    end_s = np.nan_to_num(np.minimum(jobs.started_s + jobs.run_s, at_s), nan=at_s)
    if half_s:
        rate = -np.log(1 - 0.693 / half_s)
        return with_usage(site, jobs, (np.exp(rate * (end_s - at_s)) - np.exp(rate * (begin_s - at_s))) / rate)
    return with_usage(site, jobs, end_s - begin_s)


def with_usage(site: Site, jobs: SlurmJobs, seconds: Floats) -> Site:
    """The site with the usage of so many seconds of each job, (n_jobs,), and no other."""
    used, usage = billing_of(site, jobs) * seconds, defaultdict[tuple[str, str], float](float)
    known = {(each.account, each.user): each for each in site.associations}
    for account, user, amount in zip(jobs.account, jobs.user, used.tolist(), strict=True):
        usage[account, user] += amount
        for key in ((account, ""), (account, user)):
            if key not in (("", ""), ("root", "")):
                known.setdefault(key, Association(*key))
    return replace(site, associations=tuple(each._replace(usage=usage.get(key, 0.0)) for key, each in known.items()))
