"""The campaign file: workloads x resamplings x windows x choices of options, checked on reading."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from batfill.base.documents import Document, KeyPath, read_document
from batfill.base.errors import BatfillError
from batfill.model.jobs import Overrun, Unrequested
from batfill.model.kinds import SAME
from batfill.model.metrics import TAU_S
from batfill.model.options import FOREST, OPTIONS, REQUEST, SMALLS, with_preset
from batfill.model.values import MOST_SAMPLES
from batfill.workloads.times import MOST_WEEKS, Align, Boundary, ProfileWeeks, ResamplingMethod
from batfill_lab.campaigns.sections import (
    Count,
    Seconds,
    Section,
    Seed,
    Tau,
    Text,
    checked_choice,
    keys_of,
    mistake_at,
)
from batfill_lab.studied import STUDIED, studied

if TYPE_CHECKING:
    from pathlib import Path


LISTED = ("preset", "policy", "backfill", "depth", "calendar", "threshold")  # with a list of their own
LEARNING = (*(name for name in OPTIONS if name not in LISTED), *STUDIED)


class CampaignError(BatfillError):
    """A campaign file or its folder is unusable."""


class WorkloadSection(Section):
    """A workload file, relative to the campaign's, and how to read it."""

    file: Text
    procs: Count | None = None  # the machine's; None for the file's
    overrun: Overrun | None = None  # None for keep, or what a Batsim workload was made with
    unrequested: Annotated[Unrequested, BeforeValidator(checked_choice)] | None = None  # None for the log's default
    calendar: Text | None = None  # windows in which processors are unavailable


class Windows(Section):
    """The windows each log is cut into, each run from an empty machine; see `times.windows` and `select`."""

    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["month"] = 7.0
    align: Align = "log"
    boundary: Boundary = "submitted"
    skip: Annotated[int, Field(ge=0)] = 0
    count: Count | None = None
    min_jobs: Count = 1


class Resamplings(Section):
    """Resampled logs that replace each log: `samples` for every seed; see `times.resample`."""

    samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] = 1
    method: ResamplingMethod = "users"
    weeks: Annotated[int, Field(ge=1, le=MOST_WEEKS)] | None = None
    profile_weeks: ProfileWeeks = "all"


class ClusterSection(Section):
    """A cluster whose batch system starts the workers, `jobs` jobs of `cores` one-core workers each."""

    type: Literal["slurm", "oar"]
    jobs: Count
    cores: Count
    memory: Annotated[str, Field(pattern=r"^\d+(\.\d+)? ?[kKMGTP]i?B$")]  # of one job, such as "8GB"
    walltime: Text = "01:00:00"
    queue: Text | None = None
    project: Text | None = None  # Slurm's account
    interface: Text | None = None  # the network between the nodes
    directives: list[Text] = Field(default=[])  # further options of the batch system, such as "--exclusive"
    prologue: list[Text] = Field(default=[])  # shell commands before a worker starts


class Campaign(Section):
    """All runs: every combination of the lists."""

    workloads: Annotated[list[WorkloadSection], Field(min_length=1)]
    policies: Annotated[list[Text], Field(min_length=1)]
    presets: list[Text] = Field(default=[], min_length=1)  # replayed as they are, beside the combinations
    backfills: list[Text] = Field(default=[SAME], min_length=1)
    depths: list[int | Text | None] = Field(default=[None], min_length=1)  # None: the default
    thresholds: list[Seconds | None] = Field(default=[None], min_length=1)
    knowledge: list[Text | dict[str, Any]] = Field(default=[REQUEST], min_length=1)
    windows: Windows | None = None
    resamplings: Resamplings | None = None
    seeds: list[Seed] = Field(default=[0], min_length=1)
    tau: Tau = TAU_S
    per_job: bool = False
    cluster: ClusterSection | None = None

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The scheduler's options of every combination, for `studied`, without a seed."""
        return [
            {"policy": policy, "backfill": backfill, **reserving(depth), "threshold": threshold} | learning(knowledge)
            for policy in self.policies
            for backfill in self.backfills
            for depth in self.depths
            for threshold in self.thresholds
            for knowledge in self.knowledge
        ] + [whole(preset) for preset in self.presets]


class ReadCampaign(NamedTuple):
    """A campaign, its file, and the sha256 of the file (hexadecimal)."""

    campaign: Campaign
    path: Path
    digest: str
    text: str


def read_campaign(path: Path) -> ReadCampaign:
    document = read_document(path, "a campaign; it needs at least `workloads:` and `policies:`", CampaignError)
    try:
        campaign = Campaign.model_validate(document.value)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise CampaignError(mistake_at(path, document, wrong["loc"], wrong, keys_around(wrong["loc"]))) from None
    check_options(path, document, campaign)
    return ReadCampaign(campaign, path, hashlib.sha256(document.stored).hexdigest(), document.stored.decode())


def keys_around(place: KeyPath) -> list[str]:
    sections: dict[int | str, type[Section]] = {
        "workloads": WorkloadSection,
        "windows": Windows,
        "resamplings": Resamplings,
        "cluster": ClusterSection,
    }
    return keys_of(sections.get(place[0], Campaign) if len(place) > 1 else Campaign)


def check_options(path: Path, document: Document, campaign: Campaign) -> None:
    """Refuse options the scheduler would refuse, lists that repeat a value, and seeds without effect."""
    lists: dict[str, list[dict[str, Any]]] = {
        "policies": [{"policy": policy} for policy in campaign.policies],
        "presets": [{"preset": preset} for preset in campaign.presets],
        "backfills": [{"backfill": backfill} for backfill in campaign.backfills],
        "depths": [{"depth": depth} for depth in campaign.depths],
        "thresholds": [{"threshold": threshold} for threshold in campaign.thresholds],
        "knowledge": [learning(knowledge) for knowledge in campaign.knowledge],
        "seeds": [{} for _ in campaign.seeds],
        "workloads": [{} for _ in campaign.workloads],
    }
    for key, each in lists.items():
        values = getattr(campaign, key)
        for i, given in enumerate(each):
            at = f"{path}:{document.line((key, i))}"
            try:
                for threshold in campaign.thresholds if key == "knowledge" else [None]:  # which overdue jobs go first
                    studied({"threshold": threshold, **given}).require_libraries()
                for order in lists["backfills"] if key == "depths" else []:
                    studied({**order, **given})  # an order of its own begins behind the last reservation
            except BatfillError as error:
                raise CampaignError(f"{at}: {error.on_command_line}") from None
            if values[i] in values[:i]:
                raise CampaignError(f"{at}: {key} has {document.value[key][i]!r} twice; keep one of them")
    for i, given in enumerate(lists["knowledge"]):
        check_knowledge(path, document, i, given)
    random = campaign.resamplings or any(seeded(given) for given in lists["knowledge"])
    if ("seeds",) in document.lines and not random:
        raise CampaignError(
            f"{path}:{document.line(('seeds',))}: nothing here is random; leave seeds out, or add resamplings"
        )


def check_knowledge(path: Path, document: Document, i: int, given: dict[str, Any]) -> None:
    for name in given:
        line = document.line(("knowledge", i, name))
        if name not in LEARNING:
            known = ", ".join(LEARNING)
            raise CampaignError(f"{path}:{line}: {name} is not an option of knowledge; those are {known}")
        if name == "seed":
            raise CampaignError(f"{path}:{line}: a campaign's seeds are a separate list; write `seeds:`")


def learning(knowledge: str | dict[str, Any]) -> dict[str, Any]:
    """The options that an entry of `knowledge:` stands for: none for the user's requested times."""
    if not isinstance(knowledge, str):
        return knowledge
    return {} if knowledge == REQUEST else {"small" if knowledge in SMALLS else "predict": knowledge}


def reserving(depth: int | str | None) -> dict[str, Any]:
    return {} if depth is None else {"depth": depth}


def whole(preset: str) -> dict[str, Any]:
    usual = {name: OPTIONS[name].default for name in ("policy", "backfill", "threshold")}
    return usual | with_preset({"preset": preset})


def seeded(given: dict[str, Any]) -> bool:
    return given.get("small") == FOREST
