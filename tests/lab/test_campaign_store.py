"""What is in a campaign's folder is whole, and nothing finished is lost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pydantic")

from batfill_lab.campaigns.config import CampaignError
from batfill_lab.campaigns.store import SCHEMA, open_store


def row(run, **values):
    return {**dict.fromkeys(SCHEMA.names), "run": run, **values}


def names(table):
    return table.column("run").to_pylist()


def test_runs_are_merged_in_the_campaigns_order(tmp_path):
    with open_store(tmp_path / "out") as store:
        store.add([row("c"), row("a")])
        store.add([row("b")])
        assert store.finished(per_job=False) == {"a", "b", "c"}
        assert names(store.merge(["a", "b", "c"])) == ["a", "b", "c"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".lock", "runs.parquet"]


def test_a_run_no_longer_asked_for_is_kept_aside_and_comes_back(tmp_path):
    with open_store(tmp_path) as store:
        store.add([row("a", seed=1), row("b", seed=2)])
        store.merge(["a", "b"])
        assert names(store.merge(["b"])) == ["b"]
        assert store.finished(per_job=False) == {"a", "b"}
        assert store.merge(["a", "b"]).column("seed").to_pylist() == [1, 2]
        assert not store.earlier.exists()


def test_with_job_tables_a_run_is_finished_when_both_are_there(tmp_path):
    with open_store(tmp_path) as store:
        store.add([row("a"), row("b")], [("a", b"table")])
        assert store.finished(per_job=True) == {"a"}
        assert store.finished(per_job=False) == {"a", "b"}


def test_what_a_killed_campaign_was_writing_is_swept_away(tmp_path):
    (tmp_path / "jobs").mkdir()
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""])
    dead.wait()
    end = f"{dead.pid}@{os.uname().nodename}.part"
    half = [tmp_path / f".runs.parquet.{end}", tmp_path / "jobs" / f".a.parquet.{end}"]
    for path in half:
        path.write_bytes(b"half")
    with open_store(tmp_path) as store:
        assert not any(path.exists() for path in half)
        assert store.finished(per_job=False) == set()


def test_a_second_campaign_in_the_folder_is_refused(tmp_path):
    with open_store(tmp_path), pytest.raises(CampaignError, match="a campaign is running in this folder; wait for it"):
        open_store(tmp_path).__enter__()
    with open_store(tmp_path):
        pass  # the first has ended
