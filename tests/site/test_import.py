from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
from batfill.base.errors import WorkloadError
from batfill.workloads.formats import load_log
from batfill.workloads.swf_log import read_log
from batfill_site.accounting.cluster_log import ClusterLog, Key, Reading
from batfill_site.accounting.oar import read_oar
from batfill_site.accounting.pbs import read_pbs
from batfill_site.accounting.record_text import clock_seconds
from batfill_site.accounting.slurm import read_slurm
from command import batfill, refusal
from golden_text import GOLDEN, check
from sweeps import examples

DATA = Path(__file__).parents[1] / "data" / "accounting"
HEAD = "JobID|User|JobName|Submit|Start|End|Timelimit|AllocCPUS|ReqCPUS|State\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="x"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


# What the command prints, and the log that it writes


def cases():
    """Of each case its name, the words behind `import`, and the records."""
    for part in (DATA / "cases.txt").read_text().removeprefix("== ").split("\n== "):
        about, _, records = part.partition("\n")
        name, _, words = about.partition(" == ")
        yield name, words.split(), f"{records}\n".encode()
    for system, name, *more in (
        ("slurm", "slurm.txt", "--timezone", "Europe/Paris"),
        ("slurm", "slurm.txt", "--anonymise"),
        ("oar", "oar.json"),
        ("oar", "oar.json", "--cores-per-resource", "8"),
        ("pbs", "pbs.txt", "--timezone", "America/Denver"),
    ):
        yield f"{name} {' '.join(more)}".strip(), [system, *more], (DATA / name).read_bytes()
    for name, text in (("an empty file", ""), ("blank lines", "\ufeff\n \n"), ("no record", HEAD)):
        yield name, ["slurm"], text.encode()
    for text in ("", "\0"):
        yield f"no JSON of OAR: {text!r}", ["oar"], text.encode()


UNSAID = re.compile("; (Version|Computer|Conversion|MaxJobs|MaxRecords|TimeZoneString|Note): ")  # or said already


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """What the command says of each case, and the log that it writes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = []
    for name, words, records in cases():
        Path("records").write_bytes(records)
        Path("log.swf").unlink(missing_ok=True)
        done = batfill("workload", "import", words[0], "records", "--out", "log.swf", *words[1:])
        assert (done.status == 0) == Path("log.swf").exists(), name
        log = Path("log.swf").read_text().splitlines() if done.status == 0 else []
        said += [f"== {name}", done.err.strip(), *(line for line in log if not UNSAID.match(line)), ""]
    return "\n".join(said)


def test_golden_each_case_of_records(imported):
    """Read the rows: submission, wait, run time and processors follow the number; request and status are 9 and 11."""
    check("import", imported)


@pytest.fixture(params=[(60, 5), (7, 1)])
def cut(request, monkeypatch):
    """Files are read in pieces of so many bytes and records."""
    chunk_bytes, block = request.param
    monkeypatch.setattr("batfill.base.files.CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr("batfill_site.accounting.slurm.BLOCK", block)


@pytest.mark.usefixtures("cut")
def test_records_are_read_the_same_however_the_file_is_cut(imported):
    assert sorted(imported.splitlines()) == sorted((GOLDEN / "import.txt").read_text().splitlines())


@pytest.mark.parametrize(
    ("read", "name", "again"),
    [(read_slurm, "slurm.txt", 13), (read_oar, "oar.json", 5), (read_pbs, "pbs.txt", 5)],
)
def test_files_that_overlap_and_lists_of_jobs_are_read_as_one(written, read, name, again):
    def rows(paths, reading):
        return ClusterLog(read(paths, reading), source="x").log().rows.tolist()

    once, both = Reading(), Reading()
    expected = rows([DATA / name], once)
    assert rows([DATA / name] * 2, both) == expected
    assert both.notes["there twice, as in exports that overlap, left out"] == again
    if read is read_oar:
        jobs = [*json.loads((DATA / name).read_text()).values()]
        for shape in (jobs, {"items": jobs}):
            assert rows([written(shape)], Reading()) == expected


def test_accounting_is_read_in_place_and_a_log_is_not_accounting(tmp_path):
    path, out = tmp_path / "jobs.txt", tmp_path / "log.swf"
    head = "JobID|Submit|Start|End|TimelimitRaw|AllocCPUS|AllocTRES|State\n"
    rows = (f"{k}|2024-01-01T10:00:00|2024-01-01T10:05:00|2024-01-01T11:00:00|60|4|gres/gpu:a=2|CD\n" for k in (1, 2))
    path.write_text("Welcome\n" + head + "".join(rows))
    done = batfill("workload", "import", "slurm", path, "-o", out, "--json")
    assert json.loads(done.out)["not_modelled"] == {"had GPUs": 2}
    assert json.loads(done.out)["amounts"] == {"gpu": 2, "gpu-a": 2}
    assert len(bf.read(path)) == len(bf.read(out)) == 2
    with pytest.raises(WorkloadError, match="is the accounting of slurm; make a log of it with `batfill workload imp"):
        load_log(path)
    for pool, noted in (("gpu=2", False), ("gpu-a=2", False), ("slots=9@1", True)):
        assert ("had GPUs" in batfill("replay", path, "--pool", pool).out) == noted
    (caution,) = (text for text in bf.fidelity(out, fit=False)["input"]["warnings"] if "Eligible" in text)
    assert "sacct -o ...,Submit,Eligible,Start,..." in caution


def test_a_job_is_submitted_when_it_could_start_and_the_command_says_how_many_were_held(tmp_path):
    (tmp_path / "jobs.txt").write_text(
        ELIGIBLE
        + "1|1700000000|1700000000|1700000300|1700003900|60|64|COMPLETED\n"
        + "2|1700000060|1700003660|1700003960|1700004060|60|8|COMPLETED\n"
    )
    out = tmp_path / "log.swf"
    done = batfill("workload", "import", "slurm", tmp_path / "jobs.txt", "--out", out, "--procs", 32, "--json")
    found = json.loads(done.out)
    assert found["became_eligible"] == {"jobs": 1, "hours": 1.0}
    assert found["warnings"][0] == "the records use up to 64 processors at once, --procs is 32"
    assert read_log(out)["submit_s"].tolist() == [0, 3660]
    assert "fields" not in batfill("replay", out).out  # a column of our own is no surprise
    assert bf.fidelity(out, procs=200, fit=False)["input"]["warnings"] == []


def test_names_that_are_not_utf_8_stay_different(tmp_path):
    (tmp_path / "x").write_bytes((HEAD + "".join(f"{k}|m{k}ller|x|17|18|19|1|1|1|COMPLETED\n" for k in "12")).encode())
    text = (tmp_path / "x").read_bytes().replace(b"m1", b"m\xfc").replace(b"m2", b"m\xf6")
    (tmp_path / "x").write_bytes(text)
    key, out = tmp_path / "key.json", tmp_path / "log.swf"
    done = batfill("workload", "import", "slurm", tmp_path / "x", "-o", out, "--key", key)
    assert done.status == 0
    assert done.err.count("not UTF-8") == 1
    assert json.loads(key.read_text())["user"] == {r"m\xfcller": 1, r"m\xf6ller": 2}
    assert "; User: 2 m\\xf6ller" in read_log(out).header


# What they share


def test_an_anonymous_log_holds_no_name_and_its_key_keeps_numbers_from_one_log_to_the_next(tmp_path):
    path, first = tmp_path / "key.json", Key()
    first.numbers["user"]["zoe"] = 1
    first.save(path)
    key = Key.load(path)
    log = ClusterLog(read_slurm([DATA / "slurm.txt"], Reading()), source="test", anonymise=True, key=key).log()
    assert log["user"][0] == 2
    text = "\n".join(log.header)
    for name in ("alice", "bob", "carol", "zoe", "phys", "relax", "sweep"):
        assert name not in text
    assert "; Partition: 1 batch" in log.header
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["user"]["alice"] == 2


def test_imports_with_one_key_at_once_lose_no_name(tmp_path):
    key, command = tmp_path / "key.json", [sys.executable, "-m", "batfill", "workload", "import", "slurm"]
    for name in "abcd":
        (tmp_path / name).write_text(HEAD + f"1|{name}|x|17|18|19|1|1|1|COMPLETED\n")
    started = [
        subprocess.Popen([*command, tmp_path / name, "-o", tmp_path / f"{name}.swf", "--key", key]) for name in "abcd"
    ]
    assert [process.wait(60) for process in started] == [0] * 4
    numbers = json.loads(key.read_text())["user"]
    assert sorted(numbers.values()) == [1, 2, 3, 4]
    assert all(read_log(tmp_path / f"{name}.swf")["user"][0] == number for name, number in numbers.items())
    line = refusal("workload", "import", "slurm", tmp_path / "a", "-o", tmp_path / "e.swf", "--key", "/dev/zero")
    assert line == "/dev/zero: is a device, not a file; check the path\n".strip()


DURATIONS = {"90": 5400, "10:00": 600, "2:00:00": 7200, "00:00:01.500": 1, "1-00:00:00": 86400, "1-12": 129600}
DURATIONS |= {"1-12:30": 131400, "1:00:00:00": 86400, "2:12:0:1": 216001}
DURATIONS |= dict.fromkeys(("1:2:3:4:5", "1-1:2:3:4", "1-", "UNLIMITED", "Partition_Limit", "", "-5", "a-5"))


@pytest.mark.parametrize(("text", "seconds"), [*DURATIONS.items(), ("9" * 5000 + "-00:00:00", None)])
def test_durations_in_every_form(text, seconds):
    assert clock_seconds(text, bare=60) == seconds


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from([read_slurm, read_oar, read_pbs]), st.binary(max_size=300), st.booleans())
def test_random_records_never_trace_back(tmp_path_factory, read, text, after_a_good_one):
    path = tmp_path_factory.mktemp("fuzz") / "x"
    good = {read_slurm: "slurm.txt", read_oar: "oar.json", read_pbs: "pbs.txt"}[read]
    path.write_bytes((DATA / good).read_bytes() + text if after_a_good_one else text)
    message = ""
    try:
        ClusterLog(read([path], Reading()), source="x")
    except WorkloadError as error:
        message = str(error)
    assert "\n" not in message


def test_a_log_in_pieces_is_the_log_at_once_and_replays_the_same_in_each_format(tmp_path, monkeypatch):
    rows = (f"{n}|u{n % 7}||{10 * n}|{20 * n}|{20 * n + 500}|60|{1 + n % 3}|4|COMPLETED" for n in range(1, 50))
    path, whole = tmp_path / "jobs.txt", tmp_path / "whole.swf"
    path.write_text("\n".join([HEAD.strip(), *rows]) + "\n")
    assert batfill("workload", "import", "slurm", path, "-o", whole, "--procs", 4).status == 0
    monkeypatch.setattr("batfill_site.accounting.cluster_log.ROWS_AT_ONCE", 7)
    starts = bf.replay(bf.read(whole)).schedule.start_s.tolist()
    for name in ("pieces.swf.gz", "pieces.json"):
        assert batfill("workload", "import", "slurm", path, "-o", tmp_path / name, "--procs", 4).status == 0
        assert bf.replay(bf.read(tmp_path / name)).schedule.start_s.tolist() == starts
        if not name.endswith("json"):
            again, log = load_log(tmp_path / name), load_log(whole)
            assert (again.rows.tolist(), again.header[-9:]) == (log.rows.tolist(), log.header[-9:])


ELIGIBLE = "JobID|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|State\n"


# What jobs take

TRES = ELIGIBLE.replace("|State", "|NNodes|ReqMem|ReqTRES|AllocTRES|ConsumedEnergyRaw|State")
A_JOB = "{}|1700000000|1700000000|1700000300|1700001300|60|4|{}|COMPLETED\n"
GIB = 1024**3 / 1e9


def taken_by(path):
    """What each job of a file takes, by its id."""
    jobs = bf.read(path, procs=64).jobs
    known = {} if jobs.amounts is None else {name: jobs.amounts[name] for name in jobs.amounts.dtype.names}
    return {
        int(job): {name: float(amounts[row]) for name, amounts in known.items() if amounts[row] > 0}
        for row, job in enumerate(jobs.ids)
    }


@pytest.mark.parametrize(
    ("fields", "takes"),
    [
        ("1|16G|cpu=4,mem=16G|billing=4,cpu=4,mem=16G,node=1|", {"memory": 16 * GIB}),
        ("1||cpu=4,mem=1.5T|cpu=4,mem=1.5T,node=1|", {"memory": 1536 * GIB}),
        ("1||cpu=4,mem=4000M|cpu=8,mem=8000M|", {"memory": 8000 / 1024 * GIB}),  # what it held, not what it asked for
        ("1||cpu=4,mem=4000M||", {"memory": 4000 / 1024 * GIB}),
        ("1|||cpu=2,mem=128,node=1|", {"memory": 128 / 1024 * GIB}),  # as sacct wrote it long ago
        ("2|16Gn|cpu=4|cpu=4,node=2|", {"memory": 32 * GIB}),
        ("|16Gn|cpu=4|cpu=4|", {"memory": 16 * GIB}),  # on one node, for all that is known
        ("2|4000Mc|||", {"memory": 16000 / 1024 * GIB}),
        ("2|16G|||", {"memory": 16 * GIB}),
        ("1|0|cpu=4|cpu=4,node=1|", {}),
        ("1||||", {}),
        ("1|||cpu=4,gres/gpu=2,gres/gpu:a100=2|", {"gpu": 2, "gpu-a100": 2}),
        ("1|||cpu=4,gres/gpu:a100=2,gres/gpu:v100=1|", {"gpu": 3, "gpu-a100": 2, "gpu-v100": 1}),
        (
            "1|||gres/shard=5,license/matlab=1,license/ansys@db=2|",
            {"shard": 5, "license/matlab": 1, "license/ansys-db": 2},
        ),
        ("1|||bb/cray=20G,fs/disk=7,vmem=9G,pages=3|", {"bb/cray": 20 * GIB}),
        ("1|||license/matlab=1.5|", {"license/matlab": 2}),  # a part of one is one
        ("1|||cpu=4,energy=250000|", {"mean_watts": 250}),
        ("1|||cpu=4|250500", {"mean_watts": 250.5}),
        ("1|||cpu=4|18446744073709551614", {}),  # unknown
        ("1|||cpu=4,mem=x,gres/gpu=two,=3,,mem|", {}),
    ],
)
def test_slurm_jobs_take_what_their_tres_say(tmp_path, fields, takes):
    path = tmp_path / "jobs.txt"
    path.write_text(TRES + A_JOB.format(1, fields))
    assert taken_by(path) == {1: pytest.approx(takes, abs=1e-9)}
    names = set(takes) - {"memory"}
    for name, kept in (("log.json", takes), ("log.swf", {n: v for n, v in takes.items() if n == "memory"})):
        done = batfill("workload", "import", "slurm", path, "-o", tmp_path / name, "--procs", 64, "--json")
        assert taken_by(tmp_path / name) == {1: pytest.approx(kept, abs=1e-9)}
        assert json.loads(done.out)["amounts"] == dict.fromkeys(takes, 1)
        lost = f"SWF has a field for memory only, and so not for {', '.join(json.loads(done.out)['amounts'])}"
        assert ("dropped; a .json file keeps them" in done.err) == (bool(names) and name == "log.swf"), lost


def test_a_requeued_job_takes_what_its_last_try_held_and_components_what_they_hold_together(tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text(
        TRES
        + A_JOB.format(1, "1|||mem=1G,gres/gpu=1|").replace("COMPLETED", "NODE_FAIL")
        + "1|1700001300|1700001300|1700002300|1700003300|60|4|1|||mem=2G|5000|COMPLETED\n"
        + A_JOB.format("2+0", "1|||mem=1G,gres/gpu:a=1,energy=1000|")
        + A_JOB.format("2+1", "1|||mem=4G,gres/gpu:b=2,license/x=1,energy=2000|")
    )
    together = {"memory": 5 * GIB, "gpu": 3, "gpu-a": 1, "gpu-b": 2, "license/x": 1, "mean_watts": 3}
    last = {"memory": 2 * GIB, "mean_watts": 5}
    assert sorted(taken_by(path).values(), key=len) == [pytest.approx(last), pytest.approx(together)]


def test_a_log_without_the_first_tries_of_requeued_jobs_says_so(tmp_path):
    path = tmp_path / "jobs.txt"
    rows = ["1|1100|1221|1300|1400", "2|1100|1100|1300|1400"]

    def said(*more):
        path.write_text(
            "\n".join(
                ["JobID|Submit|Eligible|Start|End|AllocCPUS|State", *(f"{row}|4|COMPLETED" for row in rows), *more]
            )
        )
        return batfill("workload", "import", "slurm", path, "-o", tmp_path / "log.swf", "--procs", 64).err

    assert (
        "1 record: requeued jobs without their earlier tries, by their Eligible: waits are too short; print" in said()
    )
    known = said("2|1000|1000|1010|1100|4|PREEMPTED")
    assert "requeued jobs without" not in known
    assert "1 record: earlier tries of requeued jobs, left out" in known


def test_pools_are_of_what_the_accounting_says_also_where_it_is_read_in_place(tmp_path):
    records, out = tmp_path / "jobs.txt", tmp_path / "log.json"
    rng = np.random.default_rng(4)
    rows = [
        f"{k}|{1700000000 + 40 * k}|Unknown|{1700000000 + 40 * k}|{1700000600 + 60 * k}|60|4|1||"
        f"|cpu=4,mem={rng.integers(1, 30)}G,energy={rng.integers(1, 9) * 100_000},gres/gpu={rng.integers(0, 5)},"
        f"license/matlab={rng.integers(0, 2)}||COMPLETED\n"
        for k in range(1, 200)
    ]
    records.write_text(TRES + "".join(rows))
    done = batfill("workload", "import", "slurm", records, "-o", out, "--procs", 64)
    assert "what pools can limit, and how many of the 199 jobs take some: gpu 1" in done.err
    plain = bf.replay(out).schedule.start_s
    for pool in ("gpu=16", "memory=100GB", "license/matlab=4", "power=2500W@mean_watts"):
        of_json, of_records = (bf.replay(path, procs=64, pool=pool) for path in (out, records))
        np.testing.assert_array_equal(of_json.schedule.start_s, of_records.schedule.start_s)
        assert (of_json.schedule.start_s > plain).any(), pool
    assert "no job has a field gpus above 0" in refusal("replay", records, "--pool", "gpus=16")


@pytest.mark.parametrize(
    ("asked", "takes"),
    [
        ("Resource_List.mem=16gb Resource_List.ngpus=2", {"memory": 16 * GIB, "gpu": 2}),
        ("Resource_List.mem=1048576kb", {"memory": GIB}),
        ("Resource_List.mem=100MW", {"memory": 800 / 1024 * GIB}),
        ("Resource_List.mem=1000000000 Resource_List.ngpus=0", {"memory": 1.0}),
        ("Resource_List.mem=16gigs Resource_List.ngpus=some", {}),
    ],
)
def test_pbs_jobs_take_the_memory_and_gpus_that_they_requested(tmp_path, asked, takes):
    record = f"user=u queue=q ctime=1700000000 qtime=1700000000 start=1700000100 end=1700000200 Exit_status=0 {asked}"
    path = tmp_path / "20231114"
    path.write_text(f"11/14/2023 22:00:00;E;1.srv;{record} Resource_List.ncpus=4 Resource_List.walltime=01:00:00\n")
    assert taken_by(path) == {1: pytest.approx(takes)}
