import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")


from batfill.base.words import duration
from batfill.model.jobs import DAY_S, WEEK_S
from batfill_pages.comparison import Whose, comparisons, of_jobs
from batfill_pages.comparison_page import View, comparison_section
from batfill_pages.runs import read_run
from batfill_pages.stats import holm
from batfill_pages.words import id_in_log
from golden_text import check
from report_runs import KILLED, OK, REJECTED, jobs_csv, words_of


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


TRIES = f"a,0,1,5,{KILLED},0,20,0", f"a#1,0,1,5,{OK},50,50,0"  # of one job, which the other run starts once


def test_jobs_that_one_run_rejected_are_left_out_of_all(tmp_path):
    one = jobs_csv(tmp_path / "one_jobs.csv", f"a,0,1,5,{OK},0,50,0", f"b,0,9,5,{OK},10,50,0-8")
    other = jobs_csv(tmp_path / "other_jobs.csv", *TRIES, f"b,0,9,5,{REJECTED},,,")
    (comparison,) = comparisons([read_run(one, "one"), read_run(other, "other")], 10)
    assert comparison.bsld.tolist() == [[1], [2]]


def test_the_differences_are_those_of_the_runs(runs):
    (comparison,) = comparisons(runs, 10)
    (d,) = comparison.differences(seed=0)
    fcfs, saf = (run.summary() for run in runs)
    assert d.bsld.value == pytest.approx(saf.mean_bsld - fcfs.mean_bsld)
    assert d.wait_s.value == pytest.approx(saf.mean_wait_s - fcfs.mean_wait_s)
    assert d.bsld.blocks == 5  # days
    assert not d.bsld.bounded


def test_no_run_is_named_by_an_option_that_all_share_and_a_job_has_its_id_in_the_log(runs):
    of = [replace(run, about=replace(run.about, given=run.about.given | {"depth": "all"})) for run in runs]
    (comparison,) = comparisons(of, 10)
    assert [short for _, short in comparison.words] == ["fcfs", "saf"]
    assert comparison.about.endswith(", every job reserved")
    assert [id_in_log("007", log) for log in ("a.swf", "a.json")] == ["7", "007"]


def with_longest(comparison, *longest_s):
    """The same with one wait as long as that in each run."""
    wait_s = comparison.wait_s.copy()
    wait_s[:, 0] = longest_s
    return replace(comparison, wait_s=wait_s, bsld=comparison.bsld)


def busy(*levels, weeks=24):
    """Runs whose weekly bounded slowdowns are near these levels."""
    drift = np.random.default_rng(1).random(weeks)
    return of_weeks(*([level + part for part in drift] for level in levels))


NOISE = np.random.default_rng(3).normal(0, 1, 24)
INVENTED = ("60 of 60 jobs (100 %) have no requested time: their true run time stands in for it",)
THREE = with_longest(busy(90, 40, 53), 3 * DAY_S, 54.3 * DAY_S, 3.5 * DAY_S)
TWO = with_longest(busy(90, 40), 3 * DAY_S, 6 * DAY_S)
STILL = busy(1, 1)
CASES = {
    "the lowest slowdown starves": THREE,
    "twice the longest wait is no but": TWO,
    "a second more is one": with_longest(TWO, 3 * DAY_S, 6 * DAY_S + 1),
    "as long": with_longest(TWO, 3 * DAY_S, 3 * DAY_S),
    "one day": with_longest(of_weeks([9], [5]), 300, 200),
    "noise": of_weeks([5] * 24, [4.9, 5.05] * 12),
    "a good reference, and one that is like the best": with_longest(
        of_weeks([90] * 24, [40] * 24, 39.9 + NOISE), 300, 200, 100
    ),
    "equal slowdowns": with_longest(of_weeks([5] * 24, [5] * 24), 300, 300),
    "no wait": replace(STILL, bsld=STILL.bsld * 0 + 1, wait_s=STILL.wait_s * 0),
    "hindsight": replace(TWO, hindsight=(False, True)),
    "invented requests": replace(TWO, warnings=INVENTED, invented=INVENTED),
}


def with_losers():
    """Two runs of 120 jobs of four users; the second user's jobs wait longest under b, which killed six tries."""
    kills = np.zeros((2, 120), int)
    kills[1, :6] = 1
    two = with_longest(busy(90, 40), 300, 9000)
    wait_s = two.wait_s.copy()
    wait_s[1, 31:60] = wait_s[0, 31:60] + 1000
    user = np.arange(120) // 30
    user[100:105] = 4  # too few jobs to be named, though their waits grow most
    wait_s[1, 100:105] += 5000
    whose = Whose(np.arange(120).astype(str), user, np.full(120, 4), kills, (0, 3))
    return replace(two, wait_s=wait_s, whose=whose)


def test_golden_sentences_of_comparisons_against_each_reference():
    lines = []
    for name, comparison in (CASES | {"losers": with_losers()}).items():
        view = View(comparison, seed=0)
        lines += ["", f"# {name}"]
        for k in range(len(comparison.names)):
            verdicts = ", ".join(view.verdict_words(other, k) or "-" for other in range(len(comparison.names)))
            lines.append(
                f"{comparison.names[k]}: marked {view.chosen(k)}; {verdicts}; {words_of(view.said('answer', k))}"
            )
            lines += [words for part in ("kills", "losers") if (words := words_of(view.said(part, k)))]
        lines += [words_of(view.said("alike"))] if view.unclear else []
    check("comparison-sentences", "\n".join(lines).lstrip())


def test_golden_sections_of_comparisons():
    sections = [comparison_section(CASES[name], 0, seed=0) for name in ("hindsight", "invented requests", "noise")]
    check("comparison-sections", "\n\n".join(map(words_of, sections)))
    assert ['class="chosen"' in section for section in sections] == [True, False, False]
    assert '<a href="#job=0&amp;run=3">why</a>' in View(with_losers(), seed=0).said("losers", 0)


def test_the_differences_from_every_reference_are_corrected_for_their_number_and_so_are_their_intervals():
    four = of_weeks(*np.random.default_rng(2).random((4, 24)))
    found = four.against([2, 0], seed=3)
    for one in (0, 2):
        assert found[one][one] is None
        others = [pair for pair in found[one] if pair is not None]
        assert [pair.corrected_p for pair in others] == holm([pair.p for pair in others])
    (alone,) = four.paired([four.bsld[0] - four.bsld[2]], 3)
    assert (found[2][0].value, found[2][0].p) == (alone.value, alone.p)


@pytest.mark.parametrize("gain", [0.38, 0.6])
def test_an_interval_holds_0_where_the_verdict_is_that_it_may_be_chance(gain):
    # alone, two of these differences are beyond chance; among five comparisons they are not
    noise = np.random.default_rng(4).normal(0, 0.7, (6, 24))
    six = with_longest(of_weeks([9] * 24, *(9 - gain + noise[1:])), *[300] * 6)
    view = View(six, seed=0)
    pairs = [pair for pair in view.pairs[0] if pair is not None]
    (alone,) = six.paired([six.bsld[1] - six.bsld[0]], 0)
    assert alone.low > pairs[0].low
    for pair in pairs:
        assert (pair.low <= 0 <= pair.high) == (pair.verdict == "unclear")


def test_the_table_states_the_longest_wait_beside_each_mean_and_flags_more_than_twice_the_references(runs):
    (comparison,) = comparisons(runs, 10)
    page = comparison_section(comparison, 0, seed=0)
    longest = [duration(float(run.wait_s[run.final].max())) for run in runs]
    ratio = runs[1].wait_s.max() / runs[0].wait_s.max()
    assert ratio > 2
    rows = re.findall(r"<tr data-k.*?</tr>", page)
    assert [re.sub("<.*?>", "|", row).count("▲") for row in rows] == [int("saf<" in row) for row in rows]
    for row in rows:
        assert any(words.replace(" ", "\u00a0") in row for words in longest)
    assert f"▲ {ratio:.1f} times" in page
