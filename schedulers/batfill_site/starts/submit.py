"""Jobs that are asked about before they are submitted, such as nodes=4,time=2h,partition=gpu."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from batfill.base.errors import BatfillError, WorkloadError, nearest
from batfill.model.values import UNITS_S
from batfill_site.starts.site_state import request_of

Asked = str | Mapping[str, Any]
Check = Callable[[str, str], Any]  # of where a value stands, and its text
AT_ONCE = "it would start at once"
SAME = {"processors": "procs", "cpus": "procs", "walltime": "time", "request": "time"}


def questions(submit: Asked | Iterable[Asked], known: Mapping[str, Check], *needed: str) -> list[tuple[str, Any]]:
    """The text of each job asked about, and its values by those of `known`."""
    several, found = isinstance(submit, Iterable) and not isinstance(submit, str | Mapping), list[tuple[str, Any]]()
    for one in submit if several else [submit]:
        text = ",".join(f"{name}={value}" for name, value in one.items()) if isinstance(one, Mapping) else str(one)
        where, values = f"option submit: {text!r:.80}", dict[str, Any]()
        for key, _, value in (pair.partition("=") for pair in re.split(",(?=[^,=]*=)", text)):
            name = key.strip().replace("_", "-")
            name = SAME.get(name, name)
            if name not in known or name in values:
                what = "is given twice" if name in values else f"is unknown{nearest(name, known)}"
                raise BatfillError(
                    f"{where}: {key.strip()!r} {what}; a job has {', '.join(known)}, as procs=64,time=2h"
                )
            values[name] = known[name](f"{where}: it", value.strip())
        if missing := [name for name in needed if name not in values]:
            raise BatfillError(f"{where}: it has no {missing[0]}; give it, as procs=64,time=2h")
        found.append((text, values))
    if not found:
        raise BatfillError("option submit: it names no job; give one, as procs=64,time=2h")
    return found


def time_of(where: str, text: str) -> float:
    found = re.fullmatch(r"[\d.].*?([a-z]*)", text, re.IGNORECASE)
    wrong = f", where {found[1]!r} is no unit" if found and found[1].lower() not in UNITS_S else ""
    if re.fullmatch(r"[0-9.]+(e\+?[0-9]+)?", text):  # minutes for Slurm, seconds elsewhere
        wrong = " without a unit"
    with suppress(WorkloadError):
        if not wrong and (math.isfinite(request_s := request_of(where, text)) or text.upper() == "UNLIMITED"):
            return request_s
    raise BatfillError(f"{where} requests {text!r:.60}{wrong}; give 30min, 2h, 2:00:00, 1-0, or UNLIMITED")


def of_form(form: str, example: str, names: Iterable[str] = ()) -> Check:
    """A check that a text has this form, and names, with commas, some of these if they are known."""
    known = list(names)

    def check(where: str, text: str) -> str:
        if not re.fullmatch(form, text):
            raise BatfillError(f"{where} has {text!r:.60}; give it as {example}")
        for name in text.split(",") if known else ():
            if name not in known:
                raise BatfillError(f"{where} has {name!r:.60}{nearest(name, known)}; known: {', '.join(known)}")
        return text

    return check


def said_of(lone: Iterable[str]) -> str:
    """What is assumed of these jobs, whose user is new, or not given."""
    texts = " and ".join(lone)
    return f"a user who has no jobs here, for {texts}" if texts else ""
