"""Writes when waiting jobs are expected to start, as a simulation goes on: one JSON object a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from batfill.base.errors import BatfillError
from batfill_site.starts.past import JOB_SO_FAR, Past
from batfill_site.starts.ensemble import Ensemble, moment_of
from batfill_site.starts.when import Forecast

if TYPE_CHECKING:
    from batfill.live.cluster import Cluster
    from batfill.live.request import Request

FIRST_CAPACITY = 1024


class EstimatesFile:
    """An estimate for each job that has to wait, when it is submitted, and again when it is expected later than said.

    A line has the instant `at_s`, the job, the expected start `start_s`, the interval `from_s` to `to_s`, and `late`:
    whether an earlier line said that it would start before.
    """

    def __init__(self, path: str, cluster: Cluster) -> None:
        """Begin the file.

        Raises:
            BatfillError: it cannot be written.
        """
        self.cluster = cluster
        self.past = Past(np.zeros(FIRST_CAPACITY, JOB_SO_FAR))
        self.forecast = Forecast(self.past, Ensemble())
        self.said: dict[int, float] = {}  # by row, until when the last line said that the job would start
        try:
            self.file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - open as long as the simulation
        except OSError as error:
            raise BatfillError(f"option estimates: {path} cannot be written ({error.strerror}); give another") from None

    def submitted(self, request: Request) -> None:
        """Note a job that the cluster has queued."""
        job = self.cluster.queue.jobs[self.cluster.rows[request.name]]
        self.past.add(
            request.user,
            submit_s=request.submit_s,
            request_s=request.request_s,
            procs=request.procs,
            known_user=request.user >= 0,
            small=job["small"],
            killable=job["killable"],
        )

    def started(self, job: str, start_s: float) -> None:
        """Note a start, which calibrates the intervals."""
        row = self.cluster.rows[job]
        self.said.pop(row, None)
        self.forecast.started(row, start_s)

    def ended(self, job: str, end_s: float) -> None:
        """Note a job that has ended for good; the cluster still has it."""
        row = self.cluster.rows[job]
        self.past.ended([row], [end_s - float(self.cluster.queue.jobs["start_s"][row])])

    def write(self, now_s: float) -> None:
        """Write what is new after a decision."""
        moment = moment_of(self.cluster.queue, now_s)
        waits = moment.waits
        if not waits.any():
            return
        found = self.forecast.estimate(moment, waits)
        lines = []
        for place, row in enumerate(found.rows.tolist()):
            start_s, from_s, to_s = (float(column[place]) for column in (found.start_s, found.from_s, found.to_s))
            if start_s <= self.said.get(row, -1.0):
                continue
            late = row in self.said
            self.said[row] = to_s
            line = {
                "at_s": now_s,
                "job": self.cluster.placed[row].name,
                "start_s": start_s,
                "from_s": from_s,
                "to_s": to_s,
                "late": late,
            }
            lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self.file.write(b"".join(lines))

    def close(self) -> None:
        """End the file."""
        self.file.close()
