"""The plug-in told by hand what Batsim may tell, in whatever pieces and order."""

from __future__ import annotations

import json
import re

import pytest

from batfill.model.options import OPTIONS, OPTIONS_FILE
from plugin import Plugin, as_message, begins, completed, event, killed, notify, submitted

CALL = event("REQUESTED_CALL")
NO_MORE = notify("no_more_static_job_to_submit")
# What Batsim 5 has no words for, or what one version says of both.
of_batsim_4 = pytest.mark.parametrize("_host", ["batfill", "pybatsim"], indirect=True)


@pytest.fixture(autouse=True, params=["batfill", "pybatsim", "Batsim 5"])
def _host(request, monkeypatch):
    monkeypatch.setattr(Plugin, "host", request.param)


# pybatsim says so at every acknowledged registration, by a method of the logging module that is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")


def test_one_pass_is_made_per_message_on_the_idle_machines_with_the_lowest_ids():
    plugin = Plugin().begin(4)
    assert plugin.tell(0, submitted("1", 0, 10, 2), submitted("2", 0, 10, 1)) == ["start 1 on 0-1", "start 2 on 2"]
    assert plugin.tell(5, completed("1"), submitted("3", 5, 10, 3)) == ["start 3 on 0-1 3"]


ODD = ("class", "medium"), ("killable", "no"), ("expected_time", -3), ("requested_time", "5"), ("user", "a")


@pytest.mark.parametrize(("field", "value"), ODD)
def test_a_field_of_the_users_that_cannot_be_read_is_named_once_with_what_is_assumed(caplog, field, value):
    jobs = [submitted(name, 0, 10, 1) for name in "123"]
    for job in jobs[1:]:
        job["data"]["job"][field] = value
    assert len(Plugin().begin(4).tell(0, *jobs)) == 3
    (line,) = [record.getMessage() for record in caplog.records if record.name == "batfill"]
    assert line.startswith(f"job w0!2: {field} {value!r} is not ")
    assert re.search(": (it counts as|it is ignored|the walltime counts)", line)


def with_workflow(plugin, **config):
    begun = begins(range(4), **config)
    begun["data"] |= {"workloads": {"w0": "made", "wf": "made.dax"}, "profiles": {"w0": {"delay": {}}, "wf": {}}}
    plugin(as_message(0, begun))
    return plugin


def arrives(name, subtime, res):
    job = {"id": f"wf!{name}", "subtime": subtime, "walltime": 25.5, "res": res, "profile": f"wf_ID{name}"}
    return event("JOB_SUBMITTED", job_id=job["id"], job=job)


@of_batsim_4
def test_jobs_of_a_workflow_have_profiles_that_were_not_announced():
    plugin = with_workflow(Plugin())
    told = arrives("1", 0.0, 3), arrives("2", 0.0, 2), arrives("3", 0.0, 1)
    assert plugin.tell(0, *told) == ["start wf!1 on 0-2", "start wf!3 on 3"]
    done = event("JOB_COMPLETED", job_id="wf!1", job_state="COMPLETED_SUCCESSFULLY", return_code=0)
    assert plugin.tell(15.5, done, arrives("4", 15.5, 3)) == ["start wf!2 on 0-1"]


@of_batsim_4
def test_kills_are_refused_when_the_first_job_of_a_workflow_is_seen(capsys):
    plugin = with_workflow(Plugin(small="class", divider=20, kill="always"), dynamic=True)
    assert plugin.tell(0, submitted("1", 0, 10, 1)) == ["start 1 on 0"]
    with pytest.raises(SystemExit):
        plugin.tell(1, arrives("1", 1.0, 1))
    assert "job 'wf!1' is part of a workflow" in capsys.readouterr().err


def test_an_instant_told_in_pieces_is_decided_piece_by_piece():
    plugin = Plugin(policy="saf").begin(1)
    assert plugin.tell(0, submitted("1", 0, 10, 1), submitted("2", 0, 20, 1)) == ["start 1 on 0"]
    assert plugin.tell(10, completed("1")) == ["start 2 on 0"]
    assert plugin.tell(10, submitted("3", 10, 5, 1)) == []  # too late, though it would have gone first


def test_the_end_of_an_instant_may_arrive_after_its_submissions():
    plugin = Plugin().begin(1)
    plugin.tell(0, submitted("1", 0, 10, 1))
    assert plugin.tell(10, submitted("2", 10, 10, 1)) == []
    assert plugin.tell(10, completed("1")) == ["start 2 on 0"]


def test_fractions_of_seconds_decide():
    plugin = Plugin().begin(2)
    plugin.tell(0, submitted("1", 0, 10.5, 1))
    assert plugin.tell(0.25, submitted("2", 0.25, 1, 2)) == []
    assert plugin.tell(0.5, submitted("3", 0.5, 10.001, 1)) == []
    assert plugin.tell(0.5, submitted("4", 0.5, 10, 1)) == ["start 4 on 1"]


def test_a_job_without_walltime_is_not_backfilled_in_time():
    for walltime in (None, -1):
        plugin = Plugin().begin(3)
        plugin.tell(0, submitted("1", 0, 100, 2), submitted("2", 0, 100, 3))
        assert plugin.tell(1, submitted("3", 1, walltime, 1)) == []
        assert plugin.tell(2, submitted("4", 2, 98, 1)) == ["start 4 on 2"]


# Machines


def test_storage_is_never_given_to_a_job():
    plugin = Plugin()
    plugin(as_message(0, begins([0, 1, 4], storage=[2, 3])))
    assert plugin.tell(0, submitted("1", 0, 10, 4)) == ["reject 1"]
    assert plugin.tell(0, submitted("2", 0, 10, 3)) == ["start 2 on 0-1 4"]


def test_an_idle_machine_that_goes_away_is_not_used_until_it_is_back():
    plugin = Plugin().begin(3)
    plugin.tell(0, notify("event_machine_unavailable", resources="1"))
    assert plugin.tell(1, submitted("1", 1, 10, 2)) == ["start 1 on 0 2"]
    assert plugin.tell(2, submitted("2", 2, 10, 1)) == []
    assert plugin.tell(3, notify("event_machine_available", resources="1")) == ["start 2 on 1"]


def test_a_busy_machine_that_goes_away_is_not_given_back_by_its_job():
    plugin = Plugin().begin(3)
    assert plugin.tell(0, submitted("1", 0, 10, 2)) == ["start 1 on 0-1"]
    plugin.tell(1, notify("event_machine_unavailable", resources="0-1"))
    assert plugin.tell(2, submitted("2", 2, 10, 2)) == []
    assert plugin.tell(5, completed("1")) == []
    assert plugin.tell(6, notify("event_machine_available", resources="1")) == ["start 2 on 1-2"]
    assert plugin.tell(7, notify("event_machine_available", resources="0")) == []
    assert plugin.tell(8, submitted("3", 8, 10, 1)) == ["start 3 on 0"]


# The order of arrival


# Small jobs: first, killed at the divider, submitted again


def small_plugin(machines=1, **config):
    return Plugin(small="class", divider=20, kill="always").begin(machines, dynamic=True, **config)


def test_a_small_job_goes_first_and_is_killed_at_the_divider_and_submitted_again_as_large():
    plugin = small_plugin()
    assert plugin.tell(0, submitted("1", 0, 50, 1, small=True)) == ["start 1 on 0"]
    plugin.tell(1, submitted("2", 1, 50, 1, small=False), submitted("3", 1, 50, 1, small=True))
    assert plugin.tell(20, CALL) == ["kill 1"]
    assert plugin.tell(20, *killed("1")) == ["submit 1#1 of 0", "start 3 on 0"]
    assert plugin.tell(30, completed("3")) == ["start 1#1 on 0"]
    assert plugin.tell(40, CALL) == []  # which was for job 3: not killed again


def test_a_call_in_the_message_of_the_completion_kills_nothing():
    for events in ([CALL, completed("1")], [completed("1"), CALL]):
        plugin = small_plugin()
        plugin.tell(0, submitted("1", 0, 50, 1, small=True))
        assert plugin.tell(20, *events) == []


def test_a_kill_that_comes_too_late_requeues_nothing():
    plugin = small_plugin()
    plugin.tell(0, submitted("1", 0, 50, 1, small=True), submitted("2", 0, 50, 1))
    assert plugin.tell(20, CALL) == ["kill 1"]
    assert plugin.tell(20, completed("1"), *killed("1", ran=False)) == ["start 2 on 0"]
    assert plugin.tell(30, completed("2"), NO_MORE) == ["finished"]


def test_a_message_in_which_nothing_happens_is_followed_by_no_decision():
    """Job c, which has become overdue, could start at any decision from date 7 on."""
    plugin = Plugin(policy="saf", threshold=5, small="class", divider=10, kill="always").begin(2, dynamic=True)
    first = submitted("r", 0, 100, 1), submitted("a", 0, 100, 1, small=True)
    assert plugin.tell(0, *first) == ["start a on 0", "start r on 1"]
    plugin.tell(1, submitted("c", 1, 1000, 1))
    plugin.tell(2, submitted("b", 2, 10, 2))
    assert plugin.tell(3, completed("a")) == []
    assert plugin.tell(10, CALL) == []
    assert plugin.tell(11, notify("no_more_external_event_to_occur")) == []
    assert plugin.tell(12, submitted("d", 12, 10, 3)) == ["reject d", "start c on 0"]


def test_jobs_start_in_place_of_a_try_once_its_kill_is_reported():
    plugin = Plugin(policy="saf", small="class", divider=10, kill="always").begin(2, dynamic=True)
    assert plugin.tell(0, submitted("1", 0, 50, 1, small=True)) == ["start 1 on 0"]
    plugin.tell(5, submitted("2", 5, 10, 2))
    assert plugin.tell(10, CALL, submitted("3", 10, 5, 1)) == ["kill 1"]  # beside which job 3 would fit
    assert plugin.tell(10, *killed("1")) == ["submit 1#1 of 0", "start 3 on 0"]


def test_the_end_of_registrations_is_said_once_and_when_nothing_can_be_requeued():
    plugin = small_plugin()
    assert plugin.tell(0, submitted("1", 0, 50, 1, small=True), submitted("2", 0, 50, 1)) == ["start 1 on 0"]
    assert plugin.tell(1, NO_MORE) == []
    assert plugin.tell(20, CALL) == ["kill 1"]
    assert plugin.tell(20, *killed("1")) == ["submit 1#1 of 0", "start 1#1 on 0", "finished"]
    assert plugin.tell(50, completed("1#1")) == ["start 2 on 0"]
    assert plugin.tell(60, completed("2")) == []


@of_batsim_4
def test_without_small_jobs_the_end_of_registrations_is_said_with_the_last_submission():
    plugin = Plugin().begin(1, dynamic=True)
    assert plugin.tell(0, submitted("1", 0, 9, 1), NO_MORE) == ["start 1 on 0", "finished"]


@of_batsim_4
@pytest.mark.parametrize("config", [{}, {"dynamic": True, "reuse": False}])
def test_a_divider_needs_batsims_options_and_says_which(capsys, config):
    with pytest.raises(SystemExit, match=r"^2$"):
        Plugin(small="class", divider=20, kill="always").begin(1, **config)
    assert capsys.readouterr().err == (
        "batfill: option kill: always kills jobs and submits them again; "
        "start Batsim with --enable-dynamic-jobs --enable-profile-reuse, or choose kill never\n"
    )


# The rest of what Batsim and pybatsim may say


@of_batsim_4
def test_events_that_concern_others_change_nothing():
    plugin = Plugin().begin(2, unknown=True)
    plugin.tell(0, submitted("1", 0, 10, 1))
    events = [
        event("FROM_JOB_MSG", job_id="w0!1", msg="hello"),
        notify("no_more_external_event_to_occur"),
        notify("coffee", strong=True),
    ]
    assert plugin.tell(1, *events) == []
    if plugin.host == "pybatsim":
        answers = [event("RESOURCE_STATE_CHANGED", resources="0-1", state="3"), event("ANSWER", consumed_energy=12.5)]
        assert plugin.tell(1, *answers) == []
        plugin.scheduler.onDatasetArrivedOnStorage("data", 0, 1)
        plugin.scheduler.onDataTransferNotTerminated("data", 0, 1)
    assert plugin.tell(2, submitted("2", 2, 10, 1)) == ["start 2 on 1"]


def test_fields_that_nothing_reads_are_counted_at_the_end(caplog):
    plugin = Plugin().begin(4)
    for name, fields in {"1": {}, "2": {"bb": 5, "user_id": 7}, "3": {"bb": 6, "after": "w0!1"}}.items():
        job = submitted(name, 0, 10, 1)
        job["data"]["job"] |= fields
        plugin.tell(0, job)
    assert caplog.messages == []
    plugin.tell(10, *(completed(name) for name in "123"), event("SIMULATION_ENDS"))
    assert caplog.messages == ["not modelled: the field after of 1 job", "not modelled: the field bb of 2 jobs"]


def test_a_divider_that_meets_no_class_is_warned_of_at_the_end(caplog):
    for small, said in ((None, 1), (False, 0), (True, 0)):
        caplog.clear()
        plugin = Plugin(small="class", divider=10, kill="always").begin(dynamic=True)
        plugin.tell(0, submitted("1", 0, 20, 1, small=small))
        plugin.tell(5, completed("1"), event("SIMULATION_ENDS"))
        assert sum("option small did nothing: no job had a field" in text for text in caplog.messages) == said


def test_every_option_in_force_is_stated_to_the_file_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(OPTIONS_FILE, str(tmp_path / "options.json"))
    Plugin(threshold="1h", small="forest", seed=2)
    stated = json.loads((tmp_path / "options.json").read_text())
    assert tuple(stated) == (*OPTIONS, "unlimited", "plan")
    assert (stated["seed"], stated["kill"], stated["threshold"], stated["policy"]) == (2, "needed", 3600, "fcfs")
    Plugin(select="full:budget=0,policies=saf+spf")
    stated = json.loads((tmp_path / "options.json").read_text())
    assert stated["policy"] is None
    assert stated["select"].startswith("full:policies=saf+spf,period=604800,")
    assert stated["select"].endswith(",budget=0,seed=0")
