"""What a scheduler hears of a simulation beside its events: a job's request, and whether it may submit jobs itself."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.model.states import try_name
from batfill.protocol.decisions import Register
from batfill.workloads.batsim5_json import EXTRA_FIELD, RESERVED
from batfill.workloads.batsim_json import (
    EXPECTED_FIELD,
    NO_WALLTIME,
    amounts_of,
    odd_fields,
    request_of,
    usable,
    user_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("batfill")
NOTHING: Mapping[str, float] = {}


class Request(NamedTuple):
    """A job's request, as a simulator submits it."""

    name: str
    submit_s: float  # r
    expected_s: float  # p~; inf if it has none
    walltime_s: float  # at which the simulator ends it, p~ or later; inf for never
    procs: int  # q
    profile: str  # the work it does, which only the simulator understands
    user: int = -1  # -1 if unknown
    job_class: str | None = None  # "small" or "large" if the workload states it
    killable: bool = True  # whether a try may be killed and the job requeued
    request_s: float = math.nan  # which learners see; nan if unknown
    extra: Any = None  # further data, which only the simulator and the user understand; a later try keeps them
    first: str | None = None  # of a later try: the name of the first one
    kills: int = 0  # of the job's tries before this one
    amounts: Mapping[str, float] = NOTHING  # what it states that it takes, by name, for pools

    def next_try(self) -> Request:
        first, kills = self.first or self.name, self.kills + 1
        return self._replace(name=try_name(first, kills), first=first, kills=kills)

    def registered(self) -> Register:
        job = {
            "profile": self.profile,
            "id": self.name,
            "res": self.procs,
            "walltime": NO_WALLTIME if self.walltime_s == math.inf else self.walltime_s,
            "subtime": self.submit_s,
        }
        return Register(self.name, job | ({EXTRA_FIELD: self.extra} if self.extra else {}))


class Registration(NamedTuple):
    """Whether and how a scheduler may submit jobs."""

    allowed: bool
    reuses_profiles: bool  # a later job may use the profile of one that has ended
    acknowledged: bool  # the simulator reports each such job as submitted
    workflows: tuple[str, ...] = ()  # workloads in which the simulator submits a job once those before it have ended


def job_request(name: str, fields: Mapping[str, Any], odd: set[str], extra: str | None = None) -> Request:
    """The request of a job of Batsim 4's form, with `extra` data of Batsim 5; adds unusable fields to `odd`."""
    user, amounts, request_s = -1, NOTHING, fields.get("walltime", NO_WALLTIME)
    walltime_s = request_s if request_s > 0 else math.inf
    if not RESERVED.issuperset(fields):  # the user has added some
        for field, what in odd_fields(fields):
            if field not in odd:
                odd.add(field)
                log.warning("job %s: %s; further such jobs are not named", name, what)
        fields = usable(fields) if odd else fields
        user, amounts, request_s = user_of(fields), amounts_of(fields), request_of(fields)
    expected_s = fields.get(EXPECTED_FIELD, NO_WALLTIME)
    return Request(
        name,
        fields["subtime"],
        expected_s if 0 < expected_s < walltime_s else walltime_s,
        walltime_s,
        fields["res"],
        fields["profile"],
        user,
        fields.get("class"),
        fields.get("killable") is not False,
        float(request_s) if request_s > 0 else math.nan,
        extra,
        amounts=amounts,
    )
