"""The known variants of EASY and its neighbours, each in the slowest obvious way: what a scheduler is compared with.

They share no code with the engine and read no clock: a variant is a `Rule`, which decides, and a `Grain`, which says
when. `Reference` speaks Batsim's protocol for one of them. The rules follow published descriptions; those of batsched
and pybatsim were completed until they gave every start that these programs gave under the real Batsim.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from batfill.base.words import duration
from batfill.batsim_files.machines import intervals_of, intervals_text, machine_set
from batfill_lab.conformance.cases import DEPTHS, THRESHOLDS_S, NoWalltime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Grain = Literal["message", "event", "instant"]
CALL_AFTER_S = 1 / 64  # the grain "instant" decides this long after an instant's first message
BATSCHED_MARGIN_S = 5.0  # batsched plans that a job holds its machines this long after its walltime


class Job(NamedTuple):
    """A job as its scheduler sees it."""

    name: str
    walltime_s: float  # inf: none
    procs: int
    submit_s: float = 0.0


class Occupant(NamedTuple):
    """A running job, or one that has a reservation."""

    job: Job
    start_s: float
    end_s: float  # expected
    machines: frozenset[int]


class Rule:
    """FCFS: jobs start in the order of the queue, lowest machines first; the first that does not fit waits."""

    def __init__(self, machines: Iterable[int]) -> None:
        self.machines = frozenset(machines)
        self.away: frozenset[int] = frozenset()
        self.queue: list[Job] = []
        self.running: dict[str, Occupant] = {}  # in the order of the starts
        self.started: list[Occupant] = []  # in this pass
        self.has_ended = False  # a job, since the last pass

    def submitted(self, job: Job) -> None:
        """Queue a job."""
        self.queue.append(job)

    def ended(self, name: str) -> None:
        """Release a job's machines."""
        del self.running[name]
        self.has_ended = True

    def decide(self, now_s: float) -> list[Occupant]:
        """The jobs that start now."""
        self.started = []
        self.decide_now(now_s)
        self.has_ended = False
        return self.started

    def decide_now(self, now_s: float) -> None:
        """Start jobs."""
        self.start_heads(now_s)

    def start_heads(self, now_s: float) -> None:
        """Start jobs from the head of the queue while they fit."""
        while self.queue and self.queue[0].procs <= len(self.idle()):
            self.start(self.queue[0], now_s)

    def start(self, job: Job, now_s: float, machines: Iterable[int] | None = None) -> None:
        """Start a job on the lowest of these machines, by default of the idle ones."""
        chosen = sorted(self.idle() if machines is None else machines)[: job.procs]
        self.queue.remove(job)
        self.running[job.name] = Occupant(job, now_s, now_s + job.walltime_s, frozenset(chosen))
        self.started.append(self.running[job.name])

    def idle(self) -> frozenset[int]:
        """The machines that are available and run no job."""
        return self.machines.difference(self.away, *(run.machines for run in self.running.values()))

    def releases(self) -> list[tuple[float, int]]:
        """(date, processors) of each expected end, in time order."""
        return sorted((run.end_s, len(run.machines - self.away)) for run in self.running.values())

    def head_can_start(self) -> bool:
        """Whether the head fits once every running job has ended; if not, it waits for machines that are away."""
        return self.queue[0].procs <= len(self.machines - self.away)


class Filler(Rule):
    """First fit: every job that fits starts, in the order of the queue; nothing is reserved."""

    def decide_now(self, now_s: float) -> None:
        """Start every job that fits."""
        for job in list(self.queue):
            if job.procs <= len(self.idle()):
                self.start(job, now_s)


class Sequencer(Rule):
    """One job at a time."""

    def decide_now(self, now_s: float) -> None:
        """Start the head if nothing runs."""
        if self.queue and not self.running:
            self.start(self.queue[0], now_s)


class Easy(Rule):
    """EASY that counts processors; the reservation is made in each pass."""

    all_ties = True  # whether every release at the shadow time counts, or only as many as the head needs
    extra = True  # whether a job may run past the shadow time on processors that the head leaves
    strict = False  # whether a backfilled job must end before the shadow time instead of by then

    def decide_now(self, now_s: float) -> None:
        """Start heads, then backfill."""
        self.start_heads(now_s)
        if not self.queue:
            return
        shadow_s, extra = self.reservation() if self.head_can_start() else (math.inf, 0)
        for job in self.queue[1:]:
            if job.procs > len(self.idle()):
                continue
            if ends_by(now_s + job.walltime_s, shadow_s, strict=self.strict):
                self.start(job, now_s)
            elif job.procs <= extra:
                extra -= job.procs
                self.start(job, now_s)

    def reservation(self) -> tuple[float, int]:
        """The head's shadow time, and the extra processors."""
        free, needed, shadow_s = len(self.idle()), self.queue[0].procs, math.inf
        for end_s, procs in self.releases():
            if free >= needed and not (self.all_ties and end_s == shadow_s):
                break
            free, shadow_s = free + procs, end_s
        return shadow_s, free - needed if self.extra else 0


class EasyFirst(Easy):
    """EASY that counts processors; of several releases at the shadow time only as many as the head needs count."""

    all_ties = False


class EasyStrict(Easy):
    """EASY that counts processors; a job that would end exactly at the shadow time is not backfilled."""

    strict = True


class EasyNoExtra(Easy):
    """EASY without extra processors: a backfilled job must end by the shadow time."""

    extra = False


class EasyKept(Easy):
    """EASY without extra processors that keeps the head's reservation until it starts, however early others end."""

    extra = False

    def __init__(self, machines: Iterable[int]) -> None:
        super().__init__(machines)
        self.kept: tuple[Job, tuple[float, int]] | None = None

    def submitted(self, job: Job) -> None:
        """Queue a job; one without a walltime counts as one of -1 s, as Batsim writes it."""
        super().submitted(job if job.walltime_s < math.inf else job._replace(walltime_s=-1.0))

    def reservation(self) -> tuple[float, int]:
        """The reservation that was made when the job became the head."""
        if self.kept is None or self.kept[0] != self.queue[0]:
            self.kept = self.queue[0], super().reservation()
        return self.kept[1]


class EasyWaiting(Easy):
    """EASY whose queue is in another order until a job has waited for longer than a threshold.

    Args:
        machines: the ids of all.
        key: of (a job, its waiting time in seconds); the lowest goes first.
        threshold_s: jobs that have waited for longer go before all others, in the order of their arrival.
    """

    def __init__(self, machines: Iterable[int], key: Callable[[Job, float], float], threshold_s: float) -> None:
        super().__init__(machines)
        self.key, self.threshold_s = key, threshold_s
        self.arrived: list[Job] = []

    def submitted(self, job: Job) -> None:
        """Queue a job."""
        super().submitted(job)
        self.arrived.append(job)

    def decide_now(self, now_s: float) -> None:
        """Sort the queue, then start heads and backfill."""

        def place(job: Job) -> tuple[bool, float]:
            wait_s = now_s - job.submit_s
            is_overdue = wait_s > self.threshold_s
            return not is_overdue, 0.0 if is_overdue else self.key(job, wait_s)

        self.arrived = [job for job in self.arrived if job in self.queue]
        self.queue = sorted(self.arrived, key=place)
        super().decide_now(now_s)


class EasyMachines(Rule):
    """EASY that reserves machines: the lowest ids that are expected free at the shadow time are the head's.

    A job is backfilled on the lowest idle machines; those of the reservation count only if it ends by the shadow time.
    """

    def decide_now(self, now_s: float) -> None:
        """Start heads, then backfill beside the reservation."""
        self.start_heads(now_s)
        if not self.queue:
            return
        shadow_s, reserved = self.reservation(now_s) if self.head_can_start() else (math.inf, self.machines)
        for job in self.queue[1:]:
            in_time = ends_by(now_s + job.walltime_s, shadow_s)
            usable = self.idle() if in_time else self.idle() - reserved
            if job.procs <= len(usable):
                self.start(job, now_s, usable)

    def reservation(self, now_s: float) -> tuple[float, frozenset[int]]:
        """The head's shadow time and machines."""
        procs = self.queue[0].procs
        free_at = dict.fromkeys(self.idle(), now_s)
        for run in self.running.values():
            free_at |= dict.fromkeys(run.machines - self.away, run.end_s)
        shadow_s = sorted(free_at.values())[procs - 1]
        return shadow_s, frozenset(sorted(machine for machine in free_at if free_at[machine] <= shadow_s)[:procs])


class Conservative(Rule):
    """Conservative backfilling: each job has a reservation of machines; each end lets every job move forward, in order.

    The job that moves sees the reservations of those behind it where they were.
    """

    margin_s = 0.0  # planned after each walltime
    rebuilds = False  # whether every reservation is dropped first, in each pass

    def __init__(self, machines: Iterable[int]) -> None:
        super().__init__(machines)
        self.reserved: dict[str, Occupant] = {}

    def decide_now(self, now_s: float) -> None:
        """Reserve, and start those whose reservation begins now."""
        if self.rebuilds:
            self.reserved.clear()
        for job in list(self.queue):
            if self.has_ended:
                self.reserved.pop(job.name, None)
            if job.procs > len(self.machines - self.away):
                continue
            if job.name not in self.reserved:
                self.reserved[job.name] = self.earliest(job, now_s)
            run = self.reserved[job.name]
            if run.start_s <= now_s and run.machines <= self.idle():
                del self.reserved[job.name]
                self.start(job, now_s, run.machines)

    def earliest(self, job: Job, now_s: float) -> Occupant:
        """The earliest time at which enough machines are free for as long as the job needs."""
        length_s = job.walltime_s + self.margin_s
        planned = [run._replace(end_s=run.end_s + self.margin_s) for run in self.running.values()]
        planned = [run._replace(end_s=max(run.end_s, math.nextafter(now_s, math.inf))) for run in planned]
        planned += self.reserved.values()
        for start_s in sorted({now_s, *(run.end_s for run in planned if run.end_s > now_s)}):
            end_s = start_s + length_s
            taken = (run.machines for run in planned if run.start_s < end_s and run.end_s > start_s)
            free = sorted(self.machines.difference(self.away, *taken))
            if len(free) >= job.procs:
                return Occupant(job, start_s, end_s, frozenset(free[: job.procs]))
        raise AssertionError("the last release frees the machine")


class ConservativeRebuilt(Conservative):
    """Conservative backfilling whose reservations are all made again in each pass, in the order of the queue."""

    rebuilds = True


class ConservativeMargin(Conservative):
    """Conservative backfilling that plans each job 5 s longer than its walltime."""

    margin_s = BATSCHED_MARGIN_S


class Planned(Rule):
    """Conservative backfilling that counts processors: each job has a reservation, made again in each pass."""

    depth = math.inf  # how many jobs that wait have one; the others start only where they delay none of these

    def decide_now(self, now_s: float) -> None:
        """Reserve, and start those whose reservation begins now."""
        after_s = math.nextafter(now_s, math.inf)
        planned = [(now_s, max(run.end_s, after_s), len(run.machines - self.away)) for run in self.running.values()]
        reserved = 0
        for job in list(self.queue):
            start_s = self.earliest(job, now_s, planned)
            if start_s == now_s:
                self.start(job, now_s)
            elif reserved < self.depth and start_s < math.inf:
                reserved += 1
            else:
                continue
            planned.append((start_s, start_s + job.walltime_s, job.procs))

    def earliest(self, job: Job, now_s: float, planned: list[tuple[float, float, int]]) -> float:
        """The earliest time at which enough processors are free for as long as the job needs; inf if there is none."""
        for start_s in sorted({now_s, *(end_s for _, end_s, _ in planned)}):
            end_s = start_s + job.walltime_s
            dates_s = [start_s, *(begin_s for begin_s, _, _ in planned if start_s < begin_s < end_s)]
            taken = [sum(procs for begin_s, end_s, procs in planned if begin_s <= at_s < end_s) for at_s in dates_s]
            if max(taken) + job.procs <= len(self.machines - self.away):
                return start_s
        return math.inf


def planned(depth: int) -> type[Planned]:
    """The rule by which so many jobs have a reservation."""
    sentence = f"As depth-all, but of the jobs that wait only the first {depth} have a reservation."
    return type(f"Planned{depth}", (Planned,), {"depth": depth, "__doc__": sentence})


class IdleRange:
    """A range of idle machines, as `Contiguous` keeps it."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.from_below = True  # from which end machines are taken
        self.limit_s = math.inf  # the longest walltime that may use it
        self.twin: IdleRange | None = None  # a space that shares machines with this one

    @property
    def size(self) -> int:
        """The number of machines; 0 or less once they are used."""
        return self.last - self.first + 1

    def take(self, procs: int) -> tuple[int, int]:
        """The first and last of `procs` machines, which also leave the twin."""
        twin = self.twin
        if self.from_below:
            taken = self.first, self.first + procs - 1
            self.first += procs
            if twin:
                twin.first = max(twin.first, self.first)
        else:
            taken = self.last - procs + 1, self.last
            self.last -= procs
            if twin:
                twin.last = min(twin.last, self.last)
        return taken


class Contiguous(Rule):
    """EASY on contiguous machines: a range of ids for each job, the first that is wide enough.

    A range is used from below, unless a job on the machines above it ended last: then from above. The head reserves a
    range that one release makes wide enough; a backfilled job that would run past the shadow time avoids the idle
    ranges at the two edges of the reservation, but not those inside it.
    """

    def __init__(self, machines: Iterable[int]) -> None:
        super().__init__(machines)
        self.spaces = [IdleRange(min(self.machines), max(self.machines))]

    def ended(self, name: str) -> None:
        """Release a job's machines."""
        ended = self.running[name].machines
        super().ended(name)
        release(self.spaces, min(ended), max(ended))

    def decide_now(self, now_s: float) -> None:
        """Start heads, then backfill around the reservation."""
        while self.queue and self.place(self.queue[0], now_s):
            pass
        if len(self.queue) < 2:
            return
        shadow_s, first, last = self.reservation()
        edges, virtual = self.limit(first, last, shadow_s - now_s)
        for job in self.queue[1:]:
            self.place(job, now_s)
        self.spaces = [space for space in self.spaces if space not in virtual]
        for space in edges:
            space.from_below, space.limit_s, space.twin = True, math.inf, None

    def place(self, job: Job, now_s: float) -> bool:
        """Start the job on the first range that it may use; returns whether there is one."""
        for space in self.spaces:
            if job.procs <= space.size and job.walltime_s <= space.limit_s:
                first, last = space.take(job.procs)
                self.spaces = [space for space in self.spaces if space.size > 0]
                self.start(job, now_s, range(first, last + 1))
                return True
        return False

    def reservation(self) -> tuple[float, int, int]:
        """The head's shadow time, and the first and last machine of its range."""
        spaces = []
        for space in self.spaces:
            spaces.append(IdleRange(space.first, space.last))
            spaces[-1].from_below = space.from_below
        for run in sorted(self.running.values(), key=lambda run: run.end_s):
            space = release(spaces, min(run.machines), max(run.machines))
            if self.queue[0].procs <= space.size:
                return run.end_s, *space.take(self.queue[0].procs)
        raise AssertionError("the last release frees the machine")

    def limit(self, first: int, last: int, limit_s: float) -> tuple[list[IdleRange], list[IdleRange]]:
        """Limit the walltimes on the ranges at the reservation's edges; returns them, and twins without limit."""
        edges, virtual = [], []
        for space in list(self.spaces):
            low, high = space.first < first <= space.last, space.first <= last < space.last
            if low or high or space.first == first or space.last == last:
                edges.append(space)
                space.limit_s = limit_s
            if low or high:
                free = IdleRange(space.first, first - 1) if low else IdleRange(last + 1, space.last)
                free.from_below, space.from_below = low, not low
                free.twin, space.twin = space, free
                virtual.append(free)
                self.spaces.insert(self.spaces.index(space) + 1, free)
        return edges, virtual


def release(spaces: list[IdleRange], first: int, last: int) -> IdleRange:
    """Add idle machines to the ranges; returns the range that holds them."""
    left = next((space for space in spaces if space.last == first - 1), None)
    right = next((space for space in spaces if space.first == last + 1), None)
    if left and right:
        left.last = right.last
        spaces.remove(right)
        return left
    if left:
        left.last, left.from_below = last, False
        return left
    if right:
        right.first, right.from_below = first, True
        return right
    space = IdleRange(first, last)
    spaces.insert(sum(other.first < first for other in spaces), space)
    return space


def ends_by(end_s: float, shadow_s: float, *, strict: bool = False) -> bool:
    """Whether a job that is expected to end then is out of the head's way; one without walltime never is."""
    return end_s < math.inf and (end_s < shadow_s if strict else end_s <= shadow_s)


class Variant(NamedTuple):
    """A rule that is known under a name."""

    name: str
    rule: Callable[[Iterable[int]], Rule]
    known_as: str  # who decides so
    grains: tuple[Grain, ...] = ("message",)  # when it may decide, the usual way first

    @property
    def sentence(self) -> str:
        """What it does, in a line."""
        return (self.rule.__doc__ or "").partition("\n")[0].removesuffix(".")


ANY_GRAIN: tuple[Grain, ...] = ("message", "event", "instant")
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("easy", Easy, "batfill; most published descriptions", ANY_GRAIN),
        Variant("easy-first", EasyFirst, "ocst, by its description", ANY_GRAIN),
        Variant("easy-strict", EasyStrict, "simulators that compare with <", ANY_GRAIN),
        Variant("easy-no-extra", EasyNoExtra, "simplified descriptions", ANY_GRAIN),
        Variant("easy-kept", EasyKept, "batsched's easy_bf_fast; batfill with `reservation` kept", ANY_GRAIN),
        Variant("easy-machines", EasyMachines, "batsched's easy_bf; batfill with `reservation` machines", ANY_GRAIN),
        Variant("easy-contiguous", Contiguous, "pybatsim's easyBackfill", ("event", "message")),
        *(
            Variant(f"depth-{depth}", planned(depth), f"batfill with `depth` {depth}", ("message", "event"))
            for depth in DEPTHS
        ),
        Variant("depth-all", Planned, "the usual description; batfill with `depth` all", ("message", "event")),
        Variant(
            "conservative",
            Conservative,
            "batsched's conservative_bf with -d 0; LANL's; batfill with `plan` kept",
            ("message", "event"),
        ),
        Variant(
            "conservative-rebuilt", ConservativeRebuilt, "the usual description, on machines", ("message", "event")
        ),
        Variant(
            "conservative-margin",
            ConservativeMargin,
            "batsched's conservative_bf; batfill with `plan` kept:5",
            ("message", "event"),
        ),
        Variant("fcfs", Rule, "batsched's fcfs and fcfs_fast"),
        Variant("filler", Filler, "batsched's filler; batfill with `depth` 0", ANY_GRAIN),
        Variant("sequencer", Sequencer, "batsched's sequencer"),
    )
}


# The habits of waiting: orders until a threshold, and orders in which jobs age.
UNTIL_THEN: dict[str, Callable[[Job, float], float]] = {
    "the shortest": lambda job, wait_s: job.walltime_s,
    "the smallest area": lambda job, wait_s: job.walltime_s * job.procs,
    "the narrowest": lambda job, wait_s: job.procs,
}
AGEING: dict[str, Callable[[Job, float], float]] = {
    "wfp3": lambda job, wait_s: -((wait_s / job.walltime_s) ** 3) * job.procs,
    "wait / walltime": lambda job, wait_s: -wait_s / job.walltime_s,
}


# EASY under every habit of waiting that is looked for.
WAITING_VARIANTS = (
    *(
        Variant(
            f"easy with a threshold near {duration(threshold_s)}",
            partial(EasyWaiting, key=key, threshold_s=threshold_s),
            f"jobs that have waited for longer go first; until then {words}",
        )
        for words, key in UNTIL_THEN.items()
        for threshold_s in THRESHOLDS_S
    ),
    *(
        Variant("easy with ageing", partial(EasyWaiting, key=key, threshold_s=math.inf), f"the order is {words}")
        for words, key in AGEING.items()
    ),
)


class Reference:
    """A scheduler by one of the variants: turns Batsim's messages into replies.

    Args:
        variant: one of VARIANTS, or its name.
        grain: decide after each message, after each event, or once the instant is over; by default the variant's.
        no_walltime: what a job without walltime does: it is never expected to end; it is rejected; or it is expected
            to end at once, and may always be backfilled.
    """

    def __init__(self, variant: str | Variant, grain: Grain | None = None, no_walltime: NoWalltime = "waits") -> None:
        self.variant = VARIANTS[variant] if isinstance(variant, str) else variant
        self.grain = grain or self.variant.grains[0]
        self.no_walltime = no_walltime
        self.rule: Rule
        self.instant_s: float | None = None  # of which the grain "instant" awaits the end
        self.registers = False
        self.decisions: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, message: bytes) -> bytes:
        """The reply."""
        received = orjson.loads(message)
        now_s = float(received["now"])
        self.decisions = []
        heard = [self.take(event["type"], event["data"], now_s) for event in received["events"]]
        if self.grain == "message" and any(heard):
            self.decide(now_s)
        events = [{"timestamp": now_s, "type": kind, "data": data} for kind, data in self.decisions]
        return orjson.dumps({"now": now_s, "events": events})

    def take(self, kind: str, data: dict[str, Any], now_s: float) -> bool:
        """Handle an event; returns whether it can change what starts."""
        if kind == "SIMULATION_BEGINS":
            self.rule = self.variant.rule(machine["id"] for machine in data["compute_resources"])
            self.registers = data["config"]["dynamic-jobs-enabled"]
            return False
        if kind == "REQUESTED_CALL":
            assert self.instant_s is not None
            self.decide(self.instant_s)
            self.instant_s = None
            return False
        if kind == "JOB_SUBMITTED":
            self.submitted(data["job_id"], data["job"], now_s)
        elif kind == "JOB_COMPLETED":
            self.rule.ended(data["job_id"])
        elif kind == "NOTIFY":
            self.notified(data)
        else:
            return False
        if self.grain == "event":
            self.decide(now_s)
        elif self.grain == "instant" and self.instant_s is None:
            self.instant_s = now_s
            self.decisions.append(("CALL_ME_LATER", {"timestamp": now_s + CALL_AFTER_S}))
        return True

    def submitted(self, name: str, fields: dict[str, Any], now_s: float) -> None:
        """Queue or reject a job."""
        walltime_s = fields.get("walltime", -1)
        if walltime_s <= 0:
            walltime_s = 0.0 if self.no_walltime == "counts as short" else math.inf
        rejected = walltime_s == math.inf and self.no_walltime == "is rejected"
        if rejected or fields["res"] > len(self.rule.machines):
            self.decisions.append(("REJECT_JOB", {"job_id": name}))
        else:
            self.rule.submitted(Job(name, walltime_s, fields["res"], now_s))

    def notified(self, data: dict[str, Any]) -> None:
        """Note which machines are away; submit nothing once the workload has no more jobs."""
        if data["type"] == "no_more_static_job_to_submit" and self.registers:
            self.decisions.append(("NOTIFY", {"type": "registration_finished"}))
        elif data["type"].startswith("event_machine_"):
            machines = frozenset(machine_set(data["resources"], max(self.rule.machines) + 1).ids().tolist())
            away = self.rule.away
            self.rule.away = away - machines if data["type"].endswith("_available") else away | machines

    def decide(self, now_s: float) -> None:
        """Start jobs."""
        for run in self.rule.decide(now_s):
            alloc = intervals_text(intervals_of(sorted(run.machines)))
            self.decisions.append(("EXECUTE_JOB", {"job_id": run.job.name, "alloc": alloc}))


CANDIDATES = tuple((name, grain) for name, variant in VARIANTS.items() for grain in variant.grains)
