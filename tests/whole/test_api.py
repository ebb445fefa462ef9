"""The Python interface: what `import batfill as bf` gives, and that it does what the command line does."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import PolicyError, WorkloadError
from batfill.base.words import duration
from batfill.workloads.formats import log_of, save_log
from command import COMPILING, batfill, json_result, result
from sweeps import LATER

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "workloads" / "sample.json"
ACCOUNTING = ROOT / "tests" / "data" / "accounting"
COLUMNS = ["job_id", "user", "submit_s", "runtime_s", "walltime_s", "requested_s", "procs", "class"]


@pytest.fixture(scope="module")
def log():
    return bf.read(SAMPLE)


@pytest.fixture(scope="module")
def fcfs(log):
    return bf.replay(log, "fcfs")


@pytest.fixture
def mine():
    return bf.Policy("mine", key=lambda r, p, q: p * q, per_wait=lambda r, p, q: -q)


# Names


def test_every_listed_name_loads_and_is_shown_and_no_module_has_one_of_them():
    shown = dict(inspect.getmembers(bf))
    assert list(shown) == dir(bf) == bf.__all__
    assert shown.keys() - bf.PLACES.keys() == {"__version__"}
    modules = {path.stem for path in Path(bf.__file__).parent.iterdir()}
    assert not modules & bf.PLACES.keys(), "a module that is imported takes its name from the function"
    for name, (module, its_name) in bf.PLACES.items():
        assert shown[name] is getattr(importlib.import_module(module), its_name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bf.nothing


def test_type_checkers_see_the_names_that_a_program_gets(tmp_path):
    """They read the list itself; each name is one that it exports, which an alias of another name would not be."""
    stub = ast.parse(Path(bf.__file__).with_suffix(".pyi").read_text()).body
    exported = {alias.asname for node in stub if isinstance(node, ast.ImportFrom) for alias in node.names}
    exported |= {node.targets[0].id for node in stub if isinstance(node, ast.Assign)}
    assert exported - {None} == bf.PLACES.keys()


def test_a_public_name_and_its_members_say_what_they_are():
    public = {name: getattr(bf, name) for name in bf.PLACES}
    members = {f"{name}.{of}": value for name, one in public.items() for of, value in inspect.getmembers(one)}
    own = {
        name: one
        for name, one in (public | members).items()
        if isinstance(one, property) or "batfill" in str(getattr(one, "__module__", ""))
    }
    said = {name: inspect.getdoc(one) for name, one in own.items() if not name.partition(".")[2].startswith("_")}
    assert [name for name, text in said.items() if not text] == []


@pytest.mark.parametrize(
    ("imported", "slow"),
    [
        ("batfill", "numpy numba pandas click importlib.metadata"),
        ("batfill.model.options", "numpy numba scipy sklearn pydantic matplotlib pandas"),
        ("batfill_lab.search.tune, batfill_lab.learning.fit", "matplotlib pandas statsmodels"),
    ],
)
def test_an_import_loads_no_library_that_is_slow_and_may_not_be_needed(imported, slow):
    program = f"import sys, {imported}; print(*(set({slow.split()}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


@pytest.mark.needs("pandas")
@pytest.mark.parametrize("log", ["sample", LATER("KTH-SP2-1996-2.1-cln.swf.gz")])
def test_the_first_minute_works(log, request, tmp_path):
    """The example that the guide names, as a user runs it: with warnings as errors, in a folder of its own."""
    path = SAMPLE if log == "sample" else request.getfixturevalue("archive_log")(log)
    script = [sys.executable, "-W", "error", ROOT / "docs" / "examples" / "first_minute.py", path]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith(COMPILING)]
    assert (done.returncode, said) == (0, []), done.stderr
    assert "policy saf, backfill spf, threshold 200000 s" in done.stdout
    assert "mean_bsld" in done.stdout
    assert "\nmine " in done.stdout
    assert (tmp_path / "out" / "saf_jobs.csv").exists()


# Reading


@pytest.mark.needs("pandas")
@pytest.mark.parametrize(
    ("file", "how", "jobs", "procs"),
    [
        ("slurm.txt", {"timezone": "Europe/Paris"}, 9, 224),
        ("oar.json", {"cores_per_resource": 2}, 3, 14),
        ("pbs.txt", {}, 4, 32),
    ],
)
def test_accounting_is_read_as_the_import_command_writes_it(file, how, jobs, procs, tmp_path):
    read = bf.read(str(ACCOUNTING / file), **how)
    assert (len(read.jobs), read.size) == (jobs, procs)
    words = [word for name, value in how.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    out = tmp_path / "log.swf"
    assert batfill("workload", "import", file.partition(".")[0], ACCOUNTING / file, "--out", out, *words).status == 0
    assert bf.read(out).to_pandas().equals(read.to_pandas())


@pytest.mark.needs("pandas")
def test_a_workload_shows_itself_and_becomes_tables(log):
    shown = "workload     sample.json\nmachine      64 processors\njobs         800 of 12 users\n"
    assert repr(log).startswith(shown)
    assert log._repr_html_().startswith("<table><tr><th")
    frame, table = log.to_pandas(), log.to_arrow()
    assert list(frame) == table.column_names == COLUMNS
    assert frame["procs"].tolist() == table["procs"].to_pylist() == log.jobs.procs.tolist()
    assert table["class"].null_count == 800


@pytest.mark.needs("pandas")
def test_arrays_of_ones_own_become_a_workload_in_any_order():
    columns = {
        "submit_s": [5.0, 0, 5],
        "runtime_s": [10.0, 20, 10],
        "walltime_s": [10.0, 30, np.inf],
        "procs": [2, 4, 9],
    }
    arrays = {name: np.array(values) for name, values in columns.items()}
    jobs = bf.job_table("mine", ids=np.array(["b", "a", "c"], object), **arrays)
    frame = bf.replay(jobs, procs=4).to_pandas()
    assert frame.job_id.tolist() == ["a", "b", "c"]
    assert frame.state.tolist() == ["completed", "ended at its walltime", "rejected"]
    assert frame.start_s.tolist()[:2] == [0, 20]
    assert frame.iloc[2][["start_s", "wait_s", "bsld", "walltime_s"]].isna().all()
    tuned = bf.tune(bf.generate(jobs=300, procs=32), days=0.5, points=6, last=[1])
    assert tuned["input"]["source"].startswith("lublin-")


# Replays


def test_a_result_is_what_the_command_prints(log):
    ours = bf.replay(log, "saf", backfill="spf", threshold_s=200_000)
    words = ("replay", SAMPLE, "--policy", "saf", "--backfill", "spf", "--threshold", "200000")
    theirs, printed = json_result(*words), result(*words)
    for name, value in ours.as_dict().items():
        assert value == theirs[name] or name in ("read_s", "simulate_s"), name
    assert repr(ours).splitlines()[:-1] == printed.splitlines()[:-1]
    assert f'<td style="text-align:left">{duration(ours.figures.makespan_s)}</td>' in ours._repr_html_()


@pytest.mark.needs("pandas")
def test_the_table_of_a_result_has_every_job_with_units(fcfs):
    frame = fcfs.to_pandas()
    of_result = "probability divider_s start_s end_s wait_s bsld backfilled tries state"
    assert list(frame) == COLUMNS + of_result.split()
    assert len(frame) == 800
    assert (frame.wait_s == frame.start_s - frame.submit_s).all()
    assert (frame.end_s - frame.start_s).max() <= frame.walltime_s.max()
    assert frame.bsld.mean() == pytest.approx(fcfs.figures.mean_bsld, rel=1e-12)
    assert (frame.backfilled.sum(), frame.tries.unique().tolist()) == (fcfs.figures.backfilled, [1])
    assert frame.groupby("user").wait_s.mean().notna().all()
    assert frame.attrs["options"]["policy"] == "fcfs"
    arrow = fcfs.to_arrow()
    assert arrow.column_names == list(frame)
    assert arrow["start_s"].to_pylist() == frame.start_s.tolist()
    assert json.loads(arrow.schema.metadata[b"batfill.replay"])["workload"] == "sample.json"


@pytest.mark.needs("pandas")
def test_who_pays_is_over_the_same_jobs_as_the_base_and_in_the_json_without_one(log, fcfs):
    tried = bf.replay(log, "fcfs", small="all", kill="always")
    frame, before = tried.to_pandas(), fcfs.to_pandas()
    small = frame.runtime_s < frame.runtime_s.median()
    found = tried.who_pays(base=fcfs)
    assert found["small_below_s"] == frame.runtime_s.median()
    for group, rows in zip(found["waits_by_class"], (small, ~small), strict=True):
        longer_s = (frame.wait_s - before.wait_s)[rows]
        assert group["jobs"] == rows.sum()
        assert group["mean_longer_s"] == pytest.approx(longer_s.mean())
        assert group["delayed"] == pytest.approx((longer_s > 3600).mean())
        assert group["mean_delay_s"] == pytest.approx(longer_s[longer_s > 3600].mean())
        assert group["p99_wait_s"] == pytest.approx(frame.wait_s[rows].quantile(0.99))
    told = json.loads(tried.as_json())
    assert told.items() >= json.loads(json.dumps(tried.who_pays())).items()
    assert "delayed" not in told["waits_by_user"][0]
    own = tried.who_pays(small_below_s=frame.divider_s.to_numpy())
    assert [row["class"] for row in own["waits_by_class"]] == ["small", "large", "unknown"]
    half = bf.Replay(log, "saf").run(until_s=86_400).result()
    assert half.who_pays(base=fcfs)["waits_by_class"][0]["jobs"] < len(frame) / 2


def test_batsims_files_are_those_of_the_command(fcfs, tmp_path):
    fcfs.to_batsim(tmp_path / "new" / "ours")
    result("replay", SAMPLE, "--out", tmp_path / "theirs")
    for name in ("jobs.csv", "machine_states.csv"):
        assert (tmp_path / "new" / f"ours_{name}").read_bytes() == (tmp_path / f"theirs_{name}").read_bytes()
    assert (tmp_path / "new" / "ours_run.json").exists()


@pytest.mark.needs("pandas")
def test_a_policy_of_ones_own_is_one_row_among_others(log, mine):
    frame = bf.replay_many(log, [mine, *bf.policies.values()])
    assert frame.index.tolist() == ["mine", *bf.policies]
    for policy in (mine, "saf"):
        alone = bf.replay(log, policy).figures.as_dict()
        assert frame.loc[getattr(policy, "name", policy)].to_dict() == alone
    assert frame.attrs["workload_sha256"] == log.digest
    late = bf.replay_many(log, "saf", threshold_s=3600, threads=1)
    assert late.loc["saf"].to_dict() == bf.replay(log, "saf", threshold_s=3600).figures.as_dict()
    assert late.attrs["options"]["threshold"] == 3600


# What the commands do


@pytest.mark.needs("pandas")
def test_every_command_that_learns_or_searches_gives_what_it_prints(log, tmp_path):
    """Each function as an object, and its command's JSON of the same arguments."""
    made = bf.generate(jobs=400, procs=32, seed=1, interarrival=8.0)
    path = tmp_path / "made.swf"
    save_log(log_of(made), path, procs=32)

    def printed(command, words=""):
        return json_result(command, path, *words.split())

    file = bf.read(path)
    tuned = bf.tune(file, days=0.5, points=6, last=[1])
    assert printed("tune", "--days 0.5 --points 6 --last 1") == json.loads(tuned.as_json())
    assert tuned.to_pandas()["policy"].tolist() == [row["policy"] for row in tuned.rows]
    assert bf.replay(file, tuned["trained"]).figures.jobs == 400
    chosen = bf.select(file, "ucb1", policies=["fcfs", "saf"], period_s=7200, seed=3)
    words = "--method ucb1 --policies fcfs,saf --period 2h --seed 3"
    assert printed("select", words) == json.loads(chosen.as_json())
    fitted = bf.fit(file, tuples=2, permutations=40)
    words = f"--tuples 2 --permutations 40 --out {tmp_path}/fitted.json"
    assert printed("fit", words) == json.loads(fitted.as_json())
    saved = bf.replay(file, f"lin@{tmp_path}/fitted.json").figures
    assert bf.replay(file, fitted.policies["lin"]).figures == saved
    answer = bf.what_if(file, small_first=False, thresholds_s=[3600])
    assert printed("what-if", "--no-small-first --threshold 1h") == answer.as_dict()
    assert answer["advice"] == answer.advised_name
    with pytest.raises(KeyError, match="'advise' is not in the result; it has workload"):
        answer["advise"]
    assert answer.to_pandas().name.tolist() == ["fcfs", "spf", "saf", "saf + 1 h"]


@pytest.mark.needs("pydantic")
def test_a_campaign_and_a_report_are_functions_too(tmp_path):
    (tmp_path / "two.yaml").write_text(f"workloads: [{{file: {SAMPLE}}}]\npolicies: [fcfs, saf]\n")
    done = bf.campaign(tmp_path / "two.yaml", tmp_path / "out", workers=1)
    frame = done.to_pandas()
    assert frame.policy.tolist() == done.to_arrow()["policy"].to_pylist() == ["fcfs", "saf"]
    assert frame.mean_wait_s.tolist() == [bf.replay(SAMPLE, name).figures.mean_wait_s for name in ("fcfs", "saf")]
    bf.replay(SAMPLE, "saf").to_batsim(tmp_path / "runs" / "saf")
    assert bf.report(str(tmp_path / "runs")) == [tmp_path / "runs" / "report.html"]
    assert "sample.json on 64 processors" in (tmp_path / "runs" / "report.html").read_text()


@pytest.mark.needs("pandas")
def test_differences_are_paired_job_by_job(fcfs, log):
    saf, again = bf.replay(log, "saf"), bf.replay(log, "saf", threshold_s=3600)
    frame = bf.compare(fcfs, saf, again)
    assert frame.options.tolist() == ["saf"] * 2 + ["saf, threshold 3600 s"] * 2
    waits = saf.to_pandas().wait_s - fcfs.to_pandas().wait_s
    row = frame[frame.figure == "mean_wait_s"].iloc[0]
    assert row.difference == pytest.approx(waits.mean(), rel=1e-12)
    assert row.this - row["first"] == pytest.approx(row.difference, rel=1e-9)
    assert (row.waits_less, row.waits_more) == ((waits < 0).mean(), (waits > 0).mean())
    assert row.low < row.difference < row.high
    assert (frame.attrs["jobs"], frame.attrs["block"]) == (800, "days")
    few = "too few days (5): below 12, every verdict is unclear and intervals are not calibrated"
    assert frame.attrs["warnings"] == [few]
    itself = bf.compare(fcfs, fcfs)
    assert (itself.difference.tolist(), itself.verdict.tolist()) == ([0, 0], ["unclear"] * 2)


def test_a_log_that_changed_after_it_was_read_is_refused(tmp_path):
    save_log(log_of(bf.generate(jobs=50, procs=16)), tmp_path / "log.swf", procs=16)
    read = bf.read(tmp_path / "log.swf")
    save_log(log_of(bf.generate(jobs=60, procs=16)), tmp_path / "log.swf", procs=16)
    with pytest.raises(WorkloadError, match=r"log.swf: has changed since the workload was read from it; read it again"):
        bf.tune(read)


# Runs that stop


@pytest.mark.needs("pandas")
def test_a_run_that_has_not_ended_says_so_and_gives_what_has_ended(log):
    run = bf.Replay(log, "saf").run(until_s=86_400)
    part, whole = run.result(), bf.replay(log, "saf")
    ends = whole.to_pandas().end_s
    assert (run.ended, part.ended, whole.ended) == (False, False, True)
    assert part.figures.jobs == (ends <= 86_400).sum() > 0
    assert 0 < part.figures.utilisation <= 1
    assert f"not ended    {800 - part.figures.jobs} of 800 jobs by " in repr(run)
    assert part.as_dict()["not_ended"] == 800 - part.figures.jobs
    assert "not_ended" not in whole.as_dict()
    states = part.to_pandas().state
    assert (states == "running").sum() == len(run.running)
    assert (states == "waiting").sum() == len(run.waiting)
    assert (states == "not submitted").sum() == (log.jobs.submit_s > run.now_s).sum()
    assert part.to_pandas().end_s.notna().sum() == part.figures.jobs
    with pytest.raises(bf.BatfillError, match="have not ended, which Batsim's files cannot show; run it to its end"):
        part.to_batsim("never")
    assert run.run().figures == whole.figures


@pytest.mark.needs("pandas")
def test_a_fork_goes_its_own_way_and_says_which(log):
    run = bf.Replay(log, "fcfs").run(until_s=86_400)
    other = run.fork(policy="wfp3", threshold_s=7200).run()
    assert run.options.policy.name == "fcfs"
    assert not run.ended
    assert other.result().as_dict()["changes"] == [{"until_s": run.now_s, "options": run.options.as_dict()}]
    assert (other.options.policy.name, other.options.threshold_s) == ("wfp3", 7200)
    assert run.fork().run().figures == bf.replay(log, "fcfs").figures != other.figures
    late = other.to_pandas().start_s.to_numpy() > run.now_s
    early = other.to_pandas()[~late].start_s
    assert early.equals(bf.replay(log, "fcfs").to_pandas()[~late].start_s)
    with pytest.raises(bf.BatfillError, match="argument 'small': only policy, backfill and threshold_s may change"):
        run.fork(small="all")


@pytest.mark.needs("pandas")
def test_a_saved_run_goes_on_with_a_policy_of_ones_own(log, mine, tmp_path):
    bf.Replay(log, mine, threshold_s=900, tau_s=np.timedelta64(60, "s")).run(until_s=40_000).save(tmp_path / "run.npz")
    with pytest.raises(PolicyError, match="policy 'mine' is unknown"):
        bf.Replay.load(tmp_path / "run.npz")
    again = bf.Replay.load(tmp_path / "run.npz", [mine])
    assert again.now_s <= 40_000
    expected = bf.replay(log, mine, threshold_s=900, tau_s=60)
    assert again.run().figures == expected.figures
    assert again.result().stated() == expected.stated()
    assert again.to_pandas().equals(expected.to_pandas())


def test_a_saved_run_states_every_option_as_before(log, tmp_path):
    classed = dataclasses.replace(log, job_class=np.ones(len(log), np.int8))
    rules = {"small": "class", "divider": 600, "small_width": 0.5, "threshold_s": 7200, "overdue": "half"}
    for run in (bf.Replay(log, "saf", backfill="spf"), bf.Replay(classed, "saf", **rules)):
        run.run(until_s=86_400).fork(threshold_s=50).save(tmp_path / "run.npz")
        again = bf.Replay.load(tmp_path / "run.npz")
        assert again.options == run.fork(threshold_s=50).options
        assert [options for _, options in again.changes] == [run.options]


# Anything at all

HOSTILE = [
    *(None, -1, 0, 1.5, math.nan, math.inf, True, 10**30, -(10**30), 2**63, 1j, np.float64("nan"), np.int64(3)),
    *("", "x", "nan", "\0", "a\nb", "9" * 400, b"x", "fcfs", "none"),
    *([], {}, (), [None], [1, 2], {"a": 1}, set(), np.array([]), np.array([1j]), object(), float, np),
]
ON_SAMPLE = {
    "read": lambda log: (
        bf.read,
        {"path": SAMPLE, "procs": None, "overrun": None, "unrequested": None, "timezone": None},
    ),
    "generate": lambda log: (bf.generate, {**GENERATED, "load": None, "longest_request_s": None, "interarrival": 1}),
    "write": lambda log: (bf.write, {"log": log, "path": "o.swf"}),
    "job_table": lambda log: (
        bf.job_table,
        {**TWO_JOBS, **dict.fromkeys(("ids", "killable", "waited_s"))},
    ),
    "Calendar": lambda log: (bf.Calendar.of, {"rows": []}),
    "key": lambda log: (lambda v: bf.replay(log, bf.Policy("mine", lambda r, p, q: v)), {"v": 1}),
    "Policy": lambda log: (bf.Policy, {"name": "mine", "key": max, "per_wait": None}),
    "replay": lambda log: (bf.replay, {"log": log, "tau_s": 10, "advance": None, **dict.fromkeys(OF_REPLAY)}),
    "many": lambda log: (bf.replay_many, {"log": log, "policies": ["saf"], "threads": 1, "advance": None}),
    "run": lambda log: (bf.Replay(log).run, {"until_s": 5}),
    "fork": lambda log: (bf.Replay(log).fork, {"policy": None, "backfill": None, "threshold_s": None}),
    "save": lambda log: (bf.Replay(log).save, {"path": "o"}),
    "load": lambda log: (bf.Replay.load, {"path": "o", "policies": ()}),
    "plot": lambda log: (bf.replay(log).plot, {"kind": "waits", "axes": None, "from_s": 0, "until_s": 5}),
    "who_pays": lambda log: (bf.replay(log).who_pays, {"base": None, "small_below_s": None}),
    "files": lambda log: (bf.replay(log).to_batsim, {"prefix": "o/x"}),
    "csv": lambda log: (log.to_csv, {"path": "o.csv"}),
    "select": lambda log: (log.jobs.select, {"rows": slice(3)}),
    "when": lambda log: (bf.when, {"state": bf.Replay(log).run("1h"), "job": None, "at": None, "forks": 3, "seed": 0}),
    "compare": lambda log: (
        lambda one, seed: bf.compare(bf.replay(log), one, seed=seed),
        {"one": bf.replay(log), "seed": 0},
    ),
    "fit": lambda log: (bf.fit, {"log": log, **FITTED}),
}
GENERATED = {"jobs": 20, "procs": 8, "seed": 0, "kind": "all", "users": 4, "requests": "tsafrir"}
TWO_JOBS = {
    "submit_s": [0, 1],
    "runtime_s": [1, 2],
    "walltime_s": [3, 4],
    "procs": [1, 1],
    "ids": None,
    "job_class": None,
}
FITTED = {"tuples": 2, "permutations": 64, "days": 0.5, "training": None, "count": None, "seed": 0, "weights": "pq"}
OF_REPLAY = ("policy", "procs", "overrun", "unrequested", "backfill", "depth", "tested", "threshold_s", "small", "kill")
OF_REPLAY += ("stand_back", "divider", "small_width", "calendar", "max_running", "predict", "preset", "say")


@pytest.mark.needs("pandas", "matplotlib")
@pytest.mark.parametrize("name", ON_SAMPLE)
def test_anything_given_to_the_interface_works_or_is_refused_in_a_line(name, tmp_path, monkeypatch, request):
    log = bf.read(request.config.rootpath / SAMPLE)
    function, arguments = ON_SAMPLE[name](log)
    if name != "read":
        monkeypatch.chdir(tmp_path)
    for argument in arguments:
        for value in HOSTILE:
            if argument in ("key", "per_wait", "advance", "say", "out") and callable(value):
                continue  # a function of the user's own, which may raise what it likes
            said = ""
            try:
                function(**{**arguments, argument: value})
            except bf.BatfillError as refused:
                said = str(refused)
            assert "\n" not in said
            assert len(said) < 2000
