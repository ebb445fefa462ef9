"""`batfill conformance`: variants drawn on paper and recorded from other programs, and the verdict on any scheduler."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zmq

from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.simulator.scheduler_link import scheduler_link
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings, SimulationStopped, Wire4
from batfill.workloads.batsim_json import load_document
from batfill_lab.conformance import Observed, Verdict, known_schedules, observe, write_inputs
from batfill_lab.conformance.cases import CASES
from batfill_lab.conformance.session import examine
from batfill_lab.conformance.variants import CANDIDATES, VARIANTS, Easy, Reference, Variant
from command import batfill, free_port

ROOT = Path(__file__).parents[2]
FOREIGN = Path(__file__).parents[1] / "data" / "foreign"
SCHEDULER = Path(__file__).parents[1] / "scheduler_process.py"
# A variant, and the program whose recorded starts it has to give.
RECORDED = {
    "easy-machines": "easy_bf",
    "easy-kept": "easy_bf_fast",
    "easy-contiguous": "py-easyBackfill",
    "conservative-margin": "conservative_bf",
    "fcfs": "fcfs",
    "filler": "filler",
    "sequencer": "sequencer",
}


# The variants: drawn on paper; that batfill is `easy`, below, tries all other workloads


@pytest.mark.parametrize(
    ("workload", "variant", "starts"),
    [
        ("queue-order", "easy", {"10": 0, "11": 0, "9": 50}),
        ("short-job", "easy", {"A": 0, "H": 100, "J": 10}),
        ("short-job", "fcfs", {"A": 0, "H": 100, "J": 150}),
        ("short-job", "sequencer", {"A": 0, "H": 100, "J": 150}),
        ("exactly-by-the-shadow", "easy", {"A": 0, "H": 100, "J": 10}),
        ("exactly-by-the-shadow", "easy-strict", {"A": 0, "H": 100, "J": 150}),
        ("extra-processors", "easy", {"A": 0, "H": 100, "J": 10}),
        ("extra-processors", "easy-no-extra", {"A": 0, "H": 100, "J": 100}),
        ("extra-machines", "easy", {"A": 0, "B": 0, "H": 100, "J": 30}),
        ("extra-machines", "easy-machines", {"A": 0, "B": 0, "H": 100, "J": 100}),
        ("ties-at-the-shadow", "easy", {"A": 0, "B": 0, "H": 100, "J": 10}),
        ("ties-at-the-shadow", "easy-machines", {"A": 0, "B": 0, "H": 100, "J": 10}),
        ("ties-at-the-shadow", "easy-first", {"A": 0, "B": 0, "H": 100, "J": 100}),
        ("extra-is-used-up", "easy", {"A": 0, "H": 100, "J": 10, "L": 150, "K": 20}),
        ("extra-is-used-up", "filler", {"A": 0, "H": 510, "J": 10, "L": 10, "K": 20}),
        ("reservation-renewed", "easy", {"A": 0, "B": 0, "H": 70, "J": 120}),
        ("reservation-renewed", "easy-kept", {"A": 0, "B": 0, "H": 85, "J": 55}),
        ("second-in-line", "easy", {"A": 0, "H": 10, "K": 43, "J": 3}),
        ("second-in-line", "conservative", {"A": 0, "H": 10, "K": 20, "J": 30}),
        ("second-in-line", "depth-2", {"A": 0, "H": 10, "K": 20, "J": 30}),
        ("extra-machines", "depth-all", {"A": 0, "B": 0, "H": 100, "J": 30}),
        ("extra-machines", "conservative-rebuilt", {"A": 0, "B": 0, "H": 100, "J": 100}),
        ("compression", "depth-all", {"A": 0, "B": 5, "C": 30, "D": 200}),
        ("margin", "conservative", {"A": 0, "H": 100, "K": 200, "J": 300}),
        ("margin", "conservative-margin", {"A": 0, "H": 100, "K": 203, "J": 3}),
        ("compression", "conservative", {"A": 0, "B": 5, "C": 200, "D": 30}),
        ("compression", "conservative-rebuilt", {"A": 0, "B": 5, "C": 30, "D": 200}),
        ("two-ends-in-one-message", "easy", {"A": 0, "B": 0, "H": 50, "J": 100}),
        ("two-ends-in-one-message", "easy-contiguous", {"A": 0, "B": 0, "H": 70, "J": 50}),
        ("two-ends-in-two-messages", "easy", {"A": 0, "B": 0, "H": 70, "J": 50}),
        ("end-and-submission", "easy", {"A": 0, "H": 50, "J": 50, "K": 100}),
        ("walltime-reached", "easy", {"A": 0, "B": 0, "C": 50, "D": 80}),
        ("too-wide", "easy", {"A": 0, "N": "is rejected", "B": 10, "C": 100}),
        ("scattered-hosts", "easy", {"A": 0, "B": 0, "C": 0, "D": 0, "J": 20}),
        ("scattered-hosts", "easy-contiguous", {"A": 0, "B": 0, "C": 0, "D": 0, "J": 100}),
        ("no-walltime", "easy", {"A": 0, "H": 100, "U": 150, "J": 20}),
        ("machines-away", "easy", {"A": 0, "B": 100, "H": 200, "J": 150}),
    ],
)
def test_a_variant_schedules_a_workload_as_drawn(workload, variant, starts):
    assert known_schedules(workload)[variant, VARIANTS[variant].grains[0]] == starts


@pytest.mark.parametrize(
    ("variant", "passes"),
    [("easy", 5), ("depth-2", 4), ("depth-3", 3), ("depth-4", 2), ("depth-8", 1), ("depth-all", 0)],
)
def test_a_long_job_passes_so_many_chains_as_have_no_reservation_for_their_last_job(variant, passes):
    starts = known_schedules("reservations")[variant, "message"]
    for number, behind in enumerate((1, 2, 3, 4, 8)):
        start = 30 if number >= 5 - passes else 110 + 10 * behind
        assert starts[f"J{number}"] == 2000 * number + start


def test_a_job_without_walltime_waits_or_is_rejected_or_counts_as_short():
    habits = CASES["no-walltime"].habits
    drawn = {value: known_schedules("no-walltime", value)["easy", "message"]["U"] for value in habits}
    assert drawn == {"waits": 150, "counts as short": 10, "is rejected": "is rejected"}


# The variants: recorded from the programs that they stand for


def recorded(workload, program):
    """Each job's start, and its machines if they were kept."""
    with gzip.open(FOREIGN / f"{workload}.csv.gz", "rt") as file:
        return {row["job"]: (int(row[program]), row.get(f"{program} machines")) for row in csv.DictReader(file)}


def records(document, exchange, **settings):
    """What became of each job, tries included, under this scheduler in the embedded simulator."""
    ended = []
    platform = read_platform(ROOT / "platforms" / ("kth-sp2.xml" if document.nb_res == 100 else "sample.xml"))
    settings = SimulationSettings(**settings)
    Simulation(platform, {"w0": document}, exchange, settings=settings, wire=Wire4(), on_job_end=ended.append).run()
    return ended


def scheduled(document, exchange):
    """Each job's start and machines."""
    ended = records(document, exchange)
    assert len(ended) == len(document.jobs)
    return {record.job_id: (record.starting_time, str(record.allocated_resources)) for record in ended}


def differing(workload, program, document, exchange):
    """The numbers of jobs that start at other times, and on other machines, than recorded."""
    ours, theirs = scheduled(document, exchange), recorded(workload, program)
    assert ours.keys() == theirs.keys()
    starts = sum(ours[job][0] != theirs[job][0] for job in theirs)
    return starts, sum(theirs[job][1] not in (None, ours[job][1]) for job in theirs)


def by_batfill(**options):
    return Conversation4(Agent(options)).answer


LONG = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize(
    "variant", ["batfill", *(pytest.param(name, marks=LONG if "conserv" in name else []) for name in RECORDED)]
)
def test_a_variant_gives_every_start_that_the_program_gave_on_the_sample(variant):
    document, ours = load_document(ROOT / "workloads" / "sample.json"), variant == "batfill"
    exchange = by_batfill(reservation="machines") if ours else Reference(variant)
    assert differing("sample", "easy_bf" if ours else RECORDED[variant], document, exchange) == (0, 0)


@pytest.mark.parametrize(
    "options", [{"predict": "easy++", "predict-for": "all"}, {"small": "all", "kill": "always"}], ids=str
)
def test_reserved_machines_go_together_with_predictions_and_kills(options, tmp_path):
    document = json.loads((ROOT / "workloads" / "sample.json").read_text())
    (tmp_path / "first.json").write_text(json.dumps({**document, "jobs": document["jobs"][:150]}))
    exchange = by_batfill(policy="saf", threshold="1d", reservation="machines", **options)
    ended = records(load_document(tmp_path / "first.json"), exchange, dynamic_jobs=True, reuse_profiles=True)
    assert sum(record.success for record in ended) == 150
    assert (len(ended) > 150) == ("kill" in options)


@pytest.mark.slow
@pytest.mark.long
def test_the_variants_give_the_starts_that_batsched_gave_on_5000_jobs_of_kth_sp2(archive_log, tmp_path):
    """The other machines, and the four starts, come from instants that Batsim split there."""
    log, made = archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), tmp_path / "kth.json"
    assert batfill("workload", "convert", log, "--overrun", "kill", "--jobs", "0:5000", "--out", made).status == 0
    document = load_document(made)
    assert differing("kth", "easy_bf", document, Reference("easy-machines")) == (0, 7)
    assert differing("kth", "easy_bf", document, by_batfill(reservation="machines")) == (0, 7)
    assert differing("kth", "easy_bf_fast", document, Reference("easy-kept")) == (0, 0)
    assert differing("kth", "filler", document, Reference("filler")) == (0, 0)
    assert differing("kth", "conservative_bf", document, Reference("conservative-margin")) == (4, 0)


@pytest.mark.slow
def test_the_page_says_how_many_starts_of_the_sample_each_variant_changes():
    page = (ROOT / "docs" / "how-to" / "conformance.md").read_text()
    document = load_document(ROOT / "workloads" / "sample.json")
    submitted = {str(job["id"]): job["subtime"] for job in document.jobs}
    table = re.findall(r"^\| `([a-z-]+)` \| (\d*) ?\| ([\d,]+) \| ([\d,]+) \| ", page, re.MULTILINE)
    assert len(table) == 9
    usual = None
    for variant, differing, mean, longest in table:
        starts = {job: start for job, (start, _) in scheduled(document, Reference(variant)).items()}
        usual = usual or starts
        waits = [starts[job] - submitted[job] for job in starts]
        assert sum(starts[job] != usual[job] for job in starts) == int(differing or 0), variant
        assert [f"{sum(waits) / len(waits):,.0f}", f"{max(waits):,.0f}"] == [mean, longest], variant


# The verdict


def runs_of(make_exchange, folder):
    """A scheduler's runs through every workload, in this process."""
    observed = {}
    for name, case in CASES.items():
        (folder / name).mkdir()
        write_inputs(case, folder / name)
        observed[name] = observe(case, folder / name, make_exchange())
    return observed


@pytest.mark.parametrize("candidate", CANDIDATES, ids=" ".join)
def test_every_variant_is_recognised(candidate):
    verdict = Verdict({name: Observed(known_schedules(name).get(candidate, {})) for name in CASES})
    assert verdict.fits == [candidate]
    assert verdict.conforms
    assert verdict.summary().startswith(f"{candidate[0]} (")


@pytest.mark.parametrize(
    ("options", "variant"),
    [
        ({}, "easy"),
        ({"reservation": "kept"}, "easy-kept"),
        ({"reservation": "machines"}, "easy-machines"),
        ({"depth": 0}, "filler"),
        ({"depth": 2}, "depth-2"),
        ({"depth": "all"}, "depth-all"),
        ({"depth": "all", "plan": "kept"}, "conservative"),
        ({"depth": "all", "plan": "kept:5"}, "conservative-margin"),
    ],
    ids=str,
)
def test_batfill_is_the_variant_that_its_options_say(options, variant, tmp_path):
    verdict = Verdict(runs_of(lambda: by_batfill(**options), tmp_path))
    assert verdict.fits == [(variant, "message")]
    assert verdict.conforms
    if not options:
        assert verdict.answer("ties-at-the-shadow") == "all releases at the shadow time count"
        assert verdict.answer("no-walltime") == CASES["no-walltime"].habits["waits"]
        assert verdict.answer("machines-away") == verdict.answer("registration") == "supported"


class AlmostEasy(Easy):
    """EASY with one mistake."""

    off_s = 0.0  # by which the shadow time is wrong
    charge = None  # what a job that outlives the shadow time takes of the extra processors, instead of its width
    extra_uses = backfills = looks = 10**9  # the most jobs on extra processors, in a pass; backfilled; looked at
    protects_next = True
    queue_key = backfill_key = None

    def decide_now(self, now_s):
        if self.queue_key:
            self.queue.sort(key=type(self).queue_key)
        if not self.protects_next and self.queue and self.queue[0].procs <= len(self.idle()):
            for job in list(self.queue):
                if job.procs <= len(self.idle()):
                    self.start(job, now_s)
        self.start_heads(now_s)
        if not self.queue:
            return
        shadow_s, extra = self.reservation() if self.head_can_start() else (math.inf, 0)
        shadow_s += self.off_s
        uses, started = 0, 0
        for job in sorted(self.queue[1 : 1 + self.looks], key=type(self).backfill_key or (lambda job: 0)):
            if job.procs > len(self.idle()) or started == self.backfills:
                continue
            in_time = now_s + job.walltime_s <= shadow_s
            if not in_time and (job.procs > extra or uses == self.extra_uses):
                continue
            if not in_time:
                extra -= self.charge or job.procs
                uses += 1
            self.start(job, now_s)
            started += 1


MISTAKES = {
    "none": {},
    "the shadow 1 s late": {"off_s": 1},
    "the shadow 1 ms late": {"off_s": 0.001},
    "the shadow 1 s early": {"off_s": -1},
    "an extra processor for a job of any width": {"charge": 1},
    "extra processors for one job": {"extra_uses": 1},
    "others start before the next head is protected": {"protects_next": False},
    "the shortest is backfilled first": {"backfill_key": lambda job: job.walltime_s},
    "the smallest area is backfilled first": {"backfill_key": lambda job: job.walltime_s * job.procs},
    "the narrowest is backfilled first": {"backfill_key": lambda job: job.procs},
    "3 are backfilled": {"backfills": 3},
    "10 are backfilled": {"backfills": 10},
    "10 are looked at": {"looks": 10},
    "the queue by id": {"queue_key": lambda job: job.name},
    "one instant by width": {"queue_key": lambda job: (job.submit_s, job.procs)},
    "one instant by walltime": {"queue_key": lambda job: (job.submit_s, job.walltime_s)},
    "the latest first": {"queue_key": lambda job: -job.submit_s},
}


# One of each kind is tried everywhere.
EVERYWHERE = (
    *("none", "the shadow 1 ms late", "an extra processor for a job of any width", "3 are backfilled"),
    *("others start before the next head is protected", "one instant by width"),
)


@pytest.mark.parametrize(
    "mistake", [pytest.param(name, marks=[pytest.mark.slow] * (name not in EVERYWHERE)) for name in MISTAKES]
)
def test_a_scheduler_with_one_mistake_is_not_easy(mistake, tmp_path):
    wrong = Variant("wrong", type("Wrong", (AlmostEasy,), MISTAKES[mistake]), "")
    verdict = Verdict(runs_of(lambda: Reference(wrong), tmp_path))
    assert verdict.broken == []
    assert (verdict.fits, verdict.conforms, verdict.habit) == (
        ([("easy", "message")], True, None) if mistake == "none" else ([], False, None)
    )


@pytest.mark.parametrize(
    ("options", "habit"),
    [
        ({"policy": "saf", "threshold": "1s"}, "easy with a threshold near 1 s"),
        ({"policy": "spf", "threshold": "25h"}, "easy with a threshold near 1 d"),
        ({"policy": "wfp3"}, "easy with ageing"),
        ({"policy": "saf"}, None),
        ({"backfill": "spf"}, None),
    ],
    ids=str,
)
def test_a_habit_of_waiting_is_named(options, habit, tmp_path):
    verdict = Verdict(runs_of(lambda: by_batfill(**options), tmp_path))
    assert verdict.fits == []
    assert (verdict.as_dict()["habit"], verdict.conforms) == (habit, habit is not None)
    assert verdict.summary().startswith(habit or "none of the known")


def test_what_breaks_the_protocol_is_no_variant_even_if_all_else_agrees():
    observed = {name: Observed(known_schedules(name)["easy", "message"]) for name in CASES}
    observed["too-wide"] = Observed({"A": 0}, "stopped at date 5.000000: EXECUTE_JOB: job 'w0!N' is too wide")
    verdict = Verdict(observed)
    assert (verdict.broken, verdict.conforms, verdict.fits) == (["too-wide"], False, [])
    assert f"protocol: broken in 1 of {len(CASES)} workloads" in verdict.as_text()


# The command


def workloads(*names):
    return [word for name in names for word in ("--workload", name)]


def examined(behaviour, *arguments):
    command = f"{sys.executable} {SCHEDULER} {{port}} {behaviour}"
    limit = () if "--timeout" in arguments else ("--timeout", "20s")
    return batfill("conformance", command, *limit, *arguments)


def test_a_scheduler_in_a_process_of_its_own_is_examined(tmp_path):
    kept = tmp_path / "kept"
    done = examined("easy", *workloads("two-ends-in-two-messages", "no-walltime"), "--keep", kept)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "two-ends-in-two-messages  a decision for each message"
    assert "variant: easy (batfill; most published descriptions): EASY that counts processors" in done.out
    folder = kept / "two-ends-in-two-messages"
    messages = (folder / "messages.log").read_text().splitlines()
    assert sum(line.startswith('Sending \'{"now":50.000000,') for line in messages) == 2
    assert (folder / "batsim.bash").read_text() == "batsim -p platform.xml -w workload.json\n"
    assert (folder / "platform.xml").read_text() == homogeneous_platform(4)
    assert load_document(folder / "workload.json").nb_res == 4


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("crash", "the scheduler ended with status 1, with: RuntimeError: it broke"),
        ("status", "the scheduler ended with status 7"),
        ("nonsense", "the scheduler's reply to message 1 is not JSON"),
        ("busy", "cannot start on 0: machine 0 already runs a job"),
        ("idle", "3 jobs are never executed (w0!A, w0!H, w0!J)"),
        ("hang", "the scheduler does not answer for 5 s; see why, or wait longer with --timeout"),
        ("deaf", "the scheduler does not listen on port"),
        ("poller", "the scheduler polls without deciding"),
        ("slow", "the limit of 1 s for all workloads is over"),
    ],
)
def test_what_a_bad_scheduler_does_is_said_in_a_line(behaviour, problem):
    limits = {"hang": ("--timeout", "5s"), "deaf": ("--timeout", "1s"), "slow": ("--limit", "1s")}
    done = examined(behaviour, *workloads("short-job"), *limits.get(behaviour, ()))
    assert (done.status, done.err) == (1, "")
    first, rest = done.out.split("\n\n")
    assert first.startswith("short-job  stopped at date ")
    assert problem in " ".join(first.split())
    assert "protocol: broken in 1 of 1 workloads" in rest.splitlines()


def test_a_scheduler_that_calls_itself_is_stopped_and_said_to_poll():
    done = examined("every-second", *workloads("short-job", "reservations"))  # of 150 s and two and a half hours
    assert (done.status, done.err) == (1, "")
    said = " ".join(done.out.split())
    assert "reservations polls every 1 s: stopped after 2,000 calls" in said
    assert "the scheduler polls every 1 s: 1 of 2 workloads were stopped after 2,000 calls, and say nothing" in said
    assert "variant: easy " in said
    assert "protocol: broken" not in said


def test_a_scheduler_that_falls_silent_runs_no_further_workload():
    names = workloads("queue-order", "short-job", "margin", "compression", "too-wide")
    done = examined("silent", "--timeout", "1s", *names)
    assert done.status == 1
    assert done.out.startswith("queue-order  by submission")
    assert " were not run: the scheduler left a message without an answer" in done.out


@pytest.mark.parametrize("command", ["no_such_scheduler {port}", "sleep 300 # {port}"])
def test_a_scheduler_that_never_answers_runs_one_workload_only(command):
    done = batfill("conformance", command, "--timeout", "1s")
    assert done.status == 1
    assert done.out.split("\n\n")[1].splitlines() == [
        f"note: the other workloads ({len(CASES) - 1}) were not run: the scheduler answered no message",
        "protocol: broken in 1 of 1 workloads",
        "variant: not determined: no workload ran to its end",
    ]


def test_an_interrupt_ends_the_schedulers_at_once(tmp_path):
    hangs_later = f"[ -e seen ] && sleep 300; touch seen; {sys.executable} {SCHEDULER} {{port}} easy"
    command = [sys.executable, "-m", "batfill", "conformance", hangs_later, "--timeout", "300s", "--keep", "kept"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, **pipes)
    while not any("+ sleep 300" in log.read_text() for log in tmp_path.glob("kept/*/sched.err.log")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "batfill: interrupted by SIGINT\n")
    assert process.returncode == 130


def test_a_command_without_a_port_has_to_find_batsims_default_free(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("batfill_lab.conformance.session.DEFAULT_PORT", taken.getsockname()[1])
        done = batfill("conformance", "true", "--workload", "short-job")
    assert done.status == 2
    note, mistake = done.err.splitlines()
    assert "its command has no {port} or {endpoint}" in note
    assert "is in use, and the scheduler's command takes no other" in mistake


@pytest.mark.parametrize("place", ["$BATSIM_PORT", "{endpoint}", "default"])
def test_a_scheduler_learns_its_port_in_three_ways_or_listens_on_batsims_own(place, monkeypatch):
    port = free_port()
    monkeypatch.setattr("batfill_lab.conformance.session.DEFAULT_PORT", port)
    command = f"{sys.executable} {SCHEDULER} {port if place == 'default' else place} fcfs"
    done = batfill("conformance", command, *workloads("short-job", "margin"))
    assert done.status == 0
    assert done.out.startswith("short-job  nothing is backfilled\nmargin     it waits: ")
    assert (f"has to listen on port {port}" in done.err) == (place == "default")


@pytest.mark.slow
@pytest.mark.long
def test_pybatsims_own_scheduler_is_recognised():
    pytest.importorskip("batsim")
    verdict = examine(f"{Path(sys.executable).with_name('pybatsim')} easyBackfill -t 0 -v warning -s {{endpoint}}")
    assert verdict.fits == [("easy-contiguous", "event")]
    assert verdict.broken == []
    assert "NotImplementedError" in verdict.answer("machines-away")


def test_another_process_on_the_port_does_not_hold_up_the_end_of_a_scheduler():
    with zmq.Context() as context, context.socket(zmq.REP) as silent:
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        with (
            scheduler_link(f"tcp://127.0.0.1:{port}", 5, lambda: True) as link,
            pytest.raises(SimulationStopped, match="went away without an answer"),
        ):
            link(b"{}")
