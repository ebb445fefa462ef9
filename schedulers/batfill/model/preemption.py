"""Which jobs are urgent, and what a job keeps that is stopped for one.

>>> Urgent.of("urgent", "share:5%").name
'share:5%,seed=0'
>>> Checkpoint.of("checkpoint", "1h,cost=30s").name
'3600,cost=30'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.values import MOST_S, as_word, number_or_text, seconds_of, seed_of, width_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs

STATES = re.compile(r"([A-Za-z_][\w./-]{0,39})=(\d{1,15}(?:\+\d{1,15})*)", re.ASCII)
SHARE = re.compile(r"share:([^,]+)(?:,\s*seed=([^,]+))?")
COSTS = re.compile(r"([^,]+)(?:,\s*cost=([^,]+))?")
OF_LOGS = ("queue", "group", "partition", "executable")  # columns of archive logs, beside the user
FORM = (
    "give FIELD=NUMBER, as queue=3 or user=7+8; list:FILE, with the id of an urgent job on each line; or share:5%, "
    "with ,seed=1 behind it"
)


def bare(job: str) -> str:
    """A job's id without Batsim's name of its workload, and without leading zeros; 0 stays."""
    job = job.rpartition("!")[2]
    return job.lstrip("0") or job[:1]


@dataclass(frozen=True, slots=True)
class Urgent:
    """Which jobs are urgent: those of a list, those with certain numbers in a field, or a share of all."""

    name: str
    ids: frozenset[str] = frozenset()  # without leading zeros
    digest: str = ""  # sha256 of the file with the list
    field: str = ""
    values: frozenset[float] = frozenset()
    share: float = 0.0  # drawn job by job, from its id and the seed
    seed: int = 0

    @classmethod
    def of(cls, option: str, value: Any) -> Urgent:
        if isinstance(value, Urgent):
            return value
        text = value.strip() if isinstance(value, str) else ""
        if found := STATES.fullmatch(text):
            return cls(text, field=found[1], values=frozenset(map(float, found[2].split("+"))))
        if found := SHARE.fullmatch(text):
            share, seed = width_of(option, found[1]), seed_of(option, number_or_text(found[2] or 0))
            return cls(f"share:{share * 100:.12g}%,seed={seed}", share=share, seed=seed)
        if not text.startswith("list:") or text == "list:":
            raise BatfillError(f"option {option}: {value!r:.60} names no jobs; {FORM}")
        try:
            read = Path(text.removeprefix("list:")).read_bytes()
            ids = frozenset(bare(line.strip()) for line in read.decode().splitlines()) - {""}
        except (OSError, ValueError) as error:
            raise BatfillError(f"option {option}: {text}: {getattr(error, 'strerror', None) or error}") from None
        if not ids:
            raise BatfillError(f"option {option}: {text}: has no job; write an id on each line")
        return cls(text, ids, sha256(read).hexdigest())

    @property
    def unused(self) -> str:
        return f"no job has {self.name}; {FORM}"

    def holds(self, job: str, user: int, amounts: Mapping[str, float]) -> bool:
        """Whether the job of this id, user and amounts is urgent; leading zeros of ids do not matter."""
        job = bare(job)
        if self.share:
            drawn = int.from_bytes(blake2b(f"{self.seed}:{job}".encode(), digest_size=8).digest())
            return drawn < self.share * 2**64
        return job in self.ids or (user if self.field == "user" else amounts.get(self.field)) in self.values

    def rows(self, jobs: Jobs, source: str) -> NDArray[np.bool_]:
        """Whether each job is urgent, (n_jobs,)."""
        if jobs.urgent is not None:
            return jobs.urgent
        if self.field:
            urgent = np.isin(self.stated(jobs), list(self.values))
        else:
            urgent = np.array([self.holds(job, -1, {}) for job in jobs.ids.tolist()], bool)
        if missing := self.ids - {bare(job) for job in jobs.ids[urgent].tolist()}:
            raise BatfillError(f"{source}: option urgent: {self.name} has {min(missing)}, which is no job; remove it")
        if not (urgent.any() or self.share):
            raise BatfillError(f"{source}: option urgent: {self.unused}")
        return urgent

    def stated(self, jobs: Jobs) -> NDArray[Any]:
        """What the jobs have in the field, (n_jobs,); -1 for nothing."""
        if self.field == "user":
            return jobs.user
        if jobs.amounts is not None and self.field in (jobs.amounts.dtype.names or ()):
            found: NDArray[Any] = jobs.amounts[self.field]
            return found
        return np.full(len(jobs), -1)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """When the work of a running job is kept, and for how long it then pauses."""

    every_s: float  # of its own work
    cost_s: float = 0.0

    @property
    def name(self) -> str:
        return as_word(self.every_s) + (f",cost={as_word(self.cost_s)}" if self.cost_s else "")

    @classmethod
    def of(cls, option: str, value: Any) -> Checkpoint:
        if isinstance(value, Checkpoint):
            return value
        found = COSTS.fullmatch(str(value))
        if found is None:
            raise BatfillError(f"option {option}: {value!r:.60} is no duration; give 1h, or 1h,cost=30s")
        every_s = seconds_of(option, found[1], least=1e-3, most=MOST_S, or_else=", with ,cost=30s behind it")
        return cls(every_s, seconds_of(f"{option}: cost", found[2] or 0, most=every_s))

    def lengthened(self, work_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """How long jobs run with so much work, (n_jobs,): none pauses at its end."""
        pauses: NDArray[np.float64] = np.maximum(np.ceil(work_s / self.every_s) - 1, 0)
        return work_s + self.cost_s * pauses
