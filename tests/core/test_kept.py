"""Kept plans: recordings of batsched and LANL, an oracle that tries every second, properties, and cases on paper."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import BatfillError
from batfill.batsim_files.machines import intervals_text
from batfill.live.agent import Agent
from batfill.live.cluster import Cluster
from batfill.live.kept import KeptPlan, Place, machines_of, mask_of
from batfill.workloads.batsim_json import BatsimDocument, load_document
from command import batfill, refusal
from plugin import Plugin, completed, notify, submitted
from small_runs import ended_under, machines
from sweeps import examples, sweep

DATA = Path(__file__).parents[1] / "data" / "kept"
SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
KEPT = {"depth": "all", "plan": "kept"}
REJECTED = ("", "", "")
DAY_30_S, WINDOW_S = 2_592_000.0, 32_400.0  # of LANL's maintenance


# Recordings


def recorded(name):
    """Each run's rows by job: (start, end, machines), the start empty for a rejected job."""
    runs = {}
    with lzma.open(DATA / f"{name}.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["run"], {})[row["job"]] = row["start"], row["end"], row["machines"]
    return runs


def rows_of(document, size, *, windows=(), made_by=KeptPlan, **options):
    """The same of a run in the embedded simulator, under a plan with these windows."""
    plugin = Plugin(**KEPT | options)
    plan = made_by(range(size), plugin.agent.margin_s, windows)
    plugin.agent.cluster = Cluster(range(size), plugin.agent.chosen, plan=plan)
    return {
        record.job_id: REJECTED
        if record.final_state == "REJECTED"
        else (f"{record.starting_time:.6f}", f"{record.finish_time:.6f}", str(record.allocated_resources))
        for record in ended_under(plugin, document, machines(size))
    }


def assert_as_recorded(ours, theirs):
    assert ours.keys() == theirs.keys()
    off = [job for job in theirs if [exact(part) for part in ours[job]] != [exact(part) for part in theirs[job]]]
    assert not off, f"{len(off)} of {len(ours)}, {off[0]} among them: {ours[off[0]]}, and not {theirs[off[0]]}"


def exact(text):
    """Dates as numbers; the machines as they are."""
    try:
        return round(float(text), 3)
    except ValueError:
        return text


RUNS = ["fcfs 5", *(f"{policy} 0" for policy in ("fcfs", "lcfs", "sqf", "lqf", "spf", "lpf"))]


@pytest.mark.parametrize(*sweep(host=["batfill", "pybatsim", "Batsim 5"], run=RUNS))
def test_on_the_sample_every_start_end_and_machine_is_batscheds(monkeypatch, host, run):
    monkeypatch.setattr(Plugin, "host", host)
    policy, margin = run.split()
    ours = rows_of(load_document(SAMPLE), 64, policy=policy, plan=f"kept:{margin}")
    assert_as_recorded(ours, recorded("sample")[run])


@pytest.mark.parametrize("margin", [0, 5])
def test_on_5000_jobs_of_kth_sp2_every_start_end_and_machine_is_batscheds(archive_log, tmp_path, margin):
    log, made = archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), tmp_path / "kth.json"
    assert batfill("workload", "convert", log, "--overrun", "kill", "--jobs", "0:5000", "--out", made).status == 0
    ours = rows_of(load_document(made), 100, plan=f"kept:{margin}")
    assert_as_recorded(ours, recorded("kth")[f"fcfs {margin}"])


@pytest.mark.parametrize("host", ["batfill", "Batsim 5"])
def test_on_16_workloads_made_by_hand_every_start_end_machine_and_rejection_is_batscheds(monkeypatch, tmp_path, host):
    monkeypatch.setattr(Plugin, "host", host)
    runs, made = recorded("hand"), json.loads(lzma.decompress((DATA / "hand.json.xz").read_bytes()))
    assert len(runs) == 32
    for run, rows in runs.items():
        name, margin = run.split()
        (tmp_path / "made.json").write_text(json.dumps(made[name]))
        document = load_document(tmp_path / "made.json")
        assert_as_recorded(rows_of(document, document.nb_res, plan=f"kept:{margin}"), rows)


@pytest.mark.parametrize("nodes", [1490, 745])
def test_on_lanls_774_jobs_every_start_and_machine_is_that_of_its_scheduler_around_30_windows(nodes):
    with lzma.open(DATA / "lanl.csv.xz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 774
    windows = [Place(i * DAY_30_S, i * DAY_30_S + WINDOW_S, (1 << nodes) - 1) for i in range(1, 31)]
    jobs, theirs = [], {}
    for row in rows:
        submit_s, runtime_s, request_s, start_s = (float(row[x]) for x in ("submit", "runtime", "walltime", "start"))
        jobs.append((row["job"], submit_s, runtime_s, request_s, int(row["nodes"])))
        theirs[row["job"]] = row["start"], str(start_s + runtime_s), row["machines"]
    assert_as_recorded(rows_of(document_of(jobs, 1490), 1490, windows=windows), theirs)


def document_of(jobs, size):
    """A workload of (id, submission, run time, request or None, machines)."""
    rows = [
        {"id": name, "subtime": submit_s, "res": procs, "profile": f"{runtime_s:g}"}
        | ({} if request_s is None else {"walltime": request_s})
        for name, submit_s, runtime_s, request_s, procs in jobs
    ]
    profiles = {f"{runtime_s:g}": {"type": "delay", "delay": runtime_s} for _, _, runtime_s, _, _ in jobs}
    return BatsimDocument(Path("made.json"), size, rows, profiles, "")


# The oracle


KEYS = {
    "fcfs": lambda submit, request, procs: submit,
    "lcfs": lambda submit, request, procs: -submit,
    "spf": lambda submit, request, procs: request,
    "lpf": lambda submit, request, procs: -request,
    "sqf": lambda submit, request, procs: procs,
    "lqf": lambda submit, request, procs: -procs,
    "saf": lambda submit, request, procs: request * procs,
}


def oracle(jobs, size, policy, margin, windows):
    """The rules second by second: {job: (start, end, machines) or None}, and the plan after each decision."""
    known = {name: (submit, run, request, procs) for name, submit, run, request, procs in jobs}
    plan = {f"window {i}": (begin, end, held) for i, (begin, end, held) in enumerate(windows)}
    done, waiting, running, plans, now = {}, set(), {}, {}, 0
    while len(done) < len(jobs) or now <= max((end for _, end, _ in windows), default=0):
        ended = [name for name, end in running.items() if end == now]
        for name in ended:
            done[name] = plan[name][0], now, plan.pop(name)[2]
            del running[name]
        moves = bool(ended) or (len(waiting) > 0 and any(end == now for _, end, _ in windows))
        new = sorted(name for name in known if known[name][0] == now)
        for name in new:
            if known[name][2] is None or known[name][3] > size:
                done[name] = None
            else:
                waiting.add(name)
        if moves:
            order = sorted(waiting, key=lambda name: (KEYS[policy](known[name][0], *known[name][2:]), name))
        else:
            order = [name for name in new if name in waiting]
        for name in order:
            _, run, request, procs = known[name]
            plan.pop(name, None)
            length, begin, free = request + margin, now - 1, set()
            while len(free) < procs:
                begin += 1
                taken = [held for at, until, held in plan.values() if at < begin + length and until > begin]
                free = set(range(size)).difference(*taken)
            plan[name] = begin, begin + length, frozenset(sorted(free)[:procs])
            if begin == now:
                waiting.remove(name)
                running[name] = now + min(run, request)
        plans[now] = {name: place for name, place in plan.items() if name in waiting or name in running}
        now += 1
    return done, plans


@st.composite
def cases(draw):
    """Jobs, a machine's size, an order, a margin and windows; ids whose order as text is not that of numbers."""
    size = draw(st.integers(1, 6))
    ids = draw(st.permutations([str(i) for i in range(1, draw(st.integers(1, 14)) + 1)]))
    jobs = []
    for name in ids:
        run = draw(st.integers(1, 12))
        request = draw(st.just(run) | st.integers(1, 20)) if draw(st.integers(0, 19)) else None
        jobs.append((name, draw(st.integers(0, 12)), run, request, draw(st.integers(1, size + (run == 12)))))
    held = st.frozensets(st.integers(0, size - 1), min_size=1)
    windows = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10), held), max_size=2))
    windows = [(begin, begin + length, machines) for begin, length, machines in windows]
    return jobs, size, draw(st.sampled_from(list(KEYS))), draw(st.sampled_from([0, 0, 1, 5])), windows


class Watched(KeptPlan):
    """Notes the plan after each decision, and checks that no place moves later and no machine is in two at a time."""

    def __init__(self, *given):
        super().__init__(*given)
        self.names, self.plans = {}, {}
        Watched.last, self.windows = self, given[2]

    def submit(self, row, request, key):
        super().submit(row, request, key)
        self.names[row] = request.name.removeprefix("w0!")

    def decide(self, now_s):
        before = {job.row: self.places[job.row] for job in self.waiting if job.row in self.places}
        started = super().decide(now_s)
        assert all(self.places[row].begin_s <= place.begin_s for row, place in before.items())
        held = [*self.places.values(), *self.windows]
        for i, (begin_s, end_s, taken) in enumerate(held):
            for other_s, until_s, others in held[: min(i, len(self.places))]:
                assert not (taken & others and begin_s < until_s and other_s < end_s)
        for row, on in started:
            assert (self.places[row].begin_s, machines_of(self.places[row].machines)) == (now_s, on)
        self.plans[now_s] = {
            self.names[row]: (place.begin_s, place.end_s, frozenset(ids_of(place.machines)))
            for row, place in self.places.items()
        }
        return started


def ids_of(mask):
    return [machine for first, last in machines_of(mask) for machine in range(first, last + 1)]


@settings(deadline=None, max_examples=examples(150))
@given(cases())
def test_any_workload_has_the_plan_of_the_oracle_after_each_decision(case):
    jobs, size, policy, margin, windows = case
    done, plans = oracle(*case)
    rules = {"policy": policy, "plan": f"kept:{margin}"}
    places = [Place(begin, end, mask_of(held)) for begin, end, held in windows]
    ours = rows_of(document_of(jobs, size), size, windows=places, made_by=Watched, **rules)
    assert_as_recorded(ours, {name: text_of(place) for name, place in done.items()})
    for now, plan in Watched.last.plans.items():
        assert plan == plans[now]


def text_of(place):
    return (str(place[0]), str(place[1]), intervals_text(machines_of(mask_of(place[2])))) if place else REJECTED


# Cases on paper


def test_a_job_that_still_runs_at_its_planned_end_holds_its_machines_until_it_ends():
    kept = Plugin(**KEPT).begin(2)
    assert kept.tell(0, submitted("a", 0, 10, 2)) == ["start a on 0-1"]
    assert kept.tell(1, submitted("b", 1, 10, 1)) == []
    # Another message of the instant at which a should end: c fits behind b's place, and neither starts yet.
    assert kept.tell(10, submitted("c", 10, 10, 1)) == []
    assert kept.tell(10, completed("a")) == ["start b on 0", "start c on 1"]


def test_machines_that_go_away_make_every_job_move_and_one_that_needs_them_has_no_place():
    away, back = (notify(f"event_machine_{what}available", resources="1") for what in ("un", ""))
    kept = Plugin(**KEPT).begin(3)
    assert kept.tell(0, submitted("a", 0, 10, 3)) == ["start a on 0-2"]
    assert kept.tell(1, submitted("b", 1, 10, 2), submitted("c", 1, 5, 3), submitted("d", 1, 30, 1)) == []
    assert kept.tell(2, away) == []
    # c has no place any more, so that d is not held back by it.
    assert kept.tell(10, completed("a")) == ["start b on 0 2"]
    assert kept.tell(15, back) == ["start d on 1"]
    assert kept.tell(20, completed("b")) == []
    assert kept.tell(45, completed("d")) == ["start c on 0-2"]


def test_after_a_time_without_jobs_new_ones_are_placed_in_the_order_of_the_message():
    kept = Plugin(policy="spf", **KEPT).begin(1)
    assert kept.tell(0, submitted("a", 0, 5, 1)) == ["start a on 0"]
    assert kept.tell(5, completed("a")) == []
    assert kept.tell(9, submitted("b", 9, 20, 1), submitted("c", 9, 10, 1)) == ["start b on 0"]


# What is refused

UNKNOWN_PLANS = ("keep", "kept:", "scratch:5", 5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"depth": 1}, "a kept plan holds a place for every job that waits; choose depth all, or leave plan out"),
        ({"policy": "wfp3"}, "takes an order that stays as it is while jobs wait; choose another policy"),
        ({"threshold": 100}, "lets no job overtake; choose threshold none"),
        ({"small": "all"}, "has no first tries; choose small none, or leave plan out"),
        ({"preset": "first-tries", "policy": "saf"}, "choose threshold none in place of the preset's threshold, or"),
        ({"predict": "easy++"}, "goes by requests; choose predict request"),
        ({"backfill": "spf"}, "with depth all no order of backfilling begins behind the last"),
        ({"select": "full"}, "select compares policies with one reservation"),
        ({"reservation": "machines"}, "with reservation machines one job of all"),
        ({"plan": "kept:-1"}, "option plan: '-1' is not a number of seconds >= 0"),
        ({"tested": 5}, "places every job that waits; choose tested all"),
        ({"max-running": 5}, "holds a place for every job; choose max_running none"),
        *(({"plan": plan}, f"option plan: {plan!r} is none of scratch, kept") for plan in UNKNOWN_PLANS),
    ],
    ids=str,
)
def test_what_a_kept_plan_does_not_model_is_refused_in_words(given, words):
    with pytest.raises(BatfillError, match=words):
        Agent(KEPT | given)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ("kind,begin,end,processors\nannounced,10,20,1\n", "line 2: has a number of processors, and a kept plan is of"),
        ("kind,begin,end,machines\nannounced,10,20,1-2\n", "line 2: machine 2 is unknown"),
        ("kind,begin,end,announced,machines\nannounced,10,20,5,1\n", "line 2: is announced at a date, and a kept"),
    ],
)
def test_a_kept_plan_takes_calendars_that_name_its_machines_from_the_start(tmp_path, capsys, lines, wrong):
    (tmp_path / "windows.csv").write_text(lines)
    with pytest.raises(SystemExit):
        Plugin(**KEPT, calendar=str(tmp_path / "windows.csv")).begin(2)
    assert wrong in capsys.readouterr().err


def test_no_job_runs_on_a_machine_in_its_window_and_the_scheduler_is_called_at_the_windows_end(tmp_path):
    (tmp_path / "windows.csv").write_text("kind,begin,end,machines\nannounced,5,50,0-1\nannounced,60,70,0\n")
    plugin = Plugin(**KEPT, calendar=str(tmp_path / "windows.csv")).begin(2)
    jobs = [submitted("a", 0, 10, 1), submitted("b", 0, 20, 2), submitted("c", 0, 5, 2)]
    assert plugin.tell(0, *jobs) == ["start c on 0-1"]
    plan = plugin.agent.cluster.plan
    assert (plan.windows_end_s, plan.called_s) == ([70, 50], 50)  # a call is needed where a window ends and jobs wait
    assert plugin.tell(5, completed("c")) == []
    assert plugin.tell(50, {"type": "REQUESTED_CALL", "data": {}}) == ["start a on 0"]
    assert plan.called_s == 70
    assert plugin.tell(60, completed("a")) == []
    assert plugin.tell(70, {"type": "REQUESTED_CALL", "data": {}}) == ["start b on 0-1"]
    assert plugin.agent.stated()["calendar"] == str(tmp_path / "windows.csv")


def test_a_job_that_may_outlive_its_request_ends_the_run_with_a_line_that_says_why(capsys):
    job = submitted("a", 0, 20, 1)
    job["data"]["job"]["expected_time"] = 10
    with pytest.raises(SystemExit):
        Plugin(**KEPT).begin(1).tell(0, job)
    assert "job w0!a may outlive its request of 10 s, which a kept plan relies on; convert" in capsys.readouterr().err


def test_jobs_that_are_too_wide_or_have_no_walltime_are_rejected_and_counted_by_reason(caplog):
    kept = Plugin(**KEPT).begin(2)
    assert kept.tell(0, submitted("a", 0, None, 1), submitted("b", 0, 10, 3)) == ["reject a", "reject b"]
    assert kept.tell(1, submitted("c", 1, 10, 2)) == ["start c on 0-1"]
    assert "w0!a requests no walltime: rejected" in caplog.text
    kept.agent.finish()
    assert "2 jobs were rejected: they request more machines than there are or no walltime" in caplog.text


def test_the_plan_is_stated_with_its_margin_and_a_replay_refuses_it():
    for plan, stated, margin_s in (("kept:5s", "kept:5", 5), ("kept:1min", "kept:60", 60), ("kept:0", "kept", 0)):
        agent = Agent(KEPT | {"plan": plan})
        assert (agent.stated()["plan"], agent.margin_s) == (stated, margin_s)
    assert (Agent({}).stated()["plan"], Agent({}).margin_s) == ("scratch", None)
    done = batfill("replay", SAMPLE, "--depth", "all", "--plan", "kept:5")
    assert done.status == 2
    assert "--plan: only `batfill schedule` and the plug-in take it" in done.err
    says = "a kept plan holds a place for every job that waits; choose depth all, or leave plan out"
    assert refusal("schedule", "--plan", "kept") == f"--plan: {says}"
