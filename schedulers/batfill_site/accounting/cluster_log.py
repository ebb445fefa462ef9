"""Shared by the importers of accounting logs: the jobs as narrow columns, numbers for names, the log they make."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from batfill.base.errors import LARGEST, WorkloadError
from batfill.base.files import raw_file, readable
from batfill.base.version import __version__
from batfill.base.words import duration, things
from batfill.model.jobs import size_warnings
from batfill.workloads.swf import with_amounts
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FIELD_19, FIELDS, Comment, SwfLog, new_log
from batfill_site.accounting.outages import most_held
from batfill_site.accounting.record_text import LAST_S, ODD, PARTITION_LIMIT, UNLIMITED, Names, Times, lines_of

PERSONAL = ("user", "group", "executable")  # what --anonymise hides
PUBLIC = ("queue", "partition")
NAMES = (*PERSONAL, *PUBLIC)
# The columns of a job. Times are seconds since 1970, 0 if unknown; durations are seconds, 0 if unknown or without a
# limit; processors are -1 if unknown; a name is its number in `Jobs.names`, 0 for none.
TYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("submit_s", "start_s", "end_s", "requested_s"), np.uint32),
    "eligible_s": np.uint32,  # from when on the job could start, if that is later than its submission
    **dict.fromkeys(("procs", "requested_procs"), np.int32),  # the first is allocated
    "status": np.int8,  # SWF's code
    **dict.fromkeys(NAMES, np.int32),
}
# What a reader returns for a state that is none of an ended job; `add_ended` counts each.
NOT_ENDED, REVOKED, ODD_STATE = -2, -3, -4
ROWS_AT_ONCE = 1 << 17
NEVER_STARTED = "jobs that never started: run time 0"
TWICE = "there twice, as in exports that overlap, left out"


class ClusterJob(NamedTuple):
    """One job; times are Unix times, 0 if unknown, as are processors; unknown names are ""."""

    submit_s: int
    start_s: int
    end_s: int
    procs: int  # allocated
    requested_procs: int
    requested_s: int  # 0 also for no limit
    status: int  # SWF's code
    user: str = ""
    group: str = ""
    executable: str = ""  # the job's name
    queue: str = ""
    partition: str = ""
    eligible_s: int = 0
    takes: str = ""  # as `Takes`


class Takes(Names):
    """What jobs take beside processors, as texts such as gpu=2,memory=17.179869184 of amounts by name."""

    @staticmethod
    def text_of(amounts: Mapping[str, float]) -> str:
        return ",".join(f"{name}={amount!r}" for name, amount in sorted(amounts.items()) if amount)

    @staticmethod
    def amounts_of(text: str) -> dict[str, float]:
        parts = (part.rpartition("=") for part in text.split(",") if part)
        return {name: float(amount) for name, _, amount in parts}

    def sums(self, codes: NDArray[np.int32], starts: NDArray[np.intp]) -> NDArray[np.int32]:
        """The numbers of what jobs take together that stand in groups, whose starts are given."""
        known = [Counter(self.amounts_of(text)) for text in self]
        groups = (map(known.__getitem__, group.tolist()) for group in np.split(codes, starts[1:]))
        return self.codes([self.text_of(sum(group, Counter())) for group in groups])

    def table(self) -> dict[str, NDArray[np.float64]]:
        """Each amount by its name: that of each text, nan for none, (n_texts,)."""
        found = [self.amounts_of(text) for text in self]
        names = sorted({name for each in found for name in each})
        return {name: np.array([each.get(name, np.nan) for each in found]) for name in names}


class Jobs:
    """Jobs in any order as narrow columns: those of TYPES, and others that a reader needs, with room for more jobs."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in TYPES.items()}
        self._n = 0
        self.names = {kind: Names() for kind in NAMES}  # the texts of these columns,
        self.takes = Takes()  # and those of "takes", if there is one

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The column of this name, (n,): a view, which `add` and `keep` make stale."""
        return self.columns[name][: self._n]

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append jobs: each column of TYPES, and the same other columns each time."""
        end = self._n + len(columns["submit_s"])
        for name, column in columns.items():
            stored = self.columns.setdefault(name, np.empty(0, column.dtype))
            if end > stored.size:  # the system moves large arrays without a second copy in memory
                stored.resize(max(end, stored.size * 9 // 8), refcheck=False)
            stored[self._n : end] = column
        self._n = end

    def keep(self, rows: NDArray[np.bool_]) -> None:
        for name in self.columns:
            self.columns[name] = self[name][rows]
        self._n = int(np.count_nonzero(rows))


TITLES = {
    "submit_s": "submission",
    "start_s": "start",
    "end_s": "end",
    "procs": "number of processors",
    "requested_procs": "request of processors",
    "requested_s": "limit",
    "eligible_s": "date of eligibility",
}
HAD_GPUS, NOT_MODELLED = "had GPUs", ", which is not modelled"  # parts of a note
PARTITIONS = "jobs with their partition's limit: "
NO_ZONE = "jobs with dates without a time zone, read in UTC; --timezone names the cluster's"
NOT_UTF_8 = "with bytes that are not UTF-8, which become text such as \\xfc"
NO_ELIGIBILITY = (
    "the records have no column Eligible: jobs count as submitted when their users did, also held and dependent ones"
)
WATTS = "mean_watts"  # the field of the energy that a job used over its run time
FIRST_SUBMIT = "first_submit_s"  # a column besides those of SWF
LEFT_OUT = {
    NOT_ENDED: "jobs that have not ended, left out",
    REVOKED: "jobs revoked because another cluster of the federation ran them, left out",
    ODD_STATE: "records whose state is not understood, left out",
}


@dataclass(slots=True)
class Reading:
    """An importer's result: jobs in any order, and what it left out, changed or guessed, or read but does not model."""

    zone: str = "UTC"  # the cluster's time zone
    partition_limit_s: float | None = None  # the requested time of jobs that have their partition's
    only: frozenset[str] = frozenset()  # the partitions to read; none for all
    jobs: Jobs = field(default_factory=Jobs)
    notes: Counter[str] = field(default_factory=Counter)  # the number of records by reason,
    examples: dict[str, str] = field(default_factory=dict)  # and the first of each
    eligible: bool | None = None  # whether records say when a job could start; None: the system has no such date
    held: int = 0  # jobs that could not start at their submission,
    held_s: float = 0.0  # and for how long, in all
    unmodelled: Counter[str] = field(default_factory=Counter)  # jobs by what a replay knows nothing of
    files: dict[Path, int] = field(default_factory=dict)  # the number of records of each

    def note(self, reason: str, count: int = 1, example: str = "") -> None:
        if count:
            self.notes[reason] += count
            if example:
                self.examples.setdefault(reason, example)

    def lines_of(self, path: Path) -> Iterator[tuple[int, str]]:
        """As `record_text.lines_of`; lines that are not UTF-8 are counted."""
        return lines_of(path, lambda number: self.note(NOT_UTF_8, example=f"{path.name}:{number}"))

    def lines(self, *, examples: bool = False) -> list[str]:
        """The notes in lines, with the first record of each reason or without, and the files without a record."""
        first = self.examples if examples else {}
        said = [
            f"{things(count, 'record')}: {reason}{f'; the first: {first[reason]}' if reason in first else ''}"
            for reason, count in self.notes.items()
        ]
        if self.partition_limit_s is not None and not any(reason.startswith(PARTITIONS) for reason in self.notes):
            said.append("no job has its partition's limit: --partition-limit changes nothing")
        if self.held:
            said.append(
                f"{things(self.held, 'job')} could not start when submitted (dependencies, begin dates, holds, limits "
                f"of arrays): submitted when they could, {duration(self.held_s)} later in all"
            )
        if self.eligible is False:
            said.append(NO_ELIGIBILITY)
        if empty := [path.name for path, count in self.files.items() if not count]:
            said.append(f"no record in {', '.join(empty)}")
        return said

    def reasons(self, *, examples: bool = False) -> str:
        return re.sub(" records?: ", ": ", "; ".join(self.lines(examples=examples)))

    def extend(self, jobs: Sequence[ClusterJob], names: Sequence[str]) -> None:
        """Append jobs that were read one by one, as `add_ended`; `names` identify their records."""
        texts: dict[str, Names] = {**self.jobs.names, "takes": self.jobs.takes}
        columns: dict[str, Any] = {}
        for name in ClusterJob._fields:
            values = [getattr(job, name) for job in jobs]
            if name in texts:
                columns[name] = texts[name].codes(values)
            else:
                columns[name] = np.array([min(value, LAST_S + 1) for value in values], np.int64)
        columns |= {name: Times.of(columns[name]) for name in ("submit_s", "start_s", "end_s", "eligible_s")}
        self.add_ended(columns, np.ones(len(jobs), bool), names.__getitem__, {}, {})

    def add_ended(
        self,
        columns: Mapping[str, Any],
        valid: NDArray[np.bool_],
        show: Callable[[int], str],
        titles: Mapping[str, str],
        guessed: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Append the records of jobs that have ended; count the others, and each value that is changed or guessed.

        `columns`: those of TYPES, (n,) each, with the values of ODD and its neighbours, and 0 for no processors; the
        times are `Times`; "eligible_s" may be missing; and others to keep. `valid`: (n,), which records to consider at
        all. `show`: a record's identity and values, by row, for examples. `titles`: the source's names of our columns;
        without one of "procs" it does not say what a job was given. `guessed`: what else to count, with the rows.
        """
        valid = valid.copy()
        title = {**TITLES, **titles}

        def count(reason: str, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            found = valid & rows
            if n := np.count_nonzero(found):
                self.note(reason, int(n), show(int(np.argmax(found))))
            return found

        def leave_out(reason: str, rows: NDArray[np.bool_]) -> None:
            nonlocal valid
            valid &= ~count(reason, rows)

        status = np.asarray(columns["status"])
        if self.only:
            names = self.jobs.names["partition"]
            wanted = [not self.only.isdisjoint(name.split(",")) for name in names]
            leave_out("records of other partitions, left out", ~np.array(wanted)[columns["partition"]])
        for code, reason in LEFT_OUT.items():
            leave_out(reason, status == code)
        times = {name: columns[name] for name in ("submit_s", "start_s", "end_s")}
        for name, column in times.items():
            beyond = (column.seconds < 0) | (column.seconds > LAST_S)
            leave_out(f"jobs whose {title[name]} is no time that is understood, left out", beyond)
        leave_out("jobs without a submission time, left out", times["submit_s"].seconds == 0)
        leave_out("jobs without an end, left out", times["end_s"].seconds == 0)
        submit_s, start_s, end_s = _in_order(*times.values())
        procs, requested = (np.asarray(columns[name], np.int64) for name in ("procs", "requested_procs"))
        completed, none = status == COMPLETED, (procs == 0) & ("procs" in titles)
        leave_out("COMPLETED jobs without a start, left out", completed & (start_s == 0))
        leave_out("jobs that end before they start, left out", (status != CANCELLED) & (start_s > end_s))
        leave_out(f"COMPLETED jobs with {title['procs']} 0, left out", completed & none)
        planned = count("jobs cancelled before the start that they state: run time 0", start_s > end_s)
        start_s = np.where(planned | none, 0, start_s)
        ran = start_s > 0
        unknown = ran & ((procs <= 0) | (procs > LARGEST))
        known = (requested > 0) & (requested <= LARGEST)
        leave_out("jobs that ran on an unknown number of processors, left out", unknown & ~known)
        count(f"jobs whose {title['procs']} is unknown: the processors that they requested count", unknown)
        count(NEVER_STARTED, ~ran)
        after = count("jobs submitted after their start: submitted at their start", ran & (submit_s > start_s))
        late = count("jobs submitted after their end: submitted at their end", ~ran & (submit_s > end_s))
        submit_s = np.where(after, start_s, np.where(late, end_s, submit_s))
        either = np.any([column.later_s > 0 for column in times.values()], axis=0)
        neither = np.any([column.later_s < 0 for column in times.values()], axis=0)
        count(f"jobs with a time in an hour that the clock repeats ({self.zone}): the first that fits is taken", either)
        count(f"jobs with a time that the clock skips ({self.zone}; is it their time zone?)", neither)
        if self.zone == "UTC":
            count(NO_ZONE, np.any([column.bare for column in times.values()], axis=0))
        requested_s = np.asarray(columns["requested_s"])
        partition = requested_s == PARTITION_LIMIT
        limit = self.partition_limit_s
        unread = (requested > LARGEST) | ((requested < 0) & ("requested_procs" in titles))
        for reason, rows in (
            (f"jobs whose {title['requested_procs']} is not understood: no requested processors", unread),
            (f"jobs with {title['requested_s']} UNLIMITED: no requested time", requested_s == UNLIMITED),
            (f"jobs whose {title['requested_s']} is not understood: no requested time", requested_s == ODD),
            (f"jobs whose {title['requested_s']} is empty or 0: no requested time", requested_s == 0),
            (f"jobs whose {title['requested_s']} is beyond 2^32 s: no requested time", requested_s > LAST_S),
            (
                PARTITIONS
                + ("no requested time; state it with --partition-limit" if limit is None else f"taken as {limit:g} s"),
                partition,
            ),
            *guessed.items(),
        ):
            count(reason, rows)
        requested_s = np.where(partition & (limit is not None), limit or 0, requested_s)
        eligible_s = np.zeros(len(valid), np.int64)
        if "eligible_s" in columns:
            eligible_s = _in_order(times["submit_s"], columns["eligible_s"])[1]
            stated = "eligible_s" in titles
            for what, rows in (
                ("is not understood", eligible_s < 0),
                ("is after their start", ran & (eligible_s > start_s)),
                ("is unknown, and which ran", ran & (eligible_s == 0) & stated),
            ):
                count(f"jobs whose {title['eligible_s']} {what}: eligible when submitted", rows)
        held = (eligible_s > submit_s) & (eligible_s <= np.where(ran, start_s, end_s))
        kept: dict[str, NDArray[Any]] = {
            **columns,
            "eligible_s": np.where(held, eligible_s, 0),
            "submit_s": submit_s,
            "start_s": start_s,
            "end_s": end_s,
            "requested_s": np.where((requested_s > 0) & (requested_s <= LAST_S), requested_s, 0),
            "procs": np.where(unknown, requested, np.where((procs > 0) & (procs <= LARGEST), procs, -1)),
            "requested_procs": np.where(known, requested, -1),
        }
        self.jobs.add({name: column[valid] for name, column in kept.items()})


def _in_order(*columns: Times) -> tuple[NDArray[np.int64], ...]:
    """The times, of which those in a repeated hour are read as the first that does not precede the time before."""
    found: list[NDArray[np.int64]] = []
    last_s = np.zeros(len(columns[0].seconds), np.int64)
    for column in columns:
        seconds = column.seconds
        later = (column.later_s > 0) & (seconds > 0) & (seconds < last_s) & (seconds + column.later_s >= last_s)
        found.append(np.where(later, seconds + column.later_s, seconds))
        last_s = np.maximum(last_s, found[-1])
    return tuple(found)


@dataclass(slots=True)
class Key:
    """The number of each name, by kind; numbers start at 1 in the order of first submission."""

    numbers: dict[str, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in NAMES})

    @classmethod
    def load(cls, path: Path | None) -> Key:
        """The key in a file that `save` wrote, or an empty one if there is no file."""
        key = cls()
        if path is None or not path.exists():
            return key
        try:
            with readable(path) as file:
                found = orjson.loads(file.read())
            for kind, names in key.numbers.items():
                names.update({str(name): int(number) for name, number in found[kind].items()})
                if sorted(names.values()) != list(range(1, len(names) + 1)):
                    raise ValueError(f"the numbers of {kind} are not 1, 2, ...")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"{path}: not a key that batfill wrote ({error}); name another file") from None
        return key

    def save(self, path: Path) -> None:
        with raw_file(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(orjson.dumps(self.numbers, option=orjson.OPT_INDENT_2))


class ClusterLog:
    """The jobs of an importer as an SWF log, numbered by submission, of which any part can be had at a time."""

    def __init__(
        self,
        reading: Reading,
        *,
        source: str,
        anonymise: bool = False,
        key: Key | None = None,
        procs: int | None = None,
        computer: str = "unknown",
    ) -> None:
        """Order the jobs and number their names.

        `source` and `computer` are for the header, which explains the numbers of `PERSONAL` names unless they are to be
        hidden. New names are added to `key`. The machine's size is by default the most processors in use at once.
        """
        jobs = reading.jobs
        why = reading.reasons(examples=True)
        ran = (jobs["start_s"] > 0) & (jobs["end_s"] > jobs["start_s"])
        if not ran.any():
            what = f"none of its {len(jobs)} jobs ran for a second or more" if len(jobs) else "no finished job in it"
            raise WorkloadError(f"{source}: {what}{f' ({why})' if why else ''}; check the command that made it")
        self.jobs = jobs
        most = most_held(*(jobs[name][ran] for name in ("start_s", "end_s", "procs")))
        size = procs if procs is not None else most
        self._amounts = jobs.takes.table()
        codes = jobs["takes"]
        self.stated = {name: int((column > 0)[codes].sum()) for name, column in self._amounts.items()}
        if joules := int(((jobs["joules"] > 0) & ran).sum()) if "joules" in jobs.columns else 0:
            self.stated[WATTS] = joules
        self._submit_s = np.maximum(jobs["submit_s"], jobs["eligible_s"])
        self._order = np.argsort(self._submit_s, kind="stable")
        self._first_s = int(jobs["submit_s"].min())
        key = Key() if key is None else key
        self._numbers = {kind: self._numbered(kind, key) for kind in NAMES}
        used = {kind: set(numbers.tolist()) for kind, numbers in self._numbers.items()}
        held = jobs["eligible_s"] > jobs["submit_s"]
        reading.held = self._held = int(held.sum())
        reading.held_s = float((jobs["eligible_s"][held].astype(np.int64) - jobs["submit_s"][held]).sum())
        others = [
            f"{count:,} of {len(jobs):,} jobs {what}{NOT_MODELLED}{' without --pool gpu=N' * (what == HAD_GPUS)}"
            for what, count in reading.unmodelled.items()
            if count
        ]
        if (partitions := len(used["partition"] - {-1})) > 1:
            others.append(f"the jobs are of {partitions} partitions, which are not modelled: one machine")
        self.warnings: list[str] = []
        if size < most:
            self.warnings.append(f"the records use up to {most:,} processors at once, --procs is {size:,}")
        needed = np.where(jobs["requested_procs"] > 0, jobs["requested_procs"], jobs["procs"])
        columns = (self._submit_s[ran], (jobs["end_s"] - jobs["start_s"])[ran], needed[ran])
        self.notes = [*reading.lines(), *others, *self.warnings]
        self.warnings += size_warnings(*columns, size)  # which readers of the log find again
        self.summary = [*reading.lines(examples=True), *others]  # what an anonymous log's header must not hold
        if self.stated:
            stated = ", ".join(f"{name} {count:,}" for name, count in self.stated.items())
            self.summary.append(f"what pools can limit, and how many of the {len(jobs):,} jobs take some: {stated}")
        self.header = [
            "Version: 2.2",
            f"Computer: {' '.join(computer.split())}",
            f"Conversion: batfill {__version__} workload import, from {source}",
            f"MaxJobs: {len(jobs)}",
            f"MaxRecords: {len(jobs)}",
            f"UnixStartTime: {self._first_s}",
            f"TimeZoneString: {reading.zone}",
            *([f"MaxProcs: {size}"] if size else []),
            *(["Note: MaxProcs is the most processors seen in use at once"] if size and procs is None else []),
        ]
        for kind in PUBLIC if anonymise else (*PUBLIC, *PERSONAL):
            self.header += [
                f"{kind.capitalize()}: {number} {' '.join(name.split())}"
                for name, number in key.numbers[kind].items()
                if number in used[kind]
            ]
        self.header += [f"{FIELD_19}: {FIRST_SUBMIT}, the submission by the user"] if self._held else []
        self.header += [f"Note: {note}" for note in self.notes]
        self.comments = tuple(Comment(0, f"; {text}") for text in self.header)

    def __len__(self) -> int:
        return len(self.jobs)

    def _numbered(self, kind: str, key: Key) -> NDArray[np.int32]:
        """The key's number of each name, by its code, -1 for none, and for one that no job has; new ones are added."""
        names, known = list(self.jobs.names[kind]), key.numbers[kind]
        numbers = np.full(len(names), -1, np.int32)
        found, first = np.unique(self.jobs[kind][self._order], return_index=True)
        for code in filter(None, found[np.argsort(first)].tolist()):
            numbers[code] = known.setdefault(names[code], len(known) + 1)
        return numbers

    def piece(self, part: slice) -> SwfLog:
        """These jobs, each submitted when it could start; if any was by its user before, that is a column, too."""
        at = self._order[part]
        column = {name: self.jobs[name][at].astype(np.int64) for name in TYPES}
        submit_s, start_s, end_s = self._submit_s[at].astype(np.int64), column["start_s"], column["end_s"]
        left_s = np.where(start_s > 0, start_s, end_s)  # never started: it waited until it was removed
        piece = new_log(
            (),
            {
                "job": np.arange(part.start + 1, part.start + 1 + len(at)),
                "submit_s": submit_s - self._first_s,
                "wait_s": np.maximum(left_s - submit_s, 0),
                "runtime_s": end_s - left_s,
                "procs": column["procs"],
                "requested_procs": column["requested_procs"],
                "requested_s": np.where(column["requested_s"] > 0, column["requested_s"], -1),
                "status": column["status"],
                **{kind: self._numbers[kind][column[kind]] for kind in NAMES},
            },
        )
        piece = with_amounts(piece, self.amounts(at))
        rows, fields = piece.rows, piece.fields
        if self._held:
            rows = np.column_stack((rows, column["submit_s"] - self._first_s))
            fields = (*fields, FIRST_SUBMIT)
        lines = piece.lines + part.start + len(self.header)
        return replace(piece, rows=rows, lines=lines, fields=fields)

    def amounts(self, at: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """What these jobs take, and the power that they drew on average, (n,) by name."""
        found = {name: column[self.jobs["takes"][at]] for name, column in self._amounts.items()}
        if WATTS in self.stated:
            joules, start_s, end_s = (self.jobs[name][at].astype(float) for name in ("joules", "start_s", "end_s"))
            run_s = np.where(start_s > 0, end_s - start_s, 0)
            found[WATTS] = np.where((joules > 0) & (run_s > 0), np.round(joules / np.maximum(run_s, 1), 3), np.nan)
        return found

    def pieces(self) -> Iterator[SwfLog]:
        for start in range(0, len(self), ROWS_AT_ONCE):
            yield self.piece(slice(start, min(start + ROWS_AT_ONCE, len(self))))

    def log(self) -> SwfLog:
        return replace(self.piece(slice(0, len(self))).only(FIELDS), comments=self.comments)


def require_known(kind: str, chosen: frozenset[str], names: Names) -> None:
    known = sorted({part for name in names for part in name.split(",")} - {""})
    if missing := sorted(chosen.difference(known)):
        have = f"they are of {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}" if known else "none has one"
        raise WorkloadError(f"no record of {kind} {missing[0]}; {have}")
