"""Batsim 4's side of a conversation: its events' names and fields, and how it wants the decisions."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from batfill.batsim.protocol import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from batfill.cluster.agent import ACKNOWLEDGE, Registration, with_options
from batfill.cluster.conversation import EXTERNAL_EVENTS, OF_USER, Conversation, ignore
from batfill.errors import BatfillError
from batfill.workloads.batsim_json import EXPECTED_FIELD, REQUEST_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim.machines import Intervals
    from batfill.cluster.agent import Agent, Request
    from batfill.cluster.conversation import Fields

NOTIFICATIONS = (
    "no_more_static_job_to_submit",
    "no_more_external_event_to_occur",
    "event_machine_unavailable",
    "event_machine_available",
)
BEGINS: Fields = (
    ("config", OBJECT),
    ("compute_resources", ARRAY),
    ("nb_resources", INTEGER),
    ("nb_compute_resources", INTEGER),
    ("nb_storage_resources", INTEGER),
    ("workloads", OBJECT),
    ("profiles", OBJECT),
)
OPTIONAL_BEGINS: Fields = (
    ("storage_resources", ARRAY),
    ("allow_compute_sharing", BOOLEAN),
    ("allow_storage_sharing", BOOLEAN),
)
CONFIG: Fields = (
    ("redis-enabled", BOOLEAN),
    ("dynamic-jobs-enabled", BOOLEAN),
    ("dynamic-jobs-acknowledged", BOOLEAN),
    ("profile-reuse-enabled", BOOLEAN),
)
OPTIONAL_CONFIG: Fields = (
    ("forward-unknown-events", BOOLEAN),
    ("profiles-forwarded-on-submission", BOOLEAN),
    ("sched-config", STRING),
)
SUBMITTED: Fields = (("job_id", STRING), ("job", OBJECT))
JOB: Fields = (("id", STRING), ("subtime", NUMBER), ("res", INTEGER), ("profile", STRING))
OPTIONAL: Fields = (("walltime", NUMBER), *OF_USER)
NOTIFY: Fields = (("type", STRING),)


class Batsim4(Conversation):
    """A conversation with Batsim 4."""

    version = "Batsim 4"
    type_field, data_field = "type", "data"
    event_fields = (("type", STRING), ("timestamp", NUMBER), ("data", OBJECT))
    begins = "SIMULATION_BEGINS"
    answers = "RESOURCE_STATE_CHANGED", "ANSWER"
    state_field = "job_state"
    completed_fields = (("job_id", STRING), (state_field, STRING), ("return_code", INTEGER))
    acknowledged_fields = "submit_s", "walltime_s", "procs", "profile"

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.forwards_unknown = False
        self.profiles: dict[str, Any] = {}  # by workload
        self.calls: list[float] = []  # heap of the dates for which calls were requested

    # Events from Batsim

    def events_handled(self) -> dict[str, Callable[[Any], None]]:
        """See `Conversation`."""
        return {
            "JOB_SUBMITTED": self.submitted,
            "JOB_COMPLETED": self.completed,
            "JOB_KILLED": self.jobs_killed,
            "REQUESTED_CALL": self.called,
            "NOTIFY": self.notified,
            "FROM_JOB_MSG": ignore,
            "ADD_RESOURCES": self.restore,
            "REMOVE_RESOURCES": self.withdraw,
            "SIMULATION_ENDS": self.end,
        }

    def begin(self, data: Any) -> None:
        """SIMULATION_BEGINS."""
        self.check(data, BEGINS)
        config = data["config"]
        self.subject = "in config "
        self.check(config, CONFIG)
        self.check_given(config, OPTIONAL_CONFIG)
        if config["redis-enabled"]:
            raise self.wrong("requires redis, which batfill does not use; start Batsim without --enable-redis")
        self.forwards_unknown = config.get("forward-unknown-events", False)
        registration = Registration(
            config["dynamic-jobs-enabled"], config["profile-reuse-enabled"], config["dynamic-jobs-acknowledged"]
        )
        self.subject = ""
        self.check_given(data, OPTIONAL_BEGINS)
        if data["workloads"].keys() != data["profiles"].keys():
            found, expected = (", ".join(data[name]) or "none" for name in ("profiles", "workloads"))
            raise self.wrong(f"has profiles of the workloads {found:.60}, but the workloads {expected:.60}")
        for workload in data["workloads"]:
            self.check(data["profiles"], ((workload, OBJECT),))
        self.profiles = data["profiles"]
        self.agent, acknowledge = with_options(self.agent, config.get("sched-config", ""), "Batsim's --sched-cfg")
        if acknowledge not in (None, registration.acknowledged):
            raise BatfillError(
                f"Batsim's --sched-cfg has {ACKNOWLEDGE!r}: {str(acknowledge).lower()}; under Batsim 4 its option "
                "--acknowledge-dynamic-jobs decides that"
            )
        counts = data["nb_resources"], data["nb_compute_resources"], data["nb_storage_resources"]
        self.begin_on(self.ids(data, "compute_resources"), self.ids(data, "storage_resources"), counts, registration)

    def job_of(self, data: Any) -> dict[str, Any]:
        """See `Conversation`."""
        name, job = data.get("job_id"), data.get("job")
        # One condition for what every good job has: a call of `check` for each costs a tenth of the message.
        if (
            type(name) is not str
            or type(job) is not dict
            or job.get("id") != name
            or type(job.get("subtime")) not in NUMBER
            or type(job.get("res")) is not int
            or type(job.get("profile")) is not str
            or job["profile"] not in self.profiles.get(name.partition("!")[0], ())
        ):
            self.check_job(data)
        if type(job.get("walltime", 1)) is not int or EXPECTED_FIELD in job or REQUEST_FIELD in job:
            self.check_given(job, OPTIONAL)
        return job  # type: ignore[no-any-return]

    def check_job(self, data: dict[str, Any]) -> None:
        """Refuse a job without what every job has."""
        self.subject = ""
        self.check(data, SUBMITTED)
        name, job = data["job_id"], data["job"]
        self.subject = f"of {name!r:.60} "
        self.check(job, JOB)
        if job["id"] != name:
            raise self.wrong(f"{self.subject}has a job with the id {job['id']!r:.60}")
        workload = name.partition("!")[0]
        if workload not in self.profiles:
            raise self.wrong(f"{self.subject}is of the workload {workload!r:.60}; known are {', '.join(self.profiles)}")
        if job["profile"] not in self.profiles[workload]:
            raise self.wrong(f"{self.subject}has the profile {job['profile']!r:.60}, which {workload!r:.60} lacks")

    def call_of(self, data: Any) -> float | None:
        """See `Conversation`; a call says only that it is one."""
        return heapq.heappop(self.calls) if self.calls else None

    def notified(self, data: Any) -> None:
        """NOTIFY."""
        self.check(data, NOTIFY)
        kind = data["type"]
        if kind == "no_more_static_job_to_submit":
            self.no_more_jobs(data)
        elif kind == "no_more_external_event_to_occur":
            self.no_more_external_events(data)
        elif kind == "event_machine_unavailable":
            self.not_after(EXTERNAL_EVENTS)
            self.withdraw(data)
        elif kind == "event_machine_available":
            self.not_after(EXTERNAL_EVENTS)
            self.restore(data)
        elif not self.forwards_unknown:
            raise self.wrong(f"is of type {kind!r:.60}; Batsim 4 sends {', '.join(NOTIFICATIONS)}")

    # Requests of the agent: `cluster.agent.Host`

    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""
        self.send("EXECUTE_JOB", {"job_id": job, "alloc": self.starts(job, machines)})

    def reject(self, job: str) -> None:
        """See `Host`."""
        self.rejects(job)
        self.send("REJECT_JOB", {"job_id": job})

    def kill(self, job: str) -> None:
        """See `Host`."""
        self.kills.add(job)
        self.send("KILL_JOB", {"job_ids": [job]})

    def call_at(self, date_s: float) -> None:
        """See `Host`."""
        heapq.heappush(self.calls, date_s)
        self.send("CALL_ME_LATER", {"timestamp": date_s})

    def register(self, request: Request) -> None:
        """See `Host`."""
        self.joins_queue(request)
        job = {
            "profile": request.profile,
            "id": request.name,
            "res": request.procs,
            "walltime": request.walltime_field,
            "subtime": request.submit_s,
        }
        self.send("REGISTER_JOB", {"job_id": request.name, "job": job})

    def finish_registration(self) -> None:
        """See `Host`."""
        self.send("NOTIFY", {"type": "registration_finished"})
