"""A replay with all options that stops at any instant, forks, and is saved.

The file of a saved replay holds what it was given and how far it had gone, and nothing of what the engine has made of
it: `Replay.load` replays the jobs up to there. So kernels see only what was checked as for any replay.
"""

from __future__ import annotations

import json
import math
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import loaded_json, place_of, readable, whole_file
from batfill.base.progress import patient_progress
from batfill.base.tables import JobRows
from batfill.base.words import instant
from batfill.model.jobs import Cancelled, Clock, Jobs, Overrun, checked_size
from batfill.model.limits.calendar import Calendar
from batfill.model.limits.gate import Gate
from batfill.model.metrics import TAU_S, Summary
from batfill.model.options import REQUEST, Options, arguments_of, of_arguments
from batfill.model.policy import Policy
from batfill.model.values import is_finite, one_of, seconds_of, speed_given, tau_of, unrequested_of
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.replay import options_of, prepared
from batfill.replays.result import Result, until_of
from batfill.workloads import opened

if TYPE_CHECKING:
    from typing import Self, Unpack

    import pyarrow as pa
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from batfill.model.arguments import Arguments
    from batfill.model.jobs import Unrequested
    from batfill.replays.plots import Plot

SAVED_FORMAT = "batfill replay 28"
FILES = {"calendar": Calendar.of, "backfill_while": Gate.of}  # arguments whose rows are saved, and what reads them
# The columns of a job table in a file, with their types. A value for each job; those that may be None may be missing.
OF_JOBS = {
    "ids": "U",
    **dict.fromkeys(("submit_s", "runtime_s", "walltime_s", "request_s"), "f8"),
    **dict.fromkeys(("procs", "user"), "i8"),
    "job_class": "i1",
    **dict.fromkeys(("asked", "killable", "urgent", "computing", "fails"), "b1"),
    **dict.fromkeys(("waited_s", "cancel_after_s"), "f8"),
    "amounts": "V",
}
FLAGS = ("own_end", "outlives")
OPTIONAL = {f.name for f in fields(Jobs) if f.default is None}
ORDERS = ("policy", "backfill")  # the options that are policies
CHANGEABLE = (*ORDERS, "threshold_s")  # the fields of options that may change in a run


class Replay(JobRows):
    """A replay that can stop at any instant, be inspected, copied, given other rules, saved, and continued.

    Before the end, figures and tables cover the jobs that have ended, and say so.

    Examples:
        >>> run = Replay("workloads/sample.json", "saf").run(until_s=100_000)
        >>> run.ended, len(run.running), len(run.waiting)
        (False, 6, 2)
        >>> other = run.fork(policy="wfp3").run()
        >>> other.ended, run.ended
        (True, False)
    """

    def __init__(
        self,
        log: Jobs | str | Path,
        policy: Policy | str | None = None,
        *,
        procs: int | None = None,
        tau_s: float = TAU_S,
        overrun: Overrun | None = None,
        unrequested: Unrequested | None = None,
        cancelled: Cancelled | None = None,
        **options: Unpack[Arguments],
    ) -> None:
        """Set up the replay on an empty machine; the arguments are those of `replay`.

        Raises:
            BatfillError: as `replay`; also with options that learn run times during the run, which cannot stop.
        """
        self.options, self.tau_s = options_of(policy, options), tau_of(tau_s)
        if self.options.learns:
            name = "small" if self.options.predict == REQUEST else "predict"
            raise BatfillError(
                f"option {name}: {getattr(self.options, name)} learns during the run, so it cannot stop; use `replay`, "
                "or small all with a duration as divider"
            )
        self.workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested, cancelled=cancelled)
        self.workload = self.workload.with_read(self.options.fields)
        self.options.require_classes(self.workload.jobs, self.workload.name)
        self.changes: tuple[tuple[float, Options], ...] = ()
        self.forked_s: float | None = None  # where a fork left its original
        self.simulate_s = 0.0
        jobs = prepared(self.options, self.workload.jobs, self.workload.name)
        small = self.options.calls_small(jobs.job_class, jobs.procs, size)
        self.engine = EngineReplay(jobs, size, self.options.on(self.workload, jobs).rules, small=small)

    # Going on

    def run(self, until_s: float = math.inf) -> Self:
        """Process every instant up to and including `until_s`; by default all.

        Args:
            until_s: seconds since the workload's origin.

        Raises:
            BatfillError: it is before the last instant processed, or nan.
        """
        until_s = until_of("until_s", until_s, self.workload.clock)
        if not until_s >= self.now_s:
            raise BatfillError(f"until_s: {until_s!r} is not a number of seconds >= {self.now_s:g}, the run's now_s")
        self.__dict__.pop("_result", None)
        began = time.perf_counter()
        with patient_progress("replaying"):
            self.engine.advance(until_s)
        self.simulate_s += time.perf_counter() - began
        return self

    def fork(self, policy: Policy | str | None = None, **options: Unpack[Arguments]) -> Replay:
        """A copy that continues independently from here, under other rules if given; this run is not changed.

        Args:
            policy: the order from the next decision on; None for the current one.
            **options: `backfill` and `threshold_s`, from the next decision on; math.inf means no threshold.

        Raises:
            BatfillError: an option is unknown, unusable, or not one of these two.
        """
        given = {name: value for name, value in options.items() if value is not None}
        if other := [name for name in given if name not in CHANGEABLE[1:]]:
            of_arguments(given)
            raise BatfillError(f"argument {other[0]!r}: only policy, backfill and threshold_s may change in a run")
        wanted = options_of(self.options.policy if policy is None else policy, given)
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.__dict__.pop("_result", None)
        copied.engine = self.engine.fork()
        copied.forked_s = self.now_s
        if policy is None and not given:
            return copied
        copied._change(
            policy=wanted.policy,
            backfill=wanted.backfill if "backfill" in given else self.options.backfill,
            threshold_s=wanted.threshold_s if "threshold_s" in given else self.options.threshold_s,
        )
        return copied

    def _change(self, **values: Any) -> None:
        """Follow other rules from the next decision on: these fields of the options are changed."""
        self.changes = (*self.changes, (self.now_s, self.options))
        self.options = replace(self.options, **values)
        self.engine.change_rules(self.options.sized(self.engine.size).rules)

    # What there is to see

    @property
    def now_s(self) -> float:
        """The last instant processed, in seconds since the workload's origin; 0 before the first."""
        return self.engine.now_s

    @property
    def next_s(self) -> float:
        """The next instant with an event; inf if there is none."""
        return self.engine.next_s

    @property
    def ended(self) -> bool:
        """Whether no events are left."""
        return self.next_s == math.inf

    @property
    def waiting(self) -> Jobs:
        """The waiting jobs, oldest first."""
        return self.workload.jobs.select(np.sort(self.engine.queue.waiting_rows))

    @property
    def running(self) -> Jobs:
        """The running jobs, in order of submission; `result().to_pandas()` has their starts."""
        return self.workload.jobs.select(np.sort(self.engine.queue.running_rows))

    @property
    def free(self) -> int:
        """The idle processors."""
        return self.engine.queue.free

    def result(self) -> Result:
        """The result so far."""
        return self._result

    @cached_property
    def _result(self) -> Result:
        schedule = self.engine.schedule()
        figures = schedule.summary(self.tau_s)
        return Result(self.workload, self.options, schedule, self.tau_s, figures, self.simulate_s, changes=self.changes)

    @property
    def figures(self) -> Summary:
        """The figures over the jobs that have ended; `ended` says whether these are all."""
        return self.result().figures

    def __len__(self) -> int:
        return len(self.workload.jobs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """As `Result.columns`, so far."""
        return self.result().columns()

    @property
    def kept(self) -> Mapping[str, NDArray[Any]]:
        """As `Result.kept`, so far."""
        return self.result().kept

    def about(self) -> dict[str, Any]:
        """As `Result.about`."""
        return self.result().about()

    def to_arrow(self) -> pa.Table:
        """As `Result.to_arrow`, so far."""
        return self.result().to_arrow()

    def plot(
        self, kind: Plot = "waits", axes: Axes | None = None, *, from_s: float = 0.0, until_s: float = math.inf
    ) -> Axes:
        """As `Result.plot`, so far."""
        return self.result().plot(kind, axes, from_s=from_s, until_s=until_s)

    def rows(self) -> list[tuple[str, str]]:
        """The state of the run and the figures so far, as rows of (label, text)."""
        busy = int(self.engine.queue.running["procs"].sum())
        here = f"{len(self.waiting):,} jobs waiting, {len(self.running):,} running on {busy:,} processors"
        now = f"{instant(self.now_s)}, {here}"
        forked = [] if self.forked_s is None else [("fork", f"of a replay at {instant(self.forked_s)}")]
        return [("now", now), *forked, *self.result().rows()]

    # Kept in a file

    def save(self, path: str | Path) -> None:
        """Write the run's state, including its workload, to one file (NumPy's .npz; contains no code)."""
        workload, rules = self.workload, self.engine.queue.rules
        files = {name: one for name in FILES if (one := getattr(rules, name)) is not None}
        options = [*(options for _, options in self.changes), self.options]
        dates = [*(until_s for until_s, _ in self.engine.past), self.engine.until_s]
        about = {
            "name": workload.name,
            "digest": workload.digest,
            "notes": list(workload.notes),
            "clock": workload.clock.as_dict() if workload.clock else None,
            "overrun": workload.overrun,
            "unrequested": workload.unrequested,
            "cancelled": workload.cancelled,
            "speed": workload.speed,
            "procs": workload.size,
            "tau_s": self.tau_s,
            "simulate_s": self.simulate_s,
            "forked_s": self.forked_s,
            "files": {name: {"rows": one.rows, "name": one.name, "digest": one.digest} for name, one in files.items()},
            "steps": [[until_s, one.as_dict()] for until_s, one in zip(dates, options, strict=True)],
            "found": digest_of(self.engine),
        }
        write_run(place_of("path", path), replace(workload.jobs, urgent=self.engine.table.urgent), about)

    @classmethod
    def load(cls, path: str | Path, policies: Iterable[Policy] = ()) -> Replay:
        """The run saved in this file; it continues with results identical to the last byte.

        The workload is replayed up to where the run was, which takes as long as it took then.

        Args:
            path: the file.
            policies: the run's custom policies; the others are found by name.

        Raises:
            BatfillError: the file is not as `save` wrote it, or a policy is unknown, or is not the one of that name.
        """
        path = place_of("path", path)
        if not (isinstance(policies, Iterable) and all(isinstance(one, Policy) for one in policies)):
            raise BatfillError(f"policies: {policies!r:.60} are not policies; give a list of them")
        own = {policy.name: policy for policy in policies}
        jobs, about = read_run(path)
        try:
            given = {name: FILES[name](**about["files"][name]) for name in about["files"]}
            (until_s, first), *later = (
                (end_of(until_s), {**stated, **{name: own.get(stated[name], stated[name]) for name in ORDERS}})
                for until_s, stated in about["steps"]
            )
            workload = jobs.stating(
                name=str(about["name"]),
                size=checked_size(path, about["procs"]),
                digest=str(about["digest"]),
                notes=tuple(map(str, about["notes"])),
                clock=Clock.of(about["clock"]) if about["clock"] else None,
                overrun=cast("Overrun", one_of("overrun", about["overrun"], get_args(Overrun))),
                unrequested=cast("Unrequested", unrequested_of("unrequested", about["unrequested"])),
                cancelled=cast("Cancelled", one_of("cancelled", about["cancelled"], get_args(Cancelled))),
                speed=None if about["speed"] is None else speed_given("speed", about["speed"]),
            )
            options = {**arguments_of(first), **given}
            run = cls(workload, tau_s=about["tau_s"], **cast("Any", options))
            run.engine.advance(until_s)
            for until_s, stated in later:
                if not until_s >= run.engine.until_s:
                    raise ValueError("a step's date")
                changed = options_of(None, {**arguments_of(stated), **given})
                run._change(**{name: getattr(changed, name) for name in CHANGEABLE})
                run.engine.advance(until_s)
            run.simulate_s = seconds_of("simulate_s", about["simulate_s"])
            run.forked_s = None if about["forked_s"] is None else seconds_of("forked_s", about["forked_s"])
            found = about["found"]
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise wrong(path, str(error)) from None
        if digest_of(run.engine) != found:
            raise BatfillError(
                f"{path}: the replay had found other starts when it was saved; load it with the policies and the "
                "version of batfill that it was saved with, or run it again from the workload"
            )
        return run


def digest_of(run: EngineReplay) -> str:
    return sha256(b"".join(array.tobytes() for array in (run.start_s, run.tries, run.kills))).hexdigest()


def end_of(until_s: Any) -> float:
    """The date of a saved step up to which rules held; ValueError if it is none."""
    if not is_finite(until_s) and until_s not in (math.inf, -math.inf):
        raise ValueError("a step's date")
    return float(until_s)


def write_run(path: Path, jobs: Jobs, about: Mapping[str, Any]) -> None:
    """Write jobs and what is JSON about their replay to one file (NumPy's .npz; contains no code)."""
    columns = {name: getattr(jobs, name) for name in OF_JOBS}
    columns["ids"] = np.array(jobs.ids.tolist(), np.str_)
    stated = json.dumps({**about, **{name: getattr(jobs, name) for name in FLAGS}})
    with whole_file(path) as stream:
        given: dict[str, Any] = {name: column for name, column in columns.items() if column is not None}
        np.savez(stream, format=SAVED_FORMAT, about=stated, **given)


def read_run(path: Path) -> tuple[Jobs, dict[str, Any]]:
    """The jobs in the file that `write_run` wrote, and what is about their replay, which is not checked."""
    try:
        with readable(path) as stream, np.load(stream, allow_pickle=False) as stored:
            arrays: dict[str, NDArray[Any]] = {name: np.asarray(stored[name]) for name in stored.files}
    except (
        *(OSError, ValueError, TypeError, AttributeError, EOFError, KeyError, NotImplementedError, MemoryError),
        *(SyntaxError, TokenError, RuntimeError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise BatfillError(f"{path}: cannot be read as a saved replay ({error!s:.200}); save it again") from None
    if str(arrays.get("format")) != SAVED_FORMAT:
        raise BatfillError(
            f"{path}: is not a saved replay of this version ({SAVED_FORMAT}); run it again from the workload"
        )
    shape = (arrays["ids"].size if "ids" in arrays else 0,)
    for name, kind in OF_JOBS.items():
        if name not in arrays:
            if name not in OPTIONAL:
                raise wrong(path, f"{name} is missing")
            continue
        array = arrays[name]
        if array.shape != shape or (array.dtype.kind if kind in "UV" else array.dtype) != kind:
            raise wrong(path, f"{name} is of type {array.dtype} and shape {array.shape}")
    try:
        about = loaded_json(str(arrays["about"]))
        flags = {name: bool(about[name]) for name in FLAGS}
    except (KeyError, ValueError, TypeError) as error:
        raise wrong(path, str(error)) from None
    columns: dict[str, Any] = {name: arrays.get(name) for name in OF_JOBS}
    return Jobs(**{**columns, "ids": columns["ids"].astype(object), **flags}, source=str(path)), about


def wrong(path: Path, what: str) -> BatfillError:
    return BatfillError(f"{path}: was changed after it was saved ({what:.200}); run it again from the workload")
