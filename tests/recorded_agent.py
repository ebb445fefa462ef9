"""An agent that decides what a recording's scheduler decided, so that a conversation hears the recorded answers."""

from __future__ import annotations

from typing import Any

from batfill.batsim_files.machines import machine_set
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation
from batfill.live.request import Request, job_request
from batfill.protocol.decisions import CallAt, Execute, Kill, Reject

MOST_MACHINES = 10**6


class UnlikeBatfillError(Exception):
    """The recorded scheduler requests what batfill never does."""


class RecordedAgent(Agent):
    """`answer` is the recorded answer's events, in the words of either version."""

    answer: list[dict[str, Any]]
    talk: Conversation

    def submitted(self, request: Request, now_s: float) -> None:
        self.requests[request.name] = request

    def ended(self, job: str, now_s: float, *, killed: bool) -> None:
        self.requests.pop(job)

    def called(self, now_s: float) -> None: ...

    def decide(self, now_s: float) -> None:
        for event in self.answer:
            kind = event.get("type") or event.get("event_type")
            if event["timestamp"] != self.talk.now or kind not in WORDS:
                raise UnlikeBatfillError(kind)
            WORDS[kind](self, event.get("data", event.get("event")))

    def execute(self, data: dict[str, Any]) -> None:
        text = data["alloc"] if "alloc" in data else data["allocation"]["host_allocation"]
        self.say(Execute(data["job_id"], text))
        run = self.talk.runs[data["job_id"]]
        self.talk.runs[data["job_id"]] = run._replace(machines=machine_set(text, MOST_MACHINES).text)

    def kill_all(self, data: dict[str, Any]) -> None:
        for job in data["job_ids"]:
            self.say(Kill([job]))

    def call(self, data: dict[str, Any]) -> None:
        if "timestamp" in data:
            self.say(CallAt(data["timestamp"]))
            return
        if data["when_type"] != "OneShot":
            raise UnlikeBatfillError(data["when_type"])
        unit = {"Second": 1, "Millisecond": 1000}[data["when"].get("time_unit", "Second")]
        self.talk.calls[data["call_me_later_id"]] = data["when"]["time"] / unit

    def register(self, data: dict[str, Any]) -> None:
        name, job = data["job_id"], data["job"]
        if "resource_request" in job:
            if not name.startswith("w0!") or (job.get("walltime") or 0) < 0:
                raise UnlikeBatfillError(name)
            profile = job["profile_id"] if "!" in job["profile_id"] else f"w0!{job['profile_id']}"
            job = {**job, "subtime": self.talk.now, "res": job["resource_request"], "profile": profile}
            job |= {"walltime": job.get("walltime") or -1, "extra_data": job.get("extra_data", "")}
        request = job_request(name, job, set())
        self.requests[name] = request
        self.say(request.registered())

    def notify(self, data: dict[str, Any]) -> None: ...


WORDS = {
    "EXECUTE_JOB": RecordedAgent.execute,
    "ExecuteJobEvent": RecordedAgent.execute,
    "REJECT_JOB": lambda agent, data: agent.say(Reject(data["job_id"])),
    "RejectJobEvent": lambda agent, data: agent.say(Reject(data["job_id"])),
    "KILL_JOB": RecordedAgent.kill_all,
    "KillJobsEvent": RecordedAgent.kill_all,
    "CALL_ME_LATER": RecordedAgent.call,
    "CallMeLaterEvent": RecordedAgent.call,
    "REGISTER_JOB": RecordedAgent.register,
    "RegisterJobEvent": RecordedAgent.register,
    "NOTIFY": RecordedAgent.notify,
    "FinishRegistrationEvent": RecordedAgent.notify,
}
