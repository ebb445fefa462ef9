"""Whatever is killed with SIGKILL, at whatever message: nothing hangs, and nothing wrong or running is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import fake_processes
import kill_between
from command import COMPILING, KILLS, free_port

HERE = Path(__file__).parents[1]
LIMIT_S = 180  # the first scheduler may compile
JOBS = 20
# One message for each: the beginning, a submission, an end, that no job will follow, and the end.
MESSAGES = 1 + JOBS + JOBS + 1
WRITTEN = {"out_jobs.csv", "out_schedule.csv", "out_machine_states.csv"}
STATUS = {"scheduler": 2, "simulator": 2, "runner": -9, "none": 0}


class Pair:
    """A folder with a descriptor, in which one run follows the other."""

    def __init__(self, folder):
        self.folder = folder
        self.tag = uuid.uuid4().hex
        self.out = folder / "out"
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        jobs = [
            # Ends have odd dates, submissions even ones; every third job is wide, so that some wait.
            {"id": str(i), "subtime": 10 * i, "res": 1 + 3 * (i % 3 == 2), "walltime": 100, "profile": f"p{i}"}
            for i in range(JOBS)
        ]
        profiles = {f"p{i}": {"type": "delay", "delay": 31 + 2 * (i % 5) + 0.01 * i} for i in range(JOBS)}
        (folder / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
        subprocess.run([sys.executable, "-m", "batfill", "platform", "4", "--out", folder / "p.xml"], check=True)

    def run(self, victim="none", message=0, moment="question"):
        """Run the pair, and kill the victim at this moment of this message; returns the exit status and stderr."""
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        between = [sys.executable, HERE / "kill_between.py", endpoint, victim, message, moment]
        keys = {
            "batcmd": f"batsim -p p.xml -w w.json -e out/out -s {endpoint}",
            "output-dir": "out",
            "schedcmd": f"{' '.join(map(str, between))} batfill schedule --policy saf -s {kill_between.INNER}",
            "simulation-timeout": LIMIT_S,
            "ready-timeout": 5,
            "success-timeout": 10,
            "failure-timeout": 0.2,
        }
        (self.folder / "e.yaml").write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in keys.items()))
        command = [sys.executable, "-m", "batfill", "run", "e.yaml", "--simulator", "embedded", "--json"]
        env = {**os.environ, "TMPDIR": str(self.scratch), "BATFILL_TEST": self.tag}
        process = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        self.assert_all_ended()
        texts = [process.stderr, *(log.read_text() for log in (self.out / "log").iterdir())]
        assert "Traceback" not in "".join(texts)
        return process.returncode, process.stdout, process.stderr

    def assert_all_ended(self):
        """No process of the run is left after 20 s."""
        until = time.monotonic() + 20
        while left := fake_processes.processes_with("BATFILL_TEST", self.tag):
            assert time.monotonic() < until, left
            time.sleep(0.02)

    def results(self):
        """The result files under their final names: the rows of each."""
        paths = [path for path in self.out.iterdir() if path.is_file() and not path.name.startswith(".")]
        return {path.name: path.read_text().splitlines(keepends=True) for path in paths}


# The moments of every victim: the scheduler's last answer is not one, since it ends by itself after it.
MOMENTS = [(message, moment) for message in range(1, MESSAGES + 1) for moment in ("question", "answer")][:-1]
# One turn for two of BATFILL_KILLS: `BATFILL_KILLS=200 make test ARGS="-m slow -k any_message"` tries every moment.
TURNS = min(max(KILLS // 2, 1), len(MOMENTS))


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(TURNS))
def test_a_pair_of_which_one_is_killed_at_any_message_ends_and_leaves_nothing_to_the_next(tmp_path, turn):
    pair = Pair(tmp_path)
    begun = {}
    for shift, victim in enumerate(("scheduler", "simulator", "runner")):
        place = (2 * turn + 1) * len(MOMENTS) // (2 * TURNS) + shift * len(MOMENTS) // 3
        message, moment = MOMENTS[place % len(MOMENTS)]
        here = f"{victim} killed at the {moment} of message {message}"
        status, out, err = pair.run(victim, message, moment)
        assert (status, out) == (STATUS[victim], ""), (here, err)
        if victim == "runner":
            assert err == "", here
        else:
            (line,) = (line for line in err.splitlines() if not line.startswith(COMPILING))
            assert line.startswith(f"batfill: the {victim} ended with status 137 (SIGKILL) after "), here
            assert json.loads((pair.out / "run.json").read_text())["exit"] == status, here
        found = pair.results()
        # A simulator that loses its scheduler keeps the results so far.
        allowed = {"scheduler": WRITTEN | {"run.json"}, "simulator": {"run.json"}, "runner": set()}[victim]
        assert set(found) <= allowed, here
        assert victim == "runner" or not list(pair.out.glob(".*")), here
        begun[here] = found.get("out_jobs.csv", [])

    status, out, err = pair.run()
    assert (status, err) == (0, "")
    assert json.loads(out)["jobs"] == JOBS
    assert {path.name for path in pair.out.iterdir()} == WRITTEN | {"run.json", "cmd", "log"}
    assert list(pair.scratch.iterdir()) == []
    assert (pair.out / "log/sched.out.log").read_text().split() == [str(MESSAGES)]
    rows = pair.results()["out_jobs.csv"]
    assert {here: lines == rows[: len(lines)] for here, lines in begun.items()} == dict.fromkeys(begun, True)
