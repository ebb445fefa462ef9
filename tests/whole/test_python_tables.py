"""Workloads, results and policies as objects of Python: rows, columns, equality, pickles, frames, plots, progress."""

from __future__ import annotations

import copy
import csv
import io
import pickle
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import WorkloadError
from batfill.model.policy import aged, policy_named, polynomial

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
SAMPLE = "workloads/sample.json"
MINE = {"submit_s": [0, 1], "runtime_s": [1, 1], "walltime_s": [2, 2], "procs": [1, 1]}


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@pytest.fixture(scope="module")
def log(request):
    return bf.read(request.config.rootpath / SAMPLE)


@pytest.fixture(scope="module")
def saf(log):
    return bf.replay(log, "saf", threshold_s=7200)


# Rows and columns


def test_all_that_has_jobs_gives_them_by_row_and_column(log, saf):
    run = bf.Replay(log, "saf", threshold_s=7200).run()
    for each in (log, log.jobs, saf, run):
        frame = each.to_pandas()
        assert len(each) == len(frame) == 800
        assert each["procs"].tolist() == frame.procs.tolist() == each.to_dict()["procs"]
        assert each[5]["submit_s"] == each[-795]["submit_s"] == frame.submit_s[5]
        assert [job["job_id"] for job in each] == frame.job_id.tolist()
        assert [job["job_id"] for job in each[2:9:3]] == frame.job_id[2:9:3].tolist()
        read = list(csv.DictReader(io.StringIO(each.to_csv())))
        assert list(read[0]) == list(frame)
        assert [float(row["runtime_s"]) for row in read] == frame.runtime_s.tolist()
        described, theirs = each.describe().to_pandas()["runtime_s"], frame.describe().runtime_s
        assert described.tolist() == pytest.approx(theirs.tolist(), rel=1e-12)
        with pytest.raises(KeyError, match="'nothing' is not a column"):
            each["nothing"]
        with pytest.raises(IndexError):
            each[800]


def test_csv_in_a_file_is_the_text_and_unknown_values_are_empty(saf, tmp_path):
    assert saf.to_csv(tmp_path / "jobs.csv") is None
    text = (tmp_path / "jobs.csv").read_text()
    assert text == saf.to_csv()
    assert "nan" not in text
    assert "None" not in text


def test_no_array_that_leaves_the_library_can_be_changed(log, tmp_path):
    classed, fcfs = bf.replay(log, "saf", small="forest", kill="needed"), bf.replay(log)
    run = bf.Replay(log, "saf", threshold_s=7200).run("1d")
    others = [bf.read(log.to_pandas()), run.waiting, run.running, run.result(), run.fork("fcfs").run(), bf.when(run)]
    for each in (log, classed, fcfs, run, *others, bf.generate(100), log.jobs.select(slice(5))):
        for one in (each, copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            arrays = [one[name] for name in one.columns()]
            assert arrays
            for array in arrays:
                with pytest.raises(ValueError, match="read-only"):
                    array[:1] = array[:1]
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.view().flags.writeable = True
    before = fcfs["wait_s"].tolist()
    with pytest.raises(ValueError, match="read-only"):
        log["procs"][:] *= 2
    fcfs.to_batsim(tmp_path / "x")
    fcfs.plot("gantt")
    assert fcfs["wait_s"].tolist() == before


def test_arrays_that_a_table_is_made_of_remain_the_users_own(log):
    columns = {name: np.array(getattr(log.jobs, name)) for name in ("submit_s", "runtime_s", "walltime_s", "procs")}
    jobs = bf.job_table(**columns)
    for column in columns.values():
        column *= 2
    assert jobs["procs"].tolist() == log["procs"].tolist()
    assert jobs["submit_s"].tolist() == log["submit_s"].tolist()


def test_a_policy_of_ones_own_cannot_change_the_jobs(log):
    def greedy(r, p, q):
        r -= 5
        return r

    with pytest.raises(ValueError, match="read-only"):
        bf.replay(log, bf.Policy("greedy", greedy))
    for each in (lambda: bf.replay(log), bf.Replay(log).run):
        each()


# Equality and pickles


def test_results_and_runs_are_pickled(log, saf):
    classed = bf.replay(log, "wfp3", small="all", kill="always")
    for each in (log, saf, classed, saf.workload.jobs):
        assert pickle.loads(pickle.dumps(each)) == each
    mixed = bf.Replay(log, "mixed:1,2,0,0,3,0", threshold_s=3600).run("1d").fork(policy="aged:50000,0.5,0.5").run("2d")
    again = pickle.loads(pickle.dumps(mixed))
    assert again.now_s == mixed.now_s
    assert again.run().result() == mixed.run().result()


def square(r, p, q):
    return p * q * q


@pytest.mark.parametrize(
    "policy",
    [
        *bf.policies.values(),
        policy_named("mixed:1,2,3,0,1,0"),
        policy_named("aged:50000,0.5,0.5"),
        aged(7, 0, 0),
        polynomial("lin", [(2.0, 1, 1, 0), (1.0, 0, 0, 1)], "here"),
        bf.Policy("square", square),
    ],
    ids=lambda policy: policy.name,
)
def test_policies_are_pickled_and_shown_by_their_formulas(policy):
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert " at 0x" not in repr(again)
    assert policy.name in again._repr_html_()


# What goes in


def test_a_frame_becomes_the_workload_that_it_came_from(log):
    assert bf.read(log.to_pandas()) == log
    of_result = bf.read(bf.replay(log).to_pandas(), procs=64)
    assert of_result.jobs == log.jobs
    assert "start_s" in of_result.notes[0]
    assert bf.read(log.to_arrow(), procs=64).jobs == log.jobs
    assert bf.read(log.to_dict(), procs=64).jobs == log.jobs


def test_a_table_written_as_csv_is_read_back(log, saf, tmp_path):
    for each in (log, saf):
        each.to_csv(tmp_path / "jobs.csv")
        again = bf.read(tmp_path / "jobs.csv", procs=64)
        assert again.jobs == log.jobs
        assert bf.replay(again, "saf", threshold_s=7200).schedule == saf.schedule
    text = (tmp_path / "jobs.csv").read_text()
    for wrong, said in (
        (text.rpartition(",")[0], "values under"),
        (text.replace(",9,", ",x,", 1), "column runtime_s, row 0: 'x'"),
    ):
        (tmp_path / "jobs.csv").write_text(wrong)
        with pytest.raises(WorkloadError, match=said):
            bf.read(tmp_path / "jobs.csv")


def test_dates_and_durations_become_seconds_with_a_clock(log):
    frame = log.to_pandas()
    submit, runtime = (pd.to_timedelta(column, unit="s") for column in (frame.submit_s, frame.runtime_s))
    submit += pd.Timestamp("2026-01-05 08:00:00.5", tz="Europe/Paris")
    dated = pd.DataFrame({"submit": submit, "runtime": runtime, "walltime": frame.walltime_s, "procs": frame.procs})
    read = bf.read(dated, procs=64)
    assert read.clock.date(0) == datetime(2026, 1, 5, 7, tzinfo=UTC)
    assert (read["submit_s"] == frame.submit_s + 0.5).all()
    assert read["runtime_s"].tolist() == frame.runtime_s.tolist()
    assert bf.replay(dated, "saf", procs=64).figures.jobs == 800
    run = bf.Replay(read).run(datetime(2026, 1, 6, 7, tzinfo=UTC))
    assert run.now_s <= 86_400 < run.next_s


def test_lists_and_series_become_a_job_table():
    columns = {"submit_s": [60, 0], "runtime_s": [10, 20], "walltime_s": [60, 30], "procs": [1, 4], "user": [3, 4]}
    plain = bf.job_table("lists", **columns, job_class=["small", None])
    assert plain.ids.tolist() == ["2", "1"]
    assert plain.job_class.tolist() == [-1, 1]
    series = {name: pd.Series(values, index=[7, 9]) for name, values in columns.items()}
    timed = {"runtime_s": [timedelta(seconds=10), timedelta(seconds=20)], "submit_s": np.array([60, 0], "m8[s]")}
    for other in (series, {**columns, **timed}, {**columns, "ids": [1, 2]}, {**columns, "procs": [1.0, 4.0]}):
        assert bf.job_table("others", **other, job_class=["small", None]) == plain
    dates = [datetime(2026, 1, 1, 0, 1), datetime(2026, 1, 1)]
    assert bf.job_table("dates", **{**columns, "submit_s": dates}).submit_s.tolist() == [0, 60]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda log: bf.replay(log, procs="4"), "a machine of '4' processors; give its size"),
        (lambda log: bf.replay(log, ["fcfs", "saf"]), "`replay_many`"),
        (lambda log: bf.replay(None), "None is no workload, file or data frame"),
        (lambda log: bf.replay(bf.job_table(**MINE)), "the job table: does not say how many processors"),
        (lambda log: bf.job_table(**MINE).stating(procs=4), "procs cannot be stated of jobs; .* are their size"),
        (lambda log: bf.tune(log, dais=3), "argument 'dais' is unknown; did you mean 'days'?"),
        (lambda log: bf.read(pd.DataFrame({"submit_s": [0]})), "no column runtime_s; its columns are submit_s"),
        (lambda log: bf.replay(log, small="class", divider=100), "option small class needs .* choose small all"),
        (lambda log: bf.generate(procs="4"), "option procs: '4' is not a whole number"),
        (lambda log: bf.report(log), "no result of a replay"),
        (lambda log: bf.report(bf.Replay(log)), "800 jobs have not ended"),
        (lambda log: bf.replay(log).plot("gant"), "'gant' is none of .*; did you mean 'gantt'"),
        (lambda log: bf.replay(log).plot(from_s=9, until_s=5), "until_s: 5 is not after from_s, 9"),
        (lambda log: bf.Replay(log).run(datetime(2026, 1, 1)), "until_s: .* is a date, and the workload has no clock"),
    ],
)
def test_mistakes_name_the_argument(log, call, says):
    with pytest.raises(bf.BatfillError, match=says) as error:
        call(log)
    assert not any(part.count("--") for part in str(error.value).split("`")[::2])


# What comes out


def test_reports_and_comparisons_take_results_lists_and_dicts(log, saf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fcfs = bf.replay(log)
    assert [path.name for path in bf.report(saf)] == ["report.html"]

    def page(*runs):
        (path,) = bf.report(*runs, out="page.html")
        assert path.name == "page.html"
        text = path.read_text()
        path.unlink()
        return text

    named = {"today": fcfs, "ours": saf}
    assert page(fcfs, saf) == page([fcfs, saf])
    assert "today" in (of_names := page(named))
    assert str(tmp_path.parent) not in of_names
    saf.to_batsim(tmp_path / "runs" / "saf")
    assert "2 runs compared" in page(fcfs, tmp_path / "runs")
    assert bf.compare(fcfs, saf).equals(bf.compare([fcfs, saf]))
    assert bf.compare(named).policy.tolist() == ["ours"] * 2
    assert bf.replay_many(log, {"a": "saf", "b": "fcfs"}).index.tolist() == ["a", "b"]


def test_plots_draw_on_the_axes_that_are_given(log, saf):
    from matplotlib.figure import Figure

    axes = Figure().subplots(4)
    assert saf.plot(axes=axes[0]) is axes[0]
    by_day = saf.to_pandas().wait_s.groupby(saf["submit_s"] // 86_400).mean()
    assert axes[0].lines[1].get_ydata() == pytest.approx(by_day.to_numpy())
    drawn = saf.plot("utilisation", axes[1]).patches[0].get_data()
    used = float((drawn.values * np.diff(drawn.edges)).sum() / (drawn.edges[-1] - drawn.edges[0]))
    assert used == pytest.approx(saf.figures.utilisation, rel=1e-9)
    bars = saf.plot("gantt", axes[2], from_s="1d", until_s="36h").collections
    inside = (saf["end_s"] > 86_400) & (saf["start_s"] < 129_600)
    areas = [path.vertices for each in bars for path in each.get_paths()]
    drawn_h = sum(np.ptp(corners[:, 0]) * np.ptp(corners[:, 1]) for corners in areas)
    ran_s = np.minimum(saf["end_s"], 129_600) - np.maximum(saf["start_s"], 86_400)
    assert drawn_h == pytest.approx((ran_s * saf["procs"])[inside].sum() / 3600)
    assert log.plot(axes[3]).get_ylabel() == "processors"
    part = bf.Replay(log).run("1d").plot("gantt", Figure().subplots(), until_s="5d")
    assert part.get_xlim()[1] <= 24


# Progress


def test_a_replay_in_pieces_is_the_replay(log, saf, monkeypatch):
    monkeypatch.setattr("batfill.replays.engine_replay.AT_ONCE", 7)
    steps = []
    assert bf.replay(log, "saf", threshold_s=7200, advance=steps.append) == saf
    assert sum(steps) == 800
    assert len(steps) == 115


# Environments
