"""What jobs take beside processors stays with them, whatever is made of their workload."""

from __future__ import annotations

import json

import numpy as np
import pytest

import batfill as bf
from batfill.workloads.formats import source_of
from batfill.workloads.swf_log import FIELDS, new_log, write_log
from command import batfill

NAMES = ("licences", "mean_watts", "memory")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A workload of jobs that each take their own amounts, and tell themselves apart by their run times."""
    log, rng = bf.generate(jobs=400, procs=16, seed=5), np.random.default_rng(5)
    document = json.loads(bf.write(log, tmp_path_factory.mktemp("log") / "log.json").read_text())
    for place, job in enumerate(document["jobs"]):
        profile = f"its{place}"
        document["profiles"][profile] = {"type": "delay", "delay": 100 + place}
        job |= {"profile": profile, "walltime": 20_000, "mean_watts": 1.5 * place}
        job["resources"] = {"memory": int(rng.integers(1, 400)) / 7} | ({"licences": place} if place % 3 else {})
    path = tmp_path_factory.mktemp("made") / "made.json"
    path.write_text(json.dumps(document))
    return path


def amounts_by_run_time(workload, names=NAMES):
    jobs = workload.jobs
    known = jobs.amounts.dtype.names
    columns = (np.nan_to_num(jobs.amounts[name]) if name in known else [0] * len(jobs) for name in names)
    taken = zip(*columns, strict=True)
    return {(run_s, *each) for run_s, each in zip(jobs.runtime_s.tolist(), taken, strict=True)}


def to_bytes(known):
    """Memory is whole bytes once it was in SWF's column."""
    return {tuple(np.round(each, 9).tolist()) for each in known}


LOGS = ("convert", "clean", "split", "scale --interarrival 0.5", "resample --method weeks", "resample --method users")
BATSIM = (*LOGS, "convert --format batsim5", "convert --jobs 100:200")


@pytest.mark.parametrize(("suffix", "how"), [(".json", how) for how in BATSIM] + [(".swf", how) for how in LOGS])
def test_every_transformation_keeps_the_amounts_of_each_job(made, tmp_path, how, suffix):
    command, *options = how.split()
    out = tmp_path / ("folder" if command == "split" else f"out{suffix}")
    options += ["--suffix", suffix, "--days", 3] if command == "split" else []
    done = batfill("workload", command, made, *options, "--out", out)
    assert done.status == 0, done.err
    files = sorted(out.iterdir()) if command == "split" else [out]
    of_memory = ("memory",) if suffix == ".swf" else NAMES
    before = to_bytes(amounts_by_run_time(bf.read(made), of_memory))
    after = [to_bytes(amounts_by_run_time(bf.read(file), of_memory)) for file in files]
    assert set().union(*after) <= before
    if command != "resample":
        assert sum(map(len, after)) == (100 if "--jobs" in options else len(before))
    dropped = "SWF has a field for memory only, and so not for licences, mean_watts: dropped; a .json file keeps them"
    assert done.err.count(dropped) == (suffix == ".swf")


def test_tables_of_a_workload_have_them_as_columns_and_are_read_with_them(made, tmp_path):
    log, table = bf.read(made), tmp_path / "log.csv"
    log.to_csv(table)
    for again in (bf.read(table, procs=16), bf.read(log.to_dict(), procs=16)):
        assert amounts_by_run_time(again) == amounts_by_run_time(log)
        assert not [note for note in again.notes if "takes_" in note]
    assert log["takes_licences"][3:6].tolist() == pytest.approx([np.nan, 4, 5], nan_ok=True)
    with pytest.raises(ValueError, match="read-only"):
        log["takes_memory"][0] = 1


def test_the_memory_of_a_log_starts_its_jobs_at_the_same_dates_in_each_format(tmp_path):
    """What 1 to 16 processors request of kB each is not a whole number of anything larger."""
    log, rng = source_of(bf.generate(jobs=600, procs=16, seed=2)).log, np.random.default_rng(2)
    columns = {name: log[name] for name in FIELDS} | {"requested_memory_kb": rng.integers(-1, 2_000_003, 600)}
    swf, as_json, back = (tmp_path / name for name in ("log.swf", "log.json", "back.swf"))
    write_log(new_log(("MaxProcs: 16",), columns), swf)
    for source, out, *options in ((swf, as_json, "--unrequested", "runtime"), (as_json, back)):
        assert batfill("workload", "convert", source, *options, "--out", out).status == 0
    starts = [bf.replay(path, "saf", pool="memory=8GB", unrequested="runtime") for path in (swf, as_json, back)]
    plain = bf.replay(swf, "saf", unrequested="runtime").schedule.start_s
    for run in starts:
        np.testing.assert_array_equal(run.schedule.start_s, starts[0].schedule.start_s)
    assert (starts[0].schedule.start_s != plain).sum() > 100
    # nothing is said of memory that no pool reads: no replay of the log itself does
    assert not [line for line in bf.read(as_json).warnings if "resources" in line]
