from __future__ import annotations

import json

import pytest

from batfill.workloads import read_workload
from batfill.workloads.formats import load_log, save_log
from batfill.workloads.generate import generate_log


@pytest.mark.parametrize("name", ["x.swf", "x.swf.xz"])
def test_a_log_is_the_same_whatever_it_was_saved_as(tmp_path, name):
    log = generate_log(60, 32, 1)
    assert save_log(log, tmp_path / name) == 60
    again = load_log(tmp_path / name)
    assert again.rows.tolist() == log.rows.tolist()
    assert again.header == log.header


def test_a_batsim_workload_keeps_its_jobs_through_a_log(tmp_path):
    log = generate_log(60, 32, 1)
    save_log(log, tmp_path / "a.json")
    first = load_log(tmp_path / "a.json")
    save_log(first, tmp_path / "b.json")
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert (one["jobs"], one["profiles"], one["nb_res"]) == (two["jobs"], two["profiles"], two["nb_res"])
    assert first["job"].tolist() == log["job"].tolist()


def test_the_engine_reads_swf_and_json_alike(tmp_path):
    log = generate_log(40, 16, 2)
    names = ("x.swf", "x.json", "x.json.gz")
    for name in names:
        save_log(log, tmp_path / name)
    one, *others = (read_workload(tmp_path / name) for name in names)
    for column in ("ids", "submit_s", "runtime_s", "procs", "user"):
        assert all(getattr(one.jobs, column).tolist() == getattr(two.jobs, column).tolist() for two in others)
    assert all(two.size == one.size == 16 for two in others)
    assert read_workload(tmp_path / "x.json", procs=99).size == 99
