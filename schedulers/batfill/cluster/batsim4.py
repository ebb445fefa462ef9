"""Batsim 4's side of a conversation: its events' names and fields, and how it wants the decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.batsim.machines import as_text
from batfill.batsim.protocol import ARRAY, INTEGER, NUMBER, OBJECT, STRING
from batfill.cluster.agent import Registration
from batfill.cluster.conversation import OF_USER, REJECTED, RUNS, Conversation

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
BEGINS: Fields = (("config", OBJECT), ("compute_resources", ARRAY))
STORAGE: Fields = (("storage_resources", ARRAY),)
SUBMITTED: Fields = (("job_id", STRING), ("job", OBJECT))
JOB: Fields = (("subtime", NUMBER), ("res", INTEGER), ("profile", STRING))
OPTIONAL: Fields = (("walltime", NUMBER), *OF_USER)
NOTIFY: Fields = (("type", STRING),)


class Batsim4(Conversation):
    """A conversation with Batsim 4."""

    version = "Batsim 4"
    type_field, data_field = "type", "data"
    event_fields = (("type", STRING), ("timestamp", NUMBER))
    begins = "SIMULATION_BEGINS"
    state_field = "job_state"
    completed_fields = (("job_id", STRING), (state_field, STRING))

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.forwards_unknown = False

    # Events from Batsim

    def events_handled(self) -> dict[str, Callable[[Any], None]]:
        """See `Conversation`."""
        return {
            "JOB_SUBMITTED": self.submitted,
            "JOB_COMPLETED": self.completed,
            "REQUESTED_CALL": self.called,
            "NOTIFY": self.notified,
            "ADD_RESOURCES": self.restore,
            "REMOVE_RESOURCES": self.withdraw,
            "SIMULATION_ENDS": self.end,
        }

    def events_ignored(self) -> tuple[str, ...]:
        """See `Conversation`."""
        return "JOB_KILLED", "FROM_JOB_MSG", "RESOURCE_STATE_CHANGED", "ANSWER"

    def begin(self, data: Any) -> None:
        """SIMULATION_BEGINS."""
        self.refuse_second()
        self.check(data, BEGINS)
        config = data["config"]
        if config.get("redis-enabled"):
            raise self.wrong("requires redis, which batfill does not use; start Batsim without --enable-redis")
        self.forwards_unknown = bool(config.get("forward-unknown-events"))
        registration = Registration(
            bool(config.get("dynamic-jobs-enabled")),
            bool(config.get("profile-reuse-enabled")),
            bool(config.get("dynamic-jobs-acknowledged")),
        )
        if "storage_resources" in data:
            self.check(data, STORAGE)
        self.begin_on(self.ids(data, "compute_resources"), self.ids(data, "storage_resources"), registration)

    def check_submission(self, data: Any) -> str:
        """See `Conversation`."""
        self.check(data, SUBMITTED)
        return str(data["job_id"])

    def job_of(self, data: Any) -> dict[str, Any]:
        """See `Conversation`."""
        fields: dict[str, Any] = data["job"]
        self.check(fields, JOB)
        self.check_given(fields, OPTIONAL)
        return fields

    def notified(self, data: Any) -> None:
        """NOTIFY."""
        self.check(data, NOTIFY)
        kind = data["type"]
        if kind == "no_more_static_job_to_submit":
            self.agent.no_more_jobs()
        elif kind == "event_machine_unavailable":
            self.withdraw(data)
        elif kind == "event_machine_available":
            self.restore(data)
        elif kind not in NOTIFICATIONS and not self.forwards_unknown:
            raise self.wrong(f"is of type {kind!r:.60}; Batsim 4 sends {', '.join(NOTIFICATIONS)}")

    # Requests of the agent: `cluster.agent.Host`

    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""
        self.leaves_queue(job, RUNS)
        self.send("EXECUTE_JOB", {"job_id": job, "alloc": as_text(machines)})

    def reject(self, job: str) -> None:
        """See `Host`."""
        self.leaves_queue(job, REJECTED)
        self.send("REJECT_JOB", {"job_id": job})

    def kill(self, job: str) -> None:
        """See `Host`."""
        self.send("KILL_JOB", {"job_ids": [job]})

    def call_at(self, date_s: float) -> None:
        """See `Host`."""
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
