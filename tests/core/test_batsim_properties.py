"""What holds in every simulation, whatever the workload and the (valid) decisions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from procset import ProcSet

from small_runs import REUSE, Outcome, call, document, execute, job, kill, machines, register, simulate
from sweeps import examples

N_MACHINES = 5
DATES = st.integers(0, 12) | st.floats(0, 12).map(lambda x: round(x, 3))


@st.composite
def workloads(draw):
    profiles = {
        f"p{i}": {"type": "delay", "delay": draw(DATES), **draw(st.sampled_from([{}, {"ret": 1}]))} for i in range(3)
    }
    jobs = [
        job(
            f"j{i}",
            draw(DATES),
            draw(st.integers(1, N_MACHINES + 1)),
            draw(st.sampled_from(sorted(profiles))),
            **draw(st.one_of(st.just({}), st.builds(dict, walltime=st.integers(1, 15)))),
        )
        for i in range(draw(st.integers(0, 8)))
    ]
    return document(*jobs, **profiles)


class AnyScheduler:
    """Draws its decisions: starts, holds back, rejects, kills, requeues, asks for calls, always within the rules."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.free = ProcSet((0, N_MACHINES - 1))
        self.waiting: dict[str, dict] = {}
        self.running: dict[str, ProcSet] = {}
        self.kills: set[str] = set()
        self.dates: list[float] = []
        self.final: Counter[str] = Counter()
        self.starts: list[tuple[str, float, str]] = []
        self.ends: dict[str, tuple[float, str]] = {}
        self.calls = 0
        self.static_over = self.finished = False

    def __call__(self, message):
        now = message["now"]
        self.dates += [event["timestamp"] for event in message["events"]] + [now]
        for event in message["events"]:
            self.hear(event["type"], event["data"], now)
        if message["events"][0]["type"] == "SIMULATION_ENDS":
            return []
        decisions = [d for identifier in list(self.waiting) for d in self.place(identifier, now)]
        if victims := [j for j in self.running if j not in self.kills and self.chance()]:
            self.kills.update(victims)
            decisions.append(kill(*victims))
        if self.waiting and not self.running and not self.calls:  # or they would wait for ever
            self.calls += 1
            decisions.append(call(now + self.draw(st.integers(1, 3))))
        return decisions + self.last_words(message)

    def chance(self) -> bool:
        return self.draw(st.integers(0, 4)) == 0

    def hear(self, kind, data, now):
        if kind == "JOB_SUBMITTED":
            self.waiting[data["job_id"]] = data["job"]
        elif kind == "JOB_COMPLETED":
            machines_of = self.running.pop(data["job_id"])
            assert str(machines_of) == data["alloc"]
            assert not machines_of & self.free
            self.free |= machines_of
            self.final[data["job_id"]] += 1
            self.ends[data["job_id"]] = (now, data["job_state"])
        elif kind == "JOB_KILLED":
            assert set(data["job_progress"]) == {j for j in data["job_ids"] if self.ends[j][1] == "COMPLETED_KILLED"}
            assert all(0 <= p["progress"] <= 1 for p in data["job_progress"].values())
        elif kind == "REQUESTED_CALL":
            self.calls -= 1
        elif kind == "NOTIFY":
            self.static_over = True

    def place(self, identifier, now):
        res = self.waiting[identifier]["res"]
        if res > N_MACHINES or self.chance():
            del self.waiting[identifier]
            self.final[identifier] += 1
            self.ends[identifier] = (now, "REJECTED")
            return [("REJECT_JOB", {"job_id": identifier})]
        if res > len(self.free) or self.chance():
            return []
        chosen = ProcSet(*self.draw(st.permutations(list(self.free)))[:res])
        self.free -= chosen
        self.running[identifier] = chosen
        del self.waiting[identifier]
        self.starts.append((identifier, now, str(chosen)))
        return [execute(identifier, str(chosen))]

    def last_words(self, message):
        """Requeue what was killed, once; then say that nothing more is registered."""
        killed = [
            event["data"]["job_id"]
            for event in message["events"]
            if event["type"] == "JOB_COMPLETED" and event["data"]["job_state"] == "COMPLETED_KILLED"
        ]
        decisions = []
        for identifier in killed:
            if "#" not in identifier and not self.finished and self.draw(st.booleans()):
                fields = {"res": 1, "profile": "p0"}
                self.waiting[f"{identifier}#1"] = fields
                decisions.append(register(f"{identifier}#1", **fields))
        if decisions and not self.running and not self.calls:
            self.calls += 1
            decisions.append(call(message["now"] + 1))
        if self.static_over and not self.waiting and not self.running and not self.finished:
            self.finished = True
            decisions.append(("NOTIFY", {"type": "registration_finished"}))
        return decisions


@settings(deadline=None, max_examples=examples(50))
@given(workloads(), st.data())
def test_any_valid_scheduler_sees_a_consistent_world(workload, data):
    scheduler = AnyScheduler(data)
    used = {job["profile"] for job in workload.jobs}
    if "p0" not in used:  # requeued jobs run on it
        workload.jobs.append(job("base", 0, 1, "p0"))
    outcome = simulate(workload, scheduler, platform=machines(N_MACHINES), settings=REUSE)

    assert scheduler.dates == sorted(scheduler.dates)  # dates never go back
    assert set(scheduler.final.values()) <= {1}  # each job ends once
    assert len(scheduler.final) == len(outcome.records) == outcome.simulation.jobs_total
    assert_no_machine_is_used_twice(outcome)
    assert_records_say_what_was_told(outcome, scheduler)


def assert_no_machine_is_used_twice(outcome: Outcome) -> None:
    used: dict[int, list[tuple[float, float]]] = {}
    for record in outcome.records:
        for machine in ProcSet.from_str(str(record.allocated_resources)) if record.allocated_resources else ():
            used.setdefault(machine, []).append((record.starting_time, record.finish_time))
    for spans in used.values():
        spans.sort()
        # A job of no time at all is written down as 0.00001 s long.
        assert all(end <= start + 2e-5 for (_, end), (start, _) in pairwise(spans))


def assert_records_say_what_was_told(outcome: Outcome, scheduler: AnyScheduler) -> None:
    starts = {identifier: (date, alloc) for identifier, date, alloc in scheduler.starts}
    for record in outcome.records:
        identifier = f"w0!{record.job_id}"
        end, state = scheduler.ends[identifier]
        assert record.final_state == state
        if state == "REJECTED":
            continue
        start, alloc = starts[identifier]
        assert record.allocated_resources == alloc
        assert abs(record.starting_time - start) < 1e-5
        assert abs(record.finish_time - end) < 2.1e-5
        assert record.waiting_time >= -1e-5 or "#" in identifier
        assert len(ProcSet.from_str(alloc)) == record.requested_number_of_resources
    if outcome.states:
        assert outcome.states[-1][1:] == (N_MACHINES, 0)
    assert all(idle + computing == N_MACHINES for _, idle, computing in outcome.states)
