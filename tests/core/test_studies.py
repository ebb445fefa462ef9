"""Whole Batsim studies of our own making: computing jobs with energy, a further resource, days in old names.

Each runs under `batfill run` over the embedded simulator, with `batfill schedule`, and with `batsched`, for which
batfill stands in; the starts are those of a replay where it has the rule.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import batfill as bf
from batfill.base.errors import installed
from batfill.batsim_files.platform import homogeneous_platform
from batfill.runner.experiment import run
from command import free_port

SPEED = 2e9
IDLE, BUSY = 95.0, 190.0
DESCRIPTOR = """\
batcmd: batsim -p platform.xml -w workload.json -e out/{name}/x -s tcp://localhost:{port} -q {options}
output-dir: out/{name}
schedcmd: {schedcmd}
simulation-timeout: 300
ready-timeout: 30
success-timeout: 30
failure-timeout: 10
"""


class Study(NamedTuple):
    """A study's folder, and what its schedulers are."""

    folder: Path
    size: int
    jobs: list[dict[str, Any]]
    profiles: dict[str, dict[str, Any]]

    def write(self) -> Study:
        """Write its workload and its platform, whose hosts say what they draw."""
        content = {"nb_res": self.size, "jobs": self.jobs, "profiles": self.profiles}
        (self.folder / "workload.json").write_text(json.dumps(content))
        prop = f'<prop id="wattage_per_state" value="{IDLE:g}:{BUSY:g}"/>'
        platform = homogeneous_platform(self.size, speed=f"{SPEED:g}")
        (self.folder / "platform.xml").write_text(re.sub("<(cluster|host)( [^>]*)/>", rf"<\1\2>{prop}</\1>", platform))
        return self

    def run(self, schedcmds: dict[str, str], options: str = "") -> dict[str, Ran]:
        """The runs with these schedulers, by name, two at a time; each takes the port {port}."""
        named = list(schedcmds.items())
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(schedcmds, pool.map(lambda one: self._run(*one, options), named), strict=True))

    def _run(self, name: str, schedcmd: str, options: str) -> Ran:
        port = free_port()
        path = self.folder / f"{name}.yaml"
        schedcmd = json.dumps(f"{schedcmd} -s tcp://127.0.0.1:{port}")
        path.write_text(DESCRIPTOR.format(name=name, port=port, schedcmd=schedcmd, options=options))
        outcome = run(path, simulator="embedded")
        assert outcome.status == 0, outcome.reason
        out = self.folder / "out" / name
        rows = {
            file.stem.removeprefix("x_"): list(csv.DictReader(file.read_text().splitlines()))
            for file in out.glob("x_*.csv")
        }
        return Ran(rows, json.loads((out / "run.json").read_text()))

    def replayed(self, policy: str = "fcfs", **options: Any) -> tuple[dict[str, float], bf.Result]:
        """The start of each job in a replay by its id, nan if it is rejected, and the replay."""
        speed = SPEED if any("cpu" in profile for profile in self.profiles.values()) else None
        result = bf.replay(self.folder / "workload.json", policy, speed=speed, **options)
        names = [name.removeprefix("w0!") for name in result.workload.jobs.ids]
        return dict(zip(names, result.schedule.start_s.tolist(), strict=True)), result


class Ran(NamedTuple):
    """A run's csv files and its record."""

    rows: dict[str, list[dict[str, str]]]
    record: dict[str, Any]

    @property
    def starts(self) -> dict[str, float]:
        """The start of each job, nan if it was rejected."""
        return {row["job_id"]: float(row["starting_time"] or "nan") for row in self.rows["jobs"]}

    @property
    def states(self) -> set[str]:
        return {row["final_state"] for row in self.rows["jobs"]}


def assert_same_starts(ours: dict[str, float], theirs: dict[str, float]) -> None:
    assert ours.keys() == theirs.keys()
    apart = [
        (name, start, theirs[name])
        for name, start in ours.items()
        if not (abs(start - theirs[name]) < 2e-6 or (math.isnan(start) and math.isnan(theirs[name])))
    ]
    assert not apart, f"{len(apart)} of {len(ours)} starts differ: {sorted(apart, key=lambda one: one[1])[:3]}"


BATSCHED = {name: f"batsched -v {name}" for name in ("easy_bf", "easy_bf_fast", "conservative_bf")}


def computing(folder: Path) -> Study:
    """200 jobs of all kinds of profiles, of which a tenth reach their walltime; some have none."""
    rng = random.Random(20)
    profiles: dict[str, dict[str, Any]] = {}
    jobs: list[dict[str, Any]] = []
    date = 0.0
    for number in range(200):
        date += round(rng.expovariate(1 / 110), rng.choice([0, 0, 3]))
        res = min(2 ** rng.randrange(6), 24) if rng.random() < 0.99 else 40  # of 32
        seconds = round(rng.lognormvariate(6, 1.3)) + rng.choice([1, 1, 1.25])
        kind = rng.choice(["delay", "parallel_homogeneous", "parallel_homogeneous_total", "parallel", "composed"])
        name, work = f"{kind}{number}", seconds * SPEED
        if kind == "delay":
            profiles[name] = {"type": kind, "delay": seconds}
        elif kind == "parallel":
            amounts = [work, *(rng.choice([work, work / 4, 0]) for _ in range(res - 1))]
            profiles[name] = {"type": kind, "cpu": rng.sample(amounts, res), "com": [0] * res**2}
        elif kind == "composed":
            parts = [f"{name}a", f"{name}b"]
            profiles[parts[0]] = {"type": "delay", "delay": seconds / 4, "ret": int(rng.random() < 0.1)}
            profiles[parts[1]] = {"type": "parallel_homogeneous", "cpu": work / 4, "com": 0}
            profiles[name] = {"type": kind, "seq": rng.choice([parts, parts[::-1], parts * 2]), "repeat": 2}
        else:
            profiles[name] = {"type": kind, "cpu": work * (res if kind.endswith("total") else 1), "com": 0}
        job = {"id": number, "subtime": round(date, 3), "res": res, "profile": name}
        if rng.random() < 0.97:
            job["walltime"] = max(1, round(seconds * rng.choice([0.7, 1, *[1.5, 2, 4, 10] * 4])))
        jobs.append(job)
    return Study(folder, 32, jobs, profiles).write()


def test_a_study_of_computing_jobs_with_their_energy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = computing(tmp_path)
    ran = study.run({"saf": "batfill schedule --policy saf", **BATSCHED}, "-E")
    assert_same_starts(ran["saf"].starts, study.replayed("saf")[0])
    assert_same_starts(ran["easy_bf_fast"].starts, study.replayed(reservation="kept")[0])
    ends = {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED", "COMPLETED_FAILED", "REJECTED"}
    assert [one.states for one in ran.values()] == [ends] * 4
    rejected = {name: sum(map(math.isnan, one.starts.values())) for name, one in ran.items()}
    limitless = sum("walltime" not in job and job["res"] <= 32 for job in study.jobs)
    wide = sum(job["res"] > 32 for job in study.jobs)
    assert rejected == dict(zip(ran, [wide, wide + limitless, wide, wide + limitless], strict=True))
    drawn: dict[str, float] = {}
    for one in ran.values():
        for row in one.rows["jobs"]:
            if row["consumed_energy"]:
                joules, used = float(row["consumed_energy"]), used_s(row)
                # Whatever the scheduler, a job draws the same, but a sequence may draw more when no other job ends.
                if not row["profile"].startswith("composed"):
                    assert joules == pytest.approx(drawn.setdefault(row["job_id"], joules), rel=1e-6)
                assert used * IDLE - 1e-3 <= joules <= used * BUSY + 1e-3
                if row["profile"].startswith(("delay", "parallel_homogeneous")):
                    watts = IDLE if row["profile"].startswith("delay") else BUSY
                    assert joules == pytest.approx(used * watts, rel=1e-6)
        assert_adds_up(one.rows, study)


def used_s(row: dict[str, str]) -> float:
    """The machine-seconds of a job."""
    return float(row["execution_time"]) * int(row["requested_number_of_resources"])


def assert_adds_up(rows: dict[str, list[dict[str, str]]], study: Study) -> None:
    """The series ends with what idle hosts draw, and what jobs draw above it; the total begins with the first job."""
    jobs = [row for row in rows["jobs"] if row["consumed_energy"]]
    above = sum(float(row["consumed_energy"]) - IDLE * used_s(row) for row in jobs)
    end = max(float(row["finish_time"]) for row in jobs)
    total = study.size * IDLE * end + above
    assert len(rows["consumed_energy"]) == 2 * len(jobs)
    assert float(rows["consumed_energy"][-1]["energy"]) == pytest.approx(total, rel=1e-5)
    first = min(job["subtime"] for job in study.jobs)
    (totals,) = rows["schedule"]
    assert float(totals["consumed_joules"]) == pytest.approx(total - study.size * IDLE * first, rel=1e-7)


def buffered(folder: Path) -> Study:
    """150 jobs of delays, most of which ask for a share of a burst buffer, of which nothing here knows."""
    rng = random.Random(21)
    delays = [round(rng.lognormvariate(5, 1.5)) + 1 for _ in range(40)]
    profiles = {f"d{delay}": {"type": "delay", "delay": delay} for delay in delays}
    jobs: list[dict[str, Any]] = []
    date = 0
    for number in range(150):
        date += round(rng.expovariate(1 / 80))
        delay = rng.choice(delays)
        job = {"id": f"{number:03}", "subtime": date, "res": rng.choice([1, 1, 2, 4, 8, 16]), "profile": f"d{delay}"}
        job["walltime"] = rng.choice([delay + 1, 2 * delay + 1, 5 * delay + 60])
        jobs.append(job | ({"bb": rng.randrange(1, 100) * 10**9} if number % 7 else {}))
    return Study(folder, 16, jobs, profiles).write()


@pytest.mark.slow
def test_a_study_with_a_further_resource_says_once_that_it_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = buffered(tmp_path)
    spf, kept = "batfill schedule --policy spf --threshold 20h --depth 2", "easy_bf_fast"
    ran = study.run({"spf": spf, kept: BATSCHED[kept]})
    starts, result = study.replayed("spf", threshold_s=72000, depth=2)
    assert_same_starts(ran["spf"].starts, starts)
    assert_same_starts(ran[kept].starts, study.replayed(reservation="kept")[0])
    n = sum("bb" in job for job in study.jobs)
    said = f"not modelled: the field bb of {n} jobs"
    for warnings in (*(one.record["warnings"] for one in ran.values()), result.workload.warnings):
        assert [line for line in warnings if "bb" in line] == [said]


@pytest.mark.skipif(not installed("batsim"), reason="needs the extra pybatsim")
def test_a_study_runs_under_pybatsim_with_its_options_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = buffered(tmp_path)
    given = {"policy": "saf", "backfill": "spf", "threshold": 72000}
    (tmp_path / "options.json").write_text(json.dumps(given))
    start = "pybatsim batfill/scheduler -t 0 -v warning"
    ran = study.run({"file": f"{start} -O options.json", "text": f"{start} -o '{json.dumps(given)}'"})
    starts, _ = study.replayed("saf", backfill="spf", threshold_s=72000)
    for one in ran.values():
        assert_same_starts(one.starts, starts)
    assert ran["file"].record["options"] == ran["text"].record["options"]
    assert ran["file"].record["options"]["backfill"] == "spf"
    assert (ran["file"].record["scheduler_options"], "scheduler_options" in ran["text"].record) == (given, False)
    assert set(ran["file"].record["inputs_sha256"]) - set(ran["text"].record["inputs_sha256"]) == {"options.json"}


def days(folder: Path) -> Study:
    """Three days in the manner of SDSC-BLUE's, as studies with Batsim 3 have it: 200 jobs of 8 to 1,152 processors."""
    rng = random.Random(22)
    profiles, jobs = {}, []
    for number in range(1, 201):
        run_s = round(rng.lognormvariate(7.2, 1.9)) + 1
        name = f"w0!{number}"
        profiles[str(number)] = {"type": "msg_par_hg", "cpu": run_s * SPEED, "com": 0.0}
        request = min(rng.choice([1800, 3600, 7200, 14400, 64800, 129600]), 129600)
        job = {"id": name, "subtime": rng.randrange(3 * 86400), "res": 8 * rng.choice([1, 1, 2, 4, 8, 16, 32, 64, 144])}
        jobs.append(job | {"walltime": request, "profile": str(number)})
    return Study(folder, 1152, sorted(jobs, key=lambda job: job["subtime"]), profiles).write()
