"""How much code a reader passes to follow one task: the files, functions and classes of batfill that it runs.

    python benchmarks/walk.py               # the two tasks
    python benchmarks/walk.py --functions   # and the names of what they pass

The tasks are `batfill replay` of 60 jobs with `--policy saf`, imports included, and one message of Batsim 4 with two
submitted jobs, of which one starts. Kernels run uncompiled, so that they count, too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

JOBS, MACHINES = 60, 4


def passed(task: Callable[[], object]) -> set[CodeType]:
    """What of batfill this task runs: functions and the bodies of classes, without comprehensions and lambdas."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            found.add(frame.f_code)

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    import batfill

    packages = Path(batfill.__file__).parents[1]
    return {code for code in found if Path(code.co_filename).is_relative_to(packages)}


def replay_task(folder: Path) -> Callable[[], object]:
    """The command `batfill replay` on a log of jobs that often wait, and that ask for more time than they need."""
    log = folder / "small.swf"
    rows = [
        f"{n} {70 * n} 0 {60 + 37 * n % 400} {1 + n % MACHINES} -1 -1 {1 + n % MACHINES} 900 -1 1 {n % 5} {'-1 ' * 6}"
        for n in range(1, JOBS + 1)
    ]
    log.write_text("\n".join([f"; MaxProcs: {MACHINES}", *rows]) + "\n")

    def task() -> None:
        from batfill.cli.app import app

        with redirect_stdout(StringIO()):
            app(["replay", str(log), "--policy", "saf"], standalone_mode=False)

    return task


def message_task() -> Callable[[], object]:
    """A message of Batsim 4: the first job fills the machine, and the second waits."""
    from batfill.live.agent import Agent
    from batfill.live.conversation import Conversation4

    talk = Conversation4(Agent({"policy": "saf"}))
    machines = [{"id": number, "name": str(number)} for number in range(MACHINES)]
    talk.answer(
        message(
            0.0,
            "SIMULATION_BEGINS",
            {
                "nb_resources": MACHINES,
                "nb_compute_resources": MACHINES,
                "nb_storage_resources": 0,
                "allow_compute_sharing": False,
                "allow_storage_sharing": True,
                "compute_resources": machines,
                "storage_resources": [],
                "workloads": {"w0": "made"},
                "profiles": {"w0": {"delay": {"type": "delay", "delay": 1}}},
                "config": {
                    "redis-enabled": False,
                    "redis-hostname": "",
                    "redis-port": 0,
                    "redis-prefix": "",
                    "profiles-forwarded-on-submission": False,
                    "dynamic-jobs-enabled": False,
                    "dynamic-jobs-acknowledged": False,
                    "profile-reuse-enabled": False,
                    "forward-unknown-events": False,
                    "sched-config": "",
                },
            },
        )
    )
    submitted = [
        {"job_id": name, "job": {"id": name, "res": MACHINES, "walltime": 60.0, "profile": "delay", "subtime": 1.0}}
        for name in ("w0!1", "w0!2")
    ]

    def task() -> None:
        answer = json.loads(talk.answer(message(1.0, "JOB_SUBMITTED", *submitted)))
        assert [event["type"] for event in answer["events"]] == ["EXECUTE_JOB"], answer

    return task


def message(now_s: float, kind: str, *events: dict[str, Any]) -> bytes:
    """A message with events of one type."""
    said = [{"timestamp": now_s, "type": kind, "data": data} for data in events]
    return json.dumps({"now": now_s, "events": said}).encode()


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="list the functions, by file")
    listed = parser.parse_args().functions
    os.environ["BATFILL_PLAIN"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        tasks = {
            f"replay of {JOBS} jobs": lambda: replay_task(Path(folder)),
            "message with two submissions and a start": message_task,
        }
        for name, prepare in tasks.items():
            found = passed(prepare())
            files = sorted({code.co_filename for code in found})
            print(f"{name}: {len(files)} files, {len(found)} functions")
            for file in files if listed else ():
                names = sorted(code.co_qualname for code in found if code.co_filename == file)
                print(f"  {file.partition('/schedulers/')[2]} ({len(names)}): {', '.join(names)}")


if __name__ == "__main__":
    main()
