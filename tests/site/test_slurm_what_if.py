"""What changes of a site's Slurm would do: the figures, what is called noise, the text, the page and the command."""

import html
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.jobs import DAY_S
from batfill_pages.words import units_kept
from batfill_site.answer import NB, duration, plain
from batfill_site.score import Score, Whose
from batfill_site.slurm.conf import read_site, read_windows
from batfill_site.slurm.ensemble import OTHERS, Difference, Ran, clocks, gap, ran, t_quantile, users
from batfill_site.slurm.found import Logged, change
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.model import Model
from batfill_site.slurm.named import touched
from batfill_site.slurm.site import KILLED, REQUEUED, Part
from batfill_site.slurm.what_if import ADD_NODES, AS_CONFIGURED, changed, compared, grouped, payers_of, slurm
from command import batfill, refusal
from golden_text import check

DATA = Path(__file__).parents[1] / "data" / "slurm" / "own-b"
CONF, LOG, ACCOUNTS = DATA / "slurm.conf", DATA / "sacct.txt", DATA / "accounts.txt"  # a real run of 150 jobs
AGE, NODES, SAME = "PriorityWeightAge=4000", f"{ADD_NODES}=cb[33-40]=cb01", "bf_max_job_test=501"
SETTINGS = {"runs": 5, "slurm_version": "22.05", "tau_s": 10.0, "seed": 0}


@pytest.fixture(scope="module")
def answer():
    return slurm(LOG, CONF, [AGE, NODES, SAME], accounts=[ACCOUNTS])


@pytest.fixture(scope="module")
def waits(answer):
    """The waits of the answer's configurations by job, (runs, jobs) each, run again one by one."""
    sites = [answer.site, *(changed(answer.site, name) for name in answer.names[1:])]
    return [ran(site, answer.jobs, clocks(site, answer.jobs, 20, 0)).wait_s for site in sites]


def columns_of(answer):
    """The figures by what the groups are of, the group and the configuration."""
    return {(row["by"], row["group"], row["configuration"]): row for row in answer.rows()}


# Figures and noise


def test_the_quantiles_are_those_of_the_tables():
    known = {4: 2.776, 5: 2.571, 7: 2.365}
    known |= {9: 2.262, 14: 2.145, 19: 2.093, 29: 2.045, 99: 1.984, 999: 1.962}
    assert [t_quantile(freedom) for freedom in known] == pytest.approx([*known.values()], rel=0.006)
    assert [round(t_quantile(freedom), 3) for freedom in known if freedom > 8] == [*known.values()][3:]


def test_the_noise_is_the_mean_difference_of_all_pairs_of_runs():
    values = np.random.default_rng(1).normal(size=(7, 3))
    pairs = [np.abs(a - b) for a, b in itertools.combinations(values, 2)]
    assert gap(values) == pytest.approx(np.mean(pairs, axis=0))
    assert (gap(np.full((5, 2), 0.1)) == 0).all()


def test_a_difference_counts_if_its_interval_is_beyond_0_and_two_runs_differ_by_less():
    runs = np.array([0.0, 10, 20, 30, 40])
    assert gap(runs) == 20
    assert (bool(Difference.of(runs, runs + 19).beyond), bool(Difference.of(runs, runs - 21).beyond)) == (False, True)
    assert not Difference.of(runs, runs[::-1] + 21).beyond  # far, but its interval is wider
    assert not Difference.of(runs, runs).beyond
    assert Difference.of(np.zeros(5), np.full(5, 0.5)).beyond


def test_of_differences_that_are_chance_next_to_none_counts():
    rng = np.random.default_rng(2)
    for runs, most in ((5, 0.03), (20, 0.005)):
        base, other = rng.exponential(size=(2, runs, 20_000))
        assert Difference.of(base, other).beyond.mean() < most
        assert Difference.of(base, other + 2).beyond.mean() > 0.6


def test_runs_differ_in_their_clocks_and_repeat_with_the_seed(answer, monkeypatch):
    site = answer.site
    jobs = read_jobs(LOG, limits=site.max_times_s)
    drawn = clocks(site, jobs, 30, 4)
    assert drawn == clocks(site, jobs, 30, 4) != clocks(site, jobs, 30, 5)
    first_s = jobs.submit_s[0]
    assert all(0 <= one.phase_s < 1 and one.jitter_s == 1 for one in drawn)
    assert all(first_s - 60 < one.first_decay_s <= first_s <= one.first_cycle_s < first_s + 30 for one in drawn)
    assert len({one.seed for one in drawn}) == 30
    found = ran(site, jobs, drawn[:6]).wait_s
    monkeypatch.setattr("batfill.replays.many.cpu_count", lambda: 1)
    assert np.array_equal(ran(site, jobs, drawn[:6]).wait_s, found)
    assert len({tuple(row) for row in found.tolist()}) > 1


# The answer


def test_every_figure_is_that_of_the_runs(answer, waits):
    rows, jobs = columns_of(answer), answer.jobs
    of = {
        ("all", "all"): np.ones(len(jobs), bool),
        ("account", "physics"): np.array(jobs.account) == "physics",
        ("CPUs", "5–16"): (jobs.cpus > 4) & (jobs.cpus <= 16),
        ("ran for", "up to 1 min"): jobs.run_s <= 60,
    }
    assert of.keys() < {key[:2] for key in rows}
    for (by, group), some in of.items():
        for k, (name, wait) in enumerate(zip(answer.names, waits, strict=True)):
            row, each = rows[by, group, name], [[run[i] for i in np.flatnonzero(some)] for run in wait.tolist()]
            means = [sum(run) / len(run) for run in each]
            assert row["jobs"] == some.sum()
            assert row["mean_wait_s"] == pytest.approx(np.mean(means))
            assert row["mean_wait_s_margin"] == pytest.approx(2.093 * np.std(means, ddof=1) / 20**0.5, rel=1e-3)
            assert row["longest_s"] == pytest.approx(np.mean([max(run) for run in each]))
            ran = np.maximum(jobs.run_s[some], 10)
            bsld = np.maximum((np.array(each) + jobs.run_s[some]) / ran, 1).mean()
            assert row["mean_bsld"] == pytest.approx(bsld)
            if k:
                before = [np.mean(run[some]) for run in waits[0]]
                assert row["mean_wait_s_more"] == pytest.approx(np.mean(means) - np.mean(before), abs=1e-6)
            else:
                assert row["mean_wait_s_more"] is row["mean_wait_s_beyond_noise"] is None


def test_more_nodes_shorten_waits_and_what_decides_nothing_changes_nothing(answer):
    _, age, nodes, same = (one.wait_s.more for one in answer.all)
    assert nodes.beyond
    assert nodes.value < -30
    assert (float(same.value), bool(same.beyond)) == (0, False)
    assert not age.beyond
    assert change(same) == f"(0{NB}s ±{NB}0{NB}s)"


def head(answer):
    """The headline, with plain spaces."""
    return plain(answer.answer().screen.headline)


def test_changes_are_compared_with_each_other(answer):
    there, back = answer.pair(1, 2), answer.pair(2, 1)
    waits = [one.wait_s.mean for one in answer.all]
    assert float(there.value) == -float(back.value) == pytest.approx(waits[2] - waits[1])
    assert [(pair["from"], pair["to"]) for pair in answer["pairs"]] == [(AGE, NODES), (AGE, SAME), (NODES, SAME)]


def test_who_pays_is_counted_over_the_runs_and_beyond_noise(answer, waits):
    slow, fast = 60 * waits[0], 60 * waits[2]
    each = [Difference.of(slow[:, k], fast[:, k]) for k in range(len(answer.jobs))]
    sure = [float(one.value) if one.beyond else 0.0 for one in each]
    (kind,) = users(answer.jobs)
    groups = grouped(*kind, [Ran(each, *np.zeros((3, *each.shape))) for each in (slow, fast)], [slow, fast], slow[0])
    found = payers_of(groups, 1, slow, fast)
    assert found.by_s == 600
    assert {one.by_s for one in answer.payers} == {60}  # a tenth of the longest wait, 11 min, holds a minute
    text = " ".join(answer.as_text().split())
    assert re.search("over 1 min longer, [0-9]+ % less; 0 of 3 users with at least 20 jobs longer", text)
    assert "; longer on average: none beyond chance; shorter: user cid (−" in text
    assert f"Without effect: {SAME}: mean waits are those as configured, in each run." in text
    less, longer = sum(more < -600 for more in sure), sum(more > 600 for more in sure)
    assert (found.jobs.less, found.jobs.longer) == (less, longer)
    assert less > 30
    assert [(one.name, one.jobs) for one in groups] == [("ann", 60), ("ben", 34), ("cid", 27), (OTHERS, 29)]
    cid = np.array(answer.jobs.user) == "cid"
    assert groups[2].outcomes[1].wait_s.mean == pytest.approx(fast[:, cid].mean())
    assert (sum(found.users), found.users.longer) == (3, 0)
    assert found.users.less == sum(one.outcomes[1].wait_s.more.sure < -600 for one in groups[:3])


GRACE = DATA.parent / "own-grace"  # a real run that preempts
OFF, MORE = "PreemptType=preempt/none", "qos.bnorm.Preempt=blow,bscav qos.blow.PreemptExemptTime=0"


def test_who_is_preempted_and_what_is_lost_is_that_of_the_runs():
    found = slurm(GRACE / "sacct.txt.gz", GRACE / "slurm.conf", [OFF, MORE], runs=5, accounts=[GRACE / "qos.txt"])
    jobs, rows = found.jobs, columns_of(found)
    for k, site in enumerate((found.site, *(changed(found.site, name) for name in found.names[1:]))):
        runs = [Model(site, jobs).run(clock).preempted for clock in clocks(site, jobs, 5, 0)]
        ended = [[one for one in each if one["how"] in (REQUEUED, KILLED)] for each in runs]
        row = rows["all", "all", found.names[k]]
        assert row["preempted"] == pytest.approx(np.mean([len(each) for each in ended]))
        assert row["killed"] == pytest.approx(np.mean([sum(one["how"] == KILLED for one in each) for each in ended]))
        lost_h = [sum(one["cpus"] * (one["at_s"] - one["start_s"]) for one in each) / 3600 for each in ended]
        assert row["lost_cpu_h"] == pytest.approx(np.mean(lost_h))
        of_low = [sum(jobs.qos[one["job"]] == "blow" for one in each) for each in ended]
        assert rows["QOS", "blow", found.names[k]]["preempted"] == pytest.approx(np.mean(of_low))
    base, off, more = (one.stops.mean for one in found.all)
    assert off == 0 < base < more
    assert found.all[1].wait_s.mean < found.all[0].wait_s.mean
    points = found.answer().picture.points
    said = plain(points[1].screen.lines["Preempted"])  # what preempting costs, and whom, where a change ends it
    assert said.startswith(f"as configured, jobs {base:.1f} times a run")
    assert re.search(
        r"\. It lengthens the mean wait by [^;]+ \(\d+ %\); longer on average: user \w+ \(\d+ jobs, \+", said
    )
    said = plain(points[2].screen.lines["Preempted"])
    assert re.fullmatch(
        r"jobs [\d.]+ times a run \([\d.]+ for good\), [\d.]+ processor-hours of work lost, [\d.]+ % of all; as "
        r"configured [\d.]+ times, [\d.]+ hours; most often of QOS \w+ \(\d+ %\), user \w+ \(\d+ %\)\.",
        said,
    )


def test_answers_of_sites_that_preempt_nothing_do_not_speak_of_it(answer):
    assert not any("preempted" in row for row in answer.rows())
    assert not any("Preempted" in point.screen.first for point in answer.answer().picture.points)
    grace = slurm(GRACE / "sacct.txt.gz", GRACE / "slurm.conf", [OFF], runs=5)
    for found in (grace, slurm(LOG, CONF, ["PreemptType=preempt/qos"], runs=5)):
        assert "so no job is preempted: give --accounts" in " ".join(found.answer().as_text().split())
    said = slurm(LOG, CONF, ["PriorityWeightQOS=5", "PriorityWeightAssoc=5"], runs=5)["assumed"]
    for text in ("each QOS has no priority", "each account and each user has one share and no priority"):
        assert f"{text}: give --accounts" in said


def test_the_real_run_is_one_that_the_model_could_make(answer):
    assert answer.logged.lowest_s <= answer.logged.score.logged_mean_s == 138.8 <= answer.logged.highest_s
    assert answer.logged.score.rank_correlation > 0.8
    without_shares = slurm(LOG, CONF, runs=5)
    assert without_shares.logged.score.rank_correlation < 0.5


@pytest.mark.parametrize(
    ("mean_s", "logged_s", "rho", "unlike"),
    [
        (100, 145, 0.9, False),  # outside of the runs, and near
        (100, 155, 0.9, True),
        (100, 60, 0.9, True),
        (100, 95, 0.9, False),  # within the runs
        (100, 95, 0.49, True),
        (100, 95, None, False),
        (100, 0, None, True),
        (59, 20, 0.1, False),  # next to no waits
    ],
)
def test_when_a_model_does_not_show_a_sites_waits(mean_s, logged_s, rho, unlike):
    ratio = mean_s / logged_s if logged_s else None
    found = Score(9, None, mean_s, logged_s, ratio, rho, 300, 300, 50)
    assert bool(Logged(found, Whose("1", None), mean_s - 10, mean_s + 10).unlike) == unlike


def test_a_groups_waits_stand_beside_its_real_ones_and_groups_that_are_far_off_are_named(answer, waits):
    its = np.array(answer.jobs.account) == "biology"
    real_s = np.maximum(answer.jobs.started_s - answer.jobs.eligible_s, 0)[its].mean()
    row = columns_of(answer)["account", "biology", answer.names[0]]
    assert (row["simulated_s"], row["logged_s"]) == pytest.approx((waits[0][:, its].mean(), real_s))
    groups = [one._replace(logged_s=20 * one.logged_s) if one.name == "biology" else one for one in answer.groups]
    both = f"{duration(row['simulated_s'])} ({duration(20 * real_s)})"
    real = replace(answer, groups=groups).answer().screen.lines["Real waits"]
    assert f"; farther off, simulated (real): account biology {both}" in real


def test_the_first_screen_names_what_is_not_modelled_and_how_many_jobs_it_could_touch(answer):
    parts = [
        Part("partition", "LLN", "YES", ("main",)),
        Part("", "CompleteWait", "30"),
        *(Part("", f"bf_x{k}", "1") for k in range(9)),
    ]
    site = replace(answer.site, named=tuple(parts))
    said = replace(answer, site=site, warnings=touched(site, answer.jobs)[0]).answer().screen.lines["Not modelled"]
    assert said.startswith("LLN=YES (partition main), left out; it could touch 150 jobs (100 %; 100 % of processor-h")
    assert all(f"bf_x{k}=1" in said for k in range(9))
    notes = tuple(f"not modelled: option {k}" for k in range(8))
    assert (
        replace(answer, warnings=notes)
        .answer()
        .screen.lines["Not modelled"]
        .endswith("option 5; 2 more with --details.")
    )
    assert "\nNot modelled: nothing in slurm.conf that could touch a job.\n" in answer.as_text()


def test_an_answer_from_less_than_12_weeks_is_not_trusted(answer):
    (caution,) = answer["cautions"]
    assert caution == "too few jobs (150 within 11 min 6 s), and others may differ: it takes 12 weeks"
    assert answer["trusted"] is False
    for weeks, few in ((11, "too few jobs (150 within 11 weeks), and others may differ"), (12, None)):
        days = np.linspace(0, 7 * weeks - 0.5, len(answer.jobs))
        longer = replace(answer, jobs=replace(answer.jobs, submit_s=1e9 + DAY_S * days))
        assert longer["trusted"] == (few is None)
        assert head(longer).startswith(f"Cannot tell: {few}. Simulated, " if few else f"{NODES} shortens")


def test_who_gains_and_loses_most_and_whose_the_longest_logged_wait_is_are_said(answer):
    sure, most = {}, {}
    for (by, name, of), row in columns_of(answer).items():
        if of == NODES and name != OTHERS and row["mean_wait_s_beyond_noise"]:
            sure[by, name] = row["mean_wait_s_more"]
    for (by, name), more in sure.items():
        if by != "all" and more < 0 and more == min(each for (kind, _), each in sure.items() if kind == by):
            most[by] = name
    assert {one["by"]: one["name"] for one in answer["payers"][NODES]["gainers"]} == most
    assert most.keys() == {"account", "CPUs", "ran for", "user"}
    assert answer["payers"][NODES]["losers"] == []
    waited = {job: start - ready for job, start, ready in zip(*map(answer.jobs.__getattribute__, PARTS), strict=True)}
    longest = max(waited, key=waited.get)
    user = answer.jobs.user[answer.jobs.ids.index(longest)]
    assert (answer["logged"]["longest_job"], answer["logged"]["longest_user"]) == (longest, user)


PARTS = ("ids", "started_s", "eligible_s")


# Text, page and command


def test_golden_the_first_screen_fits_a_terminal_and_leads_with_the_mean_wait(monkeypatch):
    monkeypatch.chdir(LOG.parent)
    words = ("what-if", LOG.name, "--slurm-conf", CONF.name, "--accounts", ACCOUNTS.name, "--set", AGE)
    done = batfill(*words)
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 24
    assert max(map(len, done.out.splitlines())) <= 80
    more = batfill(*words, "--details").out
    assert more.endswith(f"\n\n{done.out}")
    check("what-if-slurm", more)


def test_the_page_shows_every_group_and_configuration(answer, tmp_path):
    page = answer.answer().as_page("batfill what-if x")
    text = " ".join(html.unescape(re.sub("<[^>]+>", " ", page.replace("<wbr>", ""))).replace(NB, " ").split())
    assert head(answer) in text
    for name in answer.names:
        assert f"under {name}" in text
    for group in answer.groups[1:]:
        assert f"<th scope=row>{units_kept(group.name)}</th>" in page
    data = json.loads(re.search('id="what-if">(.*?)</script>', page)[1])
    assert [choice["name"] for choice in data["choices"]] == list(answer.names)
    assert data["seen"] == 2
    named = replace(answer, names=("<i>as configured", *answer.names[1:]))
    assert "<i>as" not in named.answer().as_page()
    out = tmp_path / "page.html"
    assert batfill("what-if", LOG, "--slurm-conf", CONF, "--runs", 5, "--out", out).status == 0
    assert "the mean wait is" in re.sub("<[^>]+>", "", out.read_text())


def test_in_a_browser_a_row_shows_who_pays_under_another_change(browser, answer, tmp_path):
    (tmp_path / "page.html").write_text(answer.answer().as_page())
    browser.sized(1280, 800)
    browser.open(tmp_path / "page.html")
    shown = "return [...document.querySelectorAll('[data-choice]:not([hidden])')].map((e) => e.dataset.choice)"
    said = "return document.getElementById('advice').innerText"
    assert (browser.run(shown), f"Simulated, {NODES}" in browser.run(said)) == (["2"], True)
    browser.run("document.querySelector('#four [data-pick=\"1\"]').click()")
    assert (browser.run(shown), browser.run(said).startswith(AGE)) == (["1"], True)
    browser.run("document.getElementById('back').click()")
    assert browser.run(shown) == ["2"]
    browser.sized(390, 844)
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true; scrollers()")
    assert (browser.violations(), browser.log(), browser.cut(390, 768, 1200)) == ([], [], [])


def test_the_command_does_what_python_does():
    given = ("--set", AGE, "--add-nodes", "cb33=cb01", "--runs", 5, "--seed", 7, "--tau", 60)
    done = batfill("what-if", LOG, "--slurm-conf", CONF, "--accounts", ACCOUNTS, *given, "--json")
    changes = [AGE, f"{ADD_NODES}=cb33=cb01"]
    found = bf.slurm(LOG, CONF, changes, accounts=[ACCOUNTS], runs=5, seed=7, tau_s=60)
    assert json.loads(done.out) == json.loads(found.as_json())
    assert "ReqTRES" in done.err


MISTAKES = """
what-if LOG CONF --set PriorityWeightAge=1000
what-if LOG CONF --set PriorityWeightAge=4000 --set PriorityWeightAge=4000
what-if LOG CONF --set=
what-if LOG CONF --add-nodes n1=n0
what-if LOG CONF --procs 4
what-if LOG CONF --no-small-first
what-if LOG CONF --overdue half
what-if LOG CONF --slurm-version new
what-if LOG CONF --runs 4
what-if LOG CONF --details --json
what-if LOG --set PriorityWeightAge=4000
what-if LOG --runs 5
what-if LOG --accounts FILE
what-if LOG --slurm-version 20.02
what-if log.swf CONF
fidelity LOG CONF --procs 4
fidelity LOG CONF --no-fit
fidelity LOG CONF --timezone Mars
fidelity LOG CONF --details --json
fidelity LOG --runs 6
"""
WINDOWS = """
nodes,begin;cb01,1
nodes,begin,end;cb01,cb02,1,2
nodes,begin,end;x9,1,2
nodes,begin,end;cb01,2,1
nodes,begin,end;cb01,2,\x20
nodes,begin,end;cb01,soon,1
nodes,begin,end;cb[1,1,2
"""


def test_golden_a_mistake_is_answered_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text("; MaxProcs: 4\n1 0 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")
    there = {"LOG": str(LOG), "CONF": f"--slurm-conf {CONF}", "FILE": str(ACCOUNTS)}
    said = []
    for words in MISTAKES.split("\n")[1:-1]:
        typed = " ".join(there.get(word, word) for word in words.split())
        said += [f"{words}: {refusal(*typed.split())}".replace(f"{LOG}:", "LOG:")]
    for text in WINDOWS.split("\n")[1:-1]:
        Path("w.csv").write_text(text.replace(";", "\n"))
        with pytest.raises(BatfillError) as error:
            read_windows(Path("w.csv"), read_site(CONF))
        said += [f"{text}: {error.value}"]
    both = ("--set", "bf_interval=60 PriorityWeightAge=1000")  # of which one does nothing
    said += [refusal("what-if", LOG, "--slurm-conf", CONF, *both)]
    check("slurm-mistakes", "\n".join(said))


@pytest.mark.parametrize("command", ["what-if", "fidelity", "when"])
@pytest.mark.parametrize("name", ["nodes.conf", "topology.conf", "gres.conf", "slurm.conf"])
def test_no_command_overwrites_a_file_that_slurm_conf_leads_to(tmp_path, command, name):
    texts = {"slurm.conf": "Include nodes.conf\nPartitionName=main Nodes=ALL\n", "nodes.conf": "NodeName=cb[01-32]\n"}
    texts |= {"topology.conf": "SwitchName=s Nodes=cb[01-32]\n", "gres.conf": "AutoDetect=off\n"}
    for each, text in texts.items():
        (tmp_path / each).write_text(text)
    (tmp_path / "link").symlink_to(tmp_path / name)
    for out in (name, "link"):
        done = batfill(command, LOG, "--slurm-conf", tmp_path / "slurm.conf", "--out", tmp_path / out)
        assert (done.status, done.out) == (2, "")
        assert f"is the file {tmp_path / name}, which the command needs; name another file" in done.err
    assert {each: (tmp_path / each).read_text() for each in texts} == texts


# Jobs that cannot start, and windows


def test_jobs_that_do_not_start_everywhere_are_left_out_and_counted():
    site = read_site(CONF)
    jobs = read_jobs(LOG, limits=site.max_times_s)
    short, none = "partition.main.MaxTime=5", "partition.main.MaxNodes=0"
    gone = int((jobs.limit_s > 300).sum())
    found = slurm(LOG, CONF, [short, NODES], runs=5)
    assert (found.never, len(found.jobs)) == ([0, gone, 0], len(jobs) - gone)
    assert found.names[found.best] == NODES
    assert head(slurm(LOG, CONF, [short], runs=5)) == f"Under {short} {gone} jobs would never start"
    with pytest.raises(BatfillError, match="no job starts under every configuration"):
        slurm(LOG, CONF, [none], runs=5)
    elsewhere = replace(jobs, partition=("other",) * len(jobs))
    with pytest.raises(BatfillError, match="none of its jobs can start"):
        compared("log", {AS_CONFIGURED: site}, elsewhere, SETTINGS, {})


def test_windows_are_read_and_delay_jobs(tmp_path):
    site, path = read_site(CONF), tmp_path / "down.csv"
    begin_s = read_jobs(LOG, limits=site.max_times_s).submit_s[0] - 10
    path.write_text(f'nodes,begin,end,announced\n"cb[01-30,32]",{begin_s},2026-11-26T20:00:00,\ncb31,1,2,0\n')
    first, second = read_windows(path, site)
    assert (len(first.nodes), first.begin_s, first.end_s, first.announced_s) == (31, begin_s, 1795723200, np.inf)
    assert second == (("cb31",), 1, 2, 0)
    usual, down = slurm(LOG, CONF, runs=5), slurm(LOG, CONF, runs=5, windows=path)
    assert down.all[0].wait_s.mean > usual.all[0].wait_s.mean + 600
    assert str(path) in down["inputs"]
