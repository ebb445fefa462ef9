"""A log that the list of known logs holds has the list's machine, however it is packed, cut or resampled."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma

import pytest

from batfill.workloads import read_workload, swf_log
from batfill.workloads.swf_log import read_log
from command import batfill
from swf_text import row

DAY_S = 86_400
TEXT = (
    "; UnixStartTime: 1000000000\n; MaxProcs: 90\n; Note: 60 thin + 30 fat\n"
    + "".join(row(k + 1, k * DAY_S, 600, req_procs=1 + 7 * k % 60, req_time=900, user=k % 3) for k in range(21))
).encode()
SAID = "60 processors by the list of known logs (curious); the header says 90; --procs overrides both"


@pytest.fixture
def known(monkeypatch, tmp_path):
    """The path of a log whose text is in the list."""
    log = swf_log.ArchiveLog(
        "curious", "A log", "https://x/curious.swf.gz", 21, 60, "A. B.", text_sha256=hashlib.sha256(TEXT).hexdigest()
    )
    monkeypatch.setattr(swf_log, "manifest", lambda: {"curious": log})
    path = tmp_path / "renamed.swf.gz"
    path.write_bytes(gzip.compress(TEXT))
    return path


@pytest.mark.parametrize(("suffix", "packed"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_known_text_has_the_lists_machine_however_it_is_packed(known, tmp_path, suffix, packed):
    path = tmp_path / f"other.swf{suffix}"
    path.write_bytes(packed(TEXT))
    workload = read_workload(path)
    assert workload.size == 60
    assert SAID in workload.notes


def test_another_text_is_not_known_whatever_its_name(known, tmp_path):
    path = tmp_path / "curious.swf"
    path.write_bytes(TEXT + b"; one more comment\n")
    workload = read_workload(path)
    assert (workload.size, workload.notes) == (90, ())


def test_replay_describe_and_convert_say_which_size_is_in_force(known, tmp_path):
    done = json.loads(batfill("replay", known, "--json").out)
    assert (done["procs"], SAID in done["workload_notes"]) == (60, True)
    assert SAID in " ".join(batfill("replay", known).out.split())
    described = batfill("workload", "describe", known)
    assert SAID in described.out
    made = tmp_path / "made.json"
    assert SAID in batfill("workload", "convert", known, "--out", made).err
    assert json.loads(made.read_text())["nb_res"] == 60


@pytest.mark.parametrize("procs", [None, 75])
@pytest.mark.parametrize("command", ["clean", "split", "resample", "scale"])
def test_a_log_made_of_a_known_one_has_the_size_in_force_in_its_header(known, tmp_path, command, procs):
    given = [] if procs is None else ["--procs", procs]
    out = tmp_path / "weeks" if command == "split" else tmp_path / "made.swf.bz2"
    extra = {"split": ["--suffix", ".swf.bz2"], "scale": ["--interarrival", 2]}.get(command, [])
    done = batfill("workload", command, known, "--out", out, *extra, *given)
    assert done.status == 0, done.err
    assert (SAID in done.err) == (procs is None)
    made = sorted(out.iterdir()) if command == "split" else [out]
    assert made
    for path in made:
        header = read_log(path).header
        sizes = [text for text in header if text.startswith("; MaxProcs:")]
        assert sizes == [f"; MaxProcs: {procs or 60}"]
        assert f"; Note: MaxProcs was 90, and {procs or 60} is in force" in header
        assert read_workload(path).size == (procs or 60)
        assert b"thin" in bz2.decompress(path.read_bytes())
