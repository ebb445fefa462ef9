import pytest

pytest.importorskip("pyarrow")

from batfill_lab.campaigns.grids import campaign_comparisons, campaign_parts
from batfill_lab.campaigns.running import Done
from batfill_lab.campaigns.store import Store, open_store, overview
from command import json_result
from report_runs import campaign_row as row


@pytest.fixture
def campaign(tmp_path):
    """A function that leaves these rows in a folder, as a campaign that is under way does."""

    def store(*rows):
        with open_store(tmp_path / "study") as opened:
            opened.add(rows)
        return tmp_path / "study"

    return store


def test_choices_are_compared_on_the_windows_that_all_of_them_ran_on(campaign):
    folder = campaign(
        row("fcfs", 0, 4.0), row("fcfs", 1, 6.0), row("saf", 1, 5.0), row("saf", 0, 1.0), row("saf", 2, 9.0)
    )
    (comparison,) = campaign_parts(folder).comparisons
    assert comparison.names == ("fcfs", "saf")
    assert comparison.bsld.tolist() == [[4, 6], [1, 5]]
    assert comparison.wait_s.tolist() == [[40, 60], [10, 50]]
    (d,) = comparison.differences(seed=0)
    assert (d.bsld.value, d.better) == (-2, 1)


def test_a_choice_with_several_seeds_counts_with_its_mean(campaign):
    folder = campaign(
        row("fcfs", None, 4.0),
        row("fcfs", None, 1.0, knowledge="forest", seed=1),
        row("fcfs", None, 3.0, knowledge="forest", seed=2),
    )
    (comparison,) = campaign_comparisons(folder)
    assert comparison.bsld.tolist() == [[4], [2]]


def test_choices_that_rejected_other_numbers_of_jobs_are_compared_with_a_warning(campaign):
    rows = [row(policy, window, 1.0 + window) for policy in ("fcfs", "saf") for window in (0, 1)]
    assert not campaign_comparisons(campaign(*rows))[0].warnings
    folder = campaign(row("spf", 0, 1.0, rejected=9), row("spf", 1, 9.0))
    choices = overview(Store(folder).rows())
    head, *lines, _ = Done(folder, 6, 0, 1.0, choices, ()).as_text().splitlines()
    assert "runs  rejected  mean wait" in head
    assert [line.split()[3] for line in lines] == ["0", "0", "9"]
    assert "rejected" not in Done(folder, 6, 0, 1.0, choices[:2], ()).as_text().splitlines()[0]
    (comparison,) = campaign_comparisons(folder)
    assert comparison.warnings == (
        "choices rejected different numbers of jobs, which are in no mean: most 9 under spf, fewest 0 under fcfs",
    )


def test_the_seeds_of_resamplings_are_different_jobs(campaign):
    folder = campaign(
        *(
            row(policy, None, bsld + seed, seed=seed, sample=0)
            for policy, bsld in (("fcfs", 5), ("saf", 3))
            for seed in (1, 2)
        )
    )
    (comparison,) = campaign_comparisons(folder)
    assert comparison.bsld.tolist() == [[6, 7], [4, 5]]


def test_the_page_shows_a_campaign(campaign):
    folder = campaign(*(row(policy, window, window + 1.0) for policy in ("fcfs", "saf") for window in range(3)))
    page, *figures = json_result("report", folder, "--figures", "svg")
    assert page == str(folder / "report.html")
    text = (folder / "report.html").read_text()
    assert "<h1>log.swf: 2 choices compared</h1>" in text
    assert "Cannot tell: 3\u00a0pieces are too few." in text
    assert '<th scope=row>Smallest area first<span class="sub">saf</span></th>' in text
    assert str(folder / "pieces-bsld.svg") in figures
