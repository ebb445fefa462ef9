"""Reads Slurm's jobs from `sacct -P` output piece by piece, with columns found by name.

Source: the sacct manual. docs/how-to/import.md has the command; with -D it gives the tries of requeued jobs, too.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, islice, pairwise, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import LARGEST, WorkloadError
from batfill.base.files import any_length
from batfill.model.values import MEMORY
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED
from batfill_site.accounting.cluster_log import (
    HAD_GPUS,
    NOT_ENDED,
    ODD_STATE,
    REVOKED,
    TWICE,
    TYPES,
    Jobs,
    Reading,
    Takes,
    require_known,
)
from batfill_site.accounting.record_text import LAST_S, ODD, Names, clock_time, each, limit_of, read_times, zone_of

NEEDED = ("JobID", "Submit", "Start", "End", "State", "AllocCPUS")
# The columns that `sacct` knows for ours; the first that a file has is read.
AS_NAMED = (
    *("Submit", "Eligible", "Start", "End", "State", "JobName", "Partition", "Cluster", "Account", "ReqTRES", "ReqMem"),
    *("Suspended", "Reservation", "SubmitLine", "Reason"),
)
COLUMNS = {name: (name,) for name in AS_NAMED} | {
    "JobID": ("JobID", "JobIDRaw"),
    "AllocCPUS": ("AllocCPUS", "NCPUS", "AllocTRES"),
    "ReqCPUS": ("ReqCPUS", "ReqTRES"),
    "Timelimit": ("TimelimitRaw", "Timelimit"),
    "User": ("User", "UID"),
    "QOS": ("QOS", "QOSRAW"),
    "Group": ("Group", "GID"),
    "TRES": ("AllocTRES", "ReqTRES"),
    "NNodes": ("NNodes", "AllocNodes"),
    "Energy": ("ConsumedEnergyRaw",),
    "Elapsed": ("ElapsedRaw", "Elapsed"),
}
# What a replay knows nothing of: the column, and the texts that say that a job had it.
BESIDE = {
    HAD_GPUS: ("TRES", "gres/gpu[^=,]*=0*[1-9]"),
    "were suspended": ("Suspended", "[1-9]"),
    "ran in a reservation": ("Reservation", "[^ ]"),
    # known without Eligible, see `Table.beside`
    "were submitted with a dependency or a begin date": ("SubmitLine", r"\s(--dependency|--begin|-d|-b)\b"),
    "waited for a dependency, a begin date or a hold": ("Reason", "^(Dependency|BeginTime|JobHeld)"),
}
PAUSED = "have an Elapsed below End - Start (suspended, or gang scheduled)"
OF_HELD = ("SubmitLine", "Reason")
COUNTED = ("AllocCPUS", "ReqCPUS", "NNodes", "ReqNodes")
BARE = ("User", "Group", "Account", "QOS", "Partition", "Cluster", "Reservation", "ReqMem", "NodeList")  # without bars
TIMES = {"submit_s": "Submit", "eligible_s": "Eligible", "start_s": "Start", "end_s": "End"}
TITLED = TIMES | {"procs": "AllocCPUS", "requested_procs": "ReqCPUS", "requested_s": "Timelimit"}
TEXTS = {"User": "user", "JobName": "executable", "QOS": "queue", "Partition": "partition"}
# What each state means here, with its abbreviation; some are squeue's only, as LAUNCH_FAILED and COMPLETING.
MEANINGS = {
    COMPLETED: "COMPLETED=CD",
    CANCELLED: "CANCELLED=CA",
    FAILED: "FAILED=F TIMEOUT=TO NODE_FAIL=NF OUT_OF_MEMORY=OOM BOOT_FAIL=BF DEADLINE=DL PREEMPTED=PR REQUEUED=RQ "
    "LAUNCH_FAILED=LF",
    REVOKED: "REVOKED=RV",
    NOT_ENDED: "PENDING=PD RUNNING=R RESIZING=RS SUSPENDED=S COMPLETING=CG CONFIGURING=CF SIGNALING=SI "
    "SPECIAL_EXIT=SE STAGE_OUT=SO STOPPED=ST",
}
STATUSES = {word: status for status, words in MEANINGS.items() for word in re.split("[ =]", words)}
SAME_PARTS = ("key", "cluster", "user")  # the components of a job may have names of their own
SAME_JOB = (*SAME_PARTS, "executable")  # Slurm's counter of ids wraps around
TAKEN = ("takes", "joules")  # columns of which some exports have nothing
NUMBER = "(0|[1-9][0-9]{0,8})"
# A job or a task of an array, or an odd one such as 7_[3-9]; and its component.
JOB_ID = re.compile(rf"(?:{NUMBER}(?:_{NUMBER})?|(\d+(?:_\d+|_\[[^\]]*\])?))(\+\d+)?")
TASKS = 32  # bits of a task's number in a job's key
MINUTE_S = 60
BLOCK = 2048  # the rows read at once: their texts stay in the processor's cache
COUNT = re.compile(r"([0-9]{1,12})(\.[0-9]+)?([KMGTP]?)")
TRES_CPUS = re.compile(r"(?:^|,)cpu=([^,]*)")
UNITS = " KMGTP"  # powers of 1024
AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]+)?)([KMGTP]?)([nc]?)")
BYTES = ("mem", "bb/")  # TRES in MB if they have no unit
NOT_HELD = ("cpu", "node", "billing", "energy", "vmem", "pages", "fs", "ic")  # TRES that are no pool's
PER_NODE, PER_CPU = 1, 2
REQUEUED_S = 3600  # a try is submitted again when the earlier one is over and its nodes are clean
# A requeued job is eligible so much later than submitted: AuthInfo's cred_expire, 120 s by default, and 1.
AGAIN_S = 121
LEFT_OUT = "earlier tries of requeued jobs, left out"
MISSING = "requeued jobs without their earlier tries, by their Eligible: waits are too short; print them with sacct -D"
DIVIDERS = {"|": "bar (|)", ",": "comma (,)", ";": "semicolon (;)", "\t": "tab (\\t)"}  # of columns
OTHERS = {"SWF": r"\s*;|(\s*-?[0-9][0-9.]*\s){17}", "JSON": r"\s*[\[{]"}  # how files of other kinds begin
MOST_BEFORE = 100  # lines, such as a login's banner, before the one that names the columns
MOST_BARS = 100  # in the fields of a record
LONGEST_RECORD, MOST_LINES = 1 << 16, 200  # with line breaks
TRUNCATED = "with fewer columns than are named (is the file truncated?), left out"
# Columns of `sacct` that are not read, and of the form of a time or count.
PLAIN_NUMBERS = (
    *("nnodes", "allocnodes", "reqnodes", "ntasks", "elapsed", "elapsedraw", "planned", "reserved", "priority"),
    *("exitcode", "derivedexitcode", "cputime", "cputimeraw", "totalcpu", "usercpu", "systemcpu"),
)


def read_slurm(paths: list[Path], reading: Reading, *, clusters: frozenset[str] = frozenset()) -> Reading:
    """The finished jobs of `sacct` output, with a line of column names, into an empty reading.

    A requeued job has several records (with `-D`, of one id, user and name, each submitted when the earlier one was
    over): its last one is the job, with the submission time of the first. The components of a heterogeneous job (JobID
    7+0, 7+1) are one job with all their processors. A task of an array is a job; the record of tasks that never started
    (7_[3-9]) is one job that never ran. Steps (7.batch), which `-X` leaves out, and jobs that have not ended are left
    out and counted. Files are read in pieces: memory holds 66 bytes a record, and the names.
    """
    records = Records(reading, clusters)
    records.read_files(paths)
    return records.reading()


def status_of(text: str) -> int:
    """SWF's status of a state in full or abbreviated, also if `sacct` truncated it (OUT_OF_ME+); else NOT_ENDED, ..."""
    word = text.strip().partition(" ")[0].upper()  # CANCELLED by 1003
    cut = word.removesuffix("+")
    if cut in STATUSES:
        return STATUSES[cut]
    meanings = {status for name, status in STATUSES.items() if cut != word and cut and name.startswith(cut)}
    return meanings.pop() if len(meanings) == 1 else ODD_STATE


def count_in(text: str) -> tuple[int, bool]:
    """A number of processors, ODD if it is none, and whether `sacct --units` may have rounded it (1.50K)."""
    found = COUNT.fullmatch(text.strip())
    if not found or (found[2] and not found[3]):
        return ODD, False
    number = float(found[1] + (found[2] or "")) * 1024 ** UNITS.index(found[3] or " ")
    return min(round(number), LARGEST + 1), found[2] is not None


def tres_count(text: str) -> tuple[int, bool]:
    """The processors in a text such as billing=4,cpu=4,mem=8G; 0 in an empty one."""
    found = TRES_CPUS.search(text)
    return count_in(found[1] if found else text) if text.strip() else (0, False)


@lru_cache(1 << 16)
def tres_of(text: str) -> tuple[int, int, int, int, tuple[str, ...]]:
    """The CPUs, MB (rounded up), nodes and GPUs in a text such as cpu=4,mem=8G,node=2,gres/gpu:a100=4; GPUs' types."""
    found = counts_in(text)
    types = {name.partition(":")[2]: count for name, count in found.items() if name.startswith("gres/gpu:") and count}
    gpus = found.get("gres/gpu", 0) or sum(types.values())
    return found.get("cpu", 0), -(-found.get("mem", 0) // 1024**2), found.get("node", 0), gpus, tuple(types)


@lru_cache(1 << 16)
def counts_in(text: str) -> Mapping[str, int]:
    """Each TRES that a text has, by Slurm's name, and its number, rounded up; of memory and burst buffers the bytes."""
    parts = (part.strip().partition("=") for part in text.split(","))
    found = ((name, AMOUNT.fullmatch(number)) for name, _, number in parts)
    return {
        name: _scaled(number[1], number[2], bare="M" if name.startswith(BYTES) else " ")
        for name, number in found
        if number and not number[3]
    }


def tres_text(held: str, asked: str, memory: str, nodes: int, cpus: int) -> str:
    """The TRES that a job held, else asked for, with ReqMem's memory if they lack it; unknown counts are one."""
    text = held if held.strip() else asked
    if not memory or "mem=" in text:
        return text
    mb, per = memory_of(memory)
    return f"{text},mem={mb * max({PER_NODE: nodes, PER_CPU: cpus}.get(per, 1), 1)}M"


def joules_in(held: str, energy: str) -> int:
    """The energy that a job used, by its TRES or ConsumedEnergyRaw, which are the same; 0 if it is unknown."""
    return counts_in(held).get("energy", 0) or counts_in(f"energy={energy}").get("energy", 0)


@lru_cache(1 << 16)
def takes_of(text: str) -> str:
    """What a job with these TRES takes of pools, see `Takes`: `memory` and burst buffers in GB, GRES by their names."""
    takes, typed = dict[str, float](), Counter[str]()
    for name, count in counts_in(text).items():
        kind, _, which = name.partition("/")
        own = {"mem": MEMORY, "gres": which}.get(kind, name)
        if kind in NOT_HELD or not own:
            continue
        number = count / 1e9 if name.startswith(BYTES) else count
        gres, _, of_type = which.partition(":")
        if kind == "gres" and of_type:
            typed[gres] += count
        takes[re.sub(r"[^\w./-]", "-", own)] = number
    return Takes.text_of({**typed, **takes})


def memory_of(text: str) -> tuple[int, int]:
    """The MB in a text of ReqMem such as 4Gn, 4000Mc or 16G, and whether they are PER_NODE, PER_CPU, or in all (0)."""
    found = AMOUNT.fullmatch(text.strip())
    if found is None:
        return 0, 0
    return -(-_scaled(found[1], found[2], bare="M") // 1024**2), {"n": PER_NODE, "c": PER_CPU}.get(found[3], 0)


def _scaled(number: str, unit: str, bare: str) -> int:
    """The whole number in 1.5K, rounded up, of the unit `bare` without one."""
    return min(math.ceil(float(number) * 1024.0 ** UNITS.index(unit or bare)), 2**62)


def having(texts: list[str], pattern: str) -> NDArray[np.bool_]:
    return each(texts, lambda text: re.search(pattern, text) is not None) > 0


# Whether a text may be in a column. Others, such as JobName, Comment or Constraints, may hold anything.
FORMS: dict[str, Callable[[str], bool]] = {
    "JobID": lambda text: re.fullmatch(r"[0-9][\w.+%\[\],-]*", text) is not None,
    **dict.fromkeys(TIMES.values(), lambda text: clock_time(text)[0] != ODD),
    "State": lambda text: status_of(text) != ODD_STATE,
    **dict.fromkeys(COUNTED, lambda text: not text or count_in(text)[0] != ODD),
    **dict.fromkeys(("TRES", "AllocTRES", "ReqTRES"), lambda text: not text or "=" in text),
    "Timelimit": lambda text: text == "INVALID" or limit_of(text, bare=MINUTE_S) != ODD,
    "Suspended": lambda text: re.fullmatch("[0-9:.-]*", text) is not None,
    **dict.fromkeys(BARE, lambda text: True),
}


class Table:
    """The rows of a piece of a file."""

    def __init__(self, columns: dict[str, list[str]], names: dict[str, str]) -> None:
        self.columns = columns  # those of COLUMNS that the file has
        self.names = names  # the file's name of each

    def __len__(self) -> int:
        return len(self.columns["JobID"])

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> list[str]:
        """The texts of a column of COLUMNS, (n,); empty ones if the file does not have it."""
        return self.columns[column] if column in self else [""] * len(self)

    def show(self, row: int) -> str:
        """The fields of a record that its times, its width and its state come from, without who cancelled it."""
        shown = ((name, self[name][row]) for name in (*NEEDED, "Timelimit") if name in self)
        return ", ".join(f"{self.names[name]} {text.partition(' by ')[0][:40]}" for name, text in shown)

    def counts(self, column: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The column's whole numbers, (n,), ODD for others and without such a column; and which may be rounded."""
        read = each(self[column], tres_count if self.names.get(column, "").endswith("TRES") else count_in)
        return read[:, 0], read[:, 1] > 0

    def paused(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether a job ran for less than from its start to its end, (n,): it was suspended for the rest."""
        start, end = columns["start_s"], columns["end_s"]
        elapsed_s = each(self["Elapsed"], lambda text: limit_of(text, bare=1))
        off_s = end.seconds - start.seconds - elapsed_s
        # A clock that was set back or forward in between is off by an hour.
        known = (elapsed_s > 0) & (start.seconds > 0) & ~(start.bare & (np.abs(off_s - 3600) <= 1))
        paused: NDArray[np.bool_] = known & (off_s > 1)
        return paused

    def beside(self, columns: Mapping[str, Any]) -> NDArray[np.int8]:
        """What of `BESIDE` each job had, (n,), and whether only its times say that it was paused: powers of two."""
        found = (self.paused(columns) & ~having(self["Suspended"], "[1-9]")).astype(np.int8) << len(BESIDE)
        for k, (column, pattern) in enumerate(BESIDE.values()):
            if column in OF_HELD and "Eligible" in self:  # which is what they say, with the date
                continue
            found |= having(self[column], pattern).astype(np.int8) << k
        return found


class Head:
    """A line that names the columns, and what a line below it may hold."""

    def __init__(self, line: str, columns: Mapping[str, tuple[str, ...]] = COLUMNS) -> None:
        self.divider = next((mark for mark in DIVIDERS if mark in line), "|")  # of exports: a comma
        self.titles = [name.strip() for name in self.split(line.rstrip("|"))]
        self.barred = line.endswith("|")
        place_of = {title.lower(): place for place, title in reversed(list(enumerate(self.titles)))}
        known = {name: [title for title in titles if title.lower() in place_of] for name, titles in columns.items()}
        self.names = {name: titles[0] for name, titles in known.items() if titles}
        self.places = {name: place_of[title.lower()] for name, title in self.names.items()}
        self.mark = self.titles[self.places["JobID"]] if "JobID" in self.places else ""
        ours = {title.lower(): name for name, titles in columns.items() for title in titles}
        plain = dict.fromkeys(PLAIN_NUMBERS, "Suspended")
        self.forms = [FORMS.get({**plain, **ours}.get(title.lower(), "")) for title in self.titles]

    def split(self, line: str) -> list[str]:
        if self.divider == "|" or '"' not in line:
            return line.split(self.divider)
        with any_length(), suppress(csv.Error):
            return next(csv.reader([line], delimiter=self.divider))
        return line.split(self.divider)

    def fields(self, line: str) -> list[str]:
        fields = self.split(line)
        if self.barred and len(fields) > len(self.titles) and not fields[-1]:
            fields.pop()
        return fields

    def fitted(self, fields: list[str]) -> tuple[list[str] | None, list[str]]:
        """The text of each column, if these fields, which are too many, fit in one way; and the columns with a bar.

        `sacct` does not escape the bars in a field. So each column of `FORMS` must have a field of its form, and the
        others have what is between. Ways that differ only in columns that are not read are one. The columns with a bar
        are those of all ways.
        """
        if not 0 <= len(fields) - len(self.titles) <= MOST_BARS:
            return None, []
        if len(fields) > len(self.titles) and not fields[-1] and (last := self.fitted(fields[:-1]))[0] is not None:
            return last  # `sacct -p` ends each line with a bar
        ways = self._ways(fields)
        ends = [(place + min(some), place + max(more) + 1) for place, (some, more) in enumerate(pairwise(ways)) if some]
        free = [place for place, (first, end) in enumerate(ends) if end - first > 1 and self.forms[place] is None]
        barred = [self.titles[place] for place in free]
        read = (place for name, place in self.places.items() if name not in OF_HELD)  # which are counted alone
        if not ends or any(len(ways[place]) > 1 or len(ways[place + 1]) > 1 for place in read):
            return None, barred
        return [self.divider.join(fields[first:end]) for first, end in ends], barred

    def _ways(self, fields: list[str]) -> list[set[int]]:
        """How many bars there may be in the columns before each one, and last in all; empty sets if nothing fits."""
        bars = len(fields) - len(self.titles)
        ways = [{0}]
        for place, form in enumerate(self.forms):
            before = ways[-1]
            if form is None:
                ways.append(set(range(min(before), bars + 1)) if before else set())
            else:
                ways.append({n for n in before if "\n" not in fields[place + n] and form(fields[place + n])})
        ways[-1] &= {bars}
        for place in reversed(range(len(self.forms))):
            after = ways[place + 1]
            most = max(after, default=-1)
            ways[place] &= after if self.forms[place] else set(range(most + 1))
        return ways

    def table(self, rows: list[list[str]]) -> Table:
        return Table({name: [fields[place] for fields in rows] for name, place in self.places.items()}, self.names)


class Records:
    """The records of ended jobs, with their ids' keys; `columns` are as `COLUMNS`, errors recommend the `command`."""

    columns: Mapping[str, tuple[str, ...]] = COLUMNS
    command = ""
    again_s = AGAIN_S

    def __init__(self, result: Reading, clusters: frozenset[str] = frozenset()) -> None:
        self.clock = zone_of(result.zone)
        self.result = result
        self.clusters = clusters
        self.cluster_names = Names()
        self.odd_ids: dict[str, int] = {}
        self.components: dict[str, int] = {}

    def read_files(self, paths: list[Path]) -> None:
        reading = self.result
        wanted = [name for name, choice in (("Partition", reading.only), ("Cluster", self.clusters)) if choice]
        for path in paths:
            reading.files[path] = 0
            for head, rows in groupby(self._rows(path, wanted), itemgetter(0)):
                while some := [fields for _, fields in islice(rows, BLOCK)]:
                    self.read(head.table(some))
                    reading.files[path] += len(some)

    def _rows(self, path: Path, wanted: list[str]) -> Iterator[tuple[Head, list[str]]]:
        """The fields of each record of a file, with the line that names its columns, which may be there several times.

        A line with too few fields begins a record with a line break in a field, or is truncated. What cannot be told
        apart is counted.
        """
        head: Head | None = None
        held, held_at, passed, first = "", 0, 0, ""

        def count(reason: str, at: int) -> None:
            nonlocal held
            self.result.note(reason, example=f"{path.name}:{at}")
            held = ""

        command = self.command or f"sacct -P -o {','.join((*NEEDED, *wanted))},..."
        remedy = f"use {command} with its line of column names, without -n"
        number = 0
        for number, line in self.result.lines_of(path):
            if head is None or head.mark in line:
                found = Head(line, self.columns)
                lacks = [name for name in (*NEEDED, *wanted) if name not in found.names]
                if "JobID" in found.names and (head is None or not lacks):
                    if lacks:
                        named = " or ".join((lacks[0], *self.columns[lacks[0]][1:]))
                        raise WorkloadError(f"{path}:{number}: no column {named}; {remedy}")
                    if held:
                        count(TRUNCATED, held_at)
                    head = found
                    continue
                if head is None:
                    passed, first = passed + 1, first or line
                    if passed == MOST_BEFORE or (
                        len(found.titles) >= len(NEEDED) and JOB_ID.fullmatch(found.titles[0])
                    ):
                        break
                    continue
            fields = head.fields(line)
            n_columns = len(head.titles)
            if len(fields) == n_columns and not held:
                yield head, fields
                continue
            record, barred = head.fitted(fields)
            if held and record is None:
                whole = head.fields(f"{held}\n{line}")
                joined, _ = head.fitted(whole)
                if joined is not None:
                    broken = " and ".join(head.titles[place] for place, text in enumerate(joined) if "\n" in text)
                    count(f"with a line break in {broken}, read as one line", held_at)
                    yield head, joined
                    continue
                short = len(held) < LONGEST_RECORD and number - held_at < MOST_LINES
                if short and len(whole) < n_columns:
                    held = f"{held}\n{line}"
                    continue
            if held:
                count(TRUNCATED, held_at)
            if record is not None:
                if barred:
                    mark = DIVIDERS[head.divider]
                    count(f"with a {mark} in {' or '.join(barred)}, read by the form of the other columns", number)
                yield head, record
            elif len(fields) == n_columns:
                yield head, fields
            elif len(fields) > n_columns:
                mark = DIVIDERS[head.divider].replace(" ", "s ", 1)
                where = f"{mark}, which may be in {' or '.join(barred)}" if barred else "more fields than columns"
                count(f"with {where}: cannot be told apart, left out", number)
            elif all(
                form(text) for form, text in takewhile(itemgetter(0), zip(head.forms, fields, strict=False)) if form
            ):
                held, held_at = line, number
            else:
                count("lines that begin no record (after a line break in the last column?), left out", number)
        if held:
            count(TRUNCATED, held_at)
        if head is None and (kind := next((kind for kind, begin in OTHERS.items() if re.match(begin, first)), "")):
            raise WorkloadError(f"{path}: it is {kind}, and not what sacct prints; {remedy}")
        if head is None and passed:
            raise WorkloadError(
                f"{path}:{number}: no column {' or '.join(COLUMNS['JobID'])} is named up to here; {remedy}"
            )

    def more(self, table: Table, columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Further columns of these records, (n,) each; it may fill in unknown values in `columns`."""
        nodes, cpus = (column.tolist() for column in (table.counts("NNodes")[0], columns["procs"]))
        texts = map(tres_text, table["TRES"], table["ReqTRES"], table["ReqMem"], nodes, cpus)
        takes = self.result.jobs.takes.codes(list(map(takes_of, texts)))
        joules = np.array(list(map(joules_in, table["TRES"], table["Energy"])), np.float32)
        return {"beside": table.beside(columns), "takes": takes, "joules": joules}

    def read(self, table: Table) -> None:
        self.result.eligible = self.result.eligible is not False and "Eligible" in table
        keys, components, valid = self._ids(table)
        cluster = self.cluster_names.codes(table["Cluster"])
        if self.clusters:
            others = valid & ~np.array([name in self.clusters for name in self.cluster_names])[cluster]
            self.result.note("records of other clusters, left out", int(np.count_nonzero(others)))
            valid &= ~others
        names = self.result.jobs.names
        procs, rounded = table.counts("AllocCPUS")
        groups = zip(table["Group"], table["Account"], strict=True)
        columns: dict[str, Any] = {
            **{name: read_times(table[title], self.clock) for name, title in TIMES.items() if title in table},
            "procs": procs,
            "requested_procs": table.counts("ReqCPUS")[0],
            "requested_s": each(table["Timelimit"], lambda text: limit_of(text, bare=MINUTE_S)),
            "status": each(table["State"], status_of),
            **{kind: names[kind].codes(table[column]) for column, kind in TEXTS.items()},
            "group": names["group"].codes([group or account for group, account in groups]),
            "key": keys,
            "component": components,
            "cluster": cluster,
        }
        columns |= self.more(table, columns)
        self.result.add_ended(
            columns,
            valid,
            table.show,
            {"requested_s": "TimelimitRaw or Timelimit"}
            | {name: table.names.get(title, title) for name, title in TITLED.items() if title in table},
            {f"jobs whose {table.names['AllocCPUS']} may be rounded; use sacct --noconvert": rounded},
        )

    def _ids(self, table: Table) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """Of each record the key of its id, its component (-1 for none), and whether it is a job."""
        keys = [0] * len(table)
        components, valid = np.full(len(table), -1, np.int32), np.ones(len(table), bool)
        for row, job_id in enumerate(table["JobID"]):
            match = JOB_ID.fullmatch(job_id)
            if match is None:
                valid[row] = False
                steps = "." in job_id
                reason = "steps, left out" if steps else "records whose JobID is not understood, left out"
                self.result.note(reason, example="" if reason in self.result.examples else table.show(row))
                continue
            job, task, other, component = match.groups()
            if other is not None:
                keys[row] = self.odd_ids.setdefault(other, -1 - len(self.odd_ids))
            else:
                keys[row] = (int(job) << TASKS) | (int(task) + 1 if task else 0)
            if component:
                components[row] = self.components.setdefault(component, len(self.components))
        return np.array(keys, np.int64), components, valid

    def ids(self) -> list[str]:
        odd, parts = list(self.odd_ids), ["", *self.components]
        texts = []
        for key, part in zip(self.result.jobs["key"].tolist(), self.result.jobs["component"].tolist(), strict=True):
            job, task = divmod(key, 1 << TASKS)
            text = odd[-1 - key] if key < 0 else f"{job}_{task - 1}" if task else f"{job}"
            texts.append(text + parts[part + 1])
        return texts

    def reading(self) -> Reading:
        jobs = self.result.jobs
        require_known("cluster", self.clusters, self.cluster_names)
        if len(jobs):
            others = int(np.count_nonzero(jobs["cluster"] != jobs["cluster"][0]))
            first = list(self.cluster_names)[jobs["cluster"][0]]
            self.result.unmodelled[f"are of other clusters than {first} (--cluster chooses)"] += others
            self.drop_copies()
            self._keep_last(np.flatnonzero(jobs["component"] >= 0), ("component",))
            if (parts := jobs["component"] >= 0).any():
                self._join(parts)
            self._keep_last(_repeated(jobs["key"]))
            self.note_missing(self.result.notes.get(LEFT_OUT, 0))
            for k, what in enumerate((*BESIDE, PAUSED)):
                self.result.unmodelled[what] += int(np.count_nonzero(jobs["beside"] & (1 << k)))
        for name in jobs.columns.keys() - {*TYPES, *TAKEN}:
            del jobs.columns[name]
        return self.result

    def note_missing(self, tries: int) -> None:
        """Note the requeued jobs of a log that has only their last tries."""
        jobs = self.result.jobs
        again = (jobs["start_s"] > 0) & (jobs["eligible_s"].astype(np.int64) - jobs["submit_s"] == self.again_s)
        self.result.note(MISSING, int(np.count_nonzero(again)) * (tries == 0))

    def drop_copies(self) -> None:
        jobs = self.result.jobs
        same = [name for name in jobs.columns if name not in TAKEN]
        order, starts = _grouped(jobs, _repeated(jobs["key"]), same)
        self._keep_of(order, order[starts], TWICE)

    def _keep_of(self, rows: NDArray[np.intp], some: NDArray[np.intp], reason: str) -> None:
        """Keep some of these rows; the reason counts the others."""
        kept = np.ones(len(self.result.jobs), bool)
        kept[rows] = False
        kept[some] = True
        self.result.note(reason, len(rows) - len(some))
        self.result.jobs.keep(kept)

    def _keep_last(self, rows: NDArray[np.intp], besides: tuple[str, ...] = ()) -> None:
        """Keep the last try of each job among these rows, with the job's first submission, in the row of its first try.

        An id is used again when Slurm's counter has wrapped around. A try is a later one of the same job if it has the
        same Submit, or if the earlier one did not complete and Submit is when that was over: the date of the requeue.
        """
        jobs = self.result.jobs
        if not len(rows):
            return
        order, starts = _grouped(jobs, rows, (*besides, *SAME_JOB), then=("end_s", "submit_s"))
        submit_s, end_s = (jobs[name][order].astype(np.int64) for name in ("submit_s", "end_s"))
        over = (jobs["status"][order[:-1]] == COMPLETED) | (submit_s[1:] > end_s[:-1] + REQUEUED_S)
        others = np.flatnonzero(over & (submit_s[1:] != submit_s[:-1])) + 1
        starts = np.union1d(starts, others)
        last, first = order[np.append(starts[1:], len(order)) - 1], np.minimum.reduceat(order, starts)
        submit_s = np.minimum.reduceat(jobs["submit_s"][order], starts)
        eligible_s = jobs["eligible_s"][order[starts]]
        for name in jobs.columns:
            jobs[name][first] = jobs[name][last]
        jobs["submit_s"][first], jobs["eligible_s"][first] = submit_s, eligible_s
        self._keep_of(order, first, LEFT_OUT)

    def _join(self, parts: NDArray[np.bool_]) -> None:
        """Make one job of the components in these rows that have one id and user; it comes after all others."""
        jobs = self.result.jobs
        order, starts = _grouped(jobs, np.flatnonzero(parts), SAME_PARTS, then=("submit_s",))
        submit_s = jobs["submit_s"][order].astype(np.int64)
        starts = np.union1d(starts, np.flatnonzero(np.diff(submit_s) > REQUEUED_S) + 1)
        by_row = np.argsort(order[starts])
        column = {name: jobs[name][order] for name in jobs.columns}
        head = {name: values[starts] for name, values in column.items()}
        start_s = np.minimum.reduceat(np.where(column["start_s"] > 0, column["start_s"], LAST_S), starts)
        failing = np.where(column["status"] == COMPLETED, len(order), np.arange(len(order)))
        failed = np.minimum.reduceat(failing, starts)
        known = np.logical_and.reduceat(column["requested_s"] > 0, starts)
        head |= {
            "submit_s": np.minimum.reduceat(column["submit_s"], starts),
            "start_s": np.where(np.logical_or.reduceat(column["start_s"] > 0, starts), start_s, 0),
            "end_s": np.maximum.reduceat(column["end_s"], starts),
            "requested_s": np.where(known, np.maximum.reduceat(column["requested_s"], starts), 0),
            "status": np.append(column["status"], COMPLETED)[failed],
            "component": np.full(len(starts), -1),
        }
        head["takes"] = jobs.takes.sums(column["takes"], starts)
        head["joules"] = np.add.reduceat(column["joules"], starts)
        for name in ("procs", "requested_procs"):
            total = np.add.reduceat(np.maximum(column[name], 0).astype(np.int64), starts)
            head[name] = np.where(total > 0, np.minimum(total, LARGEST), -1)
        self.result.notes["components of heterogeneous jobs, joined"] += len(order)
        jobs.keep(~parts)
        jobs.add({name: values[by_row] for name, values in head.items()})


def _repeated(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    ordered = np.sort(keys)
    repeated = np.append(ordered[1:][ordered[1:] == ordered[:-1]], np.iinfo(np.int64).max)
    return np.flatnonzero(repeated[np.searchsorted(repeated, keys)] == keys)


def _grouped(
    jobs: Jobs, rows: NDArray[np.intp], same: Sequence[str], then: tuple[str, ...] = ()
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows in groups that are equal in these columns, each by the columns `then` and by row; each group's start."""
    order = rows[np.lexsort([jobs[name][rows] for name in (*reversed(then), *same)])]
    changes = np.zeros(len(order), bool)
    changes[:1] = True
    for name in same:
        values = jobs[name][order]
        changes[1:] |= values[1:] != values[:-1]
    return order, np.flatnonzero(changes)
