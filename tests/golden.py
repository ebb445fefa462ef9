"""Recorded runs of Batsim 4.2.0, their schedulers played back to a simulator, and what the simulator makes of it."""

from __future__ import annotations

import gzip
import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from batfill.batsim_files.results import JobRecord, ScheduleTotals
from batfill.simulator import simulation as core

SAME_DATE_S = 5e-7  # Batsim's dates have six decimals
FOLDER = Path(__file__).parent / "data" / "golden"
RUNS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


@dataclass(frozen=True)
class Recording:
    """One run: the files by name, and each message of Batsim's with the scheduler's reply, as they were on the wire."""

    name: str
    exchanges: list[tuple[bytes, bytes]]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def batsim_options(self) -> list[str]:
        return json.loads((self.folder / "run.json").read_text())["batsim_options"].split()

    @property
    def arguments(self) -> list[str]:
        """Batsim's command line for this run, without where the scheduler is and how results are called."""
        inputs = ["-p", str(self.folder / "platform.xml"), "-w", str(self.folder / "workload.json.gz")]
        return [*inputs, *self.batsim_options]

    def lines(self, result: str) -> list[str]:
        """The lines of one of Batsim's result files, such as jobs."""
        plain = self.folder / f"out_{result}.csv"
        if plain.exists():
            return plain.read_text().splitlines()
        return gzip.decompress(Path(f"{plain}.gz").read_bytes()).decode().splitlines()


@cache
def recording(name: str) -> Recording:
    with gzip.open(FOLDER / name / "messages.jsonl.gz", "rb") as lines:
        messages = [line.partition(b'"msg":')[2].rstrip()[:-1] for line in lines]
    return Recording(name, list(zip(messages[::2], messages[1::2], strict=True)))


def key(event: dict[str, Any]) -> tuple[Any, ...]:
    """What tells an event of Batsim's from others: date, type, and what it is about (a job with its state)."""
    data = event["data"]
    about = (data.get("job_id"), data.get("job_state"), tuple(data.get("job_ids", ())), data.get("type"))
    return event["timestamp"], event["type"], *about


class RecordedScheduler:
    """Decides what was decided, each time as soon as all is told that had been told then.

    So it does not matter whether events of one date arrive together or apart. `forgive` names jobs whose ends may
    differ from the recorded ones, because they would end by themselves at the very date they were killed: their kills
    are left out, and whatever end they come to stands for the recorded one.
    """

    def __init__(self, recorded: Recording, forgive: frozenset[str] = frozenset()) -> None:
        self.told: Counter[tuple[Any, ...]] = Counter()
        self.forgive = forgive
        self.left = [(self._needs(asked), orjson.loads(reply)["events"]) for asked, reply in recorded.exchanges]
        self.left.reverse()

    def _needs(self, message: bytes) -> Counter[tuple[Any, ...]]:
        return Counter(filter(None, map(self._key, orjson.loads(message)["events"])))

    def _key(self, event: dict[str, Any]) -> tuple[Any, ...] | None:
        data = event["data"]
        if data.get("job_id") in self.forgive and event["type"] == "JOB_COMPLETED":
            data = {**data, "job_state": "any"}
        if event["type"] == "JOB_KILLED":
            data = {"job_ids": [job for job in data["job_ids"] if job not in self.forgive]}
            if not data["job_ids"]:
                return None
        return key({**event, "data": data})

    def __call__(self, message: bytes) -> bytes:
        told = orjson.loads(message)
        self.told.update(filter(None, map(self._key, told["events"])))
        events: list[dict[str, Any]] = []
        while self.left and self.left[-1][0] <= self.told:
            needs, decisions = self.left.pop()
            self.told -= needs
            events += filter(None, map(self._forgiven, decisions))
        return orjson.dumps({"now": told["now"], "events": events})

    def _forgiven(self, decision: dict[str, Any]) -> dict[str, Any] | None:
        if decision["type"] != "KILL_JOB":
            return decision
        jobs = [job for job in decision["data"]["job_ids"] if job not in self.forgive]
        return {**decision, "data": {"job_ids": jobs}} if jobs else None


class Played:
    """One simulation of a recorded run's inputs, and what came out of it; `row` writes a job's line."""

    def __init__(
        self,
        kind: type[core.Simulation],
        platform: Any,
        workloads: Any,
        exchange: Callable[[bytes], bytes],
        row: Callable[[JobRecord], str],
        **settings: Any,
    ) -> None:
        self.rows: list[str] = []
        self.records: list[JobRecord] = []
        self.states: list[tuple[float, int, int]] = []
        self.told: list[bytes] = []
        self.totals = ScheduleTotals()

        def ended(record: JobRecord) -> None:
            self.rows.append(row(record).rstrip("\n"))
            self.records.append(record)
            self.totals.add(record)

        def exchanged(message: bytes) -> bytes:
            self.told.append(message)
            return exchange(message)

        self.simulation = kind(
            platform, workloads, exchanged, on_job_end=ended, on_machine_states=self.states.append, **settings
        )


class AsRecorded4(core.Simulation):
    """A simulation whose instants fall apart into messages, in the order within them, exactly as Batsim's did."""

    expected: Sequence[Sequence[Hashable]]  # the keys of the events of each message

    def next_batch(self) -> list[core.HeapEntry]:
        waiting = defaultdict(list)
        batch = super().next_batch()
        while batch and self._queue and self._queue[0][0] - batch[0][0] < SAME_DATE_S:
            batch += super().next_batch()
        for entry in batch:
            if entry[1] not in (core.DECISION, core.READY):
                waiting[self.entry_key(entry)].append(entry)
        taken = [entry for entry in batch if entry[1] == core.DECISION]
        taken = taken or [waiting[key].pop(0) for key in self.expected[self.messages_sent] if waiting[key]]
        taken = taken or [entry for entry in batch if entry[1] == core.READY]
        for entry in batch:
            if entry not in taken:
                heapq.heappush(self._queue, entry)
        return taken

    @staticmethod
    def entry_key(entry: core.HeapEntry) -> tuple[Any, ...]:
        """What `golden.key` says of the event that this entry of the queue will become."""
        date, kind, _, subject = entry
        date = round(date, 6)
        if kind == core.COMPLETION:
            return date, "JOB_COMPLETED", subject.id, subject.outcome()[1], (), None
        if kind == core.SUBMISSION:
            return date, "JOB_SUBMITTED", subject.id, None, (), None
        if kind == core.KILL:
            return date, "JOB_KILLED", None, None, tuple(job.id for job in subject), None
        if kind == core.NOTICE and subject[0] == "ANSWER":
            return date, "ANSWER", None, None, (), None
        if kind == core.NOTICE:
            return date, "NOTIFY", None, None, (), json.loads(subject[1])["type"]
        return date, "REQUESTED_CALL", None, None, (), None
