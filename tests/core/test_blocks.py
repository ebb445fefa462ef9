"""The blocks of waiting jobs against a sorted list, operation by operation; a block holds four, and two are a group."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batfill.engine import blocks
from batfill.engine.records import JOB, new_records
from batfill.model.limits.pools import Pool
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from from_python import in_python, readable
from sweeps import examples

BLOCK, GROUP = 4, 2


@contextmanager
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", BLOCK)
        patch.setattr(blocks, "GROUP", GROUP)
        yield


def of_small(kernel):
    """The kernel in plain Python, and all that it calls, with small blocks."""
    with small():
        function = in_python(kernel)
    return lambda *arguments: function(*map(readable, arguments))


class_of, enters_group, group_at, insert, loosen, pack, precedes, remove, summarize = map(
    of_small,
    (
        blocks.class_of,
        blocks.enters_group,
        blocks.group_at,
        blocks.insert,
        blocks.loosen,
        blocks.pack,
        blocks.precedes,
        blocks.remove,
        blocks.summarize,
    ),
)

SIZE = 20
ROOM = 400
SECTIONS = 3
POOLS = (Pool("power", 8), Pool("licences", 8, of_user=True))


def listed(waiting, section):
    """The section's rows in order, and the block of each."""
    rows, homes = [], []
    for block in waiting.order[section, : waiting.sections[section]["blocks"]].tolist():
        slots = waiting.slots[block * BLOCK : block * BLOCK + waiting.nodes[block]["count"]]
        rows += slots["row"].tolist()
        homes += [block] * len(slots)
    return rows, homes


class BlocksBesideAList(RuleBasedStateMachine):
    """Jobs come in runs, so that blocks fill, split, empty and merge."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed):
        self.rng = np.random.default_rng(seed)
        with small():
            queue = Queue(SIZE, Rules(policy_named("fcfs"), pools=POOLS), capacity=ROOM)
        self.queue, self.jobs, self.waiting = queue.arrays, queue.arrays.jobs, queue.arrays.blocks
        self.a_section = (len(self.waiting.nodes) - len(self.waiting.order[0])) // len(self.waiting.sections)  # groups
        self.jobs["seq"] = self.rng.permutation(ROOM)
        self.queue.users[:] = np.arange(ROOM) // 20 % 3  # a row's is that of its neighbours, which wait side by side
        self.lists = {section: [] for section in range(SECTIONS)}  # of (key, seq, row, expected_s, procs), sorted
        self.unused = list(range(ROOM))

    @rule(section=st.integers(0, SECTIONS - 1), n=st.integers(1, 60), order=st.sampled_from(["up", "down", "any"]))
    def insert(self, section, n, order):
        keys = self.rng.integers(0, 50, n).astype(float)
        if order != "any":
            top = max((job[0] for job in self.lists[section]), default=0.0)
            keys = top + np.arange(n) if order == "up" else -top - np.arange(n)
        for key in keys[: len(self.unused)].tolist():
            row = self.unused.pop()
            expected_s, procs = float(self.rng.integers(1, 99)), int(self.rng.integers(1, SIZE + 1))
            self.jobs["expected_s"][row], self.jobs["procs"][row] = expected_s, procs
            self.queue.wants[row] = self.rng.integers(0, 9, len(POOLS))
            insert(self.queue, np.int64(section), key, row)
            self.lists[section].append((key, int(self.jobs["seq"][row]), row, expected_s, procs))
        self.lists[section].sort()

    @precondition(lambda self: any(self.lists.values()))
    @rule(section=st.integers(0, SECTIONS - 1), n=st.integers(1, 60), where=st.sampled_from(["front", "back", "any"]))
    def remove(self, section, n, where):
        for _ in range(min(n, len(self.lists[section]))):
            at = {"front": 0, "back": -1, "any": int(self.rng.integers(len(self.lists[section])))}[where]
            key, _, row, _, _ = self.lists[section].pop(at)
            remove(self.waiting, np.int64(section), key, row, self.jobs)
            self.unused.append(row)

    @rule(section=st.integers(0, SECTIONS - 1))
    def summarize(self, section):
        """Bounds are made at odd moments, as a pass does, of sections that hold jobs; from then on they are kept."""
        if not self.lists[section]:
            return
        for place, block in enumerate(self.waiting.order[section, : self.waiting.sections[section]["blocks"]]):
            summarize(self.queue, block)
            loosen(self.waiting, np.int64(section), np.int64(place))

    @rule(section=st.integers(0, SECTIONS - 1), back=st.booleans())
    def summarize_groups(self, section, back):
        """As a walk does: each group has one edge at which it is met."""
        if not self.lists[section]:
            return
        size = int(self.waiting.sections[section]["blocks"])
        places = [np.int64(place) for place in range(size)]
        edges = [place for place in places if enters_group(self.waiting, np.int64(section), place, back)]
        met = [group_at(self.queue, np.int64(section), place) for place in edges]
        assert len(met) == (0 if size <= GROUP else -(-size // GROUP))
        assert met == sorted(set(met))
        assert (self.waiting.nodes["state"][met] != blocks.NONE).all()

    @rule()
    def pack(self):
        """As an insertion does that finds no unused node; the fewest that a tree may have are left."""
        pack(self.waiting)
        for section, jobs in self.lists.items():
            assert len(set(listed(self.waiting, section)[1])) == -(-len(jobs) // BLOCK)

    @rule()
    def clear(self):
        blocks.clear(self.waiting)
        for jobs in self.lists.values():
            self.unused += [job[2] for job in jobs]
            jobs.clear()

    @invariant()
    def holds_the_same_jobs_in_the_same_order(self):
        for section, jobs in self.lists.items():
            assert listed(self.waiting, section)[0] == [job[2] for job in jobs]
            assert self.waiting.sections[section]["jobs"] == len(jobs)

    @invariant()
    def bounds_are_never_above_what_they_bound(self):
        for section, jobs in self.lists.items():
            _, homes = listed(self.waiting, section)
            home_of = {job[2]: block for job, block in zip(jobs, homes, strict=True)}
            members, places = {}, {block: place for place, block in enumerate(dict.fromkeys(homes))}
            for (_, _, row, expected_s, procs), block in zip(jobs, homes, strict=True):
                group = len(self.waiting.order[0]) + section * self.a_section + places[block] // GROUP
                for index in (block, group):
                    members.setdefault(index, []).append((expected_s, procs, row))
            for block, found in members.items():
                sizes, rows = [size[:2] for size in found], [row for _, _, row in found]
                state = self.waiting.nodes[block]["state"]
                if state == blocks.NONE:
                    continue
                fewest = min(procs for _, procs in sizes)
                bound, shortest_s = self.waiting.nodes[block]["procs"], self.waiting.shortest_s[block]
                assert bound <= fewest
                for procs in range(1, SIZE + 1):
                    fitting = [expected_s for expected_s, needed in sizes if needed <= procs]
                    assert shortest_s[0, blocks.width_of(procs)] <= min(fitting, default=np.inf)
                for pool in range(len(POOLS)):
                    for amount in range(-1, 10):
                        fitting = [expected_s for expected_s, _, row in found if self.queue.wants[row, pool] <= amount]
                        known_s = shortest_s[1 + pool, class_of(self.queue, np.uint64(pool), np.int64(amount))]
                        assert known_s <= min(fitting, default=np.inf)
                least, users = self.queue.wants[rows].min(axis=0), set(self.queue.users[rows].tolist())
                assert (self.waiting.least[block] <= least).all()
                assert self.waiting.nodes[block]["user"] == 0 or users == {self.waiting.nodes[block]["user"]}
                # A group's are exact if those of its blocks were when it was made.
                made = {home_of[row] for row in rows}
                if state == blocks.EXACT and (self.waiting.nodes["state"][list(made)] == blocks.EXACT).all():
                    assert (self.waiting.least[block] == least).all()
                    assert len(users) > 1 or users == {self.waiting.nodes[block]["user"]}
                    assert bound == fewest
                    assert shortest_s[0, -1] == min(expected_s for expected_s, _ in sizes)

    @invariant()
    def no_block_is_lost(self):
        used = int(self.waiting.sections["blocks"].sum())
        assert used + int(self.waiting.spare[0]["left"]) == len(self.waiting.order[0])


TestBlocksBesideAList = pytest.mark.compiled(BlocksBesideAList.TestCase)
TestBlocksBesideAList.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)


def test_minima_of_a_group_that_a_job_has_left_are_not_called_exact():
    machine = BlocksBesideAList()
    machine.begin(3)
    machine.insert(0, 40, "up")
    machine.summarize_groups(0, back=False)
    for _ in range(9):
        machine.remove(0, 1, "any")
        machine.bounds_are_never_above_what_they_bound()


def test_widths_grow_with_processors_and_powers_of_two_have_their_own():
    widths = [blocks.width_of(procs) for procs in range(1, 1025)]
    assert widths == sorted(widths)
    for power in (2, 4, 64, 512):
        assert widths[power - 2] < widths[power - 1] < widths[power]


def test_the_sort_rule_is_key_then_seq():
    jobs = new_records(2, JOB)
    jobs["seq"] = [5, 3]
    assert precedes(1.0, 0, 2.0, 1, jobs)
    assert not precedes(1.0, 0, 1.0, 1, jobs)
    assert precedes(1.0, 1, 1.0, 0, jobs)
    assert not precedes(1.0, 1, 1.0, 1, jobs)


def test_a_class_grows_with_an_amount_however_large_amount_and_machine_are():
    queue = Queue(2**20, Rules(policy_named("fcfs"), pools=(Pool("memory", 2**53),)), capacity=1).arrays
    amounts = [-5, 0, *(2**power for power in range(54))]
    classes = [int(class_of(queue, np.uint64(0), np.int64(amount))) for amount in amounts]
    assert classes == sorted(classes)
    assert (classes[0], classes[-2], classes[-1]) == (0, 38, 40)  # of none, of half of all processors, and of all
