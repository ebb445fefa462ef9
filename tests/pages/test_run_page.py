"""What the page of one run says: its answer, its longest waits and who overtook them, and its course over time."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill_pages.about import About
from batfill_pages.run_page import run_section
from batfill_pages.runs import read_run
from batfill_pages.single import TIME_BINS, course, longest_waits, order_share, wait_grid
from batfill_pages.uses import uses_of
from batfill_pages.write import write_report
from command import json_result, result
from golden_text import check
from report_runs import CUT, KILLED, OK, REJECTED, SAMPLE, jobs_csv

NBSP = "\N{NO-BREAK SPACE}"
OPENING = Path(__file__).parents[2] / "benchmarks" / "opening.js"
HOUR = 3600


def run_of(place, *rows):
    return read_run(jobs_csv(place / "x_jobs.csv", *rows), "x")


def said(run, **options):
    """The text of the run's section, with plain spaces."""
    page = run_section(run, 0, uses_of(run), tau_s=10.0, overdue_s=None, **options)
    text = re.sub(r"<option.*?</option>|<[^>]*>", "", page).replace("&nbsp;", " ").replace(NBSP, " ")
    return re.sub(r"\s+", " ", text)


def reasons(jobs_csv):
    """What the page of a run says why its longest waits were so long, by job, with plain spaces."""
    (page,) = write_report([jobs_csv], jobs_csv.with_suffix(".html"))
    found = subprocess.run(["node", OPENING, page], capture_output=True, text=True, check=True).stdout
    return {job: words.replace(NBSP, " ") for job, words in json.loads(found)["reasons"].items()}


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node on PATH")


ANSWERS = [
    [],
    [f"huge,2,11,99,{REJECTED},,,"],
    [f"a,0,1,5,{OK},0,5,0"],
    [f"{k},0,1,5,{OK},0,5,{k}" for k in range(3)],
    ["{a},0,1,5," + OK + ",65,5,0"],
    [f"{k},0,1,5,{OK},{3600 * k},5,{k}" for k in range(4)],
    [f"{k},0,2,5,{OK},{HOUR * (k == 2)},5,{2 * k}-{2 * k + 1}" for k in range(3)],
    [f"{k},0,1,5,{OK},{HOUR * (k > 6)},5,{k}" for k in range(12)],
]


def test_golden_the_answer_says_the_usual_wait_the_mean_and_the_longest(tmp_path):
    answers = [said(run_of(tmp_path, *rows)).partition(" Slowdown: the mean over the jobs")[0] for rows in ANSWERS]
    check("run-answers", "\n".join(map(str.strip, answers)))


jobs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=25
)


@settings(deadline=None)
@given(jobs)
def test_later_jobs_are_counted_one_by_one(tmp_path_factory, found):
    rows = (f"{k},{r},{q},99,{OK},{r + w},{p},0-{q - 1}" for k, (r, w, p, q) in enumerate(found))
    run = run_of(tmp_path_factory.getbasetemp(), *rows)
    run = replace(run, about=About(given={"threshold": 9, "overdue": "all", "small": "none"}))
    table = list(zip(run.submit_s, run.start_s, strict=True))
    waits = longest_waits(run)
    assert [run.wait_s[one.row] for one in waits] == sorted(run.wait_s[run.wait_s > 0], reverse=True)[:10]
    for one in waits:
        r, start = table[one.row]
        later = [at for submit, at in table if submit > r and at < start]
        assert (one.later, one.late) == (len(later), sum(at > r + 9 for at in later))


@settings(deadline=None)
@given(jobs)
def test_the_course_is_the_most_that_wait_and_the_mean_use_second_by_second(tmp_path_factory, found):
    rows = (f"{k},{r},{q},99,{OK},{r + w},{p},0-{q - 1}" for k, (r, w, p, q) in enumerate(found))
    run = run_of(tmp_path_factory.getbasetemp(), *rows)
    shown = course(run)
    assert shown.step_s == 1
    assert shown.begin_s == run.submit_s.min()
    seconds = shown.begin_s + np.arange(len(shown.queue))
    waiting = [int(((run.submit_s <= at) & (at < run.start_s)).sum()) for at in seconds]
    ends = run.start_s + run.runtime_s
    used = [float(run.procs[(run.start_s <= at) & (at < ends)].sum()) / run.size for at in seconds]
    assert shown.queue.tolist() == waiting
    assert shown.used.tolist() == pytest.approx(used)
    if max(waiting):
        assert waiting[int(shown.longest_at_s - shown.begin_s)] == max(waiting)


@pytest.mark.parametrize(("days", "step"), [(0.001, "second"), (1, "10 minutes"), (334, "day"), (3652, "week")])
def test_the_bins_of_time_suit_the_length_of_the_log(tmp_path, days, step):
    shown = course(run_of(tmp_path, f"a,0,1,5,{OK},0,5,0", f"b,{days * 86_400},1,5,{OK},{days * 86_400},5,0"))
    assert TIME_BINS[shown.step_s] == step
    assert len(shown.queue) <= 801


def test_the_grid_has_every_job_once_in_the_bins_of_all_pages(tmp_path):
    run = run_of(
        tmp_path,
        *(f"{k},0,{q},99,{OK},{10 * k},{p},0-{q - 1}" for k, (q, p) in enumerate([(1, 60), (4, 61), (5, 3600)])),
        f"last,0,100,99,{CUT},500,99999,0-99",
    )
    grid = wait_grid(run)
    assert grid.widths == ("1", "2–4", "5–16", "17–64", "65–100")
    assert [tuple(cell) for cell in np.argwhere(grid.jobs)] == [(0, 0), (1, 1), (2, 2), (4, 4)]
    assert grid.mean_wait_s[4, 4] == grid.max_wait_s[4, 4] == 500


def swf(*rows):
    """A log of 4 processors; a row is: submission, run time, processors, requested time."""
    lines = (
        f"{k} {r} -1 {p} {q} -1 -1 {q} {asked} -1 1 7 -1 -1 -1 -1 -1 -1" for k, (r, p, q, asked) in enumerate(rows, 1)
    )
    return "\n".join(["; MaxProcs: 4", *lines, ""])


LOGS = {
    "order": swf((0, 50, 4, 100), (0, 50, 4, 400), (0, 50, 4, 300), (0, 50, 4, 200)),
    "requests": swf((0, 90, 4, 100), (1, 925, 4, 900), (2, 50, 4, -1)),
    # 1 holds 2 until 100, 2 wants all 4, 3 fits beside 1 but would run past 100
    "head": swf((0, 100, 2, 100), (1, 50, 4, 50), (2, 200, 2, 200)),
}
REPLAYS = {  # the log, the options, and the share of all jobs that the order puts before the job that waits longest
    "order": ("order", ("--policy", "saf"), 0.75),
    "longest-first": ("order", ("--policy", "lpf"), 0.75),
    "order-of-arrival": ("order", ("--policy", "fcfs"), None),
    "order-that-moves": ("order", ("--policy", "sexp"), None),
    "overdue": ("order", ("--policy", "saf", "--threshold", 60), 0.5),
    "overdue-in-order": ("order", ("--threshold", 60), None),
    "overdue-half": ("order", ("--policy", "saf", "--threshold", 60, "--overdue", "half"), 0.5),
    "overdue-but-urgent": ("order", ("--policy", "saf", "--threshold", 60, "--urgent", "share:25%"), 0.25),
    "predicted": ("order", ("--policy", "spf", "--predict", "runtime"), None),
    "classes": ("order", ("--policy", "saf", "--small", "all"), None),
    "raised": ("requests", ("--unrequested", "runtime"), None),
    "past": ("requests", ("--unrequested", "runtime", "--overrun", "extend", "--policy", "spf"), 2 / 3),
    "head": ("head", (), None),
    "depth": ("head", ("--depth", "all"), None),
    "windows": ("head", ("--calendar", "windows.csv"), None),
    "pool": ("head", ("--pool", "power=4W@1W"), None),
}


@pytest.mark.parametrize("waited", [False, True])
def test_a_replay_of_a_log_with_waits_says_that_its_jobs_waited_otherwise_there(tmp_path, waited):
    log = tmp_path / "waited.swf"
    log.write_text(re.sub(r"(?m)^(\d+ \d+) -1", r"\1 7000" if waited else r"\1 -1", LOGS["order"]))
    figures = json_result("replay", log, "--out", tmp_path / "x")
    assert figures.get("logged_mean_wait_s") == (7000 if waited else None)
    assert ("in the log   these jobs waited 1 h 56 min on average" in result("replay", log)) == waited
    shown = said(read_run(tmp_path / "x_jobs.csv", "x"))
    line = "In the log these jobs waited 1 h 56 min on average: batfill fidelity says on which machine they ran"
    assert (line in shown) == waited


@needs_node
def test_of_the_jobs_that_started_before_an_overdue_one_those_after_the_threshold_were_backfilled(tmp_path):
    result("replay", SAMPLE, "--policy", "saf", "--threshold", "3h", "--out", tmp_path / "x")
    run = read_run(tmp_path / "x_jobs.csv", "x")
    for job, why in reasons(run.path).items():
        (i,) = np.flatnonzero(run.ids == job)
        later = (run.submit_s > run.submit_s[i]) & (run.start_s < run.start_s[i])
        late = later & (run.start_s > run.submit_s[i] + 3 * HOUR)
        assert run.facts.backfilled[late].all()
        assert " until it is overdue: after 3 h (the threshold) only older overdue jobs were before it in the" in why
        assert re.search(f" {later.sum()} jobs .* before it, {late.sum()} of them by backfilling after that;", why)


@needs_node
def test_golden_reasons_why_jobs_waited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("windows.csv").write_text("kind,begin,end,processors\nannounced,50,100,2\n")
    tries = (f"a,0,2,9,{KILLED},0,5,0-1", f"b,3,1,9,{OK},5,9,0", f"a#1,0,2,9,{OK},14,9,0-1", f"c,1,9,9,{REJECTED},,,")
    files = {"tries": jobs_csv(Path("tries_jobs.csv"), *tries, f"d,1,2,9,{CUT},23,9,0-1")}
    for name, (log, options, share) in REPLAYS.items():
        Path(f"{log}.swf").write_text(LOGS[log])
        result("replay", f"{log}.swf", *options, "--out", name)
        run = read_run(files.setdefault(name, Path(f"{name}_jobs.csv")), "x")
        assert order_share(run, longest_waits(run)[0].row) == share
    lines = [f"{name}, job {job}: {why}" for name, path in files.items() for job, why in sorted(reasons(path).items())]
    raised = said(read_run(files["raised"], "x"))
    for words in ("15 minraised to 15 min 25 s", "no timethe log has no request; 50 s stood in for it"):
        assert words in raised
    check("reasons", "\n".join(lines))
