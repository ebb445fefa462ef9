"""A site and its jobs as the arrays of `records.py`, and which jobs could start at all."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.engine.ends import new_ends
from batfill.engine.records import new_records
from batfill_site.slurm import records
from batfill_site.slurm.records import KINDS, Limited, Nodes, Plan, Shapes, Shares, Slurm, Windows
from batfill_site.slurm.site import NEW_RULES, Association, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from batfill_site.slurm.site import Node, Partition, Site, SlurmJobs

NO_LIMIT = 2**62
NO_LIMIT_IF_0 = ("partition_job_depth", "sched_max_job_start", "bf_max_job_test", "bf_max_job_start")
SLOT_KEYS = 2**21  # of all slots together
ROOM = 64  # intervals of a plan, at first
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

    def all(self, keys: Iterable[Any]) -> NDArray[np.int64]:
        """Those of keys."""
        return np.array([self[key] for key in keys], np.int64)


def words_of(nodes: Iterable[int], n: int) -> NDArray[np.uint64]:
    """A set of the n nodes."""
    bits = np.zeros(-(-n // 64) * 64, np.uint8)
    bits[list(nodes)] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


# Which nodes can take a job.


def wanted(constraint: str) -> Callable[[frozenset[str]], bool]:
    """Whether a node with these features is asked: & or a comma goes before |; brackets are parentheses.

    Raises:
        WorkloadError: it cannot be read.
    """
    tokens = re.findall(r"[&,|()\[\]]|[^&,|()\[\]\s]+", re.sub(r"\*\d+", "", constraint))

    def terms(signs: str, term: Any) -> list[Any]:
        found = [term()]
        while tokens and tokens[0] in signs:
            tokens.pop(0)
            found.append(term())
        return found

    def any_of() -> Any:
        tests = terms("|", all_of)
        return lambda has: any(test(has) for test in tests)

    def all_of() -> Any:
        tests = terms("&,", one)
        return lambda has: all(test(has) for test in tests)

    def one() -> Any:
        token = tokens.pop(0)
        if token in ("(", "["):
            inner = any_of()
            tokens.pop(0)
            return inner
        if token in "&,|)]":
            raise IndexError
        return lambda has: token in has

    try:
        test: Callable[[frozenset[str]], bool] = any_of()
    except IndexError:
        tokens = [constraint]
    if tokens:
        raise WorkloadError(f"constraint {constraint!r}: not understood; write features with &, | and ()")
    return test


class Asked:
    """Which nodes each kind of job is asked on."""

    def __init__(self, site: Site) -> None:
        """Of a site."""
        self.site, self.place = site, {node.name: i for i, node in enumerate(site.nodes)}
        on_leaf = {name for leaf in site.switches for name in leaf}
        self.partitions = {
            each.name: sorted(self.place[name] for name in each.nodes if not on_leaf or name in on_leaf)
            for each in site.partitions
        }
        self.tests: dict[str, Callable[[frozenset[str]], bool]] = {"": lambda _: True}

    def featured(self, partition: str, constraint: str) -> list[int]:
        """The nodes of a partition that have the features; none if there is no such partition."""
        if constraint not in self.tests:
            self.tests[constraint] = wanted(constraint)
        test = self.tests[constraint]
        return [i for i in self.partitions.get(partition, ()) if test(self.site.nodes[i].features)]


class Needs(NamedTuple):
    """What of a job decides where it can run."""

    partition: str
    constraint: str
    nodes: int
    cpus: int
    memory: int
    gpus: int
    gpu_type: str


def memory_of(jobs: SlurmJobs) -> NDArray[np.int64]:
    """The memory of each job on each of its nodes, in MB."""
    return np.where(jobs.memory_per_node_mb > 0, jobs.memory_per_node_mb, jobs.memory_per_cpu_mb * jobs.cpus_per_node)


def needs_of(jobs: SlurmJobs) -> list[Needs]:
    """The needs of each job."""
    numbers = (jobs.nodes, jobs.cpus_per_node, memory_of(jobs), jobs.gpus_per_node)
    columns = (jobs.partition, jobs.constraint, *(each.tolist() for each in numbers), jobs.gpu_type)
    return list(map(Needs, *columns))


def possible(site: Site, jobs: SlurmJobs) -> tuple[SlurmJobs, tuple[str, ...]]:
    """The jobs that can start if the site is empty, and a sentence for each reason why others are left out."""
    asked, partitions, known = Asked(site), {each.name: each for each in site.partitions}, {}
    left_out: dict[str, list[str]] = {}
    too_long = (jobs.limit_s > longest_s(site, jobs, *share_arrays(site, jobs))).tolist()
    for job, needs, long in zip(jobs.ids, needs_of(jobs), too_long, strict=True):
        if needs not in known:
            known[needs] = lacking(site, asked, partitions, needs)
        reason = known[needs]
        if not reason and long:
            reason = "their limit is longer than their partition, QOS or association allows (MaxTime, MaxWall)"
        left_out.setdefault(reason, []).append(job)
    left_out.pop("", None)
    gone = {job for named in left_out.values() for job in named}
    texts = tuple(
        f"{len(named)} job{'s are' if len(named) > 1 else ' is'} left out (the first is {named[0]}): {reason}"
        for reason, named in left_out.items()
    )
    return (jobs.select([i for i, job in enumerate(jobs.ids) if job not in gone]) if gone else jobs), texts


def lacking(site: Site, asked: Asked, partitions: dict[str, Partition], needs: Needs) -> str:
    """What a partition lacks for a job, or ""."""
    if needs.partition not in partitions:
        return f"there is no partition {needs.partition}"
    most = partitions[needs.partition].max_nodes
    left = [site.nodes[i] for i in asked.partitions[needs.partition]]
    if needs.nodes > (len(left) if most is None else min(most, len(left))):
        return "they need more nodes than their partition has or allows"
    left = [site.nodes[i] for i in asked.featured(needs.partition, needs.constraint)]
    if len(left) < needs.nodes:
        return "too few nodes of their partition have the features that they name"
    tests: dict[str, Callable[[Node], bool]] = {
        "CPUs": lambda node: node.cpus >= needs.cpus,
        "memory": lambda node: node.memory_mb >= needs.memory,
        "GPUs": lambda node: needs.gpus == 0 or (node.gpus >= needs.gpus and needs.gpu_type in ("", node.gpu_type)),
    }
    for what, test in tests.items():
        left = [node for node in left if test(node)]
        if len(left) < needs.nodes:
            return f"too few nodes of their partition have the {what} that they need"
    return ""


# The arrays of each part.


def node_arrays(site: Site, asked: Asked, types: Numbers, asks: Iterable[tuple[str, str, int]]) -> Nodes:
    """The nodes; `types` are those of GPUs, `asks` partition, features and memory of each class of jobs."""
    n = len(site.nodes)
    nodes, free = new_records(n, records.NODE), new_records(n, records.FREE)
    free["cpus"] = nodes["cpus"] = [node.cpus for node in site.nodes]
    nodes["first"] = np.cumsum(nodes["cpus"]) - nodes["cpus"]
    free["memory"], free["gpus"] = [node.memory_mb for node in site.nodes], [node.gpus for node in site.nodes]
    leaves = [sorted(asked.place[name] for name in leaf) for leaf in site.switches]
    for leaf, members in enumerate(leaves):
        nodes["leaf"][members] = leaf
    nodes["gpu_type"] = types.all(node.gpu_type for node in site.nodes)
    weights = sorted({node.weight for node in site.nodes})
    sets = [
        [
            [i for i in asked.featured(partition, features) if site.nodes[i].memory_mb >= memory]
            for partition, features, memory in asks
        ],
        [asked.partitions[each.name] for each in site.partitions],
        [[i for i, node in enumerate(site.nodes) if node.weight <= weight] for weight in weights],
    ]
    words = [np.array([words_of(each, n) for each in some], np.uint64).reshape(-1, -(-n // 64)) for some in sets]
    places = np.zeros(67, np.uint8)
    places[[pow(2, i, 67) for i in range(64)]] = range(64)
    by_leaf = [np.cumsum([0, *map(len, leaves)]), np.array([i for leaf in leaves for i in leaf], np.int64)]
    scratch = [new_records(n + len(leaves), records.GROUP), places, *(words_of([], n) for _ in range(9))]
    return Nodes._make([nodes, free, *words, *by_leaf, *scratch])


def share_arrays(site: Site, jobs: SlurmJobs) -> tuple[Shares, NDArray[np.int64], list[Association]]:
    """The associations, that of each job, and what is configured of each."""
    given = {(each.account, each.user): each for each in site.associations if (each.account, each.user) != ("root", "")}
    for account, user in dict.fromkeys(zip(jobs.account, jobs.user, strict=True)):
        if account or user:  # a job of neither is root's
            given.setdefault((account, user), Association(account, user))
    given.setdefault(("root", "root"), Association("root", "root"))
    for account in [each.account for each in given.values()] + [each.parent for each in given.values()]:
        if account not in ("", "root"):
            given.setdefault((account, ""), Association(account))
    place = {("", ""): 0, ("root", ""): 0, **{key: i for i, key in enumerate(given, 1)}}
    rows = [Association(""), *given.values()]
    tree = new_records(len(rows), records.SHARE)
    tree["parent"] = [-1, *(place[each.account if each.user else each.parent, ""] for each in rows[1:])]
    tree["user"] = [each.user != "" for each in rows]
    parents, shares = tree["parent"][1:], np.array([each.shares for each in rows], np.float64)
    siblings = np.bincount(parents, shares[1:], minlength=len(rows))
    tree["part"][1:] = [s / all_ if all_ else 0.0 for s, all_ in zip(shares[1:], siblings[parents], strict=True)]
    kids: list[list[int]] = [[] for _ in rows]
    for i, parent in enumerate(parents.tolist(), 1):
        kids[parent].append(i)
    tree["first_kid"], tree["kids"] = np.cumsum([0, *map(len, kids[:-1])]), list(map(len, kids))
    down = [0]
    for i in down:
        down += kids[i]
    tree["norm"][0] = 1.0
    for i in down[1:]:
        tree["norm"][i] = tree["norm"][tree["parent"][i]] * tree["part"][i]
    if len(down) < len(rows):
        lost = rows[min(set(range(len(rows))) - set(down))]
        raise WorkloadError(f"account {lost.account!r} is its own ancestor; correct the parents of the associations")
    for i, each in enumerate(rows):
        above = i if each.user and site.settings.usage_reset != "NOW" else -1
        while above >= 0:
            tree["usage"][above] += each.usage
            above = tree["parent"][above]
    of_jobs = np.array([place[key] for key in zip(jobs.account, jobs.user, strict=True)], np.int64)
    empty = np.zeros(len(rows), np.int64)
    flat = np.array([kid for some in kids for kid in some], np.int64)
    return Shares(tree, flat, np.array(down[1:], np.int64), empty, reset_dates(site, jobs)), of_jobs, rows


def reset_dates(site: Site, jobs: SlurmJobs) -> NDArray[np.float64]:
    """When usage is set to 0: midnights in UTC."""
    resets = RESET.get(site.settings.usage_reset)
    if resets is None or not len(jobs):
        return np.empty(0)
    day = datetime.fromtimestamp(jobs.submit_s.min(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = int(np.ptp(jobs.submit_s) / 86400) + RESET_YEARS * 366
    dates = (day + timedelta(days=i) for i in range(1, days))
    return np.array([each.timestamp() for each in dates if resets(each)])


def limit_arrays(
    site: Site, jobs: SlurmJobs, shares: Shares, association: NDArray[np.int64], rows: list[Association]
) -> tuple[Limited, NDArray[np.int64]]:
    """The limits, and each job's class of them."""
    qos = {each.name: each for each in site.qos}
    partition_qos = {each.name: each.qos for each in site.partitions}
    counters, most, classes = Numbers(), list[list[int]](), Numbers()
    of_class: list[list[int]] = []
    parent = shares.tree["parent"].tolist()

    def count(key: Any, *limits: Limits) -> None:
        bounds = [min((x for x in some if x is not None), default=NO_LIMIT) for some in zip(*limits, strict=True)]
        if min(bounds) < NO_LIMIT:
            if counters[key] == len(most):
                most.append(bounds)
            if counters[key] not in of_class[-1]:
                of_class[-1].append(counters[key])

    keys = list(
        zip(
            association.tolist(), jobs.user, jobs.account, jobs.qos, map(partition_qos.get, jobs.partition), strict=True
        )
    )
    for key in keys:
        if classes[key] == len(of_class):
            of_class.append([])
            leaf, user, account, *of_qos = key
            path = [leaf]
            while parent[path[-1]] > 0:
                path.append(parent[path[-1]])
            # The nearest association that sets a limit of each job sets it for all below.
            each = [
                next((x for x in some if x is not None), None)
                for some in zip(*(rows[i].each for i in path), strict=True)
            ]
            count(("association", leaf), rows[leaf].group, Limits(*each))
            for above in path[1:]:
                count(("association", above), rows[above].group)
            for name in of_qos:
                if name in qos:
                    count(("qos", name), qos[name].group)
                    count(("user", name, user), qos[name].per_user)
                    count(("account", name, account), qos[name].per_account)
    amounts = [np.ones(len(jobs), np.int64), jobs.cpus, jobs.nodes, memory_of(jobs) * jobs.nodes]
    limits = np.array(most, np.int64).reshape(-1, KINDS)
    return Limited(
        np.cumsum([0, *map(len, of_class)]),
        np.array([i for some in of_class for i in some], np.int64),
        *(limits, np.zeros_like(limits), np.stack([*amounts, jobs.gpus_per_node * jobs.nodes], axis=1)),
    ), classes.all(keys)


def longest_s(
    site: Site, jobs: SlurmJobs, shares: Shares, association: NDArray[np.int64], rows: list[Association]
) -> NDArray[np.float64]:
    """The longest limit that each job's partition, QOS and nearest association with a MaxWall allow.

    The last three are what `share_arrays` gives.
    """
    nearest = [each.max_wall_s for each in rows]
    for i in shares.down.tolist():
        if nearest[i] is None:
            nearest[i] = nearest[shares.tree["parent"][i]]
    of_qos = {each.name: each.max_wall_s for each in site.qos}
    of_partition = {each.name: (each.max_time_s, of_qos.get(each.qos)) for each in site.partitions}
    given = (
        (nearest[i], of_qos.get(qos), *of_partition.get(partition, ()))
        for i, qos, partition in zip(association.tolist(), jobs.qos, jobs.partition, strict=True)
    )
    return np.array([min((x for x in some if x is not None), default=np.inf) for some in given], np.float64)


def window_arrays(site: Site) -> Windows:
    """The calendar."""
    place = {node.name: i for i, node in enumerate(site.nodes)}
    given = [each for each in site.windows if each.begin_s < each.end_s]
    windows, step = new_records(len(given), records.WINDOW), site.settings.bf_resolution_s
    windows["begin_s"], windows["end_s"] = [each.begin_s for each in given], [each.end_s for each in given]
    windows["told_s"] = [min(each.begin_s, each.announced_s) for each in given]
    windows["b"] = [math.floor(each.begin_s / step) * step for each in given]
    windows["e"] = [math.ceil(each.end_s / step) * step for each in given]
    sets = [words_of([place[name] for name in each.nodes], len(site.nodes)) for each in given]
    return Windows(
        windows,
        np.array(sets, np.uint64).reshape(len(given), -(-len(site.nodes) // 64)),
        np.argsort(windows["told_s"], kind="stable"),
        np.zeros(len(given), np.int64),
    )


# Jobs and options.


def amounts_of(name: str, site: Site, jobs: SlurmJobs) -> tuple[NDArray[np.float64], Callable[[Node], float]]:
    """How much of a trackable resource each job takes, and how much a node has."""
    if name == "cpu":
        return jobs.cpus.astype(float), lambda node: node.cpus
    if name == "mem":
        return (memory_of(jobs) * jobs.nodes).astype(float), lambda node: node.memory_mb
    if name == "node":
        return jobs.nodes.astype(float), lambda node: 1
    kind, _, gpu_type = name.partition(":")
    if kind != "gres/gpu":
        return np.zeros(len(jobs)), lambda node: 0
    fits = np.array([gpu_type in ("", each) for each in jobs.gpu_type], bool)
    gpus = (jobs.gpus_per_node * jobs.nodes * fits).astype(float)
    return gpus, lambda node: node.gpus if gpu_type in ("", node.gpu_type) else 0


def fixed_priority(site: Site, jobs: SlurmJobs, associations: Sequence[Association]) -> NDArray[np.float64]:
    """The part of each job's priority that does not change."""
    settings, partitions = site.settings, {each.name: each for each in site.partitions}
    place = {node.name: node for node in site.nodes}
    n, cpus = len(site.nodes), sum(node.cpus for node in site.nodes)
    quotients = [jobs.min_nodes / n, jobs.cpus / cpus]
    if settings.small_relative_to_time:
        size: Any = jobs.cpus / (jobs.limit_s / 60) / cpus
        size = 1 - size if settings.favor_small else size
    else:
        size = sum(1 - each if settings.favor_small else each for each in quotients) / 2

    def share(values: list[int], of: Iterable[int]) -> NDArray[np.float64]:
        largest = max(of, default=0)
        return np.array(values, float) / largest if largest > 0 else np.zeros(len(jobs))

    qos = {each.name: each.priority for each in site.qos}
    total: NDArray[np.float64] = settings.weight_job_size * size
    factors = [partitions[name].job_factor for name in jobs.partition]
    total = total + settings.weight_partition * share(factors, (each.job_factor for each in site.partitions))
    total = total + settings.weight_qos * share([qos.get(name, 0) for name in jobs.qos], qos.values())
    given = [each.priority for each in associations]
    total = total + settings.weight_assoc * share(given, (each.priority for each in site.associations))
    tres = np.zeros(len(jobs))
    for name, weight in settings.weight_tres.items():
        amount, of_node = amounts_of(name, site, jobs)
        has = {each.name: sum(of_node(place[node]) for node in each.nodes) for each in site.partitions}
        largest = np.array([has[partition] for partition in jobs.partition], float)
        tres = tres + weight * np.divide(amount, largest, out=np.zeros(len(jobs)), where=largest > 0)
    return total + tres - jobs.nice


def billing_of(site: Site, jobs: SlurmJobs) -> NDArray[np.float64]:
    """What a second of each job adds to usage."""
    weights = {each.name: each.billing for each in site.partitions}
    factors = {each.name: each.usage_factor for each in site.qos}
    of = np.array(jobs.partition, dtype=object)
    billing: NDArray[np.float64] = jobs.cpus.astype(float)
    for partition, given in weights.items():
        if given:
            parts = [weight * amounts_of(name, site, jobs)[0] for name, weight in given.items()]
            whole = np.max(parts, axis=0) if site.settings.max_tres else sum(parts)
            billing = np.where(of == partition, whole, billing)
    times: NDArray[np.float64] = np.array([factors.get(name, 1.0) for name in jobs.qos], np.float64)
    return billing * times


def job_arrays(
    site: Site, jobs: SlurmJobs, types: Numbers, asks: Numbers, longest_s: NDArray[np.float64]
) -> NDArray[np.void]:
    """The jobs, and the longest limit that is allowed each; `asks` receives the classes of `node_arrays`."""
    settings, table, memory = site.settings, new_records(len(jobs), records.JOB), memory_of(jobs)
    partitions = {each.name: i for i, each in enumerate(site.partitions)}
    if unknown := set(jobs.partition) - set(partitions):
        raise WorkloadError(f"there is no partition {min(unknown)!r}; leave such jobs out, see arrays.possible")
    table["queued_s"] = np.maximum(jobs.submit_s, jobs.eligible_s)
    table["run_s"], table["limit"], table["nodes"] = jobs.run_s, jobs.limit_s, jobs.nodes
    table["submit"], table["eligible"] = np.floor(jobs.submit_s), np.floor(jobs.eligible_s)
    table["aged_from"] = table["submit"] if settings.accrue_always else table["eligible"]
    table["cpus"], table["gpus"] = jobs.cpus_per_node, jobs.gpus_per_node
    if settings.memory:
        table["memory"] = memory
        table["memory_per_cpu"] = np.where(jobs.memory_per_node_mb > 0, 0, jobs.memory_per_cpu_mb)
    table["gpu_type"] = [types[name] if name else -1 for name in jobs.gpu_type]
    table["features"] = [name != "" for name in jobs.constraint]
    table["partition"] = of = np.array([partitions[name] for name in jobs.partition], np.int64)
    given = site.partitions
    table["exclusive"] = jobs.exclusive | settings.whole_nodes | np.array([each.exclusive for each in given], bool)[of]
    table["tier"] = np.array([each.tier for each in given], np.int64)[of]
    most_nodes = np.array([np.inf if each.max_nodes is None else each.max_nodes for each in given])[of]
    table["barred"] = (jobs.nodes > most_nodes) | (jobs.limit_s > longest_s)
    table["asks"] = asks.all(zip(jobs.partition, jobs.constraint, memory.tolist(), strict=True))
    table["first"] = np.cumsum(jobs.nodes) - jobs.nodes
    table["billing"], table["start_s"] = billing_of(site, jobs), np.nan
    return table


def option_record(site: Site) -> NDArray[np.void]:
    """What the kernels read of the settings."""
    s, options = site.settings, new_records(1, records.OPTIONS)
    values = records.numbers_of(s) | {name: getattr(s, name) or NO_LIMIT for name in NO_LIMIT_IF_0}
    values |= {
        "bf_min_prio_reserve": s.bf_min_prio_reserve if s.multifactor else 0,
        "window": int(s.bf_window_s),
        "decay": 1 - 0.693 / s.half_life_s if s.half_life_s else 1.0,
        "new_rules": s.version >= NEW_RULES,
        "leaves": len(site.switches),
        "last_edge": max((max(each.begin_s, each.end_s) for each in site.windows), default=-np.inf),
        "two": 2.0,
    }
    for name, value in values.items():
        options[name] = value
    return options


def counted_of(
    site: Site, jobs: SlurmJobs, table: NDArray[np.void]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Where each job counts in a cycle (n_jobs, COUNTED), how much of each is allowed, and the number of places."""
    s, places = site.settings, Numbers()
    users = places.all(("user", name) for name in jobs.user)
    parts = places.all(("part", name) for name in jobs.partition)
    both = places.all(zip(jobs.user, jobs.partition, strict=True))
    associations = places.all(("association", i) for i in table["association"].tolist())
    reserved = places.all(("reserved", name) for name in jobs.partition)
    # Jobs of no array share a place that is not counted: -1.
    arrays = [places["array", i] if i >= 0 else -1 for i in jobs.array.tolist()]
    most = [s.bf_max_job_user, s.bf_max_job_part, s.bf_max_job_user_part, s.bf_max_job_assoc]
    most += [s.bf_job_part_count_reserve, s.bf_max_job_array_resv]
    columns = [users, parts, both, associations, reserved, np.array(arrays, np.int64)]
    return np.stack(columns, axis=1), np.array([each or NO_LIMIT for each in most], np.int64), len(places)


def shape_arrays(table: NDArray[np.void], nodes: Nodes) -> Shapes:
    """The shapes of jobs, which `table` receives, and slots for some of them."""
    shapes, n = Numbers(), len(nodes.nodes)
    columns = (table[name].tolist() for name in ("cpus", "memory", "gpus", "gpu_type", "exclusive"))
    table["form"] = shapes.all(zip(*columns, strict=True))
    slots = min(len(shapes), SLOT_KEYS // n + 1)
    return Shapes(
        *(np.zeros(int(nodes.nodes["cpus"].sum()), np.int64), np.full(len(shapes), -1), np.full(slots, -1)),
        *(np.zeros(slots, np.int64), np.zeros((slots, n), np.int64), np.zeros((slots, n), np.int64)),
        np.zeros(2 * int(table["nodes"].sum()), np.int64),
    )


def new_plan(room: int, words: int) -> Plan:
    """A plan of up to so many intervals."""
    return Plan(np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros((room, words), np.uint64))


def slurm_arrays(site: Site, jobs: SlurmJobs) -> Slurm:
    """All arrays, as they are before a run.

    Raises:
        WorkloadError: a partition, a constraint or an association makes no sense.
    """
    n, types, asks, asked = len(jobs), Numbers(), Numbers(), Asked(site)
    shares, association, given = share_arrays(site, jobs)
    table = job_arrays(site, jobs, types, asks, longest_s(site, jobs, shares, association, given))
    table["association"] = association
    table["fixed"] = fixed_priority(site, jobs, [given[i] for i in association])
    limited, table["limits"] = limit_arrays(site, jobs, shares, association, given)
    counts_of, most, places = counted_of(site, jobs, table)
    nodes = node_arrays(site, asked, types, asks)
    shapes = shape_arrays(table, nodes)
    most_running = min(n, sum(node.cpus for node in site.nodes))
    rows = [np.argsort(table["queued_s"], kind="stable"), *(np.zeros(n, np.int64) for _ in range(4)), np.zeros(n)]
    places_of = [np.zeros(int(jobs.nodes.sum()), np.int64), new_ends(most_running + 1)]
    plan = [new_plan(ROOM, nodes.mask.size), window_arrays(site), counts_of, np.zeros(places, np.int64), most]
    dates = [np.zeros(len(site.partitions), np.int64), np.empty(0), np.empty(0), np.empty(0)]
    last = [option_record(site), new_records(1, records.STATE)]
    return Slurm._make([table, *rows, *places_of, nodes, shapes, limited, shares, *plan, *dates, *last])


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


def with_usage(site: Site, jobs: SlurmJobs, seconds: NDArray[np.float64]) -> Site:
    """The site with the usage of so many seconds of each job, (n_jobs,), and no other."""
    used, usage = billing_of(site, jobs) * seconds, defaultdict[tuple[str, str], float](float)
    for owner, amount in zip(zip(jobs.account, jobs.user, strict=True), used.tolist(), strict=True):
        usage[owner] += amount
    known = {(each.account, each.user): each for each in site.associations}
    for account, user in usage:
        for key in ((account, ""), (account, user)):
            if key not in known and key not in (("", ""), ("root", "")):
                known[key] = Association(*key)
    return replace(site, associations=tuple(each._replace(usage=usage.get(key, 0.0)) for key, each in known.items()))
