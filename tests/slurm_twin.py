"""Slurm as docs/background/slurm.md has it, rule by rule: slow and obvious, to compare the compiled model with.

`Twin(site, jobs).run(clock)` returns a `site.Run`. Methods are named after rules; a subclass removes or changes one.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from datetime import UTC, datetime
from itertools import groupby

import numpy as np

from batfill_site.slurm.hosts import expand
from batfill_site.slurm.site import (
    BACKFILL,
    GRACED,
    KILLED,
    MAIN,
    NEW_RULES,
    NONE,
    PREEMPTED,
    REQUEUED,
    RESUMED,
    SUSPENDED,
    Association,
    Qos,
    Run,
    licences_of,
)

END, CLEAN, QUEUE, LEAVE, TICK, CHECK, AFTER_END, DUE, FULL, CYCLE = range(10)  # the order of simultaneous events
GIVE_UP_S = 3600.0
CHECK_S = 30.0


class Job:
    """A row of SlurmJobs in one of its partitions: a record (Q2), with what the site makes of it."""

    def __init__(self, row, jobs, site, partition):
        for name in ("submit_s", "eligible_s", "limit_s", "run_s", "leave_s", "cpus", "nodes", "min_nodes"):
            setattr(self, name, getattr(jobs, name)[row].item())
        for name in ("array", "nice"):
            setattr(self, name, getattr(jobs, name)[row].item())
        for name in ("constraint", "qos", "account", "user", "gpu_type"):
            setattr(self, name, getattr(jobs, name)[row])
        self.row, self.partition = row, partition
        self.k, self.t = jobs.cpus_per_node[row].item(), jobs.cpus_per_task[row].item()
        self.even = jobs.max_nodes[row].item() == self.nodes and self.nodes * self.k >= self.cpus
        over_nodes = any(each.over_nodes for each in site.qos if each.name == self.qos)
        self.most = min(
            jobs.max_nodes[row].item() or math.inf,
            math.inf if partition.max_nodes is None or over_nodes else partition.max_nodes,
        )
        self.gpus = jobs.gpus_per_node[row].item()
        unsaid = jobs.memory_unsaid[row].item() and site.settings.memory
        of = partition.memory_per_cpu_mb, partition.memory_per_node_mb * (not partition.memory_per_cpu_mb)
        said = jobs.memory_per_cpu_mb[row].item(), jobs.memory_per_node_mb[row].item()
        self.memory_per_cpu, self.memory_per_node = of if unsaid and any(of) else said
        self.all_memory = unsaid and not any(of)
        self.required, self.excluded = ({*expand(x)} if x else set() for x in (jobs.required[row], jobs.excluded[row]))
        self.alone = bool(jobs.exclusive[row]) or partition.exclusive or site.settings.whole_nodes
        memory = self.memory_per_cpu * self.cpus or self.memory_per_node * self.min_nodes
        self.wants = self.amounts(self.cpus, memory, self.min_nodes, self.gpus * self.min_nodes)
        self.licences = {
            name: n for name, n in licences_of(jobs.licenses[row]).items() if name in site.settings.licenses
        }
        self.tried_cpus = self.nodes * self.k if self.even else self.cpus
        self.may_requeue = site.settings.job_requeue if (said := jobs.requeue[row].item()) < 0 else said > 0
        self.run_s -= jobs.slept_s[row].item() if site.suspends else 0.0
        self.start, self.by, self.held = math.nan, 0, {}
        self.grace, self.asleep, self.requeued = math.inf, False, False

    def amounts(self, cpus, memory, nodes, gpus):
        amounts = {"jobs": 1, "cpu": cpus, "node": nodes, "mem": memory, "gres/gpu": gpus}
        return amounts | {f"gres/gpu:{self.gpu_type}": gpus}

    @property
    def at(self):
        return sorted(self.held)

    @property
    def holds(self):
        return self.sums(self.held)

    def sums(self, held):
        cpus, memory, gpus = (sum(each) for each in zip(*held.values(), strict=True))
        return self.amounts(cpus, memory, len(held), gpus)


class Share:
    """An account, or a user in one: its row, and the share above."""

    def __init__(self, row):
        self.row, self.parent, self.part, self.usage, self.factor = row, None, 0.0, 0.0, 1.0

    def upward(self):
        return [self, *(self.parent.upward() if self.parent is not None else ())]


def has_features(expression, features):
    """Whether a node with these features serves: & and the comma before |; brackets are read as parentheses."""
    python = {"&": " and ", ",": " and ", "|": " or ", "[": "(", "]": ")", "(": "(", ")": ")"}
    words = re.findall(r"[][&|,()]|[^][&|,()\s]+", expression)
    return eval("".join(python[w] if w in python else str(w.split("*")[0] in features) for w in words))


class Twin:
    """A site's Slurm and its jobs."""

    def __init__(self, site, jobs, running=None, begin_s=-math.inf):
        self.begin_s = begin_s
        self.site, self.s, self.nodes = site, site.settings, site.nodes
        self.index = {node.name: i for i, node in enumerate(site.nodes)}
        named = [(jobs.partitions[row] or jobs.partition[row]).split(",") for row in range(len(jobs))]
        of = {each.name: each for each in site.partitions}
        self.records = [[Job(row, jobs, site, of[x]) for x in names if x in of] for row, names in enumerate(named)]
        self.jobs = [records[0] for records in self.records]  # later the record that started
        self.leaves = [sorted(self.index[name] for name in leaf.nodes) for leaf in site.switches]
        self.qos = {each.name: each for each in site.qos}
        self.new = self.s.version >= NEW_RULES
        self.decay = 1 - 0.693 / self.s.half_life_s if self.s.half_life_s else 1.0
        self.u3_shares()
        for job in (each for records in self.records for each in records):
            job.asked, job.fixed, job.priority = self.p2_asked(job), self.q3_fixed(job, job.cpus), 1
            job.required = {self.index.get(name, -1) for name in job.required}
        self.to_queue, self.at_first = list(self.jobs), []
        for row in () if running is None else np.flatnonzero(running).tolist():
            job, start_s = self.jobs[row], jobs.started_s[row].item()
            self.at_first.append((job, start_s + job.run_s))
            self.to_queue.remove(job)
            job.start = float(math.floor(start_s))
            job.seats = sorted(self.index[name] for name in expand(jobs.ran_on[row]))

    # The queue

    def q2_order(self, job):
        return -job.partition.tier, -job.priority, math.floor(job.submit_s), job.row

    def q3_size(self, job, cpus):
        n, c = len(self.nodes), sum(node.cpus for node in self.nodes)
        parts = job.min_nodes / n, cpus / c
        if self.s.small_relative_to_time:
            size = max(cpus, job.min_nodes * c / n) / (job.limit_s / 60) / c
            return 1 - size if self.s.favor_small else size
        return sum(1 - x if self.s.favor_small else x for x in parts) / 2

    def q3_fixed(self, job, cpus):
        def share(value, values):
            largest = max(values, default=0)
            return value / largest if largest else 0.0

        s, site = self.s, self.site
        fixed = s.weight_job_size * self.q3_size(job, cpus)
        fixed += s.weight_partition * share(job.partition.job_factor, [p.job_factor for p in site.partitions])
        fixed += s.weight_qos * share(self.qos.get(job.qos, Qos("")).priority, [q.priority for q in site.qos])
        fixed += s.weight_assoc * share(job.share.row.priority, [a.priority for a in site.associations])
        of_nodes = Counter()
        for node in (self.nodes[self.index[name]] for name in job.partition.nodes):
            of_nodes.update({"cpu": node.cpus, "mem": node.memory_mb, "node": 1, "gres/gpu": node.gpus})
            of_nodes[f"gres/gpu:{node.gpu_type}"] += node.gpus
        amounts = ((weight, job.wants.get(name, 0), of_nodes[name]) for name, weight in s.weight_tres.items())
        return fixed + sum(weight * (amount / whole) for weight, amount, whole in amounts if whole) - job.nice

    def q3_priority(self, job, age):
        s = self.s
        aged = min(age / s.max_age_s, 1.0) if s.max_age_s else 1.0
        return max(1, int(s.weight_age * aged + s.weight_fairshare * job.share.factor + job.fixed))

    def q4_priorities(self):
        for job in self.waiting:
            base = job.submit_s if self.s.accrue_always else job.eligible_s
            job.fixed = self.q3_fixed(job, job.tried_cpus)
            job.priority = self.q3_priority(job, max(math.floor(self.now) - math.floor(base), 0))

    def q5_qos(self, job):
        own = self.qos.get(job.qos, Qos(""))
        names = (job.qos, job.partition.qos) if own.over_partition_qos else (job.partition.qos, job.qos)
        return [self.qos[name] for name in dict.fromkeys(names) if name in self.qos]

    def q5_limited(self, job, held=None):
        """Whether a limit forbids the job now, with what it requests, or with what it would hold."""
        wants = job.wants if held is None else job.sums(held)

        def exceeds(limits, belongs):
            if all(limit is None for limit in limits):
                return False
            own = [x for x in self.running if belongs(x)]
            both = [wants, *(x.holds for x in own)]
            sums = [sum(each[name] for each in both) for name in ("jobs", "cpu", "node", "mem", "gres/gpu")]
            sums[2] = len({*(held or ()), *(i for x in own for i in x.held)})  # a node counts once
            return any(limit is not None and total > limit for total, limit in zip(sums, limits, strict=True))

        own, free, same = self.q5_qos(job), {}, {"group": "", "per_user": "user", "per_account": "account"}
        for scope, who in same.items():
            free[scope] = [True] * 5  # whether associations count
            for qos in own:
                limits = [x if left else None for x, left in zip(getattr(qos, scope), free[scope], strict=True)]
                free[scope] = [left and x is None for x, left in zip(limits, free[scope], strict=True)]

                def belongs(x, qos=qos, who=who):
                    return qos in self.q5_qos(x) and (not who or getattr(x, who) == getattr(job, who))

                if exceeds(limits, belongs):
                    return True
        for share in job.share.upward():
            limits = [x if left else None for x, left in zip(share.row.group, free["group"], strict=True)]
            if exceeds(limits, lambda x, share=share: share in x.share.upward()):
                return True
        each = zip(*(share.row.each for share in job.share.upward()), strict=True)
        nearest = [next((limit for limit in limits if limit is not None), None) for limits in each]
        left = zip(nearest, free["per_user"], free["per_account"], strict=True)
        return exceeds([x if a and b else None for x, a, b in left], lambda x: x.share is job.share)

    def q6_forbidden(self, job):
        most, own = job.partition.max_nodes, self.qos.get(job.qos, Qos(""))
        walls = [*(x.max_wall_s for x in self.q5_qos(job)), *(share.row.max_wall_s for share in job.share.upward())]
        allowed = None if own.over_time else job.partition.max_time_s, next((x for x in walls if x is not None), None)
        too_long = any(limit is not None and job.limit_s > limit for limit in allowed)
        per_job = [*(x.per_job for x in self.q5_qos(job)), *(share.row.per_job for share in job.share.upward())]
        nearest = [next((x for x in each if x is not None), math.inf) for each in zip(*per_job, strict=True)]
        asked = [job.wants[name] for name in ("jobs", "cpu", "node", "mem", "gres/gpu")]
        too_much = any(x > limit for x, limit in zip(asked, nearest, strict=True))
        return (most is not None and job.nodes > most and not own.over_nodes) or too_long or too_much

    def q7_left(self):
        left = Counter(self.s.licenses)
        for x in self.running:
            left.subtract(x.licences)
        return left

    def q7_lacks(self, job, left):
        return any(left[name] < number for name, number in job.licences.items())

    # Usage and fair share

    def u1_tick(self):
        t, before = math.floor(self.now), self.ticked
        self.post(self.now + self.steps(self.s.calc_period_s, 2, not (self.waiting or self.running)), TICK)
        if before is not None:
            if not self.s.fair_tree:
                self.factors()
            keep = 0.0 if self.u1_period(before) != self.u1_period(t) else self.decay ** float(t - before)
            self.total *= keep
            for share in self.shares:
                share.usage *= keep
            for job in sorted(self.running, key=lambda x: x.row):
                self.u1_add(job)
            if self.s.fair_tree:
                self.factors()
            self.q4_priorities()
        self.ticked = t

    def u1_period(self, date):
        day = datetime.fromtimestamp(date, UTC)
        month = day.year, day.month
        quarter, week = (day.year, (day.month - 1) // 3), (date // 86400 + 4) // 7
        periods = {"DAILY": day.date(), "WEEKLY": week, "MONTHLY": month, "QUARTERLY": quarter, "YEARLY": day.year}
        return periods.get(self.s.usage_reset)

    def u1_add(self, job):  # U2, too
        seconds = 0 if self.ticked is None else math.floor(self.now) - max(self.ticked, math.floor(job.start))
        parts = [weight * job.holds.get(name, 0) for name, weight in job.partition.billing.items()]
        billing = (max(parts) if self.s.max_tres else sum(parts)) if parts else job.holds["cpu"]
        billing *= self.qos.get(job.qos, Qos("")).usage_factor
        used = seconds * self.decay ** float(seconds) * billing
        self.total += used
        for share in job.share.upward():
            share.usage += used

    def u3_shares(self):
        self.accounts, self.users, self.shares, self.total = {}, {}, [], 0.0
        reset = self.s.usage_reset == "NOW"

        def account(name, row=None):
            if name in ("", "root"):
                return None
            if name not in self.accounts:
                self.accounts[name] = Share(row or Association(name))
                self.shares.append(self.accounts[name])
            return self.accounts[name]

        def user(row):
            share = self.users[row.account or "root", row.user] = Share(row)
            self.shares.append(share)
            share.parent = account(row.account)
            self.total += 0.0 if reset else row.usage
            for above in share.upward():
                above.usage += 0.0 if reset else row.usage

        for row in self.site.associations:
            if not row.user:
                account(row.account, row)
        for share in tuple(self.shares):
            share.parent = account(share.row.parent)
        for row in self.site.associations:
            if row.user:
                user(row)
        if ("root", "root") not in self.users:
            user(Association("root", "root"))
        for job in (each for records in self.records for each in records):
            key = job.account or "root", job.user
            if key not in self.users:
                user(Association(*key))
            job.share = self.users[key]
        for share in self.shares:
            among = sum(x.row.shares for x in self.shares if x.parent is share.parent)
            share.part = share.row.shares / among if among else 0.0

    def factors(self):
        if self.s.fair_tree:
            self.rank = self.ranked = len(self.users)
            self.u5_fair_tree([x for x in self.shares if x.parent is None], None)
            return
        for share in self.users.values():
            effective, normal = self.u4_classic(share)
            share.factor = 2.0 ** -(effective / normal / self.s.damping) if normal else 0.0

    def u4_classic(self, share):
        """The effective usage e, and the normalised share n."""
        used = share.usage / self.total if self.total else 0.0
        if share.parent is None:
            return used, share.part
        effective, normal = self.u4_classic(share.parent)
        return used + (effective - used) * share.part, normal * share.part

    def u5_level(self, share):
        whole = self.total if share.parent is None else share.parent.usage
        return share.part / (share.usage / whole) if share.usage else math.inf

    def u5_fair_tree(self, children, shared):
        """Ranks the users below; with `shared` the first of them shares the rank of the last one ranked."""
        before = None
        children = sorted(children, key=lambda x: (-self.u5_level(x), not x.row.user))
        for (level, is_user), equals in groupby(children, key=lambda x: (self.u5_level(x), bool(x.row.user))):
            group, tied = list(equals), shared if before is None else level == before
            before = level
            if not is_user:
                self.u5_fair_tree([x for x in self.shares if x.parent in group], tied)
                continue
            self.ranked = self.ranked if tied else self.rank
            self.rank -= len(group)
            for share in group:
                share.factor = self.ranked / len(self.users)

    # Placement; `free` has [CPUs, memory, GPUs, jobs] of each node

    def p1_counts(self, job, free, nodes, capped):
        """The nodes that count, in their order: {node: c}."""
        counts = {}
        for i in sorted(nodes):
            (c, memory, gpus, jobs), node = free[i], self.nodes[i]
            if (job.alone and jobs) or gpus < job.gpus or (job.gpus and job.gpu_type not in ("", node.gpu_type)):
                continue
            if self.s.memory:
                if memory < (node.memory_mb if job.all_memory else job.memory_per_node):
                    continue
                c = min(c, memory // job.memory_per_cpu) if job.memory_per_cpu and not job.all_memory else c
            c -= c % node.threads
            c -= c % job.t
            if c >= job.k:
                counts[i] = job.k if capped and job.even and not self.new else c
        return counts

    def p2_asked(self, job):  # but for windows
        memory = job.memory_per_node or job.memory_per_cpu * job.k
        named = {
            self.index[name] for name in {*job.partition.nodes} - job.excluded
            if (not job.constraint or has_features(job.constraint, self.nodes[self.index[name]].features))
            and (job.all_memory or self.nodes[self.index[name]].memory_mb >= memory)
        }  # fmt: skip
        return named if {self.index.get(name, -1) for name in job.required} <= named else set()

    def place(self, job, free, nodes, capped=True):
        """The job's nodes, {node: CPUs taken}, or None."""
        counts = self.p1_counts(job, free, nodes, capped)
        while job.required <= {*counts}:
            taken = self.p3_by_weight(job, counts, free)
            if taken is not None or job.even or not math.isfinite(job.most):
                return taken
            least = min(counts.values(), default=0)
            counts = {i: c for i, c in counts.items() if c > least}
            if len(counts) < max(job.nodes, 1):
                break
        return None

    def p3_by_weight(self, job, counts, free):
        begin = [job.nodes, job.nodes * job.k if job.even else job.cpus, {}]
        for i in sorted(job.required):
            self.p5_take(job, counts, i, begin)
        open_ = {i: c for i, c in counts.items() if i not in job.required}
        need, weights = begin, sorted({self.nodes[i].weight for i in open_})
        for weight in weights:  # P3
            if self.leaves and not self.new:
                need = [*begin[:2], {**begin[2]}]
            those = {i: c for i, c in open_.items() if self.nodes[i].weight <= weight and i not in need[2]}
            if self.new or not self.leaves:
                those = {i: c for i, c in those.items() if self.nodes[i].weight == weight}
            if self.s.serial_at_end and job.cpus == job.nodes == 1 and not job.required:
                self.p5_take(job, counts, [*those][-1], need)  # P6
            elif self.s.least_loaded:
                groups = [sorted(those, key=lambda i: -free[i][0])]
                self.p5_best_fit(job, counts, groups, need, True)  # P6
            else:
                self.p5_best_fit(job, counts, self.p4_groups(job, those, need), need, False)
            if self.p5_satisfied(job, need):
                break
        return need[2] if self.p5_satisfied(job, need) else None

    def p4_groups(self, job, counts, need):
        if not self.leaves:
            runs = []
            for i in counts:
                if i - 1 not in counts:
                    runs.append([])
                runs[-1].append(i)
            return runs
        groups = [group for leaf in self.leaves if (group := [i for i in leaf if i in counts])]
        if self.new:
            return groups
        enough = [x for x in groups if len(x) >= need[0] and sum(counts[i] for i in x) >= need[1]]
        return [min(enough, key=len)] if enough else groups

    def p5_satisfied(self, job, need):
        return need[0] <= 0 and need[1] <= 0 and len(need[2]) <= job.most

    def p5_take(self, job, counts, node, need):
        n, p, taken = need
        core = self.nodes[node].threads
        left = max(n - 1, 0) * max(job.t, core)  # for the others
        took = min(counts[node], max(p - left, job.k))
        taken[node] = max(took - took % job.t, job.k)
        need[0], need[1] = n - 1, p + (-took // core) * core

    def p5_best_fit(self, job, counts, groups, need, as_they_come):
        def size(group):
            return sum(counts[i] for i in group)

        while groups and not self.p5_satisfied(job, need):
            tree = self.leaves and not as_they_come
            enough = [x for x in groups if len(x) >= need[0] and size(x) >= need[1]]
            group = min(enough, key=size) if enough else max(groups, key=size)
            if tree and self.new:
                group, tree = self.p5_leaf(groups, need), False
            groups = [x for x in groups if x is not group]
            one = not (as_they_come or (self.leaves and self.new)) and need[0] <= 1  # node may do
            while not self.p5_satisfied(job, need) and len(need[2]) < job.most:
                if len(need[2]) + 1 == job.most:  # the last one must have all that is left
                    group = [i for i in group if counts[i] >= need[1]]
                if not group:
                    break
                best = one or tree
                node, one = self.p5_node(counts, group, need[1]) if best else group[0], False
                group = [i for i in group if i != node]
                self.p5_take(job, counts, node, need)

    def p5_leaf(self, groups, need):
        """The leaf of which nodes are taken next."""
        used = [leaf for leaf, nodes in zip(self.site.switches, self.leaves, strict=True) if {*nodes} & {*need[2]}]
        best = None
        for group in groups:
            leaf = next(x for x, nodes in zip(self.site.switches, self.leaves, strict=True) if group[0] in nodes)
            if leaf in used:
                return group
            far, n, enough = sum(leaf.hops(x) for x in used), len(group), len(group) >= need[0]
            if best is not None:
                best_far, best_n, best_enough = best[1:]
                if enough == best_enough:
                    no_worse = n <= best_n if enough else n >= best_n
                    better = far <= best_far and no_worse and (far, n) != (best_far, best_n)
                else:
                    better = enough and far <= best_far
            if best is None or better:
                best = group, far, n, enough
        return best[0]

    def p5_node(self, counts, group, p):
        enough = [i for i in group if counts[i] >= p]
        if enough:
            return min(enough, key=counts.get)
        return max(group, key=counts.get) if self.leaves else group[0]

    def p7_held(self, job, taken):
        """What the job holds, (CPUs, memory, GPUs) by node."""
        held = {}
        for i, cpus in taken.items():
            node = self.nodes[i]
            cpus = node.cpus if job.alone else -(-(job.k if job.even else cpus) // node.threads) * node.threads
            memory = node.memory_mb if job.all_memory else job.memory_per_node or job.memory_per_cpu * cpus
            held[i] = cpus, memory, node.gpus if job.alone else job.gpus
        return held

    def hold(self, free, job, sign):
        for i, held in job.held.items():
            free[i] = [*(x - sign * y for x, y in zip(free[i], held, strict=False)), free[i][3] + sign]

    # Passes

    def w2_kept(self, job):
        """The nodes that known windows keep from the job now."""
        last = math.floor(self.now) + job.limit_s
        return {self.index[name] for w in self.w2_known() if last > w.begin_s for name in w.nodes}

    def startable(self, job, nodes):
        """Those of the nodes that may take the job now."""
        return nodes - set(self.cleaning) - self.w2_kept(job)

    def m1_main_pass(self, full):
        s, closed, closed_nodes, count, started = self.s, set(), set(), Counter(), 0
        for job in self.e2_queue():
            name = job.partition.name
            if job not in self.waiting or self.q6_forbidden(job) or 0 < s.partition_job_depth <= count[name]:
                continue
            if (count.total() > s.default_queue_depth and not full) or 0 < s.sched_max_job_start <= started:
                break  # M2
            count[name] += 1
            if name in closed or self.q5_limited(job):
                continue
            if self.q7_lacks(job, self.q7_left()):
                if s.bf_licenses:
                    break
                continue
            nodes = self.startable(job, job.asked - closed_nodes)
            taken = self.e11_place(job, nodes)
            if taken is not None:
                started += self.r1_start(job, taken, MAIN)
                continue
            self.e5_preempt(job, nodes)
            if job.required:
                closed_nodes |= job.required if self.b6_ripe(job) else set()
            elif self.m1_closes(job, closed_nodes):
                closed.add(name)
                closed_nodes |= {self.index[each] for each in job.partition.nodes}

    def m1_closes(self, job, closed_nodes):
        """Whether a job that does not fit closes its partition."""
        if not self.b6_ripe(job):
            return False
        empty = [[node.cpus, node.memory_mb, node.gpus, 0] for node in self.nodes]
        left = job.asked - self.w2_kept(job)
        if self.place(job, empty, left) is None:
            return False
        left = left - closed_nodes
        return 0 < len(left) < job.nodes or self.place(job, empty, left) is not None

    def b2_plan(self):
        t = self.b6_cut(math.floor(self.now))
        self.plan = [[t, t + self.s.bf_window_s, set(range(len(self.nodes))), Counter(self.s.licenses)]]
        for window in self.w2_known():
            up = -self.b6_cut(-math.ceil(window.end_s))
            self.b7_reserve(self.b6_cut(math.floor(window.begin_s)), up, {self.index[name] for name in window.nodes})
        for job in self.running:
            self.q7_reserve(job)

    def q7_reserve(self, job):
        """What a job that runs has in the plan."""
        nodes, licences = {*job.at} if self.s.bf_running_job_reserve and job.alone else set(), job.licences
        if nodes or (licences and self.s.bf_licenses):
            self.b7_reserve(self.plan[0][0], self.b6_cut(math.floor(job.start) + job.limit_s), nodes, licences)

    def b6_cut(self, date):
        return date - date % self.s.bf_resolution_s

    def b3_cycle(self):
        s = self.s
        self.b2_plan()
        most = (s.bf_max_job_user, s.bf_max_job_part, s.bf_max_job_user_part, s.bf_max_job_assoc)
        count, self.reserved, started, self.tested = Counter(), Counter(), 0, 0
        for job in self.e2_queue():
            name = job.partition.name
            keys = ("user", job.user), ("part", name), ("both", job.user, name), ("assoc", job.account, job.user)
            if any(limit and count[key] >= limit for key, limit in zip(keys, most, strict=True)):
                continue
            if job not in self.waiting or self.q6_forbidden(job) or self.q5_limited(job):
                continue
            if not s.bf_licenses and self.q7_lacks(job, self.q7_left()):
                continue
            if 0 < s.bf_max_job_test <= self.tested or 0 < s.bf_max_job_start <= started:
                break
            count.update(keys)
            self.tested += bool(self.b4_try(job))
            started += job.by == BACKFILL
            if job.by == BACKFILL:
                self.q7_reserve(job)
        return self.tested

    def b4_try(self, job):
        """Whether the job was tested."""
        now, may_reserve, tested = math.floor(self.now), self.b6_may_reserve(job), False
        limit_s = min(job.limit_s, job.partition.max_time_s or math.inf)  # Q6
        at = now
        while at is not None:
            nodes = self.b4_nodes(job, at, max(at, now) + limit_s)  # 1
            later = self.b4_later(at)
            found = None  # 2
            if nodes and len(nodes) >= job.nodes and job.required <= nodes:
                tested = True
                if not self.new and not job.constraint:
                    found = self.b5_first_date(job, nodes, False)
                if found is None or found[0] > now:
                    found = self.b5_first_date(job, nodes, True)
            if found is None:  # 3
                at = later if may_reserve else None
                continue
            if self.q5_limited(job, self.p7_held(job, found[1])):
                return tested
            start, chosen = max(found[0], at), set(found[1])  # 4
            if start <= now and chosen & set(self.cleaning):
                start, later = now + 1, None
            elif start <= now:
                usable = self.startable(job, nodes)
                really = self.e11_place(job, usable)
                if really is not None:
                    self.r1_start(job, really, BACKFILL)
                    return tested
                self.e5_preempt(job, usable)
                later = None
            if start > now and not may_reserve:  # 5
                return tested
            if later is not None and later < start:
                at = later
                continue
            b, e = self.b6_cut(start), self.b6_cut(start + limit_s)  # 6
            if start > now + self.s.bf_window_s:
                return tested
            if start > now and self.b4_reserved(b, e, chosen):
                at = start if start != at else None
                continue
            self.reserved.update([("part", job.partition.name), ("array", job.array)])
            self.b7_reserve(b, e, chosen, job.licences if self.s.bf_licenses else {})  # 7
            return tested
        return tested

    def b4_later(self, at):
        for (_, e, unreserved, left), (_, _, after, more) in zip(self.plan, self.plan[1:], strict=False):
            if e > at and (self.s.version < (20, 2) or not after <= unreserved or not more <= left):
                return e
        return None

    def b4_nodes(self, job, at, last):
        nodes = job.asked - self.w2_down()
        for b, e, unreserved, left in self.plan:
            if e > at and b <= last:
                nodes = set() if self.s.bf_licenses and self.q7_lacks(job, left) else nodes & unreserved
        return nodes

    def b4_reserved(self, b, e, nodes):
        return any(x[1] > b and x[0] < e and not nodes <= x[2] for x in self.plan)

    def b5_first_date(self, job, nodes, capped):
        """When the job could start if only running jobs held resources, and where; None for never."""
        now, free, gone = math.floor(self.now), list(self.free), []
        chosen = self.place(job, free, nodes, capped)
        if chosen is None:
            gone = self.e3_candidates(job, nodes)  # E7
            for x in gone:
                self.e11_take(free, x) if self.e1_mode(x) == "suspend" else self.hold(free, x, -1)
            chosen = self.place(job, free, nodes, capped) if gone else None
        if chosen is not None:
            return now, chosen
        for group in self.b5_groups(nodes, gone):
            for _, ended in group:
                self.hold(free, ended, -1)
            chosen = self.place(job, free, nodes, capped)
            if chosen is not None:
                date = group[-1][0]
                return date if date > now else now + 1 if self.new else max(date + 30, now + 1), chosen
        return None

    def b5_groups(self, nodes, gone):
        """The running jobs on the nodes, with their ends, in groups, but for those that are gone."""
        left = [x for x in self.running if x not in gone]
        ends = sorted((min(math.floor(x.start) + x.limit_s, x.grace), x.row, x) for x in left)
        w, base = 30, None
        while ends:
            group, base = [], base if self.new else None
            while ends:
                end, _, job = ends.pop(0)
                if not nodes.isdisjoint(job.at):
                    if base is None:
                        base = end + 30 - end % 30 if self.new else end
                    group.append((end, job))
                if group and self.b5_looks(job, nodes) and ends and ends[0][0] > base + w:
                    break
            if group:
                yield group
            w = self.b5_grown(w)
            while self.new and ends and ends[0][0] > base + w:
                w = self.b5_grown(w, again=True)

    def b5_looks(self, job, nodes):
        """Whether the next end is looked at after this job."""
        return not nodes.isdisjoint(job.at)

    def b5_grown(self, w, again=False):
        return w + self.s.bf_window_linear_s if self.s.bf_window_linear_s else 2 * w

    def b6_ripe(self, job):
        """Whether its priority and its age let the job reserve, and close its partition."""
        s = self.s
        young = math.floor(self.now) - math.floor(job.eligible_s) < s.bf_min_age_reserve_s
        return not young and not (s.multifactor and job.priority < s.bf_min_prio_reserve)

    def b6_may_reserve(self, job):
        s, in_partition, in_array = self.s, self.reserved["part", job.partition.name], self.reserved["array", job.array]
        return not (
            not self.b6_ripe(job)
            or self.qos.get(job.qos, Qos("")).no_reserve
            or 0 < s.bf_job_part_count_reserve <= in_partition
            or (job.array >= 0 and 0 < s.bf_max_job_array_resv <= in_array)
        )

    def b7_reserve(self, b, e, nodes, licences=NONE):
        plan = self.plan
        b = max(b, plan[0][0])
        for edge in (b, e):
            for k, (begin, end, *left) in enumerate(plan):
                if begin < edge < end:
                    plan[k : k + 1] = [begin, edge, *left], [edge, end, *left]
                    break
        for interval in plan:
            if interval[0] >= b and interval[1] <= e:
                taken = {name: interval[3][name] - licences.get(name, 0) for name in interval[3]}
                interval[2:] = interval[2] - nodes, Counter(taken)
        for k in range(len(plan) - 1):
            if plan[k][2:] == plan[k + 1][2:]:
                plan[k : k + 2] = [[plan[k][0], plan[k + 1][1], *plan[k][2:]]]
                break

    # Running jobs and windows

    def r1_start(self, job, taken, by):
        """Start the job, unless a limit forbids it what it would hold."""
        held = self.p7_held(job, taken)
        if self.q5_limited(job, held):
            return False
        job.start, job.by, job.held = self.now, by, held
        self.jobs[job.row] = job
        self.hold(self.free, job, 1)
        self.waiting = [x for x in self.waiting if x.row != job.row]
        self.r1_run(job, self.now + job.run_s + self.clock.overhead_s)
        self.have_preempted.discard(job.row)
        self.e11_look()
        return True

    def r1_run(self, job, end_s):
        self.running.append(job)
        job.end_s = end_s
        self.post(end_s, END, job.row)

    def r1_end(self, job):
        self.r1_leave(job, self.clock.cleaning_s)
        if self.new:
            self.m3_due()

    def r1_leave(self, job, cleaning_s):
        self.hold(self.free, job, -1)
        self.running.remove(job)
        self.u1_add(job)
        self.forget(job.row)
        self.cleaned[job.row] = job.at
        self.cleaning += job.at
        self.post(self.now + cleaning_s, CLEAN, job.row)
        self.e11_look()

    def r1_clean(self, job):
        for i in self.cleaned.pop(job.row):
            self.cleaning.remove(i)
        if (not self.new or job.row in self.stopped) and not self.clock.main_s:
            self.post(self.now, AFTER_END)  # E8, too
        self.stopped.discard(job.row)

    def w2_down(self):
        down = (w for w in self.site.windows if w.begin_s <= self.now < w.end_s and w.announced_s >= w.begin_s)
        return {self.index[name] for w in down for name in w.nodes}

    def w2_known(self):
        return [w for w in self.site.windows if min(w.announced_s, w.begin_s) <= self.now < w.end_s]

    # Preemption

    def e1_owner(self, job):
        """What may set the job's mode and grace."""
        return self.qos.get(job.qos, Qos("")) if self.s.preempt == "qos" else job.partition

    def e1_mode(self, job):
        mode = self.e1_owner(job).preempt_mode or self.s.preempt_mode
        if mode == "suspend" and self.s.preempt == "qos":
            return "off"  # E11
        return "cancel" if mode == "requeue" and not job.may_requeue else mode

    def e1_may_preempt(self, job, x):
        """Whether x may be preempted for the job, the exempt time aside."""
        if not self.s.preempt or self.e1_mode(x) == "off":
            return False
        if self.s.preempt == "partition_prio":
            return x.partition.tier < job.partition.tier
        own = self.qos.get(job.qos, Qos(""))
        lower = x.priority < job.priority if self.s.multifactor else x.row > job.row
        within = own.preempt_within or (self.s.preempt_within and job.qos in self.qos)
        return x.qos in own.preempts or (x.qos == job.qos and within and lower)

    def e1_exempt(self, x):
        of_qos = self.qos.get(x.qos, Qos("")).preempt_exempt_s
        exempt_s = self.s.preempt_exempt_s if of_qos is None else of_qos
        return self.e1_mode(x) != "suspend" and math.floor(self.now) < math.floor(x.start) + exempt_s

    def e2_queue(self):
        def first(a, b):
            above, below = (y.qos in self.qos.get(x.qos, Qos("")).preempts for x, y in ((a, b), (b, a)))
            return above if above != below else self.q2_order(a) < self.q2_order(b)

        def merged(part):
            if len(part) < 2:
                return part
            one, two = merged(part[: len(part) // 2]), merged(part[len(part) // 2 :])
            line = []
            while one and two:
                line.append((two if first(two[0], one[0]) else one).pop(0))
            return line + one + two

        if self.s.preempt != "qos":
            return sorted(self.waiting, key=self.q2_order)
        return merged(sorted(self.waiting, key=lambda job: job.row))

    def e3_candidates(self, job, nodes):
        found = [x for x in self.running if self.e1_may_preempt(job, x) and not self.e1_exempt(x)]
        found = [x for x in found if not nodes.isdisjoint(x.at)]
        if self.s.preempt_youngest_first:
            return sorted(found, key=lambda x: (-math.floor(x.start), x.row))
        by_qos = self.s.preempt == "qos"
        return sorted(
            found,
            key=lambda x: (self.qos.get(x.qos, Qos("")).priority if by_qos else x.partition.tier, len(x.at), x.row),
        )

    def e4_victims(self, job, nodes):
        """Those without which the job fits on these nodes; None if it does not."""
        listed = [x for x in self.e3_candidates(job, nodes) if self.e1_mode(x) != "suspend"]
        for _ in range(1 + self.s.preempt_reorder_count):
            free, gone, taken = list(self.free), [], None
            for x in listed:
                self.hold(free, x, -1)
                gone.append(x)
                taken = self.place(job, free, nodes)
                if taken is not None:
                    break
            if taken is None:
                return None
            *before, last = gone
            before.sort(key=lambda x: -len({*x.at} & {*taken}))
            listed = [last, *before, *listed[len(gone) :]]
        return [x for x in gone if not {*x.at}.isdisjoint(taken)]

    def e5_preempt(self, job, nodes):
        """Preempt for the job if it then fits on these nodes."""
        found = None if job.row in self.have_preempted else self.e4_victims(job, nodes)  # E6
        if found is not None:
            self.have_preempted.add(job.row)
            for x in found:
                self.e10_end(x, job.row)

    def e10_end(self, x, by):
        grace_s = self.e1_owner(x).grace_s
        if not grace_s or x.grace <= self.now:
            self.e8_stop(x, by)
        elif x.grace == math.inf:
            x.grace = math.floor(self.now) + grace_s
            self.note(GRACED, x, by)
            self.e10_check(x)

    def e10_check(self, x):
        """At the first check of time limits after its grace it is ended."""
        first = self.first_s + CHECK_S if math.isnan(self.clock.first_check_s) else self.clock.first_check_s
        own = first + CHECK_S * max(math.ceil((x.grace - first) / CHECK_S), 0)
        for date in [date for date in self.clock.checks_s or [own] if date >= x.grace][:1]:
            self.post(date, CHECK, x.row)

    def e8_stop(self, x, by):
        requeued = self.e1_mode(x) == "requeue"
        self.note(REQUEUED if requeued else KILLED, x, by)
        self.stopped.add(x.row)
        self.r1_leave(x, self.clock.killing_s)
        if requeued:
            self.e9_requeue(x, self.now + self.clock.killing_s)

    def e9_requeue(self, x, back_s):
        x.start, x.by, x.held, x.grace = math.nan, 0, {}, math.inf
        for record in self.records[x.row]:
            record.requeued = True
            record.eligible_s = math.floor(back_s) + self.s.cred_expire_s + 1.0
            if self.s.multifactor:
                record.submit_s = float(math.floor(back_s))
        self.left += 1
        self.post(x.eligible_s, QUEUE, x.row)

    def e11_take(self, free, x):
        """Free the CPUs of a job that would sleep."""
        for i, (cpus, _, _) in x.held.items():
            free[i] = [free[i][0] + cpus, *free[i][1:3], free[i][3] - 1]

    def e11_place(self, job, nodes):
        """What the job takes of what nobody holds, or else of that and of those that it may suspend."""
        taken = self.place(job, self.free, nodes)
        if taken is None and self.site.suspends:
            free = list(self.free)
            for x in self.running:
                if self.e1_may_preempt(job, x) and self.e1_mode(x) == "suspend":
                    self.e11_take(free, x)
            taken = self.place(job, free, nodes)
        return taken

    def e11_look(self):
        """Who sleeps."""
        left = [node.cpus for node in self.nodes]

        def order(x):
            return self.e1_mode(x) == "suspend", -x.partition.tier, x.asleep, x.start, x.row

        for x in sorted(self.running, key=order) if self.site.suspends else ():
            fits = all(left[i] >= cpus for i, (cpus, _, _) in x.held.items())
            for i, (cpus, _, _) in x.held.items() if fits else ():
                left[i] -= cpus
            if fits and x.asleep:
                x.end_s = self.now + x.rest_s
                self.post(x.end_s, END, x.row)
            elif not fits and not x.asleep:
                x.rest_s = x.end_s - self.now
                self.forget(x.row)
            if fits == x.asleep:
                self.note(RESUMED if fits else SUSPENDED, x, -1)
            x.asleep = not fits

    def note(self, how, x, by):
        self.preempted.append((self.now, x.row, by, how, x.start, x.holds["cpu"]))

    # The clock

    def forget(self, row):
        """Drop the ends of a job that ends otherwise, or sleeps."""
        self.events = [each for each in self.events if not (each[1] in (END, CHECK) and each[2] == row)]
        heapq.heapify(self.events)

    def post(self, date, kind, row=-1):
        heapq.heappush(self.events, (date, kind, row))
        if kind in (END, CLEAN):  # a job started or ended
            self.changed, self.active_s = True, self.now

    def turn(self, date):
        """The first turn of the controller's loop at this date or later."""
        found = math.floor(date - self.clock.phase_s) + self.clock.phase_s
        return found if found >= date else found + 1

    def steps(self, step, kept, idle):
        """A step, or if nothing goes on so many at once that these are left before a job is queued or ends."""
        next_s = min((date for date, kind, _ in self.events if kind in (END, QUEUE, CHECK)), default=math.inf)
        if not idle or next_s == math.inf:
            return step
        return step * max(math.ceil((next_s - self.now) / step) - kept, 1)

    def m3_due(self):
        if self.due is None and not self.clock.main_s:
            self.due = self.turn(max(self.now, self.turned + self.s.batch_sched_delay_s))
            self.post(self.due, DUE)

    def m3_pass(self, kind):
        if kind == DUE and self.due != self.now:
            return
        if kind != AFTER_END:
            self.due, self.turned = None, math.floor(self.now)
        if kind == FULL and not self.clock.main_s:
            self.post(self.now + self.steps(self.s.sched_interval_s, 1, not self.waiting), FULL)
        self.m1_main_pass(kind == FULL and (not self.clock.main_s or self.now in self.clock.full_s))

    def b1_cycle(self):
        if not (self.clock.cycles_s or self.waiting or self.changed):
            return self.post(self.now + self.steps(1.0, 0, True), CYCLE)
        self.changed = False
        tried = self.b3_cycle()
        self.cycles, self.tried = self.cycles + 1, self.tried + tried
        late = self.clock.jitter_s * self.draws[(self.cycles - 1) % len(self.draws)]
        if not self.clock.cycles_s:
            self.post(self.now + self.clock.test_s * tried + self.s.bf_interval_s + late, CYCLE)
        return None

    def queue(self, job):
        if job.requeued and job.leave_s < self.now:
            self.left -= 1
            return
        for record in self.records[job.row]:
            if not job.requeued:
                record.priority = self.q3_priority(record, 0) if self.s.multifactor else 1
            self.waiting.append(record)
        self.left -= 1
        self.changed, self.active_s = True, self.now
        if not (self.s.defer or job.requeued):
            self.m3_due()

    def q8_leave(self, job):
        """It is cancelled."""
        if any(x.row == job.row for x in self.waiting):
            self.waiting = [x for x in self.waiting if x.row != job.row]
            self.changed, self.active_s = True, self.now
        elif job in self.running:
            self.forget(job.row)
            job.asleep = False
            self.r1_end(job)

    def begin(self, clock):
        if self.s.sched_interval_s == math.inf:
            clock = clock._replace(main_s=(math.inf,))
        self.clock, self.draws = clock, np.random.default_rng(clock.seed).random(997).tolist()
        self.free = [[node.cpus, node.memory_mb, node.gpus, 0] for node in self.nodes]
        self.waiting, self.running, self.cleaning, self.events = [], [], [], []
        self.cleaned, self.stopped, self.have_preempted, self.preempted = {}, set(), set(), []
        self.due, self.turned, self.ticked = None, -math.inf, None
        self.cycles = self.tried = 0
        self.left = len(self.to_queue)
        self.factors()
        first = self.first_s = self.now = self.active_s = max(
            self.begin_s, min((x.submit_s for x in self.to_queue), default=0.0)
        )
        for job in self.to_queue:
            queued_s = max(job.submit_s, job.eligible_s, self.begin_s) + clock.arrival_s
            self.post(queued_s, QUEUE, job.row)  # Q1
            if job.leave_s < math.inf:
                self.post(max(job.leave_s, queued_s), LEAVE, job.row)
        for job, end_s in sorted(self.at_first, key=lambda each: (len(each[0].seats), each[0].row)):  # R0
            need = [job.nodes, job.nodes * job.k if job.even else job.cpus, {}]
            counts = self.p1_counts(job, self.free, job.seats, False)
            if not {*job.seats} <= {*counts}:  # it has not what it held
                job.start = math.nan
                continue
            for i in job.seats:
                self.p5_take(job, counts, i, need)
            job.held = self.p7_held(job, need[2])
            self.hold(self.free, job, 1)
            self.r1_run(job, end_s + clock.overhead_s)
        self.changed = False
        if self.s.multifactor:
            self.post(first if math.isnan(clock.first_decay_s) else clock.first_decay_s, TICK)
        for date in clock.main_s or [self.turn(first)]:
            self.post(date, FULL)
        first_cycle = first + 20 if math.isnan(clock.first_cycle_s) else clock.first_cycle_s
        for date in (clock.cycles_s or [first_cycle]) if self.s.backfill else ():
            self.post(date, CYCLE)

    def over(self):
        """Whether nothing is left, or nothing has moved for an hour."""
        leaves = any(kind == LEAVE for _, kind, _ in self.events)
        if self.left or not self.waiting or self.running or leaves:
            return not (self.left or self.waiting)
        date, edges = self.events[0][0], [x for w in self.site.windows for x in (w.begin_s, w.end_s)]
        return date > max([self.active_s, *edges]) + GIVE_UP_S

    def run(self, clock):
        """The run of this clock; a Twin makes one."""
        self.begin(clock)
        of_job = {END: self.r1_end, CLEAN: self.r1_clean, QUEUE: self.queue, LEAVE: self.q8_leave}
        while self.events and not self.over():
            self.now, kind, row = heapq.heappop(self.events)
            if kind in of_job:
                of_job[kind](self.jobs[row])
            elif kind == TICK:
                self.u1_tick()
            elif kind == CHECK:
                self.e8_stop(self.jobs[row], -1)
            elif kind == CYCLE:
                self.b1_cycle()
            else:
                self.m3_pass(kind)
        starts, by = np.array([job.start for job in self.jobs]), np.array([job.by for job in self.jobs], np.int8)
        first = np.cumsum([0, *(len(job.at) for job in self.jobs)])
        at = np.array([i for job in self.jobs for i in job.at], np.int64)
        preempted = np.array(self.preempted, PREEMPTED)
        return Run(starts, by, first, at, self.cycles, self.tried, preempted)
