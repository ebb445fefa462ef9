"""Fidelity: the score against a slow one, the factors of sites that are known, and what is said where it cannot be."""

from __future__ import annotations

import csv
import gzip
import html
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S, job_table
from batfill.model.limits.calendar import Calendar, Window
from batfill.workloads.formats import part_of, source_of
from batfill_site.answer import MINUS, plain
from batfill_site.fidelity import Factors, Site, fidelity_of, fitted, limit_of, sudden_windows
from batfill_site.score import error_of, logged_of, score
from command import batfill, json_result, refusal
from golden_text import check
from sweeps import examples
from swf_text import row

PROCS = 32


def log_of(path, rows, *, header=f"; MaxProcs: {PROCS}\n"):
    """A log of these rows: submission, run time, processors, request, wait, and user if there are any."""
    lines = (
        row(n, int(r), int(p), req_procs=int(q), req_time=int(limit), wait=int(w), user=int(u[0]) if u else 1)
        for n, (r, p, q, limit, w, *u) in enumerate(rows, 1)
    )
    path.write_text(header + "".join(lines))
    return path


def written(path, jobs, wait_s, **more):
    """A log of these jobs whose site let each wait so long."""
    return log_of(path, zip(jobs.submit_s, jobs.runtime_s, jobs.procs, jobs.walltime_s, wait_s, strict=True), **more)


@pytest.fixture(scope="module")
def work():
    return bf.generate(jobs=4000, procs=PROCS, seed=3, load=0.6)


def site(tmp_path, work, *, size=PROCS, **options):
    """The log of a site with these options on a machine of so many processors; no job is wider than it."""
    work = replace(work, procs=np.minimum(work.procs, size))
    return written(tmp_path / "log.swf", work.jobs, bf.replay(work.stating(size=size), "fcfs", **options)["wait_s"])


def nightly(work, size):
    """The machine is down for three hours each day, and jobs drain for it."""
    days = range(2, int(work.jobs.submit_s[-1] // DAY_S))
    return Calendar(tuple(Window("announced", day * DAY_S, day * DAY_S + 3 * 3600, size) for day in days))


def logged(path):
    source = source_of(path)
    return logged_of(part_of(source, source.log), source.log, source.where)


def grade(path):
    return str(fidelity_of(source_of(path)))


def fits(path, machine="log"):
    return fitted(Site.of(logged(path), machine).until_half(), lambda _: None)


def slow_error(submit_s, logged_s, simulated_s):
    """The definition, hour by hour and job by job."""
    shares, at_s = [], submit_s[0]
    while at_s <= submit_s[-1]:
        there = [k for k, r in enumerate(submit_s) if at_s - 7 * 86_400 <= r <= at_s + 7 * 86_400]
        if len(there) >= 50:
            mine, theirs = (math.fsum(waits[k] for k in there) / len(there) for waits in (simulated_s, logged_s))
            if theirs > 60:
                shares.append(abs(mine - theirs) / theirs)
        at_s += 3600
    return math.fsum(shares) / len(shares) if shares else None


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(0, 2**32), st.sampled_from([50, 60, 200]), st.sampled_from([1, 20, 60]), st.sampled_from([90, 9000]))
def test_the_error_is_that_of_a_slow_scorer(seed, n, days, longest_s):
    rng = np.random.default_rng(seed)
    submit_s = np.sort(1800.0 * rng.integers(0, days * 48, n))  # some at the ends of the two weeks
    logged_s, simulated_s = rng.integers(0, longest_s, (2, n)).astype(float)
    found, slow = error_of(submit_s, logged_s, simulated_s), slow_error(submit_s, logged_s, simulated_s)
    assert found == (None if slow is None else pytest.approx(slow, rel=1e-9))


def test_a_score_drawn_on_paper():
    submit_s, logged_s = np.arange(50.0), np.full(50, 1000.0)
    procs = np.repeat([1, 2, 8], [20, 10, 20])
    found = score(submit_s, logged_s, np.append(np.full(25, 1600.0), np.full(25, 1601.0)), procs)
    assert (found.off_s, found.narrow, found.wide, found.by_width) == (600.5, pytest.approx(1.6001667), 1.601, "")
    assert plain(str(found)) == "1.60 of the real ones, and a job's is off by 10 min, on average"
    uneven = score(submit_s, logged_s, np.where(procs < 8, 500.0, 1000.0), procs)
    assert uneven.by_width == "narrow jobs have 0.50 of theirs, the wider half 1.00"
    assert score(submit_s, logged_s, logged_s, np.ones(50)).wide is None
    assert (found.jobs, found.ratio, found.error) == (50, 1.6005, pytest.approx(0.6005))
    assert score(submit_s[:49], logged_s[:49], logged_s[:49], procs[:49]).error is None  # too few jobs
    assert score(submit_s, np.full(50, 60.0), logged_s, procs).error is None  # too short waits
    assert score(submit_s, np.zeros(50), logged_s, procs).ratio is None


@pytest.mark.parametrize("options", [{}, {"depth": "all"}, {"size": 26}], ids=str)
def test_what_a_site_does_is_found_and_explains_its_waits(tmp_path, work, options):
    found = bf.fidelity(site(tmp_path, work, **options))
    names = ["a reservation for every job"] if "depth" in options else []
    assert [step["factors"] for step in found["fitted"]] == ["plain", *names]
    assert found["machine"]["parts"][0]["steps"] == ((0.0, options.get("size", PROCS)),)
    assert found["fitted"][-1]["later"]["error"] < 0.02
    assert (found["scores"]["header"]["ratio"] == 1.0) == (not options)
    assert list(found["scores"]) == ["header", *["machine"] * ("size" in options), *["near"] * ("depth" in options)]


@pytest.mark.parametrize("at", [1, 3999])
def test_a_moment_with_more_in_use_is_no_larger_machine(tmp_path, work, at):
    """A site uses 26 of 32 processors, but for a moment at which a job of an hour has the others."""
    path = site(tmp_path, work, size=26)
    header, *lines = path.read_text().splitlines(keepends=True)
    submit_s, wait_s = lines[at].split()[1:3]
    lines.append(row(9999, submit_s, 3600, req_procs=6, req_time=3600, wait=wait_s))
    path.write_text("".join([header, *lines]))
    assert bf.fidelity(path)["machine"]["parts"][0]["steps"] == ((0.0, 26),)


def test_what_a_real_slurm_does_is_a_reservation_for_every_job_and_not_a_smaller_machine(tmp_path):
    """32 nodes, 150 jobs, times stretched by 60: the waits are then of reservations more than of Slurm's cycles."""
    with gzip.open(Path(__file__).parents[1] / "data" / "accounting" / "slurm-32.txt.gz", "rt") as file:
        jobs = list(csv.DictReader(file, delimiter="|"))
    dates = [[60 * int(job[name]) for name in ("Submit", "Start", "End")] for job in jobs]
    rows = [
        (submit - dates[0][0], end - start, job["AllocCPUS"], 3600 * int(job["TimelimitRaw"]), start - submit)
        for job, (submit, start, end) in zip(jobs, dates, strict=True)
    ]
    found = bf.fidelity(log_of(tmp_path / "log.swf", rows))
    assert found["machine"]["parts"][0]["steps"] == ((0.0, 32),)
    assert [step["factors"] for step in found["fitted"]] == ["plain", "a reservation for every job"]


def test_outages_are_found_and_explain_their_share(tmp_path, work):
    down = nightly(work, PROCS)
    found = bf.fidelity(site(tmp_path, work, calendar=down))
    assert found["outages"]["number"] >= len(down.windows)
    assert found["fitted"][-1]["factors"].startswith("its outages announced")
    assert found["fitted"][-1]["later"]["error"] < found["fitted"][0]["later"]["error"] / 2
    assert found["scores"]["near"]["error"] < found["scores"]["header"]["error"] / 2


def working_nights(path, limit, *, users=4):
    """The log of a site with a limit, whose users each submit 30 jobs of an hour every night, the first only 5."""
    number = np.arange(40 * 30 * users)
    user, night = number // 30 % users, number // (30 * users)
    r, p = DAY_S * night + 3600 * user + number % 30, np.full(len(number), 3600)
    user = np.where((user == 0) & (number % 30 >= 5), users + number, user)  # the other 25 are of a user each
    jobs = job_table(submit_s=r, runtime_s=p, walltime_s=p, procs=np.ones(len(r), np.int64), user=user)
    wait_s = bf.replay(jobs.stating(name="made", size=256), "fcfs", max_running=limit)["wait_s"]
    return log_of(path, zip(r, p, jobs.procs, p, wait_s, user, strict=True), header="; MaxProcs: 256\n")


def test_a_limit_of_running_jobs_per_user_is_found_and_explains_their_waits(tmp_path):
    found = bf.fidelity(working_nights(tmp_path / "log.swf", 12))
    assert [step["factors"] for step in found["fitted"]] == ["plain", "at most 12 running jobs a user"]
    plain, limited = (step["later"]["error"] for step in found["fitted"])
    assert limited == 0 < 0.9 < plain


def limit_in(path):
    log = logged(path)
    return limit_of(log, np.ones(len(log.workload), bool))


@pytest.mark.parametrize(("limit", "users"), [(3, 4), (12, 3)])
def test_no_limit_is_found_if_it_is_low_or_only_two_users_reach_it(tmp_path, limit, users):
    assert limit_in(working_nights(tmp_path / "log.swf", limit, users=users)) is None


def test_a_limit_beyond_which_jobs_start_is_none(tmp_path):
    """A user whose large batch runs at once would wait for weeks under the others' limit."""
    path = working_nights(tmp_path / "log.swf", 12)
    assert limit_in(path) == 12
    batch = "".join(row(90_000 + k, 0, 9000, req_time=9000, user=9999) for k in range(80))
    path.write_text(path.read_text() + batch)
    assert limit_in(path) is None


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 2**32))
def test_the_limit_is_that_of_a_slow_count(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(100, 300)), int(rng.integers(4, 9))
    times = [np.sort(rng.integers(0, 60, n)), rng.integers(0, 40, n), rng.integers(-1, 30, n), rng.integers(-1, 5, n)]
    running = {}
    for k, (r, p, u) in enumerate(zip(times[0].tolist(), times[1].tolist(), times[3].tolist(), strict=True)):
        ends = running.setdefault(u, [])  # started in order, as a limit has it
        start = max([r, *sorted(ends)[-most:][:1]]) if len(ends) >= most else r
        times[2][k] = start - r if rng.random() < 0.999 else 0
        ends.append(start + p)
    assume((times[2][times[1] > 0] > 0).any())  # a log in which no job waits is refused
    rows = ((r, p, 1, 99, w, u) for r, p, w, u in zip(*times, strict=True))
    path = log_of(tmp_path_factory.mktemp("log") / "log.swf", rows, header="; MaxProcs: 256\n")
    columns = zip(*(t.tolist() for t in times), strict=True)
    jobs = [(r, r + w, r + w + p, u) for r, p, w, u in columns if w >= 0 and p > 0 and u >= 0]
    waited, users = {}, {}
    for t in range(int(max(end for _, _, end, _ in jobs))):
        for u in range(5):
            mine = [(r, s, e) for r, s, e, v in jobs if v == u]
            waiting, here = sum(r <= t < s for r, s, _ in mine), sum(s <= t < e for _, s, e in mine)
            waited[here] = waited.get(here, 0) + waiting
            users.setdefault(here, set()).update({u} if waiting else ())
    total = sum(waited.values())
    beside = [  # how many the user runs after each start, of those in one second in turn
        sum((a, i) <= (s, k) and s < e for i, (_, a, e, v) in enumerate(jobs) if v == u)
        for k, (_, s, _, u) in enumerate(jobs)
    ]
    found = []
    for limit in range(4, 300):
        at = sum(waited.get(k, 0) for k in range(300) if 0.9 * limit < k <= limit)
        above = sum(waited.get(k, 0) for k in range(300) if limit < k <= 1.1 * limit + 1)
        beyond = sum(waited.get(k, 0) for k in range(limit + 1, 300))
        who = set().union(*(users.get(k, set()) for k in range(300) if 0.9 * limit < k <= limit))
        starts = sum(held > limit for held in beside)
        falls = waited.get(limit, 0) >= 10 * waited.get(limit + 1, 0)
        rare = beyond <= 0.004 * total and starts <= 0.01 * len(jobs)
        if falls and at > 0.005 * total and at >= 10 * above and len(who) >= 3 and rare:
            found.append((at, -limit))
    assert limit_in(path) == (-max(found)[1] if found else None)


def slow_sudden(begins, ends, longest_s):
    """For each date of a grid whether the longest request may start, with outages known a week before they begin."""
    windows = (Window("announced", *dates, 1) for dates in zip(begins, ends, strict=True))
    found = sudden_windows(Calendar(tuple(windows)), longest_s)
    known = [(begin, end) for begin, end, late in zip(begins, ends, found, strict=True) if not late]

    def may_start(t):
        away = any(begin <= t < end for begin, end in zip(begins, ends, strict=True))
        blocked = any(t <= begin <= t + WEEK_S and begin < t + longest_s for begin, _ in known)
        return not away and not blocked

    return found, [t for t in np.arange(0.0, ends[-1] + DAY_S, HOUR_S) if may_start(t)]


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 20)), min_size=1, max_size=40), st.integers(1, 2000))
@example([(1, 1), (150, 9), (168, 9), (168, 9), (168, 9)], 169)
def test_the_longest_request_finds_a_start_within_a_month(lengths, longest_h):
    """Gaps and outages in hours; where every gap is long enough, no outage is sudden."""
    edges = HOUR_S * np.cumsum([hours for pair in lengths for hours in pair])
    begins, ends = edges[::2], edges[1::2]
    found, starts = slow_sudden(begins.tolist(), ends.tolist(), longest_h * HOUR_S)
    assert max(np.diff([0.0, *starts])) <= 4 * WEEK_S + 2 * max(ends - begins) + HOUR_S
    if (np.diff([0.0, *begins]) - np.append(0, (ends - begins)[:-1]) >= longest_h * HOUR_S).all():
        assert not any(found)


def test_an_outage_that_a_request_cannot_pass_does_not_hold_it_for_months(tmp_path):
    # Outages of 3 h every 2 days for 200 days, and a job that requests 10 days and runs for a minute.
    dates, limits = [0, DAY_S, 2 * DAY_S], [60, 10 * DAY_S, 60]
    rows = ((date, 60, 1, limit, 9) for date, limit in zip(dates, limits, strict=True))
    down = Calendar(tuple(Window("announced", k * 2 * DAY_S, k * 2 * DAY_S + 10_800, 4) for k in range(1, 101)))
    its = Site.of(logged(log_of(tmp_path / "log.swf", rows, header="; MaxProcs: 4\n")))._replace(found=down)
    assert its.waits(Factors(notice_s=WEEK_S))[1] < 30 * DAY_S


def test_frequent_outages_that_a_request_cannot_pass_are_sudden(tmp_path):
    # Every hour two jobs of the whole machine; once a day it is idle for 40 min while a job of a quarter waits.
    hours = [hour for hour in range(40 * 24) if hour % 24]
    rows = [(3600 * hour, 1200, 4, 600_000, wait_s) for hour in hours for wait_s in (0, 1200)]
    rows += [(day * DAY_S, 600, 1, 600, 2400) for day in range(1, 40)]
    found = bf.fidelity(log_of(tmp_path / "log.swf", sorted(rows), header="; MaxProcs: 4\n"), fit=False)
    assert found["outages"]["number"] == 39 > found["outages"]["sudden"] > 0


def test_no_factor_is_fitted_to_what_is_submitted_later(tmp_path, work):
    path = site(tmp_path, work, depth="all")
    header, *lines = path.read_text().splitlines(keepends=True)
    half, rng = len(lines) // 2, np.random.default_rng(1)
    later = np.array([line.split() for line in lines[half:]])
    others = list(range(2, later.shape[1]))  # all but number and submission
    later[:, others] = later[np.ix_(rng.permutation(len(later)), others)]
    shuffled = tmp_path / "shuffled.swf"
    shuffled.write_text("".join([header, *lines[:half], *(" ".join(fields) + "\n" for fields in later)]))
    first, second = (fits(each, "header") for each in (path, shuffled))
    assert first == second
    assert len(first) == 2
    scores = [bf.fidelity(each, fit=False)["scores"]["header"] for each in (path, shuffled)]
    assert scores[0] != scores[1]


def test_a_fit_is_never_worse_than_the_plain_replay_on_the_jobs_it_is_fitted_to(tmp_path, work):
    waits_s = np.random.default_rng(5).integers(0, 90_000, len(work))
    errors = [step.checks[0] for step in fits(written(tmp_path / "log.swf", work.jobs, waits_s))]
    assert errors == sorted(errors, reverse=True)


def test_golden_the_command_prints_and_writes_what_python_finds(tmp_path, work, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = site(tmp_path, work, size=26, calendar=nightly(work, 26))
    found = bf.fidelity(path)
    assert json_result("fidelity", path) == json.loads(found.as_json())
    for out in ("found.json", "found.html"):
        assert batfill("fidelity", path.name, "--out", out, "--details").out == found.as_text(details=True) + "\n"
    assert json.loads(Path("found.json").read_text()) == json.loads(found.as_json())
    page, answer = Path("found.html").read_text(), found.answer()
    waits = [(row["near"]["simulated_mean_s"], row["near"]["logged_mean_s"]) for row in found["groups"]]
    assert [bar.change_s for bar in answer.picture.bars] == [simulated - logged for simulated, logged in waits]
    assert all(html.escape(bar.words) in page for bar in answer.picture.bars)
    assert all(bar.words.startswith(MINUS) == (bar.change_s < 0) for bar in answer.picture.bars)
    assert all(html.escape(detail.title) in page for detail in answer.all_details)
    check("fidelity", found.as_text(details=True))
    assert max(map(len, found.as_text().splitlines())) <= 80
    assert found["grade"] == plain(grade(path)) == plain(grade(bf.read(path)))
    assert found.to_pandas()["replay"].tolist() == ["header", "machine", "near"]
    assert bf.fidelity(path, fit=False)["fitted"] == []


def test_groups_hold_every_job_once(tmp_path, work):
    header = f"; MaxProcs: {PROCS}\n; UnixStartTime: 0\n"
    path = written(tmp_path / "log.swf", work.jobs, np.full(len(work), 500), header=header)
    text = path.read_text().splitlines(keepends=True)
    fields = text[2].split()
    fields[14] = "7"
    path.write_text("".join([*text[:2], " ".join(fields) + "\n", *text[3:]]))
    found = bf.fidelity(path, fit=False)["groups"]
    assert {one["by"] for one in found} == {"processors", "ran for", "queue"}
    for by in {one["by"] for one in found}:
        assert sum(one["header"]["jobs"] for one in found if one["by"] == by) == len(work)
    assert [one["header"]["jobs"] for one in found if one["by"] == "queue"] == [len(work) - 1, 1]


UNKNOWN = "so how near simulated waits are to the site's cannot be known"


def test_logs_without_the_waits_of_a_site_say_so(tmp_path, work):
    header = f"; MaxProcs: {PROCS}\n; Note: made by batfill 1 workload generate\n"
    for name, wait_s, more, said in (
        ("bare", np.full(len(work), -1), {}, f"none of the log's 4,000 jobs that ran has a wait above 0, {UNKNOWN}"),
        ("made", np.full(len(work), 9), {"header": header}, f"the log's jobs are generated, {UNKNOWN}"),
        (
            "below",
            np.append(np.full(len(work) - 1, 9), -7),
            {},
            "1 of 4,000 jobs that ran have a negative wait (first: job 4000, -7 s); correct or drop them, or write -1 "
            "for unknown",
        ),
    ):
        path = written(tmp_path / f"{name}.swf", work.jobs, wait_s, **more)
        assert (refusal("fidelity", path), grade(path)) == (f"{path}: {said}", said)
    assert UNKNOWN in refusal("fidelity", bf.write(work, tmp_path / "batsim.json"))
    with pytest.raises(BatfillError, match="has a wait above 0"):
        bf.fidelity(work)


def test_unknown_waits_and_wide_jobs_are_left_out(tmp_path, work):
    wait_s = np.full(len(work), 9)
    wait_s[:10] = -1
    found = bf.fidelity(written(tmp_path / "log.swf", work.jobs, wait_s), procs=8, fit=False)
    assert found["scores"]["header"]["jobs"] == int((work.jobs.procs[10:] <= 8).sum())
    assert "Not compared: 10 jobs without a wait in the log." in found.as_text()
    wide = int((work.jobs.procs > 8).sum())
    assert found["input"]["warnings"][0].startswith(f"{wide:,} of 4,000 jobs ({wide / 40:.1f} %), ")


@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_short_logs_are_scored_and_fitted_as_far_as_possible(tmp_path, n):
    rows = ((100 * k, 90, 1, 90, k) for k in range(1, n + 1))
    found = bf.fidelity(log_of(tmp_path / "log.swf", rows, header="; MaxProcs: 4\n"))
    assert found["scores"]["header"]["jobs"] == n
    assert found["scores"]["header"]["error"] is None  # too few jobs or too short waits
    assert [step["factors"] for step in found["fitted"]] == ["plain"] * (n > 1)
    assert all(step["error"] is step["later"]["error"] is None for step in found["fitted"])


# Real logs: the error, the ratio of the means, and the error with outages


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("KTH-SP2-1996-2.1-cln", (0.548, 0.445, 0.283)),
        ("CTC-SP2-1996-3.1-cln", (0.399, 0.587, 0.275)),
    ],
)
def test_figures_of_real_logs(archive_log, name, figures):
    found = bf.fidelity(archive_log(f"{name}.swf.gz"))["scores"]
    header = found["header"]
    shown = (header["error"], header["ratio"], found["near"]["error"])
    assert shown == pytest.approx(figures, abs=0.001)
