"""One decision, three hosts: recorded Batsim, the embedded simulator and the replay see the same starts."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from procset import ProcSet

from batfill.model.limits.calendar import Calendar
from batfill.model.options import Options
from batfill.model.policy import POLICIES
from batfill.replays.replay import simulate
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document, read_batsim_json
from batfill.workloads.convert import convert
from golden import RUNS, recording
from plugin import DECISIVE, Plugin, assert_same_starts, completed, notify, starts_of_plugin, submitted
from small_runs import as_workload, starts_by_name
from strategies import outliving, random_table, replayed, with_amounts
from sweeps import sweep

# pybatsim says so at every acknowledged registration, by a method of the logging module that is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")


# Recorded runs of Batsim


def decisions(reply):
    """What a reply decides: one tuple per job, whatever the order and the number format."""
    decided = set()
    for event in json.loads(reply)["events"]:
        kind, data = event["type"], event["data"]
        if kind == "KILL_JOB":
            decided |= {(kind, job) for job in data["job_ids"]}
        elif kind == "REGISTER_JOB":
            job = data["job"]
            decided.add((kind, data["job_id"], *(job[field] for field in ("subtime", "walltime", "res", "profile"))))
        elif kind in DECISIVE:
            decided.add((kind, data["job_id"], str(ProcSet.from_str(data.get("alloc", "")))))
    return decided


def said(kind, reply):
    return [event for event in json.loads(reply)["events"] if event["data"].get("type") == kind]


@pytest.mark.parametrize("name", RUNS)
def test_told_what_batsim_told_the_plugin_decides_message_by_message_what_was_recorded(name):
    run = recording(name)
    plugin = Plugin(**json.loads((run.folder / "run.json").read_text())["scheduler"])
    replies = [plugin(asked) for asked, _ in run.exchanges]
    wrong = [
        (asked, decisions(reply), decisions(recorded))
        for reply, (asked, recorded) in zip(replies, run.exchanges, strict=True)
        if decisions(reply) != decisions(recorded)
    ]
    assert not wrong, f"{len(wrong)} of {len(replies)} replies differ; the first: {wrong[0]}"

    ends = [i for i, reply in enumerate(replies) if said("registration_finished", reply)]
    assert len(ends) == ("--enable-dynamic-jobs" in run.batsim_options)
    for end in ends:
        assert any(said("no_more_static_job_to_submit", asked) for asked, _ in run.exchanges[: end + 1])
        later = {kind for reply in replies[end + 1 :] for kind, *_ in decisions(reply)}
        assert not later & {"KILL_JOB", "REGISTER_JOB"}


# The embedded simulator and the replay


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A function that writes a job table as a Batsim workload and returns its path."""

    def write(jobs, size):
        path = tmp_path_factory.mktemp("workload") / "made.json"
        path.write_text(json.dumps({"nb_res": size, **as_workload(jobs)}))
        return path

    return write


def assert_hosts_agree(path, size, *, policy, backfill=None, threshold=math.inf, divider=math.inf):
    rules = {"backfill": backfill, "threshold_s": threshold, "divider_s": divider}
    schedule = replayed(read_batsim_json(path).jobs, size, policy, **rules)
    options = {"policy": policy, "backfill": backfill, "threshold": threshold, "divider": divider}
    given = {name: value for name, value in options.items() if value not in (None, math.inf)}
    if "divider" in given:
        given |= {"small": "class", "kill": "always"}
    theirs = starts_of_plugin(load_document(path), size, kills="divider" in given, **given)
    assert_same_starts(starts_by_name(schedule), theirs)


def starts_of_replay(path, options):
    """The starts of a replay of this workload, by the names that they have under Batsim."""
    log = read_workload(path)
    return starts_by_name(simulate(log.jobs, log, Options.of(options))[0])


@pytest.fixture(params=["batfill", "pybatsim", "Batsim 5"])
def every_host(request, monkeypatch):
    monkeypatch.setattr(Plugin, "host", request.param)


TRIES = [
    {"policy": "wfp3", "divider": 300},
    {"policy": "aged:600,0.5,0.5", "divider": 300},
    {"policy": "spf", "divider": 600, "threshold": 1800, "overdue": "half"},
    {"policy": "saf", "divider": "median/4", "threshold": 1800},
    {"policy": "spf", "divider": 300, "threshold": 1800, "overdue": "half", "stand-back": 3},
    {"policy": "saf", "small": "class", "kill": "always", "divider": 300, "threshold": 1800, "backfill": "spf"},
]


@pytest.mark.parametrize(*sweep(host=["batfill", "pybatsim", "Batsim 5"], chosen=TRIES))
def test_where_calls_ends_and_overdue_dates_coincide_the_hosts_agree_on_every_start(written, monkeypatch, host, chosen):
    """Minutes, of jobs that outlive their requests: a decision at the call for a try that has ended changes starts."""
    monkeypatch.setattr(Plugin, "host", host)
    options = {"small": "all", **chosen}
    for seed in (3, 4):
        jobs = random_table(seed, n_jobs=150, size=12, span_s=2000, unit_s=60, small=0.7, short=0.3)
        times = {"submit_s": 10 * jobs.submit_s, "runtime_s": np.maximum(jobs.runtime_s, 60)}
        path = written(outliving(dataclasses.replace(jobs, **times)), 12)
        ours = starts_of_replay(path, options)
        for acknowledge in (False, True) if options.get("kill") != "always" else (False,):
            theirs = starts_of_plugin(load_document(path), 12, kills=True, acknowledge=acknowledge, **options)
            assert_same_starts(ours, theirs)


def test_a_live_scheduler_says_what_no_job_takes_of_a_pool_and_what_is_more_than_there_is(written, caplog):
    jobs = with_amounts(random_table(8, n_jobs=9, size=12, span_s=67, wide=0), np.full((9, 1), 3))
    budget = {"energy-budget": "9kWh@0..9,watts=p2"}
    starts_of_plugin(load_document(written(jobs, 12)), 12, policy="fcfs", pool="p0=2,p1=4", **budget)
    assert "requests 3 of p0: rejected; further such jobs are only counted" in caplog.text
    assert "9 jobs were rejected: they request more p0 than there is" in caplog.text
    for option, field in (("pool", "p1"), ("energy-budget", "p2")):
        assert f"option {option} did nothing: no job has a field {field} above 0; name another" in caplog.text
    assert "not modelled" not in caplog.text


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A function from a log to a Batsim workload of it, converted once."""
    done = {}

    def convert_once(log, jobs=None, overrun="keep", first=0):
        key = log, jobs, overrun, first
        if key not in done:
            done[key] = tmp_path_factory.mktemp("workload") / "log.json"
            convert(log, done[key], jobs=slice(first, jobs), overrun=overrun)
        return done[key]

    return convert_once


KTH, SDSC = "KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz"
WHOLE = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize(
    ("policy", "jobs", "thresholds"),
    [
        *(pytest.param(name, 10_000, (math.inf, 200_000), marks=WHOLE) for name in ("saf", "wfp3")),
        *((name, 1000, (20_000,)) for name in POLICIES),
    ],
)
def test_on_the_first_jobs_of_sdsc_sp2_the_hosts_agree_on_every_start(archive_log, converted, policy, jobs, thresholds):
    path = converted(archive_log(SDSC), jobs)
    for threshold in thresholds:
        assert_hosts_agree(path, 128, policy=policy, threshold=threshold)


@pytest.mark.parametrize("policy", ["fcfs", pytest.param("saf", marks=pytest.mark.slow)])
@pytest.mark.parametrize("log", ["CTC-SP2-1996-3.1-cln.swf.gz", "HPC2N-2002-2.2-cln.swf.gz"])
def test_on_logs_whose_jobs_outlive_their_requests_the_hosts_agree_on_every_start(archive_log, converted, log, policy):
    path = converted(archive_log(log), 2000, "extend")
    workload = read_batsim_json(path)
    assert (workload.jobs.runtime_s > workload.jobs.asked_s).sum() > 100
    assert_hosts_agree(path, workload.size, policy=policy, threshold=100_000)


@pytest.mark.parametrize(
    ("log", "first", "jobs", "options"),
    [
        (KTH, 15_577, 16_027, {"preset": "first-tries"}),
        pytest.param(KTH, 0, None, {"preset": "first-tries"}, marks=WHOLE),
        pytest.param(KTH, 0, None, {"policy": "wfp3", "threshold": 200_000}, marks=WHOLE),
        pytest.param(SDSC, 0, None, {"preset": "first-tries"}, marks=WHOLE),
        pytest.param(SDSC, 0, None, {"policy": "wfp3", "small": "all", "divider": 600}, marks=WHOLE),
        pytest.param(SDSC, 0, None, {"policy": "saf", "small": "all", "divider": 600, "kill": "always"}, marks=WHOLE),
    ],
)
def test_on_whole_logs_the_hosts_agree_on_every_start(archive_log, converted, every_host, log, first, jobs, options):
    """Of the cut of KTH-SP2, four starts are others if calls for tries that have ended are followed by decisions."""
    path = converted(archive_log(log), jobs, first=first)
    document = load_document(path)
    theirs = starts_of_plugin(document, document.nb_res, kills="threshold" not in options, **options)
    assert_same_starts(starts_of_replay(path, options), theirs)


def test_machines_that_become_unavailable_in_a_window_are_the_windows():
    calendar = Calendar.of([{"kind": "announced", "begin": 100, "end": 200, "processors": 3}])
    plugin = Plugin(policy="fcfs", calendar=calendar).begin(4)
    jobs = submitted("z", 95, 10, 4), submitted("b", 95, 200, 1), submitted("c", 95, 5, 2)
    assert plugin.tell(95, *jobs) == ["start b on 0", "start c on 1-2"]
    called = json.loads('{"type": "REQUESTED_CALL", "data": {}}')
    assert plugin.tell(100, notify("event_machine_unavailable", resources="2-3"), completed("c"), called) == []
    assert plugin.tell(150, submitted("d", 150, 10, 1)) == []
    # 2 of the window's 3 are those that Batsim has withdrawn. If they stay away, one is left at its end.
    assert plugin.tell(200, called) == ["start d on 1"]
    assert plugin.tell(210, completed("d"), notify("event_machine_available", resources="2-3")) == []
    assert plugin.tell(295, completed("b")) == ["start z on 0-3"]


def calendar_with(kind, **of):
    return Calendar.of([{"kind": kind, "begin": 1, "end": 2, "processors": 1} | of])


def test_a_job_for_which_the_calendar_has_no_gap_is_rejected_under_batsim(caplog):
    plugin = Plugin(policy="fcfs", calendar=calendar_with("announced", begin=50, end="")).begin(4)
    assert plugin.tell(0, submitted("a", 0, 60, 4), submitted("b", 0, 50, 4)) == ["reject a", "start b on 0-3"]
    assert "w0!a requests 4 of 4 machines, for which calendar has no gap: rejected" in caplog.text
    plugin.tell(10, completed("b"), {"type": "SIMULATION_ENDS", "data": {}})
    assert "1 jobs were rejected: they request a gap in calendar" in caplog.text
