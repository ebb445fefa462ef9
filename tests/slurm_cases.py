"""Random small sites under Slurm with every option of the model, and jobs for them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from batfill_site.slurm.site import (
    MODES,
    Association,
    Clock,
    Leaf,
    Limits,
    Node,
    Partition,
    Qos,
    Settings,
    Site,
    SlurmJobs,
    Window,
)

BEGAN = 1_700_000_000
WALLS = (None, None, None, None, 900.0, 1500.0)
WEIGHTS = {"age": 1000, "fairshare": 5000, "job_size": 700, "partition": 300, "qos": 500, "assoc": 500}
MOST_JOBS = {"user": 3, "part": 5, "user_part": 2, "assoc": 2, "start": 1}
QOS = ("low", "mid", "high")  # each may preempt some of those before it
GRACES = (0, 0, 0, 10, 70)
RESETS = ("NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY")


class Chance:
    """Draws from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, *values):
        return values[self.rng.integers(len(values))]

    def some(self, values, least=0):
        values = list(values)
        n = int(self.rng.integers(least, len(values) + 1))
        return [values[i] for i in sorted(self.rng.choice(len(values), n, replace=False))]

    def yes(self, chance=0.5):
        return bool(self.rng.random() < chance)

    def upto(self, most, least=0):
        return int(self.rng.integers(least, most + 1))

    def limits(self, chance=0.3):
        return Limits(*(self.upto(most, 1) if self.yes(chance) else None for most in (6, 16, 6, 3000, 6)))


def random_site(draw):
    names = [f"n{i:02}" for i in range(draw.one(1, 2, 4, 6, 9, 70))]
    gpus, threads = draw.yes(), draw.one(1, 1, 1, 2)
    nodes = tuple(
        Node(
            *(name, draw.one(1, 2, 4, 4, 4, 8), draw.one(500, 1000, 1000, 2000)),
            gpus=draw.one(0, 0, 1, 2) if gpus else 0,
            gpu_type=draw.one("", "a", "b"),
            features=frozenset(draw.some("ABC")),
            weight=draw.one(1, 1, 2, 3),
            threads=threads,
        )
        for name in names
    )
    accounts = [Association(name, shares=draw.upto(3), parent=draw.one("", "root")) for name in "pq"]
    accounts.append(Association("r", parent="p", shares=2, group=draw.limits(), each=draw.limits(0.15)))
    users = [Association(account, user, shares=draw.upto(3)) for account in "pqr" for user in draw.some("uvw")]
    users = [
        each._replace(group=draw.limits(0.1), each=draw.limits(0.1), priority=draw.upto(4), usage=1e4 * draw.upto(9))
        for each in users
    ]
    first = Association("root", "root") if draw.yes() else Association("", "x", shares=2)
    associations = (each._replace(max_wall_s=draw.one(*WALLS)) for each in (first, *accounts, *users))
    qos = draw.some(QOS)
    qos = tuple(random_qos(draw, name, qos[:k]) for k, name in enumerate(qos))
    return Site(
        nodes=nodes,
        partitions=tuple(random_partition(draw, name, names) for name in draw.one("a", "ab", "abc")),
        switches=random_switches(draw, names),
        associations=tuple(associations) if draw.yes(0.7) else (),
        qos=qos,
        settings=random_settings(draw),
        windows=tuple(random_window(draw, names) for _ in range(draw.one(0, 0, 1, 3))),
    )


def random_qos(draw, name, before):
    return Qos(
        *(name, draw.upto(9), draw.one(0.0, 1.0, 2.0), *(draw.limits(0.1) for _ in range(3)), draw.one(*WALLS)),
        preempts=tuple(draw.some(before)),
        preempt_mode=draw.one("", "", *MODES[:3]),
        preempt_within=draw.yes(0.2),
        preempt_exempt_s=draw.one(None, None, 0.0, 45.0),
        grace_s=draw.one(*GRACES),
    )


def random_partition(draw, name, names):
    whole = draw.yes(0.4)
    return Partition(
        name,
        tuple(names if whole else draw.some(names, 1)),
        tier=draw.one(1, 1, 2, 3),
        job_factor=draw.upto(3),
        max_time_s=draw.one(None, None, 1800.0),
        max_nodes=draw.one(None, None, None, 2, 3),
        exclusive=draw.yes(0.1),
        qos=draw.one("", "", "low"),
        billing=draw.one({}, {"cpu": 1.0, "mem": 0.001, "gres/gpu": 2.0, "gres/gpu:a": 1.5, "node": 1.0, "disk": 9.0}),
        preempt_mode=draw.one("", "", "", *MODES),
        grace_s=draw.one(*GRACES),
    )


def random_switches(draw, names):
    if draw.yes():
        return ()
    mixed = [names[i] for i in draw.rng.permutation(len(names))]
    cuts = sorted({0, len(names), *(draw.upto(len(names)) for _ in range(3))})
    tree = Chance(
        int("1" + "".join(str(names.index(name)) for name in mixed))
    )  # what is drawn after it stays as it was
    above = tree.one(((), ("t",)), (("s", "t"), ("r", "t"), ("q", "r", "t")))
    return tuple(Leaf(tuple(mixed[a:b]), tree.one(*above)) for a, b in pairwise(cuts)) + draw.one((), (Leaf(()),))


def random_window(draw, names):
    begin_s = BEGAN + draw.upto(4000) + draw.one(0.0, 0.5)
    announced_s = begin_s - draw.one(-100.0, 0.0, 700.0, 5000.0)
    return Window(tuple(draw.some(names, 1)), begin_s, begin_s + max(draw.upto(2000), 1), announced_s)


def random_settings(draw):
    resolution_s, preempt = draw.one(1, 60, 60, 300), draw.one("", "", "partition_prio", "partition_prio", "qos", "qos")
    return Settings(
        version=draw.one((17, 11), (20, 2), (20, 11), (22, 5)),
        multifactor=draw.yes(0.8),
        **{f"weight_{name}": draw.one(0, most) for name, most in WEIGHTS.items()},
        weight_tres=draw.one({}, {"cpu": 100.0, "mem": 200.0, "gres/gpu:a": 50.0, "gres/gpu": 30.0, "node": 7.0}),
        max_age_s=draw.one(0.0, 600.0, 86400.0),
        half_life_s=draw.one(0.0, 600.0, 86400.0),
        calc_period_s=draw.one(60.0, 300.0),
        usage_reset=draw.one(*RESETS),
        fair_tree=draw.yes(),
        damping=draw.one(1.0, 5.0),
        favor_small=draw.yes(0.3),
        small_relative_to_time=draw.yes(0.2),
        accrue_always=draw.yes(0.3),
        max_tres=draw.yes(0.3),
        default_queue_depth=draw.one(100, 100, 3, 0),
        partition_job_depth=draw.one(0, 0, 2),
        sched_interval_s=draw.one(60.0, 60.0, 7.5, 600.0),
        batch_sched_delay_s=draw.one(3.0, 0.0, 2.5),
        sched_max_job_start=draw.one(0, 0, 1),
        defer=draw.yes(0.2),
        backfill=draw.yes(0.9),
        bf_interval_s=draw.one(30.0, 30.0, 5.0, 61.5),
        bf_window_s=draw.one(86400.0, 86400.0, 1500.0),
        bf_resolution_s=resolution_s,
        bf_window_linear_s=draw.one(0, 0, 1, 60),
        bf_max_job_test=draw.one(500, 500, 4, 0),
        **{f"bf_max_job_{name}": draw.one(0, 0, most) for name, most in MOST_JOBS.items()},
        bf_max_job_array_resv=draw.one(20, 1, 0),
        bf_min_age_reserve_s=draw.one(0.0, 0.0, 200.0),
        bf_min_prio_reserve=draw.one(0, 0, 1500),
        bf_job_part_count_reserve=draw.one(0, 0, 2),
        preempt=preempt,
        preempt_mode=draw.one(*MODES[1:]) if preempt == "partition_prio" else draw.one(*MODES[1:3]),
        preempt_within=draw.yes(0.2),
        preempt_exempt_s=draw.one(0.0, 0.0, 30.0, 200.0),
        preempt_youngest_first=draw.yes(0.3),
        preempt_reorder_count=draw.one(1, 1, 0, 3),
        cred_expire_s=draw.one(120, 15, 0),
        job_requeue=draw.yes(0.8),
        memory=draw.yes(0.7),
        whole_nodes=draw.yes(0.1),
        least_loaded=draw.yes(0.15),
        serial_at_end=draw.yes(0.15),
    )


def random_jobs(draw, site, n):
    rng = draw.rng
    over = int(rng.integers(10, 4000))
    dates = BEGAN + np.sort(rng.integers(0, over + 1, n)) + (rng.integers(0, 4, n) / 4 if draw.yes() else 0.0)
    submit_s = np.sort(dates).astype(float)
    eligible_s = submit_s + np.where(rng.random(n) < 0.1, rng.integers(0, 900, n), 0)
    # Layouts: even; any nodes; so many nodes, not even; from so many to so many.
    layout, task = rng.choice(4, n, p=[0.5, 0.25, 0.2, 0.05]), rng.choice([1, 1, 1, 2], n)
    nodes = np.where(layout == 1, 1, rng.integers(1, min(4, len(site.nodes) + 1) + 1, n))
    cpus_per_node = np.where(layout > 0, task, rng.integers(1, 5, n))
    cpus = np.where(layout > 0, nodes * task + task * rng.integers(0, 8, n), nodes * cpus_per_node)
    cpus -= (layout == 0) & (cpus > 1) & (rng.random(n) < 0.1)
    limit_s = rng.choice([60, 120, 300, 600, 601, 1500, 3600], n)
    run_s = np.where(rng.random(n) < 0.1, 0.0, limit_s * rng.choice([0.1, 0.5, 1.0, 1.2], n))
    memory = rng.choice([0, 100, 100, 300, 500], n)
    per_node = rng.random(n) < 0.3
    gpus = (
        np.where(rng.random(n) < 0.2, rng.integers(1, 3, n), 0) if any(node.gpus for node in site.nodes) else 0 * nodes
    )
    names = [each.name for each in site.partitions]
    partitions = [draw.some(names, 1)[::-1] if draw.yes(0.2) else [draw.one(*names)] for _ in range(n)]
    words = ("", "", "", "", "", "", "A", "A&B", "A|B", "(A|B)&C", "[A|C]", "A*2,B")
    return SlurmJobs.of(
        submit_s,
        eligible_s=eligible_s.astype(float),
        limit_s=limit_s,
        run_s=run_s,
        leave_s=some_leave(submit_s),
        slept_s=run_s * rng.choice([0.0, 0.0, 0.5], n),
        cpus=cpus,
        nodes=nodes,
        max_nodes=np.choose(layout, [nodes, 0 * nodes, nodes, nodes + 1]),
        cpus_per_node=cpus_per_node,
        cpus_per_task=task,
        min_nodes=np.where(rng.random(n) < 0.5, 1, nodes),
        memory_unsaid=rng.random(n) < 0.15,
        memory_per_cpu_mb=np.where(per_node, 0, memory),
        memory_per_node_mb=np.where(per_node, memory, 0),
        gpus_per_node=gpus,
        gpu_type=tuple(draw.one("", "a", "b") for _ in range(n)),
        constraint=tuple(draw.one(*words) for _ in range(n)),
        partition=tuple(each[0] for each in partitions),
        partitions=tuple(",".join(each) if len(each) > 1 else "" for each in partitions),
        required=tuple(some_nodes(draw, site) for _ in range(n)),
        excluded=tuple(some_nodes(draw, site) for _ in range(n)),
        qos=tuple(draw.one("", *QOS) for _ in range(n)),
        account=tuple(draw.one("p", "q", "r", "s", "") for _ in range(n)),
        user=tuple(draw.one("u", "v", "w") for _ in range(n)),
        array=rng.choice([-1, -1, 7, 8], n),
        nice=rng.choice([0, 0, 500, -50], n),
        exclusive=rng.random(n) < draw.one(0.0, 0.0, 0.2),
        requeue=rng.choice([-1, -1, 0, 1], n),
    )


def some_leave(submit_s):
    """When users cancel jobs, in half of the cases some of them; with numbers of its own, so that seeds keep theirs."""
    rng = np.random.default_rng(int(submit_s.sum()))
    after_s = np.where(rng.random(len(submit_s)) < 0.4, rng.integers(0, 1500, len(submit_s)), np.inf)
    return submit_s + (after_s if rng.random() < 0.5 else np.inf)


def some_nodes(draw, site):
    """A list of one or two nodes, for some jobs."""
    return ",".join(sorted({draw.one(*site.nodes).name for _ in range(draw.one(1, 1, 2))}) if draw.yes(0.07) else ())


def random_clock(draw, site):
    dates = np.sort(draw.rng.integers(0, 8000, 300)) + 0.25
    main_s = tuple((BEGAN + dates[::2]).tolist()) if draw.yes(0.1) else ()
    return Clock(
        main_s=main_s,
        full_s=main_s[:: draw.one(1, 2, 7)],
        cycles_s=tuple((BEGAN + dates[::3]).tolist()) if draw.yes(0.1) else (),
        phase_s=draw.one(0.6, 0.0, 0.25),
        checks_s=tuple((BEGAN + dates[::5] + 0.5).tolist()) if draw.yes(0.1) else (),
        first_check_s=draw.one(np.nan, BEGAN - 9.5, BEGAN + 40.25),
        first_cycle_s=draw.one(np.nan, BEGAN + 3.0, BEGAN + 50.75),
        first_decay_s=draw.one(np.nan, BEGAN - 8.0, BEGAN + 31.5),
        arrival_s=draw.one(0.0, 0.7),
        overhead_s=draw.one(0.14, 0.0),
        cleaning_s=draw.one(0.02, 0.0, 2.0),
        killing_s=draw.one(0.05, 0.0, 2.0),
        test_s=draw.one(0.0016, 0.0, 0.25),
        jitter_s=draw.one(0.0, 0.5),
        seed=draw.upto(5),
    )


def licensed(draw, site, jobs):
    """The same with licences, and with flags of QOS."""
    if draw.yes():
        return site, jobs
    there, planned = {"x": draw.upto(4, 1), "y": draw.upto(3, 1)}, draw.yes()
    some = [("", "x=1", "x=2,y=1", "y=3", "z=1")[draw.upto(4)] for _ in range(len(jobs))]
    flags = ("no_reserve", "over_partition_qos", "over_time", "over_nodes")
    qos = tuple(each._replace(**{name: draw.yes(0.3) for name in flags}) for each in site.qos)
    settings = replace(
        site.settings, licenses=there, bf_licenses=planned, bf_running_job_reserve=planned or draw.yes(0.2)
    )
    return replace(site, qos=qos, settings=settings), replace(jobs, licenses=tuple(some))


def random_case(seed, most_jobs=40):
    """A site, its jobs and a clock."""
    draw = Chance(seed)
    site = random_site(draw)
    jobs, clock = random_jobs(draw, site, draw.upto(most_jobs, 1)), random_clock(draw, site)
    return *licensed(Chance(seed + 1), site, jobs), clock


def preempting_case(seed, most_jobs=40):
    """A small, full site that preempts, with less of all else; its jobs and a clock."""
    draw = Chance(seed)
    site, none = random_site(draw), {"group": Limits(), "per_user": Limits(), "per_account": Limits()}
    nodes = tuple(Node(f"n{i:02}", draw.one(1, 2, 4), 1000, gpus=1) for i in range(draw.upto(6, 2)))
    names = tuple(node.name for node in nodes)
    partitions = (random_partition(draw, name, names)._replace(max_nodes=None, max_time_s=None) for name in "abc")
    qos = (random_qos(draw, name, QOS[:k])._replace(**none, max_wall_s=None) for k, name in enumerate(QOS))
    site = Site(
        nodes=nodes,
        partitions=tuple(
            each._replace(tier=tier, nodes=names if draw.yes(0.8) else each.nodes, exclusive=draw.yes(0.05))
            for tier, each in zip(draw.one((1, 2, 3), (2, 1, 2)), partitions, strict=True)
        ),
        qos=tuple(each._replace(preempts=QOS[: min(draw.one(k, k, 1, 0), k)]) for k, each in enumerate(qos)),
        settings=replace(
            site.settings,
            preempt=draw.one("partition_prio", "qos"),
            preempt_exempt_s=draw.one(0.0, 0.0, 40.0),
            default_queue_depth=100,
            memory=draw.yes(0.4),
            whole_nodes=False,
        ),
    )
    n = draw.upto(most_jobs, most_jobs // 3)
    jobs, free = random_jobs(draw, site, n), draw.rng.random(n) < 0.5
    on, each = draw.rng.integers(1, 3, n), draw.rng.integers(1, 3, n)
    shape = {"nodes": np.where(free, 1, on), "max_nodes": np.where(free, 0, on), "cpus": on * each}
    shape |= {"cpus_per_node": np.where(free, 1, each), "cpus_per_task": np.ones(n, int), "min_nodes": np.ones(n, int)}
    soon_s = BEGAN + (jobs.submit_s - BEGAN) // draw.one(2, 5, 20)
    jobs = replace(jobs, submit_s=soon_s, eligible_s=jobs.eligible_s - jobs.submit_s + soon_s, **shape)
    words = dict.fromkeys(("constraint", "required", "gpu_type"), ("",) * n)
    return (
        site,
        replace(jobs, gpus_per_node=1 * (draw.rng.random(n) < draw.one(0.0, 0.2)), **words),
        random_clock(draw, site),
    )


def waiting_case(seed, most_jobs=40):
    """A small, full site of like nodes, where jobs wait through many cycles; its jobs and a clock."""
    draw = Chance(seed)
    site, names = random_site(draw), tuple(f"n{i}" for i in range(draw.upto(8, 2)))
    tiers = draw.one((1, 1, 1), (1, 2, 3))
    site = Site(
        nodes=tuple(Node(name, 4, weight=draw.one(1, 1, 2)) for name in names),
        partitions=tuple(Partition(name, names, tier) for name, tier in zip("abc", tiers, strict=True)),
        switches=random_switches(draw, names),
        associations=tuple(each._replace(group=Limits(), each=Limits(), max_wall_s=None) for each in site.associations),
        windows=tuple(random_window(draw, names) for _ in range(draw.one(0, 0, 2))),
        settings=replace(
            site.settings, calc_period_s=60.0, whole_nodes=False, preempt=draw.one("", "", "partition_prio")
        ),
    )
    n = draw.upto(most_jobs, most_jobs // 2)
    jobs, on, each = random_jobs(draw, site, n), draw.rng.integers(1, len(names) + 1, n), draw.rng.integers(1, 5, n)
    soon_s = BEGAN + np.floor((jobs.submit_s - BEGAN) / draw.one(1, 3, 20))
    shape = {"nodes": on, "min_nodes": on, "max_nodes": on, "cpus": on * each, "cpus_per_node": each}
    shape |= {name: np.zeros(n, int) for name in ("memory_per_cpu_mb", "memory_per_node_mb", "gpus_per_node")}
    shape |= dict.fromkeys(("constraint", "required", "excluded", "gpu_type"), ("",) * n)
    jobs = replace(jobs, submit_s=soon_s, eligible_s=soon_s, cpus_per_task=np.ones(n, int), **shape)
    return site, replace(jobs, exclusive=np.zeros(n, bool)), random_clock(draw, site)
