"""Batsim 4's messages in Batsim 5's words, so that what is told one conversation can be told the other."""

from __future__ import annotations

import heapq
import json
import sys

import numpy as np

from batfill.live.conversation import Conversation5

ACKNOWLEDGE = '{"acknowledge_dynamic_jobs": true}'
NOTICES = {
    "no_more_static_job_to_submit": "AllStaticJobsHaveBeenSubmittedEvent",
    "no_more_external_event_to_occur": "AllStaticExternalEventsHaveBeenInjectedEvent",
    "event_machine_unavailable": "ExternalEventOccurredEvent",
    "event_machine_available": "ExternalEventOccurredEvent",
}


def handshake(text=""):
    said = text.encode()
    return len(said).to_bytes(4, sys.byteorder) + said


def hello(answer):
    """The hello in the answer to a handshake."""
    assert answer[:4] == (2).to_bytes(4, sys.byteorder)  # JSON from now on
    (event,) = json.loads(answer[4:])["events"]
    assert event["event_type"] == "EDCHelloEvent"
    return event["event"]


def greeted(agent, text=""):
    """A conversation after its handshake."""
    talk = Conversation5(agent)
    hello(talk.answer(handshake(text)))
    return talk


class Through5:
    """Answers Batsim 4's messages; translated, with dates as Batsim 5 writes them, they go to a `Conversation`."""

    def __init__(self, agent, text="", *, deviation_s=4e-8):
        self.talk = greeted(agent, text)
        self.submit_s = {}
        self.calls = []  # requested: heap of dates and ids
        self.seed = np.random.default_rng(5)
        self.deviation_s = deviation_s
        self.now = 0.0

    def answer(self, message):
        told = json.loads(message)
        exact = told["now"]
        if self.deviation_s and exact != 0:  # on either side, but never back
            self.now = max(self.now, exact + self.deviation_s * self.seed.uniform(-1, 1))
        else:
            self.now = exact
        events = [event for told_event in told["events"] for event in self.event(**told_event)]
        text = json.dumps({"now": self.now, "events": events})
        answer = json.loads(self.talk.answer(text.encode() + b"\0"))
        assert answer["now"] == self.now
        decided = [self.decision(event["event_type"], event["event"]) for event in answer["events"]]
        return json.dumps(
            {"now": exact, "events": [{"timestamp": exact, "type": kind, "data": data} for kind, data in decided]}
        ).encode()

    def event(self, timestamp, type, data):  # noqa: A002 # Batsim's name of the field
        kinds = {
            "SIMULATION_BEGINS": "SimulationBeginsEvent",
            "JOB_SUBMITTED": "JobSubmittedEvent",
            "JOB_COMPLETED": "JobCompletedEvent",
            "JOB_KILLED": "JobsKilledEvent",
            "REQUESTED_CALL": "RequestedCallEvent",
            "NOTIFY": NOTICES.get(data.get("type")),
            "SIMULATION_ENDS": "SimulationEndsEvent",
            "ANSWER": "HostsPStateChangedEvent",
        }
        said = {}
        if type == "SIMULATION_BEGINS":
            said = {"computation_hosts": data["compute_resources"], "storage_hosts": data["storage_resources"]}
            counts = {"host_number": "", "computation_host_number": "compute_", "storage_host_number": "storage_"}
            said |= {name: data[f"nb_{kind}resources"] for name, kind in counts.items()}
            said |= {"workloads": [{"name": name, "filename": path} for name, path in data["workloads"].items()]}
        elif type == "JOB_SUBMITTED":
            job = dict(data["job"])
            self.submit_s[data["job_id"]] = job["subtime"]
            walltime, own = job.pop("walltime", -1), {"id", "subtime", "res", "profile"}
            extra = {name: value for name, value in job.items() if name not in own}
            said_job = {"resource_request": job["res"], "profile_id": f"w0!{job['profile']}", "rigid": True}
            said_job |= {"walltime": None if walltime < 0 else walltime}
            said_job |= {"extra_data": json.dumps(extra, separators=(",", ":"))} if extra else {}
            said = {"job_id": data["job_id"], "job": said_job, "submission_time": job["subtime"]}
        elif type == "JOB_COMPLETED":
            said = {"job_id": data["job_id"], "state": data["job_state"], "return_code": data["return_code"] % 2**32}
        elif type == "JOB_KILLED":
            said = {"job_ids": data["job_ids"], "progresses": []}
        elif type == "NOTIFY" and "resources" in data:
            text = json.dumps({"type": data["type"].removeprefix("event_"), "resources": data["resources"]})
            said = {"external_event_type": "GenericExternalEvent", "external_event": {"data": text}}
        elif type == "REQUESTED_CALL":
            named = heapq.heappop(self.calls)[1] if self.calls else "none"
            said = {"call_me_later_id": named, "last_periodic_call": False}
        yield {"timestamp": self.now, "event_type": kinds.get(type, type), "event": said}

    def decision(self, kind, data):
        if kind == "ExecuteJobEvent":
            return "EXECUTE_JOB", {"job_id": data["job_id"], "alloc": data["allocation"]["host_allocation"]}
        if kind == "CallMeLaterEvent":
            unit = {"Second": 1, "Millisecond": 1000}[data["when"]["time_unit"]]
            assert data["call_me_later_id"] not in [named for _, named in self.calls]
            heapq.heappush(self.calls, (data["when"]["time"] / unit, data["call_me_later_id"]))
            return "CALL_ME_LATER", {"timestamp": data["when"]["time"] / unit}
        if kind == "RegisterJobEvent":
            name, job = data["job_id"], data["job"]
            first = name.partition("#")[0]
            said = {"id": name, "subtime": self.submit_s[first], "res": job["resource_request"]}
            said |= {"walltime": job.get("walltime", -1), "profile": job["profile_id"].removeprefix("w0!")}
            return "REGISTER_JOB", {"job_id": name, "job": said | json.loads(job.get("extra_data", "{}"))}
        return {
            "RejectJobEvent": ("REJECT_JOB", data),
            "KillJobsEvent": ("KILL_JOB", data),
            "FinishRegistrationEvent": ("NOTIFY", {"type": "registration_finished"}),
        }[kind]
