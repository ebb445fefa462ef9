"""Lets a batcmd written for Batsim 4 start Batsim 5: its options are translated, its workloads and events rewritten.

Run as a program, `python -m batfill.runner.translation ARGUMENT...` stands for `batsim` in a run: it becomes
Batsim 5, with the same arguments if they are version 5's, and with translated ones if they are version 4's. The
environment's
variable `VARIABLE` has its `Whereabouts`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import file_bytes, write_text
from batfill.simulator.command_line import ArgumentsError, BatsimOptions, form_of, parse_arguments
from batfill.simulator.wire import FEATURES
from batfill.workloads.convert import rewrite_for_batsim_5

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

VERSION_TIMEOUT_S = 10.0
VARIABLE = "BATFILL_BATSIM5"
PROGRAM = "batfill.runner.translation"  # of Python
FORMER_MASTER = "master_host"  # version 4's default
VERBOSITY = {"quiet": "quiet", "network-only": "info", "information": "info", "debug": "debug"}
NUMBERING = (
    "Batsim 5 numbers the hosts by the numbers in their names, node2 before node10, Batsim 4 by the names as text: "
    "machine ids in the results may differ"
)
# Options of version 4 that the embedded Batsim refuses, and version 5's of the same meaning.
PASSED_ON = {"--sg-cfg": "--sg-cfg", "--sg-log": "--sg-log"}
# With these Batsim prints something, and simulates nothing.
PRINTING = {"-h", "--help", "--version", "--simgrid-version"}


class Whereabouts(NamedTuple):
    """Where things are, for the program."""

    words: list[str]  # that start Batsim 5
    folder: str  # for rewritten files
    report: str  # the file for what was done, a `Translation`

    @property
    def variable(self) -> str:
        """The text of the environment's variable."""
        return json.dumps(self._asdict())


class Translation(NamedTuple):
    """A command line of Batsim 5 for one of version 4, as the program reports it."""

    words: Sequence[str] = ()  # none if there was nothing to translate
    notes: Sequence[str] = ()  # what differs from version 4's, one line each
    features: Sequence[str] = ()  # of the hello, for which the command line has version 4's options

    @classmethod
    def reported(cls, report: Path) -> Translation:
        """What this file says; nothing if there is none."""
        try:
            return cls(**json.loads(report.read_bytes()))
        except (OSError, ValueError):
            return cls()

    def requested(self, features: Collection[str] | None) -> str:
        """What became of the options that are features now, in words.

        Args:
            features: those that the scheduler requested; None if it has not said which.
        """
        options = ", ".join(feature.option for feature in FEATURES if feature.hello in self.features)
        if features is None:
            return f"{options}: under Batsim 5 the scheduler decides what it requests; see its own log"
        left_out = [feature for feature in self.features if feature not in features]
        words = f"{options}: under Batsim 5 the scheduler decides, and it requested {', '.join(features) or 'none'}"
        return words + (f" and not {', '.join(left_out)}" if left_out and features else "")


def major_version(words: Sequence[str], env: Mapping[str, str]) -> int | None:
    """The major version of this Batsim, 4 or 5, as its --version says; None if it does not say.

    Args:
        words: the command that starts it, without arguments.
        env: its environment.
    """
    try:
        done = subprocess.run(
            [*words, "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=VERSION_TIMEOUT_S,
            env=dict(env),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?([0-9]{1,4})\.\d+", done.stdout)
    return int(found[1]) if found else None


def refuse(options: BatsimOptions) -> None:
    """Refuse options of version 4 for which version 5 has nothing that does the same.

    Raises:
        ArgumentsError: there is one.
    """
    if not options.scheduler:
        raise ArgumentsError("--no-sched: Batsim 5 has none; give the run a scheduler")
    if options.settings.share_compute or not options.settings.share_storage:
        raise ArgumentsError(
            "--enable-compute-sharing, --disable-storage-sharing: Batsim 5 ignores them; leave them out"
        )


def translated(options: BatsimOptions, folder: Path) -> Translation:
    """Version 5's arguments for these of version 4; writes the workloads and events in version 5's form to `folder`.

    Raises:
        BatfillError: a file cannot be used.
    """
    notes = [NUMBERING]
    if options.split_events is not None:
        notes.append("--split-events is the embedded Batsim's, and ignored")
    words = ["-p", str(options.platform)]
    for number, workload in enumerate(options.workloads):
        written = folder / f"w{number}.batsim5.json"
        changes = rewrite_for_batsim_5(workload, written, workload=f"w{number}")
        notes.append("; ".join([f"{workload} was rewritten in Batsim 5's form, {written}", *changes]))
        words += ["-w", str(written)]
    for number, events in enumerate(options.events):
        words += ["--ee", str(rewritten_events(events, folder / f"events{number}.batsim5.txt", notes))]
    words += ["-e", prefix(options), "-s", options.socket_endpoint, options.settings.sched_config]
    if options.master_host != FORMER_MASTER:
        words += ["-m", options.master_host]
    for host, role in options.roles.items():
        words += ["-r", host, role]
    if options.mmax:
        words += ["--mmax", str(options.mmax)]
    if options.mmax_workload:
        words.append("--mmax-workload")
    if options.machine_states:
        words.append("--trace-machine-state")
        notes.append("5.0.0-rc2 writes wrong machine states: utilisation is computed from the jobs")
    if options.energy:
        words.append("--energy-host")
    features = tuple(feature.hello for feature in FEATURES if getattr(options.settings, feature.setting))
    return Translation([*words, *options.passed_on, "-v", VERBOSITY[options.verbosity]], notes, features)


def prefix(options: BatsimOptions) -> str:
    """Version 5's prefix of the files that version 4 would write; nothing comes between it and their names."""
    return f"{options.export}_"


def rewritten_events(events: Path, written: Path, notes: list[str]) -> Path:
    """Write version 4's external events as generic ones, with the event's JSON as data; returns the file.

    Raises:
        WorkloadError: a line is not an event.
    """
    lines = []
    try:
        stored = file_bytes(events).splitlines()
    except OSError as error:
        raise WorkloadError(f"{events}: {(error.strerror or str(error)).lower()}; check the path") from None
    for number, line in enumerate(stored, 1):
        if not line.strip():
            continue
        try:
            event = orjson.loads(line)
            date, kind = event["timestamp"], event["type"]
        except (orjson.JSONDecodeError, TypeError, KeyError):
            raise WorkloadError(f"{events}: line {number}: no event with a timestamp and a type; fix it") from None
        if kind == "generic":
            return events
        data = {name: value for name, value in event.items() if name != "timestamp"}
        lines.append(json.dumps({"type": "generic", "timestamp": date, "data": json.dumps(data)}))
    write_text(written, "".join(f"{line}\n" for line in lines))
    notes.append(f"{events} was rewritten as generic events: {written}")
    return written


def become_batsim(arguments: Sequence[str], place: Whereabouts) -> None:
    """Become Batsim 5, or answer --dump-execution-context as it would if the arguments are version 4's.

    Raises:
        BatfillError: the arguments cannot be translated, or a file cannot be used.
    """
    if form_of(arguments) == 5 or not PRINTING.isdisjoint(arguments):
        os.execvp(place.words[0], [*place.words, *arguments])
    options = parse_arguments(arguments, passed_on=PASSED_ON)
    refuse(options)
    for path in (options.platform, *options.workloads):
        if not path.exists():
            raise WorkloadError(f"{path}: no such file or directory; check the path")
    if options.dump_execution_context:
        context = {"socket_endpoint": options.socket_endpoint, "export_prefix": prefix(options)}
        print(json.dumps(context, separators=(",", ":")))
        return
    done = translated(options, Path(place.folder))
    done = done._replace(words=[*place.words, *done.words])
    Path(place.report).write_text(json.dumps(done._asdict()))
    os.execvp(done.words[0], list(done.words))


if __name__ == "__main__":
    try:
        become_batsim(sys.argv[1:], Whereabouts(**json.loads(os.environ[VARIABLE])))
    except BatfillError as error:
        print(f"batfill run, for Batsim 5: {error.on_command_line}", file=sys.stderr)
        sys.exit(2)
