"""A conversation with Batsim 4."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.live.agent import ACKNOWLEDGE, with_options
from batfill.live.conversation import EXTERNAL_EVENTS, Conversation
from batfill.live.request import Registration, job_request
from batfill.protocol.batsim4 import (
    BATSIM_4,
    CONFIG,
    JOB,
    NOTICES,
    OPTIONAL_CONFIG,
    OPTIONAL_JOB,
    QUERIED,
    QUERIED_JOB,
    WAITING_TIME,
)
from batfill.protocol.forms import OBJECT, check_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.live.agent import Agent
    from batfill.protocol.decisions import CallAt


class Conversation4(Conversation):
    """One simulation of Batsim 4. See `Conversation` for the methods without a text."""

    version = BATSIM_4
    acknowledged_fields = ("submit_s", "walltime_s", "procs", "profile")

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.dates: list[float] = []  # a heap of those for which calls were requested; calls have no ids

    def begin(self, data: Any) -> None:
        """SIMULATION_BEGINS."""
        config, self.subject = data["config"], "in config "
        check_fields(config, CONFIG, OPTIONAL_CONFIG, others=True)
        if config["redis-enabled"]:
            raise self.unable("requires redis, which batfill does not use; start Batsim without --enable-redis")
        self.knows_all_external = not config.get("forward-unknown-events", False)
        registration = Registration(
            config["dynamic-jobs-enabled"],
            config["profile-reuse-enabled"],
            config["dynamic-jobs-acknowledged"],
            workflows_of(data["profiles"]),
        )
        self.subject = ""
        if data["workloads"].keys() != data["profiles"].keys():
            found, expected = (", ".join(data[name]) or "none" for name in ("profiles", "workloads"))
            raise self.wrong(f"has profiles of the workloads {found:.60}, but the workloads {expected:.60}")
        check_fields(data["profiles"], dict.fromkeys(data["workloads"], OBJECT))
        self.profiles = data["profiles"]
        self.agent, acknowledge = with_options(self.agent, config.get("sched-config", ""), "Batsim's --sched-cfg")
        if acknowledge not in (None, registration.acknowledged):
            raise BatfillError(
                f"Batsim's --sched-cfg has {ACKNOWLEDGE!r}: {str(acknowledge).lower()}; under Batsim 4 its option "
                "--acknowledge-dynamic-jobs decides that"
            )
        counts = data["nb_resources"], data["nb_compute_resources"], data["nb_storage_resources"]
        self.begin_on(self.ids(data, "compute_resources"), self.ids(data, "storage_resources"), counts, registration)

    def fields_of(self, data: Any) -> dict[str, Any]:
        """JOB_SUBMITTED."""
        name, job = data["job_id"], data["job"]
        check_fields(job, JOB, OPTIONAL_JOB, others=True)
        if job["id"] != name:
            raise self.wrong(f"{self.subject}has a job with the id {job['id']!r:.60}")
        workload, profile = name.partition("!")[0], job["profile"]
        if workload not in self.profiles:
            raise self.wrong(f"{self.subject}is of the workload {workload!r:.60}; known are {', '.join(self.profiles)}")
        if profile not in self.profiles[workload] and self.profiles[workload]:
            raise self.wrong(f"{self.subject}has the profile {profile!r:.60}, which {workload!r:.60} lacks")
        return job  # type: ignore[no-any-return] # a JSON object

    def call_of(self, data: Any) -> float | None:
        """REQUESTED_CALL, which says only that it is one."""
        return heapq.heappop(self.dates) if self.dates else None

    def note_call(self, call: CallAt) -> None:
        """CALL_ME_LATER."""
        heapq.heappush(self.dates, call.date_s)

    def asked(self, data: Any) -> None:
        """QUERY: how long a job would wait if it were submitted now; answered after the decision."""
        requests = data["requests"]
        if requests.keys() != {WAITING_TIME}:
            raise self.unable(f"requests {', '.join(requests) or 'nothing':.60}; batfill answers {WAITING_TIME} alone")
        self.subject = f"in {WAITING_TIME} "
        check_fields(requests[WAITING_TIME], QUERIED, others=True)
        name, job = (requests[WAITING_TIME][field] for field in QUERIED)
        check_fields(job, QUERIED_JOB, OPTIONAL_JOB, others=True)
        self.check_request(job["res"], job.get("walltime", -1))
        self.queries.append(job_request(name, {**job, "subtime": self.now_s, "profile": ""}, self.agent.odd_fields))

    def notified(self, data: Any) -> None:
        """NOTIFY."""
        kind = data["type"]
        if kind in NOTICES:
            if kind.startswith("event_"):
                self.not_after(EXTERNAL_EVENTS)
            check_fields(data, NOTICES[kind].required, others=True)
            getattr(self, NOTICES[kind].means)(data)
        elif self.knows_all_external:
            raise self.wrong(f"is of type {kind!r:.60}; Batsim 4 sends {', '.join(NOTICES)}")


def workflows_of(profiles: Mapping[str, Any]) -> tuple[str, ...]:
    """The workflows among the workloads: their jobs and profiles come as they are made, so that none is announced."""
    return tuple(name for name in profiles if not profiles[name])
