import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

import batfill as bf
from batfill.base.words import duration
from batfill.model.jobs import WEEK_S
from batfill.reports.charts import most_telling, styles_of
from batfill.reports.comparison import comparisons, of_jobs
from batfill.reports.figures import comparison_figures, wait_figure
from batfill.reports.palette import dress
from batfill.reports.runs import find_runs, read_run
from batfill.reports.sections import comparison_section
from batfill.reports.single import wait_grid
from report_runs import OK, REJECTED, SAMPLE, jobs_csv, sample_run


def of_weeks(*weekly_bsld, per_week=5):
    """Runs whose jobs all have the bsld of their week; shape (n_runs, n_weeks)."""
    bsld = np.repeat(np.array(weekly_bsld, float), per_week, axis=1)
    submit_s = np.repeat(np.arange(len(weekly_bsld[0])) * WEEK_S, per_week)
    return of_jobs(tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"[: len(bsld)]), submit_s, bsld, bsld * 10)


def test_the_cumulative_curve_ends_at_the_mean():
    days, sums = of_weeks([1, 2, 3], [4, 4, 4]).cumulative()
    assert days[-1] == 14
    assert sums[:, -1].tolist() == [2, 4]
    assert (np.diff(sums) >= 0).all()


def test_a_constant_difference_has_an_interval_without_width():
    (d,) = of_weeks(range(1, 13), range(3, 15)).differences(seed=1)
    assert (d.bsld.value, d.bsld.low, d.bsld.high) == pytest.approx((2, 2, 2))
    assert (d.better, d.worse) == (0, 1)


def test_the_interval_is_that_of_swapping_blocks():
    # weeks differ by -1 or 3, by turns; the test of a mean m keeps it if more than 5 % of the signs reach its statistic
    (d,) = of_weeks([5] * 12, [4, 8] * 6).differences(seed=1)
    differences = np.array([-1, 3] * 6)
    signs = 1 - 2 * (np.arange(2**12)[:, None] >> np.arange(12) & 1)

    def kept(mean):
        drawn = signs * (differences - mean)
        t = drawn.mean(axis=1) / drawn.std(axis=1)
        skewness = ((drawn - drawn.mean(axis=1, keepdims=True)) ** 3).mean(axis=1) / drawn.std(axis=1) ** 3
        found = np.abs(t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * 12))
        return (found >= found[0] - 1e-9).mean() > 0.05

    assert d.bsld.value == 1
    for end, away in ((d.bsld.low, -0.01), (d.bsld.high, 0.01)):  # the ends are exact to a part of their distance
        inside, outside = end - away, end + away
        assert kept(inside)
        assert not kept(outside)


def test_many_blocks_are_drawn_bit_by_bit(monkeypatch):
    rng = np.random.default_rng(5)
    comparison = of_weeks(rng.random(20), rng.random(20))
    (at_once,) = comparison.differences(3)
    monkeypatch.setattr("batfill.base.stats.DRAWN_AT_ONCE", 1000)
    (bit_by_bit,) = comparison.differences(3)
    assert bit_by_bit == at_once


def test_of_too_many_choices_the_first_the_best_and_the_advised_one_are_in_colour():
    many = of_weeks(*([float(bsld)] * 3 for bsld in range(40, 10, -1)))
    assert most_telling(many) == [0, *range(22, 30)]
    assert most_telling(replace(many, advised=5)) == [0, 5, *range(22, 30)]
    assert [style.rest for style in styles_of(many)] == [k not in most_telling(many) for k in range(30)]


def test_a_figures_key_names_every_line_once():
    many = of_weeks(*([float(bsld)] * 3 for bsld in range(40, 10, -1)))
    figure = comparison_figures(many, "", seed=0)[0]
    canvas = Figure()
    figure.draw(canvas.subplots())
    dress(canvas, figure.title)
    names = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert sorted(names) == sorted(["the other 21", *(many.names[k] for k in most_telling(many))])


def test_jobs_that_one_run_rejected_are_left_out_of_all(tmp_path):
    one = jobs_csv(tmp_path / "one_jobs.csv", f"a,0,1,5,{OK},0,50,0", f"b,0,9,5,{OK},10,50,0-8")
    other = jobs_csv(tmp_path / "other_jobs.csv", f"a,0,1,5,{OK},50,50,0", f"b,0,9,5,{REJECTED},,,")
    (comparison,) = comparisons([read_run(one, "one"), read_run(other, "other")], 10)
    assert comparison.bsld.tolist() == [[1], [2]]


def test_the_differences_are_those_of_the_runs(tmp_path):
    for policy in ("fcfs", "saf"):
        sample_run(tmp_path, policy)
    runs = find_runs([tmp_path / "fcfs", tmp_path / "saf"])
    (comparison,) = comparisons(runs, 10)
    (d,) = comparison.differences(seed=0)
    fcfs, saf = (run.summary() for run in runs)
    assert d.bsld.value == pytest.approx(saf.mean_bsld - fcfs.mean_bsld)
    assert d.wait_s.value == pytest.approx(saf.mean_wait_s - fcfs.mean_wait_s)
    assert d.bsld.blocks == 5  # days
    assert not d.bsld.bounded


def test_few_values_are_dots_and_a_wait_has_one_colour_in_all_runs(tmp_path):
    for policy in ("fcfs", "saf"):
        sample_run(tmp_path, policy)
    bf.report(tmp_path, out=tmp_path / "page.html", figures=["svg"])
    rows = (tmp_path / "weeks-bsld.csv").read_text().splitlines()[1:]
    assert rows[0] == "run,1"  # the log's only week
    assert "a dot each" in (tmp_path / "weeks-bsld.txt").read_text()
    found = find_runs([tmp_path])
    grids = [wait_grid(run) for run in found]
    highest_s = max(float(np.nanmax(grid.mean_wait_s)) for grid in grids)
    for run, grid in zip(found, grids, strict=True):
        axes = Figure().subplots()
        wait_figure(run, grid, highest_s).draw(axes)
        assert axes.images[0].get_clim() == (0, highest_s)
        assert len(axes.texts) == (grid.jobs > 0).sum()


def test_who_pays_in_a_report_is_who_pays_in_the_replays(tmp_path):
    fcfs, saf = (bf.replay(SAMPLE, policy) for policy in ("fcfs", "saf"))
    for one, name in ((fcfs, "fcfs"), (saf, "saf")):
        one.to_batsim(tmp_path / name / "out")
    (comparison,) = comparisons(find_runs([tmp_path / "fcfs", tmp_path / "saf"]), 10)
    for found, expected in zip(comparison.waits, (fcfs.who_pays(fcfs), saf.who_pays(fcfs)), strict=True):
        assert found["small_below_s"] == expected["small_below_s"]
        for groups in ("waits_by_class", "waits_by_width", "waits_by_user"):
            assert found[groups] == [
                {key: pytest.approx(value) if isinstance(value, float) else value for key, value in group.items()}
                for group in expected[groups]
            ]
    page = comparison_section(comparison, 0, seed=0)
    small, large = saf.who_pays(fcfs)["waits_by_class"]
    for figure in (duration(small["mean_wait_s"]), duration(large["max_wait_s"]), f"{large['delayed']:.1%}"):
        assert f">{figure}</td>" in page
    assert "up to 64" in page
    for title, circles in (("mean wait of small and of large jobs", 4), ("over the longest wait of each choice", 2)):
        (plot,) = re.findall(rf'<svg class="plot wide"[^>]*{title}.*?</svg>', page)
        assert plot.count("<circle") == circles
