"""The rules of docs/background/slurm.md, each removed or changed: by a setting, by the jobs, or in the twin."""

# ruff: noqa: D101, D102 - the names say what is changed, and ROWS of which rule

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from batfill_site.slurm.conf import unlimited
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.site import NONE
from slurm_truth import Truth
from slurm_twin import Twin


class Row(NamedTuple):
    """A change of a rule. Values may be functions of the old value."""

    rule: str
    twin: type[Twin] | None = None
    settings: Mapping[str, Any] = NONE
    jobs: Mapping[str, Any] = NONE  # columns, by the jobs
    site: Mapping[str, Any] = NONE
    clocks: Mapping[str, Any] = NONE
    on_given_dates: bool = True
    needs: str = ""  # what a site must have for the rule to matter

    def truth(self, truth: Truth) -> Truth | None:
        """The truth under this change; None if its site has nothing that the rule is about."""
        s, has = truth.site.settings, self.needs
        there = {
            "": True, "priority": s.multifactor, "memory": s.memory, "GPUs": bool(truth.jobs.gpus_per_node.any()),
            "features": any(truth.jobs.constraint), "CPUs": any(node.cpus > 1 for node in truth.site.nodes),
            "tree": bool(truth.site.switches), "user limit": bool(s.bf_max_job_user), "old": s.version < (20, 11),
            "tasks": bool((truth.jobs.max_nodes == 0).any()), "partitions": any(truth.jobs.partitions),
            "weights": len({node.weight for node in truth.site.nodes}) > 1, "limits": bool(truth.site.qos),
            "new": s.version >= (20, 11), "preemption": bool(s.preempt), "Fair Tree": s.multifactor and s.fair_tree,
        }  # fmt: skip
        if not there[has]:
            return None
        settings = replace(s, **{name: called(value, getattr(s, name)) for name, value in self.settings.items()})
        jobs = replace(truth.jobs, **{name: value(truth.jobs) for name, value in self.jobs.items()})
        site = {name: called(value, getattr(truth.site, name)) for name, value in self.site.items()}
        site = replace(truth.site, settings=settings, **site)
        clock = truth.clock
        clock = clock._replace(**{name: called(value, getattr(clock, name)) for name, value in self.clocks.items()})
        return truth._replace(site=site, jobs=jobs, clock=clock)


def called(value, old):
    return value(old) if callable(value) else value


# In the twin, by rule


class PrioritiesOnce(Twin):
    def q4_priorities(self):
        pass


class FactorsAtOtherTime(Twin):
    def u1_tick(self):
        later = []
        keep, self.factors = self.factors, lambda: later.append(1)
        before, self.now = self.ticked, self.now
        if before is not None and self.s.fair_tree:
            keep()
        super().u1_tick()
        self.factors = keep
        if before is not None and not self.s.fair_tree:
            self.factors()
        self.q4_priorities()


class UsageAtTheEnd(Twin):
    def u1_add(self, job):
        if job not in self.running:
            ticked, self.ticked = self.ticked, -math.inf
            super().u1_add(job)
            self.ticked = ticked


class NoRoot(Twin):
    def u3_shares(self):
        super().u3_shares()
        self.shares.remove(self.users.pop(("root", "root")))
        for share in self.shares:
            share.part = share.row.shares / sum(x.row.shares for x in self.shares if x.parent is share.parent)


class NoTies(Twin):
    def u5_level(self, share):
        level = super().u5_level(share)
        return level if math.isfinite(level) else 1e300 / (1 + self.shares.index(share))


class Capped(Twin):
    def b5_first_date(self, job, nodes, capped):
        return super().b5_first_date(job, nodes, capped) if capped else None


class NarrowedByGpus(Twin):
    def p2_asked(self, job):
        return {i for i in super().p2_asked(job) if self.nodes[i].gpus >= job.gpus}


class OneGroup(Twin):
    def p4_groups(self, job, counts, need):
        return [list(counts)]


class LastNodes(Twin):
    def p4_groups(self, job, counts, need):
        return [group[::-1] for group in super().p4_groups(job, counts, need)][::-1]


class FirstNodes(Twin):
    def p5_node(self, counts, group, p):
        return group[0]


class NoMainPass(Twin):
    def m1_main_pass(self, full):
        pass


class NothingCloses(Twin):
    def m1_closes(self, job, closed_nodes):
        return False


class EachCloses(Twin):
    def m1_closes(self, job, closed_nodes):
        return True


class NeverFull(Twin):
    def m1_main_pass(self, full):
        super().m1_main_pass(False)


class OneRecord(Twin):
    def __init__(self, site, jobs):
        super().__init__(site, jobs)
        self.records = [[job] for job in self.jobs]


class LaterIsAny(Twin):
    def b4_later(self, at):
        return next((e for _, e, _ in self.plan[:-1] if e > at), None)


class NoSecondTry(Twin):
    def place(self, job, free, nodes, capped=True):
        counts = self.p1_counts(job, free, nodes, capped)
        return self.p3_by_weight(job, counts, free) if job.required <= {*counts} else None


class OtherAfterEnd(Twin):
    def otherwise(self, rule, job):
        self.new = not self.new
        rule(job)
        self.new = not self.new

    def r1_end(self, job):
        self.otherwise(super().r1_end, job)

    def r1_clean(self, job):
        self.otherwise(super().r1_clean, job)


class OtherVersion(OtherAfterEnd):
    def __init__(self, site, jobs):
        super().__init__(site, jobs)
        self.new = not self.new


class CutFromFirst(Twin):
    def b6_cut(self, date):
        first = math.floor(self.jobs[0].submit_s)
        return super().b6_cut(date - first) + first


class TouchingIsFree(Twin):
    def b4_nodes(self, job, at, last):
        return super().b4_nodes(job, at, last - 1)


class NoSecondLook(Twin):
    def b4_reserved(self, b, e, nodes):
        return False


class OneByOne(Twin):
    def b5_groups(self, nodes, gone):
        for end, _, job in sorted((math.floor(x.start) + x.limit_s, x.row, x) for x in self.running if x not in gone):
            if not nodes.isdisjoint(job.at):
                yield [(end, job)]


class NotDoubled(Twin):
    def b5_grown(self, w, again=False):
        return w + 30 if again else 2 * w if self.new else w


class LooksAtAll(Twin):
    def b5_looks(self, job, nodes):
        return True


class LatestFirst(Twin):
    """Equal ends in the other order of ids."""

    def b5_groups(self, nodes, gone):
        for job in self.running:
            job.row = -job.row
        found = list(super().b5_groups(nodes, gone))
        for job in self.running:
            job.row = -job.row
        return found


class NoJoin(Twin):
    def b7_reserve(self, b, e, nodes):
        # Intervals of equal sets are kept apart by a mark that no node is.
        super().b7_reserve(b, e, nodes)
        for k, interval in enumerate(self.plan):
            interval[2] = {i for i in interval[2] if i >= 0} | {-1 - k}


class JoinAll(Twin):
    def b7_reserve(self, b, e, nodes):
        super().b7_reserve(b, e, nodes)
        plan = self.plan
        for k in range(len(plan) - 2, -1, -1):
            if plan[k][2] == plan[k + 1][2]:
                plan[k : k + 2] = [[plan[k][0], plan[k + 1][1], plan[k][2]]]


class PreemptsAgain(Twin):
    def e5_preempt(self, job, nodes):
        self.have_preempted.discard(job.row)
        super().e5_preempt(job, nodes)


class PlansWithout(Twin):
    def b5_first_date(self, job, nodes, capped):
        self.s, s = replace(self.s, preempt=""), self.s
        found = super().b5_first_date(job, nodes, capped)
        self.s = s
        return found


def not_exempt(qos):
    return tuple(each._replace(preempt_exempt_s=None) for each in qos)


def without_limits(entries):
    return tuple(map(unlimited, entries))


def nodes_used(jobs):
    return np.array([len(expand(text)) for text in jobs.ran_on])


def shares(jobs):
    return -(-jobs.cpus // nodes_used(jobs))


LAYOUT = {"nodes": nodes_used, "max_nodes": nodes_used, "cpus_per_node": shares}
ROWS = (
    Row("none"),
    Row("Q1 a submission is seen 1 s later", clocks={"arrival_s": lambda old: old + 1.0}),
    Row("Q2 order of submission, no priority", settings={"multifactor": False}, needs="priority"),
    Row("Q3 no age", settings={"weight_age": 0}, needs="priority"),
    Row("Q3 no fair share", settings={"weight_fairshare": 0}, needs="priority"),
    Row("Q3 no job size", settings={"weight_job_size": 0}, needs="priority"),
    Row("Q3 size with one node, not those requested", jobs={"min_nodes": lambda j: 0 * j.nodes + 1}, needs="Fair Tree"),
    Row("Q3 size with the nodes used, not one", jobs={"min_nodes": lambda j: j.nodes}, needs="old"),
    Row("Q4 priorities a fifth as often", settings={"calc_period_s": lambda old: 5 * old}, needs="priority"),
    Row("Q4 priorities five times as often", settings={"calc_period_s": lambda old: old / 5}, needs="priority"),
    Row("Q4 priorities only when a job is queued", PrioritiesOnce, needs="priority"),
    Row("U1 factors before (Fair Tree) or after (classic) the usage", FactorsAtOtherTime, needs="priority"),
    Row("U1 usage counts when a job has ended", UsageAtTheEnd, needs="priority"),
    Row("U1 half-life six times as long", settings={"half_life_s": lambda old: 6 * old}, needs="priority"),
    Row("U1 no decay", settings={"half_life_s": 0.0}, needs="priority"),
    Row("U3 no user root", NoRoot, needs="priority"),
    Row("U4, U5 the other fair share", settings={"fair_tree": lambda old: not old}, needs="priority"),
    Row("U5 no shared ranks, no accounts that are one", NoTies, needs="Fair Tree"),
    Row("P1 no memory", settings={"memory": False}, needs="memory"),
    Row("P1 no GPUs", jobs={"gpus_per_node": lambda j: 0 * j.gpus_per_node}, needs="GPUs"),
    Row("P0 the layout in which a job ran", jobs=LAYOUT, needs="tasks"),
    Row("P3 no weights", site={"nodes": lambda old: tuple(x._replace(weight=1) for x in old)}, needs="weights"),
    Row("P5 no second try without the nodes that have least", NoSecondTry, needs="tasks"),
    Row("P2 no features", jobs={"constraint": lambda j: ("",) * len(j)}, needs="features"),
    Row("P2 GPUs narrow the nodes asked", NarrowedByGpus, needs="GPUs"),
    Row("P4 no topology: runs of neighbours", site={"switches": ()}, needs="tree"),
    Row("P4 no groups", OneGroup),
    Row("P5 the first node, not the best", FirstNodes, needs="CPUs"),
    Row("P5 from the last node", LastNodes),
    Row("M1 no main pass", NoMainPass),
    Row("M1 the main pass goes on after a misfit", NothingCloses),
    Row("M1 each misfit closes its partition", EachCloses),
    Row("M2 the main pass tries 1 job", settings={"default_queue_depth": 0}),
    Row("M2 no full pass", NeverFull),
    Row("Q2 one record a job, of its first partition", OneRecord, needs="partitions"),
    Row(
        "Q5 no limits of associations and QOS",
        site=dict.fromkeys(("associations", "qos"), without_limits),
        needs="limits",
    ),
    Row("B4 `later` at any end", LaterIsAny, needs="new"),
    Row("M3 a pass after an end as in the other versions", OtherAfterEnd, on_given_dates=False),
    Row("M3 batch_sched_delay 0", settings={"batch_sched_delay_s": 0.0}, on_given_dates=False),
    Row("M3 batch_sched_delay 10", settings={"batch_sched_delay_s": 10.0}, on_given_dates=False),
    Row("M3 sched_interval 10", settings={"sched_interval_s": 10.0}, on_given_dates=False),
    Row("M3 sched_interval 300", settings={"sched_interval_s": 300.0}, on_given_dates=False),
    Row("M3 defer", settings={"defer": True}, on_given_dates=False),
    Row("E no preemption", settings={"preempt": ""}, needs="preemption"),
    Row("E1 no exempt time", settings={"preempt_exempt_s": 0.0}, site={"qos": not_exempt}, needs="preemption"),
    Row("E3 the youngest first", settings={"preempt_youngest_first": True}, needs="preemption"),
    Row("E4 no other round", settings={"preempt_reorder_count": 0}, needs="preemption"),
    Row("E6 a job preempts whenever it does not fit", PreemptsAgain, needs="preemption"),
    Row("E7 the plan knows of no preemption", PlansWithout, needs="preemption"),
    Row("E9 queued again at once", settings={"cred_expire_s": -1}, needs="preemption"),
    Row("B no backfill", settings={"backfill": False}),
    Row("B1 bf_interval 1", settings={"bf_interval_s": 1.0}, on_given_dates=False),
    Row("B1 bf_interval 60", settings={"bf_interval_s": 60.0}, on_given_dates=False),
    Row("B1 bf_interval 300", settings={"bf_interval_s": 300.0}, on_given_dates=False),
    Row("B1 a cycle takes no time", clocks={"test_s": 0.0}, on_given_dates=False),
    Row("B2 bf_resolution 1", settings={"bf_resolution_s": 1}),
    Row("B2 bf_resolution 300", settings={"bf_resolution_s": 300}),
    Row("B2 cut from the first submission, not in Unix time", CutFromFirst),
    Row("B2 bf_window 10 min", settings={"bf_window_s": 600}),
    Row("B3 bf_max_job_user none", settings={"bf_max_job_user": 0}, needs="user limit"),
    Row("B3 bf_max_job_user 10", settings={"bf_max_job_user": 10}),
    Row("B3 bf_max_job_test 10", settings={"bf_max_job_test": 10}),
    Row("B6 no reservation", settings={"bf_min_age_reserve_s": 1e9}),
    Row("B6 one reservation", settings={"bf_job_part_count_reserve": 1}),
    Row("B6 three reservations", settings={"bf_job_part_count_reserve": 3}),
    Row("B4 a reservation that begins at the end does not hinder", TouchingIsFree),
    Row("B4 CPUs are capped from the first", Capped, needs="old"),
    Row("B4 reservations may overlap", NoSecondLook),
    Row("B5 ends one by one", OneByOne),
    Row("B5 w is not doubled", NotDoubled),
    Row("B5 ends of all running jobs are looked at", LooksAtAll),
    Row("B5 equal ends in the other order", LatestFirst),
    Row("B5 groups as in the other versions", OtherVersion),
    Row("B7 equal intervals are not joined", NoJoin),
    Row("B7 all equal intervals are joined", JoinAll),
    Row("R1 nodes are clean at once", clocks={"cleaning_s": 0.0}),
    Row("R1 nodes are clean 1 s later", clocks={"cleaning_s": 1.0}),
    Row("R1 a job runs 1 s longer", clocks={"overhead_s": lambda old: old + 1.0}),
    Row("   limits are the run times", jobs={"limit_s": lambda j: np.maximum(np.ceil(j.run_s), 1).astype(np.int64)}),
)
