"""What answers Batsim under --no-sched: jobs are computed one by one, one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson


class NoScheduler:
    """Runs one job at a time, in the order of submission, on the first machines; called with a message, it replies.

    A job that asks for more machines than there are is rejected.
    """

    def __init__(self) -> None:
        self._n_machines = 0
        self._waiting: deque[tuple[str, int]] = deque()
        self._busy = False

    def __call__(self, message: bytes) -> bytes:
        """The reply to this message."""
        told = orjson.loads(message)
        decisions: list[tuple[str, dict[str, Any]]] = []
        for event in told["events"]:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                self._n_machines = data["nb_compute_resources"]
            elif event["type"] == "JOB_COMPLETED":
                self._busy = False
            elif event["type"] == "JOB_SUBMITTED" and data["job"]["res"] > self._n_machines:
                decisions.append(("REJECT_JOB", {"job_id": data["job_id"]}))
            elif event["type"] == "JOB_SUBMITTED":
                self._waiting.append((data["job_id"], data["job"]["res"]))
        if self._waiting and not self._busy:
            job_id, res = self._waiting.popleft()
            decisions.append(("EXECUTE_JOB", {"job_id": job_id, "alloc": f"0-{res - 1}" if res > 1 else "0"}))
            self._busy = True
        now = told["now"]
        return orjson.dumps(
            {"now": now, "events": [{"timestamp": now, "type": kind, "data": data} for kind, data in decisions]}
        )
