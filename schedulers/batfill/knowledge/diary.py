"""What has happened to the jobs, told to a knowledge in the order of time and not before it is asked."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batfill.knowledge import Job, Knowledge


class Diary:
    """Stands between a host and its knowledge: entries may be made in any order, also ahead of time."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.entries: list[tuple[float, int, float, bool, Job]] = []  # heap of (end, row, ran, whether killed, job)

    def started(self, job: Job, start_s: float) -> None:
        """A try of this job starts, or started, then."""
        self.knowledge.started(job, start_s)

    def note(self, job: Job, end_s: float, ran_s: float, *, killed: bool) -> None:
        """A try of this job ends, or ended, then; it ran whole or was killed at the divider."""
        heappush(self.entries, (end_s, job.row, ran_s, killed, job))

    def catch_up(self, now_s: float) -> None:
        """Tell what ended before, and renew what is due, in the order of time."""
        self.renew_what_is_due(now_s)
        self.tell(now_s)
        self.knowledge.renew(now_s)

    def renew_what_is_due(self, now_s: float) -> None:
        """Renew the knowledge as a whole if it is time; then it makes no difference how much later this is called."""
        while (due_s := self.knowledge.renewal_s()) <= now_s:
            self.tell(due_s)
            self.knowledge.renew(due_s)

    def tell(self, before_s: float) -> None:
        """Tell of the tries that ended before this instant."""
        while self.entries and self.entries[0][0] < before_s:
            end_s, _, ran_s, killed, job = heappop(self.entries)
            if killed:
                self.knowledge.killed(job, ran_s)
            else:
                self.knowledge.ended(job, ran_s, end_s)
