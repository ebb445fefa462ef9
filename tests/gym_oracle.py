"""RLScheduler's simulator written a second time, for the tests: plain lists, sorted again at every event.

Python's sort is stable, and the order of equal elements is what the compiled simulator must not change.
"""

from __future__ import annotations

import math


class Simulator:
    """One sequence of jobs on an empty machine.

    jobs: (submit_s, runtime_s, request_s, procs) by job number; rows start .. start + n - 1 are simulated.
    """

    def __init__(self, jobs, *, nodes, procs_per_node, start, n):
        self.jobs = jobs
        self.procs_per_node = procs_per_node
        self.free_nodes = nodes
        self.now_s = jobs[start][0]
        self.queue = [start]
        self.arriving = list(range(start + 1, start + n))
        self.running = []
        self.start_s = {}

    def submit_s(self, row):
        return self.jobs[row][0]

    def end_s(self, row):
        return self.start_s[row] + self.jobs[row][1]

    def expected_end_s(self, row):
        return self.start_s[row] + self.jobs[row][2]

    def nodes(self, row):
        return math.ceil(self.jobs[row][3] / self.procs_per_node)

    def fits(self, row):
        return self.nodes(row) <= self.free_nodes

    def run(self, row):
        self.queue.remove(row)
        self.start_s[row] = self.now_s
        self.free_nodes -= self.nodes(row)
        self.running.append(row)

    def next_event(self):
        """The next arrival, or the next end if it is earlier."""
        self.running.sort(key=self.end_s)
        if self.arriving and (not self.running or self.submit_s(self.arriving[0]) <= self.end_s(self.running[0])):
            row = self.arriving.pop(0)
            self.now_s = max(self.now_s, self.submit_s(row))
            self.queue.append(row)
        else:
            row = self.running.pop(0)
            self.now_s = max(self.now_s, self.end_s(row))
            self.free_nodes += self.nodes(row)

    def shadow_s(self, row):
        self.running.sort(key=self.expected_end_s)
        free = self.free_nodes * self.procs_per_node
        for other in self.running:
            free += self.nodes(other) * self.procs_per_node
            if free >= self.jobs[row][3]:
                break
        return self.expected_end_s(other)

    def pick(self, row, backfill):
        """Start this waiting job as soon as it fits, and move on to the next decision; False at the end."""
        if not self.fits(row):
            shadow_s = self.shadow_s(row) if backfill else -math.inf
            while not self.fits(row):
                if backfill:
                    self.queue.sort(key=self.submit_s)
                    for other in list(self.queue):
                        if self.now_s + self.jobs[other][2] < shadow_s and self.fits(other):
                            self.run(other)
                self.next_event()
        self.run(row)
        while not self.queue and self.arriving:
            self.next_event()
        return bool(self.queue)


def play(jobs, key, *, backfill, **machine):
    """The start times (row: seconds) if the waiting job with the lowest key(row) is always picked."""
    simulator = Simulator(jobs, **machine)
    deciding = True
    while deciding:
        simulator.queue.sort(key=key)
        deciding = simulator.pick(simulator.queue[0], backfill)
    return simulator.start_s
