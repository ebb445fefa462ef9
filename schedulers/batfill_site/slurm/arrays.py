"""A site and its jobs as the arrays of `records.py`, and which jobs could start at all."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.engine.ends import new_ends
from batfill.engine.records import new_records
from batfill_site.slurm import records
from batfill_site.slurm.records import KINDS, Limited, Nodes, Plan, Shapes, Shares, Slurm, Windows
from batfill_site.slurm.site import NEW_RULES, Association, Floats, Ints, Limits, Node, Records, Site, SlurmJobs

NO_LIMIT = 2**62
NO_LIMIT_IF_0 = ("partition_job_depth", "sched_max_job_start", "bf_max_job_test", "bf_max_job_start")
LONGEST = 4096  # characters of a constraint
SLOT_KEYS = 2**21  # of all slots together
ROOM = 64  # intervals of a plan, at first
TOO_LONG = "their limit is longer than their partition, QOS or association allows (MaxTime, MaxWall)"
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
        """Those of keys."""
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
    """The lowest limit; None if there is none."""
    return min((each for each in limits if each is not None), default=None)


# Which nodes can take a job.


class Asked:
    """Which nodes each kind of job is asked on."""

    def __init__(self, site: Site) -> None:
        """Of a site."""
        on_leaf = {name for leaf in site.switches for name in leaf} or set(site.place)
        self.partitions = {
            each.name: sorted(site.place[name] for name in each.nodes if name in on_leaf) for each in site.partitions
        }
        self.featured = cache(partial(featured, site))

    def nodes(self, partition: str, constraint: str) -> list[int]:
        """The nodes of a partition that have the features; none if there is no such partition."""
        having = self.featured(constraint)
        return [i for i in self.partitions.get(partition, ()) if i in having]


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


def memory_of(jobs: SlurmJobs) -> Ints:
    """The memory of each job on each of its nodes, in MB."""
    return np.where(jobs.memory_per_node_mb > 0, jobs.memory_per_node_mb, jobs.memory_per_cpu_mb * jobs.cpus_per_node)


def possible(site: Site, jobs: SlurmJobs) -> tuple[SlurmJobs, tuple[str, ...]]:
    """The jobs that can start if the site is empty, and a sentence for each reason why others are left out."""
    jobs = replace(jobs, gpu_type=tuple("" if kind in site.mixed else kind for kind in jobs.gpu_type))
    numbers = (jobs.nodes, jobs.cpus_per_node, memory_of(jobs), jobs.gpus_per_node)
    needs = zip(jobs.partition, jobs.constraint, *(each.tolist() for each in numbers), jobs.gpu_type, strict=True)
    too_long = jobs.limit_s > longest_s(site, jobs, *share_arrays(site, jobs)[1:])
    lacks, rows = cache(partial(lacking, site, Asked(site))), defaultdict[str, list[int]](list)
    for row, (each, long) in enumerate(zip(needs, too_long.tolist(), strict=True)):
        rows[lacks(*each) or TOO_LONG * long].append(row)
    kept = rows.pop("", [])
    texts = tuple(
        f"{len(those)} job{'s are' if len(those) > 1 else ' is'} left out (the first is {jobs.ids[those[0]]}): {reason}"
        for reason, those in rows.items()
    )
    return (jobs.select(kept) if rows else jobs), texts


def lacking(
    site: Site, asked: Asked, partition: str, constraint: str, nodes: int, cpus: int, memory: int, gpus: int, kind: str
) -> str:
    """What a partition lacks for a job, or ""; amounts are on each of its nodes, `kind` is that of its GPUs."""
    if partition not in site.partition_of:
        return f"there is no partition {partition}"
    if nodes > (least(site.partition_of[partition].max_nodes, len(asked.partitions[partition])) or 0):
        return "they need more nodes than their partition has or allows"
    left = [site.nodes[i] for i in asked.nodes(partition, constraint)]
    tests: dict[str, Callable[[Node], bool]] = {
        "features that they name": lambda node: True,
        "CPUs that they need": lambda node: node.cpus >= cpus,
        "memory that they need": lambda node: node.memory_mb >= memory,
        "GPUs that they need": lambda node: gpus == 0 or (node.gpus >= gpus and kind in ("", node.gpu_type)),
    }
    for what, test in tests.items():
        left = [node for node in left if test(node)]
        if len(left) < nodes:
            return f"too few nodes of their partition have the {what}"
    return ""


# The arrays of each part.


def node_arrays(site: Site, types: Numbers, asks: Iterable[tuple[str, str, int]]) -> Nodes:
    """The nodes; `types` are those of GPUs, `asks` partition, features and memory of each class of jobs."""
    n, asked = len(site.nodes), Asked(site)
    nodes = new_records(n, records.NODE)
    nodes["free"] = nodes["cpus"] = [node.cpus for node in site.nodes]
    nodes["first"] = np.cumsum(nodes["cpus"]) - nodes["cpus"]
    nodes["memory"], nodes["gpus"] = [node.memory_mb for node in site.nodes], [node.gpus for node in site.nodes]
    for leaf, members in enumerate(site.switches):
        nodes["group"][[site.place[name] for name in members]] = leaf
    nodes["gpu_type"] = types.all(node.gpu_type for node in site.nodes)
    weights = sorted({node.weight for node in site.nodes})
    sets = [
        [[i for i in asked.nodes(*given) if site.nodes[i].memory_mb >= memory] for *given, memory in asks],
        [asked.partitions[each.name] for each in site.partitions],
        [[i for i, node in enumerate(site.nodes) if node.weight <= weight] for weight in weights],
    ]
    places = np.zeros(67, np.uint8)
    places[[pow(2, i, 67) for i in range(64)]] = range(64)
    scratch = [new_records(n + len(site.switches), records.GROUP), places, *sets_of([[]] * 9, n)]
    return Nodes._make([nodes, *(sets_of(some, n) for some in sets), *scratch])


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
            rows[kid] = below(rows[i], rows[kid])
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


def below(above: Association, association: Association) -> Association:
    """The association with the limits of each job that hold from above, where it sets none."""
    each = zip(association.each, above.each, strict=True)
    wall_s = above.max_wall_s if association.max_wall_s is None else association.max_wall_s
    return association._replace(each=Limits(*(b if a is None else a for a, b in each)), max_wall_s=wall_s)


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
    site: Site, jobs: SlurmJobs, shares: Shares, association: Ints, rows: list[Association]
) -> tuple[Limited, Ints]:
    """The limits, and each job's class of them; the last three are what `share_arrays` gives."""
    counters, most, of_class, parent = Numbers(), dict[Any, Limits](), list[list[int]](), shares.tree["parent"].tolist()
    of_partition = (site.partition_of[name].qos for name in jobs.partition)
    keys = list(zip(association.tolist(), jobs.user, jobs.account, jobs.qos, of_partition, strict=True))
    classes = Numbers()
    of_jobs = classes.all(keys)
    for leaf, user, account, *of_qos in classes:
        held: dict[Any, Limits] = {leaf: Limits(*map(least, rows[leaf].group, rows[leaf].each))}
        above = parent[leaf]
        while above > 0:
            held[above], above = rows[above].group, parent[above]
        for qos in (site.qos_of[name] for name in of_qos if name in site.qos_of):
            held |= {("qos", qos.name): qos.group, ("user", qos.name, user): qos.per_user}
            held["account", qos.name, account] = qos.per_account
        of_class.append([counters[what] for what, limits in held.items() if least(*limits) is not None])
        for what, limits in held.items():
            most.setdefault(what, limits)
    bounds = [[NO_LIMIT if each is None else each for each in most[what]] for what in counters]
    highest = np.array(bounds, np.int64).reshape(-1, KINDS)
    amounts = [np.ones(len(jobs), np.int64), jobs.cpus, jobs.nodes, memory_of(jobs) * jobs.nodes]
    amounts.append(jobs.gpus_per_node * jobs.nodes)
    return Limited(*side_by_side(of_class), highest, np.zeros_like(highest), np.stack(amounts, axis=1)), of_jobs


def longest_s(site: Site, jobs: SlurmJobs, association: Ints, rows: list[Association]) -> Floats:
    """The longest limit that each job's partition, QOS and association allow; the last two are of `share_arrays`."""
    of_qos = {each.name: each.max_wall_s for each in site.qos}
    of_partition = {each.name: least(each.max_time_s, of_qos.get(each.qos)) for each in site.partitions}
    given = zip(association.tolist(), jobs.qos, jobs.partition, strict=True)
    longest = [least(np.inf, rows[i].max_wall_s, of_qos.get(qos), of_partition.get(name)) for i, qos, name in given]
    return np.array(longest, np.float64)


def window_arrays(site: Site) -> Windows:
    """The calendar."""
    given = [each for each in site.windows if each.begin_s < each.end_s]
    windows, step = new_records(len(given), records.WINDOW), site.settings.bf_resolution_s
    windows["begin_s"], windows["end_s"] = [each.begin_s for each in given], [each.end_s for each in given]
    windows["told_s"] = [min(each.begin_s, each.announced_s) for each in given]
    windows["b"], windows["e"] = np.floor(windows["begin_s"] / step) * step, np.ceil(windows["end_s"] / step) * step
    nodes = sets_of([[site.place[name] for name in each.nodes] for each in given], len(site.nodes))
    return Windows(windows, nodes, np.zeros(len(given), np.int64))


# Jobs and options.


def amounts_of(name: str, site: Site, jobs: SlurmJobs) -> tuple[Floats, Callable[[Node], float]]:
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


def fixed_priority(site: Site, jobs: SlurmJobs, rows: Iterable[Association]) -> Floats:
    """The part of each job's priority that does not change; `rows` are the jobs' associations."""
    s, tres = site.settings, np.zeros(len(jobs))
    if s.small_relative_to_time:
        size: Any = jobs.cpus / (jobs.limit_s / 60) / site.cpus
        size = 1 - size if s.favor_small else size
    else:
        parts = jobs.min_nodes / len(site.nodes), jobs.cpus / site.cpus
        size = sum(1 - each if s.favor_small else each for each in parts) / 2

    def share(values: Iterable[int], of: Iterable[int]) -> Any:
        largest = max(of, default=0)
        return np.array(list(values), float) / largest if largest > 0 else 0.0

    total: Floats = s.weight_job_size * size
    factors = [site.partition_of[name].job_factor for name in jobs.partition]
    total = total + s.weight_partition * share(factors, (each.job_factor for each in site.partitions))
    of_qos = {each.name: each.priority for each in site.qos}
    total = total + s.weight_qos * share([of_qos.get(name, 0) for name in jobs.qos], of_qos.values())
    priorities = (each.priority for each in site.associations)
    total = total + s.weight_assoc * share([each.priority for each in rows], priorities)
    for name, weight in s.weight_tres.items():
        amount, of_node = amounts_of(name, site, jobs)
        has = {each.name: sum(of_node(site.nodes[site.place[node]]) for node in each.nodes) for each in site.partitions}
        largest = np.array([has[partition] for partition in jobs.partition], float)
        tres = tres + weight * np.divide(amount, largest, out=np.zeros(len(jobs)), where=largest > 0)
    return total + tres - jobs.nice


def billing_of(site: Site, jobs: SlurmJobs) -> Floats:
    """What a second of each job adds to usage."""
    of, billing = np.array(jobs.partition, dtype=object), jobs.cpus.astype(float)
    for each in site.partitions:
        if each.billing:
            parts = [weight * amounts_of(name, site, jobs)[0] for name, weight in each.billing.items()]
            whole = np.max(parts, axis=0) if site.settings.max_tres else sum(parts)
            billing = np.where(of == each.name, whole, billing)
    factors = {each.name: each.usage_factor for each in site.qos}
    return billing * np.array([factors.get(name, 1.0) for name in jobs.qos], np.float64)


def job_arrays(site: Site, jobs: SlurmJobs, types: Numbers, asks: Numbers, longest_s: Floats) -> Records:
    """The jobs, and the longest limit that is allowed each; `asks` receives the classes of `node_arrays`."""
    settings, table, memory = site.settings, new_records(len(jobs), records.JOB), memory_of(jobs)
    given, place = site.partitions, {each.name: i for i, each in enumerate(site.partitions)}
    if unknown := set(jobs.partition) - set(place):
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
    table["partition"] = of = np.array([place[name] for name in jobs.partition], np.int64)
    table["exclusive"] = jobs.exclusive | settings.whole_nodes | np.array([each.exclusive for each in given], bool)[of]
    table["tier"] = np.array([each.tier for each in given], np.int64)[of]
    most_nodes = np.array([np.inf if each.max_nodes is None else each.max_nodes for each in given])[of]
    table["barred"] = (jobs.nodes > most_nodes) | (jobs.limit_s > longest_s)
    table["asks"] = asks.all(zip(jobs.partition, jobs.constraint, memory.tolist(), strict=True))
    table["first"] = np.cumsum(jobs.nodes) - jobs.nodes
    table["billing"], table["start_s"] = billing_of(site, jobs), np.nan
    return table


def option_record(site: Site) -> Records:
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


def shape_arrays(table: Records, nodes: Nodes) -> Shapes:
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
    n, types, asks = len(jobs), Numbers(), Numbers()
    shares, association, given = share_arrays(site, jobs)
    table = job_arrays(site, jobs, types, asks, longest_s(site, jobs, association, given))
    table["association"] = association
    table["fixed"] = fixed_priority(site, jobs, [given[i] for i in association])
    limited, table["limits"] = limit_arrays(site, jobs, shares, association, given)
    counts_of, most, places = counted_of(site, jobs, association)
    nodes = node_arrays(site, types, asks)
    shapes = shape_arrays(table, nodes)
    rows = [np.argsort(table["queued_s"], kind="stable"), *(np.zeros(n, np.int64) for _ in range(4)), np.zeros(n)]
    places_of = [np.zeros(int(jobs.nodes.sum()), np.int64), new_ends(min(n, site.cpus) + 1)]
    plan = [new_plan(ROOM, nodes.mask.size), window_arrays(site), counts_of, np.zeros(places, np.int64), most]
    dates = [np.zeros(len(site.partitions), np.int64), np.full(8, np.inf), np.empty(0), np.empty(0), np.empty(0)]
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
